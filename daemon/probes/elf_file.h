/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a library file: function symbols of .dynsym and .symtab, and USDT notes, through libelf. Nothing in the file
 * is trusted: out-of-range offsets are skipped, loops bounded; a damaged file is an error.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ELF_FILE_H
#define RANKTRACE_DAEMON_PROBES_ELF_FILE_H

#include "daemon/base/util.h"

/*
 * Shell patterns of the probe tables: * is any text, ? any character. No brackets, no escapes: mangled names contain
 * none. Time is at most proportional to the product of both lengths.
 */

bool pattern_matches(const char *pattern, const char *text);
/* Length of the pattern's literal prefix; the whole length without wildcards. */
size_t pattern_literal_bytes(const char *pattern);

struct elf_file;

enum elf_machine { ELF_MACHINE_X86_64, ELF_MACHINE_AARCH64 };

struct elf_symbol {
	const char *name;     /* owned by the file */
	uint64_t file_offset; /* of the first byte */
	uint64_t size_bytes;  /* 0 if unspecified */
};

/* Operand of a USDT probe, from the note's text: 4@112(%rsp), -8@%r12, 8@$5 (x86-64); -8@[sp, 16], 4@x0 (aarch64). */
struct usdt_operand {
	uint8_t size_bytes; /* 1, 2, 4, 8 */
	bool is_signed;
	enum { USDT_REG, USDT_DEREF, USDT_CONST, USDT_UNKNOWN } where;
	/*
	 * slot of the register in struct pt_regs (x86-64: r15=0 .. rsp=19, rip=16; aarch64 user_pt_regs: x0=0 ..
	 * x30=30, sp=31)
	 */
	uint8_t reg;
	int64_t offset; /* of USDT_DEREF; the value of USDT_CONST */
};

#define USDT_OPERANDS_MAX 12
#define ELF_MATCHES_MAX 65536
#define ELF_NAME_BYTES_MAX 4096 /* symbols with longer names are skipped */

struct usdt_site {
	uint64_t file_offset;
	uint64_t semaphore_offset; /* file offset, 0 if none */
	unsigned operands;
	struct usdt_operand operand[USDT_OPERANDS_MAX];
};

/* fd is the caller's. -ENOEXEC: not a supported ELF file (64 bit, little endian, x86-64 or aarch64). */
int elf_file_open(int fd, struct elf_file **ret);
struct elf_file *elf_file_close(struct elf_file *file);
DEFINE_CLEANUP(struct elf_file *, elf_file_close)
enum elf_machine elf_file_machine(const struct elf_file *file);

/*
 * First defined function that equals or, with wildcards, matches the pattern; .dynsym before .symtab. Of several
 * matches, the lowest file offset wins. -ENOENT: none.
 */
int elf_file_find(struct elf_file *file, const char *pattern, struct elf_symbol *ret);
/* Many patterns in one pass: found[i] says whether ret[i] is set. Returns the number found. */
int elf_file_find_all(
	struct elf_file *file, const char *const *patterns, size_t count, struct elf_symbol *ret, bool *found);

/*
 * All functions matching the pattern, one for each address, sorted by file offset; writes at most max, returns the
 * number (at most ELF_MATCHES_MAX), or -errno. Reads .symtab only without a match in .dynsym.
 */
int elf_file_find_every(struct elf_file *file, const char *pattern, struct elf_symbol *ret, size_t max);

/* All sites of provider:name, at most max; returns their number, or -errno. */
int elf_file_usdt(struct elf_file *file, const char *provider, const char *name, struct usdt_site *ret, size_t max);

/* Operands of a note's text; returns their number. Unsupported ones are USDT_UNKNOWN. */
unsigned usdt_parse_operands(enum elf_machine machine, const char *text, struct usdt_operand *ret, unsigned max);

/* Bytes at a file offset, at most max and within the section; returns their number, or -errno. */
int elf_file_bytes(struct elf_file *file, uint64_t file_offset, uint8_t *ret, size_t max);

#endif
