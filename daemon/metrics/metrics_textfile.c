/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page as a file for the textfile collector of node_exporter. It is written by a thread, as a disk may block for
 * long; while one write lasts, no other begins.
 */
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "analyzers/base/replace.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/metrics/metrics_internal.h"

#define TEXTFILE_NS (15 * NSEC_PER_SEC) /* the usual interval of scrapes */

/* Shared by the loop and the thread: the last of the two frees it. */
struct metrics_write {
	char folder[PATH_MAX];
	char *text;
	size_t bytes;
	int result;
	atomic_bool written, left; /* the thread is done; one of the two has left */
};

struct metrics_textfile {
	struct metrics *metrics;
	char folder[PATH_MAX];
	struct metrics_write *write; /* NULL: none lasts */
	uint64_t next_ns;
	int error; /* the last one: each is logged once */
};

static void metrics_write_leave(struct metrics_write *write)
{
	if (!atomic_exchange(&write->left, true))
		return;
	free(write->text);
	free(write);
}

/* node_exporter is another user. */
static void metrics_write_text(FILE *f, const void *arg)
{
	const struct metrics_write *write = arg;

	(void)fchmod(fileno(f), 0644);
	(void)fwrite(write->text, 1, write->bytes, f);
}

static void *metrics_write_run(void *arg)
{
	struct metrics_write *write = arg;

	write->result = replace_file(write->folder, METRICS_TEXTFILE_NAME, metrics_write_text, write);
	atomic_store(&write->written, true);
	metrics_write_leave(write);
	return NULL;
}

static int metrics_textfile_begin(struct metrics_textfile *textfile)
{
	const struct metrics_page *page = metrics_page_get(textfile->metrics, METRICS_TEXT);
	struct metrics_write *write = page ? calloc(1, sizeof(*write)) : NULL;
	int r;

	if (!write)
		return -ENOMEM;
	write->text = malloc(page->used);
	r = write->text ? 0 : -ENOMEM;
	if (r == 0) {
		memcpy(write->text, page->text, page->used);
		write->bytes = page->used;
		(void)copy_text(write->folder, sizeof(write->folder), textfile->folder);
		r = thread_run(metrics_write_run, write);
	}
	if (r < 0) {
		free(write->text);
		free(write);
		return r;
	}
	textfile->write = write;
	return 0;
}

static void metrics_textfile_note(struct metrics_textfile *textfile, int r)
{
	if (r < 0 && r != textfile->error)
		log_error_errno("metrics", r, "cannot write %s/" METRICS_TEXTFILE_NAME ", trying again every 15 s", textfile->folder);
	if (r == 0 && textfile->error)
		log_notice("metrics", "%s/" METRICS_TEXTFILE_NAME " is written again", textfile->folder);
	textfile->error = r;
}

void metrics_textfile_tick(struct metrics_textfile *textfile, uint64_t now_ns)
{
	if (textfile->write && atomic_load(&textfile->write->written)) {
		metrics_textfile_note(textfile, textfile->write->result);
		metrics_write_leave(textfile->write);
		textfile->write = NULL;
	}
	if (textfile->write || now_ns < textfile->next_ns)
		return;
	textfile->next_ns = now_ns + TEXTFILE_NS;
	if (metrics_textfile_begin(textfile) < 0)
		metrics_textfile_note(textfile, -ENOMEM);
}

int metrics_textfile_new(struct metrics *metrics, const char *folder, struct metrics_textfile **ret)
{
	struct metrics_textfile *textfile = calloc(1, sizeof(*textfile));

	if (!textfile)
		return -ENOMEM;
	textfile->metrics = metrics;
	(void)copy_text(textfile->folder, sizeof(textfile->folder), folder);
	log_info("metrics", "writing %s/" METRICS_TEXTFILE_NAME " every 15 s", folder);
	*ret = textfile;
	return 0;
}

struct metrics_textfile *metrics_textfile_free(struct metrics_textfile *textfile)
{
	char path[PATH_MAX + sizeof(METRICS_TEXTFILE_NAME) + 1];

	if (!textfile)
		return NULL;
	if (textfile->write)
		metrics_write_leave(textfile->write);
	snprintf(path, sizeof(path), "%s/" METRICS_TEXTFILE_NAME, textfile->folder);
	if (unlink(path) < 0 && errno != ENOENT)
		log_warning("metrics", "cannot remove %s: %s; it is out of date from now on", path, strerror(errno));
	free(textfile);
	return NULL;
}
