/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the system collector: attaches bpf/system.bpf.c while L3 is on, one hook after the other, and turns its
 * sums into rows of `system_sums` once a second. Hooks that this kernel lacks are named in the status; the others work.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include "analyzers/base/text.h"
#include "bpf/system.h"
#include "daemon/base/log.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/store/store.h"
#include "system.skel.h"

static const struct {
	const char *word;
	bool has_time, has_bytes;
} system_causes[RT_SYSTEM_CAUSES] = {
	[RT_SYSTEM_RECLAIM] = {"reclaim", true, false},
	[RT_SYSTEM_LIMIT_RECLAIM] = {"reclaim for a memory limit", true, false},
	[RT_SYSTEM_COMPACTION] = {"compaction", true, false},
	[RT_SYSTEM_IRQ] = {"interrupts", true, false},
	[RT_SYSTEM_SOFTIRQ] = {"softirqs", true, false},
	[RT_SYSTEM_BLOCK_READ] = {"block reads", true, true},
	[RT_SYSTEM_BLOCK_WRITE] = {"block writes", true, true},
	[RT_SYSTEM_RETRANSMIT] = {"TCP retransmits", false, false},
	[RT_SYSTEM_RESET] = {"TCP resets", false, false},
	[RT_SYSTEM_FENCE] = {"fence waits", true, false},
	[RT_SYSTEM_MINOR_FAULT] = {"minor page faults", false, false},
	[RT_SYSTEM_MIGRATION] = {"CPU migrations", false, false},
	[RT_SYSTEM_NODE] = {"node migrations", false, false},
};

/* Programs that do the same, the first that attaches. Their names in the object. optional: others see what it would. */
static const struct {
	const char *program, *otherwise;
	bool optional;
} system_hooks[] = {
	{"mm_vmscan_direct_reclaim_begin", NULL, false},
	{"mm_vmscan_direct_reclaim_end", NULL, false},
	{"mm_vmscan_memcg_reclaim_begin", NULL, false},
	{"mm_vmscan_memcg_reclaim_end", NULL, false},
	{"mm_compaction_begin", NULL, false},
	{"mm_compaction_end", NULL, false},
	{"dma_fence_wait_start", NULL, false},
	{"dma_fence_wait_end", NULL, false},
	{"irq_handler_entry", NULL, false},
	{"irq_handler_exit", NULL, false},
	{"local_timer_entry", NULL, true}, /* x86 alone, as those that follow */
	{"local_timer_exit", NULL, true},
	{"call_function_entry", NULL, true},
	{"call_function_exit", NULL, true},
	{"call_function_single_entry", NULL, true},
	{"call_function_single_exit", NULL, true},
	{"reschedule_entry", NULL, true},
	{"reschedule_exit", NULL, true},
	{"softirq_entry", NULL, false},
	{"softirq_exit", NULL, false},
	/* The old one first: it reads an argument that newer kernels do not have, and is refused there. */
	{"block_bio_queue_old", "block_bio_queue", false},
	{"block_bio_complete", NULL, false},
	{"block_rq_complete", NULL, false},
	{"sock_send_length", NULL, true}, /* 6.3; before it, sockets that the rank connected are known */
	{"inet_sock_set_state", NULL, false},
	{"tcp_retransmit_skb", NULL, false},
	{"tcp_send_reset", NULL, false},
	{"tcp_receive_reset", NULL, false},
};

#define SYSTEM_NAME_BYTES 32 /* as the kernel's DISK_NAME_LEN */
#define SYSTEM_NAMES_MAX 8   /* kept of a round; the others are read for each row */

struct system_name {
	uint32_t device;
	char text[SYSTEM_NAME_BYTES];
};

struct system {
	struct context *context;
	struct system_bpf *skeleton; /* NULL if the kernel refuses it */
	struct bpf_link *link[ARRAY_SIZE(system_hooks)];
	bool attached;
	unsigned hooks;
	uint32_t slots;
	uint64_t events, sums_ns;    /* sums_ns: when sums were read last */
	struct rt_system_sums *sums; /* as read last, by slot */
	const char *devices;	     /* folder with a link for each device's number */
	struct system_name name[SYSTEM_NAMES_MAX];
	size_t names;
	char reason[128];
	char missing[160]; /* hooks, separated by ", " */
};

static int collect_system_load(struct system *system)
{
	struct system_bpf *skeleton = system_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	r = kernel_load(system->context->kernel, skeleton->skeleton);
	if (r < 0) {
		system_bpf__destroy(skeleton);
		return r;
	}
	system->skeleton = skeleton;
	return 0;
}

