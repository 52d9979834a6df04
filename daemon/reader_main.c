/* SPDX-License-Identifier: Apache-2.0 */
/* libexec/ranktrace/worker/reader: the worker that reads processes (ranks/rank_read.c), maps and library files of ranks
 * (probes/reader.h). */
#include "daemon/probes/reader.h"
#include "daemon/ranks/ranks_internal.h"

static int reader_main_serve(const struct worker_task *task)
{
	return rank_read_is_question(task) ? rank_read_serve(task) : reader_serve(task);
}

int main(int argc, char **argv)
{
	return worker_child_main(argc, argv, reader_main_serve);
}
