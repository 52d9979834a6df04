/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are the memory of a rank, at whose start a process group lies, and behind which nothing is mapped. Words
 * that begin with a mark are addresses in it, so that a seed holds wherever the memory comes to lie.
 */
#undef NDEBUG
#include <assert.h>
#include <sys/mman.h>

#include "daemon/coll/identity.h"

#define MEMORY_BYTES 16384u
#define PAGE_MAX_BYTES 65536u /* of any machine */
#define MARK 0xfee1ULL
#define MARK_SHIFT 48

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *memory;

static void make_memory(void)
{
	char *all = mmap(
		NULL, MEMORY_BYTES + 3 * PAGE_MAX_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t capacity = (MEMORY_BYTES + PAGE_MAX_BYTES - 1) / PAGE_MAX_BYTES * PAGE_MAX_BYTES;

	assert(all != MAP_FAILED);
	all += PAGE_MAX_BYTES - (uintptr_t)all % PAGE_MAX_BYTES;
	assert(mprotect(all, capacity, PROT_READ | PROT_WRITE) == 0);
	/* It ends where the mapping does. */
	memory = all + capacity - MEMORY_BYTES;
}

static void fill(const uint8_t *data, size_t size)
{
	memset(memory, 0, MEMORY_BYTES);
	memcpy(memory, data, size < MEMORY_BYTES ? size : MEMORY_BYTES);
	for (size_t at = 0; at < MEMORY_BYTES; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, memory + at, sizeof(word));
		if (word >> MARK_SHIFT != MARK)
			continue;
		word = (uintptr_t)memory + (word & UINT16_MAX);
		memcpy(memory + at, &word, sizeof(word));
	}
}

static void check_text(const char *text, size_t size)
{
	assert(memchr(text, 0, size));
	for (; *text; text++)
		assert(*text >= ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct gloo_process self = {
		.pid = (uint32_t)getpid(), .proc_root = "/proc", .boot_id = "boot", .job = "job"};
	struct gloo_group group;
	const char *reason = NULL;
	char name[64];
	int r;

	if (!memory)
		make_memory();
	fill(data, size);
	r = gloo_identity_read(&self, (uintptr_t)memory, &group, &reason);
	assert(r <= 0 && reason && !*reason == !r);
	if (r == 0) {
		assert(group.identity && group.member < group.members);
		check_text(group.name, sizeof(group.name));
	}
	if (torch_group_nccl_name(self.pid, (uintptr_t)memory, name, sizeof(name)) == 0)
		check_text(name, sizeof(name));
	return 0;
}
