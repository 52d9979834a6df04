/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a row, one setter each. Setters check single values; table.c checks combinations. */
#include <stdarg.h>
#include "analyzers/base/ini.h"
#include "daemon/probes/table_private.h"

static const char *const edge_words[RT_EDGE_MAX] = {
	[RT_EDGE_CALL] = "call",
	[RT_EDGE_ENTRY] = "entry",
	[RT_EDGE_BEGIN] = "begin",
	[RT_EDGE_END] = "end",
	[RT_EDGE_SPAN] = "span",
	[RT_EDGE_MARK] = "mark",
	[RT_EDGE_STASH] = "stash",
	[RT_EDGE_OPEN] = "open",
	[RT_EDGE_CLOSE] = "close",
	[RT_EDGE_MEMORY] = "memory",
	[RT_EDGE_MEMORY_FAILED] = "memory_failed",
	[RT_EDGE_EXCEPTION] = "exception",
};
/* Events besides the kinds of operations. Those of memory count once: the runtime's functions call the driver's. */
static const char *const event_words[] = {"alloc", "free", "map", "unmap", "copy", "copy_async", "launch"};
static const uint32_t event_flags[] = {RT_CALL_OUTERMOST | RT_CALL_STACK, RT_CALL_OUTERMOST, RT_CALL_OUTERMOST,
	RT_CALL_OUTERMOST, RT_CALL_OUTERMOST | RT_CALL_SUMMED, RT_CALL_OUTERMOST | RT_CALL_SUMMED | RT_CALL_ASYNC, 0};
static const char *const arch_words[] = {"x86_64", "aarch64"};
#if defined(__aarch64__)
#define ARCH_HERE "aarch64"
#else
#define ARCH_HERE "x86_64"
#endif

int probe_refuse(char *error, size_t error_size, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(error, error_size, format, list);
	va_end(list);
	return -EINVAL;
}

int probe_each_word(const char *text, int (*each)(void *arg, const char *word, size_t bytes), void *arg)
{
	for (;;) {
		size_t bytes;
		int r;

		text += strspn(text, " \t");
		bytes = strcspn(text, " \t");
		if (!bytes)
			return 0;
		r = each(arg, text, bytes);
		if (r < 0)
			return r;
		text += bytes;
	}
}

static int find_word(const char *const *words, unsigned count, const char *value)
{
	for (unsigned i = 0; i < count; i++)
		if (streq(words[i], value))
			return (int)i;
	return -EINVAL;
}

struct patterns {
	char *text; /* PROBE_PATTERNS_MAX of size_bytes each */
	size_t size_bytes;
	unsigned count;
	char *error;
	size_t error_size;
};

static int each_pattern(void *arg, const char *word, size_t bytes)
{
	struct patterns *p = arg;

	if (p->count == PROBE_PATTERNS_MAX)
		return probe_refuse(p->error, p->error_size, "more than %d patterns", PROBE_PATTERNS_MAX);
	if (bytes >= p->size_bytes)
		return probe_refuse(p->error, p->error_size, "a pattern is longer than %zu bytes", p->size_bytes - 1);
	memcpy(p->text + p->count * p->size_bytes, word, bytes);
	p->text[p->count++ * p->size_bytes + bytes] = 0;
	return 0;
}

static int set_level(struct probe *probe, const char *value, char *error, size_t error_size)
{
	if (level_parse(value, &probe->level) < 0)
		return probe_refuse(error, error_size, "\"%s\" is not a level (%s)", value, level_words());
	return 0;
}

static int set_library(struct probe *probe, const char *value, char *error, size_t error_size)
{
	struct patterns p = {probe->library[0], sizeof(probe->library[0]), 0, error, error_size};
	int r;

	memset(probe->library, 0, sizeof(probe->library));
	r = probe_each_word(value, each_pattern, &p);
	probe->libraries = p.count;
	return r;
}

static int set_symbol(struct probe *probe, const char *value, char *error, size_t error_size)
{
	struct patterns p = {probe->symbol[0], sizeof(probe->symbol[0]), 0, error, error_size};
	int r = probe_each_word(value, each_pattern, &p);

	probe->symbols = p.count;
	return r;
}

static int set_flag(const char *value, const char *key, bool *ret, char *error, size_t error_size)
{
	if (ini_bool(value, ret) < 0)
		return probe_refuse(error, error_size, "bad value \"%s\" of %s (yes or no)", value, key);
	return 0;
}

static int set_symbols_all(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_flag(value, "symbols_all", &probe->symbols_all, error, error_size);
}

static int set_usdt(struct probe *probe, const char *value, char *error, size_t error_size)
{
	size_t provider = strcspn(value, ":");
	const char *name = value[provider] ? value + provider + 1 : "";

	if (!provider || provider >= sizeof(probe->usdt_provider) || !*name ||
		strlen(name) >= sizeof(probe->usdt_name) || strpbrk(name, ": \t") || strcspn(value, " \t") < provider)
		return probe_refuse(error, error_size, "\"%.80s\" is not a USDT probe (provider:name)", value);
	memcpy(probe->usdt_provider, value, provider);
	probe->usdt_provider[provider] = 0;
	copy_text(probe->usdt_name, sizeof(probe->usdt_name), name);
	return 0;
}

static int set_edge(struct probe *probe, const char *value, char *error, size_t error_size)
{
	int edge = find_word(edge_words, RT_EDGE_MAX, value);

	if (edge < 0)
		return probe_refuse(error, error_size,
			"\"%.80s\" is not an edge (call, entry, begin, end, span, mark, stash, open, close, memory, "
			"memory_failed, exception)",
			value);
	probe->edge = (enum rt_edge)edge;
	probe->spec.edge = (uint8_t)edge;
	return 0;
}

