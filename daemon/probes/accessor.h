/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the member that a library's own accessor returns. Layouts of a library's structures change with version and
 * build and are no interface; a function that returns a member is. So its code is analyzed, in three forms:
 *
 *   return object->member;           object: first argument, or `this` (also `return counter++`)
 *   *out = object->member; return ...;  out: second argument
 *   return object->part->member;     for accessor_*_part(): offset within the part
 *
 * Every branch is followed from the entry, tracking registers and stack slots: the two arguments, constants, loaded
 * members. Calls on the way (checks, profiler ranges) clobber only what calls may change. If paths disagree or one is
 * unknown, there is no answer.
 */
#ifndef RANKTRACE_DAEMON_PROBES_ACCESSOR_H
#define RANKTRACE_DAEMON_PROBES_ACCESSOR_H

#include "daemon/probes/elf_file.h"

#define ACCESSOR_CODE_BYTES_MAX 8192

struct accessor {
	int32_t offset;	    /* of the member, in bytes */
	uint8_t size_bytes; /* of the load */
};

/*
 * -ENOENT: returns no recognizable member. -ENOTUNIQ: returns different members. -EILSEQ, -E2BIG: undecodable, too
 * long or too branched.
 */
int accessor_read(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret);
/* Of the function matching the pattern in this file. -ENXIO: none. */
int accessor_find(struct elf_file *file, const char *pattern, struct accessor *ret);
/* Accessors of a member of the object that a member points to. */
int accessor_read_part(enum elf_machine machine, const uint8_t *code, size_t size_bytes, struct accessor *ret);
int accessor_find_part(struct elf_file *file, const char *pattern, struct accessor *ret);
/* Reason of an error, as a predicate of the function's name. */
const char *accessor_reason(int error);

#endif
