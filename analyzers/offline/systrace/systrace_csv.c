/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV of sysTrace's L1. Lines of an operation come near each other: those that wait for theirs are kept in a table
 * of places by their Id, and one that needs a taken place takes it over, whether the other was whole or not.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/offline/systrace/systrace_files.h"

#define LINE_BYTES 1024
#define WAITING 4096 /* a power of two */
#define FIELDS 10
#define NS_MAX (1ULL << 62)

enum field { FLAG, ID, KIND, NAME, SOURCE, TIMESTAMP, DEVICE, STREAM, PROCESS, THREAD };

struct waiting {
	bool used;
	unsigned device, host; /* lines of each side so far */
	uint64_t id, host_start_ns, host_end_ns;
	struct systrace_op op;
};

struct csv {
	const struct systrace_sink *sink;
	struct systrace_said *said;
	struct waiting waiting[WAITING];
};

static const struct {
	const char *type;
	unsigned bytes;
} types[] = {{"int8", 1}, {"uint8", 1}, {"fp16", 2}, {"float16", 2}, {"bf16", 2}, {"bfp16", 2}, {"bfloat16", 2},
	{"int16", 2}, {"uint16", 2}, {"fp32", 4}, {"float32", 4}, {"float", 4}, {"int32", 4}, {"uint32", 4},
	{"fp64", 8}, {"float64", 8}, {"double", 8}, {"int64", 8}, {"uint64", 8}};

/* "HCCL_DATA_TYPE_FP16", "fp16". */
static uint64_t bytes_of(const char *type)
{
	static const char prefix[] = "HCCL_DATA_TYPE_";

	if (strncasecmp(type, prefix, sizeof(prefix) - 1) == 0)
		type += sizeof(prefix) - 1;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcasecmp(types[i].type, type) == 0)
			return types[i].bytes;
	return 0;
}

static bool systrace_csv_number_of(const char *text, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && *end == 0;
}

/* comm:OPERATION!GROUP!TYPE!COUNT; cut where it has fewer parts. */
static void take_name(char *name, struct systrace_op *op)
{
	const char *part[4] = {"", "", "", ""};
	char *rest = name;
	uint64_t count;

	if (strncmp(name, "comm:", 5) == 0)
		rest += 5;
	for (size_t i = 0; i < 4 && rest; i++)
		part[i] = strsep(&rest, "!");
	snprintf(op->op, sizeof(op->op), "%s", part[0]);
	snprintf(op->group, sizeof(op->group), "%s", part[1]);
	if (systrace_csv_number_of(part[3], &count) && count < NS_MAX / 8)
		op->bytes = count * bytes_of(part[2]);
}

static int systrace_csv_finish(struct csv *csv, struct waiting *waiting)
{
	struct systrace_op op = waiting->op;
	bool named = op.op[0] && op.group[0];

	waiting->used = false;
	if (!waiting->device && waiting->host >= 2 && named) {
		csv->said->host_ops++;
		if (!csv->sink->host_ops)
			return 0;
		op.is_host = true;
		op.start_ns = waiting->host_start_ns;
		op.end_ns = waiting->host_end_ns;
	} else if (waiting->device < 2 || !named) {
		csv->said->dropped += waiting->device > 0; /* without a whole side there was nothing to know of it */
		return 0;
	}
	csv->said->records++;
	return csv->sink->op ? csv->sink->op(csv->sink->arg, &op) : 0;
}

static void systrace_csv_widen(uint64_t *start_ns, uint64_t *end_ns, unsigned lines, uint64_t time_ns)
{
	if (!lines || time_ns < *start_ns)
		*start_ns = time_ns;
	if (time_ns > *end_ns)
		*end_ns = time_ns;
}

static int take_line(struct csv *csv, char *const field[FIELDS])
{
	uint64_t id, source, time_ns, pid;
	struct waiting *waiting;
	int r = 0;

	if (!systrace_csv_number_of(field[ID], &id) || !systrace_csv_number_of(field[SOURCE], &source) ||
		!systrace_csv_number_of(field[TIMESTAMP], &time_ns) || source > 1 || !time_ns || time_ns >= NS_MAX) {
		csv->said->dropped++;
		return 0;
	}
	waiting = &csv->waiting[id & (WAITING - 1)];
	if (waiting->used && waiting->id != id)
		r = systrace_csv_finish(csv, waiting);
	if (!waiting->used)
		*waiting = (struct waiting){.used = true, .id = id};
	if (*field[NAME])
		take_name(field[NAME], &waiting->op);
	if (source == 0 && field[PROCESS] && systrace_csv_number_of(field[PROCESS], &pid) && pid < UINT32_MAX)
		waiting->op.pid = (uint32_t)pid;
	if (source == 0)
		systrace_csv_widen(&waiting->host_start_ns, &waiting->host_end_ns, waiting->host++, time_ns);
	else
		systrace_csv_widen(&waiting->op.start_ns, &waiting->op.end_ns, waiting->device++, time_ns);
	return r;
}

