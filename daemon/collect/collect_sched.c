/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the off-CPU collector: loads bpf/sched.bpf.c once, attaches it to sched_switch and sched_waking while L3
 * is on, and turns its records into rows of `offcpu` and `offcpu_sums`. Sums still in the kernel at level off or after
 * a rank's end are fetched, so nothing recorded is lost.
 *
 * Records of processes that are no longer ranks are counted, not stored: they belong to no row.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <sys/syscall.h>

#include "bpf/sched.h"
#include "daemon/base/syscall_names.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"
#include "sched.skel.h"

#define WALK_ENTRIES 1024u /* read by one system call: 124 KiB */
#define ENDED_MAX 64	   /* ranks that end within a tick; more are walked for at once */

/* A rank that ended since the last walk. */
struct sched_ended {
	uint32_t pid;
	int32_t rank;
	int64_t instance;
};

struct sched {
	struct context *context;
	struct sched_bpf *skeleton;   /* NULL if the kernel refuses it */
	struct bpf_link *link;	      /* to sched_switch; NULL while off */
	struct bpf_link *waking_link; /* NULL while off, or if this kernel refuses it */
	bool run_delay_known;
	bool no_wakers; /* sched_waking cannot be attached to */
	bool sweep;	/* a rank ended: its last switches may have left entries */
	struct sched_ended ended[ENDED_MAX];
	size_t ended_count;
	uint64_t events;
	uint64_t not_ranks; /* records of processes that are not ranks */
	char reason[128];   /* why there is no skeleton */
};

static void put_sum(
	struct sched *sched, int32_t rank, int64_t instance, uint32_t thread_id, const struct rt_offcpu_sum_event *sum)
{
	char name[RT_COMM_SIZE];

	copy_text(name, sizeof(name), sum->thread_name);
	const struct row_offcpu_sums row = {
		.rank = field_int(rank),
		.thread_id = field_int(thread_id),
		.thread_name = field_text(name),
		.start_ns = field_time(store_utc_ns(sched->context->store, sum->start_ns)),
		.duration_ns = field_duration(sum->duration_ns),
		.run_delay_ns = field_duration(sum->run_delay_ns),
		.count = field_int(sum->count),
		.instance = field_int(instance),
	};

	store_put_offcpu_sums(sched->context->store, &row);
	sched->events++;
}

/* System calls by what their threads wait for. */
static const struct {
	long number;
	const char *word;
} sched_waits[] = {
	{SYS_futex, "futex"},
	{SYS_read, "read"},
	{SYS_pread64, "read"},
	{SYS_readv, "read"},
	{SYS_preadv, "read"},
	{SYS_write, "write"},
	{SYS_pwrite64, "write"},
	{SYS_writev, "write"},
	{SYS_pwritev, "write"},
	{SYS_fsync, "sync"},
	{SYS_fdatasync, "sync"},
	{SYS_sync_file_range, "sync"},
	{SYS_msync, "sync"},
	{SYS_recvfrom, "socket"},
	{SYS_recvmsg, "socket"},
	{SYS_sendto, "socket"},
	{SYS_sendmsg, "socket"},
	{SYS_accept, "socket"},
	{SYS_accept4, "socket"},
	{SYS_connect, "socket"},
	{SYS_ppoll, "poll"},
	{SYS_pselect6, "poll"},
	{SYS_epoll_pwait, "poll"},
#ifdef SYS_poll
	{SYS_poll, "poll"},
	{SYS_select, "poll"},
	{SYS_epoll_wait, "poll"},
#endif
	{SYS_nanosleep, "sleep"},
	{SYS_clock_nanosleep, "sleep"},
	{SYS_wait4, "process"},
	{SYS_waitid, "process"},
	{SYS_ioctl, "device"},
};

/* NULL: nothing, or not known. */
static const char *collect_sched_waits_on(int32_t waits_on, char text[SYSCALL_NAME_BYTES])
{
	if (waits_on == RT_WAITS_DISK)
		return "disk";
	if (waits_on == RT_WAITS_FAULT)
		return "page fault";
	if (waits_on < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(sched_waits); i++)
		if (sched_waits[i].number == waits_on)
			return sched_waits[i].word;
	return syscall_name((uint32_t)waits_on, text);
}

