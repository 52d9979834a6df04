/* SPDX-License-Identifier: Apache-2.0 */
/* The state file of dumps, and rows with any text in them: names never leave their folder and
 * records are whole. */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/dump/dump_rows.h"
#include "analyzers/dump/dump_state.h"
#include "analyzers/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_utf8(const char *text)
{
	size_t left = strlen(text), n;

	for (; left; left -= n, text += n) {
		n = utf8_character((const unsigned char *)text, left);
		assert(n);
	}
}

static void check_record(size_t size)
{
	assert(size > 0 && size <= DUMP_RECORD_BYTES);
}

static void encode(const char *text, int64_t n)
{
	const struct dump_stage stage = {n, text, text, n, n};
	const struct dump_op op = {(uint64_t)n, text, text, text, n, n, n, n, n, n, n, n};
	const struct dump_memory memory = {text, text, n, n, n, text};
	const struct dump_offcpu offcpu = {n, n, n, n, n, (uint64_t)n, text, text};
	uint8_t record[DUMP_RECORD_BYTES];
	size_t length;

	check_record(dump_encode_stage(&stage, record));
	check_record(dump_encode_memory(&memory, record));
	check_record(dump_encode_offcpu(&offcpu, record));
	check_record(dump_encode_timeline_head(n, text, record));
	length = dump_encode_op(&op, record);
	for (size_t i = 0, commas = 0; i < length; i++) { /* ten fields a line, whatever the texts are */
		commas += record[i] == ',';
		if (record[i] == '\n') {
			assert(commas == 9);
			commas = 0;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), name[300], clean[DUMP_TEXT_BYTES];
	struct dump_of of = {.host = text, .address = text};
	struct dump_state state;
	FILE *f;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	memcpy(&of.rank, data, size < sizeof(of.rank) ? size : sizeof(of.rank));
	of.pid = of.rank;
	of.window_ns = (uint64_t)of.rank;
	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++) {
		if (dump_file_name((enum dump_kind)kind, &of, name, sizeof(name)) < 0)
			continue;
		assert(name[0] != '.' && !strchr(name, '/'));
	}
	dump_utf8(text, clean, sizeof(clean));
	check_utf8(clean);
	encode(text, of.rank);
	f = size ? fmemopen(text, size, "r") : NULL;
	if (f) {
		dump_state_read(f, true, &state);
		assert(state.delays <= DUMP_DELAYS_MAX);
		for (size_t i = 1; i < state.delays; i++)
			assert(state.delay[i - 1].instance < state.delay[i].instance ||
				(state.delay[i - 1].instance == state.delay[i].instance &&
					state.delay[i - 1].thread_id < state.delay[i].thread_id));
		check_utf8(state.reason);
		dump_state_clear(&state);
		fclose(f);
	}
	free(text);
	return 0;
}
