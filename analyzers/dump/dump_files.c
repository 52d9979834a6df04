/* SPDX-License-Identifier: Apache-2.0 */
/* At most OPEN_MAX files are open; the least recently used one is closed. */
#include "analyzers/dump/dump_files.h"
#include "analyzers/base/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/dump/dump_folder.h"

#define OPEN_MAX 64
#define NAME_BYTES 256
#define BUFFER_BYTES (64 * 1024)

struct dump_file {
	enum dump_kind kind;
	char *path, *hidden;
	int64_t rank;
	uint64_t rows, bytes, used_at;
	FILE *f; /* NULL: closed */
};

/* File of a process. */
struct owner {
	int64_t instance;
	struct dump_file *file;
};

struct dump_files {
	char dir[PATH_MAX - 2 * NAME_BYTES];
	uint64_t run, uses;
	bool extend;
	size_t count, open, owners[DUMP_KIND_MAX];
	struct dump_file *file[DUMP_FILES_MAX];
	struct owner owner[DUMP_KIND_MAX][DUMP_FILES_MAX]; /* by instance */
};

int dump_files_new(const char *dir, uint64_t run, bool extend, struct dump_files **ret)
{
	struct dump_files *files = calloc(1, sizeof(*files));
	int r;

	if (!files)
		return -ENOMEM;
	files->run = run;
	files->extend = extend;
	r = (size_t)snprintf(files->dir, sizeof(files->dir), "%s", dir) < sizeof(files->dir) ? dump_folder_make(dir)
											     : -ENAMETOOLONG;
	if (r < 0) {
		free(files);
		return r;
	}
	*ret = files;
	return 0;
}

static void file_free(struct dump_file *file)
{
	if (file->f)
		fclose(file->f);
	if (file->hidden)
		unlink(file->hidden);
	free(file->hidden);
	free(file->path);
	free(file);
}

struct dump_files *dump_files_free(struct dump_files *files)
{
	for (size_t i = 0; files && i < files->count; i++)
		file_free(files->file[i]);
	free(files);
	return NULL;
}

static int close_file(struct dump_files *files, struct dump_file *file, bool sync)
{
	int r = 0;

	errno = EIO;
	if (fflush(file->f) != 0 || (sync && fdatasync(fileno(file->f)) < 0))
		r = -errno;
	if (fclose(file->f) != 0 && r == 0)
		r = -errno;
	file->f = NULL;
	files->open--;
	return r;
}

static int close_oldest(struct dump_files *files)
{
	struct dump_file *oldest = NULL;

	for (size_t i = 0; i < files->count; i++)
		if (files->file[i]->f && (!oldest || files->file[i]->used_at < oldest->used_at))
			oldest = files->file[i];
	return oldest ? close_file(files, oldest, false) : 0;
}

