/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves rows of the tables to sites in a library (site.h). */
#include "daemon/base/log.h"
#include "daemon/probes/accessor.h"
#include "daemon/probes/facts.h"
#include "daemon/probes/site.h"

/* Argument registers as slots of struct pt_regs (x86-64: rdi rsi rdx rcx r8 r9) and of struct user_pt_regs (x0-x7). */
static const uint8_t x86_slots[] = {14, 13, 12, 11, 9, 8};
static const uint8_t arm64_slots[] = {0, 1, 2, 3, 4, 5, 6, 7};

static const struct {
	const uint8_t *slot;
	size_t count;
	bool char_is_signed;
} site_machines[] = {
	[ELF_MACHINE_X86_64] = {x86_slots, ARRAY_SIZE(x86_slots), true},
	[ELF_MACHINE_AARCH64] = {arm64_slots, ARRAY_SIZE(arm64_slots), false},
};

#define STACK_WORDS_MAX (RT_CALL_SLOT_STACK_BASE - RT_CALL_SLOT_STACK)

struct builder {
	const struct attach_engine *engine;
	const struct library *library;
	const struct facts *facts;
	struct sites sites;
};

void sites_free(struct sites *sites)
{
	free(sites->site);
	for (size_t i = 0; i < ARRAY_SIZE(sites->reason); i++)
		free(sites->reason[i]);
	*sites = (struct sites){0};
}

/* Slot of an argument: of its register, or of its word on the stack. */
static int argument_slot(enum elf_machine machine, uint8_t number, uint8_t *ret)
{
	size_t registers = site_machines[machine].count;

	if (number == 0)
		return -ERANGE;
	if (number == RT_CALL_REG_STACK_BASE)
		*ret = RT_CALL_SLOT_STACK_BASE;
	else if (number <= registers)
		*ret = site_machines[machine].slot[number - 1];
	else if (number - registers <= STACK_WORDS_MAX)
		*ret = (uint8_t)(RT_CALL_SLOT_STACK + (number - registers - 1));
	else
		return -ERANGE;
	return 0;
}

/* Adds the accessors' offsets and turns argument numbers into slots; refuses what does not fit the machine. */
static int compile_spec(const struct builder *builder, size_t row, struct rt_call_spec *spec)
{
	const struct probe *probe = &builder->engine->table->probe[row];
	const int32_t *member = builder->facts->row[row].member;
	enum elf_machine machine = builder->facts->machine;
	int r = 0;

	if (spec->symbol_reg)
		r = argument_slot(machine, spec->symbol_reg, &spec->symbol_reg);
	for (unsigned i = 0; i < spec->args && r == 0; i++) {
		struct rt_call_arg *arg = &spec->arg[i];

		if (probe_reads_argument(arg))
			r = argument_slot(machine, arg->reg, &arg->reg);
		if (probe->accessor_of[i])
			arg->offset[arg->hops] += member[probe->accessor_of[i] - 1];
		if (arg->read == RT_READ_HASH)
			arg->is_signed = site_machines[machine].char_is_signed;
	}
	return r;
}

static void site_keep(struct builder *builder, const struct site *site, const struct rt_call_spec *spec)
{
	uint32_t id;
	int r = builder->engine->spec_new(builder->engine->arg, site, spec, &id);

	if (r < 0) {
		log_warning("call", "cannot add probe '%s' in %s: %s; skipping it", site->probe->name,
			builder->library->path, strerror(-r));
		return;
	}
	builder->sites.site[builder->sites.count] = *site;
	builder->sites.site[builder->sites.count++].spec = id;
}

static void site_add_returns(const struct builder *builder, const struct fact_site *fact, struct site *site)
{
	if (site->probe->return_probe) {
		site->return_probe = true;
	} else if (fact->returns < 0) {
		log_warning("call", "cannot find the returns of '%s' in %s: %s; its ends are missing",
			site->probe->name, builder->library->path, strerror(-fact->returns));
	} else {
		site->returns = (uint32_t)fact->returns;
		memcpy(site->return_offset, fact->return_offset, sizeof(site->return_offset));
	}
}

