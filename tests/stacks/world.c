/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stacks/world.h"

#include <assert.h>
#include <elf.h>

#include "daemon/base/util.h"

#define INSTRUCTIONS 100u
#define TYPE_BYTES 416u
#define CODE_BYTES 512u
#define LINES_BYTES (2 * INSTRUCTIONS)
#define OWNER_SHIM 3
#define CFRAME_BYTES 32u
#define TABLE_VERSION 1u

/* Words of the interpreter's own table: which, and what it says. */
#define PYSTACK_OFFSET(field, in_3_13, in_3_14) {offsetof(struct pylayout, field), {(in_3_13), (in_3_14)}},
static const struct {
	size_t field;
	unsigned word[2];
} world_words[] = {
#include "stacks/python/versions.def"
};
#undef PYSTACK_OFFSET

static ssize_t world_page(void *arg, const uint64_t *pages, size_t count, uint8_t *ret)
{
	struct world *world = arg;

	world->reads++;
	for (size_t i = 0; i < count; i++) {
		if (pages[i] < WORLD_BASE || pages[i] - WORLD_BASE + PYMEM_PAGE_BYTES > WORLD_BYTES)
			return (ssize_t)i;
		memcpy(ret + i * PYMEM_PAGE_BYTES, world->data + (pages[i] - WORLD_BASE), PYMEM_PAGE_BYTES);
	}
	return (ssize_t)count;
}

const struct pymem_ops world_ops = {.read = world_page};

void world_put(struct world *world, uint64_t address, const void *value, size_t size)
{
	assert(address >= WORLD_BASE && address - WORLD_BASE + size <= WORLD_BYTES);
	memcpy(world->data + (address - WORLD_BASE), value, size);
}

void world_u64(struct world *world, uint64_t address, uint64_t value)
{
	world_put(world, address, &value, sizeof(value));
}

static void world_u32(struct world *world, uint64_t address, uint32_t value)
{
	world_put(world, address, &value, sizeof(value));
}

static uint64_t world_new(struct world *world, size_t size)
{
	uint64_t address = WORLD_BASE + world->used;

	world->used += (size + 15) / 16 * 16;
	assert(world->used <= WORLD_BYTES);
	return address;
}

static uint64_t world_name(struct world *world, const char *name)
{
	uint64_t address = world_new(world, strlen(name) + 1);

	world_put(world, address, name, strlen(name) + 1);
	return address;
}

static uint64_t world_type(struct world *world, const char *name)
{
	uint64_t type = world_new(world, TYPE_BYTES);

	world_u64(world, type + world->layout->type_name, world_name(world, name));
	return type;
}

static void world_member(struct world *world, uint64_t *at, const char *name, uint64_t offset)
{
	world_u64(world, *at, world_name(world, name));
	world_u64(world, *at + 16, offset);
	*at += 40;
}

static void world_types(struct world *world)
{
	const struct pylayout *layout = world->layout;
	uint64_t at;

	world->code_type = world_type(world, "code");
	world->frame_type = world_type(world, "frame");
	world->text_type = world_type(world, "str");
	world->bytes_type = world_type(world, "bytes");
	world->members = at = world_new(world, 16 * 40);
	world_u64(world, world->code_type + layout->type_members, at);
	world_member(world, &at, "co_argcount", 16);
	world_member(world, &at, "co_filename", layout->code_file);
	world_member(world, &at, "co_name", layout->code_name);
	world_member(world, &at, "co_firstlineno", layout->code_first_line);
	world_member(world, &at, layout->minor < 10 ? "co_lnotab" : "co_linetable", layout->code_lines);
	if (layout->code_qualname)
		world_member(world, &at, "co_qualname", layout->code_qualname);
	else
		world_member(world, &at, "co_code", layout->code_bytes);
	at = world_new(world, 4 * 40);
	world_u64(world, world->frame_type + layout->type_members, at);
	world_member(world, &at, "f_back", layout->frame_previous);
	world_member(world, &at, "f_code", layout->frame_code);
}

