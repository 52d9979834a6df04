/* SPDX-License-Identifier: Apache-2.0 */
/* How a process ended, in words, and whether that is an error. Pure. */
#ifndef RANKTRACE_DAEMON_RANKS_END_WORDS_H
#define RANKTRACE_DAEMON_RANKS_END_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_WORDS_BYTES 64u
#define END_STATUS_UNKNOWN (-1)

enum end_kind {
	END_NORMAL,  /* status 0 */
	END_ERROR,   /* a fault, an abort, another status */
	END_ASKED,   /* by a signal that asks a process to end, or kills it: an error if others of its job go on */
	END_UNKNOWN,
};

/* wait_status: as wait(2) gives it; END_STATUS_UNKNOWN. */
enum end_kind end_kind_of(int wait_status);
/* "SIGSEGV"; "signal 40". */
const char *end_signal_words(uint32_t signal, char ret[END_WORDS_BYTES]);
/* "SIGSEGV", "exit status 1, ValueError"; exception: the type of one that nobody caught, "" without. */
const char *end_words(int wait_status, const char *exception, char ret[END_WORDS_BYTES]);

#endif
