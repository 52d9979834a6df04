/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the call engine: reads the probe tables, follows the libraries that ranks map, attaches their probes
 * while a level is on, and dispatches records: marks to steps/, events to the sink of their kind (collect_internal.h).
 * Serves every level named by a table row.
 */
#include "bpf/call.h"
#include "daemon/collect/collect_internal.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/memory/call_errors.h"
#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"
#include "daemon/probes/attachment.h"
#include "daemon/probes/coverage.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/probes/call_engine.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/base/util.h"
#include "daemon/kernel/uprobe.h"

#define SCAN_FIRST_NS (200 * NSEC_PER_MSEC)
#define SCAN_EAGER_NS (15 * NSEC_PER_SEC)  /* after its start, a rank is scanned every SCAN_FIRST_NS for this long */
#define SCAN_RETRY_NS NSEC_PER_SEC	   /* a scan that did not begin, or has not ended */
#define REGROUP_NS NSEC_PER_SEC		   /* probes wait for further files at most */
#define ATTACH_WAITS_NS (2 * NSEC_PER_SEC) /* noted in the status; the usual order takes less than 0.2 s */
#define SCAN_SHARE 20			   /* scans use at most 1/SCAN_SHARE of a CPU */
#define RECORD_FUNCTION "record_function"
#define NAME_BYTES (2 * RT_CALL_TEXT_MAX + 1) /* a text as UTF-8 */
#define TORCH_LIBRARY "libtorch_cpu.so*"

/* A rank whose libraries are rescanned: they load late and may change. */
struct watch {
	uint32_t pid, uid;
	int64_t instance; /* 0: free */
	uint64_t since_ns;
	uint64_t next_scan_ns;
	uint64_t interval_ns;
	int names_readable; /* -1 unknown */
};

struct call {
	struct context *context;
	struct probe_table table;
	struct call_engine *engine; /* NULL if the kernel supports no uprobes */
	struct attach_engine attach;
	struct libraries *libraries;
	bool on[LEVEL_MAX];
	uint64_t since_ns[LEVEL_MAX]; /* turned on at; older records are from probes being detached */
	bool regroup;		      /* a library is new: row groups may change; or some have not had their turn */
	bool regroup_anew;
	bool sampled, reduced; /* L0: in windows; between two of them */
	bool opening;	       /* a window, or L0 as a whole: until its probes are attached */
	bool memory_paused;    /* as the attachments have it */
	bool resuming;	       /* their orders are not done */
	bool sweep;	       /* calls in flight may have lost their process or library */
	uint64_t events;
	uint64_t stale; /* records of removed probes, or of processes that are not ranks */
	uint64_t unreadable;
	uint64_t unclaimed; /* records with an event that no sink takes */
	char reason[COLLECTOR_NOTE_BYTES];
	const char **pattern;	   /* libraries in the table, NULL-terminated */
	uint64_t regroup_since_ns; /* regroup is due since */
	size_t watches;		   /* used so far, of ranks_max */
	struct watch *watch;
};

static void collect_call_library_added(void *arg, struct library *library)
{
	struct call *call = arg;
	struct attachment *attachment = NULL;
	int r = attachment_new(&call->attach, library, &attachment);

	if (r == -EUCLEAN)
		ranks_suspect(
			call->context->ranks, library->uid, "a library file is damaged or larger than libraries are");
	if (r < 0) {
		log_warning("call", "cannot read %s: %s; its functions are not traced", library->path, strerror(-r));
		return;
	}
	attachment_reduce(attachment, call->reduced);
	library->owner_data = attachment;
	if (!call->regroup)
		call->regroup_since_ns = monotonic_ns();
	call->regroup = call->regroup_anew = true;
}

static void collect_call_library_dropped(void *arg, struct library *library)
{
	struct call *call = arg;

	log_info("call", "%s: no longer mapped by any rank, detached", library->path);
	library->owner_data = attachment_free(library->owner_data);
	call->sweep = true;
}

