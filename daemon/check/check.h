/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preflight: what this node permits, what each level can and cannot record on it, and how to fix that. check.c has one
 * table with one row per check. Works in a running daemon and without one. Attaches nothing.
 */
#ifndef RANKTRACE_DAEMON_CHECK_CHECK_H
#define RANKTRACE_DAEMON_CHECK_CHECK_H

#include "daemon/base/util.h"

struct context;

enum check_verdict { CHECK_OK, CHECK_LIMITED, CHECK_MISSING, CHECK_VERDICT_MAX };

#define CHECK_ITEMS_MAX 64u

struct check_item {
	char topic[32];
	enum check_verdict verdict;
	char sentence[512];
	char advice[256]; /* "" if nothing is to be done */
	bool about_ranks; /* names users, processes or files of ranks */
};

struct check_list {
	unsigned count;
	struct check_item item[CHECK_ITEMS_MAX];
};

/* context->kernel, collectors and ranks may be NULL. */
void check_run(const struct context *context, struct check_list *ret);

/* Text for people or a JSON array. Returns the number of missing items, or a negative errno. */
int check_print(FILE *f, const struct context *context, bool json);

#endif
