/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves rows of the tables to sites in a library (site.h). */
#include "daemon/base/log.h"
#include "daemon/probes/accessor.h"
#include "daemon/probes/site.h"
#include "daemon/probes/prologue.h"

/* Argument registers as slots of struct pt_regs (x86-64: rdi rsi rdx rcx r8 r9) and of struct user_pt_regs (x0-x7). */
static const uint8_t x86_slots[] = {14, 13, 12, 11, 9, 8};
static const uint8_t arm64_slots[] = {0, 1, 2, 3, 4, 5, 6, 7};

static const struct {
	const uint8_t *slot;
	size_t count;
	bool char_is_signed;
} machines[] = {
	[ELF_MACHINE_X86_64] = {x86_slots, ARRAY_SIZE(x86_slots), true},
	[ELF_MACHINE_AARCH64] = {arm64_slots, ARRAY_SIZE(arm64_slots), false},
};

#define STACK_WORDS_MAX (RT_CALL_SLOT_STACK_BASE - RT_CALL_SLOT_STACK)

#define OVERLOADS_MAX 16 /* sites of one row with symbols_all */
#define ANSWERS_MAX 64	 /* cached accessor answers per library: many rows use the same few */

struct accessor_answer {
	const char *name;
	bool is_part;
	int error;
	int32_t offset;
};

struct finder {
	const struct attach_engine *engine;
	const struct library *library;
	struct elf_file *file;
	struct sites sites;
	struct elf_symbol symbol[PROBES_MAX][PROBE_PATTERNS_MAX];
	bool symbol_found[PROBES_MAX][PROBE_PATTERNS_MAX];
	int32_t member[PROBES_MAX][PROBE_ACCESSORS_MAX]; /* offsets found by the row's accessors */
	unsigned answers;
	struct accessor_answer answer[ANSWERS_MAX];
};

static void site_elf_file_closep(struct elf_file **file)
{
	elf_file_close(*file);
}

void sites_free(struct sites *sites)
{
	free(sites->site);
	for (size_t i = 0; i < ARRAY_SIZE(sites->reason); i++)
		free(sites->reason[i]);
	*sites = (struct sites){0};
}

/* Does the reader start from an argument, not from a USDT operand? */
static bool reads_argument(const struct rt_call_arg *arg)
{
	return arg->read != RT_READ_FRAME && arg->read != RT_READ_CONST;
}

/* Slot of an argument: of its register, or of its word on the stack. */
static int argument_slot(enum elf_machine machine, uint8_t number, uint8_t *ret)
{
	size_t registers = machines[machine].count;

	if (number == 0)
		return -ERANGE;
	if (number == RT_CALL_REG_STACK_BASE)
		*ret = RT_CALL_SLOT_STACK_BASE;
	else if (number <= registers)
		*ret = machines[machine].slot[number - 1];
	else if (number - registers <= STACK_WORDS_MAX)
		*ret = (uint8_t)(RT_CALL_SLOT_STACK + (number - registers - 1));
	else
		return -ERANGE;
	return 0;
}

/* Adds the accessors' offsets and turns argument numbers into slots; refuses what does not fit the machine. */
static int compile_spec(const struct finder *finder, const struct probe *probe, struct rt_call_spec *spec)
{
	const int32_t *member = finder->member[probe - finder->engine->table->probe];
	enum elf_machine machine = elf_file_machine(finder->file);
	int r = 0;

	if (spec->symbol_reg)
		r = argument_slot(machine, spec->symbol_reg, &spec->symbol_reg);
	for (unsigned i = 0; i < spec->args && r == 0; i++) {
		struct rt_call_arg *arg = &spec->arg[i];

		if (reads_argument(arg))
			r = argument_slot(machine, arg->reg, &arg->reg);
		if (probe->accessor_of[i])
			arg->offset[arg->hops] += member[probe->accessor_of[i] - 1];
		if (arg->read == RT_READ_HASH)
			arg->is_signed = machines[machine].char_is_signed;
	}
	return r;
}

static void need_argument(enum elf_machine machine, uint8_t number, struct prologue_need *need)
{
	if (number && number <= machines[machine].count)
		need->arg_regs |= 1u << (number - 1);
	else if (number)
		need->entry_stack = true;
}

static struct prologue_need needs(enum elf_machine machine, const struct probe *probe)
{
	const struct rt_call_spec *spec = &probe->spec;
	/* If entry and return are paired, the stack pointer identifies the call. */
	struct prologue_need need = {.entry_stack = spec->edge == RT_EDGE_CALL || spec->edge == RT_EDGE_SPAN};

	need_argument(machine, spec->symbol_reg, &need);
	for (unsigned i = 0; i < spec->args; i++)
		if (reads_argument(&spec->arg[i]))
			need_argument(machine, spec->arg[i].reg, &need);
	return need;
}

static struct site *site_new(struct finder *finder, const struct probe *probe)
{
	struct site *site;

	if (finder->sites.count >= SITES_MAX) {
		log_warning("call", "more than %d probes in %s; skipping '%s'", SITES_MAX, finder->library->path,
			probe->name);
		return NULL;
	}
	site = &finder->sites.site[finder->sites.count];
	*site = (struct site){.probe = probe};
	return site;
}