/* NULL: nobody, or not known. */
static const char *collect_sched_waker(uint32_t waker, const char *task)
{
	if (waker == RT_WAKER_TASK)
		return task;
	return waker == RT_WAKER_INTERRUPT ? "interrupt" : NULL;
}

static void put_interval(struct sched *sched, const struct rank *rank, const struct rt_offcpu_event *interval)
{
	char thread[RT_COMM_SIZE], next[RT_COMM_SIZE], previous[RT_COMM_SIZE], waker[RT_COMM_SIZE],
		waits[SYSCALL_NAME_BYTES];

	copy_text(thread, sizeof(thread), interval->thread_name);
	copy_text(next, sizeof(next), interval->next_name);
	copy_text(previous, sizeof(previous), interval->previous_name);
	copy_text(waker, sizeof(waker), interval->waker_name);
	const struct row_offcpu row = {
		.rank = field_int(rank->env.rank),
		.thread_id = field_int(interval->event.thread_id),
		.thread_name = field_text(thread),
		.start_ns = field_time(store_utc_ns(sched->context->store, interval->start_ns)),
		.duration_ns = field_duration(interval->duration_ns),
		.run_delay_ns = field_duration(interval->run_delay_ns),
		.next_pid = field_int(interval->next_pid),
		.next_name = field_text(next),
		.previous_pid = field_int(interval->previous_pid),
		.previous_name = field_text(previous),
		.waits_on = field_text_if(collect_sched_waits_on(interval->waits_on, waits)),
		.stack = field_int_if(interval->stack, (int64_t)interval->stack),
		.waker_pid = field_int_if(interval->waker == RT_WAKER_TASK, interval->waker_pid),
		.waker_name = field_text_if(collect_sched_waker(interval->waker, waker)),
		.instance = field_int(rank->instance),
	};

	store_put_offcpu(sched->context->store, &row);
	sched->events++;
	online_wait(sched->context->findings, rank->slot, rank->instance,
		&(struct online_wait_info){interval->event.thread_id, interval->start_ns, interval->duration_ns,
			interval->run_delay_ns, interval->previous_pid, previous});
}

/* None of the scheduler, and no address that the kernel has no name for. */
static bool collect_sched_names(const char *function)
{
	static const char *const inner[] = {"__schedule", "schedule", "io_schedule", "0x"};

	for (size_t i = 0; i < ARRAY_SIZE(inner); i++)
		if (strncmp(function, inner[i], strlen(inner[i])) == 0)
			return false;
	return true;
}

/* A frame a line, the innermost last. */
static void collect_sched_put_stack(struct sched *sched, const struct rt_offcpu_stack_event *stack)
{
	char frames[RT_OFFCPU_STACK_MAX * (sizeof("kernel ") + RT_OFFCPU_NAME_BYTES)], name[RT_OFFCPU_NAME_BYTES];
	size_t used = 0;

	frames[0] = 0;
	for (size_t i = RT_OFFCPU_STACK_MAX; i-- > 0;) {
		memcpy(name, stack->name[i], sizeof(name));
		name[sizeof(name) - 1] = 0;
		if (name[0] && collect_sched_names(name))
			used += (size_t)snprintf(
				frames + used, sizeof(frames) - used, "%skernel %s", used ? "\n" : "", name);
	}
	store_put_call_stacks(sched->context->store,
		&(struct row_call_stacks){
			.id = field_int((int64_t)stack->stack), .frames = field_text(frames), .cut = field_int(0)});
}

/* Sent again to whoever turns the level on next: the store may have forgotten them. Nothing adds any meanwhile. */
static void collect_sched_forget_stacks(const struct sched *sched)
{
	int map = bpf_map__fd(sched->skeleton->maps.offcpu_stacks);
	uint32_t bound = bpf_map__max_entries(sched->skeleton->maps.offcpu_stacks);
	uint64_t stack;

	for (uint32_t i = 0; i < bound && bpf_map_get_next_key(map, NULL, &stack) == 0; i++)
		(void)bpf_map_delete_elem(map, &stack);
}

