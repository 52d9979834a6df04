/* SPDX-License-Identifier: Apache-2.0 */
/* What a blocked thread waits for: its system call and, of calls that wait, on what. Nothing read here is trusted. */
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "stacks/native/native_internal.h"

/* How the arguments of a call name what it waits for. */
enum wait_on {
	WAIT_ON_NOTHING,
	WAIT_ON_FD,	/* a descriptor, first argument */
	WAIT_ON_FUTEX,	/* an address, first argument */
	WAIT_ON_POLL,	/* an array of descriptors and its length */
	WAIT_ON_PID,	/* a process, first argument */
	WAIT_ON_NUMBER, /* of the second argument */
};

struct wait_row {
	long number;
	const char *name;
	enum wait_on on;
};

#define ROW(name, on) {SYS_##name, #name, WAIT_ON_##on},
static const struct wait_row wait_rows[] = {ROW(read, FD) ROW(write, FD) ROW(readv, FD) ROW(writev, FD) ROW(
	pread64, FD) ROW(pwrite64, FD) ROW(preadv2, FD) ROW(pwritev2, FD) ROW(ioctl, FD) ROW(fsync, FD) ROW(fdatasync,
	FD) ROW(flock, FD) ROW(fcntl, FD) ROW(getdents64, FD) ROW(connect, FD) ROW(accept4, FD) ROW(accept,
	FD) ROW(sendto, FD) ROW(recvfrom, FD) ROW(sendmsg, FD) ROW(recvmsg, FD) ROW(recvmmsg, FD) ROW(epoll_pwait,
	FD) ROW(ppoll, POLL) ROW(pselect6, NOTHING) ROW(futex, FUTEX) ROW(nanosleep, NOTHING) ROW(clock_nanosleep,
	NOTHING) ROW(wait4, PID) ROW(waitid, NUMBER) ROW(openat, NOTHING) ROW(statx, NOTHING)
		ROW(newfstatat, NOTHING) ROW(mmap, NOTHING) ROW(munmap, NOTHING) ROW(mprotect, NOTHING) ROW(
			madvise, NOTHING) ROW(sched_yield, NOTHING) ROW(rt_sigtimedwait, NOTHING)
			ROW(rt_sigsuspend, NOTHING) ROW(restart_syscall, NOTHING) ROW(semtimedop, NOTHING) ROW(
				msgrcv, NOTHING) ROW(io_getevents, NOTHING) ROW(io_uring_enter, FD) ROW(clone, NOTHING)
				ROW(clone3, NOTHING) ROW(execve, NOTHING) ROW(exit, NOTHING) ROW(exit_group, NOTHING)
#ifdef SYS_poll /* of x86-64; younger machines have the newer forms only */
					ROW(poll, POLL) ROW(select, NOTHING) ROW(epoll_wait, FD) ROW(open, NOTHING)
						ROW(vfork, NOTHING) ROW(stat, NOTHING) ROW(pause, NOTHING)
							ROW(fork, NOTHING) ROW(vfork, NOTHING)
#endif
};
#undef ROW

#define WAIT_POLL_SHOWN 3u

/* "pipe:[123]", "/mnt/data/x"; sockets with the addresses of /proc/PID/net. */
static void wait_descriptor(const struct native_process *process, int fd, char *ret, size_t size)
{
	char path[160], target[128];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%d/fd/%d", process->root, (int)process->pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	native_printable(target);
	if (n > 0)
		snprintf(ret, size, "%d (%.100s)", fd, target);
	else
		snprintf(ret, size, "%d", fd);
}

#define WAIT_NET_LINES_MAX 65536u

/* "10.0.0.1:443" of "0100000A:01BB"; of IPv6 the port only. */
static void wait_address(const char *text, char *ret, size_t size)
{
	unsigned a, port;

	if (strcspn(text, ":") == 8 && sscanf(text, "%8x:%4x", &a, &port) == 2)
		snprintf(ret, size, "%u.%u.%u.%u:%u", a & 255, a >> 8 & 255, a >> 16 & 255, a >> 24, port);
	else if (sscanf(text + strcspn(text, ":"), ":%4x", &port) == 1)
		snprintf(ret, size, "[IPv6]:%u", port);
}

