/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of the store to the bytes of one record of sysTrace's files. Pure. The bytes of a protobuf file are whole
 * messages, so that they may be appended to what is there.
 */
#ifndef RANKTRACE_DUMP_ENCODE_H
#define RANKTRACE_DUMP_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/dump/dump_text.h"

/* Bytes that one record takes at most. */
#define DUMP_RECORD_BYTES 8192
/* The first line of an L1 file, with its newline. */
extern const char dump_csv_header[];

#define DUMP_UNKNOWN INT64_MIN

struct dump_stage {
	int64_t step; /* DUMP_UNKNOWN: none, as in all of these */
	const char *stage, *name;
	int64_t start_ns, duration_ns;
};

struct dump_op {
	uint64_t id;
	const char *communicator, *op, *dtype; /* NULL if not known */
	int64_t count;
	int64_t host_start_ns, host_duration_ns, device_start_ns, device_duration_ns;
	int64_t pid, thread_id, device;
};

struct dump_memory {
	const char *op, *stage;
	int64_t address, bytes, step;
};

struct dump_offcpu {
	int64_t rank, thread_id, start_ns, duration_ns, next_pid;
	uint64_t run_delay_ns; /* of the thread, so far in the file */
	const char *thread_name, *next_name;
};

/* Each returns the bytes written into ret, at most DUMP_RECORD_BYTES. What a number cannot be (below 0) becomes 0. */
size_t dump_encode_timeline_head(int64_t rank, const char *job, uint8_t *ret);
size_t dump_encode_stage(const struct dump_stage *stage, uint8_t *ret);
size_t dump_encode_op(const struct dump_op *op, uint8_t *ret);
size_t dump_encode_memory_head(int64_t rank, uint8_t *ret);
size_t dump_encode_memory(const struct dump_memory *memory, uint8_t *ret);
size_t dump_encode_offcpu(const struct dump_offcpu *offcpu, uint8_t *ret);

#endif
