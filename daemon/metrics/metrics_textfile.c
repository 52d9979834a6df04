/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page as a file for the textfile collector of node_exporter. It is written by a thread, as a disk may block for
 * long; while one write lasts, no other begins.
 */
#include <limits.h>
#include <sys/stat.h>

#include "analyzers/base/replace.h"
#include "daemon/base/job_thread.h"
#include "daemon/base/log.h"
#include "daemon/metrics/metrics_internal.h"

#define TEXTFILE_NS (15 * NSEC_PER_SEC) /* the usual interval of scrapes */

struct metrics_textfile {
	struct metrics *metrics;
	char folder[PATH_MAX];
	struct job_thread *thread;
	struct metrics_write *write; /* NULL: none lasts */
	uint64_t next_ns;
	int error; /* the last one: each is logged once */
};

struct metrics_write {
	struct thread_job job;
	char folder[PATH_MAX];
	int result;
	size_t bytes;
	char text[];
};

/* node_exporter is another user. */
static void metrics_write_text(FILE *f, const void *arg)
{
	const struct metrics_write *write = arg;

	(void)fchmod(fileno(f), 0644);
	(void)fwrite(write->text, 1, write->bytes, f);
}

static void metrics_write_run(struct thread_job *job)
{
	struct metrics_write *write = (struct metrics_write *)job;

	write->result = replace_file(write->folder, METRICS_TEXTFILE_NAME, metrics_write_text, write);
}

static void metrics_write_free(struct thread_job *job)
{
	free(job);
}

static int metrics_textfile_begin(struct metrics_textfile *textfile)
{
	const struct metrics_page *page = metrics_page_get(textfile->metrics, METRICS_TEXT);
	struct metrics_write *write = page ? calloc(1, sizeof(*write) + page->used) : NULL;

	if (!write)
		return -ENOMEM;
	write->job = (struct thread_job){.run = metrics_write_run, .free = metrics_write_free};
	memcpy(write->text, page->text, page->used);
	write->bytes = page->used;
	(void)copy_text(write->folder, sizeof(write->folder), textfile->folder);
	textfile->write = write;
	job_thread_order(textfile->thread, &write->job);
	return 0;
}

static void metrics_textfile_note(struct metrics_textfile *textfile, int r)
{
	if (r < 0 && r != textfile->error)
		log_error_errno("metrics", r, "cannot write %s/" METRICS_TEXTFILE_NAME ", trying again every 15 s",
			textfile->folder);
	if (r == 0 && textfile->error)
		log_notice("metrics", "%s/" METRICS_TEXTFILE_NAME " is written again", textfile->folder);
	textfile->error = r;
}

void metrics_textfile_tick(struct metrics_textfile *textfile, uint64_t now_ns)
{
	if (textfile->write && job_thread_wait(textfile->thread, &textfile->write->job, 0)) {
		metrics_textfile_note(textfile, textfile->write->result);
		free(textfile->write);
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
	int r = textfile ? job_thread_new(&textfile->thread) : -ENOMEM;

	if (r < 0) {
		free(textfile);
		return r;
	}
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
		job_thread_forget(textfile->thread, &textfile->write->job);
	job_thread_free(textfile->thread);
	snprintf(path, sizeof(path), "%s/" METRICS_TEXTFILE_NAME, textfile->folder);
	if (unlink(path) < 0 && errno != ENOENT)
		log_warning("metrics", "cannot remove %s: %s; it is out of date from now on", path, strerror(errno));
	free(textfile);
	return NULL;
}
