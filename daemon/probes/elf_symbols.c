/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function symbols. A library with .symtab may have a million symbols, a table up to PROBES_MAX patterns: one pass,
 * exact names by binary search, wildcards only if their literal prefix matches. Symbols outside the file's code or
 * without valid name are skipped.
 */
#include "daemon/probes/elf_file.h"
#include "analyzers/base/array.h"
#include "daemon/probes/elf_private.h"

/* Pattern matching. Only the last * is backtracked to, so no pattern is exponential. */

bool pattern_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			resume = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

size_t pattern_literal_bytes(const char *pattern)
{
	return strcspn(pattern, "*?");
}

/* Of both tables, in memory. libtorch_cpu has 3.5 MB. */
#define TABLES_BYTES_MAX (96ULL << 20)
/*
 * Names compared with patterns whose literal begin they have: up to 200 MB/s. A million symbols of 100 bytes are
 * 100 MB for each pattern that all of them nearly match.
 */
#define WORK_BYTES_MAX (2ULL << 30)

struct wanted {
	const char *pattern;
	size_t index;	      /* in the caller's arrays */
	size_t literal_bytes; /* of a pattern with wildcards */
};

struct search {
	struct wanted *exact; /* sorted */
	size_t exacts;
	struct wanted *wild;
	size_t wilds;
	struct elf_symbol *symbol;
	bool *found;
	const bool *found_before; /* in a table with precedence */
};

void elf_table_free(struct elf_table *table)
{
	free(table->symbol);
	free(table->name);
}

static int elf_symbols_load(struct elf_file *file, struct elf_table *table)
{
	_cleanup_free_ uint8_t *symbol = NULL, *name = NULL;
	uint64_t left = TABLES_BYTES_MAX - file->table_bytes;
	int r;

	if (table->is_loaded || !table->symbols.size_bytes)
		return 0;
	/* Debugging symbols of a large library: as if it were stripped. */
	if (table->symbols.size_bytes > left || table->names.size_bytes > left - table->symbols.size_bytes)
		return table == &file->full && file->dynamic.is_loaded ? 0 : -EFBIG;
	r = elf_read_range(file, &table->symbols, left, &symbol);
	if (r < 0)
		return r;
	r = elf_read_range(file, &table->names, left, &name);
	if (r < 0)
		return r;
	file->table_bytes += table->symbols.size_bytes + table->names.size_bytes;
	table->count = table->symbols.size_bytes / sizeof(Elf64_Sym);
	table->name_bytes = table->names.size_bytes;
	table->symbol = TAKE_PTR(symbol);
	table->name = (char *)TAKE_PTR(name);
	table->is_loaded = true;
	return 0;
}

/* A named, defined function; its offset is resolved later, for matches only. */
static bool function_at(const struct elf_table *table, size_t i, Elf64_Sym *ret, const char **ret_name)
{
	memcpy(ret, table->symbol + i * sizeof(*ret), sizeof(*ret));
	if (ELF64_ST_TYPE(ret->st_info) != STT_FUNC || ret->st_shndx == SHN_UNDEF || ret->st_name >= table->name_bytes)
		return false;
	*ret_name = table->name + ret->st_name;
	return **ret_name;
}

static bool elf_symbols_place(
	const struct elf_file *file, const Elf64_Sym *raw, const char *name, struct elf_symbol *ret)
{
	uint64_t file_offset, left;

	if (strnlen(name, ELF_NAME_BYTES_MAX) == ELF_NAME_BYTES_MAX ||
		!elf_file_offset(file, raw->st_value, &file_offset) || !elf_is_code(file, file_offset, &left))
		return false;
	*ret = (struct elf_symbol){name, file_offset, raw->st_size};
	return true;
}

/* Compilers split off cold code as NAME.cold, at a lower address. */
static bool is_split_part(const char *name)
{
	return strstr(name, ".cold") != NULL;
}

/* Counts its work: a star is compared at each place of the name. */
static bool wild_matches(struct elf_file *file, const struct wanted *wanted, const char *name)
{
	size_t bytes;

	if (strncmp(wanted->pattern, name, wanted->literal_bytes) != 0)
		return false;
	bytes = strnlen(name, ELF_NAME_BYTES_MAX);
	file->work_bytes += bytes + wanted->literal_bytes;
	return bytes < ELF_NAME_BYTES_MAX &&
	       pattern_matches(wanted->pattern + wanted->literal_bytes, name + wanted->literal_bytes) &&
	       !is_split_part(name);
}

static void elf_symbols_offer(struct search *search, size_t index, const struct elf_symbol *symbol)
{
	if (search->found_before[index] ||
		(search->found[index] && search->symbol[index].file_offset <= symbol->file_offset))
		return;
	search->symbol[index] = *symbol;
	search->found[index] = true;
}

