/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times: detects ranks with a marker library (bpf/marker/) mapped, attaches bpf/marker.bpf.c to its USDT probe
 * while L1 is on, and passes its records to coll/. With L1 off nothing is attached or scanned. A rank that uses NCCL
 * without the library is named in a note: its rows say `host`.
 */
#include <bpf/libbpf.h>
#include <inttypes.h>

#include "bpf/marker.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"
#include "daemon/collect/collect_internal.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/probes/facts.h"
#include "daemon/probes/libraries.h"
#include "daemon/kernel/uprobe.h"
#include "marker.skel.h"

#define MARKER_LIBRARY "libnccl-profiler-ranktrace.so"
#define NCCL_LIBRARY "libnccl.so"
#define SCAN_FIRST_NS (500 * NSEC_PER_MSEC)
#define SCAN_EAGER_NS (60 * NSEC_PER_SEC) /* NCCL loads its plugin with the first communicator */
#define SCAN_SHARE 20			  /* a rank's scans use at most 1/SCAN_SHARE of a CPU */
#define NCCL_PATIENCE_NS (10 * NSEC_PER_SEC)

struct watch {
	uint32_t pid, uid;
	int64_t instance; /* 0: free */
	uint64_t since_ns, next_scan_ns;
	uint64_t nccl_since_ns; /* mapped since, as observed; 0: not */
	bool has_library;
	struct marker_process *process; /* NULL before its first report */
};

struct marker {
	struct context *context;
	struct marker_bpf *skeleton; /* NULL if the kernel refuses it */
	bool on;
	uint64_t since_ns;	     /* turned on at; older records are from a probe being detached */
	struct libraries *libraries; /* NULL while off */
	struct probe row;	     /* the library's probe */
	struct probe_table table;    /* of it */
	uint64_t events;
	uint64_t not_ranks;	    /* events of processes that are not ranks */
	struct marker_counts ended; /* of ended ranks */
	size_t watches;		    /* used so far, of ranks_max */
	struct watch *watch;
	char reason[COLLECTOR_NOTE_BYTES];
};

/* Registers read by marker.bpf.c (slots of struct pt_regs), in order of the probe's operands. */
static const uint8_t operand_slot[][4] = {
	[ELF_MACHINE_X86_64] = {14, 13, 12, 11},
	[ELF_MACHINE_AARCH64] = {0, 1, 2, 3},
};

static bool collect_marker_operands_match(enum elf_machine machine, const struct fact_site *site)
{
	if (site->operands != 4)
		return false;
	for (unsigned i = 0; i < 4; i++)
		if (site->operand[i].where != USDT_REG || site->operand[i].reg != operand_slot[machine][i])
			return false;
	return true;
}

static int collect_marker_find_probe(const struct library *library, uint64_t *ret)
{
	const struct facts *facts = library->facts;

	if (!facts)
		return library->facts_error ? library->facts_error : -ENOEXEC;
	if (facts->sites != 1 || facts->site[0].semaphore_offset ||
		!collect_marker_operands_match(facts->machine, &facts->site[0]))
		return -ENOEXEC;
	*ret = facts->site[0].function_offset;
	return 0;
}

static int collect_marker_attach(const struct marker *marker, const struct library *library, struct uprobe_job **ret)
{
	uint64_t offset = 0;
	const struct uprobe_target target = {
		.program_fd = bpf_program__fd(marker->skeleton->progs.marker_batch),
		.multi = kernel_features(marker->context->kernel)->uprobe_multi,
		.file_fd = library->fd,
		.file = library->inode,
		.count = 1,
		.offsets = &offset,
	};
	int r = collect_marker_find_probe(library, &offset);

	return r < 0 ? r : uprobe_job_attach(&target, ret);
}

static void collect_marker_refuse(struct marker *marker, const struct library *library, int error)
{
	snprintf(marker->reason, sizeof(marker->reason), "a marker library cannot be probed");
	log_warning(
		"marker", "cannot probe %s: %s; its device times are not recorded", library->path, strerror(-error));
}

static void collect_marker_library_added(void *arg, struct library *library)
{
	struct marker *marker = arg;
	struct uprobe_job *job = NULL;
	int r;

	if (!streq(library->base_name, MARKER_LIBRARY))
		return;
	r = collect_marker_attach(marker, library, &job);
	if (r < 0)
		collect_marker_refuse(marker, library, r);
	library->owner_data = job;
}

static void collect_marker_library_dropped(void *arg, struct library *library)
{
	uprobe_job_detach(library->owner_data);
	library->owner_data = NULL;
}

