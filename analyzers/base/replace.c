/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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

static FILE *replace_create(const char *path)
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

int replace_written(FILE *out)
{
	if (fflush(out) != 0)
		return -errno;
	if (!ferror(out))
		return 0;
	/* The stream does not keep the error of an earlier write; the next write fails in the same way. */
	return fileno(out) >= 0 && write(fileno(out), "\n", 1) < 0 ? -errno : -EIO;
}

int replace_begin(struct replace *replace, const char *path)
{
	struct stat st;
	bool plain = stat(path, &st) < 0 || S_ISREG(st.st_mode);
	int r = 0;

	replace->path = path;
	replace->fresh[0] = 0;
	replace->out = NULL;
	if (!plain && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (plain && snprintf(replace->fresh, sizeof(replace->fresh), "%s.new", path) >= (int)sizeof(replace->fresh))
		r = -ENAMETOOLONG;
	if (r == 0)
		replace->out = plain ? replace_create(replace->fresh) : fopen(path, "we");
	if (r == 0 && !replace->out)
		r = -errno;
	if (r < 0)
		replace->fresh[0] = 0;
	return r;
}

int replace_end(struct replace *replace, int failed, bool sync)
{
	bool plain = replace->fresh[0];
	int r = failed < 0 ? failed : replace_written(replace->out);

	if (r == 0 && sync && plain && fsync(fileno(replace->out)) < 0)
		r = -errno;
	if (fclose(replace->out) != 0 && r == 0)
		r = -errno;
	if (r == 0 && plain && rename(replace->fresh, replace->path) < 0)
		r = -errno;
	if (r < 0 && plain)
		(void)unlink(replace->fresh);
	replace->fresh[0] = 0;
	return r;
}

int replace_file(const char *folder, const char *name, void (*write)(FILE *f, const void *arg), const void *arg)
{
	struct replace replace;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = replace_begin(&replace, path);
	if (r < 0)
		return r;
	write(replace.out, arg);
	r = replace_end(&replace, 0, true);
	return r < 0 ? r : replace_sync_folder(folder);
}
