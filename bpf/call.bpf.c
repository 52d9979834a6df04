/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call engine: one program pair for every probed function. Which function was hit is the cookie of the probe; what
 * to read and what the hit means is data (struct rt_call_spec), so a new function is a table row and no new program.
 *
 * Every read of user memory may fail and is bounded; nothing is ever written to the process. Layouts of CPython objects
 * that are read here: PyObject {refcnt, type}, PyVarObject size at 16, PyTypeObject tp_flags at 168 and tp_name at 24,
 * tuple items at 24 (32 from CPython 3.14, where a cached hash, -1 until asked for, comes first), PyASCIIObject length
 * at 16, state at 32, text at 48 up to 3.11 (after a null wstr pointer) and at 40 from 3.12. They are the same in every
 * 64-bit release build of CPython 3.7 to 3.14 (Include/cpython/{object,tupleobject,unicodeobject}.h).
 */
#include "bpf/probe.bpf.h"
#include "bpf/call.h"

#define PY_TYPE_AT 8
#define PY_SIZE_AT 16
#define PY_TYPE_NAME_AT 24
#define PY_TYPE_FLAGS_AT 168
#define PY_TYPE_IS_TUPLE (1UL << 26)
#define PY_TYPE_IS_STR (1UL << 28)
#define PY_STATE_KIND_SHIFT 2 /* 3 bits: bytes of a unit */
#define PY_STATE_COMPACT (1u << 5)
#define PY_STATE_ASCII (1u << 6)
/* torch.ops.profiler: _record_function_enter, _enter_new and _exit are registered one after the other, so their interned
 * names are numbered one after the other too; see torch/csrc/autograd/record_function_ops.cpp. */
#define MARK_EXIT_DISTANCE_MAX 4

/* Kernels before 5.15 have no cookies: there each probed function gets a program of its own with its number here. */
const volatile uint32_t fixed_spec = 0xffffffff;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_CALL_SPECS_MAX);
	__type(key, uint32_t);
	__type(value, struct rt_call_spec);
} specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct rt_inflight_key);
	__type(value, struct rt_inflight);
} inflight SEC(".maps");

/* Text that a BEGIN of the same thread will want. */
struct stash {
	uint32_t text_bytes;
	uint32_t flags;
	char text[RT_CALL_TEXT_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint32_t); /* thread */
	__type(value, struct stash);
} stashes SEC(".maps");

/* By process: the number of the operator that begins a mark, learnt from its first call. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint32_t);
	__type(value, uint32_t);
} mark_symbols SEC(".maps");

/* Slots of struct pt_regs: the register with a return value (rax, x0) and the stack pointer. */
#if defined(__TARGET_ARCH_arm64)
#define RESULT_SLOT 0
#define STACK_SLOT 31
#define RETURN_ADDRESS_BYTES 0 /* it is in a register */
#else
#define RESULT_SLOT 10
#define STACK_SLOT 19
#define RETURN_ADDRESS_BYTES 8
#endif

/* What one hit yielded, on the program's stack. */
struct reading {
	uint64_t arg[RT_CALL_ARGS_MAX];
	uint64_t stack_pointer;
	uint32_t flags; /* RT_CALL_TEXT, _TRUNCATED, _FAULT */
	uint32_t text_bytes;
	char text[RT_CALL_TEXT_MAX];
};

/* A word of the saved registers; the loader has turned argument numbers into slots of struct pt_regs. */
static __always_inline uint64_t read_slot(void *ctx, uint8_t slot)
{
	uint64_t value = 0;

	if (slot < 36)
		bpf_probe_read_kernel(&value, sizeof(value), (char *)ctx + slot * 8);
	return value;
}

/* The same where the slot is a constant: the verifier allows a plain load then. */
static __always_inline uint64_t fixed_slot(void *ctx, uint32_t slot)
{
	return *(const volatile uint64_t *)((const char *)ctx + slot * 8);
}

static __always_inline uint64_t read_word(uint64_t address, uint32_t *flags)
{
	uint64_t value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
		*flags |= RT_CALL_FAULT;
	return value;
}

static __always_inline uint64_t cut(uint64_t value, uint8_t size_bytes, uint8_t is_signed)
{
	uint32_t shift = 64 - 8 * (uint32_t)size_bytes;

	if (size_bytes == 0 || size_bytes >= 8)
		return value;
	value <<= shift & 63;
	return is_signed ? (uint64_t)((int64_t)value >> (shift & 63)) : value >> (shift & 63);
}

