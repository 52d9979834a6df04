/* SPDX-License-Identifier: Apache-2.0 */
/* Argument readers of a row: a list of name(number, ...) words. */
#include "analyzers/base/ini.h"
#include "daemon/probes/table_private.h"

#define READER_WORDS_MAX 6
#define READER_BYTES_MAX 288
#define REGISTERS_MAX 8
#define USDT_NUMBER_MAX 12
#define OFFSET_MAX (1 << 20)

/* Arguments after N. */
enum rest { REST_NONE, REST_OFFSETS, REST_SIZE, REST_OFFSETS_SIZE, REST_BYTES, REST_FUNCTION, REST_PART };

static const struct reader {
	const char *name;
	enum rt_read read;
	enum rest rest;
	uint8_t words_min, words_max; /* N included */
	uint8_t size_bytes;
	bool is_signed, is_text, is_usdt;
} readers[] = {
	{.name = "reg", .read = RT_READ_REG, .words_min = 1, .words_max = 1, .size_bytes = 8},
	{.name = "u32", .read = RT_READ_REG, .words_min = 1, .words_max = 1, .size_bytes = 4},
	{.name = "s32", .read = RT_READ_REG, .words_min = 1, .words_max = 1, .size_bytes = 4, .is_signed = true},
	{.name = "const", .read = RT_READ_CONST, .words_min = 1, .words_max = 1},
	{.name = "deref", .read = RT_READ_DEREF, .rest = REST_OFFSETS_SIZE, .words_min = 3, .words_max = 3},
	{.name = "path", .read = RT_READ_DEREF, .rest = REST_OFFSETS_SIZE, .words_min = 4, .words_max = 5},
	{.name = "out", .read = RT_READ_OUT, .rest = REST_SIZE, .words_min = 2, .words_max = 2},
	/* The library's own hash reads signed chars; site.c knows where char is unsigned. */
	{.name = "hash", .read = RT_READ_HASH, .rest = REST_BYTES, .words_min = 2, .words_max = 2, .is_signed = true},
	{.name = "digest", .read = RT_READ_DIGEST, .rest = REST_BYTES, .words_min = 2, .words_max = 2},
	{.name = "member", .read = RT_READ_DEREF, .rest = REST_FUNCTION, .words_min = 3, .words_max = 6},
	{.name = "part", .read = RT_READ_DEREF, .rest = REST_PART, .words_min = 3, .words_max = 6},
	{.name = "cstring",
		.read = RT_READ_CSTRING,
		.rest = REST_OFFSETS,
		.words_min = 1,
		.words_max = 4,
		.is_text = true},
	{.name = "stdstring", .read = RT_READ_STDSTRING, .words_min = 1, .words_max = 1, .is_text = true},
	{.name = "pystring", .read = RT_READ_PYSTRING, .words_min = 1, .words_max = 1, .is_text = true},
	{.name = "pytuple", .read = RT_READ_PYTUPLE, .words_min = 1, .words_max = 1, .is_text = true},
	{.name = "usdt", .words_min = 1, .words_max = 1, .is_usdt = true},
};

struct call {
	struct probe *probe;
	char *error;
	size_t error_size;
};

static const struct reader *find_reader(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		if (streq(readers[i].name, name))
			return &readers[i];
	return NULL;
}

static bool probe_table_args_read_number(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *text == '-';
	uint64_t value;

	if (ini_u64(text + negative, 0, INT32_MAX, &value) < 0)
		return false;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return *ret >= min && *ret <= max;
}

static bool read_offset(const char *text, int32_t *ret)
{
	int64_t offset;

	if (!probe_table_args_read_number(text, -OFFSET_MAX, OFFSET_MAX, &offset))
		return false;
	*ret = (int32_t)offset;
	return true;
}

static bool read_size(const char *text, uint8_t *ret)
{
	int64_t size;

	if (!probe_table_args_read_number(text, 1, 8, &size) || size & (size - 1))
		return false;
	*ret = (uint8_t)size;
	return true;
}

