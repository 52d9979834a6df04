/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/report/publish.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/folder.h"
#include "analyzers/base/replace.h"
#include "analyzers/report/render.h"

#define STAMP_BYTES 17 /* YYYYMMDDTHHMMSSZ, terminated */
#define PREFIX "report-"
#define FILES_MAX 65536

static const struct {
	const char *suffix;
	void (*render)(FILE *out, const struct report *report);
} kept[] = {{".txt", render_text}, {".json", render_json}, {".html", render_html}};

int publish_file(const char *path, void (*render)(FILE *out, const struct report *report), const struct report *report,
	char *error, size_t error_size)
{
	struct replace replace;
	int r = replace_begin(&replace, path);

	if (r == 0) {
		render(replace.out, report);
		r = replace_end(&replace, 0, true);
	}
	if (r < 0)
		snprintf(error, error_size, "cannot write %s: %s", path, strerror(-r));
	return r;
}

static bool is_stamp(const char *text)
{
	static const char pattern[] = "ddddddddTddddddZ";

	for (size_t i = 0; i < sizeof(pattern) - 1; i++)
		if (pattern[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != pattern[i])
			return false;
	return true;
}

static bool is_ours(const char *name)
{
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !is_stamp(name + strlen(PREFIX)))
		return false;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (strcmp(name + strlen(PREFIX) + STAMP_BYTES - 1, kept[i].suffix) == 0)
			return true;
	return false;
}

static int report_publish_choose(const struct dirent *entry)
{
	return is_ours(entry->d_name);
}

/* Keeps the newest max times; names sort by time. */
static void remove_old(const char *dir, unsigned long max)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, report_publish_choose, alphasort);
	unsigned long times = 0;
	char last[STAMP_BYTES] = "";

	for (int i = n; i-- > 0;) {
		const char *stamp = entries[i]->d_name + strlen(PREFIX);
		char path[PATH_MAX];

		if (strncmp(stamp, last, STAMP_BYTES - 1) != 0)
			times++;
		memcpy(last, stamp, STAMP_BYTES - 1);
		if (times > max && snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name) < (int)sizeof(path))
			(void)unlink(path);
		free(entries[i]);
	}
	free(entries);
}

/* Links latest.SUFFIX to the newest. */
static int report_publish_point(const char *dir, const char *name, const char *suffix)
{
	char link[PATH_MAX], temporary[PATH_MAX];

	if (snprintf(link, sizeof(link), "%s/latest%s", dir, suffix) >= (int)sizeof(link) ||
		snprintf(temporary, sizeof(temporary), "%s/latest%s.new", dir, suffix) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	(void)unlink(temporary);
	if (symlink(name, temporary) < 0 || rename(temporary, link) < 0)
		return -errno;
	return 0;
}

int publish_keep(const char *dir, unsigned long max, const struct report *report, char *error, size_t error_size)
{
	time_t seconds = (time_t)(report->now_ns / 1000000000);
	char stamp[STAMP_BYTES], path[PATH_MAX], name[64];
	struct tm tm;
	int r = 0;

	if (mkdir(dir, 0750) < 0 && errno != EEXIST) {
		r = -errno;
		snprintf(error, error_size, "cannot create %s: %s", dir, strerror(errno));
		return r;
	}
	r = folder_safe(dir, error, error_size);
	if (r < 0)
		return r;
	if (!gmtime_r(&seconds, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		snprintf(stamp, sizeof(stamp), "19700101T000000Z");
	for (size_t i = 0; r == 0 && i < sizeof(kept) / sizeof(kept[0]); i++) {
		snprintf(name, sizeof(name), PREFIX "%s%s", stamp, kept[i].suffix);
		r = snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) ? 0 : -ENAMETOOLONG;
		if (r == 0)
			r = publish_file(path, kept[i].render, report, error, error_size);
		if (r < 0)
			return r;
		r = report_publish_point(dir, name, kept[i].suffix);
	}
	if (r < 0)
		snprintf(error, error_size, "cannot write into %s: %s", dir, strerror(-r));
	remove_old(dir, max);
	return r;
}
