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
#include "analyzers/base/proc_maps.h"
#include "daemon/probes/maps.h"

void maps_free(struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->mapping[i].path);
	free(maps->mapping);
	*maps = (struct maps){0};
}

struct filter {
	const char (*pattern)[MAPS_PATTERN_BYTES];
	size_t patterns;
	struct maps *maps;
	bool no_memory;
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

static bool probe_maps_on_map(void *arg, const struct proc_map *map)
{
	const struct library_id id = {(uint64_t)map->device_major << 32 | map->device_minor, map->inode};
	struct filter *filter = arg;
	struct maps *maps = filter->maps;
	char *path;

	if (!map->executable || !map->inode || map->path[0] != '/' || !is_wanted(filter, map->path) ||
		maps_is_listed(maps, &id) || strlen(map->path) >= MAPS_PATH_BYTES_MAX)
		return true;
	if (maps->count >= MAPS_FILES_MAX)
		return false;
	path = strdup(map->path);
	filter->no_memory = !path || !array_reserve((void **)&maps->mapping, &maps->capacity, maps->count + 1,
					     sizeof(*maps->mapping), MAPS_FILES_MAX);
	if (filter->no_memory) {
		free(path);
		return false;
	}
	maps->mapping[maps->count++] = (struct mapping){map->start, map->end, id, map->deleted, path};
	return true;
}

int maps_read(const char *proc_root, uint32_t pid, const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns,
	struct maps *ret)
{
	_cleanup_(maps_free) struct maps maps = {0};
	struct filter filter = {pattern, patterns, &maps, false};
	int r = proc_maps_each(proc_root, pid, probe_maps_on_map, &filter);

	if (filter.no_memory)
		return -ENOMEM;
	if (r < 0 && r != -EFBIG)
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
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
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

static bool maps_is_device(const char *proc_root, uint32_t pid, int fd, const struct stat *st, uint64_t device)
{
	struct mount mount;

	return ((uint64_t)major(st->st_dev) << 32 | minor(st->st_dev)) == device ||
	       (mount_of_file(proc_root, pid, fd, &mount) == 0 && mount.device == device);
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

static int take_file(const char *proc_root, uint32_t pid, int fd, const struct stat *st, struct mapped_file *ret)
{
	*ret = (struct mapped_file){
		.fd = fd,
		.id = {(uint64_t)major(st->st_dev) << 32 | minor(st->st_dev), st->st_ino},
		.changed = st->st_ctim,
		.size_bytes = (uint64_t)st->st_size,
		.overlay = is_overlay(fd),
		.user_served = mount_is_user_served(proc_root, pid, fd),
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
	return take_file(proc_root, pid, TAKE_FD(fd), &st, ret);
}

int mapped_file_reopen(int path_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
