/* SPDX-License-Identifier: Apache-2.0 */
/* Moves and removes only files with known names; never follows links. */
#include "analyzers/dump/dump_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/array.h"
#include "analyzers/base/folder.h"

#define NAME_BYTES 256
#define STAMP_BYTES 24
#define WINDOWS_MAX 65536

static int dump_folder_make_one(const char *path)
{
	char why[PATH_MAX + 128];

	if (mkdir(path, 0750) == 0)
		return 0;
	return errno == EEXIST ? folder_own(path, why, sizeof(why)) : -errno;
}

int dump_folder_make(const char *path)
{
	char above[PATH_MAX];
	int r = dump_folder_make_one(path);
	char *slash;

	if (r != -ENOENT || (size_t)snprintf(above, sizeof(above), "%s", path) >= sizeof(above))
		return r;
	slash = strrchr(above, '/');
	if (!slash || slash == above)
		return -ENOENT;
	*slash = 0;
	r = dump_folder_make_one(above);
	return r == 0 ? dump_folder_make_one(path) : r;
}

DIR *dump_folder_list(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *ret = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !ret)
		close(fd);
	return ret;
}

int dump_folder_lock(const char *dir)
{
	char path[PATH_MAX];
	int fd, r = dump_folder_make(dir);

	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/lock", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0; /* fd remains open: it holds the lock */
	r = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return r;
}

static int kind_folder(const char *dir, enum dump_kind kind, char *ret, size_t size)
{
	return (size_t)snprintf(ret, size, "%s/%s", dir, dump_kind_folder(kind)) < size ? 0 : -ENAMETOOLONG;
}

