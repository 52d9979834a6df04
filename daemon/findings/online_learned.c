/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE_DIR/learned.json: what is usual in the jobs of now, for a daemon that is started again while they run. Written each
 * minute and at the end, read at start. Of another boot, or damaged, it is not used.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "daemon/base/job_thread.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"

#include "analyzers/base/replace.h"

#define LEARNED_FILE "learned.json"
#define LEARNED_VERSION 1		   /* of its form, and of what the numbers mean */
#define LEARNED_EACH_NS (60 * NSEC_PER_SEC) /* the most that is not remembered after a crash; the usual changes in 200 s */
#define LEARNED_UNCLAIMED_NS (600 * NSEC_PER_SEC) /* a job that is not seen so long after the start has ended: its pids may be others' */
#define LEARNED_BYTES_MAX (4 * 1024 * 1024) /* some 2 KiB a rank */

/* Of the writer: a disk can wait for long. */
struct online_learned {
	struct thread_job job; /* first */
	char dir[PATH_MAX];
	char *text;
	int result; /* of replace_file() */
};

static void online_learned_write(FILE *f, const void *arg)
{
	const struct online_learned *learned = arg;

	fprintf(f, "%s\n", learned->text);
}

static void online_learned_run(struct thread_job *job)
{
	struct online_learned *learned = (struct online_learned *)job;

	learned->result = replace_file(learned->dir, LEARNED_FILE, online_learned_write, learned);
}

static void online_learned_free(struct thread_job *job)
{
	struct online_learned *learned = (struct online_learned *)job;

	free(learned->text);
	free(learned);
}

/* Nothing is being written; false: not within wait_ns. */
static bool online_learned_end(struct online *online, uint64_t wait_ns)
{
	struct online_learned *learned = (struct online_learned *)online->learned;

	if (!learned)
		return true;
	if (!job_thread_wait(online->writer, online->learned, wait_ns))
		return false;
	if (learned->result < 0 && !online->learned_failed)
		log_warning("findings", "cannot write %s/" LEARNED_FILE ": %s; after a restart, what is slow now may be taken as usual", learned->dir,
			strerror(-learned->result));
	online->learned_failed = learned->result < 0;
	online_learned_forget(online);
	return true;
}

void online_learned_forget(struct online *online)
{
	if (online->learned)
		job_thread_forget(online->writer, online->learned);
	online->learned = NULL;
}

/* NULL: there is nothing to write, or out of memory. */
static char *online_learned_text(struct online *online)
{
	json_t *jobs = detect_learned(online->detect), *all;
	char *text;

	if (!jobs && !online->remembers)
		return NULL;
	online->remembers = jobs != NULL;
	all = json_pack("{s:i, s:s, s:o}", "version", LEARNED_VERSION, "boot_id", online->context->boot_id, "jobs", jobs ? jobs : json_array());
	text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(all);
	return text;
}

void online_learned_save(struct online *online, uint64_t wait_ns)
{
	struct online_learned *learned;

	if (!online_learned_end(online, wait_ns))
		return; /* with the next one */
	learned = calloc(1, sizeof(*learned));
	if (!learned)
		return;
	learned->job = (struct thread_job){.run = online_learned_run, .free = online_learned_free};
	learned->text = online_learned_text(online);
	if (!learned->text || !copy_text(learned->dir, sizeof(learned->dir), online->context->config.state_dir)) {
		online_learned_free(&learned->job);
		return;
	}
	online->learned = &learned->job;
	job_thread_order(online->writer, online->learned);
	(void)online_learned_end(online, wait_ns);
}

void online_learned_tick(struct online *online, uint64_t now_ns)
{
	if (now_ns < online->learned_next_ns)
		return;
	online->learned_next_ns = now_ns + LEARNED_EACH_NS;
	if (now_ns - online->started_ns > LEARNED_UNCLAIMED_NS)
		detect_resume(online->detect, NULL);
	online_learned_save(online, 0);
}

void online_learned_load(struct online *online)
{
	_cleanup_close_ int dir = open(online->context->config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = dir >= 0 ? openat(dir, LEARNED_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -EBADF;
	const char *boot_id;
	json_error_t error;
	json_t *all;
	struct stat st;
	size_t jobs = 0;

	online->started_ns = monotonic_ns();
	online->learned_next_ns = online->started_ns + LEARNED_EACH_NS;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > LEARNED_BYTES_MAX)
		return;
	all = json_loadfd(fd, 0, &error);
	if (!all)
		log_warning("findings", "cannot use %s/" LEARNED_FILE " (line %d: %s); what is slow now may be taken as usual", online->context->config.state_dir,
			error.line, error.text);
	boot_id = json_string_value(json_object_get(all, "boot_id"));
	if (boot_id && streq(boot_id, online->context->boot_id) && json_integer_value(json_object_get(all, "version")) == LEARNED_VERSION) {
		jobs = json_array_size(json_object_get(all, "jobs"));
		detect_resume(online->detect, json_object_get(all, "jobs"));
	}
	if (jobs)
		log_info("findings", "what was usual in %zu job%s is known from before", jobs, jobs == 1 ? "" : "s");
	online->remembers = jobs > 0;
	json_decref(all);
}