/* In the order of sysTrace's header, which others may extend at its end. */
static bool systrace_csv_split(char *line, char *field[FIELDS])
{
	size_t count = 0;

	memset(field, 0, FIELDS * sizeof(*field));
	line[strcspn(line, "\r\n")] = 0;
	for (char *rest = line; rest && count < FIELDS;)
		field[count++] = strsep(&rest, ",");
	return count > TIMESTAMP;
}

static int read_lines(FILE *file, struct csv *csv)
{
	char line[LINE_BYTES], *field[FIELDS] = {NULL};
	bool first = true, within = false;
	int r = 0;

	while (r == 0 && fgets(line, sizeof(line), file)) {
		bool whole = strchr(line, '\n') != NULL, begins = !within;

		within = !whole;
		if (!begins || (!whole && !feof(file))) {
			csv->said->dropped += begins; /* longer than any of theirs */
			continue;
		}
		if (first && strncmp(line, "Flag,Id,Kind,Name,SourceKind,Timestamp", 38) != 0)
			return -EBADMSG;
		if (!first && systrace_csv_split(line, field))
			r = take_line(csv, field);
		else if (!first)
			csv->said->dropped++;
		csv->said->cut = !whole;
		first = false;
	}
	if (r == 0 && ferror(file))
		return -EIO;
	return r == 0 && first && !feof(file) ? -EBADMSG : r;
}

int systrace_csv_read(FILE *file, const struct systrace_sink *sink, struct systrace_said *said)
{
	struct csv *csv = calloc(1, sizeof(*csv));
	int r;

	*said = (struct systrace_said){.rank = -1};
	if (!csv)
		return -ENOMEM;
	csv->sink = sink;
	csv->said = said;
	r = read_lines(file, csv);
	for (size_t i = 0; i < WAITING && r == 0; i++)
		if (csv->waiting[i].used)
			r = systrace_csv_finish(csv, &csv->waiting[i]);
	free(csv);
	return r;
}

static bool tail_number(const char *text, size_t length, int64_t *ret)
{
	int64_t value = 0;

	if (length == 2 && strncmp(text, "-1", 2) == 0) {
		*ret = -1;
		return true;
	}
	if (!length || length > 9)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		value = value * 10 + (text[i] - '0');
	}
	*ret = value;
	return true;
}

static bool host_of(const char *text, size_t length, struct systrace_name *ret)
{
	if (!length || length >= sizeof(ret->host))
		return false;
	memcpy(ret->host, text, length);
	ret->host[length] = 0;
	return true;
}

/* HOST--RANK--PID or HOST--RANK; a host may have "--" in it, so from the end. */
static bool timeline_name(const char *name, size_t length, struct systrace_name *ret)
{
	size_t mark[2], marks = 0;
	int64_t last, before;

	for (size_t i = length; i-- > 1 && marks < 2;)
		if (name[i] == '-' && name[i - 1] == '-')
			mark[marks++] = --i;
	if (!marks || !tail_number(name + mark[0] + 2, length - mark[0] - 2, &last))
		return false;
	if (marks == 2 && tail_number(name + mark[1] + 2, mark[0] - mark[1] - 2, &before)) {
		ret->rank = before;
		ret->pid = (uint32_t)last;
		return host_of(name, mark[1], ret);
	}
	ret->rank = last;
	return host_of(name, mark[0], ret);
}

/* PREFIX-ADDRESS-.RANK or PREFIX-ADDRESS-RANK; the rank may be -1. */
static bool csv_name(const char *name, size_t length, struct systrace_name *ret)
{
	static const char *const prefixes[] = {"hccl_activity-", "mspti-marker-"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t start = strlen(prefixes[i]), rank = length, end;

		if (length < start + 3 || strncmp(name, prefixes[i], start) != 0)
			continue;
		while (rank > start && isdigit((unsigned char)name[rank - 1]))
			rank--;
		if (rank == length - 1 && name[rank] == '1' && name[rank - 1] == '-' && strchr("-.", name[rank - 2]))
			rank--;
		end = rank - 1;
		if (name[end] == '.' && name[end - 1] == '-')
			end--;
		return rank > start + 1 && end > start && name[end] == '-' &&
		       tail_number(name + rank, length - rank, &ret->rank) && host_of(name + start, end - start, ret);
	}
	return false;
}

bool systrace_name_parse(const char *name, struct systrace_name *ret)
{
	size_t length = strlen(name);

	*ret = (struct systrace_name){.rank = -1};
	if (length > 9 && strcmp(name + length - 9, ".timeline") == 0)
		return timeline_name(name, length - 9, ret);
	ret->is_csv = true;
	return length > 4 && strcmp(name + length - 4, ".csv") == 0 && csv_name(name, length - 4, ret);
}
