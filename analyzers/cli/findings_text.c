/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_text.h. */
#include "analyzers/cli/findings_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "analyzers/cli/output.h"
#include "analyzers/finding/finding.h"

static const char *findings_text_word(const json_t *row, const char *name)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text ? text : "";
}

static uint64_t findings_text_ns(const json_t *row, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(row, name));

	return value > 0 ? (uint64_t)value : 0;
}

struct findings_text {
	FILE *out;
	bool verbose, begun;
	struct term_table *table;
	json_t *rows; /* that are in the table */
};

struct findings_text *findings_text_new(FILE *out, bool verbose)
{
	static const struct term_column columns[] = {
		{.name = "SINCE"},
		{.name = "LASTS"},
		{.name = "STATE"},
		{.name = "SEVERITY"},
		{.name = "CARD-HOURS", .right = true},
		{.name = "JOB", .min = 6},
		{.name = "FINDING", .min = 32, .wraps = true},
	};
	struct findings_text *text = calloc(1, sizeof(*text));

	if (!text)
		return NULL;
	text->out = out;
	text->verbose = verbose;
	text->table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	text->rows = json_array();
	if (text->table && text->rows)
		return text;
	findings_text_free(text);
	return NULL;
}

void findings_text_free(struct findings_text *text)
{
	if (!text)
		return;
	term_table_free(text->table);
	json_decref(text->rows);
	free(text);
}

/* Colours of what stands in "state" and "severity". */
static enum term_colour findings_text_colour(const char *word)
{
	static const struct {
		const char *word;
		enum term_colour colour;
	} colours[] = {{"critical", TERM_RED}, {"warning", TERM_YELLOW}, {"open", TERM_YELLOW}, {"closed", TERM_GREEN},
		{"suspected", TERM_FAINT}, {"dropped", TERM_FAINT}};

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		if (strcmp(colours[i].word, word) == 0)
			return colours[i].colour;
	return TERM_PLAIN;
}

static void findings_text_cell(struct findings_text *text, const char *word)
{
	term_table_cell(text->table, findings_text_colour(word), "%s", word);
}

void findings_text_add(struct findings_text *text, json_t *row, uint64_t now_ns)
{
	uint64_t since_ns = findings_text_ns(row, "since_ns"), until_ns = findings_text_ns(row, "until_ns");
	const char *job = findings_text_word(row, "job");
	char since[TOOL_TEXT_BYTES], lasts[UNITS_BYTES];
	const json_t *cost = json_object_get(row, "cost_card_hours");

	if (!until_ns)
		until_ns = now_ns;
	term_table_cell(text->table, TERM_PLAIN, "%s", since_ns ? tool_time(since_ns, since) : "-");
	term_table_cell(text->table, TERM_PLAIN, "%s",
		units_duration(since_ns && until_ns > since_ns ? until_ns - since_ns : 0, lasts));
	findings_text_cell(text, findings_text_word(row, "state"));
	findings_text_cell(text, findings_text_word(row, "severity"));
	if (json_is_number(cost))
		term_table_cell(text->table, TERM_PLAIN, "%.3g", json_number_value(cost));
	else
		term_table_cell(text->table, TERM_PLAIN, "-");
	term_table_cell(text->table, TERM_PLAIN, "%s", *job ? job : "-");
	term_table_cell(text->table, TERM_PLAIN, "%s", findings_text_word(row, "sentence"));
	json_array_append(text->rows, row);
}

/* "310 ms", "24.2 %", "1.5 MiB": ns and bytes in units for people, everything else as it is. */
static const char *findings_text_value(const json_t *value, const char *unit, char buffer[UNITS_BYTES])
{
	double number = json_number_value(value);

	if (!json_is_number(value))
		snprintf(buffer, UNITS_BYTES, "-");
	else if (strcmp(unit, "ns") == 0 && number >= 0 && number < 1e18)
		units_duration((uint64_t)number, buffer);
	else if (strcmp(unit, "bytes") == 0 && number >= 1048576 && number < 1e18)
		units_size((uint64_t)number, buffer);
	else
		snprintf(buffer, UNITS_BYTES, "%.6g%s%.8s", number, strcmp(unit, "1") == 0 ? "" : " ",
			strcmp(unit, "1") == 0 ? "" : unit);
	return buffer;
}

#define FINDINGS_TEXT_INDENT 4

static void findings_text_evidence(FILE *out, const json_t *evidence)
{
	static const struct term_column columns[] = {
		{.name = "MEASURED"},
		{.name = "VALUE", .right = true},
		{.name = "PEERS/BEFORE", .right = true},
		{.name = "WHERE", .min = 16, .wraps = true},
	};
	struct term_table *table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	char value[UNITS_BYTES];
	const json_t *piece;
	size_t i;

	json_array_foreach(evidence, i, piece)
	{
		const char *unit = findings_text_word(piece, "unit");

		term_table_cell(table, TERM_PLAIN, "%s", findings_text_word(piece, "name"));
		term_table_cell(
			table, TERM_PLAIN, "%s", findings_text_value(json_object_get(piece, "value"), unit, value));
		term_table_cell(
			table, TERM_PLAIN, "%s", findings_text_value(json_object_get(piece, "peers"), unit, value));
		term_table_cell(table, TERM_PLAIN, "%s", findings_text_word(piece, "detail"));
	}
	if (term_table_rows(table))
		term_table_print(table, out, FINDINGS_TEXT_INDENT);
	term_table_free(table);
}

