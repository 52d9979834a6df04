/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump: rows of the store to sysTrace's files, one file a rank's process and level, in one pass and bounded memory.
 * Two ways:
 *  - extending the daemon's own folder: rows that were written since the last time are added to the files of the
 * present window; a new window (every window_ns by the clock, or where a level's files have reached an eighth of
 * bytes_max) begins with new files; the windows before are kept within bytes_max and age_max_ns. Each row of the store
 * comes once, however late it was written and whatever ended a dump, as long as the store has it. Where little is left
 * of the disk, old windows go first, and then nothing is written.
 *  - writing a folder of one's own: rows of since_ns and later.
 */
#ifndef RANKTRACE_DUMP_DUMP_RUN_H
#define RANKTRACE_DUMP_DUMP_RUN_H

#include "analyzers/tool/tool.h"
#include "analyzers/dump/dump_files.h"
#include "analyzers/store/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The IPv4 address by which sysTrace's files tell nodes apart: the node's own on the network of its default route, else
 * the first that is not of the loopback, else 127.0.0.1. Read from /proc/1/net, because the daemon's unit has a network
 * of its own and no sockets but Unix ones.
 */

#define NODE_ADDRESS_BYTES 16

/* net_dir: "/proc/1/net", or another of the same shape. */
void node_address(const char *net_dir, char ret[NODE_ADDRESS_BYTES]);

struct dump_options {
	const char *state_dir, *dir;
	unsigned kinds; /* a bit a kind */
	struct tool_ranks ranks;
	bool extend;
	uint64_t now_ns, since_ns; /* since_ns: of a folder of one's own */
	uint64_t window_ns, bytes_max, age_max_ns;
	void (*warning)(void *arg, const char *sentence);
};

struct dump_result {
	struct dump_files *files; /* for dump_files_tell(); the caller's, NULL after a failure */
	uint64_t rows;
	uint64_t left_out; /* rows of ranks beyond DUMP_FILES_MAX, and records that did not fit */
	uint64_t failed;   /* allocations that failed: sysTrace's files have no place for them */
	bool behind;	   /* there is more than one dump may write */
};

/* Returns 0 or a negative errno with the sentence in error. */
int dump_run(const struct dump_options *options, struct dump_result *ret, char *error, size_t error_size);

#endif
