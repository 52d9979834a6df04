/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call engine: one program pair for all probed functions. The probe's cookie identifies the function; what to read
 * and what a hit means is data (struct rt_call_spec), so a new function is a table row. call_read.bpf.h reads
 * registers and memory, call_python.bpf.h objects of CPython and texts.
 *
 * Every read of user memory may fail and is bounded; the process is never written to.
 */
#include "bpf/call_python.bpf.h"
#include "bpf/copies.h"
#include "bpf/call_stack.bpf.h"

/*
 * torch.ops.profiler registers _record_function_enter, _enter_new and _exit in sequence, so their interned names have
 * consecutive numbers; see torch/csrc/autograd/record_function_ops.cpp.
 */
#define MARK_EXIT_DISTANCE_MAX 4

/*
 * Kernels before 5.15 have no cookies: there each function has its own program, with its number and specification here.
 * The verifier knows read-only data and follows only what this function does, a hundredth of all paths.
 */
const volatile uint32_t fixed_id = 0xffffffff;
const volatile struct rt_call_spec fixed_spec;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_CALL_SPECS_MAX);
	__type(key, uint32_t);
	__type(value, struct rt_call_spec);
} specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_RANK_CALLS_MAX); /* set by the loader: for each rank */
	__type(key, struct rt_inflight_key);
	__type(value, struct rt_inflight);
} inflight SEC(".maps");

/* Text for a later BEGIN of the same thread, or for the record at a call's return. */
struct stash {
	uint32_t text_bytes;
	uint32_t flags;
	char text[RT_CALL_TEXT_MAX];
};

/* What is kept is filled in its map: with a copy on the stack, a program exceeds the 512 bytes of kernels before
 * 6.13. */
static const struct stash no_stash;
static const struct rt_inflight no_call;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint32_t); /* thread */
	__type(value, struct stash);
} stashes SEC(".maps");

/* Texts of calls in flight. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_RANK_TEXTS_MAX); /* set by the loader: for each rank */
	__type(key, struct rt_inflight_key);
	__type(value, struct stash);
} call_texts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_RANK_GROUPS_MAX); /* set by the loader: for each rank */
	__type(key, uint64_t);
	__type(value, struct rt_group);
} groups SEC(".maps");

/* The last outermost call of a thread (RT_CALL_OUTERMOST), its specification, by tgid << 32 | thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint64_t);
	__type(value, uint32_t);
} outermost SEC(".maps");

/* The memory collector's program, which reads the stack of a call; empty while L2 is off. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} stack_program SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader: ranks */
	__type(key, uint32_t);
	__type(value, struct rt_copies);
} copies SEC(".maps");
/* Edges that begin stages, as bits. */
#define STAGE_BEGINS ((1u << RT_EDGE_MARK) | (1u << RT_EDGE_BEGIN) | (1u << RT_EDGE_SPAN))

/* The program that reads the stack at the begin of a stage; empty where the kernel refuses it. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} stage_program SEC(".maps");

/* A stage whose return value is kept: a call that waits for the device, which reports what failed there. */
#define RESULT_STAGE(spec) ((spec)->edge == RT_EDGE_SPAN && (spec)->flags & RT_CALL_RESULT)
/* A call of memory of a device, or one that waits for it, that returned an error, which is an int in all libraries. */
#define FAILED_CALL(spec, result) (((spec)->flags & RT_CALL_OUTERMOST || RESULT_STAGE(spec)) && (uint32_t)(result))
#define STACK_WANTED(spec, result) ((spec)->flags & RT_CALL_STACK || FAILED_CALL(spec, result))

static __always_inline void call_fill(
	struct rt_call_event *event, uint32_t spec, uint32_t flags, uint64_t stack_pointer)
{
	event->event.flags = flags;
	event->start_ns = event->event.time_ns;
	event->result = 0;
	event->spec = spec;
	event->stack_pointer = stack_pointer;
	event->text_bytes = 0;
}

static __always_inline void add_text(struct rt_call_event *event, const struct text *t)
{
	event->event.flags |= t->flags;
	event->text_bytes = t->bytes;
}