int dump_folder_rotate(const char *dir, enum dump_kind kind, uint64_t window_ns)
{
	char from[PATH_MAX - NAME_BYTES], to[PATH_MAX - NAME_BYTES], old[PATH_MAX], fresh[PATH_MAX], stamp[STAMP_BYTES];
	time_t seconds = (time_t)(window_ns / 1000000000ULL);
	struct dirent *entry;
	struct tm tm;
	int r = kind_folder(dir, kind, from, sizeof(from));
	DIR *d;

	if (r < 0 || !gmtime_r(&seconds, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		return r < 0 ? r : -ERANGE;
	d = dump_folder_list(AT_FDCWD, from);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	snprintf(to, sizeof(to), "%.*s/old", PATH_MAX - 2 * NAME_BYTES, dir);
	r = dump_folder_make(to);
	snprintf(to, sizeof(to), "%.*s/old/%s/%s", PATH_MAX - 2 * NAME_BYTES, dir, stamp, dump_kind_folder(kind));
	while (r == 0 && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		r = dump_folder_make(to);
		snprintf(old, sizeof(old), "%s/%s", from, entry->d_name);
		snprintf(fresh, sizeof(fresh), "%s/%s", to, entry->d_name);
		if (r == 0 && rename(old, fresh) < 0)
			r = -errno;
	}
	closedir(d);
	return r;
}

static void count_folder(const char *folder, struct dump_kept *kept)
{
	struct dirent *entry;
	DIR *d = dump_folder_list(AT_FDCWD, folder);

	while (d && (entry = readdir(d))) {
		struct stat st;

		if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		kept->files++;
		kept->bytes += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
}

static struct dump_kept count_window(const char *dir)
{
	struct dump_kept kept = {0};
	char folder[PATH_MAX];

	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++)
		if (kind_folder(dir, (enum dump_kind)kind, folder, sizeof(folder)) == 0)
			count_folder(folder, &kept);
	return kept;
}

uint64_t dump_folder_present(const char *dir, enum dump_kind kind)
{
	struct dump_kept kept = {0};
	char folder[PATH_MAX];

	if (kind_folder(dir, kind, folder, sizeof(folder)) == 0)
		count_folder(folder, &kept);
	return kept.bytes;
}

/* "20261121T150000Z" to ns since the epoch; false for any other name. */
static bool window_of(const char *name, uint64_t *ret_ns)
{
	struct tm tm = {0};
	const char *end = strptime(name, "%Y%m%dT%H%M%SZ", &tm);
	time_t seconds;

	if (!end || *end || strlen(name) != 16)
		return false;
	seconds = timegm(&tm);
	*ret_ns = seconds > 0 ? (uint64_t)seconds * 1000000000ULL : 0;
	return seconds > 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct windows {
	size_t count;
	char (*name)[STAMP_BYTES];
};

/* Of old/, oldest first. */
static int list_windows(const char *dir, struct windows *ret)
{
	char path[PATH_MAX];
	struct dirent *entry;
	size_t capacity = 0;
	uint64_t ns;
	DIR *d;

	*ret = (struct windows){0};
	snprintf(path, sizeof(path), "%.*s/old", PATH_MAX - NAME_BYTES, dir);
	d = dump_folder_list(AT_FDCWD, path);
	while (d && ret->count < WINDOWS_MAX && (entry = readdir(d))) {
		if (!window_of(entry->d_name, &ns))
			continue;
		if (!array_reserve((void **)&ret->name, &capacity, ret->count + 1, STAMP_BYTES, WINDOWS_MAX)) {
			closedir(d);
			free(ret->name);
			return -ENOMEM;
		}
		snprintf(ret->name[ret->count++], STAMP_BYTES, "%.16s", entry->d_name);
	}
	if (d)
		closedir(d);
	if (ret->count)
		qsort(ret->name, ret->count, STAMP_BYTES, by_name);
	return 0;
}

static void remove_window(const char *dir, const char *name)
{
	char window[PATH_MAX - NAME_BYTES];
	DIR *of;

	snprintf(window, sizeof(window), "%.*s/old/%s", PATH_MAX - 2 * NAME_BYTES, dir, name);
	of = dump_folder_list(AT_FDCWD, window);
	for (unsigned kind = 0; of && kind < DUMP_KIND_MAX; kind++) {
		const char *folder = dump_kind_folder((enum dump_kind)kind);
		DIR *d = dump_folder_list(dirfd(of), folder);
		struct dirent *entry;

		while (d && (entry = readdir(d)))
			if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
				(void)unlinkat(dirfd(d), entry->d_name, 0);
		if (d)
			closedir(d);
		(void)unlinkat(dirfd(of), folder, AT_REMOVEDIR);
	}
	if (of)
		closedir(of);
	(void)rmdir(window);
}

bool dump_folder_remove_oldest(const char *dir)
{
	struct windows windows;
	bool there;

	if (list_windows(dir, &windows) < 0)
		return false;
	there = windows.count > 0;
	if (there)
		remove_window(dir, windows.name[0]);
	free(windows.name);
	return there;
}

int dump_folder_keep(const char *dir, uint64_t bytes_max, uint64_t age_max_ns, uint64_t now_ns, struct dump_kept *ret)
{
	struct dump_kept total = count_window(dir), *each;
	struct windows windows;
	int r = list_windows(dir, &windows);

	if (r < 0)
		return r;
	each = calloc(windows.count + 1, sizeof(*each));
	for (size_t i = 0; each && i < windows.count; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%.*s/old/%s", PATH_MAX - NAME_BYTES, dir, windows.name[i]);
		each[i] = count_window(path);
		total.files += each[i].files;
		total.bytes += each[i].bytes;
	}
	for (size_t i = 0; each && i < windows.count; i++) {
		uint64_t window_ns = 0;

		(void)window_of(windows.name[i], &window_ns);
		if (total.bytes <= bytes_max && (now_ns <= age_max_ns || window_ns >= now_ns - age_max_ns))
			break;
		remove_window(dir, windows.name[i]);
		total.files -= each[i].files;
		total.bytes -= each[i].bytes;
	}
	free(windows.name);
	*ret = total;
	r = each ? 0 : -ENOMEM;
	free(each);
	return r;
}
