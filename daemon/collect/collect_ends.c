/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the ends collector: how ranks ended and what their threads did then (bpf/ends.bpf.c), as rows of `ends`,
 * and for findings. And the stacks of stages, which the same programs read (daemon/stacks/profile_rank.h), and of
 * long system calls.
 *
 * The kernel walks Python frames, so the worker `stack` is asked where each rank keeps them, when the rank is new. The
 * stacks of a rank that has ended are named by what was recorded of its functions. It is followed until then.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <sys/wait.h>

#include "analyzers/base/stack.h"
#include "analyzers/finding/finding.h"
#include "bpf/call.h"
#include "bpf/ends.h"
#include "daemon/base/log.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/ranks/end_words.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"
#include "daemon/worker/worker.h"
#include "ends.skel.h"

#define LAYOUT_RETRY_NS (10 * NSEC_PER_SEC)
#define LAYOUT_TRIES 3u
/* After a rank's end: for the names of its stacks, and until peers that end with it have ended. */
#define LINGER_NS (2 * NSEC_PER_SEC)
#define NAMES_WAIT_NS (12 * NSEC_PER_SEC)    /* more than a request may take */
#define CODES_MAX 1024			     /* sent in the kernel and remembered */
#define EVENTS_MAX (RT_END_THREADS_MAX + 2u) /* the main thread, the one that ends its process */

/* As in stacks.c: a layout takes 10 ms, and seconds where libraries come from a disk. */
static const struct worker_kind ends_worker = {
	.name = "ends",
	.program = "worker/stack",
	.processes_max = 2,
	.memory_bytes_max = 2ULL << 30,
	.cpu_s_max = 10,
	.wall_ns_max = 10 * NSEC_PER_SEC,
	.reply_bytes_max = sizeof(struct reply_layout),
};

/* A thread that ended, or an exception. */
struct ends_thread {
	struct rt_end_event event; /* how: 0: none */
	char place[STACK_PLACE_BYTES];
};

struct ends_rank {
	struct ends *ends;
	struct list_link link;
	uint64_t ended_ns; /* 0: it lives */
	uint64_t request;  /* for the layout; 0: none */
	unsigned tries;
	uint64_t retry_ns;
	bool followed;		    /* the kernel has it */
	struct profile_rank *names; /* NULL until there is a stack */
	struct wait_stacks *waits;  /* NULL until there is one */
	size_t threads;
	struct ends_thread *thread; /* EVENTS_MAX; the first one is the newest exception's. NULL until there is one */
	struct end_sender sender;   /* once it has ended */
	struct reply_layout layout;
	struct rank is;		    /* as it was when it was seen last */
	struct stage_stacks stages; /* last, as the largest: each tick reads the fields before it */
};

struct ends {
	struct context *context;
	struct ends_bpf *skeleton; /* NULL: the kernel refuses it */
	struct list_link ranks;	   /* struct ends_rank */
	uint64_t events, refused, lost;
	bool has_places; /* of signals in native code */
	char reason[128];
};

/* One rank. */

/* The newest with this pid: another one may not be named yet. */
static struct ends_rank *ends_find(const struct ends *ends, uint32_t pid)
{
	struct ends_rank *ret = NULL;

	LIST_EACH (link, &ends->ranks) {
		struct ends_rank *rank = CONTAINER_OF(link, struct ends_rank, link);

		if (rank->is.pid == pid)
			ret = rank;
	}
	return ret;
}

static void ends_forget_names(struct ends_rank *rank)
{
	if (rank->names)
		profile_rank_free(rank->names);
	free(rank->names);
	rank->names = NULL;
}

static void ends_free(struct ends_rank *rank)
{
	if (rank->request)
		worker_cancel(rank->ends->context->workers, rank->request);
	ends_forget_names(rank);
	free(rank->waits);
	free(rank->thread);
	list_unlink(&rank->link);
	free(rank);
}