static void collect_call_library_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	struct call *call = arg;

	if (error == -ENOSPC)
		ranks_suspect(call->context->ranks, uid, "more library files than its part of the daemon's table");
	/* Why is between the log and its readers: it says something about other people's folders. */
	snprintf(call->reason, sizeof(call->reason),
		error == -EREMOTE ? "a library of process %u is on a file system that its user serves "
				    "(user_filesystems in ranktrace.conf)"
				  : "a library of process %u cannot be opened",
		pid);
	log_limited(LOG_WARNING, "call", uid, "cannot use %s of process %u: %s; its functions are not traced", path,
		pid, strerror(-error));
}

/* Of the time since its level was turned on: probes that are being detached leave calls whose return is not
 * recorded. */
static bool collect_call_is_since(const struct call *call, const struct probe *probe, uint64_t start_ns)
{
	return call->on[probe->level] && start_ns >= call->since_ns[probe->level];
}

struct in_flight {
	const struct call *call;
	rank_coll_in_flight_each each;
	void *arg;
};

static void collect_call_on_in_flight(
	void *arg, uint64_t pid_thread, const struct probe *probe, const struct rt_inflight *inflight)
{
	const struct in_flight *ask = arg;

	if (probe->event[0] && collect_call_is_since(ask->call, probe, inflight->start_ns))
		ask->each(ask->arg, (uint32_t)(pid_thread >> 32), (uint32_t)pid_thread, probe, inflight->start_ns,
			inflight->flags, inflight->arg);
}

static void read_in_flight(void *reader, rank_coll_in_flight_each each, void *arg)
{
	struct in_flight ask = {reader, each, arg};

	call_engine_inflight(ask.call->engine, collect_call_on_in_flight, &ask);
}

/* Frees a complete or partial result of call_open(). */
static void call_close(void *state)
{
	struct call *call = state;

	if (!call)
		return;
	if (call->engine && call->context->ops)
		rank_coll_set_in_flight(call->context->ops, NULL, NULL);
	libraries_free(call->libraries);
	call_engine_close(call->engine);
	probe_table_free(&call->table);
	free(call->watch);
	free(call->pattern);
	free(call);
}

DEFINE_CLEANUP(struct call *, call_close)

extern const struct collector collector_call;

static int load_tables(struct call *call)
{
	const char *dirs[] = {call->context->config.probes_base_dir, call->context->config.probes_dir};
	char error[512];
	int r = probe_table_load_dirs(
		&call->table, dirs, ARRAY_SIZE(dirs), collector_call.levels, error, sizeof(error));

	if (r < 0) {
		log_error("call", "%s", error);
		return r;
	}
	if (call->table.count == 0)
		log_warning("call", "no probe table in %s or %s; no function is traced", dirs[0], dirs[1]);
	call->pattern = calloc(call->table.count * PROBE_PATTERNS_MAX + 1, sizeof(*call->pattern));
	if (!call->pattern)
		return -ENOMEM;
	(void)probe_table_libraries(&call->table, call->pattern);
	return 0;
}

static struct watch *collect_call_watch(struct call *call, int64_t instance)
{
	for (size_t i = 0; i < call->watches; i++)
		if (call->watch[i].instance == instance)
			return &call->watch[i];
	return NULL;
}

struct names_query {
	int64_t instance;
	bool torch;    /* maps libtorch_cpu */
	bool readable; /* and a library with readable record_function */
};

static void collect_call_names_of_library(void *arg, struct library *library)
{
	struct names_query *query = arg;

	if (!library_used_by(library, query->instance) || !library->owner_data)
		return;
	query->torch |= strncmp(library->base_name, TORCH_LIBRARY, strlen(TORCH_LIBRARY) - 1) == 0;
	query->readable |= attachment_has_set(library->owner_data, RECORD_FUNCTION);
}

static void collect_call_check_names(struct call *call, struct watch *watch)
{
	struct names_query query = {.instance = watch->instance};
	const struct rank *rank = ranks_by_pid(call->context->ranks, watch->pid);

	libraries_each(call->libraries, collect_call_names_of_library, &query);
	/* libtorch_python loads after libtorch_cpu: "unreadable" counts only after the eager phase. */
	if (!rank || !query.torch || (!query.readable && watch->interval_ns == SCAN_FIRST_NS) ||
		watch->names_readable == query.readable)
		return;
	watch->names_readable = query.readable;
	rank_steps_names_readable(call->context->steps, rank, query.readable);
}

