/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of libexec/ranktrace: errors and warnings, the location of the store, and how users write
 * times, ranks and durations. Exit codes: 0 done, 1 failed, 2 usage; with 1 and 2 one sentence on stderr.
 */
#ifndef RANKTRACE_TOOL_TOOL_H
#define RANKTRACE_TOOL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/base/ranges.h"

#define TOOL_TEXT_BYTES 32

/* First thing in main(): sentences, getopt's too, begin with "NAME: ", under tracectl with "tracectl NAME: "; and
 * `NAME | head` ends with a sentence, not with a signal. */
void tool_begin(const char *name, char **argv);
/* That beginning. */
const char *tool_name(void);
/* "NAME: SENTENCE" on stderr, one printable line; returns status. */
int tool_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As tool_fail(), of a usage error, and says where the help is. Returns 2. */
int tool_fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Last in a program that writes to stdout: 0, or 1 with the sentence after a write error. */
int tool_written(void);
/* That the file cannot be written, for the negative errno. Returns 1. */
int tool_fail_write(const char *path, int error);
/*
 * Writes WHAT ("the profile") to the file, which is replaced when it is whole; output NULL or "-": to stdout, but what
 * is for no terminal not to one. write: 0 or a negative errno. 0, or the exit code after a sentence.
 */
int tool_save(const char *what, const char *output, bool for_terminal, int (*write)(const void *arg, FILE *out),
	const void *arg);
/* For struct reader_options.warning. Prints each sentence once. */
void tool_warn(void *arg, const char *sentence);
/* --version; returns the exit code. */
int tool_version(void);
/* --help; returns the exit code. */
int tool_usage(const char *text);
/*
 * After the arguments were found good: the store named by them, or by RANKTRACE_STATE_DIR, else that of the installed
 * daemon. 0, or the exit code with the sentence that tracectl has left (RANKTRACE_STATE_ERROR, see ctl/external.c).
 */
int tool_state_dir(const char *named, const char **ret);

/* A time before now (units_parse_duration()) or a date ("2026-11-21", with "12:30" or "12:30:15" after a blank or a T,
 * of the local zone), as ns since the epoch. -EINVAL. */
int tool_since(const char *text, uint64_t now_ns, uint64_t *ret_ns);
uint64_t tool_now_ns(void);

/* "2026-11-21 12:30:15" of the local zone. */
const char *tool_time(uint64_t ns, char buffer[TOOL_TEXT_BYTES]);

#endif