static void site_keep(struct finder *finder, const struct site *site, const struct rt_call_spec *spec)
{
	uint32_t id;
	int r = finder->engine->spec_new(finder->engine->arg, site, spec, &id);

	if (r < 0) {
		log_warning("call", "cannot add probe '%s' in %s: %s; skipping it", site->probe->name,
			finder->library->path, strerror(-r));
		return;
	}
	finder->sites.site[finder->sites.count++].spec = id;
}

static int site_find_returns(struct finder *finder, const struct elf_symbol *symbol, struct site *site)
{
	_cleanup_free_ uint8_t *code = NULL;
	uint32_t offset[RETURNS_MAX];
	int r;

	if (site->probe->return_probe) {
		site->return_probe = true;
		return 0;
	}
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
	r = returns_find(elf_file_machine(finder->file), code, symbol->size_bytes, offset, RETURNS_MAX);
	if (r < 0)
		return r;
	for (int i = 0; i < r; i++)
		site->return_offset[i] = symbol->file_offset + offset[i];
	site->returns = (uint32_t)r;
	return 0;
}

static void site_add_function(struct finder *finder, const struct probe *probe, const struct elf_symbol *symbol)
{
	struct rt_call_spec spec = probe->spec;
	struct prologue_need need = needs(elf_file_machine(finder->file), probe);
	struct prologue_choice choice = {0};
	uint8_t code[PROLOGUE_BYTES_MAX];
	struct site *site = site_new(finder, probe);
	bool returns = spec.flags & RT_CALL_NEEDS_RETURN;
	int r;

	if (!site)
		return;
	site->function_offset = symbol->file_offset;
	r = elf_file_bytes(finder->file, symbol->file_offset, code, sizeof(code));
	if (r < 0 || compile_spec(finder, probe, &spec) < 0) {
		log_warning("call", "cannot read '%s' in %s; skipping it", probe->name, finder->library->path);
		return;
	}
	if (symbol->size_bytes && (uint64_t)r > symbol->size_bytes)
		r = (int)symbol->size_bytes;
	prologue_choose(elf_file_machine(finder->file), code, (size_t)r, &need, &choice);
	site->emulated = choice.emulated;
	if (!(spec.edge == RT_EDGE_END && returns)) /* an end at the return has no entry */
		site->entry_offset = symbol->file_offset + choice.offset_bytes;
	if (site->probe->return_probe)
		spec.flags |= RT_CALL_RETURN_PROBE;
	if (returns) {
		r = site_find_returns(finder, symbol, site);
		if (r < 0) {
			log_warning("call", "cannot find the returns of '%s' in %s: %s; its ends are missing",
				probe->name, finder->library->path, strerror(-r));
		}
	}
	site_keep(finder, site, &spec);
}

/* Reader for a USDT operand, if supported. */
static bool operand_reader(const struct usdt_operand *operand, struct rt_call_arg *ret)
{
	*ret = (struct rt_call_arg){
		.reg = operand->reg, .size_bytes = operand->size_bytes, .is_signed = operand->is_signed,
		.offset = {(int32_t)operand->offset}};
	if (operand->offset != (int32_t)operand->offset)
		return false;
	if (operand->where == USDT_REG)
		ret->read = RT_READ_FRAME;
	else if (operand->where == USDT_DEREF)
		ret->read = RT_READ_DEREF;
	else if (operand->where == USDT_CONST)
		ret->read = RT_READ_CONST;
	else
		return false;
	return true;
}

static void site_add_usdt(struct finder *finder, const struct probe *probe, const struct usdt_site *usdt)
{
	struct rt_call_spec spec = probe->spec;
	struct site *site = site_new(finder, probe);

	if (!site)
		return;
	for (unsigned i = 0; i < spec.args; i++) {
		unsigned n = probe->usdt_operand[i];

		if (n && (n > usdt->operands || !operand_reader(&usdt->operand[n - 1], &spec.arg[i]))) {
			log_warning("call", "operand %u of %s:%s in %s is unsupported; it reads as 0", n,
				probe->usdt_provider, probe->usdt_name, finder->library->path);
			spec.arg[i] = (struct rt_call_arg){.read = RT_READ_CONST};
		}
	}
	site->function_offset = site->entry_offset = usdt->file_offset;
	site->semaphore_offset = usdt->semaphore_offset;
	site->emulated = true; /* a nop by definition */
	site_keep(finder, site, &spec);
}

static int find_usdt(struct finder *finder, const struct probe *probe, struct usdt_site *ret, size_t max)
{
	int count = elf_file_usdt(finder->file, probe->usdt_provider, probe->usdt_name, ret, max);

	return count > (int)max ? (int)max : count;
}

static struct accessor_answer ask_accessor(struct finder *finder, const char *name, bool is_part)
{
	struct accessor_answer answer = {.name = name, .is_part = is_part};
	struct accessor accessor = {0};

