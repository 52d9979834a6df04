/* SPDX-License-Identifier: Apache-2.0 */
/* Finds facts (facts.h) in a file. Runs in a worker. */
#include "bpf/memory.h"
#include "daemon/probes/facts.h"
#include "daemon/probes/accessor.h"
#include "daemon/probes/prologue.h"

#define ANSWERS_MAX 64 /* cached accessor answers: many rows use the same few */
#define USDT_SITES_MAX 8

struct accessor_answer {
	const char *name;
	bool is_part;
	int error;
	int32_t offset;
};

struct finder {
	struct elf_file *file;
	const char *base_name;
	const struct probe *probe;
	size_t count;
	struct facts facts;
	struct elf_symbol (*symbol)[PROBE_PATTERNS_MAX]; /* by row */
	bool (*symbol_found)[PROBE_PATTERNS_MAX];
	unsigned answers;
	struct accessor_answer answer[ANSWERS_MAX];
};

static void finder_clear(struct finder *finder)
{
	facts_free(&finder->facts);
	free(finder->symbol);
	free(finder->symbol_found);
}

void facts_free(struct facts *facts)
{
	free(facts->row);
	free(facts->site);
	*facts = (struct facts){0};
}

/* Of the calling conventions. */
static const uint8_t argument_registers[] = {[ELF_MACHINE_X86_64] = 6, [ELF_MACHINE_AARCH64] = 8};

static void need_argument(enum elf_machine machine, uint8_t number, struct prologue_need *need)
{
	if (number && number <= argument_registers[machine])
		need->arg_regs |= 1u << (number - 1);
	else if (number)
		need->entry_stack = true;
}

static struct prologue_need facts_needs(enum elf_machine machine, const struct probe *probe)
{
	const struct rt_call_spec *spec = &probe->spec;
	/* If entry and return are paired, the stack pointer identifies the call. */
	struct prologue_need need = {.entry_stack = spec->edge == RT_EDGE_CALL || spec->edge == RT_EDGE_SPAN};

	if (spec->edge >= RT_EDGE_MEMORY)
		need.arg_regs = RT_MEMORY_ARGUMENTS;
	need_argument(machine, spec->symbol_reg, &need);
	for (unsigned i = 0; i < spec->args; i++)
		if (probe_reads_argument(&spec->arg[i]))
			need_argument(machine, spec->arg[i].reg, &need);
	return need;
}

static bool is_asked(const struct finder *finder, size_t row)
{
	return probe_matches_library(&finder->probe[row], finder->base_name);
}

static struct fact_site *facts_add(struct finder *finder, size_t row)
{
	struct facts *facts = &finder->facts;

	if (facts->sites >= FACTS_SITES_MAX) {
		facts->left_out++;
		return NULL;
	}
	facts->site[facts->sites] = (struct fact_site){.row = (uint32_t)row};
	return &facts->site[facts->sites++];
}

static int facts_find_returns(struct finder *finder, const struct elf_symbol *symbol, struct fact_site *site)
{
	_cleanup_free_ uint8_t *code = NULL;
	uint32_t offset[RETURNS_MAX];
	int r;

	if (symbol->size_bytes == 0 || symbol->size_bytes > RETURNS_FUNCTION_BYTES_MAX)
		return -E2BIG;
	code = malloc(symbol->size_bytes);
	if (!code)
		return -ENOMEM;
	r = elf_file_bytes(finder->file, symbol->file_offset, code, symbol->size_bytes);
	if (r < 0)
		return r;
	if ((uint64_t)r < symbol->size_bytes)
		return -ENODATA;
	r = returns_find(finder->facts.machine, code, symbol->size_bytes, offset, RETURNS_MAX);
	for (int i = 0; i < r; i++)
		site->return_offset[i] = symbol->file_offset + offset[i];
	return r;
}

static void facts_add_function(struct finder *finder, size_t row, const struct elf_symbol *symbol)
{
	const struct probe *probe = &finder->probe[row];
	struct prologue_need need = facts_needs(finder->facts.machine, probe);
	struct prologue_choice choice = {0};
	uint8_t code[PROLOGUE_BYTES_MAX];
	struct fact_site *site;
	int r = elf_file_bytes(finder->file, symbol->file_offset, code, sizeof(code));

	if (r < 0) {
		finder->facts.left_out++;
		return;
	}
	site = facts_add(finder, row);
	if (!site)
		return;
	if (symbol->size_bytes && (uint64_t)r > symbol->size_bytes)
		r = (int)symbol->size_bytes;
	prologue_choose(finder->facts.machine, code, (size_t)r, &need, &choice);
	site->function_offset = symbol->file_offset;
	site->entry_delta = choice.offset_bytes;
	site->emulated = choice.emulated;
	if (probe->spec.flags & RT_CALL_NEEDS_RETURN && !probe->return_probe)
		site->returns = facts_find_returns(finder, symbol, site);
}

static int find_usdt(struct finder *finder, const struct probe *probe, struct usdt_site *ret, size_t max)
{
	int count = elf_file_usdt(finder->file, probe->usdt_provider, probe->usdt_name, ret, max);

	return count > (int)max ? (int)max : count;
}

static void facts_add_usdt(struct finder *finder, size_t row)
{
	struct usdt_site usdt[USDT_SITES_MAX];
	int count = find_usdt(finder, &finder->probe[row], usdt, ARRAY_SIZE(usdt));

	for (int i = 0; i < count; i++) {
		struct fact_site *site = facts_add(finder, row);

		if (!site)
			return;
		site->is_usdt = true;
		site->emulated = true; /* a nop by definition */
		site->function_offset = usdt[i].file_offset;
		site->semaphore_offset = usdt[i].semaphore_offset;
		site->operands = usdt[i].operands;
		memcpy(site->operand, usdt[i].operand, sizeof(site->operand));
	}
}