static void ends_follow(struct ends_rank *rank)
{
	const struct rt_end_rank value = {.pid = rank->is.pid, .python = rank->layout.python};
	int map = bpf_map__fd(rank->ends->skeleton->maps.end_ranks);

	if (!rank->ended_ns)
		rank->followed = bpf_map_update_elem(map, &rank->is.slot, &value, BPF_ANY) == 0;
}

static void ends_on_layout(void *arg, struct worker_reply *reply)
{
	struct ends_rank *rank = arg;

	rank->request = 0;
	if (reply->end == WORKER_ANSWERED && reply_layout_read(reply->data, reply->size_bytes, &rank->layout) == 0 &&
		rank->layout.python.interps)
		rank->tries = LAYOUT_TRIES;
	ends_follow(rank);
}

/* Without an answer it is followed without Python frames. */
static void ends_ask(struct ends_rank *rank, uint64_t now_ns)
{
	const struct {
		struct reply_request head;
		struct reply_pid pid;
	} request = {{REPLY_LAYOUT, 1}, {.pid = rank->is.pid, .start_time_ns = rank->is.start_time_ns}};

	rank->tries++;
	rank->retry_ns = now_ns + LAYOUT_RETRY_NS;
	if (!rank->ends->context->workers ||
		worker_ask(rank->ends->context->workers, &ends_worker, rank->is.uid, &request, sizeof(request), NULL, 0,
			ends_on_layout, rank, &rank->request) < 0)
		rank->request = 0;
}

static void ends_begin(struct ends *ends, const struct rank *from)
{
	struct ends_rank *rank = calloc(1, sizeof(*rank));

	if (!rank)
		return;
	rank->ends = ends;
	rank->is = *from;
	list_add_tail(&ends->ranks, &rank->link);
	ends_follow(rank);
	ends_ask(rank, monotonic_ns());
}

/* Names. */

static void ends_on_named(void *arg, uint64_t stack, const char *frames)
{
	struct ends_rank *rank = arg;

	for (size_t i = 0; i < rank->threads; i++)
		if (rank->thread[i].event.stack == stack)
			(void)stack_frames_place(frames, rank->thread[i].place);
}

static struct profile_rank *ends_names(struct ends_rank *rank)
{
	struct profile_rank *names = rank->names;

	if (names || rank_budget_is_frozen(rank->ends->context->budget, &rank->is))
		return names;
	names = calloc(1, sizeof(*names));
	if (!names)
		return NULL;
	*names = (struct profile_rank){
		.context = rank->ends->context,
		.layout = rank->layout,
		.laid_out = rank->layout.python.interps != 0,
		.asked = {.pid = rank->is.pid, .start_time_ns = rank->is.start_time_ns},
		.recorded = rank->ended_ns || rank->thread,
		.uid = rank->is.uid,
		.rank = rank->is.env.rank,
		.instance = rank->is.instance,
		.on_named = ends_on_named,
		.on_named_arg = rank,
	};
	if (profile_rank_init(names) < 0) {
		profile_rank_free(names);
		free(names);
		return NULL;
	}
	rank->names = names;
	return names;
}

/* Rows. */

static void ends_detail(const struct ends_rank *rank, const struct rt_end_event *event, char *ret, size_t size)
{
	char words[END_WORDS_BYTES], what[RT_END_WHAT_BYTES];
	bool sent = rank->sender.signal || rank->sender.out_of_memory;

	ret[0] = 0;
	copy_text(what, sizeof(what), event->what);
	if (event->how == RT_END_EXCEPTION)
		snprintf(ret, size, "%s", what);
	else if (event->how == RT_END_SIGNAL && what[0])
		snprintf(ret, size, "%s in %s+0x%" PRIx64, end_signal_words(event->signal, words), what, event->offset);
	else if (event->how == RT_END_SIGNAL || (event->how == RT_END_KILLED && sent))
		snprintf(ret, size, "%s", end_words(rank->is.wait_status, "", &rank->sender, words));
}