/* "nvme0n1"; its number where it has no name, as that of a device that is gone. */
static void collect_system_read_name(const struct system *system, struct system_name *ret)
{
	uint32_t major = ret->device >> RT_SYSTEM_MINOR_BITS, minor = ret->device & ((1U << RT_SYSTEM_MINOR_BITS) - 1);
	char path[128], to[512];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u:%u", system->devices, major, minor);
	n = readlink(path, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	name = strrchr(to, '/');
	if (name && name[1])
		(void)copy_text(ret->text, sizeof(ret->text), name + 1);
	else
		snprintf(ret->text, sizeof(ret->text), "%u:%u", major, minor);
	text_clean(ret->text);
}

/* Numbers are given to other devices: names are those of a round. */
static struct system_name collect_system_name(struct system *system, uint32_t device)
{
	struct system_name ret = {.device = device};

	for (size_t i = 0; i < system->names; i++)
		if (system->name[i].device == device)
			return system->name[i];
	collect_system_read_name(system, &ret);
	if (system->names < SYSTEM_NAMES_MAX)
		system->name[system->names++] = ret;
	return ret;
}

/* Sums of a rank, as read. */
struct system_round {
	const struct rank *rank;
	uint64_t now_ns;
};

static void collect_system_put(struct system *system, const struct system_round *round, unsigned cause,
	const struct rt_system_sum *last, const struct rt_system_sum *sum, const char *device)
{
	struct store *store = system->context->store;
	const struct row_system_sums row = {
		.rank = field_int(round->rank->env.rank),
		.cause = field_text(system_causes[cause].word),
		.start_ns = field_time(store_utc_ns(store, system->sums_ns ? system->sums_ns : round->now_ns)),
		.duration_ns = field_duration(system->sums_ns ? round->now_ns - system->sums_ns : 0),
		.time_ns = field_duration_if(system_causes[cause].has_time, sum->time_ns - last->time_ns),
		.count = field_int((int64_t)(sum->count - last->count)),
		.bytes = field_int_if(system_causes[cause].has_bytes, (int64_t)(sum->bytes - last->bytes)),
		.device = field_text_if(device),
		.instance = field_int(round->rank->instance),
	};

	store_put_system_sums(store, &row);
	if (system_causes[cause].has_time)
		online_system_add(system->context->findings, round->rank, round->now_ns, system_causes[cause].word,
			device, sum->time_ns - last->time_ns);
	system->events++;
}

static void collect_system_put_all(
	struct system *system, const struct system_round *round, const struct rt_system_sums *now)
{
	const struct rt_system_sums *last = &system->sums[round->rank->slot];

	for (unsigned cause = 0; cause < RT_SYSTEM_CAUSES; cause++)
		if (now->of[cause].count != last->of[cause].count)
			collect_system_put(system, round, cause, &last->of[cause], &now->of[cause], "");
	for (unsigned i = 0; i < 2 * RT_SYSTEM_DEVICES; i++) {
		const struct rt_system_device *device = &now->device[i / 2];
		const struct rt_system_sum *was = &last->device[i / 2].of[i % 2], *sum = &device->of[i % 2];

		if (sum->count != was->count)
			collect_system_put(system, round, i % 2 ? RT_SYSTEM_BLOCK_WRITE : RT_SYSTEM_BLOCK_READ, was,
				sum, collect_system_name(system, device->device).text);
	}
}

/* What was counted since the last time; rank NULL: only the baseline is updated. */
static void collect_system_take(struct system *system, uint32_t slot, const struct rank *rank, uint64_t now_ns)
{
	struct rt_system_sums now;

	if (slot >= system->slots || !kernel_system_sums(system->context->kernel, slot, &now))
		return;
	if (rank)
		collect_system_put_all(system, &(struct system_round){rank, now_ns}, &now);
	system->sums[slot] = now;
}

struct system_taking {
	struct system *system;
	uint64_t now_ns;
};

static void collect_system_take_rank(void *arg, const struct rank *rank)
{
	const struct system_taking *taking = arg;

	if (rank->role != RANK_ROLE_RANK || rank->ended)
		return;
	online_system_watch(taking->system->context->findings, rank, taking->now_ns);
	collect_system_take(taking->system, rank->slot, rank, taking->now_ns);
}

static void collect_system_take_all(struct system *system, uint64_t now_ns)
{
	system->names = 0;
	ranks_each(system->context->ranks, collect_system_take_rank, &(struct system_taking){system, now_ns});
	system->sums_ns = now_ns;
}

static struct bpf_link *collect_system_attach_one(struct system *system, const char *name)
{
	struct bpf_program *program = name ? bpf_object__find_program_by_name(system->skeleton->obj, name) : NULL;

	return program ? bpf_program__attach(program) : NULL;
}

static void collect_system_attach(struct system *system)
{
	size_t used = 0;

	system->hooks = 0;
	system->missing[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(system_hooks); i++) {
		system->link[i] = collect_system_attach_one(system, system_hooks[i].program);
		if (!system->link[i])
			system->link[i] = collect_system_attach_one(system, system_hooks[i].otherwise);
		system->hooks += system->link[i] != NULL;
		if (!system->link[i] && !system_hooks[i].optional && used < sizeof(system->missing))
			used += (size_t)snprintf(system->missing + used, sizeof(system->missing) - used, "%s%s",
				used ? ", " : "", system_hooks[i].program);
	}
}

static void collect_system_detach(struct system *system)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_hooks); i++) {
		bpf_link__destroy(system->link[i]);
		system->link[i] = NULL;
	}
	system->hooks = 0;
}