static void world_runtime(struct world *world)
{
	const struct pylayout *layout = world->layout;
	uint64_t version = 3u << 24 | layout->minor << 16 | 5 << 8 | 0xf0;

	world->runtime = world->table = world_new(world, 2048);
	if (layout->minor >= 13) {
		world_put(world, world->table, "xdebugpy", 8);
		world_u64(world, world->table + TABLE_VERSION * 8, version);
		for (size_t i = 0; i < ARRAY_SIZE(world_words); i++)
			world_put(world, world->table + world_words[i].word[layout->minor - 13] * 8,
				(const char *)layout + world_words[i].field, 8);
	}
	world->interp = world_new(world, 8192);
	world_u64(world, world->runtime + layout->runtime_interps, world->interp);
	world->gil = layout->runtime_gil ? world->runtime + layout->runtime_gil : world_new(world, 64);
	if (!layout->runtime_gil)
		world_u64(world, world->interp + layout->interp_gil, world->gil);
	for (size_t i = 0; i < ARRAY_SIZE(world->state); i++) {
		world->state[i] = world_new(world, 512);
		world_u64(world, world->state[i] + layout->thread_interp, world->interp);
		world_u64(world, world->state[i] + layout->thread_pthread, 0x7000 + i);
		if (layout->thread_native)
			world_u64(world, world->state[i] + layout->thread_native, 100 + i);
	}
	world_u64(world, world->interp + layout->interp_threads, world->state[0]);
	world_u64(world, world->state[0] + layout->thread_next, world->state[1]);
	world_u64(world, world->state[1] + layout->thread_prev, world->state[0]);
	world_u32(world, world->gil + layout->gil_locked, 1);
	world_u64(world, world->gil + layout->gil_holder, world->state[0]);
	world->cframe = world_new(world, 64);
	if (!layout->cframe)
		return;
	/* The record before the first call; then there is one for the call before. */
	world_u64(world, world->state[0] + layout->thread_frame, world->cframe);
}

/* The file's header at WORLD_BASE and a symbol table with one bucket. */
static void world_symbols(struct world *world, uint64_t head)
{
	const struct {
		const char *name;
		uint64_t value;
	} symbols[] = {
		{"_PyRuntime", world->runtime},
		{"PyCode_Type", world->code_type},
		{"PyFrame_Type", world->frame_type},
		{"PyUnicode_Type", world->text_type},
		{"PyBytes_Type", world->bytes_type},
		{"Py_Version", world_new(world, 8)},
	};
	size_t count = ARRAY_SIZE(symbols) - (world->layout->minor < 11);
	uint64_t names = world_new(world, 256), table = world_new(world, 32 * sizeof(Elf64_Sym));
	uint64_t hash = world_new(world, 256), dynamic = world_new(world, 8 * sizeof(Elf64_Dyn)), at = 1;
	const Elf64_Dyn entries[] = {
		{.d_tag = DT_SYMTAB, .d_un.d_ptr = table},
		{.d_tag = DT_STRTAB, .d_un.d_ptr = names - WORLD_BASE}, /* not made an address: both are met */
		{.d_tag = DT_GNU_HASH, .d_un.d_ptr = hash},
		{.d_tag = DT_NULL},
	};
	const uint32_t hash_head[] = {1, 1, 1, 0, 0, 0, 1}; /* a bucket, symbols from 1 on, a bloom word */
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
		.e_phoff = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2};
	Elf64_Phdr parts[] = {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_vaddr = dynamic - WORLD_BASE}};

	world_u64(world, symbols[5].value, 3u << 24 | world->layout->minor << 16 | 5 << 8 | 0xf0);
	world_put(world, head, &header, sizeof(header));
	world_put(world, head + sizeof(header), parts, sizeof(parts));
	world_put(world, dynamic, entries, sizeof(entries));
	world_put(world, hash, hash_head, sizeof(hash_head));
	for (size_t i = 0; i < count; i++) {
		Elf64_Sym symbol = {
			.st_name = (Elf64_Word)at, .st_shndx = 1, .st_value = symbols[i].value - WORLD_BASE};
		uint32_t value = 5381;

		for (const char *c = symbols[i].name; *c; c++)
			value = value * 33 + (uint8_t)*c;
		world_u32(world, hash + sizeof(hash_head) + i * 4, (value & ~1u) | (i + 1 == count));
		world_put(world, table + (i + 1) * sizeof(symbol), &symbol, sizeof(symbol));
		world_put(world, names + at, symbols[i].name, strlen(symbols[i].name) + 1);
		at += strlen(symbols[i].name) + 1;
	}
}

void world_make(struct world *world, unsigned minor)
{
	uint64_t head;

	world_close(world);
	memset(world, 0, sizeof(*world));
	world->layout = pylayout_row(minor);
	assert(world->layout);
	head = world_new(world, 512);
	world_types(world);
	world_runtime(world);
	world_symbols(world, head);
}

uint64_t world_text(struct world *world, const void *text, size_t length, unsigned width, bool ascii)
{
	const struct pylayout *layout = world->layout;
	uint64_t header = ascii ? layout->text_ascii : layout->text_compact;
	uint64_t address = world_new(world, header + length * width + 4);

	world_u64(world, address + layout->object_type, world->text_type);
	world_u64(world, address + layout->text_length, length);
	world_u32(world, address + layout->text_state, 1 | width << 2 | 1u << 5 | (unsigned)ascii << 6 | 1u << 7);
	world_put(world, address + header, text, length * width);
	return address;
}

static uint64_t world_bytes(struct world *world, const void *data, size_t size)
{
	uint64_t address = world_new(world, world->layout->bytes_data + size + 1);

	world_u64(world, address + world->layout->object_type, world->bytes_type);
	world_u64(world, address + world->layout->bytes_size, size);
	world_put(world, address + world->layout->bytes_data, data, size);
	return address;
}

