/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number that the marks of one operation share in an L1 file. sysTrace's readers want it unique in a rank's file,
 * rising with time, and equal on all ranks that take part in the operation, whose marks they then link. Here ranks of
 * one node are given the same number where (communicator, number, operation) is the same; pure, of bounded memory: the
 * newest DUMP_IDS_MAX operations are remembered.
 */
#ifndef RANKTRACE_DUMP_IDS_H
#define RANKTRACE_DUMP_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define DUMP_IDS_MAX 65536 /* a power of two */

struct dump_ids;

/* next: the first number to give, from 1. NULL: no memory. */
struct dump_ids *dump_ids_new(uint64_t next);
struct dump_ids *dump_ids_free(struct dump_ids *ids);

struct dump_op_key {
	const char *communicator;
	const char *op;
	int64_t seq;
	int64_t peer; /* -1: none */
	bool joins;   /* whether all of it is known, so that it may be another rank's operation, too */
};
/* member: a number of the rank's file; no two calls with one member and one key get the same number. */
uint64_t dump_ids_of(struct dump_ids *ids, const struct dump_op_key *key, uint64_t member);
uint64_t dump_ids_next(const struct dump_ids *ids);

#endif
