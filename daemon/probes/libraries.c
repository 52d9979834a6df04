/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the registry behind libraries.h: a bounded array of inodes, each with the instances that map it. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "daemon/probes/libraries.h"

#define MAPS_LINES_MAX 1000000u
#define DELETED " (deleted)"

struct libraries {
	struct libraries_ops ops;
	char proc_root[64];
	size_t count;
	struct library *library[LIBRARIES_MAX];
	bool touched[LIBRARIES_MAX]; /* seen in the scan that is running */
	uint64_t refused[64];        /* inodes already told of, oldest overwritten */
	unsigned refusals;
};

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t device;
	uint64_t inode;
	char *path; /* within the line */
	bool deleted;
};

struct libraries *libraries_new(const struct libraries_ops *ops, const char *proc_root)
{
	struct libraries *libraries = calloc(1, sizeof(*libraries));

	if (!libraries)
		return NULL;
	libraries->ops = *ops;
	copy_text(libraries->proc_root, sizeof(libraries->proc_root), proc_root);
	return libraries;
}

static void library_free(struct library *library)
{
	closep(&library->fd);
	free(library->user);
	free(library);
}

static void drop(struct libraries *libraries, size_t i)
{
	struct library *library = libraries->library[i];

	libraries->ops.dropped(libraries->ops.arg, library);
	library_free(library);
	libraries->count--;
	libraries->library[i] = libraries->library[libraries->count];
	libraries->touched[i] = libraries->touched[libraries->count];
}

struct libraries *libraries_free(struct libraries *libraries)
{
	if (!libraries)
		return NULL;
	while (libraries->count > 0)
		drop(libraries, libraries->count - 1);
	free(libraries);
	return NULL;
}

bool library_used_by(const struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i] == instance)
			return true;
	return false;
}

static int add_user(struct library *library, int64_t instance)
{
	int64_t *user;

	if (library_used_by(library, instance))
		return 0;
	if (library->users >= LIBRARY_USERS_MAX)
		return -ENOSPC;
	user = realloc(library->user, (library->users + 1) * sizeof(*user));
	if (!user)
		return -ENOMEM;
	user[library->users++] = instance;
	library->user = user;
	return 0;
}

static void remove_user(struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i] == instance)
			library->user[i--] = library->user[--library->users];
}

/* One line of maps: an executable mapping of a file, or false. */
static bool parse_mapping(char *line, struct mapping *ret)
{
	unsigned long start, end, offset, inode;
	unsigned major, minor;
	char perms[5];
	size_t length;
	int at = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perms, &offset, &major, &minor, &inode, &at) < 7)
		return false;
	if (perms[2] != 'x' || inode == 0 || at == 0 || line[at] != '/')
		return false;
	*ret = (struct mapping){
		.start = start, .end = end, .device = (uint64_t)major << 32 | minor, .inode = inode, .path = line + at};
	length = strcspn(ret->path, "\n");
	ret->path[length] = 0;
	if (length > strlen(DELETED) && streq(ret->path + length - strlen(DELETED), DELETED)) {
		ret->path[length - strlen(DELETED)] = 0;
		ret->deleted = true;
	}
	return true;
}

static int open_regular(const char *path)
{
	/* O_NONBLOCK: the path is the process's choice and may be anything. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return TAKE_FD(fd);
}

/*
 * /proc/PID/maps names files as we see them, /proc/PID/root is where the process's own names begin. In a container both
 * agree; of a process that was only chrooted (also in a mount namespace of its own) the root is in front of the name.
 */
static void path_in_root(const struct libraries *libraries, uint32_t pid, const char *name, char *ret, size_t size)
{
	char link[128], root[PATH_MAX];
	size_t length;
	ssize_t n;

	snprintf(link, sizeof(link), "%s/%u/root", libraries->proc_root, pid);
	n = readlink(link, root, sizeof(root) - 1);
	length = n > 0 ? (size_t)n : 0;
	if (length > 1 && strncmp(name, root, length) == 0 && name[length] == '/')
		name += length;
	snprintf(ret, size, "%s%s", link, name);
}

/* By path unless the file under that name is another one now. map_files needs more rights, but it is always the file. */
static int open_mapping(const struct libraries *libraries, uint32_t pid, const struct mapping *mapping)
{
	char path[PATH_MAX + 128];
	struct stat st;
	int fd;

	if (!mapping->deleted) {
		path_in_root(libraries, pid, mapping->path, path, sizeof(path));
		fd = open_regular(path);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == mapping->inode)
			return fd;
		closep(&fd);
	}
	snprintf(path, sizeof(path), "%s/%u/map_files/%lx-%lx", libraries->proc_root, pid, (unsigned long)mapping->start,
		 (unsigned long)mapping->end);
	fd = open_regular(path);
	if (fd >= 0 || mapping->deleted)
		return fd;
	/* Overlay file systems show one inode in maps and another by path: without map_files the path must do. */
	path_in_root(libraries, pid, mapping->path, path, sizeof(path));
	return open_regular(path);
}

