/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a process maps, from /proc/PID/maps, and opening the very file that is mapped. Both may block and cost
 * what the process wants: they run in a worker (reader.h).
 */
#ifndef RANKTRACE_DAEMON_PROBES_MAPS_H
#define RANKTRACE_DAEMON_PROBES_MAPS_H

#include "daemon/probes/libraries.h"

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
};

/* Files whose base name matches one of the patterns, up to the limits. -ENOENT, -ESRCH, -EACCES. */
int maps_read(const char *proc_root, uint32_t pid, const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns,
	struct maps *ret);
void maps_free(struct maps *maps);

/*
 * The file system on which an open file of a process lies. Reading that may wait for the process: in a worker.
 *
 * A probe needs the page of its function. The kernel reads it while it holds every fork() of the node (dup_mmap_sem in
 * kernel/events/uprobes.c), so a file server that does not answer then stops the node. Root's file servers are as good
 * as root wants them to be; one that a user runs (FUSE, or an overlay over it, which he mounts in a user namespace of
 * his own) is not.
 */

struct mount {
	uint64_t device;    /* as in /proc/PID/maps: major << 32 | minor. On btrfs not that of stat() */
	uint64_t server_id; /* FUSE: the user who mounted it, in numbers of the mount's user namespace; else 0 */
};

/* Of a line of /proc/PID/mountinfo, which has the number *ret_id. False: no such line. */
bool mount_parse(const char *line, unsigned *ret_id, struct mount *ret);
/* -ENOENT: none of the process's mounts. */
int mount_of_file(const char *proc_root, uint32_t pid, int fd, struct mount *ret);
/* May a user serve the file's pages? True where that cannot be found out. */
bool mount_is_user_served(const char *proc_root, uint32_t pid, int fd);

struct mapped_file {
	int fd;		      /* O_PATH: neither holds nor flushes anything when it is closed */
	struct library_id id; /* as fstat() says: on overlays not as in maps */
	struct timespec changed;
	uint64_t size_bytes;
	bool overlay;
	bool user_served; /* mount_is_user_served() */
};

/*
 * Opens what is mapped: through map_files, or by its path, in the root of the process. A path may lead elsewhere by now
 * or on purpose; what it leads to is compared with the mapping. Errors say only that it cannot be opened: -ESTALE, or
 * -EINVAL for what is no regular file.
 */
int mapped_file_open(const char *proc_root, uint32_t pid, const struct mapping *mapping, struct mapped_file *ret);
/* For reading. */
int mapped_file_reopen(int path_fd);

#endif
