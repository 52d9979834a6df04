/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a library file says about rows of the probe tables: which functions and USDT probes it has, where they begin and
 * return, what its accessors answer. Found by a worker (reader.h), because files of ranks are hostile; site.c makes
 * sites of it. Facts from a worker are hostile, too: facts_decode() checks all of them.
 */
#ifndef RANKTRACE_DAEMON_PROBES_FACTS_H
#define RANKTRACE_DAEMON_PROBES_FACTS_H

#include "daemon/probes/attachment.h"
#include "daemon/probes/table.h"

#define FACTS_SITES_MAX 128	     /* of one file */
#define FACTS_OVERLOADS_MAX 16	     /* sites of one pattern with symbols_all */
#define FACTS_BYTES_MAX (256u << 10) /* encoded */

struct fact_row {
	bool found;
	uint8_t accessor;		     /* the one without an answer, from 1; 0: none. The row is unusable */
	int32_t error;			     /* of that accessor */
	int32_t member[PROBE_ACCESSORS_MAX]; /* offsets found by the row's accessors */
	uint32_t matches;		     /* of symbols_all: most functions that one pattern matches */
};

/* A function, or one site of a USDT probe. */
struct fact_site {
	uint32_t row;
	bool is_usdt;
	bool emulated;		  /* see prologue.h */
	uint32_t entry_delta;	  /* of the breakpoint from the function's first byte */
	uint64_t function_offset; /* in the file */
	uint64_t semaphore_offset;
	int32_t returns; /* their number, or why they were not found (negative errno) */
	uint64_t return_offset[RETURNS_MAX];
	uint32_t operands;
	struct usdt_operand operand[USDT_OPERANDS_MAX];
};

struct facts {
	enum elf_machine machine;
	uint32_t left_out; /* sites beyond FACTS_SITES_MAX, and functions whose code cannot be read */
	size_t rows, sites;
	struct fact_row *row; /* of each row asked for */
	struct fact_site *site;
};

/* Does the reader start from an argument, not from a USDT operand? */
static inline bool probe_reads_argument(const struct rt_call_arg *arg)
{
	return arg->read != RT_READ_FRAME && arg->read != RT_READ_CONST;
}

/* Rows of other libraries are not found. The errors of elf_file.h; -EFBIG: more than a file may have. */
int facts_find(int fd, const char *base_name, const struct probe *probe, size_t count, struct facts *ret);
void facts_free(struct facts *facts);

/* As bytes; the caller frees. */
int facts_encode(const struct facts *facts, uint8_t **ret, size_t *ret_size_bytes);
/* Of these rows and a file of this size; -EBADMSG: anything that facts_find() would not say. */
int facts_decode(const uint8_t *data, size_t size_bytes, uint64_t file_bytes, const struct probe *probe, size_t count,
	struct facts *ret);

#endif