/*
 * PyTorch's dispatcher for operators called from Python. A record_function's enter is called with (name, args), where
 * args is None or a str; its exit with the handle, under a name numbered next to enter's, or with a handle identified
 * by its type. Other operators are ignored. This is L0's hot path: every read counts.
 */
static __always_inline void on_mark_begin(uint32_t spec_id, uint32_t symbol, uint64_t name, uint64_t stack_pointer,
	struct python *python, struct rt_quota *quota)
{
	struct rt_call_text_event *full;
	struct text text = {};
	struct object object;

	if (!read_object(&object, name) || !is_type(object.type, &python->str_type, PY_TYPE_IS_STR))
		return;
	if (!python->has_symbol || python->symbol != symbol) {
		python->symbol = symbol;
		python->has_symbol = 1;
	}
	full = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*full));
	if (!full)
		return;
	call_fill(&full->call, spec_id, RT_CALL_BEGIN, stack_pointer);
	__builtin_memset(full->call.arg, 0, sizeof(full->call.arg));
	read_pystring(&text, full->text, name, &object);
	add_text(&full->call, &text);
	submit_event(full);
}

static __always_inline bool is_handle(uint64_t object)
{
	uint32_t fault = 0;
	uint64_t type = read_word(object + PY_TYPE_AT, &fault);
	char type_name[24] = {};
	long n = bpf_probe_read_user_str(
		type_name, sizeof(type_name), (void *)read_word(type + PY_TYPE_NAME_AT, &fault));

	return !fault && ((n == sizeof("torch.ScriptObject") && type_name[6] == 'S') ||
				 (n == sizeof("torch._C.ScriptObject") && type_name[9] == 'S'));
}

static __always_inline void on_mark(
	void *ctx, uint32_t spec_id, const struct rt_call_spec *spec, struct python *python, struct rt_quota *quota)
{
	uint64_t stack_pointer = FIXED_SLOT(ctx, STACK_SLOT);
	uint32_t fault = 0, symbol;
	struct rt_call_event *bare;
	struct tuple tuple;

	if (!read_tuple(read_slot(ctx, spec->arg[0].reg, stack_pointer, &fault), python, &tuple))
		return;
	if (tuple.size != 1 && tuple.size != 2)
		return;
	symbol = read_slot(ctx, spec->symbol_reg, stack_pointer, &fault);
	if (tuple.size == 2) {
		on_mark_begin(spec_id, symbol, tuple.first, stack_pointer, python, quota);
		return;
	}
	if ((!python->has_symbol || symbol - python->symbol - 1 >= MARK_EXIT_DISTANCE_MAX) && !is_handle(tuple.first))
		return;
	bare = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*bare));
	if (!bare)
		return;
	call_fill(bare, spec_id, RT_CALL_END, stack_pointer);
	__builtin_memset(bare->arg, 0, sizeof(bare->arg));
	submit_event(bare);
}

/* Moves the thread's stashed text into a record. */
static __always_inline void take_stash(struct rt_call_text_event *full)
{
	uint32_t thread = (uint32_t)bpf_get_current_pid_tgid();
	struct stash *stash = bpf_map_lookup_elem(&stashes, &thread);

	if (!stash)
		return;
	__builtin_memcpy(full->text, stash->text, sizeof(full->text));
	full->call.text_bytes = stash->text_bytes;
	full->call.event.flags |= stash->flags;
	bpf_map_delete_elem(&stashes, &thread);
}

/* Counts as a record: a flood would evict the texts of others before their use. */
static __always_inline void keep_stash(const struct rt_call_spec *spec, const struct words *w, struct rt_quota *quota)
{
	uint32_t thread = (uint32_t)bpf_get_current_pid_tgid();
	struct stash *stash;
	struct text text = {};

	if (!may_send(quota, RT_KIND_CALL, bpf_ktime_get_ns(), sizeof(*stash)))
		return;
	bpf_map_update_elem(&stashes, &thread, &no_stash, BPF_ANY);
	stash = bpf_map_lookup_elem(&stashes, &thread);
	if (!stash)
		return;
	read_last_text(&text, stash->text, spec, w);
	if (!(text.flags & RT_CALL_TEXT)) {
		bpf_map_delete_elem(&stashes, &thread);
		return;
	}
	stash->text_bytes = text.bytes;
	stash->flags = text.flags & (RT_CALL_TEXT | RT_CALL_TRUNCATED);
}

