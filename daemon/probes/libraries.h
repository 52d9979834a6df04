/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which library files the ranks of this node use. A library is an inode, not a path: found through each rank's maps,
 * opened through its root (containers) or, where the file was deleted or replaced under the rank, through its
 * map_files. A new inode is a new library; one that no rank maps any more is let go.
 *
 * Containers of one image have each an overlay of their own over the same file. Their maps name different devices, but
 * a probe goes to the file below, so that probing both would show every call twice: they are one library, and so is
 * that file where a rank outside maps it itself.
 *
 * A file is opened once; if its file system does not answer, that is not waited for (daemon/base/timeout_call.h), and the next scan
 * tries again. What is read of an open file is waited for.
 */
#ifndef RANKTRACE_DAEMON_PROBES_LIBRARIES_H
#define RANKTRACE_DAEMON_PROBES_LIBRARIES_H

#include "daemon/base/util.h"

#define LIBRARIES_MAX 1024
#define LIBRARY_USERS_MAX 4096

/* A file as /proc/PID/maps names it. */
struct library_id {
	uint64_t device; /* major << 32 | minor */
	uint64_t inode;
};

struct library_user {
	int64_t instance;     /* of a rank */
	struct library_id id; /* what its maps call the file */
};

struct library {
	struct library_id id;	 /* kept from reuse by fd; those of the users by their mappings */
	struct timespec changed; /* tells a file in an overlay from any other: its last change and size */
	uint64_t size_bytes;
	bool overlay;
	char *path;	       /* as the first rank sees it */
	const char *base_name; /* within path, " (deleted)" removed */
	int fd;		       /* open for reading for the library's life */
	void *owner_data;      /* of the callbacks */
	bool touched;	       /* seen in the scan that is running */
	size_t users;
	struct library_user *user;
};

struct libraries_ops {
	bool (*wanted)(void *arg, const char *base_name);
	void (*added)(void *arg, struct library *library);
	void (*dropped)(void *arg, struct library *library);
	/* Once for each file that cannot be opened, or is one too many (-ENOSPC). */
	void (*refused)(void *arg, uint32_t pid, const char *path, int error);
	void *arg;
};

struct libraries;

struct libraries *libraries_new(const struct libraries_ops *ops, const char *proc_root); /* NULL: out of memory */
struct libraries *libraries_free(struct libraries *libraries);

/* Reads the process's maps: adds and drops libraries for this instance. Returns how many it uses, or -errno (-ESRCH,
 * -EACCES). */
int libraries_scan(struct libraries *libraries, uint32_t pid, int64_t instance);
/* The process ended. */
void libraries_forget(struct libraries *libraries, int64_t instance);
void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg);
bool library_used_by(const struct library *library, int64_t instance);

#endif
