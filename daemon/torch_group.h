/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch calls a process group: read from the memory of its process, see cxx_memory.h. */
#ifndef RANKTRACE_TORCH_GROUP_H
#define RANKTRACE_TORCH_GROUP_H

#include "daemon/cxx_memory.h"

/* Of the object of a class made of c10d::Backend, which in newer versions keeps a number and a description of the group: its
 * first two strings. ret gets the description, "" where there is none ("undefined" is PyTorch's word for none). */
void torch_group_name(struct cxx_memory *memory, const struct cxx_object *group, char *ret, size_t size);

/* The same of the c10d::ProcessGroupNCCL at that address. -ENOENT: there is none; else as cxx_read_object(). */
int torch_group_nccl_name(uint32_t pid, uint64_t address, char *ret, size_t size);

#endif