/* The last offset is the value's; each before it is a pointer to follow. */
static bool read_offsets(const char *const *words, unsigned count, struct rt_call_arg *arg)
{
	for (unsigned i = 0; i < count; i++)
		if (!read_offset(words[i], &arg->offset[i]))
			return false;
	arg->hops = count ? (count - 1) & 3 : 0;
	return true;
}

static bool read_accessor(struct probe *probe, const char *name, bool is_part, uint8_t *ret)
{
	unsigned i = 0;

	while (i < probe->accessors && (!streq(probe->accessor[i], name) || probe->accessor_is_part[i] != is_part))
		i++;
	if (i == PROBE_ACCESSORS_MAX || !*name || strlen(name) >= sizeof(probe->accessor[i]))
		return false;
	if (i == probe->accessors) {
		probe->accessor_is_part[i] = is_part;
		copy_text(probe->accessor[probe->accessors++], sizeof(probe->accessor[i]), name);
	}
	*ret = (uint8_t)(i + 1);
	return true;
}

/* [OFF,[OFF,]]FUNCTION,SIZE[,PLUS]: the function yields the offset in the object reached through the pointers. */
static bool read_member(struct probe *probe, const char *const *words, unsigned count, bool is_part)
{
	unsigned i = probe->spec.args;
	struct rt_call_arg *arg = &probe->spec.arg[i];
	unsigned hops = 0;

	while (hops < count && read_offset(words[hops], &arg->offset[hops < RT_CALL_HOPS_MAX ? hops : 0]))
		hops++;
	if (hops > RT_CALL_HOPS_MAX || count - hops < 2 || count - hops > 3)
		return false;
	arg->hops = hops & 3;
	return read_accessor(probe, words[hops], is_part, &probe->accessor_of[i]) &&
	       read_size(words[hops + 1], &arg->size_bytes) &&
	       (count - hops < 3 || read_offset(words[hops + 2], &arg->offset[hops]));
}

/* Arguments after N. */
static bool read_rest(struct probe *probe, const struct reader *reader, const char *const *words, unsigned count)
{
	unsigned i = probe->spec.args;
	struct rt_call_arg *arg = &probe->spec.arg[i];
	int64_t bytes;

	switch (reader->rest) {
	case REST_NONE:
		return true;
	case REST_OFFSETS:
		return read_offsets(words, count, arg);
	case REST_SIZE:
		return read_size(words[0], &arg->size_bytes);
	case REST_OFFSETS_SIZE:
		return read_offsets(words, count - 1, arg) && read_size(words[count - 1], &arg->size_bytes);
	case REST_BYTES:
		if (!probe_table_args_read_number(words[0], 1, RT_CALL_HASH_MAX, &bytes))
			return false;
		arg->size_bytes = (uint8_t)bytes;
		return true;
	case REST_FUNCTION:
	case REST_PART:
		return read_member(probe, words, count, reader->rest == REST_PART);
	}
	return false;
}

/* Splits name(N, ...) in place. */
static bool probe_table_args_split(char *word, const char **ret_words, unsigned *ret_count)
{
	char *open = strchr(word, '('), *close = word + strlen(word) - 1, *rest;
	unsigned count = 0;

	if (!open || *close != ')')
		return false;
	*open = *close = 0;
	for (rest = open + 1; rest;) {
		if (count == READER_WORDS_MAX)
			return false;
		ret_words[count++] = strsep(&rest, ",");
	}
	*ret_count = count;
	return true;
}

/* N: number of a register or operand, or the stack. */
static bool read_number_or_stack(const struct reader *reader, const char *word, uint8_t *ret)
{
	bool from_memory = reader->read != RT_READ_REG && !reader->is_usdt;
	int64_t number;

	if (from_memory && streq(word, "stack")) {
		*ret = RT_CALL_REG_STACK_BASE;
		return true;
	}
	if (!probe_table_args_read_number(word, 1, reader->is_usdt ? USDT_NUMBER_MAX : REGISTERS_MAX, &number))
		return false;
	*ret = (uint8_t)number;
	return true;
}

