/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded readers of /proc. `root`: mount point of procfs ("/proc"; a fixture in tests). Returned texts are printable
 * and truncated to fit. A vanished process is normal: -ENOENT or -ESRCH, no message.
 */
#ifndef RANKTRACE_DAEMON_BASE_PROCFS_H
#define RANKTRACE_DAEMON_BASE_PROCFS_H

#include "daemon/base/util.h"

/* execve() takes at most 6 MiB of arguments and environment (3/4 of the 8 MiB of _STK_LIM). */
#define PROCFS_ENVIRON_BYTES_MAX (6u << 20)
#define PROCFS_COMMAND_BYTES_MAX (16u << 10)
#define PROCFS_CGROUP_BYTES_MAX (16u << 10)

/* _again() keeps files with descriptors below this one open. Half of the usual limit of 1,024: probes, clients and
 * workers need descriptors, too. */
#define PROCFS_FILES_KEPT 512

struct procfs_stat {
	char state;
	uint32_t parent_pid;
	uint64_t start_time_ns; /* CLOCK_BOOTTIME since boot */
	uint64_t cpu_ns;	/* of all threads since start, in kernel ticks (10 ms) */
	uint64_t major_faults;	/* of all threads since start */
	uint64_t resident_bytes;
};

/* Mapped libraries. */
enum procfs_library {
	PROCFS_LIBRARY_TRAINING = 1u << 0,  /* a framework or collective library: trains or serves */
	PROCFS_LIBRARY_COMPANION = 1u << 1, /* comes with such a job, not sufficient alone */
	PROCFS_LIBRARY_PYTHON = 1u << 2,    /* an interpreter that may load the others later */
};

/*
 * Waits for an exec of the process, as procfs_exe() does and readers of fd, maps and environ do: as long as its user
 * wants. For workers.
 */
int procfs_stat(const char *root, uint32_t pid, struct procfs_stat *ret);

struct procfs_status {
	char state; /* as in procfs_stat; 0: not shown */
	uint32_t parent_pid;
	uint32_t uid;				/* real user, as the initial user namespace numbers it */
	uint64_t inode;				/* another process has another one. So may the same, later */
	bool is_kernel;				/* a thread of the kernel */
	uint64_t resident_bytes, swapped_bytes; /* UINT64_MAX: not shown, as of one that has ended */
};

/*
 * From /proc/PID/status. No lock of the process is waited for, but as every lookup in /proc it spins while the
 * process's parent, which may have no CPU, reaps it: for workers and threads.
 */
int procfs_status(const char *root, uint32_t pid, struct procfs_status *ret);
/*
 * The same without the inode, which is 0, for repeated reads: the file is kept open. *fd: -1 before the first call; the
 * caller closes it. It refers to the process that had the number at the first call.
 */
int procfs_status_again(const char *root, uint32_t pid, int *fd, struct procfs_status *ret);
/* CPU time of all its threads, by its clock: no file is opened. Negative errno. */
int procfs_cpu_time(uint32_t pid, uint64_t *ret_ns);
/* This process's, whatever number it has where /proc was mounted. 0: unknown. */
uint64_t procfs_own_resident(void);
/* Time of a thread on a CPU, and runnable without one. -ENOENT also if the kernel does not count. fd: as above. */
int procfs_schedstat_again(
	const char *root, uint32_t pid, uint32_t thread_id, int *fd, uint64_t *ret_run_ns, uint64_t *ret_delay_ns);
/* The same of an open file /proc/.../schedstat, again and again. */
int procfs_schedstat_of(int fd, uint64_t *ret_run_ns, uint64_t *ret_delay_ns);
/* The kernel's function in which a thread waits. -ENODATA: it does not wait, or the kernel does not say. */
int procfs_wait_channel(const char *root, uint32_t pid, uint32_t thread_id, char *ret, size_t size);
/* Target of the link, " (deleted)" included. */
int procfs_exe(const char *root, uint32_t pid, char *ret, size_t size);
/* Major page faults of all processes of the node, since it was booted. fd: as above. */
int procfs_major_faults_again(const char *root, int *fd, uint64_t *ret);
/* The arguments, each NUL-terminated; *ret is terminated once more. The caller frees. */
int procfs_command(const char *root, uint32_t pid, char **ret, size_t *ret_size_bytes);
/* The environment at exec, each entry NUL-terminated; *ret_cut: truncated. The caller frees. */
int procfs_environ(const char *root, uint32_t pid, char **ret, size_t *ret_size_bytes, bool *ret_cut);
/* The lines of /proc/PID/cgroup. The caller frees. */
int procfs_cgroup(const char *root, uint32_t pid, char **ret);
int procfs_cgroup_again(const char *root, uint32_t pid, int *fd, char **ret);
/* Streams /proc/PID/maps; *ret is a mask of enum procfs_library. */
int procfs_libraries(const char *root, uint32_t pid, uint32_t *ret);

/* Calls back for each process until the callback returns false. */
int procfs_each(const char *root, bool (*callback)(void *arg, uint32_t pid), void *arg);
/*
 * Calls back for children of the main thread and of at most `threads` others, after *cursor in the kernel's order;
 * *cursor is where the next call continues. Covers a process with many threads in several calls.
 */
int procfs_children(const char *root, uint32_t pid, unsigned threads, uint32_t *cursor,
	void (*callback)(void *arg, uint32_t pid), void *arg);

/* Makes text printable in place: control bytes and DEL become '?'. */
void procfs_printable(char *text);

#endif
