/* SPDX-License-Identifier: Apache-2.0 */
/* See folders.h. */
#include "analyzers/report/folders.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzers/report/report.h"

static bool is_store(const char *path)
{
	char db[PATH_MAX];
	struct stat st;

	return snprintf(db, sizeof(db), "%s/db", path) < (int)sizeof(db) && stat(db, &st) == 0 && S_ISDIR(st.st_mode);
}

static int append(struct folders *folders, const char *path)
{
	char **more;

	if (folders->count == REPORT_STORES_MAX)
		return -E2BIG;
	more = reallocarray(folders->path, folders->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	folders->path = more;
	more[folders->count] = strdup(path);
	if (!more[folders->count])
		return -ENOMEM;
	folders->count++;
	return 0;
}

static int append_below(struct folders *folders, const char *path)
{
	struct dirent **entries = NULL;
	int n = scandir(path, &entries, NULL, alphasort), r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		char below[PATH_MAX];

		if (r == 0 && entries[i]->d_name[0] != '.' &&
			snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name) < (int)sizeof(below) &&
			is_store(below))
			r = append(folders, below);
		free(entries[i]);
	}
	free(entries);
	return r;
}

/* STATE_DIR/db means STATE_DIR. */
static bool is_db(const char *path, char parent[PATH_MAX])
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	if (length < 3 || length >= PATH_MAX || strncmp(path + length - 3, "/db", 3) != 0)
		return false;
	memcpy(parent, path, length - 3);
	parent[length - 3] = 0;
	return is_store(parent);
}

int folders_add(struct folders *folders, const char *path, bool many, char *error, size_t error_size)
{
	size_t before = folders->count;
	char parent[PATH_MAX];
	int r;

	if (many && is_db(path, parent))
		path = parent;

	/* Of a single one the reader says what is wrong with it. */
	r = !many || is_store(path) ? append(folders, path) : append_below(folders, path);
	if (r == -E2BIG)
		snprintf(error, error_size, "more than %d stores", REPORT_STORES_MAX);
	else if (r < 0)
		snprintf(error, error_size, "cannot read %s: %s", path, strerror(-r));
	else if (folders->count == before) {
		snprintf(error, error_size, "no store of a node in %s: neither it nor a folder in it has db/", path);
		r = -ENOENT;
	}
	return r;
}

void folders_free(struct folders *folders)
{
	for (size_t i = 0; i < folders->count; i++)
		free(folders->path[i]);
	free(folders->path);
	*folders = (struct folders){0};
}