	for (unsigned i = 0; i < finder->answers; i++)
		if (streq(finder->answer[i].name, name) && finder->answer[i].is_part == is_part)
			return finder->answer[i];
	answer.error = is_part ? accessor_find_part(finder->file, name, &accessor) : accessor_find(finder->file, name, &accessor);
	answer.offset = accessor.offset;
	if (finder->answers < ANSWERS_MAX)
		finder->answer[finder->answers++] = answer;
	return answer;
}

/* Resolves the row's accessors. Without an answer the row is unusable: it would read arbitrary memory. */
static void site_find_members(struct finder *finder, size_t row)
{
	const struct probe *probe = &finder->engine->table->probe[row];

	for (unsigned i = 0; i < probe->accessors; i++) {
		struct accessor_answer answer = ask_accessor(finder, probe->accessor[i], probe->accessor_is_part[i]);

		finder->member[row][i] = answer.offset;
		if (answer.error == 0)
			continue;
		finder->sites.found[row] = false;
		if (asprintf(&finder->sites.reason[row], "%s %s", probe->accessor[i], accessor_reason(answer.error)) <
			0)
			finder->sites.reason[row] = NULL;
		return;
	}
}

/* Symbols of all rows in one pass over the symbol tables. */
static int find_rows(struct finder *finder)
{
	const struct probe_table *table = finder->engine->table;
	size_t max = table->count * PROBE_PATTERNS_MAX;
	_cleanup_free_ const char **pattern = calloc(max, sizeof(*pattern));
	_cleanup_free_ struct elf_symbol *symbol = calloc(max, sizeof(*symbol));
	_cleanup_free_ bool *found = calloc(max, sizeof(*found));
	struct usdt_site usdt;
	size_t count = 0;
	int r;

	if (!pattern || !symbol || !found)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++)
		for (unsigned k = 0; k < table->probe[i].symbols && probe_matches_library(&table->probe[i], finder->library->base_name); k++)
			pattern[count++] = table->probe[i].symbol[k];
	r = elf_file_find_all(finder->file, pattern, count, symbol, found);
	if (r < 0)
		return r;
	count = 0;
	for (size_t i = 0; i < table->count; i++) {
		const struct probe *probe = &table->probe[i];

		if (!probe_matches_library(probe, finder->library->base_name))
			continue;
		for (unsigned k = 0; k < probe->symbols; k++, count++) {
			finder->symbol[i][k] = symbol[count];
			finder->symbol_found[i][k] = found[count];
			finder->sites.found[i] |= found[count];
		}
		if (probe->usdt_provider[0])
			finder->sites.found[i] = find_usdt(finder, probe, &usdt, 1) > 0;
		if (finder->sites.found[i])
			site_find_members(finder, i);
	}
	return 0;
}

static void site_add_every(struct finder *finder, const struct probe *probe)
{
	struct elf_symbol symbol[OVERLOADS_MAX];

	for (unsigned k = 0; k < probe->symbols; k++) {
		int count = elf_file_find_every(finder->file, probe->symbol[k], symbol, ARRAY_SIZE(symbol));

		if (count > (int)ARRAY_SIZE(symbol)) {
			log_warning("call", "'%s' matches %d functions in %s; probing the first %zu", probe->name, count,
				    finder->library->path, ARRAY_SIZE(symbol));
			count = ARRAY_SIZE(symbol);
		}
		for (int i = 0; i < count; i++)
			site_add_function(finder, probe, &symbol[i]);
	}
}

static void site_add_first(struct finder *finder, size_t i)
{
	const struct probe *probe = &finder->engine->table->probe[i];

	for (unsigned k = 0; k < probe->symbols; k++) {
		if (finder->symbol_found[i][k]) {
			site_add_function(finder, probe, &finder->symbol[i][k]);
			return;
		}
	}
}

static void site_add_row(struct finder *finder, size_t i)
{
	const struct probe *probe = &finder->engine->table->probe[i];
	struct usdt_site usdt[8];
	int usdts;

	if (probe->usdt_provider[0]) {
		usdts = find_usdt(finder, probe, usdt, ARRAY_SIZE(usdt));
		for (int k = 0; k < usdts; k++)
			site_add_usdt(finder, probe, &usdt[k]);
	} else if (probe->symbols_all) {
		site_add_every(finder, probe);
	} else {
		site_add_first(finder, i);
	}
}

int sites_find(const struct attach_engine *engine, const struct library *library, struct sites *ret)
{
	_cleanup_free_ struct finder *finder = calloc(1, sizeof(*finder));
	_cleanup_(site_elf_file_closep) struct elf_file *file = NULL;
	int r;

	if (!finder)
		return -ENOMEM;
	r = elf_file_open(library->fd, &file);
	if (r < 0)
		return r;
	finder->engine = engine;
	finder->library = library;
	finder->file = file;
	finder->sites.site = calloc(SITES_MAX, sizeof(struct site));
	if (!finder->sites.site)
		return -ENOMEM;
	r = find_rows(finder);
	if (r < 0) {
		sites_free(&finder->sites);
		return r;
	}
	for (size_t i = 0; i < engine->table->count; i++)
		if (finder->sites.found[i])
			site_add_row(finder, i);
	*ret = finder->sites;
	return 0;
}
