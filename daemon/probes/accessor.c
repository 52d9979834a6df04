/* SPDX-License-Identifier: Apache-2.0 */
/* Follows an accessor's code until no branch adds knowledge (accessor.h). */
#include "daemon/probes/accessor_private.h"

#define STEPS_MAX 65536

static const struct accessor_machine *const machines[] = {
	[ELF_MACHINE_X86_64] = &accessor_x86,
	[ELF_MACHINE_AARCH64] = &accessor_arm64,
};

/* State of the walk. Arrays are indexed by instruction offset. */
struct walk {
	const struct accessor_machine *machine;
	enum value_kind kind; /* VALUE_MEMBER or VALUE_INNER */
	csh handle;
	cs_insn *insn;
	const uint8_t *code;
	size_t size_bytes;
	struct flow **before; /* known before the instruction; NULL: not reached */
	uint32_t *waiting;    /* offsets to follow */
	size_t waits;
	bool *is_waiting;
	unsigned steps;
};

static bool accessor_is_same(struct value a, struct value b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

struct value value_meet(struct value a, struct value b)
{
	if (accessor_is_same(a, b))
		return a;
	/* An accessor returns a constant if there is no object: not an answer. */
	if (a.kind == VALUE_CONST && b.kind == VALUE_MEMBER)
		return b;
	if (a.kind == VALUE_MEMBER && b.kind == VALUE_CONST)
		return a;
	return (struct value){0};
}

struct value flow_get(const struct flow *flow, unsigned reg)
{
	return reg < FLOW_REGS ? flow->reg[reg] : (struct value){0};
}

void flow_set(struct flow *flow, unsigned reg, struct value value)
{
	if (reg < FLOW_REGS)
		flow->reg[reg] = value;
}

struct value flow_load(const struct flow *flow, struct value address, unsigned size_bytes)
{
	if (address.kind == VALUE_ARG && address.arg == 1 && size_bytes <= 8)
		return (struct value){
			.kind = VALUE_MEMBER, .size_bytes = (uint8_t)size_bytes, .offset = address.offset};
	if (address.kind == VALUE_PART && size_bytes <= 8)
		return (struct value){.kind = VALUE_INNER, .size_bytes = (uint8_t)size_bytes, .offset = address.offset};
	for (unsigned i = 0; address.kind == VALUE_STACK && i < flow->slots; i++)
		if (flow->slot[i].offset == address.offset && !flow->slot[i].escaped &&
			flow->slot[i].size_bytes == size_bytes)
			return flow->slot[i].value;
	return (struct value){0};
}

/* Forgets slots that overlap the written bytes. */
static void accessor_overwrite(struct flow *flow, int32_t offset, unsigned size_bytes)
{
	for (unsigned i = 0; i < flow->slots; i++) {
		struct slot *slot = &flow->slot[i];

		if (slot->offset < (int64_t)offset + size_bytes && (int64_t)slot->offset + slot->size_bytes > offset)
			slot->value = (struct value){0};
	}
}

static struct slot *flow_find_slot(struct flow *flow, int32_t offset)
{
	for (unsigned i = 0; i < flow->slots; i++)
		if (flow->slot[i].offset == offset)
			return &flow->slot[i];
	if (flow->slots == FLOW_SLOTS)
		return NULL;
	flow->slot[flow->slots] = (struct slot){.offset = offset};
	return &flow->slot[flow->slots++];
}

void flow_store(struct flow *flow, struct value address, unsigned size_bytes, struct value value, struct step *step)
{
	struct slot *slot;

	if (address.kind == VALUE_ARG && address.arg == 2 && address.offset == 0) {
		step->has_store = true;
		step->stored = value;
	}
	if (address.kind != VALUE_STACK)
		return;
	accessor_overwrite(flow, address.offset, size_bytes);
	/* Half an address is unknown. */
	if (size_bytes != 8 && (size_bytes != 4 || (value.kind != VALUE_MEMBER && value.kind != VALUE_CONST)))
		return;
	slot = value.kind == VALUE_UNKNOWN ? NULL : flow_find_slot(flow, address.offset);
	if (slot) {
		slot->value = value;
		slot->size_bytes = (uint8_t)size_bytes;
	}
}

void flow_escape(struct flow *flow, struct value address)
{
	struct slot *slot = address.kind == VALUE_STACK ? flow_find_slot(flow, address.offset) : NULL;

	if (slot)
		slot->escaped = true;
}

static const struct slot *slot_at(const struct flow *flow, int32_t offset)
{
	for (unsigned i = 0; i < flow->slots; i++)
		if (flow->slot[i].offset == offset)
			return &flow->slot[i];
	return NULL;
}

/* Intersects the known state with that of this path. Returns whether it shrank. */
static bool accessor_meet(struct flow *known, const struct flow *also)
{
	bool changed = false;

	for (unsigned i = 0; i < FLOW_REGS; i++) {
		struct value value = value_meet(known->reg[i], also->reg[i]);

		changed |= !accessor_is_same(value, known->reg[i]);
		known->reg[i] = value;
	}
	for (unsigned i = 0; i < known->slots; i++) {
		struct slot *slot = &known->slot[i];
		const struct slot *other = slot_at(also, slot->offset);
		bool fits = other && other->size_bytes == slot->size_bytes;
		struct value value = value_meet(slot->value, fits ? other->value : (struct value){0});
		bool escaped = slot->escaped || (other && other->escaped);

		changed |= !accessor_is_same(value, slot->value) || escaped != slot->escaped;
		slot->value = value;
		slot->escaped = escaped;
	}
	for (unsigned i = 0; i < also->slots; i++) {
		if (!also->slot[i].escaped || slot_at(known, also->slot[i].offset))
			continue;
		flow_escape(known, (struct value){.kind = VALUE_STACK, .offset = also->slot[i].offset});
		changed |= slot_at(known, also->slot[i].offset) != NULL;
	}
	return changed;
}

static int accessor_reach(struct walk *walk, uint64_t offset, const struct flow *flow)
{
	if (offset >= walk->size_bytes)
		return 0; /* outside the function */
	if (walk->before[offset]) {
		if (!accessor_meet(walk->before[offset], flow))
			return 0;
	} else {
		walk->before[offset] = malloc(sizeof(*flow));
		if (!walk->before[offset])
			return -ENOMEM;
		*walk->before[offset] = *flow;
	}
	if (!walk->is_waiting[offset]) {
		walk->is_waiting[offset] = true;
		walk->waiting[walk->waits++] = (uint32_t)offset;
	}
	return 0;
}

static int accessor_decode(struct walk *walk, uint32_t offset)
{
	const uint8_t *code = walk->code + offset;
	size_t left = walk->size_bytes - offset;
	uint64_t address = offset;

	return cs_disasm_iter(walk->handle, &code, &left, &address, walk->insn) ? 0 : -EILSEQ;
}

static int accessor_follow(struct walk *walk)
{
	while (walk->waits) {
		uint32_t offset = walk->waiting[--walk->waits];
		struct flow flow = *walk->before[offset];
		struct step step = {0};
		int r = accessor_decode(walk, offset);

		walk->is_waiting[offset] = false;
		if (r < 0)
			return r;
		if (++walk->steps > STEPS_MAX)
			return -E2BIG;
		walk->machine->step(walk->handle, walk->insn, &flow, &step);
		if (step.has_target)
			r = accessor_reach(walk, step.target, &flow);
		if (r == 0 && !step.leaves && !step.returns)
			r = accessor_reach(walk, (uint64_t)offset + walk->insn->size, &flow);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Answers of one form. */
struct answers {
	enum value_kind kind; /* searched for */
	bool any, unclear;
	struct value member;
};

static void probes_accessor_answer(struct answers *answers, struct value value)
{
	if (value.kind == VALUE_CONST)
		return;
	if (value.kind != answers->kind || (answers->any && !accessor_is_same(answers->member, value)))
		answers->unclear = true;
	else
		answers->member = value;
	answers->any |= value.kind == answers->kind;
}

static int accessor_conclude(struct walk *walk, struct accessor *ret)
{
	struct answers returned = {.kind = walk->kind}, stored = {.kind = walk->kind}, *best;

	for (uint32_t offset = 0; offset < walk->size_bytes; offset++) {
		struct step step = {0};
		struct flow flow;

		if (!walk->before[offset] || accessor_decode(walk, offset) < 0)
			continue;
		flow = *walk->before[offset];
		walk->machine->step(walk->handle, walk->insn, &flow, &step);
		if (step.has_store)
			probes_accessor_answer(&stored, step.stored);
		/*
		 * A tail jump returns what its target returns; for a part, the target is the part's own accessor, with
		 * another layout.
		 */
		if (step.returns)
			probes_accessor_answer(&returned, flow_get(&flow, walk->machine->result_reg));
		else if (step.has_target && step.leaves && step.target >= walk->size_bytes &&
			 walk->kind == VALUE_MEMBER)
			probes_accessor_answer(&returned, (struct value){0});
	}
	best = stored.any ? &stored : &returned;
	if (!best->any)
		return -ENOENT;
	if (best->unclear || (stored.any && returned.any))
		return -ENOTUNIQ;
	*ret = (struct accessor){best->member.offset, best->member.size_bytes};
	return 0;
}

static void walk_close(struct walk *walk)
{
	for (size_t i = 0; walk->before && i < walk->size_bytes; i++)
		free(walk->before[i]);
	free(walk->before);
	free(walk->waiting);
	free(walk->is_waiting);
	if (walk->insn)
		cs_free(walk->insn, 1);
	if (walk->handle)
		cs_close(&walk->handle);
}

static int walk_open(struct walk *walk)
{
	walk->before = calloc(walk->size_bytes, sizeof(*walk->before));
	walk->waiting = calloc(walk->size_bytes, sizeof(*walk->waiting));
	walk->is_waiting = calloc(walk->size_bytes, sizeof(*walk->is_waiting));
	if (!walk->before || !walk->waiting || !walk->is_waiting)
		return -ENOMEM;
	if (cs_open(walk->machine->arch, walk->machine->mode, &walk->handle) != CS_ERR_OK)
		return -ENOTSUP;
	if (cs_option(walk->handle, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
		return -ENOTSUP;
	walk->insn = cs_malloc(walk->handle);
	return walk->insn ? 0 : -ENOMEM;
}

static int read_code(
	enum elf_machine machine, enum value_kind kind, const uint8_t *code, size_t size_bytes, struct accessor *ret)
{
	_cleanup_(walk_close) struct walk walk = {
		.machine = machines[machine], .kind = kind, .code = code, .size_bytes = size_bytes};
	struct flow entry = {0};
	int r;

	if (size_bytes == 0 || size_bytes > ACCESSOR_CODE_BYTES_MAX)
		return -E2BIG;
	r = walk_open(&walk);
	if (r < 0)
		return r;
	entry.reg[walk.machine->stack_reg] = (struct value){.kind = VALUE_STACK};
	for (uint8_t i = 0; i < 2; i++)
		entry.reg[walk.machine->arg_reg[i]] = (struct value){.kind = VALUE_ARG, .arg = (uint8_t)(i + 1)};
	r = accessor_reach(&walk, 0, &entry);
	if (r == 0)
		r = accessor_follow(&walk);
	return r < 0 ? r : accessor_conclude(&walk, ret);
}

int accessor_read(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret)
{
	return read_code(machine, VALUE_MEMBER, code, size_bytes, ret);
}

int accessor_read_part(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret)
{
	return read_code(machine, VALUE_INNER, code, size_bytes, ret);
}

static int accessor_find_one(struct elf_file *file, enum value_kind kind, const char *pattern, struct accessor *ret)
{
	uint8_t code[ACCESSOR_CODE_BYTES_MAX];
	struct elf_symbol symbol;
	int r = elf_file_find(file, pattern, &symbol);

	if (r < 0)
		return r == -ENOENT ? -ENXIO : r;
	if (symbol.size_bytes == 0 || symbol.size_bytes > sizeof(code))
		return -E2BIG;
	r = elf_file_bytes(file, symbol.file_offset, code, symbol.size_bytes);
	if (r < 0)
		return r;
	if ((uint64_t)r < symbol.size_bytes)
		return -ENODATA;
	return read_code(elf_file_machine(file), kind, code, symbol.size_bytes, ret);
}

int accessor_find(struct elf_file *file, const char *pattern, struct accessor *ret)
{
	return accessor_find_one(file, VALUE_MEMBER, pattern, ret);
}

int accessor_find_part(struct elf_file *file, const char *pattern, struct accessor *ret)
{
	return accessor_find_one(file, VALUE_INNER, pattern, ret);
}

const char *accessor_reason(int error)
{
	static const struct {
		int error;
		const char *words;
	} reasons[] = {
		{-ENXIO, "is not in the library"},
		{-ENOENT, "returns no recognizable member"},
		{-ENOTUNIQ, "returns different members"},
		{-E2BIG, "is too long to analyze"},
		{-EILSEQ, "has undecodable code"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].error == error)
			return reasons[i].words;
	return strerror(-error);
}
