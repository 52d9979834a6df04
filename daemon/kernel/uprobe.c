/* SPDX-License-Identifier: Apache-2.0 */
/* System calls behind uprobe.h. A link is a list of descriptors: closing them detaches. */
#include "daemon/kernel/uprobe.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

struct uprobe_link {
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

static struct uprobe_link *link_new(size_t count)
{
	struct uprobe_link *link = calloc(1, sizeof(*link) + count * sizeof(int));

	for (size_t i = 0; link && i < count; i++)
		link->fd[i] = -1;
	if (link)
		link->count = count;
	return link;
}

void uprobe_detach(struct uprobe_link *link)
{
	for (size_t i = 0; link && i < link->count; i++)
		closep(&link->fd[i]);
	free(link);
}

DEFINE_CLEANUP(struct uprobe_link *, uprobe_detach)

static int uprobe_attach_multi(const struct uprobe_target *target, const char *path, struct uprobe_link **ret)
{
	_cleanup_(uprobe_detachp) struct uprobe_link *link = link_new(1);
	struct uprobe_multi_attr attr = {
		.prog_fd = (uint32_t)target->program_fd,
		.attach_type = UPROBE_MULTI_ATTACH_TYPE,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)target->offsets,
		.ref_ctr_offsets = (uintptr_t)target->semaphores,
		.cookies = (uintptr_t)target->cookies,
		.count = (uint32_t)target->count,
		.multi_flags = target->on_return ? UPROBE_MULTI_RETURN : 0,
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

static int perf_place(
	const struct uprobe_target *target, const char *path, unsigned type, unsigned return_bit, size_t i, int *ret)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = type};
	_cleanup_close_ int fd = -1;

	attr.config = target->on_return ? 1ULL << return_bit : 0;
	if (target->semaphores)
		attr.config |= target->semaphores[i] << REF_CTR_SHIFT;
	attr.config1 = (uintptr_t)path;
	attr.config2 = target->offsets[i];
	fd = (int)syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (target->cookies) {
		/* A perf link carries the cookie and keeps its own reference to the event. */
		struct {
			uint32_t prog_fd, target_fd, attach_type, flags;
			uint64_t cookie;
		} link = {(uint32_t)target->program_fd, (uint32_t)fd, BPF_PERF_EVENT, 0, target->cookies[i]};
		int link_fd = (int)syscall(__NR_bpf, BPF_LINK_CREATE, &link, sizeof(link));

		if (link_fd < 0)
			return -errno;
		*ret = link_fd;
		return 0;
	}
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, target->program_fd) < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static int uprobe_attach_perf(const struct uprobe_target *target, const char *path, struct uprobe_link **ret)
{
	_cleanup_(uprobe_detachp) struct uprobe_link *link = link_new(target->count);
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
		r = perf_place(target, path, type, return_bit & 63, i, &link->fd[i]);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(link);
	return 0;
}

int uprobe_attach(const struct uprobe_target *target, struct uprobe_link **ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", target->file_fd);
	return (target->multi ? uprobe_attach_multi : uprobe_attach_perf)(target, path, ret);
}

/* Finds our own file's offset of a function through its mapping. */
int uprobe_offset(const void *function, uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	uint64_t wanted = (uintptr_t)function, start, end, offset;
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

int uprobe_own_offset(uint64_t *ret)
{
	return uprobe_offset((const void *)(uintptr_t)uprobe_own_offset, ret);
}
