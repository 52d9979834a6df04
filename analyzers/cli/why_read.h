/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `tracectl why` share: what is asked for, and what the store has of it. */
#ifndef RANKTRACE_CLI_WHY_READ_H
#define RANKTRACE_CLI_WHY_READ_H

#include "analyzers/base/stack.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_rows.h"
#include "analyzers/why/why.h"

#define WHY_FILES_SHOWN 3
#define WHY_FILE_BYTES 128 /* of a name of file_calls */

/* Slow calls of the rank on one file, of all its threads. */
struct cmd_why_file {
	char operation[16], name[WHY_FILE_BYTES];
	double ns; /* in the chosen time */
	int64_t calls;
	double chosen_ns, usual_ns; /* a step, in the mean */
};

#define WHY_CAUSES_SHOWN 16
#define WHY_CAUSE_BYTES 32

/* What the step thread was blocked on; what the kernel did to the rank, in time, or how often where it has none. */
enum cmd_why_cause_kind { WHY_CAUSE_KERNEL, WHY_CAUSE_BLOCKED, WHY_CAUSE_COUNTED };

struct cmd_why_cause {
	enum cmd_why_cause_kind kind;
	char name[WHY_CAUSE_BYTES];
	double chosen, usual; /* ns, or number: a step, in the mean */
};

#define WHY_PLACES_SHOWN 3
#define WHY_PLACES_MAX 32 /* of which what grew most is shown */
#define WHY_PLACE_FRAMES 3
#define WHY_PLACE_BYTES STACK_PLACE_BYTES

/* Where the step thread was: blocked in the kernel, "INNER < OUTER < ...", or in Python in long system calls, "FUNCTION
 * (FILE:LINE)". */
struct cmd_why_place {
	char name[WHY_PLACE_BYTES];
	double chosen_ns, usual_ns; /* a step, in the mean */
};

struct cmd_why {
	const char *state_dir, *job;
	struct ranges ranks; /* one */
	uint64_t since_ns, until_ns;
	uint64_t step; /* 0: a time */
	bool json;
	struct reader *reader;
	struct why *why;
	int64_t instance, thread, pid; /* 0: unknown */
	size_t files;
	struct cmd_why_file file[WHY_FILES_SHOWN];
	double chosen_steps, usual_steps; /* of the causes */
	size_t causes;
	struct cmd_why_cause cause[WHY_CAUSES_SHOWN];
	size_t places, lines;
	struct cmd_why_place place[WHY_PLACES_MAX], line[WHY_PLACES_MAX]; /* what grew most, first */
	double swapped_bytes; /* of the rank's memory, the most in the chosen time; NAN: not measured */
};

/* Each: 0, or the exit code after a sentence. */
/* With a step: its time. */
int cmd_why_find_step(struct cmd_why *cmd);
/* Says why there are none of the rank in the time; returns 1. */
int cmd_why_no_steps(struct cmd_why *cmd);
/* All frames around the time. */
int cmd_why_feed(struct cmd_why *cmd);
/* What the step thread went through; nothing where L3 was off. */
int cmd_why_read_thread(struct cmd_why *cmd);
/* The costliest files and causes; none where L3 was off. */
int cmd_why_read_details(struct cmd_why *cmd, const struct why_result *result);

void cmd_why_text(FILE *f, const struct cmd_why *cmd, const struct why_result *result);
int cmd_why_json(const struct cmd_why *cmd, const struct why_result *result);

#endif
