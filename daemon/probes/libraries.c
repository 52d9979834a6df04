/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the registry of libraries.h: a bounded array of inodes, each with the instances that map it. */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "analyzers/base/array.h"
#include "daemon/base/log.h"
#include "daemon/probes/libraries.h"
#include "daemon/base/timeout_call.h"

#define MAPS_LINES_MAX 1000000u
#define DELETED " (deleted)"
#define OPEN_WAIT_NS (100 * NSEC_PER_MSEC) /* for the server of a library's file */

/* The newest ones. */
struct inodes {
	uint64_t inode[64];
	unsigned count;
};

struct libraries {
	struct libraries_ops ops;
	char proc_root[64];
	size_t count;
	struct library *library[LIBRARIES_MAX];
	struct inodes refused, slow; /* already logged */
};

struct mapping {
	uint64_t start;
	uint64_t end;
	struct library_id id;
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
	free(library->path);
	free(library);
}

static void libraries_drop(struct libraries *libraries, size_t i)
{
	struct library *library = libraries->library[i];

	libraries->ops.dropped(libraries->ops.arg, library);
	library_free(library);
	libraries->count--;
	libraries->library[i] = libraries->library[libraries->count];
}

struct libraries *libraries_free(struct libraries *libraries)
{
	if (!libraries)
		return NULL;
	while (libraries->count > 0)
		libraries_drop(libraries, libraries->count - 1);
	free(libraries);
	return NULL;
}

bool library_used_by(const struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i].instance == instance)
			return true;
	return false;
}

static int libraries_add_user(struct library *library, int64_t instance, const struct library_id *id)
{
	if (library_used_by(library, instance))
		return 0;
	if (library->users >= LIBRARY_USERS_MAX)
		return -ENOSPC;
	if (!array_reserve((void **)&library->user, &library->capacity, library->users + 1, sizeof(*library->user),
		    LIBRARY_USERS_MAX))
		return -ENOMEM;
	library->user[library->users++] = (struct library_user){instance, *id};
	return 0;
}

static void remove_user(struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i].instance == instance)
			library->user[i--] = library->user[--library->users];
}

static bool is_same_id(const struct library_id *a, const struct library_id *b)
{
	return a->inode == b->inode && a->device == b->device;
}

static bool has_id(const struct library *library, const struct library_id *id)
{
	if (is_same_id(&library->id, id))
		return true;
	for (size_t i = 0; i < library->users; i++)
		if (is_same_id(&library->user[i].id, id))
			return true;
	return false;
}

/* Parses a line of maps: an executable mapping of a file, or false, decided early for most lines. */
static bool parse_mapping(char *line, struct mapping *ret)
{
	unsigned long start, end, offset, inode;
	unsigned major, minor;
	const char *perms = strchr(line, ' ');
	size_t length;
	int at = 0;

	if (!perms || strnlen(perms, 5) < 5 || perms[3] != 'x' || !strchr(perms, '/'))
		return false;
	if (sscanf(line, "%lx-%lx %*4s %lx %x:%x %lu %n", &start, &end, &offset, &major, &minor, &inode, &at) < 6)
		return false;
	if (inode == 0 || at == 0 || line[at] != '/')
		return false;
	*ret = (struct mapping){
		.start = start, .end = end, .id = {(uint64_t)major << 32 | minor, inode}, .path = line + at};
	length = strcspn(ret->path, "\n");
	ret->path[length] = 0;
	if (length > strlen(DELETED) && streq(ret->path + length - strlen(DELETED), DELETED)) {
		ret->path[length - strlen(DELETED)] = 0;
		ret->deleted = true;
	}
	return true;
}