static int add_reader(struct call *call, char *word, const char *whole)
{
	const char *words[READER_WORDS_MAX];
	struct probe *probe = call->probe;
	struct rt_call_spec *spec = &probe->spec;
	const struct reader *reader;
	unsigned count;
	uint8_t reg;

	if (!probe_table_args_split(word, words, &count) || !(reader = find_reader(word)) ||
		count < reader->words_min || count > reader->words_max)
		return probe_refuse(call->error, call->error_size, "\"%s\" is not an argument reader", whole);
	if (!read_number_or_stack(reader, words[0], &reg))
		return probe_refuse(call->error, call->error_size, "\"%s\": number out of range", whole);
	spec->arg[spec->args] = (struct rt_call_arg){
		.read = (uint8_t)reader->read,
		.reg = reader->is_usdt ? 0 : reg,
		.size_bytes = reader->size_bytes,
		.is_signed = reader->is_signed,
	};
	if (reader->read == RT_READ_CONST)
		spec->arg[spec->args] = (struct rt_call_arg){.read = RT_READ_CONST, .offset = {reg}};
	if (!read_rest(probe, reader, words + 1, count - 1))
		return probe_refuse(call->error, call->error_size,
			reader->rest == REST_FUNCTION || reader->rest == REST_PART
				? "\"%s\" has a bad function, size or offset"
				: "\"%s\" has a bad offset or size",
			whole);
	probe->usdt_operand[spec->args] = reader->is_usdt ? reg : 0;
	if (reader->is_text)
		spec->flags |= RT_CALL_HAS_TEXT;
	spec->args++;
	return 0;
}

/* Cuts off the name before a colon. */
static int probe_table_args_take_field(struct call *call, char **word, const char *whole)
{
	struct probe *probe = call->probe;
	unsigned i = probe->spec.args;
	char *name = *word, *colon = strchr(name, ':'), *bracket = strchr(name, '(');

	if (!colon || (bracket && bracket < colon))
		return 0;
	*colon = 0;
	*word = colon + 1;
	probe->field[i] = op_field_parse(name);
	if (probe->field[i] == OP_FIELD_MAX)
		return probe_refuse(call->error, call->error_size,
			"\"%s\" has a name that is no field (analyzers/coll/coll_fields.def)", whole);
	for (unsigned k = 0; k < i; k++)
		if (probe->field[k] == probe->field[i])
			return probe_refuse(call->error, call->error_size, "\"%s\" repeats a name", whole);
	return 0;
}

static int each_reader(void *arg, const char *text, size_t bytes)
{
	char buffer[READER_BYTES_MAX], whole[READER_BYTES_MAX], *word = buffer;
	struct call *call = arg;
	int r;

	if (bytes >= sizeof(buffer))
		return probe_refuse(call->error, call->error_size, "an argument reader is too long");
	memcpy(buffer, text, bytes);
	buffer[bytes] = 0;
	memcpy(whole, buffer, bytes + 1);
	if (call->probe->spec.flags & RT_CALL_HAS_TEXT)
		return probe_refuse(call->error, call->error_size,
			"nothing may follow the reader of a text, so \"%s\" may not", whole);
	if (call->probe->spec.args == RT_CALL_ARGS_MAX)
		return probe_refuse(call->error, call->error_size, "more than %d argument readers", RT_CALL_ARGS_MAX);
	r = probe_table_args_take_field(call, &word, whole);
	return r < 0 ? r : add_reader(call, word, whole);
}

int probe_set_args(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return probe_each_word(value, each_reader, &(struct call){probe, error, error_size});
}

bool probe_has_text(const struct probe *probe)
{
	return probe->spec.flags & RT_CALL_HAS_TEXT;
}
