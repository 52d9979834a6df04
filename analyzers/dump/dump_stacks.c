/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of allocations. See dump_rows.h. */
#include "analyzers/dump/dump_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/stack.h"

#define STACKS_MAX 100000 /* of a dump; a rank has some dozens */

/* The innermost lines, which are the last ones. */
static const char *dump_frames_inner(const char *text)
{
	const char *from = text + strlen(text);

	for (unsigned lines = 0; from > text; from--)
		if (from[-1] == '\n' && ++lines == DUMP_FRAMES_MAX)
			break;
	return from;
}

/* Their converter shows what follows the last slash. */
static void dump_frame_name(const struct stack_frame *frame, char *ret, size_t size)
{
	char text[STACK_PLACE_BYTES];

	dump_utf8(stack_frame_text(frame, false, text, sizeof(text)), ret, size);
	for (char *c = ret; *c; c++)
		*c = *c == '/' ? '|' : *c;
}

size_t dump_frames(const char *text, struct dump_frame ret[DUMP_FRAMES_MAX])
{
	struct stack_frame frame[DUMP_FRAMES_MAX];
	char *copy = strdup(dump_frames_inner(text));
	size_t count = copy ? stack_frames_parse(copy, frame, DUMP_FRAMES_MAX) : 0;

	for (size_t i = 0; i < count; i++) {
		const struct stack_frame *from = &frame[count - 1 - i];
		const char *slash = strrchr(from->file, '/');

		ret[i].address = *from->function ? 0 : from->address;
		if (*from->function)
			dump_frame_name(from, ret[i].library, sizeof(ret[i].library));
		else
			dump_utf8(slash ? slash + 1 : from->file, ret[i].library, sizeof(ret[i].library));
	}
	free(copy);
	return count;
}

static int dump_stacks_add(void *arg, sqlite3_stmt *row)
{
	struct dump_stacks *stacks = arg;
	const char *text = (const char *)sqlite3_column_text(row, 1);
	char *copy;

	if (!text || stacks->count == STACKS_MAX)
		return 0;
	copy = strdup(dump_frames_inner(text));
	if (!copy || !array_reserve((void **)&stacks->stack, &stacks->capacity, stacks->count + 1,
			     sizeof(*stacks->stack), STACKS_MAX)) {
		free(copy);
		return -ENOMEM;
	}
	stacks->stack[stacks->count++] = (struct dump_stack){sqlite3_column_int64(row, 0), copy};
	return 0;
}

int dump_stacks_load(struct reader *reader, uint64_t since_ns, struct dump_stacks *ret, char *error, size_t error_size)
{
	char sql[256];

	dump_stacks_clear(ret);
	ret->loaded = true;
	snprintf(sql, sizeof(sql),
		"SELECT id, max(frames) FROM call_stacks WHERE id IN (SELECT stack FROM allocations WHERE stack IS NOT "
		"NULL AND "
		"start_ns >= %" PRIu64 ") GROUP BY id ORDER BY id",
		since_ns);
	return reader_each(reader, sql, dump_stacks_add, ret, error, error_size);
}

static int dump_stacks_compare(const void *a, const void *b)
{
	const struct dump_stack *x = a, *y = b;

	return ORDER(x->id, y->id);
}

const char *dump_stacks_find(const struct dump_stacks *stacks, int64_t id)
{
	const struct dump_stack wanted = {.id = id}, *found;

	found = stacks->count ? bsearch(&wanted, stacks->stack, stacks->count, sizeof(wanted), dump_stacks_compare)
			      : NULL;
	return found ? found->text : NULL;
}

void dump_stacks_clear(struct dump_stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->stack[i].text);
	free(stacks->stack);
	*stacks = (struct dump_stacks){0};
}
