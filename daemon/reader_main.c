/* SPDX-License-Identifier: Apache-2.0 */
/* libexec/ranktrace/worker/reader: the worker that reads processes (ranks/rank_read.c), communicators in their memory
 * (coll/comm_reader.h), maps and library files of ranks (probes/reader.h). */
#include "daemon/coll/comm_reader.h"
#include "daemon/probes/reader.h"
#include "daemon/ranks/rank_worker.h"

static int reader_main_serve(const struct worker_task *task)
{
	if (rank_read_is_question(task))
		return rank_read_serve(task);
	if (rank_watch_is_question(task))
		return rank_watch_serve(task);
	return comm_reader_is_question(task) ? comm_reader_serve(task) : reader_serve(task);
}

int main(int argc, char **argv)
{
	return worker_child_main(argc, argv, reader_main_serve);
}