/* 0, -EINPROGRESS, or another error: it has none, or one that could not be attached, which is given up. */
static int collect_marker_probe(struct marker *marker, struct library *library)
{
	int r = library->owner_data ? uprobe_job_result(library->owner_data) : -ENOENT;

	if (library->owner_data && r < 0 && r != -EINPROGRESS) {
		collect_marker_refuse(marker, library, r);
		collect_marker_library_dropped(marker, library);
	}
	return r;
}

static void collect_marker_library_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	struct marker *marker = arg;

	snprintf(marker->reason, sizeof(marker->reason), "a library of process %u cannot be opened", pid);
	log_limited(LOG_WARNING, "marker", uid, "cannot use %s of process %u: %s", path, pid, strerror(-error));
}

static int collect_marker_load(struct marker *marker)
{
	const struct kernel_features *features = kernel_features(marker->context->kernel);
	struct marker_bpf *skeleton;
	int r;

	if (!features->uprobe_multi && !features->perf_uprobe)
		return -EOPNOTSUPP;
	skeleton = marker_bpf__open();
	if (!skeleton)
		return -errno;
	if (features->uprobe_multi)
		bpf_program__set_expected_attach_type(skeleton->progs.marker_batch, UPROBE_MULTI_ATTACH_TYPE);
	r = kernel_load(marker->context->kernel, skeleton->skeleton);
	if (r < 0) {
		marker_bpf__destroy(skeleton);
		return r;
	}
	marker->skeleton = skeleton;
	return 0;
}

static void collect_marker_add_counts(struct marker_counts *sum, const struct marker_counts *counts)
{
	sum->operations += counts->operations;
	sum->incomplete += counts->incomplete;
	sum->late += counts->late;
	sum->bad_times += counts->bad_times;
	sum->unreadable += counts->unreadable;
	sum->lost += counts->lost;
	sum->newer += counts->newer;
}

static void watch_free(struct marker *marker, struct watch *watch)
{
	if (watch->process)
		collect_marker_add_counts(&marker->ended, &watch->process->counts);
	free(watch->process);
	*watch = (struct watch){0};
}

static void marker_close(void *state)
{
	struct marker *marker = state;

	if (!marker)
		return;
	libraries_free(marker->libraries);
	marker_bpf__destroy(marker->skeleton);
	for (size_t i = 0; marker->watch && i < marker->watches; i++)
		watch_free(marker, &marker->watch[i]);
	free(marker->watch);
	free(marker);
}

static int marker_open(struct context *context, void **ret_state)
{
	struct marker *marker = calloc(1, sizeof(*marker));
	int r;

	if (!marker)
		return -ENOMEM;
	marker->context = context;
	marker->row = (struct probe){.name = "marker",
		.library = {MARKER_LIBRARY},
		.libraries = 1,
		.usdt_provider = "ranktrace",
		.usdt_name = "batch"};
	marker->table = (struct probe_table){&marker->row, 1};
	marker->watch = calloc(context->config.ranks_max, sizeof(*marker->watch));
	if (!marker->watch) {
		marker_close(marker);
		return -ENOMEM;
	}
	r = collect_marker_load(marker);
	if (r < 0) {
		snprintf(marker->reason, sizeof(marker->reason), "the kernel refuses the marker program (%s)",
			strerror(-r));
		log_warning("marker", "%s; no device times are recorded", marker->reason);
	}
	*ret_state = marker;
	return 0;
}

struct library_query {
	struct marker *owner;
	int64_t instance;
	bool marker, nccl;
	unsigned attached; /* of all instances */
};

static void collect_marker_check_library(void *arg, struct library *library)
{
	struct library_query *query = arg;
	int r = collect_marker_probe(query->owner, library);

	query->attached += r == 0;
	if (!library_used_by(library, query->instance))
		return;
	if (streq(library->base_name, MARKER_LIBRARY))
		query->marker |= r == 0 || r == -EINPROGRESS;
	else
		query->nccl = true;
}

/* What it finds comes later: collect_marker_scanned(). */
static void collect_marker_scan(struct marker *marker, struct watch *watch, uint64_t now_ns)
{
	uint64_t limit_ns = collector_scan_interval(marker->context, watch->pid);

	watch->next_scan_ns = now_ns + (now_ns - watch->since_ns < SCAN_EAGER_NS ? SCAN_FIRST_NS : limit_ns);
	(void)libraries_scan(marker->libraries, watch->pid, watch->uid, watch->instance);
}

static struct watch *collect_marker_watch(struct marker *marker, int64_t instance)
{
	for (size_t i = 0; i < marker->watches; i++)
		if (marker->watch[i].instance == instance)
			return &marker->watch[i];
	return NULL;
}