static bool refused_before(struct libraries *libraries, uint64_t inode)
{
	for (size_t i = 0; i < ARRAY_SIZE(libraries->refused); i++)
		if (libraries->refused[i] == inode)
			return true;
	libraries->refused[libraries->refusals++ % ARRAY_SIZE(libraries->refused)] = inode;
	return false;
}

static int add_library(struct libraries *libraries, uint32_t pid, const struct mapping *mapping, size_t *ret)
{
	struct library *library;
	int fd;

	if (libraries->count >= LIBRARIES_MAX)
		return -ENOSPC;
	fd = open_mapping(libraries, pid, mapping);
	if (fd < 0) {
		if (fd != -ESRCH && !refused_before(libraries, mapping->inode))
			libraries->ops.refused(libraries->ops.arg, pid, mapping->path, fd);
		return fd;
	}
	library = calloc(1, sizeof(*library));
	if (!library) {
		close(fd);
		return -ENOMEM;
	}
	library->fd = fd;
	library->device = mapping->device;
	library->inode = mapping->inode;
	copy_text(library->path, sizeof(library->path), mapping->path);
	library->base_name = strrchr(library->path, '/') + 1;
	*ret = libraries->count;
	libraries->library[libraries->count++] = library;
	libraries->ops.added(libraries->ops.arg, library);
	return 0;
}

static void use(struct libraries *libraries, uint32_t pid, int64_t instance, const struct mapping *mapping)
{
	size_t i;

	for (i = 0; i < libraries->count; i++)
		if (libraries->library[i]->inode == mapping->inode && libraries->library[i]->device == mapping->device)
			break;
	if (i == libraries->count && add_library(libraries, pid, mapping, &i) < 0)
		return;
	if (add_user(libraries->library[i], instance) == 0)
		libraries->touched[i] = true;
}

int libraries_scan(struct libraries *libraries, uint32_t pid, int64_t instance)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	struct mapping mapping;
	size_t size = 0, used = 0;
	char path[128];

	snprintf(path, sizeof(path), "%s/%u/maps", libraries->proc_root, pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	memset(libraries->touched, 0, sizeof(libraries->touched));
	for (unsigned lines = 0; lines < MAPS_LINES_MAX && getline(&line, &size, f) > 0; lines++) {
		const char *base;

		if (!parse_mapping(line, &mapping))
			continue;
		base = strrchr(mapping.path, '/') + 1;
		if (libraries->ops.wanted(libraries->ops.arg, base))
			use(libraries, pid, instance, &mapping);
	}
	if (ferror(f))
		return -ESRCH;
	for (size_t i = 0; i < libraries->count; i++)
		used += libraries->touched[i];
	if (used == 0) /* an ending process shows no maps: its end will be told */
		return 0;
	for (size_t i = libraries->count; i-- > 0;) {
		if (libraries->touched[i])
			continue;
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			drop(libraries, i);
	}
	return (int)used;
}

void libraries_forget(struct libraries *libraries, int64_t instance)
{
	for (size_t i = libraries->count; i-- > 0;) {
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			drop(libraries, i);
	}
}

void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg)
{
	for (size_t i = 0; i < libraries->count; i++)
		callback(arg, libraries->library[i]);
}