static void ends_put(const struct ends_rank *rank, const struct rt_end_event *event)
{
	static const char *const kinds[RT_END_HOWS] = {[RT_END_SIGNAL] = "signal",
		[RT_END_EXIT] = "exit",
		[RT_END_KILLED] = "killed",
		[RT_END_EXCEPTION] = "exception"};
	struct store *store = rank->ends->context->store;
	char detail[END_WORDS_BYTES + RT_END_WHAT_BYTES + 24], name[RT_COMM_SIZE];
	int64_t id = 0;
	bool named = event->stack && rank->names && profile_rank_id(rank->names, event->stack, &id);

	ends_detail(rank, event, detail, sizeof(detail));
	copy_text(name, sizeof(name), event->thread_name);
	store_put_ends(store, &(struct row_ends){
				      .rank = field_int(rank->is.env.rank),
				      .start_ns = field_time(store_utc_ns(store, event->event.time_ns)),
				      .kind = field_text(kinds[event->how]),
				      .detail = field_text_if(detail),
				      .thread_id = field_int(event->event.thread_id),
				      .thread_name = field_text(name),
				      .main = field_int(event->event.thread_id == rank->is.pid),
				      .stack = field_int_if(named, id),
				      .instance = field_int(rank->is.instance),
			      });
	rank->ends->refused += event->stack && !named;
}

/* What shows best where it was: the exception, the thread that ended it, the main thread, any. */
static const struct ends_thread *ends_best(const struct ends_rank *rank)
{
	bool failed = end_kind_of(rank->is.wait_status, &rank->sender) == END_ERROR && WIFEXITED(rank->is.wait_status);
	const struct ends_thread *ret = NULL;
	unsigned most = 0;

	for (size_t i = 0; i < rank->threads; i++) {
		const struct rt_end_event *event = &rank->thread[i].event;
		unsigned rating = event->how == RT_END_EXCEPTION	   ? (failed ? 4 : 0)
				  : event->how != RT_END_KILLED		   ? 3
				  : event->event.thread_id == rank->is.pid ? 2
									   : 1;

		if (!event->how || !rank->thread[i].place[0] || rating <= most)
			continue;
		most = rating;
		ret = &rank->thread[i];
	}
	return ret;
}

/* Without who called it where both have no place. */
static void ends_place(const struct ends_thread *best, char *ret, size_t size)
{
	char place[STACK_PLACE_BYTES], *from;

	(void)copy_text(place, sizeof(place), best ? best->place : "");
	from = strstr(place, " from ");
	if (from && strlen(place) >= size)
		*from = 0;
	(void)copy_text(ret, size, place);
}

static void ends_finish(struct ends_rank *rank)
{
	const struct ends_thread *best = ends_best(rank);
	bool raised = best && best->event.how == RT_END_EXCEPTION;
	char how[END_WORDS_BYTES], what[RT_END_WHAT_BYTES] = "",
				   place[sizeof(((struct finding_evidence *)NULL)->detail)];
	struct online_end_info info = {
		.rank = &rank->is, .ended_ns = rank->ended_ns, .sender = &rank->sender, .place = place};

	ends_place(best, place, sizeof(place));
	for (size_t i = 0; i < rank->threads; i++)
		if (rank->thread[i].event.how)
			ends_put(rank, &rank->thread[i].event);
	if (raised)
		copy_text(what, sizeof(what), best->event.what);
	info.how = end_words(rank->is.wait_status, what, &rank->sender, how);
	if (end_kind_of(rank->is.wait_status, &rank->sender) != END_NORMAL)
		log_info("ends", "rank %d, process %u, has ended: %s%s%s", rank->is.env.rank, rank->is.pid, info.how,
			info.place[0] ? " in " : "", info.place);
	online_ended(rank->ends->context->findings, &info);
	ends_free(rank);
}

/* The collector. */

static void ends_shed(void *arg, uint32_t slot)
{
	struct ends *ends = arg;

	LIST_EACH (link, &ends->ranks) {
		struct ends_rank *rank = CONTAINER_OF(link, struct ends_rank, link);

		if (rank->is.slot == slot && !rank->ended_ns)
			ends_forget_names(rank);
	}
}

