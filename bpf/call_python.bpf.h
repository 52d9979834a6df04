/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Texts of C, C++ and CPython, whose objects are read from memory.
 *
 * Layouts: PyObject {refcnt, type}, PyVarObject size at 16, PyTypeObject tp_flags at 168 and tp_name at 24, tuple
 * items at 24 (32 from CPython 3.14, after a cached hash, -1 until computed), PyASCIIObject length at 16, state at 32,
 * text at 48 up to 3.11 (after a null wstr pointer) and at 40 from 3.12. Equal in every 64-bit release build of
 * CPython 3.7 to 3.14 (Include/cpython/{object,tupleobject,unicodeobject}.h).
 */
#ifndef RANKTRACE_CALL_PYTHON_BPF_H
#define RANKTRACE_CALL_PYTHON_BPF_H

#include "bpf/call_read.bpf.h"

#define PY_TYPE_AT 8 /* struct object has the other heads */
#define PY_TYPE_NAME_AT 24
#define PY_TYPE_FLAGS_AT 168
#define PY_TYPE_IS_TUPLE (1UL << 26)
#define PY_TYPE_IS_STR (1UL << 28)
#define PY_STATE_KIND_SHIFT 2 /* 3 bits: bytes per unit */
#define PY_STATE_COMPACT (1u << 5)
#define PY_STATE_ASCII (1u << 6)
/*
 * Cached per process: the types tuple and str, and the number of the operator that begins a mark, known from its first
 * call. By the rank's slot; another process takes the entry over.
 */
struct python {
	uint32_t pid;
	uint32_t symbol;
	uint32_t has_symbol;
	uint32_t pad0;
	uint64_t tuple_type;
	uint64_t str_type;
};

#define PYTHONS 1024 /* a power of two */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYTHONS);
	__type(key, uint32_t);
	__type(value, struct python);
} pythons SEC(".maps");

/* A text on its way into a record or a map. */
struct text {
	uint32_t bytes;
	uint32_t flags; /* RT_CALL_TEXT, _TRUNCATED, _FAULT, unit */
};

static __always_inline void read_text(struct text *t, char *to, uint64_t address, uint64_t length)
{
	uint32_t n = length;

	if (length > RT_CALL_TEXT_MAX) {
		n = RT_CALL_TEXT_MAX;
		t->flags |= RT_CALL_TRUNCATED;
	}
	if (n > RT_CALL_TEXT_MAX || bpf_probe_read_user(to, n, (void *)address)) {
		t->flags |= RT_CALL_FAULT;
		return;
	}
	t->bytes = n;
	t->flags |= RT_CALL_TEXT;
}

/* Head of an object. str: length, hash, state, and the word at 40. tuple: size and first words. */
struct object {
	uint64_t references;
	uint64_t type;
	uint64_t size;
	uint64_t word[3]; /* 24, 32, 40 */
};

static __always_inline bool read_object(struct object *ret, uint64_t address)
{
	return address && bpf_probe_read_user(ret, sizeof(*ret), (void *)address) == 0;
}

/* Is a type the known one, or of its kind, which makes it known? */
static __always_inline bool is_type(uint64_t type, uint64_t *known, uint64_t kind)
{
	uint32_t ignored = 0;

	if (type && type == *known)
		return true;
	if (!(read_word(type + PY_TYPE_FLAGS_AT, &ignored) & kind))
		return false;
	*known = type;
	return true;
}

/*
 * Units of a non-ASCII str follow struct PyCompactUnicodeObject. Up to 3.11: wstr at 40 (null, or the units themselves
 * if of 4 bytes), utf8_length at 48, utf8 at 56, wstr_length at 64, units at 72. From 3.12: utf8_length at 40, utf8 at
 * 48, units at 56. utf8 is null until used.
 */