static void collect_call_regroup(struct call *call)
{
	if (!call->regroup)
		return;
	call->regroup = !groups_choose(call->libraries, call->on, call->regroup_anew);
	call->regroup_anew = false;
	call->regroup_since_ns = 0; /* what is left goes on with the next tick */
}

/* All files that ranks map now are known. */
static void collect_call_settled(void *arg)
{
	struct call *call = arg;

	collect_call_regroup(call);
	for (size_t i = 0; i < call->watches; i++)
		if (call->watch[i].instance)
			collect_call_check_names(call, &call->watch[i]);
}

static void collect_call_scanned(void *arg, int64_t instance, int result, uint64_t cost_ns)
{
	struct call *call = arg;
	struct watch *watch = collect_call_watch(call, instance);
	uint64_t now_ns = monotonic_ns(), limit_ns, pause_ns;

	if (!watch)
		return;
	limit_ns = collector_scan_interval(call->context, watch->pid);
	if (now_ns - watch->since_ns > SCAN_EAGER_NS || result < 0)
		watch->interval_ns = watch->interval_ns * 3 / 2 < limit_ns ? watch->interval_ns * 3 / 2 : limit_ns;
	if (result >= 0)
		collect_call_check_names(call, watch);
	/* The process controls a scan's cost: it may map a million files. */
	pause_ns = cost_ns * SCAN_SHARE * ranks_count(call->context->ranks, RANK_ROLE_RANK);
	watch->next_scan_ns = now_ns + (pause_ns > watch->interval_ns ? pause_ns : watch->interval_ns);
}

/* What it finds comes later: collect_call_scanned(). */
static void collect_call_scan(struct call *call, struct watch *watch, uint64_t now_ns)
{
	watch->next_scan_ns = now_ns + SCAN_RETRY_NS;
	(void)libraries_scan(call->libraries, watch->pid, watch->uid, watch->instance);
}

static struct libraries *collect_call_libraries(struct call *call)
{
	const struct libraries_ops ops = {
		.patterns = call->pattern,
		.added = collect_call_library_added,
		.dropped = collect_call_library_dropped,
		.refused = collect_call_library_refused,
		.scanned = collect_call_scanned,
		.settled = collect_call_settled,
		.arg = call,
		.workers = call->context->workers,
		.table = &call->table,
		.quarantine = call->context->quarantine,
		.takes_user_served = call->context->config.user_filesystems,
	};

	return libraries_new(&ops, "/proc");
}

static int call_open(struct context *context, void **ret_state)
{
	_cleanup_(call_closep) struct call *call = calloc(1, sizeof(*call));
	enum call_engine_mode mode = call_engine_mode(kernel_features(context->kernel));
	int r;

	if (!call)
		return -ENOMEM;
	call->context = context;
	r = load_tables(call);
	if (r < 0)
		return r;
	if (mode == CALL_ENGINE_NONE) {
		snprintf(call->reason, sizeof(call->reason),
			"this kernel supports no uprobes; functions are not traced (see tracectl check)");
		log_warning("call", "%s", call->reason);
		*ret_state = TAKE_PTR(call);
		return 0;
	}
	r = call_engine_open(context->kernel, mode, &call->engine);
	if (r < 0)
		return r;
	log_info("call", "attaching through %s", call_engine_mode_name(mode));
	call->attach = call_engine_attach(call->engine, &call->table);
	call->watch = calloc(context->config.ranks_max, sizeof(*call->watch));
	call->libraries = collect_call_libraries(call);
	if (!call->watch || !call->libraries)
		return -ENOMEM;
	if (context->ops)
		rank_coll_set_in_flight(context->ops, read_in_flight, call);
	*ret_state = TAKE_PTR(call);
	return 0;
}

static size_t collect_call_rows(const struct call *call, enum level level)
{
	size_t rows = 0;

	for (size_t i = 0; i < call->table.count; i++)
		rows += call->table.probe[i].level == level;
	return rows;
}

/* Can the probe still see the call's return? */
static bool collect_call_can_return(void *arg, uint32_t pid, const struct probe *probe, uint64_t start_ns)
{
	const struct call *call = arg;

	return probe && collect_call_is_since(call, probe, start_ns) && ranks_by_pid(call->context->ranks, pid);
}