static void site_add_function(struct builder *builder, const struct fact_site *fact)
{
	const struct probe *probe = &builder->engine->table->probe[fact->row];
	struct site site = {.probe = probe, .function_offset = fact->function_offset, .emulated = fact->emulated};
	struct rt_call_spec spec = probe->spec;
	bool returns = spec.flags & RT_CALL_NEEDS_RETURN;

	if (compile_spec(builder, fact->row, &spec) < 0) {
		log_warning("call", "cannot read '%s' in %s; skipping it", probe->name, builder->library->path);
		return;
	}
	if (!(spec.edge == RT_EDGE_END && returns)) /* an end at the return has no entry */
		site.entry_offset = fact->function_offset + fact->entry_delta;
	if (probe->return_probe)
		spec.flags |= RT_CALL_RETURN_PROBE;
	if (returns)
		site_add_returns(builder, fact, &site);
	site_keep(builder, &site, &spec);
}

/* Reader for a USDT operand, if supported. */
static bool operand_reader(const struct usdt_operand *operand, struct rt_call_arg *ret)
{
	*ret = (struct rt_call_arg){.reg = operand->reg,
		.size_bytes = operand->size_bytes,
		.is_signed = operand->is_signed,
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

static void site_add_usdt(struct builder *builder, const struct fact_site *fact)
{
	const struct probe *probe = &builder->engine->table->probe[fact->row];
	struct site site = {.probe = probe,
		.function_offset = fact->function_offset,
		.entry_offset = fact->function_offset,
		.semaphore_offset = fact->semaphore_offset,
		.emulated = true};
	struct rt_call_spec spec = probe->spec;

	for (unsigned i = 0; i < spec.args; i++) {
		unsigned n = probe->usdt_operand[i];

		if (n && (n > fact->operands || !operand_reader(&fact->operand[n - 1], &spec.arg[i]))) {
			log_warning("call", "operand %u of %s:%s in %s is unsupported; it reads as 0", n,
				probe->usdt_provider, probe->usdt_name, builder->library->path);
			spec.arg[i] = (struct rt_call_arg){.read = RT_READ_CONST};
		}
	}
	site_keep(builder, &site, &spec);
}

static void site_describe_row(struct builder *builder, size_t row)
{
	const struct probe *probe = &builder->engine->table->probe[row];
	const struct fact_row *fact = &builder->facts->row[row];

	builder->sites.found[row] = fact->found;
	if (fact->accessor && asprintf(&builder->sites.reason[row], "%s %s", probe->accessor[fact->accessor - 1],
				      accessor_reason(fact->error)) < 0)
		builder->sites.reason[row] = NULL;
	if (fact->matches > FACTS_OVERLOADS_MAX)
		log_warning("call", "'%s' matches %u functions in %s; probing the first %d", probe->name, fact->matches,
			builder->library->path, FACTS_OVERLOADS_MAX);
}

static int sites_build(
	const struct attach_engine *engine, const struct library *library, const struct facts *facts, struct sites *ret)
{
	struct builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return -ENOMEM;
	*builder = (struct builder){.engine = engine, .library = library, .facts = facts};
	builder->sites.site = calloc(FACTS_SITES_MAX, sizeof(struct site));
	if (!builder->sites.site) {
		free(builder);
		return -ENOMEM;
	}
	for (size_t i = 0; i < facts->rows; i++)
		site_describe_row(builder, i);
	if (facts->left_out)
		log_warning("call", "%u functions of %s are not probed: more than %d, or their code is unreadable",
			facts->left_out, library->path, FACTS_SITES_MAX);
	for (size_t i = 0; i < facts->sites; i++)
		(facts->site[i].is_usdt ? site_add_usdt : site_add_function)(builder, &facts->site[i]);
	*ret = builder->sites;
	free(builder);
	return 0;
}

int sites_find(const struct attach_engine *engine, const struct library *library, struct sites *ret)
{
	_cleanup_(facts_free) struct facts own = {0};
	int r;

	if (library->facts_error)
		return library->facts_error;
	if (library->facts)
		return sites_build(engine, library, library->facts, ret);
	r = facts_find(library->fd, library->base_name, engine->table->probe, engine->table->count, &own);
	return r < 0 ? r : sites_build(engine, library, &own, ret);
}
