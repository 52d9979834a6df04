/* SPDX-License-Identifier: Apache-2.0 */
/*
 * USDT probes: notes of .note.stapsdt (three addresses and three strings each) and their operand text. Addresses are
 * the assembler's; prelinked files are shifted by the move of .stapsdt.base.
 */
#include "daemon/probes/elf_private.h"

#define NOTE_TYPE_USDT 3
#define NOTES_BYTES_MAX (16u << 20)
#define OPERAND_BYTES_MAX 64

struct register_name {
	char name[6];
	uint8_t slot;
};

/* Slots of struct pt_regs. Second-byte registers (ah ...) are excluded: not the low part of their register. */
static const struct register_name x86_names[] = {
	{"r15", 0},
	{"r15d", 0},
	{"r15w", 0},
	{"r15b", 0},
	{"r14", 1},
	{"r14d", 1},
	{"r14w", 1},
	{"r14b", 1},
	{"r13", 2},
	{"r13d", 2},
	{"r13w", 2},
	{"r13b", 2},
	{"r12", 3},
	{"r12d", 3},
	{"r12w", 3},
	{"r12b", 3},
	{"rbp", 4},
	{"ebp", 4},
	{"bp", 4},
	{"bpl", 4},
	{"rbx", 5},
	{"ebx", 5},
	{"bx", 5},
	{"bl", 5},
	{"r11", 6},
	{"r11d", 6},
	{"r11w", 6},
	{"r11b", 6},
	{"r10", 7},
	{"r10d", 7},
	{"r10w", 7},
	{"r10b", 7},
	{"r9", 8},
	{"r9d", 8},
	{"r9w", 8},
	{"r9b", 8},
	{"r8", 9},
	{"r8d", 9},
	{"r8w", 9},
	{"r8b", 9},
	{"rax", 10},
	{"eax", 10},
	{"ax", 10},
	{"al", 10},
	{"rcx", 11},
	{"ecx", 11},
	{"cx", 11},
	{"cl", 11},
	{"rdx", 12},
	{"edx", 12},
	{"dx", 12},
	{"dl", 12},
	{"rsi", 13},
	{"esi", 13},
	{"si", 13},
	{"sil", 13},
	{"rdi", 14},
	{"edi", 14},
	{"di", 14},
	{"dil", 14},
	{"rip", 16},
	{"rsp", 19},
	{"esp", 19},
	{"sp", 19},
	{"spl", 19},
};

static bool x86_register(const char *name, uint8_t *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86_names); i++) {
		if (streq(name, x86_names[i].name)) {
			*ret = x86_names[i].slot;
			return true;
		}
	}
	return false;
}

static bool arm64_register(const char *name, uint8_t *ret)
{
	unsigned long number;
	char *end;

	if (streq(name, "sp")) {
		*ret = 31;
		return true;
	}
	if ((*name != 'x' && *name != 'w') || name[1] < '0' || name[1] > '9')
		return false;
	number = strtoul(name + 1, &end, 10);
	if (*end || number > 30)
		return false;
	*ret = (uint8_t)number;
	return true;
}

static bool elf_usdt_number(const char *text, char **ret_end, int64_t *ret)
{
	/* strtoll would accept blanks and a plus sign. */
	if (*text != '-' && (*text < '0' || *text > '9'))
		return false;
	errno = 0;
	*ret = strtoll(text, ret_end, 0);
	return !errno && *ret_end != text;
}

static bool elf_usdt_constant(const char *text, struct usdt_operand *operand)
{
	char *end;

	operand->where = USDT_CONST;
	return elf_usdt_number(text, &end, &operand->offset) && !*end;
}

/* %rax, $5, (%rax), -20(%rbp). Symbols, indexes and rip-relative addresses are unsupported. */
static bool x86_place(char *text, struct usdt_operand *operand)
{
	char *open = strchr(text, '('), *end = text;

	if (*text == '$')
		return elf_usdt_constant(text + 1, operand);
	if (*text == '%') {
		operand->where = USDT_REG;
		return x86_register(text + 1, &operand->reg);
	}
	if (!open || (open != text && (!elf_usdt_number(text, &end, &operand->offset) || end != open)))
		return false;
	end = strchr(open, ')');
	if (!end || end[1] || open[1] != '%')
		return false;
	*end = 0;
	operand->where = USDT_DEREF;
	return !streq(open + 2, "rip") && x86_register(open + 2, &operand->reg);
}

/* x0, 5, [sp], [sp, 60]. */
static bool arm64_place(char *text, struct usdt_operand *operand)
{
	char *comma, *end;

	if (*text != '[') {
		operand->where = USDT_REG;
		return arm64_register(text, &operand->reg) || elf_usdt_constant(text, operand);
	}
	end = strchr(text, ']');
	if (!end || end[1])
		return false;
	*end = 0;
	operand->where = USDT_DEREF;
	comma = strchr(text, ',');
	if (comma) {
		*comma++ = 0;
		comma += strspn(comma, " #");
		if (!elf_usdt_number(comma, &end, &operand->offset) || *end)
			return false;
	}
	return arm64_register(text + 1, &operand->reg);
}

