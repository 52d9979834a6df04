/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a store are not trusted: findings_row_text() makes them printable. */
#include "analyzers/analyze/findings_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stack.h"
#include "analyzers/base/text.h"

#define THREADS_MAX 1024 /* main threads of ranks of one node */
#define FRAMES_MAX 256	 /* of a stack, innermost ones */
#define LINE_BYTES 4096

struct findings_stack {
	struct stack_thread thread;
	struct stack_frame frame[FRAMES_MAX];
	char *texts[4]; /* frames, name, state, wait */
};

struct findings_stacks {
	struct findings_stack *stack[THREADS_MAX];
	size_t count;
};

static char *findings_stacks_copy(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return strdup(text ? text : "");
}

static void findings_stacks_take(struct findings_stacks *all, sqlite3_stmt *statement)
{
	struct findings_stack *stack = calloc(1, sizeof(*stack));
	bool whole = stack != NULL;

	for (int i = 0; whole && i < 4; i++) {
		stack->texts[i] = findings_stacks_copy(statement, 3 + i);
		whole = stack->texts[i] != NULL;
	}
	if (!whole) {
		for (int i = 0; stack && i < 4; i++)
			free(stack->texts[i]);
		free(stack);
		return;
	}
	stack->thread = (struct stack_thread){
		.rank = (int32_t)sqlite3_column_int64(statement, 0),
		.thread_id = (uint32_t)sqlite3_column_int64(statement, 1),
		.has_gil = sqlite3_column_int64(statement, 2) != 0,
		.is_rank = true,
		.main = true,
		.job = "",
		.name = stack->texts[1],
		.state = stack->texts[2],
		.wait = stack->texts[3],
		.frame = stack->frame,
	};
	stack->thread.frames = stack_frames_parse(stack->texts[0], stack->frame, FRAMES_MAX);
	all->stack[all->count++] = stack;
}

static void findings_stacks_free(struct findings_stacks *all)
{
	for (size_t i = 0; i < all->count; i++) {
		for (int j = 0; j < 4; j++)
			free(all->stack[i]->texts[j]);
		free(all->stack[i]);
	}
}

/* Python frames, or native ones where there are none. */
static void findings_stacks_frames(struct text *line, const struct stack_thread *thread)
{
	size_t python = 0, shown = 0;
	char frame[512];

	for (size_t i = 0; i < thread->frames; i++)
		python += strcmp(thread->frame[i].kind, "python") == 0;
	for (size_t i = 0; i < thread->frames; i++) {
		if (!stack_frame_shows(&thread->frame[i]) || (python && strcmp(thread->frame[i].kind, "python") != 0))
			continue;
		text_add(line, "%s%s", shown++ ? " > " : "",
			stack_frame_text(&thread->frame[i], false, frame, sizeof(frame)));
	}
	if (!shown)
		text_add(line, "no frames");
}

static json_t *findings_stacks_line(
	const struct stack_thread *threads, const struct stack_groups *groups, const struct stack_group *group)
{
	const struct stack_thread *first = &threads[groups->order[group->first]];
	char buffer[LINE_BYTES], doing[256];
	int32_t ranks[THREADS_MAX];
	char list[96];
	struct text line;

	for (size_t i = 0; i < group->count; i++)
		ranks[i] = threads[groups->order[group->first + i]].rank;
	finding_ranks(ranks, group->count, list, sizeof(list));
	text_begin(&line, buffer, sizeof(buffer));
	text_add(&line, "stack of rank%s %s, ", group->count > 1 ? "s" : "", list);
	text_add(&line, "%s%s: ", group->alone ? "which is alone and " : "which ",
		stack_doing(first, doing, sizeof(doing)));
	findings_stacks_frames(&line, first);
	text_end(&line);
	return findings_row_text(buffer);
}