/* Flags of a whole call's record; the return register is valid only if the row says so. */
#define WHOLE_CALL(spec) (RT_CALL_BEGIN | RT_CALL_END | ((spec)->flags & RT_CALL_RESULT))

/* Sends the record of an entry. */
static __always_inline void send_entry(uint32_t spec_id, uint32_t edge_flags, const struct rt_call_spec *spec,
	const struct words *w, struct rt_quota *quota)
{
	struct rt_call_text_event *full;
	struct rt_call_event *bare;
	struct text text = {};

	if (!(spec->flags & (RT_CALL_HAS_TEXT | RT_CALL_TAKES_STASH))) {
		bare = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*bare));
		if (!bare)
			return;
		call_fill(bare, spec_id, edge_flags | w->flags, w->stack_pointer);
		__builtin_memcpy(bare->arg, w->arg, sizeof(bare->arg));
		submit_event(bare);
		return;
	}
	full = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*full));
	if (!full)
		return;
	call_fill(&full->call, spec_id, edge_flags | w->flags, w->stack_pointer);
	__builtin_memcpy(full->call.arg, w->arg, sizeof(full->call.arg));
	if (spec->flags & RT_CALL_HAS_TEXT) {
		read_last_text(&text, full->text, spec, w);
		add_text(&full->call, &text);
	} else {
		take_stash(full);
	}
	submit_event(full);
}

/* The start of one that failed is not known here: its record and its stack have the time of the return. */
static __always_inline void send_end(uint32_t spec_id, const struct rt_call_spec *spec, uint64_t stack_pointer,
	int64_t result, struct rt_quota *quota)
{
	uint64_t pid_thread = bpf_get_current_pid_tgid();
	struct rt_call_event *event = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*event));
	struct rt_stack_call call = {.failed = 1};

	if (!event)
		return;
	call_fill(event, spec_id, RT_CALL_END | (spec->flags & RT_CALL_RESULT), stack_pointer);
	__builtin_memset(event->arg, 0, sizeof(event->arg));
	event->result = result;
	call.start_ns = event->start_ns;
	submit_event(event);
	if (FAILED_CALL(spec, result))
		bpf_map_update_elem(&stack_calls, &pid_thread, &call, BPF_ANY);
}

/*
 * If opened too long ago, its close was missed (probes attached or detached in between): without this, the thread would
 * never leave it.
 */
static __always_inline bool is_open(const struct rt_group *group, uint64_t now_ns)
{
	return group && group->depth > 0 && now_ns - group->start_ns < RT_GROUP_AGE_MAX_NS;
}

/* The group open on this thread, or NULL. */
static __always_inline struct rt_group *find_group(uint64_t pid_thread, uint64_t now_ns)
{
	struct rt_group *group = bpf_map_lookup_elem(&groups, &pid_thread);

	return is_open(group, now_ns) ? group : NULL;
}

/* A call in flight, to be filled: open, which an exception left, or a new one. NULL: the rank has too many, or the map
 * is full. */
static __always_inline struct rt_inflight *keep_inflight(
	const struct rt_inflight_key *key, struct rt_inflight *open, struct rt_quota *quota)
{
	if (open)
		return open;
	if (!probe_hold(quota, RT_HELD_CALLS, RT_RANK_CALLS_MAX))
		return NULL;
	if (!bpf_map_update_elem(&inflight, key, &no_call, BPF_ANY))
		return bpf_map_lookup_elem(&inflight, key);
	probe_release(quota, RT_HELD_CALLS);
	count_drop(RT_KIND_CALL);
	return NULL;
}

static __always_inline void drop_inflight(const struct rt_inflight_key *key, struct rt_quota *quota)
{
	if (!bpf_map_delete_elem(&inflight, key))
		probe_release(quota, RT_HELD_CALLS);
}