static void parse_operand(enum elf_machine machine, char *text, struct usdt_operand *ret)
{
	struct usdt_operand operand = {0};
	int64_t size;
	char *end;
	bool ok;

	*ret = (struct usdt_operand){.where = USDT_UNKNOWN};
	if (!elf_usdt_number(text, &end, &size) || *end != '@')
		return;
	operand.is_signed = size < 0;
	if (size != 1 && size != 2 && size != 4 && size != 8 && size != -1 && size != -2 && size != -4 && size != -8)
		return;
	operand.size_bytes = (uint8_t)(size < 0 ? -size : size);
	ok = machine == ELF_MACHINE_X86_64 ? x86_place(end + 1, &operand) : arm64_place(end + 1, &operand);
	if (ok)
		*ret = operand;
}

/* An operand ends at a blank outside brackets. */
static size_t operand_bytes(const char *text)
{
	bool inside = false;
	size_t n = 0;

	for (; text[n] && (inside || text[n] != ' '); n++) {
		if (text[n] == '[' || text[n] == ']')
			inside = text[n] == '[';
	}
	return n;
}

unsigned usdt_parse_operands(enum elf_machine machine, const char *text, struct usdt_operand *ret, unsigned max)
{
	unsigned count = 0;

	while (count < max) {
		char operand[OPERAND_BYTES_MAX] = "";
		size_t n;

		text += strspn(text, " ");
		n = operand_bytes(text);
		if (!n)
			break;
		if (n < sizeof(operand))
			memcpy(operand, text, n);
		parse_operand(machine, operand, &ret[count++]);
		text += n;
	}
	return count;
}

struct description {
	uint64_t pc, base, semaphore;
	const char *provider, *name, *operands;
};

static const char *next_text(const uint8_t *desc, size_t size_bytes, size_t *at)
{
	const char *text = (const char *)desc + *at;
	const uint8_t *end = *at < size_bytes ? memchr(desc + *at, 0, size_bytes - *at) : NULL;

	if (!end)
		return NULL;
	*at = (size_t)(end - desc) + 1;
	return text;
}

struct elf_note {
	uint32_t type;
	const char *owner; /* owner_bytes long, not terminated */
	size_t owner_bytes;
	const uint8_t *desc;
	size_t desc_bytes;
};

/* The note at *at; advances *at. False: none left, or damaged. */
static bool elf_next_note(const uint8_t *notes, size_t size_bytes, size_t *at, struct elf_note *ret)
{
	Elf64_Nhdr header;
	uint64_t desc, end;

	if (*at > size_bytes || size_bytes - *at < sizeof(header))
		return false;
	memcpy(&header, notes + *at, sizeof(header));
	desc = *at + sizeof(header) + (((uint64_t)header.n_namesz + 3) & ~3ULL);
	end = desc + header.n_descsz;
	if (desc > size_bytes || end > size_bytes)
		return false;
	*ret = (struct elf_note){
		.type = header.n_type,
		.owner = (const char *)notes + *at + sizeof(header),
		.owner_bytes = header.n_namesz,
		.desc = notes + desc,
		.desc_bytes = header.n_descsz,
	};
	*at = (size_t)((end + 3) & ~3ULL);
	return true;
}

static bool elf_usdt_describe(const struct elf_note *note, struct description *ret)
{
	size_t at = 3 * sizeof(uint64_t);

	if (note->type != NOTE_TYPE_USDT || note->owner_bytes != sizeof("stapsdt") ||
		memcmp(note->owner, "stapsdt", sizeof("stapsdt")) != 0 || note->desc_bytes < at)
		return false;
	memcpy(&ret->pc, note->desc, sizeof(ret->pc));
	memcpy(&ret->base, note->desc + 8, sizeof(ret->base));
	memcpy(&ret->semaphore, note->desc + 16, sizeof(ret->semaphore));
	ret->provider = next_text(note->desc, note->desc_bytes, &at);
	ret->name = next_text(note->desc, note->desc_bytes, &at);
	ret->operands = next_text(note->desc, note->desc_bytes, &at);
	return ret->provider && ret->name && ret->operands;
}

static bool elf_usdt_parse_site(const struct elf_file *file, const struct description *d, struct usdt_site *ret)
{
	uint64_t moved = file->usdt_base && d->base ? file->usdt_base - d->base : 0;
	uint64_t left;

	*ret = (struct usdt_site){0};
	if (!elf_file_offset(file, d->pc + moved, &ret->file_offset) || !elf_is_code(file, ret->file_offset, &left))
		return false;
	/* Without its semaphore set, such a probe is never reached. */
	if (d->semaphore && !elf_file_offset(file, d->semaphore + moved, &ret->semaphore_offset))
		return false;
	ret->operands = usdt_parse_operands(file->machine, d->operands, ret->operand, USDT_OPERANDS_MAX);
	return true;
}

int elf_file_usdt(struct elf_file *file, const char *provider, const char *name, struct usdt_site *ret, size_t max)
{
	_cleanup_free_ uint8_t *notes = NULL;
	struct elf_note note;
	size_t at = 0, count = 0;
	int r;

	if (!file->usdt_notes.size_bytes)
		return 0;
	r = elf_read_range(file, &file->usdt_notes, NOTES_BYTES_MAX, &notes);
	if (r < 0)
		return r;
	while (elf_next_note(notes, file->usdt_notes.size_bytes, &at, &note)) {
		struct description d;
		struct usdt_site found;

		if (!elf_usdt_describe(&note, &d) || !streq(d.provider, provider) || !streq(d.name, name) ||
			!elf_usdt_parse_site(file, &d, &found))
			continue;
		if (count < max)
			ret[count] = found;
		count++;
	}
	return (int)count;
}