/* Removes an entry and returns it. Kernels before 5.14 cannot do both at once. */
static int collect_sched_take_thread(int map, uint32_t thread_id, struct rt_offcpu_thread *ret)
{
	if (bpf_map_lookup_and_delete_elem(map, &thread_id, ret) == 0)
		return 0;
	if (errno == ENOENT)
		return -ENOENT;
	if (bpf_map_lookup_elem(map, &thread_id, ret) < 0)
		return -errno;
	(void)bpf_map_delete_elem(map, &thread_id);
	return 0;
}

static const struct sched_ended *sched_ended_find(const struct sched *sched, uint32_t pid)
{
	for (size_t i = sched->ended_count; i-- > 0;)
		if (sched->ended[i].pid == pid)
			return &sched->ended[i];
	return NULL;
}

/* Of a process that has ended, or (all) of any. */
static void sched_take_entry(struct sched *sched, uint32_t thread_id, uint32_t pid, bool all)
{
	const struct rank *rank = ranks_by_pid(sched->context->ranks, pid);
	const struct sched_ended *ended = rank ? NULL : sched_ended_find(sched, pid);
	struct rt_offcpu_thread thread;
	struct rt_offcpu_sum_event sum = {0};

	if ((rank && !all) ||
		collect_sched_take_thread(bpf_map__fd(sched->skeleton->maps.offcpu_threads), thread_id, &thread) < 0)
		return;
	kernel_release(sched->context->kernel, thread.pid, RT_HELD_THREADS);
	if (thread.sum_count == 0)
		return;
	if ((!rank && !ended) || thread.pid != pid) {
		sched->not_ranks++;
		return;
	}
	sum.start_ns = thread.sum_start_ns;
	sum.duration_ns = thread.sum_duration_ns;
	sum.run_delay_ns = thread.sum_run_delay_ns;
	sum.count = thread.sum_count;
	memcpy(sum.thread_name, thread.thread_name, sizeof(sum.thread_name));
	put_sum(sched, rank ? rank->env.rank : ended->rank, rank ? rank->instance : ended->instance, thread_id, &sum);
}

/* Many entries a system call. Kernels before 5.6 cannot: -EINVAL. */
static int sched_walk_batches(struct sched *sched, bool all)
{
	_cleanup_free_ struct rt_offcpu_thread *thread = calloc(WALK_ENTRIES, sizeof(*thread));
	_cleanup_free_ uint32_t *thread_id = calloc(WALK_ENTRIES, sizeof(*thread_id));
	int map = bpf_map__fd(sched->skeleton->maps.offcpu_threads);
	uint32_t bucket, *from = NULL;

	if (!thread || !thread_id)
		return -ENOMEM;
	for (uint32_t read = 0; read <= LIMIT_OFFCPU_THREADS;) {
		uint32_t count = WALK_ENTRIES;
		int r = bpf_map_lookup_batch(map, from, &bucket, thread_id, thread, &count, NULL) < 0 ? -errno : 0;

		if (r < 0 && r != -ENOENT) /* ENOENT: the last ones */
			return r;
		for (uint32_t i = 0; i < count; i++)
			sched_take_entry(sched, thread_id[i], thread[i].pid, all);
		if (r < 0)
			break;
		read += count;
		from = &bucket;
	}
	return 0;
}

/* One by one. The walk is bounded: concurrent changes may restart it. */
static void sched_walk_entries(struct sched *sched, bool all)
{
	int map = bpf_map__fd(sched->skeleton->maps.offcpu_threads);
	uint32_t key, next;
	bool more = bpf_map_get_next_key(map, NULL, &next) == 0;

	for (uint32_t i = 0; more && i < 2 * LIMIT_OFFCPU_THREADS; i++) {
		struct rt_offcpu_thread thread;

		key = next;
		more = bpf_map_get_next_key(map, &key, &next) == 0;
		if (bpf_map_lookup_elem(map, &key, &thread) == 0)
			sched_take_entry(sched, key, thread.pid, all);
	}
}

/* Fetches and removes all entries, or those of processes that are no longer ranks. */
static void take_sums(struct sched *sched, bool all)
{
	if (sched_walk_batches(sched, all) == -EINVAL)
		sched_walk_entries(sched, all);
	sched->ended_count = 0;
}

