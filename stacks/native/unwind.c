/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native stacks, by libdw's unwinder over callbacks of ours: registers from /proc, memory from the process, files as
 * maps.c opens them. libdw follows frame pointers where a table is missing; such frames are not believed.
 */
#include <dwarf.h>
#include <inttypes.h>
#include <stdarg.h>

#include "stacks/native/native_internal.h"

static _printf_(2, 3) void unwind_reason(struct native_thread *thread, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(thread->reason, sizeof(thread->reason), format, args);
	va_end(args);
}

static int unwind_find_elf(
	Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
	struct native_module *ours = *userdata;

	*file_name = NULL;
	/* A reference of its own: libdw ends what it is given. */
	*elf = ours && native_module_open(ours->process, ours) ? elf_begin(-1, ELF_C_READ, ours->elf) : NULL;
	return -1;
}

static int unwind_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
	const char *file_name, const char *link, GElf_Word checksum, char **found)
{
	return -1;
}

static const Dwfl_Callbacks unwind_files = {
	.find_elf = unwind_find_elf,
	.find_debuginfo = unwind_find_debuginfo,
};

static pid_t unwind_next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct native_process *process = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = process->unwinding;
	return process->unwinding ? (pid_t)process->unwinding->thread_id : 0;
}

static bool unwind_get_thread(Dwfl *dwfl, pid_t thread_id, void *arg, void **thread_arg)
{
	struct native_process *process = arg;

	*thread_arg = process->unwinding;
	return process->unwinding && process->unwinding->thread_id == (uint32_t)thread_id;
}

/* A piece of memory of the thread, read once; NULL where it cannot be read or the thread's share is used up. */
static const struct native_chunk *unwind_chunk(struct native_process *process, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(NATIVE_CHUNK_BYTES - 1);
	struct native_chunk *chunk;
	ssize_t n;

	for (size_t i = process->chunks; i-- > 0;)
		if (process->chunk[i].address == start)
			return &process->chunk[i];
	if (process->chunks == NATIVE_CHUNKS || !start)
		return NULL;
	chunk = &process->chunk[process->chunks];
	/* From its first byte on, or, at the lower end of a mapping, from the page of the address on. */
	n = native_memory(process, start, chunk->data, sizeof(chunk->data));
	chunk->size_bytes = n > 0 ? (size_t)n : 0;
	if (address - start >= chunk->size_bytes) {
		uint64_t page = address & ~(uint64_t)4095;

		n = native_memory(
			process, page, chunk->data + (page - start), (size_t)(start + NATIVE_CHUNK_BYTES - page));
		if (n <= 0)
			return NULL;
		memset(chunk->data, 0, (size_t)(page - start));
		chunk->size_bytes = (size_t)(page - start) + (size_t)n;
	}
	chunk->address = start;
	process->chunks++;
	return chunk;
}

static bool unwind_memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *arg)
{
	struct native_process *process = arg;
	uint8_t *out = (uint8_t *)ret;

	for (size_t i = 0; i < sizeof(*ret);) {
		const struct native_chunk *chunk = unwind_chunk(process, address + i);
		size_t at = chunk ? (size_t)(address + i - chunk->address) : 0, n;

		if (!chunk || at >= chunk->size_bytes)
			return false;
		n = chunk->size_bytes - at < sizeof(*ret) - i ? chunk->size_bytes - at : sizeof(*ret) - i;
		memcpy(out + i, chunk->data + at, n);
		i += n;
	}
	return true;
}

/* DWARF's numbers of the stack pointer, and of the place where that is a register. */
static bool unwind_registers(Dwfl_Thread *thread, void *arg)
{
	const struct native_thread *ours = arg;
	Dwarf_Word sp = ours->sp, pc = ours->pc;

#if defined(__x86_64__)
	return dwfl_thread_state_registers(thread, 7, 1, &sp) && dwfl_thread_state_registers(thread, 16, 1, &pc);
#elif defined(__aarch64__)
	dwfl_thread_state_register_pc(thread, pc);
	return dwfl_thread_state_registers(thread, 31, 1, &sp);
#else
	(void)sp;
	(void)pc;
	return false;
#endif
}

