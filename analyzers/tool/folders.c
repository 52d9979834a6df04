/* SPDX-License-Identifier: Apache-2.0 */
/* See folders.h. */
#include "analyzers/tool/folders.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzers/tool/tool.h"

int tool_folders_take(struct tool_folders *folders, const char *path)
{
	char **more = realloc(folders->path, (folders->count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	folders->path = more;
	more[folders->count] = strdup(path);
	if (!more[folders->count])
		return -ENOMEM;
	folders->count++;
	return 0;
}

static bool holds_store(const char *path)
{
	char db[PATH_MAX];
	struct stat st;

	return (size_t)snprintf(db, sizeof(db), "%s/db", path) < sizeof(db) && stat(db, &st) == 0 &&
	       S_ISDIR(st.st_mode);
}

static int add_below(struct tool_folders *folders, const char *path, struct dirent **entries, int count)
{
	size_t before = folders->count;
	char below[PATH_MAX];
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		if (entries[i]->d_name[0] == '.' ||
			(size_t)snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name) >= sizeof(below) ||
			!holds_store(below))
			continue;
		r = folders->count < TOOL_FOLDERS_MAX ? tool_folders_take(folders, below) : -E2BIG;
	}
	if (r == -E2BIG)
		tool_fail(1, "more than %d stores", TOOL_FOLDERS_MAX);
	else if (r < 0)
		tool_fail(1, "out of memory");
	else if (folders->count == before) {
		tool_fail(1, "there is no store in %s, nor in a folder of it", path);
		r = -ENOENT;
	}
	return r;
}

int tool_folders_add(struct tool_folders *folders, const char *path)
{
	struct dirent **entries = NULL;
	int count, r;

	if (holds_store(path) && folders->count < TOOL_FOLDERS_MAX) {
		r = tool_folders_take(folders, path);
		if (r < 0)
			tool_fail(1, "out of memory");
		return r;
	}
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0) {
		r = -errno;
		tool_fail(1, "cannot read %s: %s", path, strerror(-r));
		return r;
	}
	r = add_below(folders, path, entries, count);
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	return r;
}

void tool_folders_clear(struct tool_folders *folders)
{
	for (size_t i = 0; i < folders->count; i++)
		free(folders->path[i]);
	free(folders->path);
	*folders = (struct tool_folders){0};
}