static __always_inline void on_open(uint32_t spec_id, struct rt_quota *quota)
{
	uint64_t pid_thread = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_ns();
	struct rt_group fresh = {.start_ns = now_ns, .depth = 1, .spec = spec_id};
	struct rt_group *group = bpf_map_lookup_elem(&groups, &pid_thread);

	if (is_open(group, now_ns)) {
		group->depth++;
	} else if (group) {
		*group = fresh;
	} else if (probe_hold(quota, RT_HELD_GROUPS, RT_RANK_GROUPS_MAX) &&
		   bpf_map_update_elem(&groups, &pid_thread, &fresh, BPF_NOEXIST)) {
		probe_release(quota, RT_HELD_GROUPS);
		count_drop(RT_KIND_CALL);
	}
}

static __always_inline void join_group(struct words *w)
{
	struct rt_group *group = find_group(bpf_get_current_pid_tgid(), bpf_ktime_get_ns());

	if (!group)
		return;
	group->members++;
	w->flags |= RT_CALL_IN_GROUP;
}

/* The outermost close is in flight until it returns. */
static __always_inline void on_close(uint32_t spec_id, uint64_t stack_pointer, struct rt_quota *quota)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = spec_id};
	uint64_t now_ns = bpf_ktime_get_ns();
	struct rt_group *group = find_group(key.pid_thread, now_ns);
	struct rt_inflight *open;

	if (!group || group->depth != 1)
		return;
	open = keep_inflight(&key, bpf_map_lookup_elem(&inflight, &key), quota);
	if (!open)
		return;
	open->stack_pointer = stack_pointer;
	open->flags = 0;
	open->arg[0] = group->members;
	open->arg[1] = group->start_ns;
	open->start_ns = now_ns;
}

static __always_inline void on_close_return(uint32_t spec_id, const struct rt_call_spec *spec, uint64_t stack_pointer,
	int64_t result, struct rt_quota *quota)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = spec_id};
	uint64_t now_ns = bpf_ktime_get_ns(), entered_ns = now_ns, opened_ns;
	struct rt_group *group = find_group(key.pid_thread, now_ns);
	struct rt_call_event *event;
	struct rt_inflight *open;
	uint32_t members;

	if (!group || --group->depth > 0)
		return;
	members = group->members;
	opened_ns = group->start_ns;
	if (!bpf_map_delete_elem(&groups, &key.pid_thread))
		probe_release(quota, RT_HELD_GROUPS);
	open = bpf_map_lookup_elem(&inflight, &key);
	if (open) {
		entered_ns = open->start_ns;
		drop_inflight(&key, quota);
	}
	if (members == 0)
		return;
	event = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*event));
	if (!event)
		return;
	call_fill(event, spec_id, WHOLE_CALL(spec), stack_pointer);
	__builtin_memset(event->arg, 0, sizeof(event->arg));
	event->start_ns = opened_ns;
	event->arg[0] = members;
	event->arg[1] = entered_ns;
	event->result = result;
	submit_event(event);
}

/*
 * Is the call within another such call of its thread, which is in flight? If not, it is the outermost one. A runtime
 * that jumps to its driver as its last act leaves it the same stack; the same function with the same stack is a later
 * call.
 */
static __always_inline bool call_is_inner(struct rt_inflight_key *key, uint64_t stack_pointer)
{
	const uint32_t *outer = bpf_map_lookup_elem(&outermost, &key->pid_thread);
	const struct rt_inflight *open = NULL;
	uint32_t spec = key->spec;

	if (outer) {
		key->spec = *outer;
		open = bpf_map_lookup_elem(&inflight, key);
		key->spec = spec;
	}
	if (open && (stack_pointer < open->stack_pointer || (stack_pointer == open->stack_pointer && *outer != spec)))
		return true;
	bpf_map_update_elem(&outermost, &key->pid_thread, &key->spec, BPF_ANY);
	return false;
}

/*
 * A deeper stack is a nested call of the same function, represented by its outermost call; an equal or shallower one
 * means that an exception left the recorded call, which no return probe sees.
 */
