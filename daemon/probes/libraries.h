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
 * A worker (reader.h) reads the maps, opens the files and reads them: a process controls what that costs and whether it
 * ends. So a scan only begins here; what it finds comes later, through the callbacks. The daemon itself holds no more
 * of a file than a place (O_PATH), which closes without blocking.
 */
#ifndef RANKTRACE_DAEMON_PROBES_LIBRARIES_H
#define RANKTRACE_DAEMON_PROBES_LIBRARIES_H

#include "daemon/base/util.h"
#include "daemon/core/limits.h"

#define LIBRARIES_MAX LIMIT_LIBRARIES  /* a user may have this divided by the number of users with libraries and one */
#define LIBRARIES_OPENINGS_MAX 256     /* files being opened and read at a time */
#define LIBRARIES_OPENINGS_USER_MAX 64 /* the same of one user */
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
	uint64_t inode;		 /* of the file itself, below overlays */
	struct timespec changed; /* change time, with size: identifies a file through overlays */
	uint64_t size_bytes;
	bool overlay;
	char *path;		   /* as seen by the first rank */
	const char *base_name;	   /* within path, without " (deleted)" */
	int fd;			   /* O_PATH; without workers open for reading */
	uint32_t uid;		   /* user of the first rank */
	void *owner_data;	   /* of the callbacks */
	const struct facts *facts; /* during libraries_ops.added; NULL: not read by a worker, or in vain */
	int facts_error;	   /* why in vain; -EUCLEAN, -ETIMEDOUT: quarantined (quarantine.h) */
	bool touched;		   /* seen in the current scan */
	bool is_chosen;		   /* by groups_choose(), since it was called anew */
	size_t users, capacity;
	struct library_user *user;
};

struct probe_table;
struct quarantine;
struct workers;

struct libraries_ops {
	const char *const *patterns; /* of base names, NULL-terminated; outlives the registry */
	/* A new library, with its users. */
	void (*added)(void *arg, struct library *library);
	void (*dropped)(void *arg, struct library *library);
	/* Once for each file that cannot be opened, exceeds the bound (-ENOSPC), or is served by a user (-EREMOTE). */
	void (*refused)(void *arg, uint32_t pid, uint32_t uid, const char *path, int error);
	void *arg;
	/* The end of a scan: the rank's libraries that are known now, or a negative errno. May be NULL. */
	void (*scanned)(void *arg, int64_t instance, int result, uint64_t cost_ns);
	/* Of all files found, none is being read any more. May be NULL. */
	void (*settled)(void *arg);
	struct workers *workers;	 /* NULL (tests): scans read here and wait */
	const struct probe_table *table; /* rows that facts are asked for; NULL: none */
	struct quarantine *quarantine;	 /* may be NULL */
	bool takes_user_served;		 /* also files on file systems that users serve (maps.h) */
};

struct libraries;

struct libraries *libraries_new(const struct libraries_ops *ops, const char *proc_root); /* NULL: out of memory */
struct libraries *libraries_free(struct libraries *libraries);

/*
 * Begins to read the maps of a process of user `uid`; adds and drops libraries of this instance. One scan of an
 * instance at a time: -EALREADY. Without workers the scan ends here: returns the number of libraries or -errno.
 */
int libraries_scan(struct libraries *libraries, uint32_t pid, uint32_t uid, int64_t instance);
/* Files being opened or read. */
unsigned libraries_busy(const struct libraries *libraries);
/* Whether a file of this instance is among them: its libraries are not all known. */
bool libraries_busy_for(const struct libraries *libraries, int64_t instance);
/* The process ended. */
void libraries_forget(struct libraries *libraries, int64_t instance);
void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg);
bool library_used_by(const struct library *library, int64_t instance);

#endif