static int dump_files_open_file(struct dump_files *files, struct dump_file *file)
{
	int r, fd;

	file->used_at = ++files->uses;
	if (file->f)
		return 0;
	if (files->open == OPEN_MAX) {
		r = close_oldest(files);
		if (r < 0)
			return r;
	}
	/* Not O_APPEND, which copy_file_range() refuses. */
	fd = open(file->hidden, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	file->f = lseek(fd, 0, SEEK_END) < 0 ? NULL : fdopen(fd, "w");
	if (!file->f) {
		close(fd);
		return -ENOMEM;
	}
	(void)setvbuf(file->f, NULL, _IOFBF, BUFFER_BYTES);
	files->open++;
	return 0;
}

/* Copies the existing file, sharing blocks where the file system can. */
static int copy_old(struct dump_file *file)
{
	int from = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), to = fileno(file->f), r = 0;
	char *buffer = NULL;
	struct stat st;
	ssize_t n = 0;

	if (from < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
		r = -EINVAL;
	while (r == 0 && (n = copy_file_range(from, NULL, to, NULL, 1 << 26, 0)) > 0)
		file->bytes += (uint64_t)n;
	/* Not supported by the file system. */
	buffer = r == 0 && n < 0 ? malloc(BUFFER_BYTES) : NULL;
	if (r == 0 && n < 0 && !buffer)
		r = -ENOMEM;
	while (buffer && (n = read(from, buffer, BUFFER_BYTES)) > 0) {
		file->bytes += (uint64_t)n;
		if (fwrite(buffer, 1, (size_t)n, file->f) != (size_t)n) {
			r = -errno;
			break;
		}
	}
	if (r == 0 && n < 0)
		r = -errno;
	free(buffer);
	close(from);
	return r;
}

/* Index of an instance among the owners, or its insertion index. */
static size_t owner_at(const struct dump_files *files, enum dump_kind kind, int64_t instance)
{
	return array_first_not(i, files->owners[kind], files->owner[kind][i].instance < instance);
}

static struct dump_file *of_path(const struct dump_files *files, const char *path)
{
	for (size_t i = 0; i < files->count; i++)
		if (strcmp(files->file[i]->path, path) == 0)
			return files->file[i];
	return NULL;
}

static int begin_file(struct dump_files *files, struct dump_file *file)
{
	int r;

	unlink(file->hidden); /* of a failed dump with this number */
	r = dump_files_open_file(files, file);
	if (r == 0 && files->extend)
		r = copy_old(file);
	return r;
}

static int make_file(struct dump_files *files, enum dump_kind kind, const struct dump_of *of, struct dump_file **ret)
{
	char name[NAME_BYTES], folder[PATH_MAX - NAME_BYTES], path[PATH_MAX];
	struct dump_file *file;
	int r = dump_file_name(kind, of, name, sizeof(name));

	if (r < 0)
		return r;
	snprintf(folder, sizeof(folder), "%s/%s", files->dir, dump_kind_folder(kind));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	*ret = of_path(files, path);
	if (*ret)
		return 0;
	if (files->count == DUMP_FILES_MAX)
		return -E2BIG;
	r = dump_folder_make(folder);
	if (r < 0)
		return r;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->kind = kind;
	file->rank = of->rank;
	file->path = strdup(path);
	if (!file->path || asprintf(&file->hidden, "%s/.%s.%" PRIu64 ".new", folder, name, files->run) < 0) {
		file->hidden = NULL;
		file_free(file);
		return -ENOMEM;
	}
	files->file[files->count++] = file;
	r = begin_file(files, file);
	if (r == 0)
		*ret = file;
	return r;
}

int dump_files_of(struct dump_files *files, enum dump_kind kind, int64_t instance, const struct dump_of *of,
	struct dump_file **ret, bool *ret_fresh)
{
	size_t at = owner_at(files, kind, instance);
	struct owner *owner = &files->owner[kind][at];
	int r;

	if (at == files->owners[kind] || owner->instance != instance) {
		struct dump_file *file;

		if (files->owners[kind] == DUMP_FILES_MAX)
			return -E2BIG;
		r = make_file(files, kind, of, &file);
		if (r < 0)
			return r;
		memmove(owner + 1, owner, (files->owners[kind] - at) * sizeof(*owner));
		*owner = (struct owner){instance, file};
		files->owners[kind]++;
	}
	*ret_fresh = owner->file->bytes == 0;
	*ret = owner->file;
	return 0;
}

int dump_file_write(struct dump_files *files, struct dump_file *file, const void *data, size_t size)
{
	int r = dump_files_open_file(files, file);

	if (r < 0)
		return r;
	errno = EIO;
	if (fwrite(data, 1, size, file->f) != size)
		return -errno;
	file->bytes += size;
	return 0;
}

void dump_file_count(struct dump_file *file)
{
	file->rows++;
}

int dump_files_sync(struct dump_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		int r = dump_files_open_file(files, files->file[i]);

		if (r == 0)
			r = close_file(files, files->file[i], true);
		if (r < 0)
			return r;
	}
	return 0;
}

int dump_files_publish(struct dump_files *files)
{
	int r = 0;

	for (size_t i = 0; i < files->count; i++) {
		struct dump_file *file = files->file[i];

		if (rename(file->hidden, file->path) < 0)
			r = -errno;
		free(file->hidden); /* dump_files_recover() handles one that is still hidden */
		file->hidden = NULL;
	}
	return r;
}

/* ".NAME.RUN.new" to NAME and RUN. */
static bool parse_hidden(const char *hidden, char name[NAME_BYTES], uint64_t *ret_run)
{
	static const char end[] = ".new";
	size_t n = strlen(hidden);
	char *dot;

	if (hidden[0] != '.' || n <= sizeof(end) || n >= NAME_BYTES || strcmp(hidden + n - strlen(end), end) != 0)
		return false;
	memcpy(name, hidden + 1, n - 1 - strlen(end));
	name[n - 1 - strlen(end)] = 0;
	dot = strrchr(name, '.');
	if (!dot || sscanf(dot + 1, "%" SCNu64, ret_run) != 1)
		return false;
	*dot = 0;
	return name[0] != 0 && !strchr(name, '/');
}

int dump_files_recover(const char *dir, uint64_t run)
{
	int r = 0;

	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++) {
		char folder[PATH_MAX - 2 * NAME_BYTES], name[NAME_BYTES];
		struct dirent *entry;
		uint64_t of;
		DIR *d;

		if (snprintf(folder, sizeof(folder), "%s/%s", dir, dump_kind_folder((enum dump_kind)kind)) >=
			(int)sizeof(folder))
			return -ENAMETOOLONG;
		d = dump_folder_list(AT_FDCWD, folder);
		while (d && (entry = readdir(d))) {
			if (!parse_hidden(entry->d_name, name, &of))
				continue;
			if ((of == run ? renameat(dirfd(d), entry->d_name, dirfd(d), name)
				       : unlinkat(dirfd(d), entry->d_name, 0)) < 0)
				r = -errno;
		}
		if (d)
			closedir(d);
	}
	return r;
}

bool dump_files_get(const struct dump_files *files, size_t i, struct dump_file_info *ret)
{
	const struct dump_file *file = i < files->count ? files->file[i] : NULL;

	if (file)
		*ret = (struct dump_file_info){file->kind, file->path, file->rank, file->rows, file->bytes};
	return file;
}
