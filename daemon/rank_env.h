/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's environment says about its rank: pure parsing of a NUL-separated block, no I/O. */
#ifndef RANKTRACE_RANK_ENV_H
#define RANKTRACE_RANK_ENV_H

#include "daemon/ranks.h"

#define RANK_ENV_NUMBER_MAX 1000000 /* ranks of a job, cards of a node */

/*
 * Fills *ret with what the block says; what it does not say, or says in nonsense, is -1 or "". The first launcher of
 * the table that gives a valid rank wins. The block needs no terminator.
 */
void rank_env_parse(const char *block, size_t size_bytes, struct rank_env *ret);

#endif