static __always_inline void on_call(
	void *ctx, uint32_t spec_id, const struct rt_call_spec *spec, struct words *w, struct rt_quota *quota)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = spec_id};
	struct rt_inflight *open = bpf_map_lookup_elem(&inflight, &key);
	struct stash *stash;
	struct text text = {};

	if (open && w->stack_pointer < open->stack_pointer)
		return;
	read_args(ctx, spec, w);
	if (spec->flags & RT_CALL_OUTERMOST && call_is_inner(&key, w->stack_pointer))
		return;
	if (spec->flags & RT_CALL_MEMBER)
		join_group(w);
	open = keep_inflight(&key, open, quota);
	if (!open)
		return;
	open->stack_pointer = w->stack_pointer;
	open->flags = w->flags;
	__builtin_memcpy(open->arg, w->arg, sizeof(open->arg));
	open->start_ns = bpf_ktime_get_ns();
	if (!(spec->flags & RT_CALL_HAS_TEXT))
		return;
	stash = bpf_map_lookup_elem(&call_texts, &key);
	if (!stash) {
		if (!probe_hold(quota, RT_HELD_TEXTS, RT_RANK_TEXTS_MAX))
			return;
		if (bpf_map_update_elem(&call_texts, &key, &no_stash, BPF_NOEXIST))
			probe_release(quota, RT_HELD_TEXTS);
		stash = bpf_map_lookup_elem(&call_texts, &key);
		if (!stash) {
			count_drop(RT_KIND_CALL);
			return;
		}
	}
	read_last_text(&text, stash->text, spec, w);
	stash->text_bytes = text.bytes;
	stash->flags = text.flags;
}

/* Words kept at the entry, and those read only now. */
static __always_inline void fill_return(struct rt_call_event *event, uint32_t spec_id, const struct rt_call_spec *spec,
	const struct rt_inflight *open, uint64_t stack_pointer, int64_t result)
{
	uint32_t flags = 0;

	call_fill(event, spec_id, WHOLE_CALL(spec) | open->flags, stack_pointer);
	event->start_ns = open->start_ns;
	event->result = result;
	__builtin_memcpy(event->arg, open->arg, sizeof(event->arg));
#pragma clang loop unroll(disable)
	for (int i = 0; i < RT_CALL_ARGS_MAX; i++) {
		if (i >= spec->args)
			break;
		if (spec->arg[i].read == RT_READ_OUT)
			event->arg[i] = read_sized(open->arg[i], &spec->arg[i], &flags);
	}
	event->event.flags |= flags;
}

static __always_inline void drop_text(const struct rt_inflight_key *key, struct rt_quota *quota)
{
	if (!bpf_map_delete_elem(&call_texts, key))
		probe_release(quota, RT_HELD_TEXTS);
}

/* ns: 0 for one that is summed at its entry. */
static __always_inline void sum_copy(
	uint32_t slot, const struct rt_call_spec *spec, uint64_t bytes, uint64_t direction, uint64_t ns)
{
	struct rt_copies *of = bpf_map_lookup_elem(&copies, &slot);
	struct rt_copy_sum *sum;

	if (!of)
		return;
	if (direction >= RT_COPY_DIRECTIONS)
		direction = RT_COPY_DIRECTIONS - 1;
	sum = &of->sum[spec->flags & RT_CALL_ASYNC ? 1 : 0][direction];
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->bytes, bytes);
	/* Of the addition of a constant 0 the compiler makes an instruction that Linux 5.10 lacks
	 * (tests/check/instructions.sh). */
	if (!ns)
		return;
	__sync_fetch_and_add(&sum->ns, ns);
	if (ns > sum->longest_ns)
		sum->longest_ns = ns;
	if (!(spec->flags & RT_CALL_ASYNC) || ns < RT_COPY_HELD_NS || bytes < RT_COPY_HELD_BYTES ||
		bytes > ns * RT_COPY_HELD_BYTES_A_NS)
		return;
	__sync_fetch_and_add(&sum->held_count, 1);
	__sync_fetch_and_add(&sum->held_bytes, bytes);
	__sync_fetch_and_add(&sum->held_ns, ns);
}