static __always_inline void read_text(struct reading *r, uint64_t address, uint64_t length)
{
	uint32_t n = length;

	if (length > RT_CALL_TEXT_MAX) {
		n = RT_CALL_TEXT_MAX;
		r->flags |= RT_CALL_TRUNCATED;
	}
	if (n == 0) {
		r->flags |= RT_CALL_TEXT;
		return;
	}
	if (n > RT_CALL_TEXT_MAX || bpf_probe_read_user(r->text, n, (void *)address)) {
		r->flags |= RT_CALL_FAULT;
		return;
	}
	r->text_bytes = n;
	r->flags |= RT_CALL_TEXT;
}

static __always_inline uint64_t type_flags(uint64_t object)
{
	uint32_t ignored = 0;

	if (!object)
		return 0;
	return read_word(read_word(object + PY_TYPE_AT, &ignored) + PY_TYPE_FLAGS_AT, &ignored);
}

static __always_inline bool is_str(uint64_t object)
{
	return type_flags(object) & PY_TYPE_IS_STR;
}

/*
 * A str that is not ASCII has its units after struct PyCompactUnicodeObject. Up to 3.11: wstr at 40 (null, or the units
 * themselves where these have 4 bytes), utf8_length at 48, utf8 at 56, wstr_length at 64, units at 72. From 3.12:
 * utf8_length at 40, utf8 at 48, units at 56. utf8 is null until asked for.
 */
static __always_inline void read_pyunits(struct reading *r, uint64_t object, uint64_t length, uint32_t unit_bytes)
{
	uint64_t at40 = read_word(object + 40, &r->flags);
	uint64_t at48 = read_word(object + 48, &r->flags);
	uint64_t at56 = read_word(object + 56, &r->flags);
	bool is_new = at40 ? at40 != object + 72 : !at48 && at56;

	if (length > RT_CALL_TEXT_MAX) /* keeps the product small; read_text() cuts */
		length = RT_CALL_TEXT_MAX + 1;
	read_text(r, object + (is_new ? 56 : 72), length * unit_bytes);
	r->flags |= unit_bytes << RT_CALL_UNIT_SHIFT;
}

/* A str that is not compact is given as no text: the daemon shows it as a name that it could not read. */
static __always_inline void read_pystring(struct reading *r, uint64_t object)
{
	struct {
		uint64_t length;
		uint64_t hash;
		uint64_t state;
		uint64_t first; /* wstr, null, up to 3.11; from 3.12 the text's first bytes */
	} head = {};

	if (bpf_probe_read_user(&head, sizeof(head), (void *)(object + PY_SIZE_AT))) {
		r->flags |= RT_CALL_FAULT;
		return;
	}
	if (!(head.state & PY_STATE_COMPACT)) {
		r->flags |= RT_CALL_FAULT;
		return;
	}
	if (!(head.state & PY_STATE_ASCII)) {
		read_pyunits(r, object, head.length, head.state >> PY_STATE_KIND_SHIFT & 7);
		return;
	}
	read_text(r, object + (head.first ? 40 : 48), head.length);
}

struct tuple {
	uint64_t size;
	uint64_t first;
	uint64_t second;
};

static __always_inline bool read_tuple(uint64_t reference, struct tuple *ret)
{
	uint32_t fault = 0;
	uint64_t object = read_word(reference, &fault);
	uint64_t word[4] = {};

	if (fault || !(type_flags(object) & PY_TYPE_IS_TUPLE) ||
	    bpf_probe_read_user(word, sizeof(word), (void *)(object + PY_SIZE_AT)))
		return false;
	ret->size = word[0];
	if (word[1] == ~0ULL) { /* CPython 3.14: the hash that nobody asked for */
		ret->first = word[2];
		ret->second = word[3];
	} else {
		ret->first = word[1];
		ret->second = word[2];
	}
	return true;
}

static __always_inline void read_arg(void *ctx, const struct rt_call_arg *arg, uint64_t *ret_word, struct reading *r)
{
	uint64_t value = arg->read == RT_READ_CONST ? (uint64_t)(int64_t)arg->offset : read_slot(ctx, arg->reg);
	struct tuple tuple;
	long n;

	switch (arg->read) {
	case RT_READ_DEREF:
		value = read_word(value + (int64_t)arg->offset, &r->flags);
		/* fall through */
	case RT_READ_REG:
	case RT_READ_FRAME:
		value = cut(value, arg->size_bytes, arg->is_signed);
		break;
	case RT_READ_CSTRING:
		n = bpf_probe_read_user_str(r->text, sizeof(r->text), (void *)value);
		if (n > 0) {
			r->text_bytes = n - 1;
			r->flags |= RT_CALL_TEXT;
			if (n == sizeof(r->text))
				r->flags |= RT_CALL_TRUNCATED;
		} else {
			r->flags |= RT_CALL_FAULT;
		}
		break;
	case RT_READ_STDSTRING:
		read_text(r, read_word(value, &r->flags), read_word(value + 8, &r->flags));
		break;
	case RT_READ_PYSTRING:
		if (is_str(value))
			read_pystring(r, value);
		break;
	case RT_READ_PYTUPLE:
		if (read_tuple(value, &tuple) && tuple.size > 0 && is_str(tuple.first))
			read_pystring(r, tuple.first);
		break;
	}
	*ret_word = value;
}