/* Opens an O_PATH descriptor for reading only if it is a regular file: opening a device can have side effects. */
static int open_regular(int place_fd, struct stat *ret)
{
	_cleanup_close_ int at_fd = place_fd;
	char path[64];
	struct stat st;
	int fd;

	if (at_fd < 0)
		return -errno;
	if (fstat(at_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret = st;
	return fd;
}

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
static int open_in_root(const char *proc_root, uint32_t pid, const char *path, struct stat *ret)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	_cleanup_close_ int root_fd = -1;
	char root[128];

	snprintf(root, sizeof(root), "%s/%u/root", proc_root, pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	return open_regular((int)syscall(__NR_openat2, root_fd, name_in_root(root, path), &how, sizeof(how)), ret);
}

/* By path, unless the path is another file by now. map_files always is the mapped file, but needs more privileges. */
static int open_mapping(const char *proc_root, uint32_t pid, const struct mapping *mapping, struct stat *ret)
{
	char path[192];
	int fd;

	if (!mapping->deleted) {
		fd = open_in_root(proc_root, pid, mapping->path, ret);
		if (fd >= 0 && ret->st_ino == mapping->id.inode)
			return fd;
		closep(&fd);
	}
	snprintf(path, sizeof(path), "%s/%u/map_files/%lx-%lx", proc_root, pid,
		(unsigned long)mapping->start, (unsigned long)mapping->end);
	fd = open_regular(open(path, O_PATH | O_CLOEXEC), ret);
	if (fd >= 0 || mapping->deleted)
		return fd;
	/* Overlay file systems show different inodes in maps and by path: without map_files, accept the path's file. */
	return open_in_root(proc_root, pid, mapping->path, ret);
}

struct opening {
	char proc_root[64];
	uint32_t pid;
	struct mapping mapping;
	struct stat st;
	char path[]; /* the mapping's */
};

static int answer_opening(void *arg)
{
	struct opening *opening = arg;

	return open_mapping(opening->proc_root, opening->pid, &opening->mapping, &opening->st);
}

static void forget_opening(void *arg, int fd)
{
	closep(&fd);
	free(arg);
}

static int open_within(
	const struct libraries *libraries, uint32_t pid, const struct mapping *mapping, struct stat *ret)
{
	static const struct timeout_call within = {answer_opening, forget_opening};
	size_t size_bytes = strlen(mapping->path) + 1;
	struct opening *opening = malloc(sizeof(*opening) + size_bytes);
	void *asked = opening;
	int fd;

	if (!opening)
		return -ENOMEM;
	*opening = (struct opening){.pid = pid, .mapping = *mapping};
	(void)copy_text(opening->proc_root, sizeof(opening->proc_root), libraries->proc_root);
	opening->mapping.path = memcpy(opening->path, mapping->path, size_bytes);
	fd = timeout_call_run(&within, &asked, OPEN_WAIT_NS);
	if (fd >= 0)
		*ret = opening->st;
	free(asked);
	return fd;
}

static bool libraries_was_logged(struct inodes *logged, uint64_t inode)
{
	for (size_t i = 0; i < ARRAY_SIZE(logged->inode); i++)
		if (logged->inode[i] == inode)
			return true;
	logged->inode[logged->count++ % ARRAY_SIZE(logged->inode)] = inode;
	return false;
}

static bool is_overlay(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/*
 * Same file through another overlay, or below one: only the kernel sets a file's change time. Outside overlays, two
 * files are different even if equal (images mounted twice).
 */
static struct library *find_below(
	struct libraries *libraries, bool overlay, const struct stat *st, const char *base_name)
{
	for (size_t i = 0; i < libraries->count; i++) {
		struct library *library = libraries->library[i];

		if ((overlay || library->overlay) && library->id.inode == st->st_ino &&
			library->size_bytes == (uint64_t)st->st_size && library->changed.tv_sec == st->st_ctim.tv_sec &&
			library->changed.tv_nsec == st->st_ctim.tv_nsec && streq(library->base_name, base_name))
			return library;
	}
	return NULL;
}

static struct library *library_new(int fd, const struct mapping *mapping, const struct stat *st)
{
	struct library *library = calloc(1, sizeof(*library));

	if (!library)
		return NULL;
	library->path = strdup(mapping->path);
	if (!library->path) {
		free(library);
		return NULL;
	}
	library->base_name = strrchr(library->path, '/') + 1;
	library->fd = fd;
	library->id = mapping->id;
	library->overlay = is_overlay(fd);
	library->changed = st->st_ctim;
	library->size_bytes = (uint64_t)st->st_size;
	return library;
}

static int add_library(struct libraries *libraries, uint32_t pid, const struct mapping *mapping, struct library **ret)
{
	_cleanup_close_ int fd = -1;
	struct library *library;
	struct stat st;

	fd = open_within(libraries, pid, mapping, &st);
	if (fd < 0)
		return fd;
	library = find_below(libraries, is_overlay(fd), &st, strrchr(mapping->path, '/') + 1);
	if (library) {
		*ret = library;
		return 0;
	}
	if (libraries->count >= LIBRARIES_MAX)
		return -ENOSPC;
	library = library_new(fd, mapping, &st);
	if (!library)
		return -ENOMEM;
	fd = -1;
	libraries->library[libraries->count++] = library;
	libraries->ops.added(libraries->ops.arg, library);
	*ret = library;
	return 0;
}

static struct library *libraries_find_known(const struct libraries *libraries, const struct library_id *id)
{
	for (size_t i = 0; i < libraries->count; i++)
		if (has_id(libraries->library[i], id))
			return libraries->library[i];
	return NULL;
}

static void libraries_refuse(struct libraries *libraries, uint32_t pid, const struct mapping *mapping, int error)
{
	bool slow = error == -ETIMEDOUT;

	if (libraries_was_logged(slow ? &libraries->slow : &libraries->refused, mapping->id.inode))
		return;
	if (slow)
		log_warning("libraries", "the file system of %s of process %u does not answer; retrying", mapping->path,
			pid);
	else
		libraries->ops.refused(libraries->ops.arg, pid, mapping->path, error);
}

static void use(struct libraries *libraries, uint32_t pid, int64_t instance, const struct mapping *mapping)
{
	struct library *library = libraries_find_known(libraries, &mapping->id);
	int r;

	if (!library && !libraries->ops.wanted(libraries->ops.arg, strrchr(mapping->path, '/') + 1))
		return;
	r = library ? 0 : add_library(libraries, pid, mapping, &library);
	if (r < 0) {
		if (r != -ESRCH && r != -EBUSY)
			libraries_refuse(libraries, pid, mapping, r);
		return;
	}
	if (libraries_add_user(library, instance, &mapping->id) == 0)
		library->touched = true;
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
	for (size_t i = 0; i < libraries->count; i++)
		libraries->library[i]->touched = false;
	for (unsigned lines = 0; lines < MAPS_LINES_MAX && getline(&line, &size, f) > 0; lines++)
		if (parse_mapping(line, &mapping))
			use(libraries, pid, instance, &mapping);
	if (ferror(f))
		return -ESRCH;
	for (size_t i = 0; i < libraries->count; i++)
		used += libraries->library[i]->touched;
	if (used == 0) /* an ending process has no maps: its exit event follows */
		return 0;
	for (size_t i = libraries->count; i-- > 0;) {
		if (libraries->library[i]->touched)
			continue;
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			libraries_drop(libraries, i);
	}
	return (int)used;
}

void libraries_forget(struct libraries *libraries, int64_t instance)
{
	for (size_t i = libraries->count; i-- > 0;) {
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			libraries_drop(libraries, i);
	}
}

void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg)
{
	for (size_t i = 0; i < libraries->count; i++)
		callback(arg, libraries->library[i]);
}
