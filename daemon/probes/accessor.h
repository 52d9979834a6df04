/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a library keeps what its own accessor hands out. Layouts of a library's structures change with its version and
 * its build, and are no part of its interface; a function that returns one of their members is. So the function's code is
 * read instead of guessing, in three shapes:
 *
 *   return object->member;                 the object is the first argument, or `this` (also `return counter++`)
 *   *out = object->member; return ...;     out is the second argument
 *   return object->part->member;           asked for by accessor_*_part(): the offset in the part
 *
 * The code is followed from its entry along every branch, with what is known of registers and stack slots: the two
 * arguments, constants, and members that were loaded. Calls in between (checks, ranges of a profiler) lose only what
 * calls may change. Where two ways lead to different answers, or to one that is not known, there is no answer.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ACCESSOR_H
#define RANKTRACE_DAEMON_PROBES_ACCESSOR_H

#include "daemon/probes/elf_file.h"

#define ACCESSOR_CODE_BYTES_MAX 8192

struct accessor {
	int32_t offset;	    /* of the member, in bytes */
	uint8_t size_bytes; /* as it is loaded */
};

/* -ENOENT: it hands out no member that we see. -ENOTUNIQ: what it hands out is not always the same. -EILSEQ, -E2BIG:
 * its code cannot be read, is too long or too winding. */
int accessor_read(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret);
/* Of the function that the pattern names in this file. -ENXIO: there is none. */
int accessor_find(struct elf_file *file, const char *pattern, struct accessor *ret);
/* The same of functions that hand out a member of what a member of their object points to. */
int accessor_read_part(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret);
int accessor_find_part(struct elf_file *file, const char *pattern, struct accessor *ret);
/* What went wrong, in words that follow the function's name. */
const char *accessor_trouble(int error);

#endif