static __always_inline void on_call_return(uint32_t spec_id, const struct rt_call_spec *spec, uint64_t stack_pointer,
	int64_t result, uint32_t slot, struct rt_quota *quota)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = spec_id};
	struct rt_inflight *open = bpf_map_lookup_elem(&inflight, &key);
	struct rt_call_text_event *full;
	struct rt_call_event *bare;
	struct stash *text = NULL;

	if (!open || stack_pointer < open->stack_pointer)
		return;
	if (spec->flags & RT_CALL_SUMMED && !(uint32_t)result) {
		sum_copy(slot, spec, open->arg[0], open->arg[1], bpf_ktime_get_ns() - open->start_ns);
		drop_inflight(&key, quota);
		return;
	}
	if (spec->flags & RT_CALL_HAS_TEXT)
		text = bpf_map_lookup_elem(&call_texts, &key);
	if (text) {
		full = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*full));
		if (full) {
			fill_return(&full->call, spec_id, spec, open, stack_pointer, result);
			__builtin_memcpy(full->text, text->text, sizeof(full->text));
			full->call.event.flags |= text->flags;
			full->call.text_bytes = text->text_bytes;
			submit_event(full);
		}
		drop_text(&key, quota);
	} else {
		bare = reserve_rank_event(quota, RT_KIND_CALL, sizeof(*bare));
		if (bare) {
			fill_return(bare, spec_id, spec, open, stack_pointer, result);
			submit_event(bare);
		}
	}
	if (STACK_WANTED(spec, result)) {
		struct rt_stack_call call = {open->start_ns, (uint32_t)result != 0};

		bpf_map_update_elem(&stack_calls, &key.pid_thread, &call, BPF_ANY);
	}
	drop_inflight(&key, quota);
}

static __always_inline const struct rt_call_spec *find_spec(void *ctx, uint32_t *ret_id)
{
	const struct rt_call_spec *fixed = (const struct rt_call_spec *)&fixed_spec;

	*ret_id = fixed_id;
	if (fixed_id != 0xffffffff) {
		asm volatile("" : "+r"(fixed)); /* The compiler knows it as zeros. */
		return fixed;
	}
	*ret_id = (uint32_t)bpf_get_attach_cookie(ctx);
	return bpf_map_lookup_elem(&specs, ret_id);
}

/* All edges except marks. Not inlined, so that a mark clears no big stack. */
static __noinline int on_entry(
	void *ctx, uint32_t id, const struct rt_call_spec *spec, uint32_t slot, struct rt_quota *quota)
{
	struct words w = {.stack_pointer = FIXED_SLOT(ctx, STACK_SLOT)};

	if (spec->edge == RT_EDGE_CALL) {
		on_call(ctx, id, spec, &w, quota);
		return 0;
	}
	read_args(ctx, spec, &w);
	if (spec->flags & RT_CALL_SUMMED) {
		sum_copy(slot, spec, w.arg[0], w.arg[1], 0);
		return 0;
	}
	if (spec->flags & RT_CALL_MEMBER)
		join_group(&w);
	switch (spec->edge) {
	case RT_EDGE_BEGIN:
	case RT_EDGE_SPAN:
	case RT_EDGE_ENTRY:
		send_entry(id, RT_CALL_BEGIN, spec, &w, quota);
		break;
	case RT_EDGE_END:
		send_entry(id, RT_CALL_END, spec, &w, quota);
		break;
	case RT_EDGE_STASH:
		keep_stash(spec, &w, quota);
		break;
	case RT_EDGE_OPEN:
		on_open(id, quota);
		break;
	case RT_EDGE_CLOSE:
		on_close(id, w.stack_pointer, quota);
		break;
	}
	return 0;
}

SEC("uprobe")
int call_enter(void *ctx)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;
	uint32_t *rank_slot = bpf_map_lookup_elem(&ranks, &pid);
	const struct rt_call_spec *spec;
	struct rt_quota *quota;
	struct cost_hit cost;
	struct python *python;
	uint64_t start_ns;
	uint32_t id;

	if (!rank_slot)
		return 0;
	spec = find_spec(ctx, &id);
	if (!spec)
		return 0;
	quota = find_quota(*rank_slot);
	if (!quota)
		return 0;
	start_ns = bpf_ktime_get_ns();
	cost = cost_begin(*rank_slot, spec->cost_level,
		spec->flags & RT_CALL_STEPPED ? RT_COST_STEPPED : RT_COST_EMULATED, start_ns);
	if (spec->edge != RT_EDGE_MARK) {
		on_entry(ctx, id, spec, *rank_slot, quota);
	} else {
		python = find_python(*rank_slot, pid);
		if (python)
			on_mark(ctx, id, spec, python, quota);
	}
	cost_end(&cost);
	if (quota->stacks_wanted && STAGE_BEGINS >> spec->edge & 1)
		bpf_tail_call(ctx, &stage_program, 0);
	return 0;
}

