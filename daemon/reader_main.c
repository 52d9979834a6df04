/* SPDX-License-Identifier: Apache-2.0 */
/* libexec/ranktrace/reader: the worker that reads maps and files of ranks (probes/reader.h). */
#include "daemon/probes/reader.h"

int main(int argc, char **argv)
{
	return worker_child_main(argc, argv, reader_serve);
}
