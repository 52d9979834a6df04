/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of the worker (daemon/reader_main.c): reads what processes say of themselves (rank_read.c), and whether
 * tracked ones are still the same (rank_watch.c). A task is one of these where _is_question() says so; _serve() writes
 * its answer: 0 or a negative errno.
 */
#ifndef RANKTRACE_DAEMON_RANKS_RANK_WORKER_H
#define RANKTRACE_DAEMON_RANKS_RANK_WORKER_H

#include <stdbool.h>

struct worker_task;

bool rank_read_is_question(const struct worker_task *task);
int rank_read_serve(const struct worker_task *task);
bool rank_watch_is_question(const struct worker_task *task);
int rank_watch_serve(const struct worker_task *task);

#endif
