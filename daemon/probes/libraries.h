/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Library files used by the ranks of this node. A library is an inode, not a path: found in each rank's maps, opened
 * through its root (containers), or through map_files if the file was deleted or replaced. A new inode is a new
 * library; one that no rank maps any longer is dropped.
 *
 * Containers of one image see the same file through overlays with different devices. Probes attach to the underlying
 * file, so probing each would report calls several times: they are one library, together with the file itself if
 * mapped by a rank outside.
 *
 * A file is opened once. If its file system does not answer, the next scan retries (daemon/base/timeout_call.h). Reads
 * of an open file may block.
 */
#ifndef RANKTRACE_DAEMON_PROBES_LIBRARIES_H
#define RANKTRACE_DAEMON_PROBES_LIBRARIES_H

#include "daemon/base/util.h"

#define LIBRARIES_MAX 1024
#define LIBRARY_USERS_MAX 4096

/* A file as in /proc/PID/maps. */
struct library_id {
	uint64_t device; /* major << 32 | minor */
	uint64_t inode;
};

struct library_user {
	int64_t instance;     /* of a rank */
	struct library_id id; /* the file in its maps */
};

struct library {
	struct library_id id;	 /* inode not reused while fd is open; users' inodes not while mapped */
	struct timespec changed; /* change time, with size: identifies a file through overlays */
	uint64_t size_bytes;
	bool overlay;
	char *path;	       /* as seen by the first rank */
	const char *base_name; /* within path, without " (deleted)" */
	int fd;		       /* open for reading */
	void *owner_data;      /* of the callbacks */
	bool touched;	       /* seen in the current scan */
	size_t users, capacity;
	struct library_user *user;
};

struct libraries_ops {
	bool (*wanted)(void *arg, const char *base_name);
	void (*added)(void *arg, struct library *library);
	void (*dropped)(void *arg, struct library *library);
	/* Once for each file that cannot be opened, or exceeds the bound (-ENOSPC). */
	void (*refused)(void *arg, uint32_t pid, const char *path, int error);
	void *arg;
};

struct libraries;

struct libraries *libraries_new(const struct libraries_ops *ops, const char *proc_root); /* NULL: out of memory */
struct libraries *libraries_free(struct libraries *libraries);

/*
 * Reads the process's maps; adds and drops libraries of this instance. Returns their number, or -errno (-ESRCH,
 * -EACCES).
 */
int libraries_scan(struct libraries *libraries, uint32_t pid, int64_t instance);
/* The process ended. */
void libraries_forget(struct libraries *libraries, int64_t instance);
void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg);
bool library_used_by(const struct library *library, int64_t instance);

#endif