static size_t first_not_below(const struct search *search, const char *name)
{
	return array_first_not(i, search->exacts, strcmp(search->exact[i].pattern, name) < 0);
}

static int search_table(struct search *search, struct elf_file *file, const struct elf_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct elf_symbol symbol;
		const char *name;
		Elf64_Sym raw;

		if (!function_at(table, i, &raw, &name))
			continue;
		for (size_t k = first_not_below(search, name);
			k < search->exacts && streq(search->exact[k].pattern, name); k++)
			if (elf_symbols_place(file, &raw, name, &symbol))
				elf_symbols_offer(search, search->exact[k].index, &symbol);
		for (size_t k = 0; k < search->wilds; k++)
			if (wild_matches(file, &search->wild[k], name) && elf_symbols_place(file, &raw, name, &symbol))
				elf_symbols_offer(search, search->wild[k].index, &symbol);
		if (file->work_bytes > WORK_BYTES_MAX)
			return -EFBIG;
	}
	return 0;
}

static int by_pattern(const void *a, const void *b)
{
	return strcmp(((const struct wanted *)a)->pattern, ((const struct wanted *)b)->pattern);
}

int elf_file_find_all(
	struct elf_file *file, const char *const *patterns, size_t count, struct elf_symbol *ret, bool *found)
{
	_cleanup_free_ struct wanted *wanted = calloc(count + 1, sizeof(*wanted));
	_cleanup_free_ struct elf_symbol *symbol = calloc(count + 1, sizeof(*symbol));
	_cleanup_free_ bool *flags = calloc(2 * count + 1, sizeof(*flags));
	struct elf_table *tables[] = {&file->dynamic, &file->full};
	struct search search = {.exact = wanted, .symbol = symbol, .found = flags, .found_before = flags + count};
	size_t total = 0;

	if (!wanted || !symbol || !flags)
		return -ENOMEM;
	search.wild = wanted + count;
	for (size_t i = 0; i < count; i++) {
		struct wanted w = {patterns[i], i, pattern_literal_bytes(patterns[i])};

		/* Exact ones from the front, wildcards from the back. */
		if (patterns[i][w.literal_bytes]) {
			*--search.wild = w;
			search.wilds++;
		} else {
			search.exact[search.exacts++] = w;
		}
	}
	qsort(search.exact, search.exacts, sizeof(*search.exact), by_pattern);
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		int r = elf_symbols_load(file, tables[t]);

		if (r == 0)
			r = search_table(&search, file, tables[t]);
		if (r < 0)
			return r;
		memcpy(flags + count, flags, count * sizeof(*flags));
	}
	for (size_t i = 0; i < count; i++) {
		found[i] = flags[i];
		if (flags[i])
			ret[i] = symbol[i];
		total += flags[i];
	}
	return (int)total;
}

int elf_file_find(struct elf_file *file, const char *pattern, struct elf_symbol *ret)
{
	bool found;
	int r = elf_file_find_all(file, &pattern, 1, ret, &found);

	return r < 0 ? r : r == 0 ? -ENOENT : 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;

	return ORDER(x->file_offset, y->file_offset);
}

static size_t elf_symbols_collect(
	struct elf_file *file, const struct elf_table *table, const struct wanted *wanted, struct elf_symbol *ret)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < table->count && count < ELF_MATCHES_MAX && file->work_bytes <= WORK_BYTES_MAX; i++) {
		const char *name;
		Elf64_Sym raw;

		if (function_at(table, i, &raw, &name) && wild_matches(file, wanted, name) &&
			elf_symbols_place(file, &raw, name, &ret[count]))
			count++;
	}
	qsort(ret, count, sizeof(*ret), by_offset);
	for (size_t i = 0; i < count; i++)
		if (!kept || ret[kept - 1].file_offset != ret[i].file_offset)
			ret[kept++] = ret[i];
	return kept;
}

int elf_file_find_every(struct elf_file *file, const char *pattern, struct elf_symbol *ret, size_t max)
{
	_cleanup_free_ struct elf_symbol *matches = calloc(ELF_MATCHES_MAX, sizeof(*matches));
	struct elf_table *tables[] = {&file->dynamic, &file->full};
	struct wanted wanted = {pattern, 0, pattern_literal_bytes(pattern)};
	size_t count = 0;

	if (!matches)
		return -ENOMEM;
	for (size_t t = 0; t < ARRAY_SIZE(tables) && !count; t++) {
		int r = elf_symbols_load(file, tables[t]);

		if (r < 0)
			return r;
		count = elf_symbols_collect(file, tables[t], &wanted, matches);
		if (file->work_bytes > WORK_BYTES_MAX)
			return -EFBIG;
	}
	for (size_t i = 0; i < count && i < max; i++)
		ret[i] = matches[i];
	return (int)count;
}
