/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE_DIR/learned.json: what is usual in the jobs of now, for a daemon that is started again while they run. Written
 * each 20 s and at the end, read at start. Of another boot, or damaged, it is not used.
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
#define LEARNED_VERSION 1 /* of its form, and of what the numbers mean */
/* The most that is lost by a crash: a job learns in 10 s, and its usual changes in 200 s */
#define LEARNED_EACH_NS (20 * NSEC_PER_SEC)
#define LEARNED_END_NS (2 * NSEC_PER_SEC)   /* a disk that does not answer must not hold up the end */
#define LEARNED_BYTES_MAX (4 * 1024 * 1024) /* 600 bytes a rank */

/* Of the writer: a disk can wait for long. */
struct online_learned {
	struct thread_job job; /* first */
	char path[PATH_MAX];
	char *text;
	bool has_jobs;
	int result; /* negative errno */
};

/* Not synced: after a crash of the machine it is not used. */
static void online_learned_run(struct thread_job *job)
{
	struct online_learned *learned = (struct online_learned *)job;
	struct replace replace;
	int r = replace_begin(&replace, learned->path);

	if (r == 0)
		r = replace_end(&replace, fprintf(replace.out, "%s\n", learned->text) < 0 ? -EIO : 0, false);
	learned->result = r;
}

static void online_learned_free(struct thread_job *job)
{
	struct online_learned *learned = (struct online_learned *)job;

	free(learned->text);
	free(learned);
}

/* Waits until nothing is being written. False: something still is after wait_ns. */
static bool online_learned_end(struct online *online, uint64_t wait_ns)
{
	struct online_learned *learned = (struct online_learned *)online->learned;

	if (!learned)
		return true;
	if (!job_thread_wait(online->writer, online->learned, wait_ns))
		return false;
	if (learned->result < 0 && !online->learned_failed)
		log_warning("findings", "cannot write %s: %s; after a restart, what is slow now may be taken as usual",
			learned->path, strerror(-learned->result));
	online->learned_failed = learned->result < 0;
	if (learned->result == 0)
		online->remembers = learned->has_jobs;
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
static struct online_learned *online_learned_new(struct online *online)
{
	struct online_learned *learned = calloc(1, sizeof(*learned));
	json_t *jobs = detect_learned(online->detect), *all = NULL;
	int length;

	if (learned && jobs && (json_array_size(jobs) > 0 || online->remembers)) {
		learned->job = (struct thread_job){.run = online_learned_run, .free = online_learned_free};
		learned->has_jobs = json_array_size(jobs) > 0;
		all = json_pack("{s:i, s:s, s:O}", "version", LEARNED_VERSION, "boot_id", online->context->boot_id,
			"jobs", jobs);
		learned->text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
	}
	json_decref(all);
	json_decref(jobs);
	length = learned ? snprintf(learned->path, sizeof(learned->path), "%s/" LEARNED_FILE,
				   online->context->config.state_dir)
			 : 0;
	if (learned && learned->text && (size_t)length < sizeof(learned->path) &&
		strlen(learned->text) < LEARNED_BYTES_MAX)
		return learned;
	if (learned)
		online_learned_free(&learned->job);
	return NULL;
}

void online_learned_save(struct online *online)
{
	uint64_t wait_ns = online->ending ? LEARNED_END_NS : 0;
	struct online_learned *learned;

	if (online_learned_end(online, wait_ns)) {
		learned = online_learned_new(online);
		if (!learned)
			return;
		online->learned = &learned->job;
		job_thread_order(online->writer, online->learned);
	}
	if (!online_learned_end(online, wait_ns) && online->ending)
		log_warning("findings", "%s/" LEARNED_FILE " is not written: the disk does not answer",
			online->context->config.state_dir);
}

void online_learned_tick(struct online *online, uint64_t now_ns)
{
	if (now_ns < online->learned_next_ns)
		return;
	online->learned_next_ns = now_ns + LEARNED_EACH_NS;
	online_learned_save(online);
}

void online_learned_used(void *arg, const char *job)
{
	(void)arg;
	log_info("findings", "%s%s goes on with the usual step times from before the restart",
		job[0] ? "job " : "a job without a name", job);
}

void online_learned_load(struct online *online)
{
	_cleanup_close_ int dir = open(online->context->config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd =
		dir >= 0 ? openat(dir, LEARNED_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -EBADF;
	const char *boot_id;
	json_error_t error;
	json_t *all;
	struct stat st;
	size_t jobs = 0;

	online->learned_next_ns = monotonic_ns() + LEARNED_EACH_NS;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	snprintf(error.text, sizeof(error.text), "more than 4 MiB");
	error.line = 0;
	all = st.st_size <= LEARNED_BYTES_MAX ? json_loadfd(fd, 0, &error) : NULL;
	if (!all)
		log_warning("findings",
			"cannot use %s/" LEARNED_FILE " (line %d: %s); what is slow now may be taken as usual",
			online->context->config.state_dir, error.line, error.text);
	boot_id = json_string_value(json_object_get(all, "boot_id"));
	if (boot_id && boot_id[0] && streq(boot_id, online->context->boot_id) &&
		json_integer_value(json_object_get(all, "version")) == LEARNED_VERSION) {
		jobs = json_array_size(json_object_get(all, "jobs"));
		detect_resume(online->detect, json_object_get(all, "jobs"));
	}
	online->remembers = jobs > 0;
	json_decref(all);
}
