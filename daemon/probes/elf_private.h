/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by elf_file.c, elf_symbols.c and elf_usdt.c: an open file with copied and checked headers. */
#ifndef RANKTRACE_DAEMON_PROBES_ELF_PRIVATE_H
#define RANKTRACE_DAEMON_PROBES_ELF_PRIVATE_H

#include <elf.h>
#include "daemon/probes/elf_file.h"

/* Range of a section, within the file's size at opening. size_bytes 0: absent. */
struct elf_range {
	uint64_t offset, size_bytes;
};

/* Symbols and names, loaded on first use, kept until close. */
struct elf_table {
	struct elf_range symbols, names;
	bool is_loaded;
	uint8_t *symbol;
	size_t count;
	char *name; /* name_bytes bytes and an added NUL */
	size_t name_bytes;
};

struct elf_segment {
	uint64_t vaddr, offset, size_bytes; /* size in the file */
};

#define ELF_SEGMENTS_MAX 64
#define ELF_CODES_MAX 64

struct elf_file {
	int fd;
	uint64_t size_bytes;
	enum elf_machine machine;
	struct elf_segment segment[ELF_SEGMENTS_MAX];
	size_t segments;
	struct elf_range code[ELF_CODES_MAX]; /* executable sections */
	size_t codes;
	struct elf_table dynamic, full;
	struct elf_range usdt_notes;
	uint64_t usdt_base;   /* address of .stapsdt.base, 0 if none */
	uint64_t table_bytes; /* read so far */
	uint64_t work_bytes;  /* of names compared with patterns */
};

/* Reads a range into new memory with a NUL appended. -EFBIG above max_bytes, -EBADMSG if the file shrank. */
int elf_read_range(const struct elf_file *file, const struct elf_range *range, uint64_t max_bytes, uint8_t **ret);
bool elf_file_offset(const struct elf_file *file, uint64_t vaddr, uint64_t *ret);
bool elf_is_code(const struct elf_file *file, uint64_t file_offset, uint64_t *ret_left_bytes);

void elf_table_free(struct elf_table *table);

#endif