static int ends_load(struct ends *ends)
{
	struct kernel *kernel = ends->context->kernel;
	bool tp_btf = kernel_features(kernel)->tp_btf;
	struct ends_bpf *skeleton = ends_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	/* Of another type of program, which has the same helpers: libbpf cannot probe BPF_PROG_TYPE_TRACING. */
	ends->has_places = tp_btf && libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_find_vma, NULL) == 1;
	bpf_program__set_autoload(skeleton->progs.end_place_btf, ends->has_places);
	bpf_program__set_autoload(skeleton->progs.end_sent_btf, tp_btf);
	bpf_program__set_autoload(skeleton->progs.end_sent_raw, !tp_btf);
	bpf_program__set_autoload(skeleton->progs.end_signal_btf, tp_btf);
	bpf_program__set_autoload(skeleton->progs.end_exit_btf, tp_btf);
	bpf_program__set_autoload(skeleton->progs.end_signal_raw, !tp_btf);
	bpf_program__set_autoload(skeleton->progs.end_exit_raw, !tp_btf);
	bpf_program__set_autoattach(skeleton->progs.end_exception, false);
	bpf_program__set_autoattach(skeleton->progs.end_stage, false);
	if (kernel_features(kernel)->uprobe_multi) {
		bpf_program__set_expected_attach_type(skeleton->progs.end_exception, UPROBE_MULTI_ATTACH_TYPE);
		bpf_program__set_expected_attach_type(skeleton->progs.end_stage, UPROBE_MULTI_ATTACH_TYPE);
	}
	r = bpf_map__set_max_entries(skeleton->maps.profile_codes, CODES_MAX);
	if (r == 0)
		r = kernel_load(kernel, skeleton->skeleton);
	if (r == 0)
		r = ends_bpf__attach(skeleton);
	if (r < 0) {
		ends_bpf__destroy(skeleton);
		return r;
	}
	kernel_serve_edge(kernel, RT_EDGE_EXCEPTION, bpf_program__fd(skeleton->progs.end_exception));
	r = kernel_serve_stages(kernel, bpf_program__fd(skeleton->progs.end_stage));
	if (r < 0)
		log_warning("ends", "stages have no stacks: %s", strerror(-r));
	ends->skeleton = skeleton;
	return 0;
}

static int ends_open(struct context *context, void **ret_state)
{
	struct ends *ends = calloc(1, sizeof(*ends));
	int r;

	if (!ends)
		return -ENOMEM;
	ends->context = context;
	list_reset(&ends->ranks);
	r = ends_load(ends);
	if (r < 0) {
		snprintf(ends->reason, sizeof(ends->reason), "the kernel refuses the programs (%s)", strerror(-r));
		log_warning("ends", "%s; what ranks did when they ended is not known", ends->reason);
	}
	rank_budget_part(context->budget, RANK_BUDGET_ENDS, ends_shed, ends);
	*ret_state = ends;
	return 0;
}

/* Its process may be gone by the time that the worker reads it. */
static void ends_recorded(struct ends_rank *rank)
{
	if (rank->names)
		rank->names->recorded = true;
}

/* Before another rank has its slot. */
static void ends_take_sender(struct ends_rank *rank)
{
	struct rt_end_rank value;

	if (!rank->followed ||
		bpf_map_lookup_elem(bpf_map__fd(rank->ends->skeleton->maps.end_ranks), &rank->is.slot, &value) < 0 ||
		value.pid != rank->is.pid)
		return;
	rank->sender.signal = value.sender.signal;
	rank->sender.pid = value.sender.pid;
	rank->sender.out_of_memory = value.sender.out_of_memory;
	copy_text(rank->sender.name, sizeof(rank->sender.name), value.sender.name);
}

static void ends_over(struct ends_rank *rank)
{
	rank->ended_ns = monotonic_ns();
	ends_take_sender(rank);
	ends_recorded(rank);
}