static void collect_marker_check(struct marker *marker, struct watch *watch)
{
	struct library_query query = {.owner = marker, .instance = watch->instance};
	const struct rank *rank = ranks_by_pid(marker->context->ranks, watch->pid);

	libraries_each(marker->libraries, collect_marker_check_library, &query);
	watch->has_library = query.marker;
	/* From now on rows wait for device times, before the first batch. */
	if (rank && query.marker)
		rank_coll_device(marker->context->ops, rank, &(struct coll_device){.peer = -1});
	if (!query.nccl)
		watch->nccl_since_ns = 0;
	else if (!watch->nccl_since_ns)
		watch->nccl_since_ns = monotonic_ns();
}

static void collect_marker_scanned(void *arg, int64_t instance, int result, uint64_t cost_ns)
{
	struct marker *marker = arg;
	struct watch *watch = collect_marker_watch(marker, instance);

	/* The process controls a scan's cost. */
	if (watch && monotonic_ns() + cost_ns * SCAN_SHARE > watch->next_scan_ns)
		watch->next_scan_ns = monotonic_ns() + cost_ns * SCAN_SHARE;
	if (watch && result >= 0)
		collect_marker_check(marker, watch);
}

static void collect_marker_settled(void *arg)
{
	struct marker *marker = arg;

	for (size_t i = 0; i < marker->watches; i++)
		if (marker->watch[i].instance)
			collect_marker_check(marker, &marker->watch[i]);
}

static struct libraries *collect_marker_libraries(struct marker *marker)
{
	static const char *const patterns[] = {MARKER_LIBRARY, NCCL_LIBRARY "*", NULL};
	const struct libraries_ops ops = {
		.patterns = patterns,
		.added = collect_marker_library_added,
		.dropped = collect_marker_library_dropped,
		.refused = collect_marker_library_refused,
		.scanned = collect_marker_scanned,
		.settled = collect_marker_settled,
		.arg = marker,
		.workers = marker->context->workers,
		.table = &marker->table,
		.quarantine = marker->context->quarantine,
		.takes_user_served = marker->context->config.user_filesystems,
	};

	return libraries_new(&ops, "/proc");
}

static unsigned collect_marker_ranks(const struct marker *marker)
{
	unsigned count = 0;

	for (size_t i = 0; i < marker->watches; i++)
		count += marker->watch[i].instance && marker->watch[i].has_library;
	return count;
}

static void collect_marker_turn_off(struct marker *marker)
{
	marker->on = false;
	marker->libraries = libraries_free(marker->libraries); /* drops each library, which detaches */
	for (size_t i = 0; i < marker->watches; i++)
		marker->watch[i].has_library = false;
}

static int collect_marker_turn_on(struct marker *marker)
{
	uint64_t now_ns = monotonic_ns();

	if (marker->on)
		return 0;
	marker->libraries = collect_marker_libraries(marker);
	if (!marker->libraries)
		return -ENOMEM;
	marker->on = true;
	marker->since_ns = monotonic_ns();
	for (size_t i = 0; i < marker->watches; i++)
		if (marker->watch[i].instance) {
			marker->watch[i].since_ns = now_ns;
			collect_marker_scan(marker, &marker->watch[i], now_ns);
		}
	return 0;
}

/* Device times are optional: the level is never refused without them. */
static int marker_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct marker *marker = state;
	int r = 0;

	if (level != LEVEL_L1)
		return 0;
	if (!on)
		collect_marker_turn_off(marker);
	else if (marker->skeleton)
		r = collect_marker_turn_on(marker);
	if (!marker->skeleton)
		snprintf(report, report_size, "no device times: %.200s", marker->reason);
	else if (!on || r < 0)
		snprintf(report, report_size, "device times %s", r < 0 ? "unavailable: out of memory" : "detached");
	else
		snprintf(report, report_size, "device times from ranks with the NCCL marker library");
	return 0;
}

static void marker_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct marker *marker = state;
	struct watch *watch = collect_marker_watch(marker, rank->instance);

	if (change == RANK_ENDED || rank->role != RANK_ROLE_RANK) {
		if (watch && watch->instance) {
			if (marker->libraries)
				libraries_forget(marker->libraries, watch->instance);
			watch_free(marker, watch);
		}
		return;
	}
	if (!watch)
		watch = collect_marker_watch(marker, 0);
	if (!watch && marker->watches < marker->context->config.ranks_max)
		watch = &marker->watch[marker->watches++];
	if (!watch || watch->instance || !rank->instance)
		return;
	*watch = (struct watch){
		.pid = rank->pid, .uid = rank->uid, .instance = rank->instance, .since_ns = monotonic_ns()};
}

