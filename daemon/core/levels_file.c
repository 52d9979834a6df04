/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels on disk: STATE_DIR/levels. The end of a `set --for` is UTC: the monotonic clock restarts with the machine.
 */
#include <limits.h>
#include "analyzers/base/replace.h"
#include "analyzers/base/ini.h"
#include "daemon/core/levels.h"
#include "daemon/base/log.h"
#include "daemon/base/job_thread.h"

#define SAVE_NS (150 * NSEC_PER_MSEC) /* a slow disk: the loop's longest stop is 250 ms */

struct levels_loading {
	struct levels levels;
	uint64_t off_at_ns[LEVEL_MAX]; /* UTC */
};

static int load_interval(const char *value, double *ret)
{
	char *end;
	double minutes = strtod(value, &end);

	if (end == value || *end || !level_interval_good(minutes))
		return -EINVAL;
	*ret = minutes;
	return 0;
}

static int load_key(struct levels_loading *loading, enum level level, const struct ini_line *line)
{
	if (streq(line->key, "on"))
		return ini_bool(line->value, &loading->levels.on[level]);
	if (streq(line->key, "off_at_ns"))
		return ini_u64(line->value, 0, UINT64_MAX, &loading->off_at_ns[level]);
	if (streq(line->key, "interval_minutes") && level_has_interval(level))
		return load_interval(line->value, &loading->levels.interval_minutes[level]);
	return -ENOENT;
}

static int levels_file_load_line(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	enum level level;
	int r;

	if (!streq(line->section, "level") || level_parse(line->name, &level) < 0) {
		snprintf(error, error_size, "expected a section [level \"NAME\"], NAME one of %s", level_words());
		return -EINVAL;
	}
	if (!line->key)
		return 0;
	r = load_key(arg, level, line);
	if (r == -ENOENT)
		snprintf(error, error_size, "unknown key '%s'", line->key);
	else if (r < 0)
		snprintf(error, error_size, "bad value '%s' of %s", line->value, line->key);
	return r == -ENOENT ? -EINVAL : r;
}

int levels_load(struct levels *levels, const char *state_dir)
{
	struct levels_loading loading = {.levels = *levels};
	uint64_t utc_ns = realtime_ns(), now_ns = monotonic_ns();
	char path[PATH_MAX], error[INI_ERROR_BYTES] = "";
	int r;

	if (snprintf(path, sizeof(path), "%s/levels", state_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = ini_parse_file(path, levels_file_load_line, &loading, error);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		log_warning("levels", "%s; ignoring the saved levels", error);
		return r;
	}
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		uint64_t off_at_ns = loading.off_at_ns[l];

		loading.levels.until_ns[l] = 0;
		if (!loading.levels.on[l] || !off_at_ns)
			continue;
		if (off_at_ns <= utc_ns) {
			log_notice(
				"levels", "%s: time limit reached while no daemon ran, leaving it off", level_name(l));
			loading.levels.on[l] = false;
		} else {
			loading.levels.until_ns[l] = now_ns + (off_at_ns - utc_ns);
		}
	}
	*levels = loading.levels;
	return 0;
}

static void write_levels(FILE *f, const void *arg)
{
	const struct levels *levels = arg;
	uint64_t utc_ns = realtime_ns(), now_ns = monotonic_ns();

	fprintf(f, "# The state of levels, written by ranktraced; tracectl set and interval change it.\n");
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		uint64_t until_ns = levels->until_ns[l];
		bool on = (levels->on[l] && !levels->is_auto[l]) || levels->sampled[l];

		fprintf(f, "\n[level \"%s\"]\non = %s\n", level_name(l), on ? "true" : "false");
		if (on && until_ns)
			fprintf(f, "off_at_ns = %llu\n",
				(unsigned long long)(utc_ns + (until_ns > now_ns ? until_ns - now_ns : 0)));
		if (levels->interval_minutes[l] > 0)
			fprintf(f, "interval_minutes = %.17g\n", levels->interval_minutes[l]);
	}
}

struct saving {
	struct thread_job job; /* first */
	struct levels levels;
	char state_dir[PATH_MAX];
	int result;
};

static void levels_file_save(struct thread_job *job)
{
	struct saving *saving = (struct saving *)job;

	saving->result = replace_file(saving->state_dir, "levels", write_levels, &saving->levels);
}

static void levels_file_free(struct thread_job *job)
{
	free(job);
}

int levels_save(const struct levels *levels, const char *state_dir)
{
	static struct job_thread *thread;
	struct saving *saving;
	int r = thread ? 0 : job_thread_new(&thread);

	if (r < 0)
		return r;
	if (!job_thread_is_idle(thread))
		return -EBUSY;
	saving = calloc(1, sizeof(*saving));
	if (!saving)
		return -ENOMEM;
	saving->job = (struct thread_job){.run = levels_file_save, .free = levels_file_free};
	saving->levels = *levels;
	(void)copy_text(saving->state_dir, sizeof(saving->state_dir), state_dir);
	job_thread_order(thread, &saving->job);
	r = job_thread_wait(thread, &saving->job, levels->save_wait_ns ? levels->save_wait_ns : SAVE_NS)
		    ? saving->result
		    : -ETIMEDOUT;
	job_thread_forget(thread, &saving->job);
	return r;
}
