/* SPDX-License-Identifier: Apache-2.0 */
/* Probe tables: rows are checked after their text is read; a refused text changes nothing. */
#include "analyzers/steps/stage_names.h"
#include "analyzers/base/array.h"
#include "daemon/probes/table.h"
#include "analyzers/base/ini.h"
#include "daemon/probes/table_private.h"

#include <fnmatch.h>

/* Each collector keeps the rows of its levels. */

void probe_table_keep_levels(struct probe_table *table, uint32_t levels)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++)
		if (levels & LEVEL_BIT(table->probe[i].level))
			table->probe[kept++] = table->probe[i];
	table->count = kept;
}

int probe_table_load_dirs(struct probe_table *table, const char *const *dirs, size_t count, uint32_t levels,
	char *error, size_t error_size)
{
	for (size_t i = 0; i < count; i++) {
		int r = probe_table_load_dir(table, dirs[i], error, error_size);

		if (r < 0)
			return r;
	}
	probe_table_keep_levels(table, levels);
	return 0;
}

#define EDGE_BIT(edge) (1u << (edge))
#define STAGE_EDGES (EDGE_BIT(RT_EDGE_BEGIN) | EDGE_BIT(RT_EDGE_END) | EDGE_BIT(RT_EDGE_SPAN))
#define CALL_EDGES (EDGE_BIT(RT_EDGE_CALL) | EDGE_BIT(RT_EDGE_ENTRY))
#define EVENT_EDGES (CALL_EDGES | EDGE_BIT(RT_EDGE_CLOSE))
#define GROUP_EDGES (EDGE_BIT(RT_EDGE_OPEN) | EDGE_BIT(RT_EDGE_CLOSE))
#define SERVED_EDGES (EDGE_BIT(RT_EDGE_MEMORY) | EDGE_BIT(RT_EDGE_MEMORY_FAILED) | EDGE_BIT(RT_EDGE_EXCEPTION))
#define RETURN_EDGES (EDGE_BIT(RT_EDGE_CALL) | EDGE_BIT(RT_EDGE_SPAN) | EDGE_BIT(RT_EDGE_CLOSE))

struct text {
	struct probe_table table; /* rows of this text */
	size_t rows_capacity;
	struct probe defaults; /* of the rows that follow */
	uint32_t seen;	       /* keys of this section */
	bool in_defaults, has_section;
	const char *path;
};

static void text_free(struct text *text)
{
	probe_table_free(&text->table);
}

static void text_set_defaults(struct text *text)
{
	text->defaults = (struct probe){.level = LEVEL_MAX, .edge = RT_EDGE_MAX};
	for (unsigned i = 0; i < RT_CALL_ARGS_MAX; i++)
		text->defaults.field[i] = OP_FIELD_MAX;
}

static int add_row(struct text *text, const struct ini_line *line, char *error, size_t error_size)
{
	size_t count = text->table.count;
	const char *slash = strrchr(line->path, '/');
	struct probe *probe;

	if (!streq(line->section, "probe") || !*line->name)
		return probe_refuse(error, error_size, "expected a section [probe \"NAME\"] or [defaults]");
	for (size_t i = 0; i < count; i++)
		if (streq(text->table.probe[i].name, line->name))
			return probe_refuse(error, error_size, "probe \"%.63s\" is already defined in line %u",
				line->name, text->table.probe[i].line);
	if (count == PROBES_MAX)
		return probe_refuse(error, error_size, "more than %d probes", PROBES_MAX);
	if (!array_reserve((void **)&text->table.probe, &text->rows_capacity, count + 1, sizeof(*probe), PROBES_MAX))
		return -ENOMEM;
	probe = &text->table.probe[count];
	*probe = text->defaults;
	probe->line = line->line;
	if (!copy_text(probe->name, sizeof(probe->name), line->name))
		return probe_refuse(error, error_size, "probe name is longer than %d bytes", PROBE_NAME_BYTES - 1);
	copy_text(probe->file, sizeof(probe->file), slash ? slash + 1 : line->path);
	text->table.count++;
	return 0;
}

static int on_line(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	struct text *text = arg;
	struct probe *probe;

	if (!line->key) {
		if (!text->has_section)
			text_set_defaults(text);
		text->has_section = true;
		text->seen = 0;
		text->in_defaults = streq(line->section, "defaults") && !*line->name;
		if (!text->in_defaults)
			return add_row(text, line, error, error_size);
		text_set_defaults(text);
		return 0;
	}
	if (!text->has_section)
		return probe_refuse(error, error_size, "\"%.80s\" precedes the first section", line->key);
	probe = text->in_defaults ? &text->defaults : &text->table.probe[text->table.count - 1];
	return probe_set_key(probe, &text->seen, text->in_defaults, line->key, line->value, error, error_size);
}

static bool mixes_readers(const struct probe *probe)
{
	for (unsigned i = 0; i < probe->spec.args; i++)
		if (!probe->usdt_operand[i] != !*probe->usdt_provider)
			return true;
	return false;
}