static __always_inline void read_args(void *ctx, const struct rt_call_spec *spec, struct reading *r)
{
	for (int i = 0; i < RT_CALL_ARGS_MAX; i++) {
		if (i >= spec->args)
			break;
		read_arg(ctx, &spec->arg[i], &r->arg[i], r);
	}
}

static __always_inline void fill(struct rt_call_event *event, uint32_t spec, uint32_t flags, uint64_t start_ns,
				 const struct reading *r)
{
	event->event.flags = flags;
	event->start_ns = start_ns ? start_ns : event->event.time_ns;
	event->result = 0;
	event->spec = spec;
	event->stack_pointer = r->stack_pointer;
	event->text_bytes = r->text_bytes;
	__builtin_memcpy(event->arg, r->arg, sizeof(event->arg));
}

static __always_inline void send(uint32_t spec, uint32_t flags, uint64_t start_ns, const struct reading *r, bool has_result,
				 int64_t result)
{
	struct rt_call_text_event *full;
	struct rt_call_event *bare;

	flags |= r->flags | (has_result ? RT_CALL_RESULT : 0);
	if (r->flags & RT_CALL_TEXT) {
		full = reserve_event(RT_KIND_CALL, sizeof(*full));
		if (!full)
			return;
		fill(&full->call, spec, flags, start_ns, r);
		full->call.result = result;
		__builtin_memcpy(full->text, r->text, sizeof(full->text));
		submit_event(full);
	} else {
		bare = reserve_event(RT_KIND_CALL, sizeof(*bare));
		if (!bare)
			return;
		fill(bare, spec, flags, start_ns, r);
		bare->result = result;
		submit_event(bare);
	}
}

/*
 * PyTorch's dispatcher for operators called from Python. A record_function's enter is called with (name, args) where args
 * is None or a str; its exit with the handle alone, under a name numbered next to enter's, or with a handle that says by
 * its type what it is. Any other operator passes by unrecorded.
 */
static __always_inline void on_mark(void *ctx, uint32_t spec_id, const struct rt_call_spec *spec, uint32_t pid)
{
	uint32_t symbol = read_slot(ctx, spec->symbol_reg);
	struct reading r = {.stack_pointer = fixed_slot(ctx, STACK_SLOT)};
	struct tuple tuple;
	uint32_t *known;
	uint32_t fault = 0;
	char type_name[24] = {};

	if (!read_tuple(read_slot(ctx, spec->arg[0].reg), &tuple))
		return;
	if (tuple.size == 2 && is_str(tuple.first)) {
		read_pystring(&r, tuple.first);
		bpf_map_update_elem(&mark_symbols, &pid, &symbol, BPF_ANY);
		send(spec_id, RT_CALL_BEGIN, 0, &r, false, 0);
		return;
	}
	if (tuple.size != 1)
		return;
	known = bpf_map_lookup_elem(&mark_symbols, &pid);
	if (!known || symbol - *known - 1 >= MARK_EXIT_DISTANCE_MAX) {
		uint64_t type = read_word(tuple.first + PY_TYPE_AT, &fault);
		long n = bpf_probe_read_user_str(type_name, sizeof(type_name),
						 (void *)read_word(type + PY_TYPE_NAME_AT, &fault));

		if (fault || !((n == sizeof("torch.ScriptObject") && type_name[6] == 'S') ||
			       (n == sizeof("torch._C.ScriptObject") && type_name[9] == 'S')))
			return;
	}
	send(spec_id, RT_CALL_END, 0, &r, false, 0);
}

static __always_inline void take_stash(struct reading *r)
{
	uint32_t thread = (uint32_t)bpf_get_current_pid_tgid();
	struct stash *stash = bpf_map_lookup_elem(&stashes, &thread);

	if (!stash)
		return;
	__builtin_memcpy(r->text, stash->text, sizeof(r->text));
	r->text_bytes = stash->text_bytes;
	r->flags |= stash->flags;
	bpf_map_delete_elem(&stashes, &thread);
}

