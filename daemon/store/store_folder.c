/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment files of a store: which there are, how large, which goes first. Numbers give the order, not clocks.
 * Nothing here opens a database.
 */
#include "analyzers/base/array.h"
#include "analyzers/base/folder.h"
#include "daemon/store/store_internal.h"

#include <sys/stat.h>

#include "daemon/base/log.h"

/* In steady state one file gets too old for each new one; the second drains what a stopped daemon left. */
#define AGE_CREDIT 2u

static const char *const companions[] = {"", "-wal", "-shm"};

void folder_path(const struct folder *folder, const struct segment_name *name, char *ret, size_t size)
{
	char file[SEGMENT_NAME_BYTES] = "";

	(void)segment_name_format(name, file, sizeof(file));
	snprintf(ret, size, "%s/%s", folder->dir, file);
}

static int by_number(const void *a, const void *b)
{
	const struct folder_file *x = a, *y = b;

	return ORDER(x->name.number, y->name.number);
}

bool folder_add(struct folder *folder, const struct segment_name *name, int64_t end_ns)
{
	if (!array_reserve(
		    (void **)&folder->files, &folder->capacity, folder->count + 1, sizeof(*folder->files), SIZE_MAX))
		return false;
	folder->files[folder->count++] = (struct folder_file){.name = *name, .end_ns = end_ns};
	if (name->number >= folder->next_number)
		folder->next_number = name->number + 1;
	return true;
}

struct folder_file *folder_find(const struct folder *folder, uint64_t number)
{
	for (size_t i = 0; i < folder->count; i++)
		if (folder->files[i].name.number == number)
			return &folder->files[i];
	return NULL;
}

void folder_measure(struct folder *folder, uint64_t number)
{
	struct folder_file *file = folder_find(folder, number);
	char path[PATH_MAX], name[PATH_MAX + 8];
	uint64_t size_bytes = 0;
	struct stat st;

	if (!file)
		return;
	folder_path(folder, &file->name, path, sizeof(path));
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		snprintf(name, sizeof(name), "%s%s", path, companions[i]);
		if (stat(name, &st) == 0)
			size_bytes += (uint64_t)st.st_size;
	}
	file->size_bytes = size_bytes;
}

uint64_t folder_size(const struct folder *folder, enum schema_tier tier)
{
	uint64_t size_bytes = 0;

	for (size_t i = 0; i < folder->count; i++)
		if (folder->files[i].name.tier == tier)
			size_bytes += folder->files[i].size_bytes;
	return size_bytes;
}

void folder_forget(struct folder *folder, uint64_t number)
{
	struct folder_file *file = folder_find(folder, number);
	size_t i;

	if (!file)
		return;
	i = (size_t)(file - folder->files);
	memmove(file, file + 1, (--folder->count - i) * sizeof(*file));
}

static struct folder_file *store_folder_oldest(struct folder *folder, enum schema_tier tier, uint64_t current)
{
	for (size_t i = 0; i < folder->count; i++)
		if (folder->files[i].name.tier == tier && folder->files[i].name.number != current)
			return &folder->files[i];
	return NULL;
}

bool folder_remove_oldest(struct folder *folder, enum schema_tier tier, uint64_t current, const char *why)
{
	struct folder_file *file = store_folder_oldest(folder, tier, current);
	char path[PATH_MAX], name[PATH_MAX + 8];

	if (!file)
		return false;
	folder_path(folder, &file->name, path, sizeof(path));
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		snprintf(name, sizeof(name), "%s%s", path, companions[i]);
		if (unlink(name) < 0 && errno != ENOENT)
			log_warning("store", "cannot remove %s (%s); leaving it out", name, strerror(errno));
	}
	log_info("store", "removed %s: %s", path, why);
	folder_forget(folder, file->name.number);
	folder->removed++;
	return true;
}

void folder_began(struct folder *folder, enum schema_tier tier)
{
	folder->age_credit[tier] = AGE_CREDIT;
}

