/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/store/stores.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzers/base/array.h"
#include "analyzers/store/schema_sql.h"

#define ENTRIES_MAX 65536 /* examined in a folder */

enum folder_is { FOLDER_NOTHING, FOLDER_STATE, FOLDER_DB };

static bool is_folder(const char *path)
{
	struct stat stat_of;

	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

static bool has_segments(const char *path)
{
	const struct dirent *entry;
	DIR *dir = opendir(path);
	struct segment_name name;
	bool found = false;

	if (!dir)
		return false;
	for (size_t i = 0; !found && i < ENTRIES_MAX && (entry = readdir(dir)); i++)
		found = segment_name_parse(entry->d_name, &name) == 0;
	closedir(dir);
	return found;
}

static enum folder_is what_is(const char *path)
{
	enum folder_is ret = FOLDER_NOTHING;
	char *db = NULL;

	if (asprintf(&db, "%s/db", path) < 0)
		return FOLDER_NOTHING;
	if (is_folder(db))
		ret = FOLDER_STATE;
	else if (has_segments(path))
		ret = FOLDER_DB;
	free(db);
	return ret;
}

/* Identity of the segments' folder, to find duplicates. */
static bool stores_identify(struct stores_one *one)
{
	struct stat stat_of;
	char *db = NULL;
	bool done;

	if (asprintf(&db, "%s%s", one->path, one->is_db ? "" : "/db") < 0)
		return false;
	done = stat(db, &stat_of) == 0;
	free(db);
	if (done) {
		one->device = stat_of.st_dev;
		one->inode = stat_of.st_ino;
	}
	return done;
}

static bool is_there(const struct stores *stores, const struct stores_one *one)
{
	for (size_t i = 0; i < stores->count; i++)
		if (stores->one[i].device == one->device && stores->one[i].inode == one->inode)
			return true;
	return false;
}

/* Takes ownership of the path. */
static int stores_append(struct stores *stores, const struct stores_one *one)
{
	if (!array_reserve(
		    (void **)&stores->one, &stores->capacity, stores->count + 1, sizeof(*stores->one), STORES_MAX)) {
		free(one->path);
		return stores->count < STORES_MAX ? -ENOMEM : -E2BIG;
	}
	stores->one[stores->count++] = *one;
	return 0;
}

static int stores_add_one(struct stores *stores, const char *path, bool is_db)
{
	struct stores_one one = {.path = strdup(path), .is_db = is_db};

	if (!one.path)
		return -ENOMEM;
	if (!stores_identify(&one) || is_there(stores, &one)) { /* removed meanwhile, or a duplicate */
		free(one.path);
		return 0;
	}
	return stores_append(stores, &one);
}

/* Adds the stores in a folder; *ret counts them. */
static int add_children(struct stores *stores, const char *folder, size_t *ret)
{
	struct dirent **entry = NULL;
	int count = scandir(folder, &entry, NULL, alphasort), r = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		enum folder_is what = FOLDER_NOTHING;
		char *path = NULL;

		if (r == 0 && i < ENTRIES_MAX && entry[i]->d_name[0] != '.' &&
			asprintf(&path, "%s/%s", folder, entry[i]->d_name) >= 0)
			what = what_is(path);
		if (what != FOLDER_NOTHING) {
			r = stores_add_one(stores, path, what == FOLDER_DB);
			(*ret)++;
		}
		free(path);
		free(entry[i]);
	}
	free(entry);
	return r;
}

int stores_add(struct stores *stores, const char *folder, char *error, size_t error_size)
{
	enum folder_is what = what_is(folder);
	size_t found = 1;
	struct stat stat_of;
	int r;

	if (stat(folder, &stat_of) < 0 || !S_ISDIR(stat_of.st_mode)) {
		r = stat(folder, &stat_of) < 0 ? -errno : -ENOTDIR;
		snprintf(error, error_size, "cannot read %s: %s", folder, strerror(-r));
		return r;
	}
	if (what != FOLDER_NOTHING) {
		r = stores_add_one(stores, folder, what == FOLDER_DB);
	} else {
		found = 0;
		r = add_children(stores, folder, &found);
	}
	if (r == -E2BIG)
		snprintf(error, error_size, "%s: more than %d stores; others are left out", folder, STORES_MAX);
	else if (r < 0)
		snprintf(error, error_size, "cannot read %s: %s", folder, strerror(-r));
	else if (!found) {
		r = -ENOENT;
		snprintf(error, error_size, "%s is no store of ranktrace (a state folder or its db) and contains none",
			folder);
	}
	return r;
}

int stores_add_state(struct stores *stores, const char *folder)
{
	struct stores_one one = {.path = strdup(folder)};

	if (!one.path)
		return -ENOMEM;
	(void)stores_identify(&one);
	return stores_append(stores, &one);
}

void stores_free(struct stores *stores)
{
	for (size_t i = 0; i < stores->count; i++)
		free(stores->one[i].path);
	free(stores->one);
	*stores = (struct stores){.count = 0};
}
