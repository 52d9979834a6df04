/* SPDX-License-Identifier: Apache-2.0 */
/* See maps.h. Everything here may wait for a file system, or for the process's memory lock. */
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "analyzers/base/array.h"
#include "daemon/probes/maps.h"

#define DELETED " (deleted)"
#define CHUNK_BYTES (64u << 10)
#define MOUNTINFO_BYTES_MAX (4u << 20)

void maps_free(struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->mapping[i].path);
	free(maps->mapping);
	*maps = (struct maps){0};
}

/* Decided early for most lines. */
bool maps_parse_line(char *line, struct mapping *ret)
{
	unsigned long start, end, offset, inode;
	unsigned major_number, minor_number;
	const char *perms = strchr(line, ' ');
	size_t length;
	int at = 0;

	if (!perms || strnlen(perms, 5) < 5 || perms[3] != 'x' || !strchr(perms, '/'))
		return false;
	if (sscanf(line, "%lx-%lx %*4s %lx %x:%x %lu %n", &start, &end, &offset, &major_number, &minor_number, &inode,
		    &at) < 6)
		return false;
	if (inode == 0 || at == 0 || line[at] != '/')
		return false;
	*ret = (struct mapping){.start = start,
		.end = end,
		.id = {(uint64_t)major_number << 32 | minor_number, inode},
		.path = line + at};
	length = strcspn(ret->path, "\n");
	ret->path[length] = 0;
	if (length > strlen(DELETED) && streq(ret->path + length - strlen(DELETED), DELETED)) {
		ret->path[length - strlen(DELETED)] = 0;
		ret->deleted = true;
	}
	return true;
}

struct filter {
	const char (*pattern)[MAPS_PATTERN_BYTES];
	size_t patterns;
	struct maps *maps;
};

static bool is_wanted(const struct filter *filter, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < filter->patterns; i++)
		if (fnmatch(filter->pattern[i], name, 0) == 0)
			return true;
	return false;
}

static bool maps_is_listed(const struct maps *maps, const struct library_id *id)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->mapping[i].id.inode == id->inode && maps->mapping[i].id.device == id->device)
			return true;
	return false;
}

static int maps_add_line(const struct filter *filter, char *line)
{
	struct maps *maps = filter->maps;
	struct mapping mapping;

	if (!maps_parse_line(line, &mapping) || !is_wanted(filter, mapping.path) || maps_is_listed(maps, &mapping.id))
		return 0;
	if (strlen(mapping.path) >= MAPS_PATH_BYTES_MAX)
		return 0;
	if (maps->count >= MAPS_FILES_MAX) {
		maps->cut = true;
		return 0;
	}
	if (!array_reserve((void **)&maps->mapping, &maps->capacity, maps->count + 1, sizeof(mapping), MAPS_FILES_MAX))
		return -ENOMEM;
	mapping.path = strdup(mapping.path);
	if (!mapping.path)
		return -ENOMEM;
	maps->mapping[maps->count++] = mapping;
	return 0;
}

/* Of the lines in the buffer; keeps the incomplete last one. */
static int maps_add_lines(const struct filter *filter, char *buffer, size_t *held)
{
	char *line = buffer, *end;
	int r = 0;

	for (; r == 0 && (end = memchr(line, '\n', *held - (size_t)(line - buffer))); line = end + 1) {
		*end = 0;
		r = maps_add_line(filter, line);
	}
	*held -= (size_t)(line - buffer);
	memmove(buffer, line, *held);
	/* A line that fills the buffer is not the kernel's. */
	if (*held == CHUNK_BYTES)
		*held = 0;
	return r;
}

int maps_read(const char *proc_root, uint32_t pid, const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns,
	struct maps *ret)
{
	_cleanup_(maps_free) struct maps maps = {0};
	_cleanup_free_ char *buffer = malloc(CHUNK_BYTES);
	_cleanup_close_ int fd = -1;
	struct filter filter = {pattern, patterns, &maps};
	size_t held = 0, total = 0;
	char path[192];
	int r = 0;

	snprintf(path, sizeof(path), "%s/%u/maps", proc_root, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !buffer)
		return fd < 0 ? -errno : -ENOMEM;
	while (r == 0) {
		ssize_t n = read(fd, buffer + held, CHUNK_BYTES - held);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		total += (size_t)n;
		held += (size_t)n;
		r = maps_add_lines(&filter, buffer, &held);
		if (total >= MAPS_BYTES_MAX) {
			maps.cut = true;
			break;
		}
	}
	if (r < 0)
		return r;
	*ret = maps;
	maps = (struct maps){0};
	return 0;
}

