/* SPDX-License-Identifier: Apache-2.0 */
/* How a process ended, in words, and whether that is an error. Pure. */
#ifndef RANKTRACE_DAEMON_RANKS_END_WORDS_H
#define RANKTRACE_DAEMON_RANKS_END_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_WORDS_BYTES 96u
#define END_STATUS_UNKNOWN (-1)

enum end_kind {
	END_NORMAL, /* status 0 */
	END_ERROR,  /* a fault, an abort, another status */
	END_ASKED,  /* by a signal that asks a process to end, or kills it: an error if others of its job go on */
	END_UNKNOWN,
};

/* Who sent the newest signal that asks a process to end. */
struct end_sender {
	uint32_t signal; /* 0: none was seen */
	uint32_t pid;	 /* 0: the kernel */
	bool out_of_memory;
	char name[16]; /* of the process */
};

/* wait_status: as wait(2) gives it; END_STATUS_UNKNOWN. sender: NULL or not of the signal that ended it: not known. */
enum end_kind end_kind_of(int wait_status, const struct end_sender *sender);
/* The kernel ended it to free memory. */
bool end_is_out_of_memory(int wait_status, const struct end_sender *sender);
/* "SIGSEGV"; "signal 40". */
const char *end_signal_words(uint32_t signal, char ret[END_WORDS_BYTES]);
/* "SIGSEGV"; "SIGTERM from bash (pid 4711)"; "SIGKILL from the kernel, out of memory"; "exit status 1, ValueError".
 * exception: the type of one that nobody caught, "" without. */
const char *end_words(
	int wait_status, const char *exception, const struct end_sender *sender, char ret[END_WORDS_BYTES]);

#endif