/* A line a instruction: as pairs until 3.10, as entries of one unit from 3.11. */
static uint64_t world_lines(struct world *world)
{
	uint8_t table[LINES_BYTES];

	for (size_t i = 0; i < INSTRUCTIONS; i++) {
		if (world->layout->minor >= 11) {
			table[2 * i] = 0x80 | 13 << 3; /* no columns, one unit */
			table[2 * i + 1] = i ? 1 << 1 : 0;
		} else {
			table[2 * i] = world->layout->minor == 10 || i ? 2 : 0;
			table[2 * i + 1] = i ? 1 : 0;
		}
	}
	return world_bytes(world, table, sizeof(table));
}

static uint64_t world_code(struct world *world, const char *name, int32_t first_line)
{
	const struct pylayout *layout = world->layout;
	uint64_t code = world_new(world, CODE_BYTES), text = world_text(world, name, strlen(name), 1, true);
	const uint8_t none[2 * INSTRUCTIONS] = {0};

	world_u64(world, code + layout->object_type, world->code_type);
	world_u64(world, code + layout->code_file, world_text(world, "/a.py", 5, 1, true));
	world_u64(world, code + layout->code_name, text);
	if (layout->code_qualname)
		world_u64(world, code + layout->code_qualname, text);
	world_u64(world, code + layout->code_lines, world_lines(world));
	world_u32(world, code + layout->code_first_line, (uint32_t)first_line);
	if (layout->code_bytes) {
		world_u64(world, code + layout->code_bytes, world_bytes(world, none, sizeof(none)));
	} else {
		world_u64(world, code + layout->object_size, INSTRUCTIONS);
		world_u32(world, code + layout->code_adaptive - 16, 2); /* begins with the third instruction */
	}
	return code;
}

static void world_push(struct world *world, uint64_t code, uint64_t instruction, uint8_t owner)
{
	const struct pylayout *layout = world->layout;
	uint64_t frame = world_new(world, 256);

	world_u64(world, frame + layout->frame_code, code);
	world_u64(world, frame + layout->frame_instruction, instruction);
	world_u64(world, frame + layout->frame_previous, world->top);
	if (layout->frame_owner)
		world_put(world, frame + layout->frame_owner, &owner, 1);
	world_u64(world, layout->cframe ? world->cframe + layout->cframe_frame : world->state[0] + layout->thread_frame,
		frame);
	if (layout->cframe)
		world_u64(world, world->cframe + layout->cframe_previous, world->cframe + CFRAME_BYTES);
	world->top = frame;
}

void world_call(struct world *world, const char *name, int32_t first_line, unsigned instruction)
{
	const struct pylayout *layout = world->layout;
	uint64_t code = world_code(world, name, first_line), word = instruction;

	if (layout->code_adaptive)
		word = code + layout->code_adaptive + instruction * 2;
	else if (layout->minor < 10)
		word = instruction * 2;
	assert(world->frames < WORLD_FRAMES);
	if (!world->top && layout->minor >= 12)
		world_shim(world);
	world_push(world, code, word, 0);
	world->code[world->frames] = code;
	world->frame[world->frames++] = world->top;
	if (world->frames == 1 && layout->frame_entry)
		world_entry(world, 0);
}

void world_entry(struct world *world, size_t frame)
{
	const uint8_t entry = 1;

	world_put(world, world->frame[frame] + world->layout->frame_entry, &entry, 1);
	world_u64(
		world, world->cframe + CFRAME_BYTES + world->layout->cframe_frame, frame ? world->frame[frame - 1] : 0);
}

void world_shim(struct world *world)
{
	if (world->layout->minor < 12)
		return;
	if (world->layout->cframe)
		world_u64(world, world->cframe + CFRAME_BYTES + world->layout->cframe_frame, world->top);
	world_push(world, 0, 0, OWNER_SHIM);
}

void world_close(struct world *world)
{
	pystack_close(world->process);
	world->process = NULL;
}

int world_open(struct world *world, struct pystack **ret, enum pystack_refusal *ret_why)
{
	char path[64];

	snprintf(path, sizeof(path), "/usr/lib/libpython3.%u.so.1.0", world->layout->minor);
	return pystack_open_memory(&world_ops, world, WORLD_BASE, path, ret, ret_why);
}

int world_read(struct world *world, struct pystack_stack *ret, enum pystack_refusal *ret_why)
{
	struct pystack_thread threads[4];
	size_t count;
	int r;

	world_close(world);
	r = world_open(world, &world->process, ret_why);
	if (r == 0)
		r = pystack_threads(world->process, threads, ARRAY_SIZE(threads), &count);
	if (r == 0 && !count)
		r = -ENOENT;
	if (r == 0)
		r = pystack_read(world->process, &threads[0], NULL, NULL, ret, ret_why);
	return r;
}
