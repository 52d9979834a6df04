/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_text.h. */
#include "analyzers/cli/findings_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/finding/finding.h"

static const char *text_of(const json_t *row, const char *name)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text ? text : "";
}

static uint64_t ns_of(const json_t *row, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(row, name));

	return value > 0 ? (uint64_t)value : 0;
}

void findings_text_header(FILE *out)
{
	fprintf(out, "%-19s  %-11s  %-9s  %-8s  %10s  %s\n", "SINCE", "LASTS", "STATE", "SEVERITY", "CARD-HOURS",
		"FINDING");
}

/* "310 ms", "24.2 %", "1.5 MiB": ns and bytes in units for people, everything else as it is. */
static const char *value_text(const json_t *value, const char *unit, char buffer[TOOL_TEXT_BYTES])
{
	double number = json_number_value(value);

	if (!json_is_number(value))
		snprintf(buffer, TOOL_TEXT_BYTES, "-");
	else if (strcmp(unit, "ns") == 0 && number >= 0 && number < 1e18)
		tool_duration((uint64_t)number, buffer);
	else if (strcmp(unit, "bytes") == 0 && fabs(number) >= 1048576)
		snprintf(buffer, TOOL_TEXT_BYTES, "%.1f MiB", number / 1048576);
	else
		snprintf(buffer, TOOL_TEXT_BYTES, "%.6g%s%.8s", number, strcmp(unit, "1") == 0 ? "" : " ",
			strcmp(unit, "1") == 0 ? "" : unit);
	return buffer;
}

static void print_evidence(FILE *out, const json_t *evidence)
{
	char value[TOOL_TEXT_BYTES], peers[TOOL_TEXT_BYTES];
	const json_t *piece;
	size_t i;

	if (json_array_size(evidence))
		fprintf(out, "    %-20s  %14s  %14s  %s\n", "MEASURED", "VALUE", "PEERS/BEFORE", "WHERE");
	json_array_foreach(evidence, i, piece)
	{
		const char *unit = text_of(piece, "unit");

		fprintf(out, "    %-20s  %14s  %14s  %s\n", text_of(piece, "name"),
			value_text(json_object_get(piece, "value"), unit, value),
			value_text(json_object_get(piece, "peers"), unit, peers), text_of(piece, "detail"));
	}
}

/* A sentence names a rank and a node; whoever has several jobs, or goes to the machine, needs the rest. */
static void print_where(FILE *out, const json_t *row)
{
	static const char *const names[] = {"job", "host", "card", "communicator"};
	size_t shown = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*text_of(row, names[i]))
			fprintf(out, "%s%s %s", shown++ ? ", " : "    ", names[i], text_of(row, names[i]));
	if (shown)
		fputc('\n', out);
}

static void print_details(FILE *out, const json_t *row)
{
	enum finding_cause cause = finding_cause_parse(text_of(row, "cause"));
	char since[TOOL_TEXT_BYTES];
	uint64_t noticed_ns = ns_of(row, "noticed_ns");

	print_where(out, row);
	fprintf(out, "    %s, cause %s, confidence %.2f, seen from %s", text_of(row, "kind"), text_of(row, "cause"),
		json_number_value(json_object_get(row, "confidence")), text_of(row, "tier"));
	if (json_is_integer(json_object_get(row, "since_step")))
		fprintf(out, ", since step %" PRIu64, ns_of(row, "since_step"));
	if (noticed_ns)
		fprintf(out, ", confirmed %s", tool_time(noticed_ns, since));
	if (*text_of(row, "others"))
		fprintf(out, ", also of ranks %s", text_of(row, "others"));
	fprintf(out, "; number %" PRIu64 "\n", ns_of(row, "finding"));
	print_evidence(out, json_object_get(row, "evidence"));
	if (cause < CAUSE_MAX)
		fprintf(out, "    what to do: %s\n", finding_cause_advice(cause));
}

bool findings_text_many_jobs(const json_t *rows)
{
	const char *first = text_of(json_array_get(rows, 0), "job");
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(text_of(row, "job"), first) != 0)
			return true;
	}
	return false;
}

void findings_text_row(FILE *out, const json_t *row, unsigned flags, uint64_t now_ns)
{
	uint64_t since_ns = ns_of(row, "since_ns"), until_ns = ns_of(row, "until_ns");
	char since[TOOL_TEXT_BYTES], lasts[TOOL_TEXT_BYTES];
	const json_t *cost = json_object_get(row, "cost_card_hours");

	if (!until_ns)
		until_ns = now_ns;
	fprintf(out, "%-19s  %-11s  %-9s  %-8s  ", since_ns ? tool_time(since_ns, since) : "-",
		tool_duration(since_ns && until_ns > since_ns ? until_ns - since_ns : 0, lasts), text_of(row, "state"),
		text_of(row, "severity"));
	if (json_is_number(cost))
		fprintf(out, "%10.3g  ", json_number_value(cost));
	else
		fprintf(out, "%10s  ", "-");
	fputs(text_of(row, "sentence"), out);
	if (flags & FINDINGS_TEXT_JOB && !(flags & FINDINGS_TEXT_VERBOSE) && *text_of(row, "job"))
		fprintf(out, " (job %s)", text_of(row, "job"));
	fputc('\n', out);
	if (flags & FINDINGS_TEXT_VERBOSE)
		print_details(out, row);
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

static void csv_text(FILE *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
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
			csv_text(out, json_string_value(value));
		} else if (!json_is_null(value)) {
			text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
			csv_text(out, text ? text : "");
		}
		free(text);
	}
	fputs("\r\n", out);
}