static __always_inline void read_pyunits(
	struct text *t, char *to, uint64_t object, uint64_t at40, uint64_t length, uint32_t unit_bytes)
{
	uint64_t at48 = read_word(object + 48, &t->flags);
	uint64_t at56 = read_word(object + 56, &t->flags);
	bool is_new = at40 ? at40 != object + 72 : !at48 && at56;

	if (length > RT_CALL_TEXT_MAX) /* bounds the product; read_text() truncates */
		length = RT_CALL_TEXT_MAX + 1;
	read_text(t, to, object + (is_new ? 56 : 72), length * unit_bytes);
	t->flags |= unit_bytes << RT_CALL_UNIT_SHIFT;
}

/*
 * A non-compact str yields no text; the daemon shows it as unreadable. The word at 40 is wstr, null, up to 3.11; from
 * 3.12 the text's first bytes.
 */
static __always_inline void read_pystring(struct text *t, char *to, uint64_t address, const struct object *str)
{
	uint64_t state = str->word[1], at40 = str->word[2];

	if (!(state & PY_STATE_COMPACT)) {
		t->flags |= RT_CALL_FAULT;
		return;
	}
	if (!(state & PY_STATE_ASCII)) {
		read_pyunits(t, to, address, at40, str->size, state >> PY_STATE_KIND_SHIFT & 7);
		return;
	}
	read_text(t, to, address + (at40 ? 40 : 48), str->size);
}

struct tuple {
	uint64_t size;
	uint64_t first;
};

static __always_inline bool read_tuple(uint64_t reference, struct python *python, struct tuple *ret)
{
	uint32_t fault = 0;
	struct object object;

	if (!read_object(&object, read_word(reference, &fault)) ||
		!is_type(object.type, &python->tuple_type, PY_TYPE_IS_TUPLE))
		return false;
	ret->size = object.size;
	/* CPython 3.14: an uncomputed hash comes first. */
	ret->first = object.word[0] == ~0ULL ? object.word[1] : object.word[0];
	return true;
}

/* Entry of this process; another process's content is discarded. Never NULL. */
static __always_inline struct python *find_python(uint32_t rank_slot, uint32_t pid)
{
	uint32_t at = rank_slot & (PYTHONS - 1);
	struct python *python = bpf_map_lookup_elem(&pythons, &at);

	if (python && python->pid != pid) {
		python->has_symbol = 0;
		python->tuple_type = 0;
		python->str_type = 0;
		python->pid = pid;
	}
	return python;
}

static __always_inline void read_cstring(struct text *t, char *to, uint64_t address)
{
	long n = bpf_probe_read_user_str(to, RT_CALL_TEXT_MAX, (void *)address);

	if (n <= 0) {
		t->flags |= RT_CALL_FAULT;
		return;
	}
	t->bytes = n - 1;
	t->flags |= RT_CALL_TEXT | (n == RT_CALL_TEXT_MAX ? RT_CALL_TRUNCATED : 0);
}

/* The text reader of a row, always its last. */
static __noinline int read_last_text(struct text *t, char *to, const struct rt_call_spec *spec, const struct words *w)
{
	struct python learnt = {};
	uint64_t address = w->last;
	uint32_t last = spec->args - 1;
	struct object object;
	struct tuple tuple;

	if (last >= RT_CALL_ARGS_MAX)
		return 0;
	switch (spec->arg[last].read) {
	case RT_READ_CSTRING:
		read_cstring(t, to, address);
		break;
	case RT_READ_STDSTRING:
		read_text(t, to, read_word(address, &t->flags), read_word(address + 8, &t->flags));
		break;
	case RT_READ_PYTUPLE:
		if (!read_tuple(address, &learnt, &tuple) || tuple.size == 0)
			break;
		address = tuple.first;
		/* fall through */
	case RT_READ_PYSTRING:
		if (read_object(&object, address) && is_type(object.type, &learnt.str_type, PY_TYPE_IS_STR))
			read_pystring(t, to, address, &object);
		break;
	}
	return 0;
}

#endif
