/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

/* The rename is durable only when the folder is synced. Some file systems cannot sync a folder (EINVAL). */
static int replace_sync_folder(const char *folder)
{
	int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (dir < 0)
		return -errno;
	r = fsync(dir) < 0 && errno != EINVAL ? -errno : 0;
	close(dir);
	return r;
}

FILE *replace_create(const char *path)
{
	FILE *f;
	int fd;

	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return NULL;
	f = fdopen(fd, "w");
	if (!f)
		close(fd);
	return f;
}

int replace_file(const char *folder, const char *name, void (*write)(FILE *f, const void *arg), const void *arg)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	int r = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) ||
		snprintf(fresh, sizeof(fresh), "%s/%s.new", folder, name) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	f = replace_create(fresh);
	if (!f)
		return -errno;
	write(f, arg);
	errno = EIO;
	if (fflush(f) != 0 || ferror(f) || fsync(fileno(f)) < 0)
		r = -errno;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(fresh);
		return r;
	}
	return replace_sync_folder(folder);
}
