/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of /proc/PID/maps. The process decides how many there are and what their paths say; reading may wait for
 * its memory lock.
 */
#ifndef RANKTRACE_BASE_PROC_MAPS_H
#define RANKTRACE_BASE_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process with the kernel's default limit of 65,530 mappings has 7 MB with paths of 100 bytes; PyTorch has 0.3 MB. */
#define PROC_MAPS_BYTES_MAX (16u << 20)

struct proc_map {
	uint64_t start, end, offset;
	uint32_t device_major, device_minor;
	uint64_t inode; /* 0: no file */
	bool readable, executable;
	bool deleted;	  /* or replaced */
	const char *path; /* without " (deleted)"; "[...]": a name of the kernel's; empty: none */
};

/* Of a line, which is changed: the path lies in it. False: not a line of maps. */
bool proc_map_parse(char *line, struct proc_map *ret);
/* Until on_map returns false. 0, -EFBIG (the rest was not read), or the errno of opening or reading. */
int proc_maps_each(
	const char *proc_root, uint32_t pid, bool (*on_map)(void *arg, const struct proc_map *map), void *arg);

#endif