static int system_open(struct context *context, void **ret_state)
{
	struct system *system = calloc(1, sizeof(*system));
	int r;

	if (!system)
		return -ENOMEM;
	system->context = context;
	system->devices = "/sys/dev/block";
	system->slots = (uint32_t)context->config.ranks_max;
	system->sums = calloc(system->slots, sizeof(*system->sums));
	if (!system->sums) {
		free(system);
		return -ENOMEM;
	}
	r = collect_system_load(system);
	if (r < 0) {
		snprintf(system->reason, sizeof(system->reason), "the kernel refuses the program (%s)", strerror(-r));
		log_notice("system", "%s; what the kernel takes from ranks is not recorded", system->reason);
	} else {
		/* For a moment: which hooks the kernel lacks is known before L3 is on. */
		collect_system_attach(system);
		collect_system_detach(system);
	}
	*ret_state = system;
	return 0;
}

static int system_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct system *system = state;

	if (level != LEVEL_L3)
		return 0;
	if (!system->skeleton) {
		snprintf(report, report_size, "nothing of the kernel's own work: %s", system->reason);
		return 0; /* the rest of L3 is there */
	}
	if (on && !system->attached) {
		collect_system_attach(system);
		/* What was counted while it was off, by no one, is none. */
		system->sums_ns = monotonic_ns();
	} else if (!on && system->attached) {
		collect_system_detach(system);
		collect_system_take_all(system, monotonic_ns());
	}
	system->attached = on;
	if (on)
		snprintf(report, report_size, "the kernel's own work at %u tracepoints%s%s", system->hooks,
			system->missing[0] ? ", without " : "", system->missing);
	else
		snprintf(report, report_size, "the kernel's own work detached");
	return 0;
}

/* A slot's counts go on from those of the rank before. */
static void system_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct system *system = state;

	if (system->attached && rank->role == RANK_ROLE_RANK && change != RANK_CHANGED)
		collect_system_take(system, rank->slot, change == RANK_ENDED ? rank : NULL, monotonic_ns());
}

static void system_tick(void *state, uint64_t now_ns)
{
	struct system *system = state;

	if (system->attached && now_ns >= system->sums_ns + NSEC_PER_SEC)
		collect_system_take_all(system, now_ns);
}

static void system_status(void *state, struct collector_status *ret)
{
	const struct system *system = state;

	ret->probes_attached = system->hooks;
	ret->events = system->events;
	if (system->reason[0])
		ret->lacks = "what its program needs";
	if (system->reason[0])
		collector_note(ret, "nothing is recorded: %s", system->reason);
	if (system->missing[0])
		ret->lacks = system->missing;
	if (system->attached && system->missing[0])
		collector_note(ret, "this kernel lacks %s: what these show is not recorded", system->missing);
}

static void system_close(void *state)
{
	struct system *system = state;

	if (!system)
		return;
	if (system->skeleton)
		collect_system_detach(system);
	system_bpf__destroy(system->skeleton);
	free(system->sums);
	free(system);
}

const struct collector collector_system = {
	.name = "system",
	.summary = "reclaim, interrupts, block devices, TCP, fences of devices",
	.levels = LEVEL_BIT(LEVEL_L3),
	.open = system_open,
	.level = system_level,
	.rank = system_rank,
	.tick = system_tick,
	.status = system_status,
	.close = system_close,
};
