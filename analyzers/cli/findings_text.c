/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_text.h. */
#include "analyzers/cli/findings_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "analyzers/base/user.h"
#include "analyzers/cli/output.h"
#include "analyzers/finding/finding.h"
#include "analyzers/finding/finding_advice.h"
#include "analyzers/finding/finding_groups.h"

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
	json_t *rows;	 /* that are in the table */
	json_t *beneath; /* of each, an array of its episodes; or null */
	json_t *shorts;	 /* sentences on short slow-downs */
};

struct findings_text *findings_text_new(FILE *out, bool verbose)
{
	static const struct term_column columns[] = {
		{.name = "SINCE"},
		{.name = "LASTS"},
		{.name = "STATE"},
		{.name = "SEVERITY"},
		{.name = "CARD-HOURS", .right = true},
		{.name = "USER", .min = 5},
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
	text->beneath = json_array();
	text->shorts = json_array();
	if (text->table && text->rows && text->beneath && text->shorts)
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
	json_decref(text->beneath);
	json_decref(text->shorts);
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

/* A line of the table. */
struct findings_line {
	uint64_t since_ns, lasted_ns;
	const char *state, *severity, *job, *more; /* more: after the sentence */
	int64_t uid;
	double cost; /* below 0: unknown */
};

static void findings_text_line(struct findings_text *text, json_t *row, const struct findings_line *line)
{
	char since[TOOL_TEXT_BYTES], lasts[UNITS_BYTES], user[USER_NAME_BYTES];

	term_table_cell(text->table, TERM_PLAIN, "%s", line->since_ns ? tool_time(line->since_ns, since) : "-");
	term_table_cell(text->table, TERM_PLAIN, "%s", line->lasted_ns ? units_duration(line->lasted_ns, lasts) : "-");
	findings_text_cell(text, line->state);
	findings_text_cell(text, line->severity);
	if (line->cost >= 0)
		term_table_cell(text->table, TERM_PLAIN, "%.3g", line->cost);
	else
		term_table_cell(text->table, TERM_PLAIN, "-");
	term_table_cell(text->table, TERM_PLAIN, "%s", user_name(line->uid, user));
	term_table_cell(text->table, TERM_PLAIN, "%s", *line->job ? line->job : "-");
	term_table_cell(text->table, TERM_PLAIN, "%s%s%s", findings_text_word(row, "sentence"), *line->more ? "; " : "",
		line->more);
	json_array_append(text->rows, row);
}

static int64_t findings_text_uid(const json_t *row)
{
	const json_t *uid = json_object_get(row, "uid");

	return json_is_integer(uid) ? json_integer_value(uid) : USER_UNKNOWN;
}

static double findings_text_cost(const json_t *row)
{
	const json_t *cost = json_object_get(row, "cost_card_hours");

	return json_is_number(cost) && json_number_value(cost) >= 0 ? json_number_value(cost) : -1;
}

static uint64_t findings_text_lasted(const json_t *row, uint64_t now_ns)
{
	uint64_t since_ns = findings_text_ns(row, "since_ns"), until_ns = findings_text_ns(row, "until_ns");

	if (!until_ns)
		until_ns = now_ns;
	return since_ns && until_ns > since_ns ? until_ns - since_ns : 0;
}

void findings_text_add(struct findings_text *text, json_t *row, uint64_t now_ns)
{
	const struct findings_line line = {
		.since_ns = findings_text_ns(row, "since_ns"),
		.lasted_ns = findings_text_lasted(row, now_ns),
		.state = findings_text_word(row, "state"),
		.severity = findings_text_word(row, "severity"),
		.job = findings_text_word(row, "job"),
		.uid = findings_text_uid(row),
		.more = "",
		.cost = findings_text_cost(row),
	};

	findings_text_line(text, row, &line);
	json_array_append_new(text->beneath, json_null());
}

static enum finding_severity findings_text_severity(const json_t *row)
{
	size_t i = 0;

	while (i < SEVERITY_MAX &&
		strcmp(findings_text_word(row, "severity"), finding_severity_word((enum finding_severity)i)))
		i++;
	return (enum finding_severity)i;
}

static struct finding_episode findings_text_episode(const json_t *row)
{
	const json_t *rank = json_object_get(row, "rank");
	enum finding_kind kind = finding_kind_parse(findings_text_word(row, "kind"));

	return (struct finding_episode){
		.kind = kind,
		.cause = finding_cause_parse(findings_text_word(row, "cause")),
		.activity = activity_parse(findings_text_word(row, "activity")),
		.rank = json_is_integer(rank) ? (int32_t)json_integer_value(rank) : -1,
		.uid = findings_text_uid(row),
		.job = findings_text_word(row, "job"),
		.where = findings_text_word(row, kind == FINDING_HARDWARE ? "card" : "communicator"),
		.since_ns = findings_text_ns(row, "since_ns"),
		.until_ns = findings_text_ns(row, "until_ns"),
		.cost_card_hours = findings_text_cost(row) > 0 ? findings_text_cost(row) : 0,
	};
}

/* Rows of a call to findings_text_add_groups(); of each array one place a row. */
struct findings_grouping {
	size_t count;
	json_t **row;
	struct finding_episode *episode;
	struct finding_group *group;
	size_t *order;
	uint64_t now_ns;
};

static void findings_text_group(
	struct findings_text *text, const struct findings_grouping *all, const struct finding_group *group)
{
	char since[TOOL_TEXT_BYTES], more[160];
	enum finding_severity worst = SEVERITY_INFO;
	json_t *row = all->row[group->worst], *beneath = group->count > 1 ? json_array() : json_null();
	struct findings_line line = {
		.since_ns = group->since_ns,
		.lasted_ns = group->lasted_ns,
		.state = findings_text_word(row, "state"),
		.job = findings_text_word(row, "job"),
		.uid = findings_text_uid(row),
		.more = finding_group_words(group, tool_time(group->since_ns, since), more, sizeof(more)),
		.cost = findings_text_cost(row) < 0 ? -1 : group->cost_card_hours,
	};

	for (size_t i = group->first; i < group->first + group->count; i++) {
		const json_t *one = all->row[all->order[i]];
		enum finding_severity severity = findings_text_severity(one);

		worst = severity < SEVERITY_MAX && severity > worst ? severity : worst;
		if (strcmp(findings_text_word(one, "state"), "open") == 0)
			line.state = "open";
		if (group->count > 1)
			json_array_append(beneath, all->row[all->order[i]]);
	}
	line.severity = group->count > 1 ? finding_severity_word(worst) : findings_text_word(row, "severity");
	findings_text_line(text, row, &line);
	json_array_append_new(text->beneath, beneath);
}

/* A sentence on the short slow-downs of one rank, which are marked as counted. */
static void findings_text_short(
	struct findings_text *text, const struct findings_grouping *shorts, size_t first, bool *counted)
{
	const struct finding_episode *of = &shorts->episode[first];
	uint64_t lasted_ns = 0, count = 0;
	char line[320], length[UNITS_BYTES], who[32] = "the job as a whole";

	for (size_t i = first; i < shorts->count; i++) {
		const struct finding_episode *episode = &shorts->episode[i];

		if (counted[i] || episode->rank != of->rank || episode->uid != of->uid ||
			strcmp(episode->job, of->job) != 0)
			continue;
		counted[i] = true;
		count++;
		lasted_ns += findings_text_lasted(shorts->row[i], shorts->now_ns);
	}
	if (of->rank >= 0)
		snprintf(who, sizeof(who), "rank %" PRId32, of->rank);
	snprintf(line, sizeof(line), "%s%s%.64s: %" PRIu64 " short slow-down%s, %s in all", who, *of->job ? " of " : "",
		of->job, count, count == 1 ? "" : "s", units_duration(lasted_ns, length));
	json_array_append_new(text->shorts, findings_row_text(line));
}

static void findings_text_shorts(struct findings_text *text, const struct findings_grouping *shorts, bool *counted)
{
	for (size_t i = 0; i < shorts->count; i++)
		if (!counted[i])
			findings_text_short(text, shorts, i, counted);
}

static bool findings_grouping_new(struct findings_grouping *ret, size_t count, uint64_t now_ns)
{
	*ret = (struct findings_grouping){
		.row = calloc(count + 1, sizeof(json_t *)),
		.episode = calloc(count + 1, sizeof(struct finding_episode)),
		.group = calloc(count + 1, sizeof(struct finding_group)),
		.order = calloc(count + 1, sizeof(size_t)),
		.now_ns = now_ns,
	};
	return ret->row && ret->episode && ret->group && ret->order;
}

static void findings_grouping_free(struct findings_grouping *grouping)
{
	free(grouping->row);
	free(grouping->episode);
	free(grouping->group);
	free(grouping->order);
}

bool findings_text_add_groups(struct findings_text *text, json_t *rows, uint64_t now_ns)
{
	size_t count = json_array_size(rows), i, groups;
	struct findings_grouping all, shorts;
	bool *counted = calloc(count + 1, sizeof(*counted));
	bool good = findings_grouping_new(&all, count, now_ns);
	json_t *row;

	good = findings_grouping_new(&shorts, count, now_ns) && good && counted;
	json_array_foreach(rows, i, row)
	{
		struct finding_episode episode = findings_text_episode(row);
		struct findings_grouping *to =
			finding_is_short(episode.kind, findings_text_severity(row)) ? &shorts : &all;

		if (!good)
			break;
		to->row[to->count] = row;
		to->episode[to->count++] = episode;
	}
	groups = good ? finding_groups_make(all.episode, all.count, now_ns, all.order, all.group) : 0;
	for (i = 0; i < groups; i++)
		findings_text_group(text, &all, &all.group[i]);
	if (good)
		findings_text_shorts(text, &shorts, counted);
	findings_grouping_free(&all);
	findings_grouping_free(&shorts);
	free(counted);
	return good;
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
	const struct finding_episode episode = findings_text_episode(row);
	enum finding_side side = FINDING_SIDE_UNKNOWN;
	const json_t *line;
	char *text = NULL;
	size_t size = 0, i;
	FILE *about = open_memstream(&text, &size);

	if (about) {
		findings_text_about(about, row);
		fclose(about);
		findings_text_wrap(out, text);
		free(text);
	}
	findings_text_evidence(out, json_object_get(row, "evidence"));
	json_array_foreach(json_object_get(row, "stacks"), i, line)
		findings_text_wrap(out, json_string_value(line) ? json_string_value(line) : "");
	while (side < FINDING_SIDE_MAX && strcmp(findings_text_word(row, "side"), finding_side_word(side)))
		side++;
	if (episode.cause < CAUSE_MAX &&
		asprintf(&text, "what to do: %s", finding_advice(episode.cause, episode.activity, side)) >= 0) {
		findings_text_wrap(out, text);
		free(text);
	}
}

static void findings_text_episodes(FILE *out, const json_t *episodes)
{
	const json_t *row;
	size_t i;

	json_array_foreach(episodes, i, row)
	{
		uint64_t since_ns = findings_text_ns(row, "since_ns"), until_ns = findings_text_ns(row, "until_ns");
		char since[TOOL_TEXT_BYTES], until[TOOL_TEXT_BYTES];

		fprintf(out, "%*sepisode %" PRIu64 ": %s to %s, %s, %.3g card-hours\n", FINDINGS_TEXT_INDENT, "",
			findings_text_ns(row, "finding"), tool_time(since_ns, since),
			until_ns ? tool_time(until_ns, until) : "now", findings_text_word(row, "severity"),
			findings_text_cost(row) > 0 ? findings_text_cost(row) : 0);
	}
}

void findings_text_print(struct findings_text *text)
{
	const json_t *row;
	size_t i;

	term_table_fit(text->table, text->out, 0, 0);
	if (!text->begun && json_array_size(text->rows))
		term_table_print_header(text->table, text->out);
	text->begun |= json_array_size(text->rows) > 0;
	json_array_foreach(text->rows, i, row)
	{
		term_table_print_row(text->table, text->out, i);
		if (!text->verbose)
			continue;
		findings_text_details(text->out, row);
		findings_text_episodes(text->out, json_array_get(text->beneath, i));
	}
	json_array_foreach(text->shorts, i, row) fprintf(text->out, "%s%s\n",
		!i && json_array_size(text->rows) ? "\n" : "", json_string_value(row) ? json_string_value(row) : "");
	term_table_clear(text->table);
	json_array_clear(text->rows);
	json_array_clear(text->beneath);
	json_array_clear(text->shorts);
}

void findings_text_none(FILE *out, const struct findings_watched *watched, uint64_t since_ns, uint64_t now_ns)
{
	char whose[128] = "";
	const char *nobody = watched->job			     ? "no rank of it"
			     : watched->chosen && watched->only_them ? "none of them"
								     : "no rank";
	char a[TOOL_TEXT_BYTES], b[TOOL_TEXT_BYTES];

	if (watched->job)
		snprintf(whose, sizeof(whose), " of job %.100s", watched->job);
	else if (watched->chosen)
		snprintf(whose, sizeof(whose), " of these ranks");
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