static void collect_call_sweep(struct call *call)
{
	call->sweep = false;
	call_engine_sweep(call->engine, collect_call_can_return, call);
}

static void collect_call_reduce(void *arg, struct library *library)
{
	const struct call *call = arg;

	if (library->owner_data)
		attachment_reduce(library->owner_data, call->reduced);
}

struct settling {
	uint64_t until_ns;
	bool done;
};

static void collect_call_settle_until(void *arg, struct library *library)
{
	struct settling *settling = arg;

	if (library->owner_data)
		settling->done &= attachment_settle(library->owner_data, settling->until_ns);
}

/* All marks come once the probes are attached: stages of a step that began before are not known. */
static void collect_call_opened(struct call *call, uint64_t until_ns)
{
	struct settling settling = {until_ns, true};

	libraries_each(call->libraries, collect_call_settle_until, &settling);
	if (!settling.done)
		return;
	call->opening = false;
	rank_steps_watch(call->context->steps, true, monotonic_ns());
	if (!call->sampled)
		rank_steps_sample(call->context->steps, false);
}

/* Of L0, probes that count steps (probe_is_boundary()) are attached between windows, too. */
static void collect_call_sample(struct call *call, bool open, bool sampled)
{
	call->sampled = sampled;
	call->reduced = !open;
	if (!open) {
		call->opening = false;
		rank_steps_sample(call->context->steps, true);
		rank_steps_watch(call->context->steps, false, 0);
	}
	libraries_each(call->libraries, collect_call_reduce, call);
	call->opening |= open;
	if (open)
		collect_call_opened(call, monotonic_ns() + LIMIT_LEVEL_TURN_MS * NSEC_PER_MSEC);
	call->sweep |= !open;
}

static int call_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct call *call = state;
	struct call_level_sum sum = {.level = level, .on = on};
	bool whole = level == LEVEL_L0 && call->sampled; /* from windows, which lose no mark of a boundary */

	if (whole)
		collect_call_sample(call, true, false);
	if (!whole || !on)
		call->since_ns[level] = monotonic_ns();
	call->on[level] = on;
	if (!call->libraries) {
		snprintf(report, report_size, "%s", call->reason);
		return on ? -ENOTSUP : 0;
	}
	call_level_switch(call->libraries, &sum);
	call->regroup_anew |= sum.left > 0;
	call->regroup |= sum.left > 0;
	/* A level works with what attached; it is refused, and undone, only if nothing did. */
	if (on && sum.refused && sum.probes == 0 && sum.left == 0) {
		call->on[level] = on = false;
		call_level_switch(call->libraries, &(struct call_level_sum){.level = level});
	}
	if (!on)
		collect_call_sweep(call);
	call->sweep = true;
	if (!on && level == LEVEL_L0)
		rank_steps_gap(call->context->steps);
	call_sinks_level(call->context, level, on);
	sum.rows = collect_call_rows(call, level);
	sum.ranks = ranks_count(call->context->ranks, RANK_ROLE_RANK);
	return call_level_report(&sum, report, report_size);
}

static void call_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct call *call = state;
	struct watch *watch;

	if (!call->libraries)
		return;
	watch = collect_call_watch(call, rank->instance);
	if (change == RANK_ENDED || rank->role != RANK_ROLE_RANK) {
		if (watch && watch->instance) {
			libraries_forget(call->libraries, watch->instance);
			*watch = (struct watch){0};
			call->sweep = true;
		}
		return;
	}
	if (!watch)
		watch = collect_call_watch(call, 0);
	if (!watch && call->watches < call->context->config.ranks_max)
		watch = &call->watch[call->watches++];
	if (!watch || watch->instance)
		return;
	*watch = (struct watch){.pid = rank->pid,
		.uid = rank->uid,
		.instance = rank->instance,
		.since_ns = monotonic_ns(),
		.interval_ns = SCAN_FIRST_NS,
		.names_readable = -1};
	collect_call_scan(call, watch, watch->since_ns);
}

static void collect_call_pause(void *arg, struct library *library)
{
	if (library->owner_data)
		attachment_pause(library->owner_data, ATTACH_MEMORY);
}

