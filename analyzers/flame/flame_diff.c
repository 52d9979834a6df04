/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison for terminals, and as JSON. */
#include <string.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"
#include "analyzers/flame/flame_words.h"
#include "analyzers/tool/tool.h"

#define DIFF_TABLE_ROWS 12
#define DIFF_JSON_ROWS 200

enum { DIFF_FUNCTION, DIFF_RANK, DIFF_PEERS, DIFF_MORE, DIFF_SELF, DIFF_CALLER, DIFF_COLUMNS };

static void flame_diff_rows(const struct profile_diff *diff, struct term_table *table)
{
	for (size_t i = 0; i < diff->rows && i < DIFF_TABLE_ROWS; i++) {
		const struct profile_row *row = &diff->row[i];
		enum term_colour colour = row->sure ? TERM_RED : TERM_PLAIN;
		char place[STACK_PLACE_BYTES], words[FLAME_WORDS_BYTES];

		term_table_cell(table, colour, "%s", stack_frame_text(row->frame, false, place, sizeof(place)));
		term_table_cell(table, TERM_PLAIN, "%s", flame_words_duration(row->total_ns, words));
		term_table_cell(table, TERM_PLAIN, "%s", flame_words_duration(row->peers_total_ns, words));
		term_table_cell(table, colour, "%s", flame_words_duration(row->total_ns - row->peers_total_ns, words));
		term_table_cell(table, TERM_PLAIN, "%s", flame_words_duration(row->self_ns, words));
		term_table_cell(table, TERM_PLAIN, "%s",
			row->caller ? stack_frame_text(row->caller, false, place, sizeof(place)) : "");
	}
}

void flame_diff_table(const struct flame_view *view, FILE *out)
{
	const struct term_column columns[DIFF_COLUMNS] = {
		[DIFF_FUNCTION] = {.name = "FUNCTION", .min = 24},
		[DIFF_RANK] = {.name = "RANK", .right = true},
		[DIFF_PEERS] = {.name = view->past ? "BEFORE" : "PEERS", .right = true},
		[DIFF_MORE] = {.name = "MORE", .right = true},
		[DIFF_SELF] = {.name = "ITSELF", .right = true, .optional = true},
		[DIFF_CALLER] = {.name = "CALLED BY", .optional = true},
	};
	struct term_table *table = term_table_new(columns, DIFF_COLUMNS);
	char text[FLAME_WORDS_BYTES];

	fprintf(out, "%s\n", text_clean((char *)flame_words_title(view, text)));
	fprintf(out, "%s\n", flame_words_work(view->diff, text));
	fprintf(out, "profile %lld, %s\n", (long long)view->source->number, flame_words_counts(view, text));
	if (table && view->diff->rows) {
		fputc('\n', out);
		flame_diff_rows(view->diff, table);
		term_table_print(table, out, 0);
	}
	term_table_free(table);
}

static json_t *flame_diff_text(const char *text)
{
	char clean[1024];

	snprintf(clean, sizeof(clean), "%s", text);
	return *text ? json_string(text_clean(clean)) : json_null();
}

static json_t *flame_diff_frame(const struct stack_frame *frame)
{
	return frame ? json_pack("{s:o, s:o, s:o, s:o}", "kind", flame_diff_text(frame->kind), "function",
			       flame_diff_text(frame->function), "file", flame_diff_text(frame->file), "line",
			       frame->line ? json_integer(frame->line) : json_null())
		     : json_null();
}

static json_t *flame_diff_row(const struct profile_row *row)
{
	json_t *object = flame_diff_frame(row->frame);
	json_t *more = json_pack("{s:b, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "sure", row->sure, "of_line",
		row->line, "total_ns", row->total_ns, "peers_total_ns", row->peers_total_ns, "self_ns", row->self_ns,
		"peers_self_ns", row->peers_self_ns, "excess_ns", row->excess_ns, "noise_ns", row->noise_ns, "caller",
		flame_diff_frame(row->caller));

	if (object && more)
		json_object_update(object, more);
	json_decref(more);
	return object;
}

json_t *flame_diff_json(const struct flame_view *view)
{
	const struct profile_diff *diff = view->diff;
	json_t *rows = json_array();
	char sentence[PROFILE_SENTENCE_BYTES];

	for (size_t i = 0; i < diff->rows && i < DIFF_JSON_ROWS; i++)
		json_array_append_new(rows, flame_diff_row(&diff->row[i]));
	return json_pack("{s:I, s:I, s:I, s:o, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "profile",
		(json_int_t)view->source->number, "start_ns", (json_int_t)view->source->start_ns, "rank",
		(json_int_t)diff->rank, "stage",
		diff->stage ? flame_diff_text(*diff->stage ? diff->stage : "outside") : json_null(), "unit",
		diff->seconds ? "second" : "step", "peers", (json_int_t)diff->peers, "steps", (json_int_t)diff->steps,
		"step_ns", diff->step_ns, "own_ns", diff->own_ns, "peers_own_ns", diff->peers_own_ns, "waits_ns",
		diff->waits_ns, "peers_waits_ns", diff->peers_waits_ns, "factor", diff->factor, "sentence",
		flame_diff_text(profile_sentence(diff, sentence)), "functions", rows);
}
