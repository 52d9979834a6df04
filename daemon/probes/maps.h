/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a process maps, from /proc/PID/maps, and opening the very file that is mapped. Both may block and cost
 * what the process wants: they run in a worker (reader.h).
 */
#ifndef RANKTRACE_DAEMON_PROBES_MAPS_H
#define RANKTRACE_DAEMON_PROBES_MAPS_H

#include "daemon/probes/libraries.h"

/* A process with the kernel's default limit of 65,530 mappings has 7 MB with paths of 100 bytes; PyTorch has 0.3 MB. */
#define MAPS_BYTES_MAX (16u << 20)
#define MAPS_FILES_MAX 512
#define MAPS_PATH_BYTES_MAX 4096
#define MAPS_PATTERN_BYTES 128

struct mapping {
	uint64_t start, end;
	struct library_id id;
	bool deleted; /* or replaced */
	char *path;   /* without " (deleted)" */
};

struct maps {
	size_t count, capacity;
	struct mapping *mapping; /* executable, each file once */
	bool cut;		 /* the process has more than one of the limits */
};

/* Of a line of maps, which is changed: the path lies in it. False: no executable mapping of a file. */
bool maps_parse_line(char *line, struct mapping *ret);
/* Files whose base name matches one of the patterns. -ENOENT, -ESRCH, -EACCES. */
int maps_read(const char *proc_root, uint32_t pid, const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns,
	struct maps *ret);
void maps_free(struct maps *maps);

struct mapped_file {
	int fd;			     /* O_PATH: neither holds nor flushes anything when it is closed */
	struct library_id id;	     /* as fstat() says: on overlays not as in maps */
	struct timespec changed;
	uint64_t size_bytes;
	bool overlay;
};

/*
 * Opens what is mapped: through map_files, or by its path, in the root of the process. A path may lead elsewhere by now
 * or on purpose; what it leads to is compared with the mapping. Errors tell only that it cannot be opened: -ESTALE, or
 * -EINVAL for what is no regular file.
 */
int mapped_file_open(const char *proc_root, uint32_t pid, const struct mapping *mapping, struct mapped_file *ret);
/* For reading. */
int mapped_file_reopen(int path_fd);

#endif
