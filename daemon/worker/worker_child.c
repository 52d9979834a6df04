/* SPDX-License-Identifier: Apache-2.0 */
/* The program's side of worker.h. It limits itself before it reads anything: until then it runs nothing but this. */
#include "daemon/worker/worker.h"
#include "daemon/worker/worker_wire.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define OPEN_FILES_MAX 64
#define REQUEST_BYTES_MAX (64u << 20)

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

static int worker_child_limit(__rlimit_resource_t resource, rlim_t soft, rlim_t hard)
{
	struct rlimit old, new = {soft, hard};

	if (getrlimit(resource, &old) < 0)
		return -errno;
	if (old.rlim_max < new.rlim_max)
		new.rlim_max = old.rlim_max;
	if (new.rlim_max < new.rlim_cur)
		new.rlim_cur = new.rlim_max;
	return setrlimit(resource, &new) < 0 ? -errno : 0;
}

int worker_child_keep(uint64_t capabilities)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(capabilities >> (32 * i));

		data[i].effective = data[i].permitted = data[i].permitted & keep;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Under memory pressure the kernel ends the worker, not the daemon. */
static void worker_child_be_first(void)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* best effort */
}

static int worker_child_confine(char **argv)
{
	pid_t parent = (pid_t)strtoul(argv[WORKER_ARGUMENT_PARENT], NULL, 10);
	uint64_t memory = strtoull(argv[WORKER_ARGUMENT_MEMORY], NULL, 10);
	int r;

	if (syscall(SYS_close_range, WORKER_SOCKET + 1, ~0U, 0) < 0)
		return -errno;
	worker_child_be_first();
	/* A sanitizer reserves terabytes of addresses. */
	r = IS_SANITIZED ? 0 : worker_child_limit(RLIMIT_AS, memory, memory);
	if (r == 0)
		r = worker_child_limit(RLIMIT_CORE, 0, 0);
	if (r == 0)
		r = worker_child_limit(RLIMIT_NOFILE, OPEN_FILES_MAX, OPEN_FILES_MAX);
	if (r == 0)
		r = worker_child_limit(RLIMIT_FSIZE, 0, 0);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH; /* the daemon ended before PR_SET_PDEATHSIG */
}

/* For the next request. */
static int worker_child_limit_cpu(char **argv)
{
	unsigned seconds = (unsigned)strtoul(argv[WORKER_ARGUMENT_CPU], NULL, 10);
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return -errno;
	return worker_child_limit(
		RLIMIT_CPU, (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + seconds + 1, RLIM_INFINITY);
}

/* The size of the message; 0: the daemon closed the connection. */
static ssize_t worker_child_receive(struct worker_request_message *message, int *fd, unsigned *ret_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE((WORKER_FDS_MAX + 1) * sizeof(int))];
	} control;
	struct iovec part = {message, sizeof(*message)};
	struct msghdr head = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(WORKER_SOCKET, &head, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	*ret_fds = 0;
	c = n < 0 ? NULL : CMSG_FIRSTHDR(&head);
	if (n < (ssize_t)offsetof(struct worker_request_message, bytes) || head.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		(c && (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)))
		return -EPROTO;
	if (c) {
		*ret_fds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fd, CMSG_DATA(c), *ret_fds * sizeof(int));
	}
	return n;
}

static int worker_child_finish(void)
{
	struct worker_reply_message head = {.is_last = 1};

	return send(WORKER_SOCKET, &head, sizeof(head), MSG_NOSIGNAL) == sizeof(head) ? 0 : -errno;
}

/* The bytes are in the message, or in the first descriptor, which is mapped. */
static int worker_child_map(const struct worker_request_message *message, size_t here_bytes, const int *fd,
	unsigned fds, const uint8_t **ret, void **ret_mapped)
{
	if (message->size_bytes > REQUEST_BYTES_MAX)
		return -EFBIG;
	*ret = message->bytes;
	*ret_mapped = NULL;
	if (here_bytes == message->size_bytes)
		return 0;
	if (here_bytes || !fds)
		return -EPROTO;
	*ret_mapped = mmap(NULL, (size_t)message->size_bytes, PROT_READ, MAP_PRIVATE, fd[0], 0);
	if (*ret_mapped == MAP_FAILED)
		return -errno;
	*ret = *ret_mapped;
	return 0;
}

static int worker_child_serve(const struct worker_request_message *message, size_t here_bytes, const int *fd,
	unsigned fds, int (*serve)(const struct worker_task *task))
{
	struct worker_task task = {.size_bytes = (size_t)message->size_bytes};
	void *mapped;
	int r = worker_child_map(message, here_bytes, fd, fds, &task.request, &mapped);

	if (r < 0)
		return r;
	if (mapped) {
		close(*fd++);
		fds--;
	}
	if (fds > WORKER_FDS_MAX)
		return -EPROTO;
	task.fds = fds;
	memcpy(task.fd, fd, fds * sizeof(int));
	r = serve(&task);
	for (unsigned i = 0; i < fds; i++)
		close(fd[i]);
	if (mapped)
		munmap(mapped, task.size_bytes);
	return r < 0 ? r : worker_child_finish();
}

int worker_child_main(int argc, char **argv, int (*serve)(const struct worker_task *task))
{
	struct stat st;
	int r;

	if (argc != WORKER_ARGUMENTS || fstat(WORKER_SOCKET, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr, "%s: only ranktraced runs this program\n", argc ? argv[0] : "worker");
		return 2;
	}
	r = worker_child_confine(argv);
	while (r == 0) {
		struct worker_request_message message;
		int fd[WORKER_FDS_MAX + 1];
		unsigned fds;
		ssize_t n = worker_child_receive(&message, fd, &fds);

		if (n == 0)
			return 0;
		r = n < 0 ? (int)n : worker_child_limit_cpu(argv);
		if (r == 0)
			r = worker_child_serve(
				&message, (size_t)n - offsetof(struct worker_request_message, bytes), fd, fds, serve);
	}
	return 1;
}

static int worker_child_chunk(const uint8_t *data, size_t size_bytes, const int *fd, unsigned fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(WORKER_FDS_MAX * sizeof(int))];
	} control = {0};
	struct worker_reply_message head = {0};
	struct iovec parts[] = {{&head, sizeof(head)}, {(void *)data, size_bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n;

	if (fds) {
		struct cmsghdr *c;

		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds * sizeof(int));
		memcpy(CMSG_DATA(c), fd, fds * sizeof(int));
	}
	do
		n = sendmsg(WORKER_SOCKET, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int worker_child_add(const void *data, size_t size_bytes, const int *fd, unsigned fds)
{
	size_t done = 0;

	if (fds > WORKER_FDS_MAX)
		return -EINVAL;
	do {
		size_t n = size_bytes - done < WORKER_CHUNK_BYTES ? size_bytes - done : WORKER_CHUNK_BYTES;
		int r = worker_child_chunk((const uint8_t *)data + done, n, fd, done ? 0 : fds);

		if (r < 0)
			return r;
		done += n;
	} while (done < size_bytes);
	return 0;
}
