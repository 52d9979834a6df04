/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window on another process's memory: pages are read once and kept until pymem_forget(), so that all that is read
 * between two calls comes from one copy of each page. Reads are batched, and bounded by PYMEM_PAGES_MAX.
 */
#ifndef RANKTRACE_STACKS_PYTHON_MEMORY_H
#define RANKTRACE_STACKS_PYTHON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PYMEM_PAGE_BYTES 4096u /* the smallest page: mapped wholly or not at all */
#define PYMEM_PAGES_MAX 4096u  /* 16 MiB: 1,024 frames need 4 pages each at most in practice; power of two */

struct pymem_ops {
	/*
	 * Reads `count` pages at the given addresses into ret, one after the other. Returns how many from the first on
	 * were read: the next one is not readable. Negative errno if the process cannot be read at all.
	 */
	ssize_t (*read)(void *arg, const uint64_t *pages, size_t count, uint8_t *ret);
};

struct pymem;

/* The ops and arg must outlive it. NULL: out of memory. */
struct pymem *pymem_new(const struct pymem_ops *ops, void *arg);
void pymem_free(struct pymem *memory);
/* Drops all pages. */
void pymem_forget(struct pymem *memory);
/* -EFAULT: not readable. -ENOBUFS: more pages than the bound. Else errors of the process: -ESRCH, -EPERM. */
int pymem_read(struct pymem *memory, uint64_t address, void *ret, size_t size);
int pymem_u64(struct pymem *memory, uint64_t address, uint64_t *ret);
/* Reads the pages of these addresses together; what is not readable is skipped. */
void pymem_prefetch(struct pymem *memory, const uint64_t *addresses, size_t count);
struct pymem_piece {
	uint64_t address;
	const uint8_t *data;
	size_t size;
};
/* Until it is called again, only these pieces are read, each for itself. They belong to the caller. 0: the memory
 * again. */
void pymem_pieces(struct pymem *memory, const struct pymem_piece *pieces, size_t count);
/* Since pymem_new(). */
uint64_t pymem_reads(const struct pymem *memory);
uint64_t pymem_pages(const struct pymem *memory);

/* Reads pid's memory; arg: pointer to the pid_t. */
extern const struct pymem_ops pymem_process;

#endif