static struct accessor_answer ask_accessor(struct finder *finder, const char *name, bool is_part)
{
	struct accessor_answer answer = {.name = name, .is_part = is_part};
	struct accessor accessor = {0};

	for (unsigned i = 0; i < finder->answers; i++)
		if (streq(finder->answer[i].name, name) && finder->answer[i].is_part == is_part)
			return finder->answer[i];
	answer.error = is_part ? accessor_find_part(finder->file, name, &accessor)
			       : accessor_find(finder->file, name, &accessor);
	answer.offset = accessor.offset;
	if (finder->answers < ANSWERS_MAX)
		finder->answer[finder->answers++] = answer;
	return answer;
}

/* Resolves the row's accessors. Without an answer the row is unusable: it would read arbitrary memory. */
static void facts_find_members(struct finder *finder, size_t row)
{
	const struct probe *probe = &finder->probe[row];
	struct fact_row *fact = &finder->facts.row[row];

	for (unsigned i = 0; i < probe->accessors; i++) {
		struct accessor_answer answer = ask_accessor(finder, probe->accessor[i], probe->accessor_is_part[i]);

		fact->member[i] = answer.offset;
		if (answer.error == 0)
			continue;
		*fact = (struct fact_row){.accessor = (uint8_t)(i + 1), .error = answer.error};
		return;
	}
}

/* Symbols of all rows in one pass over the symbol tables. */
static int facts_find_rows(struct finder *finder)
{
	size_t max = finder->count * PROBE_PATTERNS_MAX + 1, count = 0;
	_cleanup_free_ const char **pattern = calloc(max, sizeof(*pattern));
	_cleanup_free_ struct elf_symbol *symbol = calloc(max, sizeof(*symbol));
	_cleanup_free_ bool *found = calloc(max, sizeof(*found));
	struct usdt_site usdt;
	int r;

	if (!pattern || !symbol || !found)
		return -ENOMEM;
	for (size_t i = 0; i < finder->count; i++)
		for (unsigned k = 0; k < finder->probe[i].symbols && is_asked(finder, i); k++)
			pattern[count++] = finder->probe[i].symbol[k];
	r = elf_file_find_all(finder->file, pattern, count, symbol, found);
	if (r < 0)
		return r;
	count = 0;
	for (size_t i = 0; i < finder->count; i++) {
		const struct probe *probe = &finder->probe[i];
		struct fact_row *fact = &finder->facts.row[i];

		if (!is_asked(finder, i))
			continue;
		for (unsigned k = 0; k < probe->symbols; k++, count++) {
			finder->symbol[i][k] = symbol[count];
			finder->symbol_found[i][k] = found[count];
			fact->found |= found[count];
		}
		if (probe->usdt_provider[0])
			fact->found = find_usdt(finder, probe, &usdt, 1) > 0;
		if (fact->found)
			facts_find_members(finder, i);
	}
	return 0;
}

static void facts_add_every(struct finder *finder, size_t row)
{
	const struct probe *probe = &finder->probe[row];
	struct elf_symbol symbol[FACTS_OVERLOADS_MAX];

	for (unsigned k = 0; k < probe->symbols; k++) {
		int count = elf_file_find_every(finder->file, probe->symbol[k], symbol, ARRAY_SIZE(symbol));

		if (count > (int)finder->facts.row[row].matches)
			finder->facts.row[row].matches = (uint32_t)count;
		for (int i = 0; i < count && i < FACTS_OVERLOADS_MAX; i++)
			facts_add_function(finder, row, &symbol[i]);
	}
}

static void facts_add_row(struct finder *finder, size_t row)
{
	const struct probe *probe = &finder->probe[row];

	if (probe->usdt_provider[0]) {
		facts_add_usdt(finder, row);
	} else if (probe->symbols_all) {
		facts_add_every(finder, row);
	} else {
		for (unsigned k = 0; k < probe->symbols; k++) {
			if (finder->symbol_found[row][k]) {
				facts_add_function(finder, row, &finder->symbol[row][k]);
				return;
			}
		}
	}
}

int facts_find(int fd, const char *base_name, const struct probe *probe, size_t count, struct facts *ret)
{
	_cleanup_(finder_clear) struct finder finder = {.base_name = base_name, .probe = probe, .count = count};
	_cleanup_(elf_file_closep) struct elf_file *file = NULL;
	int r = elf_file_open(fd, &file);

	if (r < 0)
		return r;
	finder.file = file;
	finder.facts.machine = elf_file_machine(file);
	finder.facts.rows = count;
	finder.facts.row = calloc(count + 1, sizeof(*finder.facts.row));
	finder.facts.site = calloc(FACTS_SITES_MAX, sizeof(*finder.facts.site));
	finder.symbol = calloc(count + 1, sizeof(*finder.symbol));
	finder.symbol_found = calloc(count + 1, sizeof(*finder.symbol_found));
	if (!finder.facts.row || !finder.facts.site || !finder.symbol || !finder.symbol_found)
		return -ENOMEM;
	r = facts_find_rows(&finder);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (finder.facts.row[i].found)
			facts_add_row(&finder, i);
	*ret = finder.facts;
	finder.facts = (struct facts){0};
	return 0;
}