static void collect_call_settle(void *arg, struct library *library)
{
	struct call *call = arg;

	if (library->owner_data)
		call->resuming |= !attachment_settle(library->owner_data, monotonic_ns());
}

/* The memory collector's windows. */
static void collect_call_windows(struct call *call)
{
	bool paused = kernel_memory_is_paused(call->context->kernel);

	if (!call->libraries)
		return;
	if (paused != call->memory_paused) {
		call->memory_paused = paused;
		call->resuming = !paused;
		libraries_each(call->libraries, collect_call_pause, call);
	} else if (call->resuming) {
		call->resuming = false;
		libraries_each(call->libraries, collect_call_settle, call);
	}
}

static void call_tick(void *state, uint64_t now_ns)
{
	struct call *call = state;

	collect_call_windows(call);
	if (call->opening)
		collect_call_opened(call, monotonic_ns());
	call_sinks_tick(call->context, now_ns);
	if (call->sweep && call->engine && !uprobe_is_detaching())
		collect_call_sweep(call);
	if (call->regroup && now_ns - call->regroup_since_ns > REGROUP_NS)
		collect_call_regroup(call);
	for (size_t i = 0; i < call->watches; i++)
		if (call->watch[i].instance && now_ns >= call->watch[i].next_scan_ns)
			collect_call_scan(call, &call->watch[i], now_ns);
}

/* Text read by the probe; "" if none. */
static const char *collect_call_text(const struct rt_call_event *event, size_t size_bytes, char text[NAME_BYTES])
{
	const struct rt_call_text_event *full = (const void *)event;

	text[0] = 0;
	if (event->event.flags & RT_CALL_TEXT && size_bytes >= sizeof(*full) && event->text_bytes <= RT_CALL_TEXT_MAX)
		text_from_units(
			full->text, event->text_bytes, RT_CALL_UNIT_BYTES(event->event.flags), text, NAME_BYTES);
	return text;
}

static void collect_call_mark(
	struct call *call, const struct rank *rank, const struct call_record *record, bool has_text)
{
	const struct rt_call_event *event = record->event;
	const struct probe *probe = record->probe;
	struct steps_mark mark = {
		.time_ns = event->event.time_ns,
		.thread_id = event->event.thread_id,
		.edge = event->event.flags & RT_CALL_BEGIN ? STEPS_BEGIN : STEPS_END,
		.stage = probe->stage[0] ? probe->stage : NULL,
		.stack_pointer = event->stack_pointer,
		.is_frame = probe->edge == RT_EDGE_SPAN,
	};

	if (mark.edge == STEPS_BEGIN) {
		/* The probe's text, else the row's name. */
		mark.name = has_text ? record->text : probe->stage[0] ? probe->name : "(unreadable)";
		call->unreadable += !has_text && !probe->stage[0];
	}
	rank_steps_mark(call->context->steps, rank, &mark);
}

static void call_event(void *state, const struct rt_event *header, size_t size_bytes)
{
	const struct rt_call_event *event = (const void *)header;
	struct call *call = state;
	struct call_record record;
	const struct rank *rank;
	char text[NAME_BYTES];

	if (size_bytes < sizeof(*event) || !call->engine)
		return;
	call->events++;
	record = (struct call_record){
		call_engine_probe(call->engine, event), event, collect_call_text(event, size_bytes, text)};
	rank = ranks_by_pid(call->context->ranks, header->pid);
	if (!record.probe || !rank) {
		call->stale++;
		return;
	}
	/* Records in the ring at level off would restart what the sink has ended. */
	if (!call->on[record.probe->level] || header->time_ns < call->since_ns[record.probe->level])
		return;
	if (call->reduced && record.probe->level == LEVEL_L0 && !probe_is_boundary(record.probe))
		return; /* of the window before: its step is not complete */
	if (record.probe->event[0]) {
		call->unclaimed += !call_sinks_feed(call->context, rank, &record);
	} else if (record.probe->edge != RT_EDGE_CALL && record.probe->edge != RT_EDGE_ENTRY) {
		call_errors_stage(call->context, rank, &record);
		collect_call_mark(call, rank, &record, header->flags & RT_CALL_TEXT);
	}
}