/* Whether the kernel has the fields behind run_delay_ns; the program checks with bpf_core_field_exists. */
static bool btf_has_member(const struct btf *btf, const char *type, const char *member)
{
	int32_t id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (unsigned i = 0; t && i < btf_vlen(t); i++)
		if (streq(btf__name_by_offset(btf, btf_members(t)[i].name_off), member))
			return true;
	return false;
}

static bool run_delay_is_known(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool known = btf && btf_has_member(btf, "sched_info", "run_delay") && btf_has_member(btf, "cfs_rq", "rq");

	btf__free(btf);
	return known;
}

static int collect_sched_load(struct sched *sched)
{
	const struct kernel_features *features = kernel_features(sched->context->kernel);
	struct sched_bpf *skeleton;
	int r;

	skeleton = sched_bpf__open();
	if (!skeleton)
		return -errno;
	bpf_program__set_autoload(skeleton->progs.sched_switch_btf, features->tp_btf);
	bpf_program__set_autoload(skeleton->progs.sched_switch_raw, !features->tp_btf);
	bpf_program__set_autoload(skeleton->progs.sched_waking_btf, features->tp_btf);
	bpf_program__set_autoload(skeleton->progs.sched_waking_raw, !features->tp_btf);
	skeleton->rodata->threshold_ns = sched->context->config.offcpu_threshold_ns;
	r = bpf_map__set_max_entries(skeleton->maps.offcpu_threads, LIMIT_OFFCPU_THREADS);
	if (r == 0)
		r = kernel_load(sched->context->kernel, skeleton->skeleton);
	if (r < 0) {
		sched_bpf__destroy(skeleton);
		return r;
	}
	sched->skeleton = skeleton;
	return 0;
}

/* The form of a program that was loaded. */
static struct bpf_link *collect_sched_attach(struct bpf_program *btf, struct bpf_program *raw)
{
	return bpf_program__attach(bpf_program__autoload(btf) ? btf : raw);
}

static int sched_open(struct context *context, void **ret_state)
{
	struct sched *sched = calloc(1, sizeof(*sched));
	int r;

	if (!sched)
		return -ENOMEM;
	sched->context = context;
	sched->run_delay_known = run_delay_is_known();
	r = collect_sched_load(sched);
	if (r < 0) {
		snprintf(sched->reason, sizeof(sched->reason), "the kernel refuses the off-CPU program (%s)",
			strerror(-r));
		log_warning("sched", "%s; no off-CPU times are recorded", sched->reason);
	}
	*ret_state = sched;
	return 0;
}

static int level_off(struct sched *sched, char *report, size_t report_size)
{
	if (sched->link) {
		bpf_link__destroy(sched->waking_link);
		bpf_link__destroy(sched->link);
		sched->waking_link = sched->link = NULL;
		take_sums(sched, true);
		collect_sched_forget_stacks(sched);
	}
	snprintf(report, report_size, "off-CPU probe detached");
	return 0;
}

static int sched_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct sched *sched = state;
	int r;

	if (level != LEVEL_L3)
		return 0;
	if (!sched->skeleton) {
		snprintf(report, report_size, "no off-CPU times: %s", sched->reason);
		return on ? -EOPNOTSUPP : 0;
	}
	if (!on)
		return level_off(sched, report, report_size);
	if (!sched->link) {
		sched->link = collect_sched_attach(
			sched->skeleton->progs.sched_switch_btf, sched->skeleton->progs.sched_switch_raw);
		if (!sched->link) {
			r = -errno;
			snprintf(report, report_size, "no off-CPU times: cannot attach to sched_switch (%s)",
				strerror(-r));
			return r;
		}
		sched->waking_link = collect_sched_attach(
			sched->skeleton->progs.sched_waking_btf, sched->skeleton->progs.sched_waking_raw);
		sched->no_wakers = !sched->waking_link;
	}
	snprintf(report, report_size, "off-CPU at %s, threshold %g ms",
		sched->waking_link ? "2 tracepoints" : "1 tracepoint, without sched_waking",
		(double)sched->skeleton->rodata->threshold_ns / (double)NSEC_PER_MSEC);
	return 0;
}