static void ends_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct ends *ends = state;
	struct ends_rank *known = ends_find(ends, rank->pid);

	if (!ends->skeleton)
		return;
	if (known && known->is.instance != rank->instance)
		known = NULL;
	if (!known && change != RANK_ENDED && rank->role == RANK_ROLE_RANK)
		ends_begin(ends, rank);
	if (!known)
		return;
	known->is = *rank;
	if (rank->role != RANK_ROLE_RANK)
		ends_free(known);
	else if (change == RANK_ENDED)
		ends_over(known);
}

static void ends_on_end(struct ends *ends, const struct rt_end_event *event)
{
	struct ends_rank *rank = ends_find(ends, event->event.pid);

	if (!rank || event->how == 0 || event->how >= RT_END_HOWS)
		return;
	if (!rank->thread) {
		rank->thread = calloc(EVENTS_MAX, sizeof(*rank->thread));
		rank->threads = 1;
		ends_recorded(rank);
	}
	if (!rank->thread || (event->how != RT_END_EXCEPTION && rank->threads == EVENTS_MAX)) {
		ends->lost++;
		return;
	}
	rank->thread[event->how == RT_END_EXCEPTION ? 0 : rank->threads++] = (struct ends_thread){.event = *event};
	ends->events++;
}

static void ends_on_stage(struct ends_rank *rank, const struct rt_profile_stack_event *stack)
{
	struct steps_open open;

	if (rank_steps_stage(rank->ends->context->steps, &rank->is, stack->event.thread_id, &open) &&
		stage_stacks_add(&rank->stages, &open, stack) && ends_names(rank))
		profile_rank_stack(rank->names, stack);
}

static void ends_on_wait(struct ends *ends, struct ends_rank *rank, const struct rt_wait_event *wait)
{
	if (rank && !rank->waits)
		rank->waits = calloc(1, sizeof(*rank->waits));
	if (rank && rank->waits)
		wait_stacks_add(rank->waits, wait);
	else
		ends->lost++;
}

static void ends_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	struct ends *ends = state;
	const struct rt_profile_stack_event *stack = (const struct rt_profile_stack_event *)event;
	const struct rt_profile_code_event *code = (const struct rt_profile_code_event *)event;
	struct ends_rank *rank = ends_find(ends, event->pid);

	if (event->kind == RT_KIND_END && size_bytes >= sizeof(struct rt_end_event)) {
		ends_on_end(ends, (const struct rt_end_event *)event);
	} else if (event->kind == RT_KIND_WAIT && size_bytes >= sizeof(struct rt_wait_event)) {
		ends_on_wait(ends, rank, (const struct rt_wait_event *)event);
	} else if ((event->kind == RT_KIND_END_STACK || event->kind == RT_KIND_WAIT_STACK) &&
		   reply_stack_event_valid(stack, size_bytes)) {
		if (rank && ends_names(rank))
			profile_rank_stack(rank->names, stack);
	} else if (event->kind == RT_KIND_STAGE_STACK && reply_stack_event_valid(stack, size_bytes)) {
		if (rank)
			ends_on_stage(rank, stack);
	} else if (event->kind == RT_KIND_END_CODE && reply_code_event_valid(code, size_bytes)) {
		if (rank && ends_names(rank))
			profile_rank_code(rank->names, code);
	} else {
		ends->lost++;
	}
}

static void ends_tick(void *state, uint64_t now_ns)
{
	const struct ends *ends = state;
	struct rank_steps_progress progress;

	LIST_EACH (link, &ends->ranks) {
		struct ends_rank *rank = CONTAINER_OF(link, struct ends_rank, link);
		bool named = !rank->names || profile_rank_name(rank->names, now_ns, true);

		if (rank->names)
			stage_stacks_put(&rank->stages, rank->names);
		if (rank->waits)
			wait_stacks_put(rank->waits, rank->names, now_ns);
		if (!rank->ended_ns && rank->layout.python.interps && now_ns >= rank->stages.next_ns &&
			rank_steps_progress(ends->context->steps, rank->is.slot, rank->is.instance, &progress) &&
			progress.mark_ns && stage_stacks_due(&rank->stages, now_ns))
			kernel_want_stacks(ends->context->kernel, rank->is.slot, STAGE_STACKS_HITS);

		if (!rank->ended_ns)
			rank_budget_set(ends->context->budget, RANK_BUDGET_ENDS, &rank->is,
				rank->names ? profile_rank_bytes(rank->names) : 0);
		if (rank->ended_ns && now_ns - rank->ended_ns >= (named ? LINGER_NS : NAMES_WAIT_NS))
			ends_finish(rank);
		else if (!rank->ended_ns && !rank->request && rank->tries < LAYOUT_TRIES && now_ns >= rank->retry_ns)
			ends_ask(rank, now_ns);
	}
}