static bool has_reader(const struct probe *probe, enum rt_read read)
{
	for (unsigned i = 0; i < probe->spec.args; i++)
		if (probe->spec.arg[i].read == read)
			return true;
	return false;
}

static bool has_field(const struct probe *probe)
{
	for (unsigned i = 0; i < probe->spec.args; i++)
		if (probe->field[i] != OP_FIELD_MAX)
			return true;
	return false;
}

/* What is wrong with the row's event keys, or NULL. */
static const char *event_fault(const struct probe *probe)
{
	unsigned edge = EDGE_BIT(probe->edge);

	if (edge & EVENT_EDGES && !*probe->event)
		return "needs an event for its edge call, entry or close";
	if (!(edge & EVENT_EDGES) && *probe->event)
		return "has an event, which belongs to the edges call, entry and close";
	if (!*probe->event && (*probe->family || *probe->op || has_field(probe)))
		return "has a family, an op or a named argument, which belong to an event";
	if (!(edge & CALL_EDGES) && probe->spec.flags & RT_CALL_MEMBER)
		return "has member, which belongs to the edges call and entry";
	if (edge & (GROUP_EDGES | SERVED_EDGES) && probe->spec.args)
		return "has args, which the edges open, close, memory, memory_failed and exception do not take";
	if (probe->edge != RT_EDGE_CALL && has_reader(probe, RT_READ_OUT))
		return "has a reader out(), which belongs to the edge call";
	return NULL;
}

/* What is wrong with the row, or NULL. */
static const char *row_fault(const struct probe *probe)
{
	unsigned edge = EDGE_BIT(probe->edge);

	if (probe->level == LEVEL_MAX || probe->edge == RT_EDGE_MAX)
		return "needs a level and an edge";
	if (!probe->libraries)
		return "needs a library";
	if (probe->symbols && *probe->usdt_provider)
		return "has a symbol and a usdt, of which only one is probed";
	if (!(edge & STAGE_EDGES) && *probe->stage)
		return "has a stage, which belongs to the edges begin, end and span";
	if (probe->at_return && probe->edge != RT_EDGE_END)
		return "has at = return, which belongs to the edge end";
	if (probe->return_probe && !(edge & RETURN_EDGES) && !probe->at_return)
		return "has return = probe, but no return is probed";
	if (probe->spec.flags & RT_CALL_RESULT && !(edge & RETURN_EDGES))
		return "has a result, which belongs to the edges call, close and span";
	if ((probe->edge == RT_EDGE_MARK) != (probe->spec.symbol_reg != 0))
		return "needs symbol_reg with the edge mark, and only there";
	if ((probe->edge == RT_EDGE_MARK || probe->edge == RT_EDGE_STASH) && !probe_has_text(probe))
		return "needs a text reader for its edge mark or stash";
	if (*probe->usdt_provider && (edge & RETURN_EDGES || probe->at_return))
		return "has an edge that needs a return, which a USDT probe lacks";
	if (*probe->usdt_provider && probe->symbols_all)
		return "has symbols_all, which belongs to symbols";
	if (mixes_readers(probe))
		return "must read usdt(N) at a USDT probe, and registers only elsewhere";
	return event_fault(probe);
}

static int check_rows(struct text *text, char *error, size_t error_size)
{
	for (size_t i = 0; i < text->table.count; i++) {
		struct probe *probe = &text->table.probe[i];
		const char *fault;

		if (!probe->symbols && !*probe->usdt_provider)
			probe->symbols = copy_text(probe->symbol[0], sizeof(probe->symbol[0]), probe->name);
		fault = row_fault(probe);
		if (fault)
			return probe_refuse(error, error_size, "%s:%u: probe \"%s\" %s", text->path, probe->line,
				probe->name, fault);
		if (EDGE_BIT(probe->edge) & RETURN_EDGES || probe->at_return)
			probe->spec.flags |= RT_CALL_NEEDS_RETURN;
		/* A begin without text and stage is named by its thread's stash. */
		if (probe->edge == RT_EDGE_BEGIN && !*probe->stage && !probe_has_text(probe))
			probe->spec.flags |= RT_CALL_TAKES_STASH;
	}
	return 0;
}

/* Merges both into new memory; releases the old table last, when nothing can fail. */
static int probe_table_merge(struct probe_table *table, const struct text *text, char *error, size_t error_size)
{
	struct probe *rows = calloc(table->count + text->table.count + 1, sizeof(*rows));
	size_t count = table->count;

	if (!rows)
		return probe_refuse(error, error_size, "%s: not enough memory", text->path), -ENOMEM;
	if (count)
		memcpy(rows, table->probe, count * sizeof(*rows));
	for (size_t i = 0; i < text->table.count; i++) {
		size_t at = 0;

		while (at < count && !streq(rows[at].name, text->table.probe[i].name))
			at++;
		rows[at] = text->table.probe[i];
		if (at == count)
			count++;
	}
	/* After merging: a row for another machine still replaces the one with its name. */
	for (size_t i = count; i-- > 0;)
		if (rows[i].foreign)
			memmove(&rows[i], &rows[i + 1], (--count - i) * sizeof(*rows));
	if (count > PROBES_MAX) {
		free(rows);
		return probe_refuse(error, error_size, "%s: more than %d probes in total", text->path, PROBES_MAX);
	}
	free(table->probe);
	*table = (struct probe_table){rows, count};
	return 0;
}

