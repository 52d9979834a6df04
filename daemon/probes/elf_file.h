/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a library file: function symbols from .dynsym and .symtab, and USDT notes, through libelf, with every number
 * that comes from the file checked. The file may be wrong or malicious: out-of-range offsets are skipped, loops bounded,
 * and a damaged file is an error, never a crash.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ELF_FILE_H
#define RANKTRACE_DAEMON_PROBES_ELF_FILE_H

#include "daemon/base/util.h"

/*
 * Shell patterns of the probe tables: * is any text, ? any one character, everything else itself. No brackets, no
 * escapes: mangled names hold none. Takes time in proportion to the two lengths multiplied, whatever the input.
 */

bool pattern_matches(const char *pattern, const char *text);
/* How many characters at the pattern's start stand for themselves; its length if it has no wildcard. */
size_t pattern_literal_bytes(const char *pattern);

struct elf_file;

enum elf_machine { ELF_MACHINE_X86_64, ELF_MACHINE_AARCH64 };

struct elf_symbol {
	const char *name;      /* lives as long as the file */
	uint64_t file_offset;  /* of its first byte */
	uint64_t size_bytes;   /* 0 if the symbol does not say */
};

/* One operand of a USDT probe, as the note's text says: 4@112(%rsp), -8@%r12, 8@$5 (x86-64); -8@[sp, 16], 4@x0 (aarch64). */
struct usdt_operand {
	uint8_t size_bytes;    /* 1, 2, 4, 8 */
	bool is_signed;
	enum { USDT_REG, USDT_DEREF, USDT_CONST, USDT_UNKNOWN } where;
	uint8_t reg;           /* slot of the register in the kernel's struct pt_regs (x86-64: r15=0 .. rsp=19, rip=16;
				  aarch64 user_pt_regs: x0=0 .. x30=30, sp=31) */
	int64_t offset;        /* of USDT_DEREF; the value of USDT_CONST */
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

/* fd stays the caller's. -ENOEXEC: not an ELF file of a machine we know (64 bit, little endian, x86-64 or aarch64). */
int elf_file_open(int fd, struct elf_file **ret);
struct elf_file *elf_file_close(struct elf_file *file);
enum elf_machine elf_file_machine(const struct elf_file *file);

/* First defined function whose name equals or, with wildcards (* ?), matches the pattern; .dynsym first, then .symtab.
 * Where several match a pattern, the one with the lowest file offset wins. -ENOENT: none. */
int elf_file_find(struct elf_file *file, const char *pattern, struct elf_symbol *ret);
/* Many patterns in one pass over the tables: found[i] says whether ret[i] is filled. Returns how many were found. */
int elf_file_find_all(struct elf_file *file, const char *const *patterns, size_t count, struct elf_symbol *ret, bool *found);

/* All functions whose name matches the pattern, one for each place, sorted by file offset; at most max are written, returns
 * how many there are (never above ELF_MATCHES_MAX), or -errno. .symtab is read only if .dynsym has none. */
int elf_file_find_every(struct elf_file *file, const char *pattern, struct elf_symbol *ret, size_t max);

/* All places of provider:name, at most max; returns how many there are, or -errno. */
int elf_file_usdt(struct elf_file *file, const char *provider, const char *name, struct usdt_site *ret, size_t max);

/* Operands from a note's text; returns how many. What it cannot say becomes USDT_UNKNOWN. */
unsigned usdt_parse_operands(enum elf_machine machine, const char *text, struct usdt_operand *ret, unsigned max);

/* Bytes at a file offset, at most max and never past the end of its section; returns how many, or -errno. */
int elf_file_bytes(struct elf_file *file, uint64_t file_offset, uint8_t *ret, size_t max);
/* "" if it has none. */
const char *elf_file_build_id(const struct elf_file *file);

#endif
