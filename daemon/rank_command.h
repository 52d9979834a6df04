/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's arguments say: pure parsing of the block of /proc/PID/cmdline, no I/O. */
#ifndef RANKTRACE_RANK_COMMAND_H
#define RANKTRACE_RANK_COMMAND_H

#include "daemon/util.h"

/* Whether this starts training processes instead of training: torchrun, mpirun, `python -m torch.distributed.run` ...
 */
bool rank_command_is_launcher(const char *block, size_t size_bytes);
/* Whether exe (a path) is an interpreter that may load a training library at any time. */
bool rank_command_is_interpreter(const char *exe);
/* The arguments joined by blanks, printable and cut. */
void rank_command_join(const char *block, size_t size_bytes, char *ret, size_t size);

#endif