/* What a sentence, which names a rank and a node, leaves out. */
static void findings_text_where(FILE *out, const json_t *row)
{
	static const char *const names[] = {"job", "host", "card", "communicator"};
	size_t shown = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*findings_text_word(row, names[i]))
			fprintf(out, "%s%s %s", shown++ ? ", " : "", names[i], findings_text_word(row, names[i]));
	if (shown)
		fputc('\n', out);
}

/* Lines that are wrapped later. */
static void findings_text_about(FILE *out, const json_t *row)
{
	uint64_t noticed_ns = findings_text_ns(row, "noticed_ns");
	char since[TOOL_TEXT_BYTES];

	findings_text_where(out, row);
	fprintf(out, "%s, cause %s, confidence %.2f, seen from %s", findings_text_word(row, "kind"),
		findings_text_word(row, "cause"), json_number_value(json_object_get(row, "confidence")),
		findings_text_word(row, "tier"));
	if (json_is_integer(json_object_get(row, "since_step")))
		fprintf(out, ", since step %" PRIu64, findings_text_ns(row, "since_step"));
	if (noticed_ns)
		fprintf(out, ", confirmed %s", tool_time(noticed_ns, since));
	if (*findings_text_word(row, "others"))
		fprintf(out, ", also of ranks %s", findings_text_word(row, "others"));
	fprintf(out, "; number %" PRIu64, findings_text_ns(row, "finding"));
}

static void findings_text_wrap(FILE *out, const char *text)
{
	fprintf(out, "%*s", FINDINGS_TEXT_INDENT, "");
	term_wrap(out, text, FINDINGS_TEXT_INDENT, FINDINGS_TEXT_INDENT, term_width(out));
	fputc('\n', out);
}

static void findings_text_details(FILE *out, const json_t *row)
{
	enum finding_cause cause = finding_cause_parse(findings_text_word(row, "cause"));
	char *text = NULL;
	size_t size = 0;
	FILE *about = open_memstream(&text, &size);

	if (about) {
		findings_text_about(about, row);
		fclose(about);
		findings_text_wrap(out, text);
		free(text);
	}
	findings_text_evidence(out, json_object_get(row, "evidence"));
	if (cause < CAUSE_MAX && asprintf(&text, "what to do: %s", finding_cause_advice(cause)) >= 0) {
		findings_text_wrap(out, text);
		free(text);
	}
}

void findings_text_print(struct findings_text *text)
{
	const json_t *row;
	size_t i;

	term_table_fit(text->table, text->out, 0, 0);
	if (!text->begun)
		term_table_print_header(text->table, text->out);
	text->begun = true;
	json_array_foreach(text->rows, i, row)
	{
		term_table_print_row(text->table, text->out, i);
		if (text->verbose)
			findings_text_details(text->out, row);
	}
	term_table_clear(text->table);
	json_array_clear(text->rows);
}

void findings_text_none(FILE *out, const struct findings_watched *watched, uint64_t since_ns, uint64_t now_ns)
{
	const char *whose = watched->chosen ? " of these ranks" : "";
	const char *nobody = watched->chosen && watched->only_them ? "none of them" : "no rank";
	char a[TOOL_TEXT_BYTES], b[TOOL_TEXT_BYTES];

	if (!watched->first_ns && !since_ns) {
		fprintf(out, "no findings%s, and %s was watched\n", whose, nobody);
		return;
	}
	if (!watched->first_ns) {
		fprintf(out, "no findings%s since %s, and %s was watched in that time\n", whose, tool_time(since_ns, a),
			nobody);
		return;
	}
	fprintf(out, "no findings%s: %" PRIu64 " rank%s%s %s watched since %s", whose, watched->ranks,
		watched->ranks == 1 ? "" : "s", watched->chosen && !watched->only_them ? " in all" : "",
		watched->ranks == 1 ? "was" : "were", tool_time(watched->first_ns, a));
	if (watched->last_ns + 60000000000ULL < now_ns)
		fprintf(out, ", the last one until %s", tool_time(watched->last_ns, b));
	fputc('\n', out);
}

void findings_csv_header(FILE *out)
{
	const struct schema_table *table = &schema_tables[TABLE_FINDINGS];

	for (size_t i = 0; i < schema_columns(table); i++)
		fprintf(out, "%s%s", i ? "," : "", table->columns[i].name);
	fputs("\r\n", out);
}

void findings_csv_row(FILE *out, const json_t *row)
{
	const struct schema_table *table = &schema_tables[TABLE_FINDINGS];

	for (size_t i = 0; i < schema_columns(table); i++) {
		const json_t *value = json_object_get(row, table->columns[i].name);
		char *text = NULL;

		fputs(i ? "," : "", out);
		if (json_is_string(value)) {
			output_csv_text(out, json_string_value(value));
		} else if (!json_is_null(value)) {
			text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
			output_csv_text(out, text ? text : "");
		}
		free(text);
	}
	fputs("\r\n", out);
}