static bool wait_socket_peer(
	const struct native_process *process, const char *table, unsigned long inode, char *ret, size_t size)
{
	char path[160], line[512], local[160], remote[160];
	_cleanup_fclose_ FILE *file = NULL;
	unsigned long found;

	snprintf(path, sizeof(path), "%s/%d/net/%s", process->root, (int)process->pid, table);
	file = fopen(path, "re");
	for (size_t i = 0; file && i < WAIT_NET_LINES_MAX && fgets(line, sizeof(line), file); i++) {
		char ours[32] = "", its[32] = "";

		if (sscanf(line, "%*s %100s %100s %*s %*s %*s %*s %*s %*s %lu", local, remote, &found) != 3 ||
			found != inode)
			continue;
		wait_address(local, ours, sizeof(ours));
		wait_address(remote, its, sizeof(its));
		snprintf(ret, size, "%s %s to %s", table, ours, its);
		return true;
	}
	return false;
}

/* A descriptor, of a socket with both ends. */
static void wait_on_fd(const struct native_process *process, int fd, char *ret, size_t size)
{
	char text[128], peer[80];
	unsigned long inode;
	int number;

	wait_descriptor(process, fd, text, sizeof(text));
	if (sscanf(text, "%d (socket:[%lu])", &number, &inode) == 2 &&
		(wait_socket_peer(process, "tcp", inode, peer, sizeof(peer)) ||
			wait_socket_peer(process, "tcp6", inode, peer, sizeof(peer))))
		snprintf(ret, size, "%d (%s)", fd, peer);
	else
		snprintf(ret, size, "%s", text);
}

static void wait_on_poll(
	const struct native_process *process, const struct native_thread *thread, char *ret, size_t size)
{
	struct pollfd item[WAIT_POLL_SHOWN];
	uint64_t count = thread->args[1];
	size_t shown = count < WAIT_POLL_SHOWN ? (size_t)count : WAIT_POLL_SHOWN, used = 0;
	ssize_t n = shown ? native_memory(process, thread->args[0], item, shown * sizeof(*item)) : 0;

	ret[0] = 0;
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(*item) && used < size; i++) {
		char text[128];

		wait_on_fd(process, item[i].fd, text, sizeof(text));
		used += (size_t)snprintf(ret + used, size - used, "%s%s", i ? ", " : "", text);
	}
	if (count > shown && used < size)
		snprintf(ret + used, size - used, ", ... %llu in all", (unsigned long long)count);
}

/* Of glibc's pthread_mutex_t: int lock, unsigned count, int owner. The futex is the lock, 2 while threads wait for
 * it. */
static void wait_on_futex(
	const struct native_process *process, const struct native_thread *thread, char *ret, size_t size)
{
	int command = (int)thread->args[1] & FUTEX_CMD_MASK;
	bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI;

	snprintf(ret, size, "%s 0x%llx", waits ? "wait on" : "at", (unsigned long long)thread->args[0]);
}

void native_wait_write(const struct native_process *process, struct native_thread *thread)
{
	const struct wait_row *row = NULL;
	char on[NATIVE_WAIT_BYTES] = "";

	thread->wait[0] = 0;
	if (thread->number < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(wait_rows) && !row; i++)
		if (wait_rows[i].number == thread->number)
			row = &wait_rows[i];
	if (!row) {
		snprintf(thread->wait, sizeof(thread->wait), "system call %ld", thread->number);
		return;
	}
	switch (row->on) {
	case WAIT_ON_FD:
		wait_on_fd(process, (int)thread->args[0], on, sizeof(on));
		break;
	case WAIT_ON_FUTEX:
		wait_on_futex(process, thread, on, sizeof(on));
		break;
	case WAIT_ON_POLL:
		wait_on_poll(process, thread, on, sizeof(on));
		break;
	case WAIT_ON_PID:
		snprintf(on, sizeof(on), "process %d", (int)thread->args[0]);
		break;
	case WAIT_ON_NUMBER:
		snprintf(on, sizeof(on), "%d", (int)thread->args[1]);
		break;
	case WAIT_ON_NOTHING:
		break;
	}
	snprintf(thread->wait, sizeof(thread->wait), "%s%s%.130s", row->name, on[0] ? " " : "", on);
}