void folder_retain(struct folder *folder, enum schema_tier tier, uint64_t current, uint64_t size_max,
	uint64_t age_max_ns, uint64_t now_ns)
{
	const struct folder_file *file;

	while (folder_size(folder, tier) > size_max)
		if (!folder_remove_oldest(folder, tier, current, "the store is at its size limit"))
			break;
	while ((file = store_folder_oldest(folder, tier, current)) && now_ns > age_max_ns &&
		file->end_ns < (int64_t)(now_ns - age_max_ns)) {
		if (!folder->age_credit[tier]) {
			if (!folder->age_held[tier])
				log_warning("store",
					"more files are too old by the clock than have come since: removing at most %u "
					"for "
					"each new one",
					AGE_CREDIT);
			folder->age_held[tier] = true;
			return;
		}
		folder->age_credit[tier]--;
		(void)folder_remove_oldest(folder, tier, current, "it is older than the store keeps");
	}
	folder->age_held[tier] = false;
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Calls back for each name in the folder, in the order of the text; bounded. */
static int each_name(
	const struct folder *folder, void (*callback)(struct folder *folder, const char *name, void *arg), void *arg)
{
	_cleanup_closedir_ DIR *dir = opendir(folder->dir);
	struct dirent *entry;
	char **names = NULL;
	size_t count = 0, capacity = 0;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir))) {
		if (array_reserve((void **)&names, &capacity, count + 1, sizeof(*names), SIZE_MAX) &&
			(names[count] = strdup(entry->d_name)))
			count++;
		else
			r = -ENOMEM;
	}
	if (count)
		qsort(names, count, sizeof(*names), compare_text);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			callback((struct folder *)folder, names[i], arg);
		free(names[i]);
	}
	free(names);
	return r;
}

/* The number in NAME.corrupt, 0 for any other name. */
static uint64_t corrupt_number(const char *text)
{
	struct segment_name parsed;
	char name[SEGMENT_NAME_BYTES];
	size_t n = strlen(text), suffix = strlen(".corrupt");

	if (n <= suffix || n - suffix >= sizeof(name) || !streq(text + n - suffix, ".corrupt"))
		return 0;
	memcpy(name, text, n - suffix);
	name[n - suffix] = 0;
	return segment_name_parse(name, &parsed) == 0 ? parsed.number : 0;
}

static void list_one(struct folder *folder, const char *text, void *arg)
{
	uint64_t segment_ns = *(uint64_t *)arg;
	struct segment_name name;

	if (segment_name_parse(text, &name) == 0) {
		if (folder_add(folder, &name, name.base_ns + (int64_t)segment_ns))
			folder_measure(folder, name.number);
	} else if (corrupt_number(text) >= folder->next_number) {
		folder->next_number = corrupt_number(text) + 1;
	}
}

int folder_make(const char *path)
{
	char why[PATH_MAX + 128];
	int r;

	if (mkdir(path, 0750) < 0 && errno != EEXIST)
		return -errno;
	r = folder_safe(path, why, sizeof(why));
	if (r == -EPERM)
		log_error("store", "%s", why);
	return r;
}

int folder_open(struct folder *folder, const char *state_dir, uint64_t segment_ns)
{
	int r;

	if ((size_t)snprintf(folder->dir, sizeof(folder->dir), "%s/db", state_dir) >= sizeof(folder->dir))
		return -ENAMETOOLONG;
	r = folder_make(folder->dir);
	if (r < 0)
		return r;
	folder->next_number = 1;
	r = each_name(folder, list_one, &segment_ns);
	if (r == 0 && folder->count)
		qsort(folder->files, folder->count, sizeof(*folder->files), by_number);
	return r;
}

void folder_free(struct folder *folder)
{
	free(folder->files);
	*folder = (struct folder){0};
}

struct corrupt_scan {
	char oldest[SEGMENT_NAME_BYTES + 16];
	uint64_t oldest_number;
	size_t count;
};

static void scan_corrupt(struct folder *folder, const char *text, void *arg)
{
	struct corrupt_scan *scan = arg;
	uint64_t number = corrupt_number(text);

	if (!number)
		return;
	if (!scan->count || number < scan->oldest_number) {
		(void)copy_text(scan->oldest, sizeof(scan->oldest), text);
		scan->oldest_number = number;
	}
	scan->count++;
}

void folder_set_aside(struct folder *folder, uint64_t number, const char *why)
{
	struct folder_file *file = folder_find(folder, number);
	char path[PATH_MAX], from[PATH_MAX + 8], to[PATH_MAX + 24];
	struct corrupt_scan scan;

	if (!file)
		return;
	folder_path(folder, &file->name, path, sizeof(path));
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		snprintf(from, sizeof(from), "%s%s", path, companions[i]);
		snprintf(to, sizeof(to), "%s.corrupt%s", path, companions[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			log_warning("store", "cannot rename %s (%s); leaving it out", from, strerror(errno));
	}
	folder_forget(folder, number);
	folder->corrupt++;
	log_error("store", "%s is damaged (%s); set it aside as %s.corrupt and going on with a new file", path, why,
		path);
	for (;;) {
		memset(&scan, 0, sizeof(scan));
		if (each_name(folder, scan_corrupt, &scan) < 0 || scan.count <= CORRUPT_FILES_MAX)
			return;
		for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
			snprintf(from, sizeof(from), "%s/%s%s", folder->dir, scan.oldest, companions[i]);
			if (unlink(from) < 0 && i == 0)
				return;
		}
	}
}