/* The mapped file. */

/*
 * /proc/PID/maps has paths as seen by us; /proc/PID/root is the process's root. In a container both agree; for a
 * chrooted process (also in a mount namespace of its own) the root precedes the path.
 */
static const char *name_in_root(const char *root_link, const char *name)
{
	char root[PATH_MAX];
	ssize_t n = readlink(root_link, root, sizeof(root));
	size_t length = n > 0 && (size_t)n < sizeof(root) ? (size_t)n : 0;

	if (length > 1 && strncmp(name, root, length) == 0 && name[length] == '/')
		return name + length;
	return name;
}

/* Resolves the path as the process does: links must not leave its root. */
static int open_in_root(const char *proc_root, uint32_t pid, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int root_fd = -1;
	char root[128];

	snprintf(root, sizeof(root), "%s/%u/root", proc_root, pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	return (int)syscall(__NR_openat2, root_fd, name_in_root(root, path), &how, sizeof(how));
}

static int open_map_file(const char *proc_root, uint32_t pid, const struct mapping *mapping)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%u/map_files/%lx-%lx", proc_root, pid, (unsigned long)mapping->start,
		(unsigned long)mapping->end);
	return open(path, O_PATH | O_CLOEXEC);
}

/* A descriptor's mount, from /proc/self/fdinfo. */
static int mount_of(int fd, unsigned *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[128];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "mnt_id: %u", ret) == 1)
			return 0;
	return -ENOENT;
}

/*
 * Device of the descriptor's file system as maps says it. Some file systems (btrfs) give stat() another one. The mount
 * is one of the process's.
 */
static int device_in_maps(const char *proc_root, uint32_t pid, int fd, uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	unsigned mount, id, major_number, minor_number;
	size_t size = 0, total = 0;
	char path[192];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u/mountinfo", proc_root, pid);
	f = mount_of(fd, &mount) < 0 ? NULL : fopen(path, "re");
	while (f && total < MOUNTINFO_BYTES_MAX && (n = getline(&line, &size, f)) > 0) {
		total += (size_t)n;
		if (sscanf(line, "%u %*u %u:%u", &id, &major_number, &minor_number) != 3 || id != mount)
			continue;
		*ret = (uint64_t)major_number << 32 | minor_number;
		return 0;
	}
	return -ENOENT;
}

static bool maps_is_device(const char *proc_root, uint32_t pid, int fd, const struct stat *st, uint64_t device)
{
	uint64_t mounted;

	return ((uint64_t)major(st->st_dev) << 32 | minor(st->st_dev)) == device ||
	       (device_in_maps(proc_root, pid, fd, &mounted) == 0 && mounted == device);
}

static bool is_overlay(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Whether the process could read the file itself, as far as the file's mode says. */
static bool may_read(const char *proc_root, uint32_t pid, const struct stat *file)
{
	struct stat process;
	char path[192];

	snprintf(path, sizeof(path), "%s/%u", proc_root, pid);
	return file->st_mode & S_IROTH || (stat(path, &process) == 0 && process.st_uid == file->st_uid);
}

/*
 * Is what the path leads to the mapped file? Overlays may show other inodes in maps than by path: there, what its user
 * may read is accepted.
 */
static bool is_mapped(const char *proc_root, uint32_t pid, int fd, const struct stat *st, const struct mapping *mapping)
{
	if (st->st_ino == mapping->id.inode && maps_is_device(proc_root, pid, fd, st, mapping->id.device))
		return true;
	return is_overlay(fd) && may_read(proc_root, pid, st);
}

static int take_file(int fd, const struct stat *st, struct mapped_file *ret)
{
	*ret = (struct mapped_file){
		.fd = fd,
		.id = {(uint64_t)major(st->st_dev) << 32 | minor(st->st_dev), st->st_ino},
		.changed = st->st_ctim,
		.size_bytes = (uint64_t)st->st_size,
		.overlay = is_overlay(fd),
	};
	return 0;
}

int mapped_file_open(const char *proc_root, uint32_t pid, const struct mapping *mapping, struct mapped_file *ret)
{
	_cleanup_close_ int fd = open_map_file(proc_root, pid, mapping);
	bool known = fd >= 0; /* map_files always is the mapped file, but needs more privileges */
	struct stat st;

	if (!known && !mapping->deleted)
		fd = open_in_root(proc_root, pid, mapping->path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -ESTALE;
	if (!known && !is_mapped(proc_root, pid, fd, &st, mapping))
		return -ESTALE;
	/* Opening a device can have side effects. */
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return take_file(TAKE_FD(fd), &st, ret);
}

int mapped_file_reopen(int path_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