static void ends_status(void *state, struct collector_status *ret)
{
	const struct ends *ends = state;
	const struct kernel *kernel = ends->context->kernel;
	size_t followed = 0, python = 0;
	uint64_t stacks = 0, took_ns = 0, waits_lost = 0;
	struct rt_end_rank counts;

	LIST_EACH (link, &ends->ranks) {
		const struct ends_rank *rank = CONTAINER_OF(link, struct ends_rank, link);

		waits_lost += rank->waits ? rank->waits->lost : 0;
		if (!rank->followed || rank->ended_ns ||
			bpf_map_lookup_elem(bpf_map__fd(ends->skeleton->maps.end_ranks), &rank->is.slot, &counts) < 0)
			continue;
		followed++;
		python += counts.python.interps != 0;
		stacks += counts.stacks;
		took_ns += counts.took_ns;
	}
	ret->probes_attached = ends->skeleton ? 4 : 0;
	ret->events = ends->events;
	ret->drops = ends->lost + kernel_drops(kernel, RT_KIND_END) + kernel_drops(kernel, RT_KIND_END_STACK) +
		     kernel_drops(kernel, RT_KIND_END_CODE) + kernel_drops(kernel, RT_KIND_STAGE_STACK) +
		     kernel_drops(kernel, RT_KIND_WAIT) + kernel_drops(kernel, RT_KIND_WAIT_STACK);
	if (!ends->skeleton)
		collector_note(ret, "what ranks did when they ended is not known: %s", ends->reason);
	else if (!ends->has_places)
		collector_note(ret, "signals are recorded without their place in native code: the kernel lacks "
				    "bpf_find_vma (Linux 5.17)");
	if (followed)
		collector_note(
			ret, "%zu rank%s followed, %zu with Python frames", followed, followed == 1 ? "" : "s", python);
	if (stacks)
		collector_note(ret, "%" PRIu64 " stacks at the begin of stages took %.3g ms of the ranks' time", stacks,
			(double)took_ns / (double)NSEC_PER_MSEC);
	if (waits_lost)
		collector_note(ret, "%" PRIu64 " long system calls have no stack", waits_lost);
	if (ends->refused)
		collector_note(ret, "%" PRIu64 " stacks of ranks that ended have no names", ends->refused);
}

static void ends_close(void *state)
{
	struct ends *ends = state;

	if (!ends)
		return;
	if (ends->skeleton) {
		kernel_serve_edge(ends->context->kernel, RT_EDGE_EXCEPTION, -1);
		(void)kernel_serve_stages(ends->context->kernel, -1);
	}
	LIST_EACH (link, &ends->ranks)
		ends_free(CONTAINER_OF(link, struct ends_rank, link));
	rank_budget_part(ends->context->budget, RANK_BUDGET_ENDS, NULL, NULL);
	ends_bpf__destroy(ends->skeleton);
	free(ends);
}

const struct collector collector_ends = {
	.name = "ends",
	.summary = "how ranks ended, and what their threads did then",
	.kinds = 1u << RT_KIND_END | 1u << RT_KIND_END_STACK | 1u << RT_KIND_END_CODE | 1u << RT_KIND_STAGE_STACK |
		 1u << RT_KIND_WAIT | 1u << RT_KIND_WAIT_STACK,
	.open = ends_open,
	.rank = ends_rank,
	.event = ends_event,
	.tick = ends_tick,
	.status = ends_status,
	.close = ends_close,
};