static void collect_call_status_library(void *arg, struct library *library)
{
	struct collector_status *status = arg;
	const struct attachment *attachment = library->owner_data;
	const char *name;
	int error;

	if (!attachment)
		return;
	status->libraries++;
	status->probes_attached += attachment_attached(attachment);
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		status->level_probes[level] += attachment_attached_level(attachment, level);
		for (unsigned i = 0; (name = attachment_refused(attachment, level, i, &error)); i++)
			collector_note(status, "%s: cannot attach '%s' in %s: %s", level_name(level), name,
				library->path, strerror(-error));
	}
}

/* Which ones, and why, the log says: it is about files of ranks. */
static void collect_call_count_unread(void *arg, struct library *library)
{
	*(unsigned *)arg += !library->owner_data;
}

static void collect_call_note_unread(struct call *call, struct collector_status *ret)
{
	unsigned count = 0;

	libraries_each(call->libraries, collect_call_count_unread, &count);
	if (count)
		collector_note(ret,
			"%u librar%s of ranks cannot be read: %s functions are not traced (see tracectl check)", count,
			count == 1 ? "y" : "ies", count == 1 ? "its" : "their");
}

/* Which process, the kernel does not say. */
static void collect_call_note_waits(struct collector_status *ret)
{
	uint64_t age_ns = uprobe_job_age_ns();

	if (age_ns >= ATTACH_WAITS_NS)
		collector_note(ret,
			"probes have waited for the kernel for %.0f s: a process that maps the library holds its own "
			"memory map",
			(double)age_ns / NSEC_PER_SEC);
}

static void call_status(void *state, struct collector_status *ret)
{
	struct call *call = state;

	ret->events = call->events;
	ret->drops = kernel_drops(call->context->kernel, RT_KIND_CALL);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (collector_call.levels & LEVEL_BIT(level) && collect_call_rows(call, level) == 0)
			ret->levels_empty |= LEVEL_BIT(level);
	if (call->reason[0])
		collector_note(ret, "%s", call->reason);
	collect_call_note_waits(ret);
	if (call->stale)
		collector_note(ret, "%lu records of removed probes or ended processes", (unsigned long)call->stale);
	if (call->engine && call_engine_refused(call->engine))
		collector_note(ret, "%lu probes not attached: the kernel's table of specifications is full",
			(unsigned long)call_engine_refused(call->engine));
	if (call->unreadable)
		collector_note(ret, "%lu unreadable names of record_function", (unsigned long)call->unreadable);
	if (call->unclaimed)
		collector_note(
			ret, "%lu records with an event unknown to this release", (unsigned long)call->unclaimed);
	for (size_t i = 0; i < call->watches; i++)
		if (call->watch[i].instance && call->watch[i].names_readable == 0)
			collector_note(ret,
				"process %u: record_function is unreadable in its libtorch_python; its steps are "
				"derived "
				"from backward",
				call->watch[i].pid);
	if (call->libraries)
		call_level_notes(call->libraries, ret);
	if (call->libraries) {
		ret->attaching = call->regroup || libraries_busy(call->libraries);
		collect_call_note_unread(call, ret);
		libraries_each(call->libraries, collect_call_status_library, ret);
	}
}

/* Of L2 the memory collector's reports are sampled (collect_call_windows()): other calls are few. */
static int call_window(void *state, enum level level, bool open, double duty)
{
	char ignored[COLLECTOR_NOTE_BYTES];
	struct call *call = state;

	if (level == LEVEL_L2)
		return 0;
	if (level != LEVEL_L0)
		return call_level(state, level, open, ignored, sizeof(ignored));
	if (call->libraries)
		collect_call_sample(call, open, duty < 1);
	return 0;
}

const struct collector collector_call = {
	.name = "call",
	.summary = "calls of library functions",
	.levels = LEVEL_BIT(LEVEL_L0) | LEVEL_BIT(LEVEL_L1) | LEVEL_BIT(LEVEL_L2),
	.kinds = 1u << RT_KIND_CALL,
	.open = call_open,
	.level = call_level,
	.window = call_window,
	.rank = call_rank,
	.event = call_event,
	.tick = call_tick,
	.status = call_status,
	.close = call_close,
};
