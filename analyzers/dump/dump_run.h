/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps rows of the store to sysTrace's files, one file for each rank's process and level, in one pass and bounded
 * memory.
 *  - Extending the daemon's folder: rows written since the last dump are added to the files of the present window; a
 * new window (every window_ns by the clock, or once a level's files reach an eighth of bytes_max) begins with new
 * files; earlier windows are kept within bytes_max and age_max_ns. Each row comes once, however late it was written and
 *    however a dump ended, as long as the store has it. On a nearly full disk old windows are removed first; then
 * nothing is written.
 *  - Writing a separate folder: rows from since_ns on.
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
 * IPv4 address that identifies a node in sysTrace's files: the node's own on the network of its default route, else the
 * first non-loopback one, else 127.0.0.1. Read from /proc/1/net: the daemon's unit has a private network and Unix
 * sockets only.
 */

#define NODE_ADDRESS_BYTES 16

/* net_dir: "/proc/1/net" or a folder of the same layout. */
void node_address(const char *net_dir, char ret[NODE_ADDRESS_BYTES]);

struct dump_options {
	const char *state_dir, *dir;
	unsigned kinds; /* a bit a kind */
	struct ranges ranks;
	bool extend;
	uint64_t now_ns, since_ns; /* since_ns: of a separate folder */
	uint64_t window_ns, bytes_max, age_max_ns;
	void (*warning)(void *arg, const char *sentence);
};

struct dump_result {
	struct dump_files *files; /* for dump_files_get(); owned by the caller, NULL after a failure */
	uint64_t rows;
	uint64_t left_out; /* rows beyond DUMP_FILES_MAX, and oversized records */
	uint64_t failed;   /* failed allocations, which sysTrace's files do not hold */
	bool behind;	   /* more rows than one dump may write */
};

/* Returns 0 or a negative errno with the sentence in error. */
int dump_run(const struct dump_options *options, struct dump_result *ret, char *error, size_t error_size);

#endif