static int probe_table_take_text(
	struct probe_table *table, struct text *text, int r, const char *sentence, char *error, size_t error_size)
{
	if (r < 0) {
		copy_text(error, error_size, sentence);
		return r;
	}
	r = check_rows(text, error, error_size);
	return r < 0 ? r : probe_table_merge(table, text, error, error_size);
}

int probe_table_parse(struct probe_table *table, const char *path, const char *text, size_t size_bytes, char *error,
	size_t error_size)
{
	_cleanup_(text_free) struct text rows = {.path = path};
	char sentence[INI_ERROR_BYTES] = "";

	return probe_table_take_text(
		table, &rows, ini_parse(path, text, size_bytes, on_line, &rows, sentence), sentence, error, error_size);
}

static int parse_file(struct probe_table *table, const char *path, char *error, size_t error_size)
{
	_cleanup_(text_free) struct text rows = {.path = path};
	char sentence[INI_ERROR_BYTES] = "";

	return probe_table_take_text(
		table, &rows, ini_parse_file(path, on_line, &rows, sentence), sentence, error, error_size);
}

static int is_table(const struct dirent *entry)
{
	return fnmatch("*.conf", entry->d_name, FNM_PERIOD) == 0;
}

static void free_entries(struct dirent **entry, int count)
{
	for (int i = 0; i < count; i++)
		free(entry[i]);
	free(entry);
}

static int copy_table(const struct probe_table *table, struct probe_table *ret)
{
	*ret = (struct probe_table){calloc(table->count + 1, sizeof(*ret->probe)), table->count};
	if (!ret->probe)
		return -ENOMEM;
	if (table->count)
		memcpy(ret->probe, table->probe, table->count * sizeof(*ret->probe));
	return 0;
}

int probe_table_load_dir(struct probe_table *table, const char *dir, char *error, size_t error_size)
{
	_cleanup_(probe_table_free) struct probe_table all = {0};
	struct dirent **entry;
	char path[4096];
	int count, r;

	r = copy_table(table, &all);
	if (r < 0)
		return probe_refuse(error, error_size, "%s: not enough memory", dir), r;
	count = scandir(dir, &entry, is_table, alphasort);
	if (count < 0 && errno == ENOENT)
		return 0;
	if (count < 0) {
		r = -errno;
		return probe_refuse(error, error_size, "cannot read %s: %s", dir, strerror(-r)), r;
	}
	for (int i = 0; i < count && r == 0; i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, entry[i]->d_name) >= sizeof(path))
			r = probe_refuse(error, error_size, "%s: the path is too long", dir);
		else
			r = parse_file(&all, path, error, error_size);
	}
	free_entries(entry, count);
	if (r < 0)
		return r;
	probe_table_free(table);
	*table = all;
	all = (struct probe_table){0};
	return 0;
}

void probe_table_free(struct probe_table *table)
{
	free(table->probe);
	*table = (struct probe_table){0};
}

size_t probe_table_libraries(const struct probe_table *table, const char **ret)
{
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++) {
		for (unsigned k = 0; k < table->probe[i].libraries; k++) {
			const char *pattern = table->probe[i].library[k];
			size_t p = 0;

			while (p < count && !streq(ret[p], pattern))
				p++;
			if (p == count)
				ret[count++] = pattern;
		}
	}
	return count;
}

bool probe_is_boundary(const struct probe *probe)
{
	return probe->level == LEVEL_L0 && stage_of_stage(probe->stage).kind == STAGE_BACKWARD;
}

bool probe_matches_library(const struct probe *probe, const char *base_name)
{
	for (unsigned i = 0; i < probe->libraries; i++)
		if (fnmatch(probe->library[i], base_name, 0) == 0)
			return true;
	return false;
}

static bool is_complete(const struct probe_table *table, const bool *found, const struct probe *of)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[i];

		if (probe->variant == of->variant && streq(probe->set, of->set) && !found[i])
			return false;
	}
	return true;
}

/* A row of the variant in use in its set, or NULL. */
static const struct probe *table_chosen(const struct probe_table *table, const bool *found, const char *set)
{
	const struct probe *best = NULL;

	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[i];

		if (streq(probe->set, set) && (!best || probe->variant < best->variant) &&
			is_complete(table, found, probe))
			best = probe;
	}
	return best;
}

void probe_table_choose(const struct probe_table *table, const bool *found, bool *ret_use)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[i];
		const struct probe *best = *probe->set ? table_chosen(table, found, probe->set) : probe;

		ret_use[i] = found[i] && best && best->variant == probe->variant;
	}
}
