/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The argument readers of a probe table's row: a list of name(number, ...) words.
 */
#include "daemon/ini.h"
#include "daemon/probes/table_private.h"

#define READER_NUMBERS_MAX 3
#define READER_BYTES_MAX 64
#define REGISTERS_MAX 6 /* what both machines pass in registers */
#define USDT_NUMBER_MAX 12
#define DEREF_OFFSET_MAX (1 << 20)

static const struct reader {
	const char *name;
	enum rt_read read;
	uint8_t numbers;
	uint8_t size_bytes;
	bool is_signed, is_text, is_usdt;
} readers[] = {
	{.name = "reg", .read = RT_READ_REG, .numbers = 1, .size_bytes = 8},
	{.name = "u32", .read = RT_READ_REG, .numbers = 1, .size_bytes = 4},
	{.name = "s32", .read = RT_READ_REG, .numbers = 1, .size_bytes = 4, .is_signed = true},
	{.name = "deref", .read = RT_READ_DEREF, .numbers = 3},
	{.name = "cstring", .read = RT_READ_CSTRING, .numbers = 1, .is_text = true},
	{.name = "stdstring", .read = RT_READ_STDSTRING, .numbers = 1, .is_text = true},
	{.name = "pystring", .read = RT_READ_PYSTRING, .numbers = 1, .is_text = true},
	{.name = "pytuple", .read = RT_READ_PYTUPLE, .numbers = 1, .is_text = true},
	{.name = "usdt", .numbers = 1, .is_usdt = true},
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

static bool read_number(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *text == '-';
	uint64_t value;

	if (ini_u64(text + negative, 0, INT32_MAX, &value) < 0)
		return false;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return *ret >= min && *ret <= max;
}

static bool read_deref(const char *const *numbers, struct rt_call_arg *arg)
{
	int64_t offset, size;

	if (!read_number(numbers[1], -DEREF_OFFSET_MAX, DEREF_OFFSET_MAX, &offset) ||
		!read_number(numbers[2], 1, 8, &size) || size & (size - 1))
		return false;
	arg->offset = (int32_t)offset;
	arg->size_bytes = (uint8_t)size;
	return true;
}

/* name(N, ...) in word, which is taken apart. */
static bool split(char *word, const char **ret_numbers, unsigned *ret_count)
{
	char *open = strchr(word, '('), *close = word + strlen(word) - 1, *rest;
	unsigned count = 0;

	if (!open || *close != ')')
		return false;
	*open = *close = 0;
	for (rest = open + 1; rest;) {
		if (count == READER_NUMBERS_MAX)
			return false;
		ret_numbers[count++] = strsep(&rest, ",");
	}
	*ret_count = count;
	return true;
}

static int add_reader(struct call *call, char *word, const char *whole)
{
	const char *numbers[READER_NUMBERS_MAX];
	struct rt_call_spec *spec = &call->probe->spec;
	const struct reader *reader;
	unsigned count;
	int64_t number;

	if (!split(word, numbers, &count) || !(reader = find_reader(word)) || count != reader->numbers)
		return probe_refuse(call->error, call->error_size, "\"%s\" is not an argument reader", whole);
	if (!read_number(numbers[0], 1, reader->is_usdt ? USDT_NUMBER_MAX : REGISTERS_MAX, &number))
		return probe_refuse(call->error, call->error_size, "\"%s\" has a number that is out of range", whole);
	spec->arg[spec->args] = (struct rt_call_arg){
		.read = (uint8_t)reader->read,
		.reg = reader->is_usdt ? 0 : (uint8_t)number,
		.size_bytes = reader->size_bytes,
		.is_signed = reader->is_signed,
	};
	if (reader->read == RT_READ_DEREF && !read_deref(numbers, &spec->arg[spec->args]))
		return probe_refuse(call->error, call->error_size, "\"%s\" has a bad offset or size", whole);
	call->probe->usdt_operand[spec->args] = reader->is_usdt ? (uint8_t)number : 0;
	if (reader->is_text)
		spec->flags |= RT_CALL_HAS_TEXT;
	spec->args++;
	return 0;
}

static int each_reader(void *arg, const char *text, size_t bytes)
{
	char word[READER_BYTES_MAX], whole[READER_BYTES_MAX];
	struct call *call = arg;

	if (bytes >= sizeof(word))
		return probe_refuse(call->error, call->error_size, "an argument reader is too long");
	memcpy(word, text, bytes);
	word[bytes] = 0;
	memcpy(whole, word, bytes + 1);
	if (call->probe->spec.flags & RT_CALL_HAS_TEXT)
		return probe_refuse(call->error, call->error_size,
			"nothing may follow the reader of a text, so \"%s\" may not", whole);
	if (call->probe->spec.args == RT_CALL_ARGS_MAX)
		return probe_refuse(call->error, call->error_size, "more than %d argument readers", RT_CALL_ARGS_MAX);
	return add_reader(call, word, whole);
}

int probe_set_args(struct probe *probe, const char *value, char *error, size_t error_size)
{
	return probe_each_word(value, each_reader, &(struct call){probe, error, error_size});
}

bool probe_has_text(const struct probe *probe)
{
	return probe->spec.flags & RT_CALL_HAS_TEXT;
}