static void sched_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct sched *sched = state;

	if (!sched->link)
		return;
	sched->sweep |= change == RANK_CHANGED && rank->role != RANK_ROLE_RANK;
	if (change != RANK_ENDED || rank->role != RANK_ROLE_RANK)
		return;
	if (sched->ended_count == ENDED_MAX)
		take_sums(sched, false);
	sched->ended[sched->ended_count++] = (struct sched_ended){rank->pid, rank->env.rank, rank->instance};
	sched->sweep = true;
}

static void sched_put_live_sum(
	struct sched *sched, const struct rank *rank, uint32_t thread_id, const struct rt_offcpu_sum_event *sum)
{
	put_sum(sched, rank->env.rank, rank->instance, thread_id, sum);
	online_wait(sched->context->findings, rank->slot, rank->instance,
		&(struct online_wait_info){thread_id, sum->start_ns, NSEC_PER_SEC, sum->run_delay_ns, 0, ""});
}

static void sched_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	struct sched *sched = state;
	const struct rank *rank = ranks_by_pid(sched->context->ranks, event->pid);

	if (event->kind == RT_KIND_OFFCPU_STACK && size_bytes >= sizeof(struct rt_offcpu_stack_event)) {
		collect_sched_put_stack(sched, (const struct rt_offcpu_stack_event *)event);
		return;
	}
	if (!rank) {
		sched->not_ranks++;
		return;
	}
	if (event->kind == RT_KIND_OFFCPU && size_bytes >= sizeof(struct rt_offcpu_event))
		put_interval(sched, rank, (const struct rt_offcpu_event *)event);
	else if (event->kind == RT_KIND_OFFCPU_SUM && size_bytes >= sizeof(struct rt_offcpu_sum_event))
		sched_put_live_sum(sched, rank, event->thread_id, (const struct rt_offcpu_sum_event *)event);
}

/* Once for all ranks that ended since the last tick: each has entries among those of all others. */
static void sched_tick(void *state, uint64_t now_ns)
{
	struct sched *sched = state;

	if (!sched->sweep)
		return;
	sched->sweep = false;
	if (sched->link)
		take_sums(sched, false);
}

static void sched_status(void *state, struct collector_status *ret)
{
	const struct sched *sched = state;
	const struct kernel *kernel = sched->context->kernel;

	ret->probes_attached = (sched->link != NULL) + (sched->waking_link != NULL);
	ret->events = sched->events;
	ret->drops = kernel_drops(kernel, RT_KIND_OFFCPU) + kernel_drops(kernel, RT_KIND_OFFCPU_SUM) +
		     kernel_drops(kernel, RT_KIND_OFFCPU_STACK) + sched->not_ranks;
	if (!sched->skeleton) {
		collector_note(ret, "no off-CPU times: %s", sched->reason);
		return;
	}
	if (!sched->run_delay_known)
		collector_note(ret, "run_delay_ns is always 0: this kernel has no readable run delay");
	if (sched->no_wakers)
		collector_note(
			ret, "waker_pid and waker_name are always NULL: this kernel has no tracepoint sched_waking");
	if (ret->drops > sched->not_ranks)
		collector_note(ret, "%" PRIu64 " off-CPU intervals lost: too many threads, or ring full",
			ret->drops - sched->not_ranks);
	if (sched->not_ranks)
		collector_note(ret, "%" PRIu64 " of the drops are of processes that had just ended as ranks",
			sched->not_ranks);
}

static void sched_close(void *state)
{
	struct sched *sched = state;
	char report[COLLECTOR_NOTE_BYTES];

	if (!sched)
		return;
	if (sched->skeleton)
		level_off(sched, report, sizeof(report));
	sched_bpf__destroy(sched->skeleton);
	free(sched);
}

const struct collector collector_sched = {
	.name = "sched",
	.summary = "threads off the CPU, their page faults and moves between CPUs",
	.levels = LEVEL_BIT(LEVEL_L3),
	.kinds = 1u << RT_KIND_OFFCPU | 1u << RT_KIND_OFFCPU_SUM | 1u << RT_KIND_OFFCPU_STACK,
	.open = sched_open,
	.level = sched_level,
	.rank = sched_rank,
	.event = sched_event,
	.tick = sched_tick,
	.status = sched_status,
	.close = sched_close,
};