static const Dwfl_Thread_Callbacks unwind_threads = {
	.next_thread = unwind_next_thread,
	.get_thread = unwind_get_thread,
	.memory_read = unwind_memory_read,
	.set_initial_registers = unwind_registers,
};

static int unwind_begin(struct native_process *process)
{
	if (process->dwfl)
		return 0;
	process->chunk = malloc(NATIVE_CHUNKS * sizeof(*process->chunk));
	if (!process->chunk)
		return -ENOMEM;
	process->dwfl = dwfl_begin(&unwind_files);
	if (!process->dwfl)
		return -ENOMEM;
	dwfl_report_begin(process->dwfl);
	for (size_t i = 0; i < process->modules; i++) {
		struct native_module *module = &process->module[i];
		void **userdata;

		module->reported = dwfl_report_module(process->dwfl, module->path, module->start, module->end);
		if (module->reported &&
			dwfl_module_info(module->reported, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
			*userdata = module;
		module->process = process;
	}
	if (dwfl_report_end(process->dwfl, NULL, NULL) != 0 ||
		!dwfl_attach_state(process->dwfl, process->self, process->pid, &unwind_threads, process)) {
		dwfl_end(process->dwfl);
		process->dwfl = NULL;
		return -EIO;
	}
	return 0;
}

/* Does the table say that nothing called this? It then has no rule for the return address. */
static bool unwind_is_outermost(Dwarf_Frame *row)
{
	Dwarf_Op memory[3], *rule = NULL;
	size_t count = 1;
	int address_register = dwarf_frame_info(row, NULL, NULL, NULL);

	return address_register >= 0 && dwarf_frame_register(row, address_register, memory, &rule, &count) == 0 &&
	       count == 0 && rule == memory;
}

/* What the table says of the frame at an address. */
struct unwind_rule {
	int32_t size;	    /* in bytes from the stack pointer; -1: another rule. -2: no table there */
	bool outermost;	    /* nothing called it */
	bool frame_pointer; /* the caller's frame pointer and the return address are where the frame pointer says */
};

#define UNWIND_POINTER 6	/* DWARF's number of the frame pointer on x86-64 */
#define UNWIND_POINTER_FRAME 16 /* it and the return address, in bytes */

static struct unwind_rule unwind_rule(const struct native_module *module, uint64_t address)
{
	struct unwind_rule ret = {.size = -1};
	Dwarf_Addr bias;
	Dwarf_CFI *table = module->reported ? dwfl_module_eh_cfi(module->reported, &bias) : NULL;
	Dwarf_Frame *row = NULL;
	Dwarf_Op *rule;
	size_t count;

	if (!table || dwarf_cfi_addrframe(table, address - bias, &row) != 0)
		return (struct unwind_rule){.size = -2};
	if (dwarf_frame_cfa(row, &rule, &count) == 0 && count == 1) {
		if (rule->atom == DW_OP_breg7 && rule->number < INT32_MAX)
			ret.size = (int32_t)rule->number;
		else if (rule->atom == DW_OP_bregx && rule->number == 7 && rule->number2 < INT32_MAX)
			ret.size = (int32_t)rule->number2;
#if defined(__x86_64__)
		ret.frame_pointer = (rule->atom == DW_OP_breg6 && rule->number == UNWIND_POINTER_FRAME) ||
				    (rule->atom == DW_OP_bregx && rule->number == UNWIND_POINTER &&
					    rule->number2 == UNWIND_POINTER_FRAME);
#endif
	}
	ret.outermost = unwind_is_outermost(row);
	free(row);
	return ret;
}

/* The mapping's own arithmetic, which libdw's has to agree with. */
static bool unwind_address(struct native_module *module, const struct native_map *map, uint64_t pc, uint64_t *ret)
{
	Dwarf_Addr bias;

	return native_module_address(module, pc - map->start + map->offset, ret) &&
	       dwfl_module_getelf(module->reported, &bias) && pc - bias == *ret;
}

/* Adds the frame of `pc`, whose function's table covers `address`; false: it ends the stack, thread->reason says
 * why. */
static bool unwind_add(struct native_process *process, struct native_thread *thread, uint64_t pc, uint64_t address,
	struct unwind_rule *ret)
{
	const struct native_map *map;
	struct native_module *module;
	struct native_frame *frame;

	if (thread->frames == NATIVE_FRAMES_MAX) {
		unwind_reason(thread, "deeper than %u frames", NATIVE_FRAMES_MAX);
		return false;
	}
	map = native_map_of(process, address);
	if (!map && pc >= process->probe_start && pc < process->probe_end) {
		unwind_reason(thread, "a return probe of a tracer, as ranktrace has on backward, hides the callers");
		return false;
	}
	if (!map) {
		unwind_reason(thread, "0x%" PRIx64 " is in no executable mapping of a file", address);
		return false;
	}
	module = &process->module[map->module];
	frame = &thread->frame[thread->frames++];
	*frame = (struct native_frame){.pc = pc, .module = (int32_t)map->module, .cfa_offset = -1};
	if (!native_module_open(process, module)) {
		unwind_reason(thread, "%s", module->reason);
		return false;
	}
	if (!unwind_address(module, map, address, &frame->file_address)) {
		unwind_reason(thread, "the place of %.60s does not fit its file", module->shown);
		return false;
	}
	*ret = unwind_rule(module, address);
	frame->cfa_offset = ret->size;
	if (ret->size == -2) {
		unwind_reason(thread, "no unwind table for 0x%" PRIx64 " of %.60s", frame->file_address, module->shown);
		return false;
	}
	return true;
}

static int unwind_on_frame(Dwfl_Frame *state, void *arg)
{
	struct native_process *process = arg;
	struct unwind_rule rule;
	bool exact;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(state, &pc, &exact) ||
		!unwind_add(process, process->unwinding, pc, exact ? pc : pc - 1, &rule))
		return DWARF_CB_ABORT;
	process->outermost = rule.outermost;
	return DWARF_CB_OK;
}

void native_thread_clear(struct native_thread *thread)
{
	for (size_t i = 0; i < thread->frames; i++)
		free(thread->frame[i].function);
	thread->frames = 0;
	thread->reason[0] = 0;
}

void native_unwind(struct native_process *process, struct native_thread *thread)
{
	int r;

	if (!thread->blocked || unwind_begin(process) < 0)
		return;
	if (!thread->frame)
		thread->frame = calloc(NATIVE_FRAMES_MAX, sizeof(*thread->frame));
	if (!thread->frame)
		return;
	native_thread_clear(thread);
	process->unwinding = thread;
	process->chunks = 0;
	process->outermost = false;
	r = dwfl_getthread_frames(process->dwfl, (pid_t)thread->thread_id, unwind_on_frame, process);
	process->unwinding = NULL;
	if (r < 0 && !thread->reason[0])
		unwind_reason(thread, "the rest cannot be unwound: %s", dwfl_errmsg(-1));
	/* libdw takes a frame that needs the frame pointer, which is not known from outside, for the last one. */
	if (!thread->reason[0] && !process->outermost)
		unwind_reason(thread, "the callers are found by a register that is not known from outside");
	if (!native_thread_same(process, thread)) {
		native_thread_clear(thread);
		unwind_reason(thread, "it ran while its stack was read");
	}
}

int native_stacks(struct native_process *process, size_t count, struct native_thread **ret)
{
	process->thread = calloc(count, sizeof(*process->thread));
	if (!process->thread)
		return -ENOMEM;
	process->threads = count;
	*ret = process->thread;
	return unwind_begin(process);
}

void native_prove(struct native_process *process, struct native_thread *thread, const uint64_t *pc, size_t count)
{
	struct unwind_rule rule = {.frame_pointer = true};

	thread->frame = calloc(count + 1, sizeof(*thread->frame));
	for (size_t i = 0; thread->frame && i < count && i < NATIVE_FRAMES_MAX; i++) {
		if (!rule.frame_pointer) {
			unwind_reason(thread, "the function keeps no frame pointer");
			return;
		}
		if (!unwind_add(process, thread, pc[i], i ? pc[i] - 1 : pc[i], &rule))
			return;
	}
	if (!rule.outermost)
		unwind_reason(thread, "outer frames are missing");
}