static __always_inline void keep_stash(const struct reading *r)
{
	uint32_t thread = (uint32_t)bpf_get_current_pid_tgid();
	struct stash stash = {.text_bytes = r->text_bytes, .flags = r->flags & (RT_CALL_TEXT | RT_CALL_TRUNCATED)};

	__builtin_memcpy(stash.text, r->text, sizeof(stash.text));
	bpf_map_update_elem(&stashes, &thread, &stash, BPF_ANY);
}

/* A deeper stack is a nested call of the same function, which its outermost call stands for; an equal or shallower one
 * means that the recorded call was left by an exception, which no return probe sees. */
static __always_inline void on_call_entry(uint32_t spec_id, const struct reading *r)
{
	struct rt_inflight_key key = {.pid_thread = bpf_get_current_pid_tgid(), .spec = spec_id};
	struct rt_inflight *open = bpf_map_lookup_elem(&inflight, &key);
	struct rt_inflight fresh = {
		.start_ns = bpf_ktime_get_ns(), .flags = r->flags, .stack_pointer = r->stack_pointer};

	if (open && fresh.stack_pointer < open->stack_pointer)
		return;
	__builtin_memcpy(fresh.arg, r->arg, sizeof(fresh.arg));
	if (bpf_map_update_elem(&inflight, &key, &fresh, BPF_ANY))
		count_drop(RT_KIND_CALL);
}

static __always_inline struct rt_call_spec *find_spec(void *ctx, uint32_t *ret_id)
{
	uint32_t id = fixed_spec != 0xffffffff ? fixed_spec : (uint32_t)bpf_get_attach_cookie(ctx);

	*ret_id = id;
	return bpf_map_lookup_elem(&specs, &id);
}

SEC("uprobe")
int call_enter(void *ctx)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;
	struct reading r = {};
	struct rt_call_spec *spec;
	uint32_t id;

	if (!bpf_map_lookup_elem(&ranks, &pid))
		return 0;
	spec = find_spec(ctx, &id);
	if (!spec)
		return 0;
	if (spec->edge == RT_EDGE_MARK) {
		on_mark(ctx, id, spec, pid);
		return 0;
	}
	r.stack_pointer = fixed_slot(ctx, STACK_SLOT);
	read_args(ctx, spec, &r);
	switch (spec->edge) {
	case RT_EDGE_CALL:
		on_call_entry(id, &r);
		break;
	case RT_EDGE_BEGIN:
		if (spec->flags & RT_CALL_TAKES_STASH)
			take_stash(&r);
		send(id, RT_CALL_BEGIN, 0, &r, false, 0);
		break;
	case RT_EDGE_SPAN:
	case RT_EDGE_ENTRY:
		send(id, RT_CALL_BEGIN, 0, &r, false, 0);
		break;
	case RT_EDGE_END:
		send(id, RT_CALL_END, 0, &r, false, 0);
		break;
	case RT_EDGE_STASH:
		if (r.flags & RT_CALL_TEXT)
			keep_stash(&r);
		break;
	}
	return 0;
}

SEC("uprobe")
int call_exit(void *ctx)
{
	uint64_t pid_thread = bpf_get_current_pid_tgid();
	uint32_t pid = pid_thread >> 32;
	struct rt_inflight_key key = {.pid_thread = pid_thread};
	struct rt_inflight *open;
	struct rt_call_spec *spec;
	struct reading r = {};
	uint32_t id;

	if (!bpf_map_lookup_elem(&ranks, &pid))
		return 0;
	spec = find_spec(ctx, &id);
	if (!spec)
		return 0;
	r.stack_pointer = fixed_slot(ctx, STACK_SLOT);
	if (spec->flags & RT_CALL_RETURN_PROBE)
		r.stack_pointer -= RETURN_ADDRESS_BYTES;
	if (spec->edge != RT_EDGE_CALL) {
		send(id, RT_CALL_END, 0, &r, true, fixed_slot(ctx, RESULT_SLOT));
		return 0;
	}
	key.spec = id;
	open = bpf_map_lookup_elem(&inflight, &key);
	if (!open || r.stack_pointer < open->stack_pointer)
		return 0;
	__builtin_memcpy(r.arg, open->arg, sizeof(r.arg));
	r.flags = open->flags & ~RT_CALL_TEXT;
	send(id, RT_CALL_BEGIN | RT_CALL_END, open->start_ns, &r, true, fixed_slot(ctx, RESULT_SLOT));
	bpf_map_delete_elem(&inflight, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