static int set_at(struct probe *probe, const char *value, char *error, size_t error_size)
{
	if (!streq(value, "entry") && !streq(value, "return"))
		return probe_refuse(error, error_size, "bad value \"%s\" of at (entry or return)", value);
	probe->at_return = streq(value, "return");
	return 0;
}

static int set_return(struct probe *probe, const char *value, char *error, size_t error_size)
{
	if (!streq(value, "insn") && !streq(value, "probe"))
		return probe_refuse(error, error_size, "bad value \"%s\" of return (insn or probe)", value);
	probe->return_probe = streq(value, "probe");
	return 0;
}

static int set_text(char *text, size_t size, const char *key, const char *value, char *error, size_t error_size)
{
	memset(text, 0, size);
	if (!*value || !copy_text(text, size, value))
		return probe_refuse(error, error_size, "%s is empty or longer than %zu bytes", key, size - 1);
	return 0;
}

static int set_stage(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_text(probe->stage, sizeof(probe->stage), "stage", value, error, error_size);
}

static int set_event(struct probe *probe, const char *value, char *error, size_t error_size)
{
	int word = find_word(event_words, ARRAY_SIZE(event_words), value);

	if (word < 0 && coll_kind_parse(value) == COLL_NONE)
		return probe_refuse(error, error_size,
			"\"%.80s\" is not an event (op, p2p, comm, ... of analyzers/coll/coll.h; alloc, free, copy, "
			"copy_async, launch)",
			value);
	probe->spec.flags &=
		~(RT_CALL_OUTERMOST | RT_CALL_STACK | RT_CALL_SUMMED | RT_CALL_ASYNC); /* of an event of [defaults] */
	probe->spec.flags |= word < 0 ? 0 : event_flags[word];
	return set_text(probe->event, sizeof(probe->event), "event", value, error, error_size);
}

static int set_family(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_text(probe->family, sizeof(probe->family), "family", value, error, error_size);
}

static int set_op(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_text(probe->op, sizeof(probe->op), "op", value, error, error_size);
}

static int set_arch(struct probe *probe, const char *value, char *error, size_t error_size)
{
	if (find_word(arch_words, ARRAY_SIZE(arch_words), value) < 0)
		return probe_refuse(error, error_size, "\"%.80s\" is not a machine (x86_64, aarch64)", value);
	probe->foreign = !streq(value, ARCH_HERE);
	return 0;
}

static int set_help(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_text(probe->help, sizeof(probe->help), "help", value, error, error_size);
}

static int set_symbol_reg(struct probe *probe, const char *value, char *error, size_t error_size)
{
	uint64_t reg;

	if (ini_u64(value, 1, 6, &reg) < 0)
		return probe_refuse(error, error_size, "bad value \"%s\" of symbol_reg (1 to 6)", value);
	probe->spec.symbol_reg = (uint8_t)reg;
	return 0;
}

static int set_set(struct probe *probe, const char *value, char *error, size_t error_size)
{
	size_t bytes = strcspn(value, "/");
	uint64_t variant;

	if (!bytes || bytes >= sizeof(probe->set) || !value[bytes] ||
		ini_u64(value + bytes + 1, 1, PROBE_SET_VARIANTS, &variant) < 0)
		return probe_refuse(error, error_size, "\"%.80s\" is not a set (NAME/VARIANT, variants 1 to %d)", value,
			PROBE_SET_VARIANTS);
	memcpy(probe->set, value, bytes);
	probe->set[bytes] = 0;
	probe->variant = (uint8_t)variant;
	return 0;
}

static int set_spec_flag(
	struct probe *probe, const char *value, const char *key, uint32_t flag, char *error, size_t error_size)
{
	bool on;
	int r = set_flag(value, key, &on, error, error_size);

	if (r < 0)
		return r;
	probe->spec.flags = (probe->spec.flags & ~flag) | (on ? flag : 0);
	return 0;
}

static int set_result(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_spec_flag(probe, value, "result", RT_CALL_RESULT, error, error_size);
}

static int set_member(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_spec_flag(probe, value, "member", RT_CALL_MEMBER, error, error_size);
}

static int set_optional(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return set_flag(value, "optional", &probe->optional, error, error_size);
}

static const struct {
	const char *key;
	probe_setter set;
	bool of_one; /* never of [defaults] */
} keys[] = {
	{"level", set_level, false},
	{"edge", set_edge, false},
	{"library", set_library, false},
	{"symbol", set_symbol, true},
	{"symbols_all", set_symbols_all, false},
	{"usdt", set_usdt, true},
	{"at", set_at, false},
	{"return", set_return, false},
	{"stage", set_stage, false},
	{"event", set_event, false},
	{"family", set_family, false},
	{"op", set_op, true},
	{"arch", set_arch, false},
	{"member", set_member, false},
	{"args", probe_set_args, true},
	{"symbol_reg", set_symbol_reg, true},
	{"set", set_set, true},
	{"result", set_result, false},
	{"optional", set_optional, false},
	{"help", set_help, true},
};

int probe_set_key(struct probe *probe, uint32_t *seen, bool shared, const char *key, const char *value, char *error,
	size_t error_size)
{
	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!streq(keys[i].key, key))
			continue;
		if (*seen & 1u << i)
			return probe_refuse(error, error_size, "duplicate key %s", key);
		if (shared && keys[i].of_one)
			return probe_refuse(error, error_size, "%s belongs to one probe, not to [defaults]", key);
		*seen |= 1u << i;
		return keys[i].set(probe, value, error, error_size);
	}
	return probe_refuse(error, error_size, "unknown key \"%.80s\"", key);
}