SEC("uprobe")
int call_exit(void *ctx)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;
	uint64_t stack_pointer = FIXED_SLOT(ctx, STACK_SLOT);
	uint32_t *rank_slot = bpf_map_lookup_elem(&ranks, &pid);
	int64_t result = FIXED_SLOT(ctx, RESULT_SLOT);
	const struct rt_call_spec *spec;
	struct rt_quota *quota;
	struct cost_hit cost;
	uint64_t start_ns;
	uint32_t id;

	if (!rank_slot)
		return 0;
	spec = find_spec(ctx, &id);
	if (!spec)
		return 0;
	quota = find_quota(*rank_slot);
	if (!quota)
		return 0;
	start_ns = bpf_ktime_get_ns();
	cost = cost_begin(*rank_slot, spec->cost_level,
		spec->flags & RT_CALL_RETURN_PROBE ? RT_COST_RETURN : RT_COST_STEPPED, start_ns);
	if (spec->flags & RT_CALL_RETURN_PROBE)
		stack_pointer -= RETURN_ADDRESS_BYTES;
	if (spec->edge == RT_EDGE_CALL)
		on_call_return(id, spec, stack_pointer, result, *rank_slot, quota);
	else if (spec->edge == RT_EDGE_CLOSE)
		on_close_return(id, spec, stack_pointer, result, quota);
	else
		send_end(id, spec, stack_pointer, result, quota);
	cost_end(&cost);
	if (STACK_WANTED(spec, result))
		bpf_tail_call(ctx, &stack_program, 0);
	return 0;
}

/* The current thread's call of a function. Not static: the verifier checks a global function once, a static one at each
 * call. */
__attribute__((noinline)) int forget_call(uint32_t id)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = id};
	const struct rt_call_spec *spec = bpf_map_lookup_elem(&specs, &id);
	uint32_t pid = key.pid_thread >> 32, *rank_slot;
	struct rt_quota *quota;

	if (!spec || !(spec->flags & RT_CALL_NEEDS_RETURN))
		return 0;
	rank_slot = bpf_map_lookup_elem(&ranks, &pid);
	quota = rank_slot ? find_quota(*rank_slot) : NULL;
	drop_inflight(&key, quota);
	if (spec->flags & RT_CALL_HAS_TEXT)
		drop_text(&key, quota);
	return 0;
}

/*
 * A thread ends, maybe inside of calls: their entries would fill the maps. Which of its calls are in flight is not
 * known, so each function with a return is tried; a rank without calls in flight, the usual case, costs nothing.
 */
static __always_inline int forget_thread(void)
{
	uint64_t pid_thread = bpf_get_current_pid_tgid();
	uint32_t pid = pid_thread >> 32, thread = (uint32_t)pid_thread;
	uint32_t *rank_slot = bpf_map_lookup_elem(&ranks, &pid);
	struct rt_quota *quota = rank_slot ? find_quota(*rank_slot) : NULL;

	if (!quota)
		return 0;
	bpf_map_delete_elem(&stashes, &thread);
	if (quota->held[RT_HELD_GROUPS] > 0 && !bpf_map_delete_elem(&groups, &pid_thread))
		probe_release(quota, RT_HELD_GROUPS);
	if (quota->held[RT_HELD_CALLS] <= 0)
		return 0;
#pragma clang loop unroll(disable)
	for (uint32_t id = 0; id < RT_CALL_SPECS_MAX; id++)
		forget_call(id);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int thread_exit_btf(void *ctx)
{
	(void)ctx;
	return forget_thread();
}

SEC("raw_tp/sched_process_exit")
int thread_exit_raw(void *ctx)
{
	(void)ctx;
	return forget_thread();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
