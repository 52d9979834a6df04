/* SPDX-License-Identifier: Apache-2.0 */
/* System calls behind uprobe.h. A link is a list of descriptors: closing them detaches. */
#include "daemon/kernel/uprobe.h"
#include "daemon/base/thread.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

struct uprobe_link {
	uint64_t file; /* as uprobe_target */
	size_t count;
	int fd[];
};

/* The part of union bpf_attr read by BPF_LINK_CREATE for uprobe_multi (include/uapi/linux/bpf.h, 6.6). */
struct uprobe_multi_attr {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t count;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t pad0;
};

#define UPROBE_MULTI_RETURN 1u
#define REF_CTR_SHIFT 32 /* perf_event_attr.config of the uprobe PMU: format/ref_ctr_offset is config:32-63 */

static struct uprobe_link *link_new(uint64_t file, size_t count)
{
	struct uprobe_link *link = calloc(1, sizeof(*link) + count * sizeof(int));

	for (size_t i = 0; link && i < count; i++)
		link->fd[i] = -1;
	if (link) {
		link->file = file;
		link->count = count;
	}
	return link;
}

void uprobe_detach(struct uprobe_link *link)
{
	for (size_t i = 0; link && i < link->count; i++)
		closep(&link->fd[i]);
	free(link);
}

static void uprobe_detachp(struct uprobe_link **link)
{
	uprobe_detach(*link);
}

int uprobe_attach_multi(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret)
{
	_cleanup_(uprobe_detachp) struct uprobe_link *link = link_new(target->file, 1);
	struct uprobe_multi_attr attr = {
		.prog_fd = (uint32_t)program_fd,
		.attach_type = UPROBE_MULTI_ATTACH_TYPE,
		.path = (uintptr_t)target->path,
		.offsets = (uintptr_t)target->offsets,
		.ref_ctr_offsets = (uintptr_t)target->semaphores,
		.cookies = (uintptr_t)target->cookies,
		.count = (uint32_t)target->count,
		.multi_flags = on_return ? UPROBE_MULTI_RETURN : 0,
	};

	if (!link)
		return -ENOMEM;
	link->fd[0] = (int)syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (link->fd[0] < 0)
		return -errno;
	*ret = TAKE_PTR(link);
	return 0;
}

static int uprobe_read_number(const char *path, const char *format, unsigned *ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");

	if (!f)
		return -errno;
	return fscanf(f, format, ret) == 1 ? 0 : -EIO;
}

static int perf_place(int program_fd, unsigned type, unsigned return_bit, const struct uprobe_target *target, size_t i,
		      bool on_return, int *ret)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = type};
	_cleanup_close_ int fd = -1;

	attr.config = on_return ? 1ULL << return_bit : 0;
	if (target->semaphores)
		attr.config |= target->semaphores[i] << REF_CTR_SHIFT;
	attr.config1 = (uintptr_t)target->path;
	attr.config2 = target->offsets[i];
	fd = (int)syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (target->cookies) {
		/* A perf link carries the cookie and keeps its own reference to the event. */
		struct {
			uint32_t prog_fd, target_fd, attach_type, flags;
			uint64_t cookie;
		} link = {(uint32_t)program_fd, (uint32_t)fd, BPF_PERF_EVENT, 0, target->cookies[i]};
		int link_fd = (int)syscall(__NR_bpf, BPF_LINK_CREATE, &link, sizeof(link));

		if (link_fd < 0)
			return -errno;
		*ret = link_fd;
		return 0;
	}
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

int uprobe_attach_perf(int program_fd, const struct uprobe_target *target, bool on_return, struct uprobe_link **ret)
{
	_cleanup_(uprobe_detachp) struct uprobe_link *link = link_new(target->file, target->count);
	unsigned type, return_bit;
	int r;

	if (!link)
		return -ENOMEM;
	r = uprobe_read_number("/sys/bus/event_source/devices/uprobe/type", "%u", &type);
	if (r < 0)
		return r;
	r = uprobe_read_number("/sys/bus/event_source/devices/uprobe/format/retprobe", "config:%u", &return_bit);
	if (r < 0)
		return r;
	for (size_t i = 0; i < target->count; i++) {
		r = perf_place(program_fd, type, return_bit & 63, target, i, on_return, &link->fd[i]);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(link);
	return 0;
}

/* Finds our own file's offset of a function through its mapping. */
int uprobe_own_offset(uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	uint64_t wanted = (uintptr_t)uprobe_own_offset, start, end, offset;
	char line[8192];

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && wanted >= start && wanted < end) {
			*ret = wanted - start + offset;
			return 0;
		}
	}
	return -ENOENT;
}

/*
 * Asynchronous detach. Closing a link waits for an RCU and an SRCU grace period: some hundred milliseconds for each
 * library of L1, in which no record would be read. The thread exists while there is work.
 */

#define LATER_MAX 4096 /* beyond it, the caller detaches */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static pthread_cond_t detached = PTHREAD_COND_INITIALIZER;
static struct uprobe_link *waiting[LATER_MAX], *detaching; /* by the thread; NULL: none */
static size_t waiting_count;
static bool is_running, waits_at_exit;

static void *uprobe_detach_work(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (waiting_count > 0) {
		detaching = waiting[--waiting_count];
		pthread_mutex_unlock(&lock);
		uprobe_detach(detaching);
		pthread_mutex_lock(&lock);
		detaching = NULL;
		pthread_cond_broadcast(&detached);
	}
	is_running = false;
	pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int uprobe_detach_start(void)
{
	/*
	 * An ending process kills its threads, and a dying thread cannot restore the probed instructions: the kernel
	 * leaves the breakpoints in place ("leaking uprobe").
	 */
	waits_at_exit = waits_at_exit || atexit(uprobe_detach_wait) == 0;
	if (!waits_at_exit)
		return -EAGAIN;
	return thread_run(uprobe_detach_work, NULL);
}

void uprobe_detach_async(struct uprobe_link *link)
{
	bool taken = false;

	if (!link)
		return;
	pthread_mutex_lock(&lock);
	if (waiting_count < LATER_MAX) {
		waiting[waiting_count++] = link;
		taken = is_running || uprobe_detach_start() == 0;
		is_running |= taken;
		waiting_count -= !taken;
	}
	pthread_mutex_unlock(&lock);
	if (!taken)
		uprobe_detach(link);
}

bool uprobe_is_detaching(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = is_running;
	pthread_mutex_unlock(&lock);
	return is;
}

void uprobe_detach_wait(void)
{
	pthread_mutex_lock(&lock);
	while (is_running)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
}

/* The one of the file that is waiting, NULL if there is none. With the lock held. */
static struct uprobe_link *uprobe_detach_take(uint64_t file)
{
	for (size_t i = 0; i < waiting_count; i++) {
		struct uprobe_link *link = waiting[i];

		if (link->file != file)
			continue;
		waiting[i] = waiting[--waiting_count];
		return link;
	}
	return NULL;
}

/* Here, and not behind those of other files, of which users may make as many as they want. */
void uprobe_detach_file(uint64_t file)
{
	struct uprobe_link *link;

	pthread_mutex_lock(&lock);
	while ((link = uprobe_detach_take(file))) {
		pthread_mutex_unlock(&lock);
		uprobe_detach(link);
		pthread_mutex_lock(&lock);
	}
	while (detaching && detaching->file == file)
		pthread_cond_wait(&detached, &lock);
	pthread_mutex_unlock(&lock);
}