static json_t *findings_stacks_lines(const struct findings_stacks *all)
{
	struct stack_thread *threads = calloc(all->count + 1, sizeof(*threads));
	json_t *lines = json_array();
	struct stack_groups groups;

	for (size_t i = 0; threads && i < all->count; i++)
		threads[i] = all->stack[i]->thread;
	if (threads && stack_groups_new(threads, all->count, &groups)) {
		for (size_t i = 0; i < groups.groups; i++)
			json_array_append_new(lines, findings_stacks_line(threads, &groups, &groups.group[i]));
		stack_groups_free(&groups);
	}
	free(threads);
	return lines;
}

json_t *findings_stacks(struct reader *reader, int64_t finding, char *error, size_t error_size)
{
	struct findings_stacks all = {.count = 0};
	sqlite3_stmt *statement = NULL;
	json_t *lines;
	char sql[512];
	int rc;

	snprintf(sql, sizeof(sql),
		"SELECT rank, thread_id, has_gil, frames, thread_name, state, wait FROM stacks WHERE finding = %" PRId64
		" AND main = 1 AND role = 'rank' AND rank IS NOT NULL"
		" AND start_ns = (SELECT max(start_ns) FROM stacks WHERE finding = %" PRId64 ") ORDER BY rank",
		finding, finding);
	if (reader_prepare(reader, sql, &statement, error, error_size) < 0)
		return NULL;
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW && all.count < THREADS_MAX)
		findings_stacks_take(&all, statement);
	lines = findings_stacks_lines(&all);
	findings_stacks_free(&all);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
		reader_error(reader, error, error_size);
		json_decref(lines);
		lines = NULL;
	}
	sqlite3_finalize(statement);
	return lines;
}

static json_t *findings_ends_line(sqlite3_stmt *statement)
{
	struct stack_frame frame[FRAMES_MAX];
	char *texts[4] = {NULL}; /* frames, name, kind, detail */
	struct stack_thread thread = {.frame = frame};
	char buffer[LINE_BYTES];
	struct text line;
	bool whole = true;

	for (int i = 0; i < 4; i++) {
		texts[i] = findings_stacks_copy(statement, i);
		whole = whole && texts[i];
	}
	text_begin(&line, buffer, sizeof(buffer));
	if (whole) {
		thread.frames = stack_frames_parse(texts[0], frame, FRAMES_MAX);
		text_add(&line, "thread %s%s, %s%s%s: ", texts[1], sqlite3_column_int(statement, 4) ? " (main)" : "",
			texts[2], texts[3][0] ? ", " : "", texts[3]);
		findings_stacks_frames(&line, &thread);
	}
	text_end(&line);
	for (int i = 0; i < 4; i++)
		free(texts[i]);
	return findings_row_text(buffer);
}

json_t *findings_ends(struct reader *reader, int64_t finding, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	json_t *lines = json_array();
	char sql[1024];
	int rc;

	/* Its exception may be some time before its end. */
	snprintf(sql, sizeof(sql),
		"SELECT (SELECT frames FROM call_stacks WHERE id = e.stack LIMIT 1), e.thread_name, e.kind, e.detail, "
		"e.main"
		" FROM findings f JOIN ranks r ON r.rank = f.rank AND r.job IS f.job AND r.uid IS f.uid AND r.ended = 1"
		" JOIN ends e ON e.instance = r.instance WHERE f.finding = %" PRId64
		" AND abs(r.last_seen_ns - f.since_ns) < 5000000000"
		" ORDER BY e.kind <> 'exception', e.kind <> 'signal', e.kind <> 'exit', e.main = 0, e.thread_id",
		finding);
	if (reader_prepare(reader, sql, &statement, error, error_size) < 0) {
		json_decref(lines);
		return NULL;
	}
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
		json_array_append_new(lines, findings_ends_line(statement));
	if (rc != SQLITE_DONE) {
		reader_error(reader, error, error_size);
		json_decref(lines);
		lines = NULL;
	}
	sqlite3_finalize(statement);
	return lines;
}