static void marker_tick(void *state, uint64_t now_ns)
{
	struct marker *marker = state;

	for (size_t i = 0; marker->on && i < marker->watches; i++)
		if (marker->watch[i].instance && now_ns >= marker->watch[i].next_scan_ns)
			collect_marker_scan(marker, &marker->watch[i], now_ns);
}

struct delivery {
	struct marker *marker;
	const struct rank *rank;
};

static void collect_marker_deliver(void *arg, const struct coll_device *device)
{
	const struct delivery *delivery = arg;

	rank_coll_device(delivery->marker->context->ops, delivery->rank, device);
}

static void marker_event(void *state, const struct rt_event *header, size_t size_bytes)
{
	struct marker *marker = state;
	const struct rank *rank = ranks_by_pid(marker->context->ranks, header->pid);
	struct watch *watch = rank && rank->instance ? collect_marker_watch(marker, rank->instance) : NULL;
	struct delivery delivery = {marker, rank};

	if (!watch) {
		marker->not_ranks++;
		return;
	}
	if (!marker->on || header->time_ns < marker->since_ns) /* of a probe being detached, or still in the ring */
		return;
	if (!rank_budget_admits(marker->context->budget, delivery.rank))
		return;
	if (!watch->process)
		watch->process = calloc(1, sizeof(*watch->process));
	if (!watch->process)
		return;
	marker->events++;
	marker_decode(watch->process, (const void *)header, size_bytes, collect_marker_deliver, &delivery);
}

static void collect_marker_note_count(struct collector_status *ret, uint64_t count, const char *what)
{
	if (count)
		collector_note(ret, "%" PRIu64 " %s", count, what);
}

static void collect_marker_note_counts(const struct marker *marker, struct collector_status *ret)
{
	struct marker_counts counts = marker->ended;

	for (size_t i = 0; i < marker->watches; i++)
		if (marker->watch[i].process)
			collect_marker_add_counts(&counts, &marker->watch[i].process->counts);
	ret->drops += counts.lost + counts.unreadable;
	collect_marker_note_count(ret, counts.incomplete,
		"operations without device times (the interface provides none, or not for all "
		"channels): their rows say host");
	collect_marker_note_count(ret, counts.late, "operations ran on the device for more than a second");
	collect_marker_note_count(
		ret, counts.bad_times, "operations with device times that end before they start: times dropped");
	collect_marker_note_count(ret, counts.lost, "operations lost: marker library's buffer full");
	collect_marker_note_count(ret, counts.unreadable, "unreadable records of the marker library");
	collect_marker_note_count(
		ret, counts.newer, "batches of a marker library newer than this daemon: update ranktrace");
	collect_marker_note_count(ret, marker->not_ranks, "batches of processes that had just ended as ranks");
}

/* Notes ranks that use NCCL without recorded device times. */
static void collect_marker_note_blind(const struct marker *marker, struct collector_status *ret)
{
	uint64_t now_ns = monotonic_ns();
	unsigned blind = 0;

	for (size_t i = 0; marker->on && i < marker->watches; i++) {
		const struct watch *watch = &marker->watch[i];

		if (!watch->instance || watch->has_library || !watch->nccl_since_ns ||
			now_ns - watch->nccl_since_ns <= NCCL_PATIENCE_NS)
			continue;
		blind++;
		collector_note(ret,
			"no device times of process %u: NCCL has not loaded the marker library, "
			"see tracectl check",
			watch->pid);
	}
	if (blind)
		collector_note(ret, "%u rank%s loaded the NCCL marker library, %u did not",
			collect_marker_ranks(marker), collect_marker_ranks(marker) == 1 ? "" : "s", blind);
}

static void marker_status(void *state, struct collector_status *ret)
{
	struct marker *marker = state;
	struct library_query query = {.owner = marker};

	if (marker->libraries)
		libraries_each(marker->libraries, collect_marker_check_library, &query);
	ret->probes_attached = query.attached;
	ret->libraries = query.attached;
	ret->events = marker->events;
	ret->drops = kernel_drops(marker->context->kernel, RT_KIND_MARKER);
	if (marker->reason[0])
		collector_note(ret, "%s", marker->reason);
	collect_marker_note_blind(marker, ret);
	collect_marker_note_counts(marker, ret);
}

const struct collector collector_marker = {
	.name = "marker",
	.summary = "device times of NCCL operations, from ranks that load the marker library",
	.levels = LEVEL_BIT(LEVEL_L1),
	.kinds = 1u << RT_KIND_MARKER,
	.open = marker_open,
	.level = marker_level,
	.rank = marker_rank,
	.event = marker_event,
	.tick = marker_tick,
	.status = marker_status,
	.close = marker_close,
};
