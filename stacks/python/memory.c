/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/memory.h"

#include <sys/uio.h>

#include "analyzers/base/array.h"
#include "analyzers/base/hash.h"
#include "daemon/base/util.h"

#define BATCH_PAGES 256u	    /* a system call takes at most 1,024 ranges; 1 MiB at once */
#define SLOTS (2 * PYMEM_PAGES_MAX) /* half full at most; power of two */
#define ADDRESS_MIN 0x10000u	    /* nothing is mapped below */
#define ADDRESS_BITS 56u	    /* no user memory above on any known machine; arm64 ignores the bits above: tags */

struct pymem {
	const struct pymem_ops *ops;
	void *arg;
	uint64_t reads, pages_read;
	const struct pymem_piece *piece;
	size_t pieces;			/* 0: the process's memory */
	size_t count, capacity;		/* of pages */
	uint32_t slot[SLOTS];		/* index of a page, plus 1 */
	uint64_t page[PYMEM_PAGES_MAX]; /* its address */
	uint8_t (*data)[PYMEM_PAGE_BYTES];
};

struct pymem *pymem_new(const struct pymem_ops *ops, void *arg)
{
	struct pymem *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->ops = ops;
	memory->arg = arg;
	return memory;
}

void pymem_free(struct pymem *memory)
{
	if (!memory)
		return;
	free(memory->data);
	free(memory);
}

void pymem_forget(struct pymem *memory)
{
	memset(memory->slot, 0, sizeof(memory->slot));
	memory->count = 0;
}

uint64_t pymem_reads(const struct pymem *memory)
{
	return memory->reads;
}

uint64_t pymem_pages(const struct pymem *memory)
{
	return memory->pages_read;
}

/* The slot of a page: its own, or an empty one. */
static uint32_t *pymem_slot(struct pymem *memory, uint64_t page)
{
	uint64_t at = hash_mix(page, 0);

	while (memory->slot[at % SLOTS] && memory->page[memory->slot[at % SLOTS] - 1] != page)
		at++;
	return &memory->slot[at % SLOTS];
}

static bool pymem_reserve(struct pymem *memory, size_t count)
{
	return array_reserve(
		(void **)&memory->data, &memory->capacity, memory->count + count, sizeof(*memory->data), SIZE_MAX);
}

/* Reads absent pages behind the others; returns how many, from the first on. */
static ssize_t pymem_load(struct pymem *memory, const uint64_t *pages, size_t count)
{
	ssize_t n;

	if (!pymem_reserve(memory, count))
		return -ENOMEM;
	memory->reads++;
	n = memory->ops->read(memory->arg, pages, count, memory->data[memory->count]);
	if (n < 0)
		return n;
	for (size_t i = 0; i < (size_t)n && i < count; i++) {
		uint32_t *slot = pymem_slot(memory, pages[i]);

		memory->page[memory->count++] = pages[i];
		*slot = (uint32_t)memory->count;
		memory->pages_read++;
	}
	return n;
}

static int pymem_page(struct pymem *memory, uint64_t page, const uint8_t **ret)
{
	const uint32_t *slot = pymem_slot(memory, page);

	if (!*slot) {
		ssize_t n;

		if (memory->count == PYMEM_PAGES_MAX)
			return -ENOBUFS;
		n = pymem_load(memory, &page, 1);
		if (n <= 0)
			return n < 0 ? (int)n : -EFAULT;
	}
	*ret = memory->data[*slot - 1];
	return 0;
}

static bool pymem_address(uint64_t *address)
{
#if defined(__aarch64__)
	*address &= (1ULL << ADDRESS_BITS) - 1;
#endif
	return *address >= ADDRESS_MIN && *address >> ADDRESS_BITS == 0;
}

void pymem_pieces(struct pymem *memory, const struct pymem_piece *pieces, size_t count)
{
	memory->piece = pieces;
	memory->pieces = count;
}

static int pymem_read_piece(const struct pymem *memory, uint64_t address, void *ret, size_t size)
{
	for (size_t i = 0; i < memory->pieces; i++) {
		const struct pymem_piece *piece = &memory->piece[i];

		if (address < piece->address || address - piece->address > piece->size ||
			size > piece->size - (address - piece->address))
			continue;
		memcpy(ret, piece->data + (address - piece->address), size);
		return 0;
	}
	return -EFAULT;
}

int pymem_read(struct pymem *memory, uint64_t address, void *ret, size_t size)
{
	size_t done = 0;

	if (!pymem_address(&address) || size >> ADDRESS_BITS)
		return -EFAULT;
	if (memory->pieces)
		return pymem_read_piece(memory, address, ret, size);
	while (done < size) {
		uint64_t offset = (address + done) % PYMEM_PAGE_BYTES;
		size_t n = PYMEM_PAGE_BYTES - offset;
		const uint8_t *page = NULL;
		int r = pymem_page(memory, address + done - offset, &page);

		if (r < 0)
			return r;
		if (n > size - done)
			n = size - done;
		memcpy((uint8_t *)ret + done, page + offset, n);
		done += n;
	}
	return 0;
}

int pymem_u64(struct pymem *memory, uint64_t address, uint64_t *ret)
{
	return pymem_read(memory, address, ret, sizeof(*ret));
}

/* Loads a batch; a page that cannot be read is skipped. */
static void pymem_load_all(struct pymem *memory, const uint64_t *pages, size_t count)
{
	while (count) {
		ssize_t n = pymem_load(memory, pages, count);

		if (n < 0)
			return;
		if ((size_t)n >= count)
			return;
		pages += n + 1;
		count -= (size_t)n + 1;
	}
}

void pymem_prefetch(struct pymem *memory, const uint64_t *addresses, size_t count)
{
	uint64_t batch[BATCH_PAGES];
	size_t pending = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t page = addresses[i];
		bool known = false;

		if (!pymem_address(&page))
			continue;
		page -= page % PYMEM_PAGE_BYTES;
		for (size_t k = pending; k && !known; k--)
			known = batch[k - 1] == page;
		if (known || *pymem_slot(memory, page))
			continue;
		if (memory->count + pending == PYMEM_PAGES_MAX)
			break;
		batch[pending++] = page;
		if (pending == BATCH_PAGES) {
			pymem_load_all(memory, batch, pending);
			pending = 0;
		}
	}
	pymem_load_all(memory, batch, pending);
}

static ssize_t pymem_process_read(void *arg, const uint64_t *pages, size_t count, uint8_t *ret)
{
	struct iovec local = {.iov_base = ret, .iov_len = count * PYMEM_PAGE_BYTES};
	struct iovec remote[BATCH_PAGES];
	ssize_t n;

	for (size_t i = 0; i < count; i++)
		remote[i] = (struct iovec){.iov_base = (void *)(uintptr_t)pages[i], .iov_len = PYMEM_PAGE_BYTES};
	n = process_vm_readv(*(const pid_t *)arg, &local, 1, remote, count, 0);
	if (n < 0)
		return errno == EFAULT ? 0 : -errno;
	return n / PYMEM_PAGE_BYTES;
}

const struct pymem_ops pymem_process = {.read = pymem_process_read};
