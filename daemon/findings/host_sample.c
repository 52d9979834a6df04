/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one process from /proc and cgroup files: differences to the counts of the sample before. */
#include "daemon/findings/online_internal.h"
#include "daemon/base/procfs.h"
#include "daemon/core/limits.h"

#include <fcntl.h>
#include <limits.h>

/* Paths come from /proc/PID/cgroup and resolve only below cgroup_root. */

#define STAT_BYTES_MAX 4096

/* Number after `word` at the start of a line; false if absent. */
static bool host_cgroup_number(const char *text, const char *word, uint64_t *ret)
{
	size_t length = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, length) != 0 || line[length] != ' ')
			continue;
		*ret = strtoull(line + length + 1, NULL, 10);
		return true;
	}
	return false;
}

static bool host_cgroup_read(const char *path, char text[STAT_BYTES_MAX])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd >= 0 ? read(fd, text, STAT_BYTES_MAX - 1) : -1;

	if (n <= 0)
		return false;
	text[n] = 0;
	return true;
}

/* CPU limits: whether the group has one, and its total throttled time. */
static bool host_cgroup_parse_stat(const char *text, struct host_file *ret)
{
	uint64_t periods = 0, throttled = 0;

	ret->limited = host_cgroup_number(text, "nr_periods", &periods) && periods > 0;
	if (host_cgroup_number(text, "throttled_usec", &throttled))
		ret->ns = throttled > UINT64_MAX / NSEC_PER_USEC ? UINT64_MAX : throttled * NSEC_PER_USEC;
	else if (host_cgroup_number(text, "throttled_time", &throttled))
		ret->ns = throttled;
	else
		ret->ns = 0; /* no CPU controller: never throttled */
	return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS", then "full ...". */
static bool host_cgroup_parse_pressure(const char *text, struct host_file *ret)
{
	const char *total = strstr(text, " total=");
	uint64_t us;
	char *end;

	if (strncmp(text, "some ", 5) != 0 || !total || total > text + strcspn(text, "\n"))
		return false;
	us = strtoull(total + 7, &end, 10);
	if (end == total + 7)
		return false;
	ret->ns = us > UINT64_MAX / NSEC_PER_USEC ? UINT64_MAX : us * NSEC_PER_USEC;
	return true;
}

/* The file, read at most once a round. Not readable: it is not there, or is not what it is said to be. */
static struct host_file host_file(
	struct host_files *files, const char *path, bool (*parse)(const char *text, struct host_file *ret))
{
	struct host_file file = {.readable = false};
	char text[STAT_BYTES_MAX];

	for (size_t i = 0; i < files->count; i++)
		if (streq(files->file[i].path, path))
			return files->file[i];
	file.readable = host_cgroup_read(path, text) && parse(text, &file);
	if (files->count < HOST_FILES_MAX && copy_text(file.path, sizeof(file.path), path))
		files->file[files->count++] = file;
	return file;
}

static bool host_cgroup_path_escapes(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	return path[0] != '/';
}

/* A group found before keeps its counts. */
static void host_cgroup_keep(struct host_cgroup *fresh, struct host_cgroup *before, const char *path)
{
	char *copy = NULL;

	if (fresh->count == HOST_CGROUPS_MAX)
		return;
	for (size_t i = 0; i < before->count; i++) {
		if (!before->group[i].path || !streq(before->group[i].path, path))
			continue;
		fresh->group[fresh->count++] = before->group[i];
		before->group[i].path = NULL;
		return;
	}
	copy = strdup(path);
	if (!copy)
		return;
	fresh->group[fresh->count++] = (struct host_cgroup_count){.path = copy, .fresh = true};
}

/* Of the group itself, of version 2; the root has no file. */
static void host_cgroup_scan_memory(struct host_cgroup *fresh, struct host_cgroup *before, struct host_files *files,
	const char *root, const char *hierarchy, const char *group)
{
	char path[PATH_MAX];

	if (fresh->memory.path || host_cgroup_path_escapes(group) ||
		snprintf(path, sizeof(path), "%s%s%s/memory.pressure", root, hierarchy, group) >= (int)sizeof(path) ||
		!host_file(files, path, host_cgroup_parse_pressure).readable)
		return;
	if (before->memory.path && streq(before->memory.path, path)) {
		fresh->memory = before->memory;
		before->memory.path = NULL;
		return;
	}
	fresh->memory = (struct host_cgroup_count){.path = strdup(path), .fresh = true};
}

/* The group and its ancestors, except the root, which has no limit. */
static void host_cgroup_scan_path(struct host_cgroup *fresh, struct host_cgroup *before, struct host_files *files,
	const char *root, const char *hierarchy, const char *group)
{
	char path[PATH_MAX], below[PATH_MAX];

	if (host_cgroup_path_escapes(group) || !copy_text(below, sizeof(below), group))
		return;
	for (unsigned level = 0; level < HOST_CGROUPS_MAX; level++) {
		struct host_file file;
		char *slash;

		if (level && !below[0])
			break;
		if (streq(below, "/"))
			below[0] = 0; /* the root itself: it is not limited, which is known, too */
		if (snprintf(path, sizeof(path), "%s%s%s/cpu.stat", root, hierarchy, below) >= (int)sizeof(path))
			break;
		file = host_file(files, path, host_cgroup_parse_stat);
		fresh->known |= file.readable;
		if (file.readable && file.limited)
			host_cgroup_keep(fresh, before, path);
		slash = strrchr(below, '/');
		if (!slash)
			break;
		*slash = 0;
	}
}

/* Is "cpu" one of the controllers? */
static bool host_cgroup_has_cpu(const char *words, size_t length)
{
	for (size_t at = 0; at < length;) {
		size_t n = strcspn(words + at, ",:");

		if (n == 3 && memcmp(words + at, "cpu", 3) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

void host_cgroup_free(struct host_cgroup *cgroup)
{
	for (size_t i = 0; i < cgroup->count; i++)
		free(cgroup->group[i].path);
	free(cgroup->memory.path);
	*cgroup = (struct host_cgroup){0};
}

void host_cgroup_scan(struct host_cgroup *cgroup, struct host_files *files, const char *proc_root,
	const char *cgroup_root, uint32_t pid, int *fd)
{
	_cleanup_free_ char *text = NULL;
	struct host_cgroup fresh = {0};
	char *rest = NULL;

	if (procfs_cgroup_again(proc_root, pid, fd, &text) < 0)
		return;
	/* hierarchy:controllers:path */
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *words = strchr(line, ':'), *path = words ? strchr(words + 1, ':') : NULL;

		if (!path)
			continue;
		if (strncmp(line, "0::", 3) == 0) {
			host_cgroup_scan_path(&fresh, cgroup, files, cgroup_root, "", path + 1);
			host_cgroup_scan_path(&fresh, cgroup, files, cgroup_root, "/unified", path + 1);
			host_cgroup_scan_memory(&fresh, cgroup, files, cgroup_root, "", path + 1);
			host_cgroup_scan_memory(&fresh, cgroup, files, cgroup_root, "/unified", path + 1);
		} else if (host_cgroup_has_cpu(words + 1, (size_t)(path - words - 1))) {
			host_cgroup_scan_path(&fresh, cgroup, files, cgroup_root, "/cpu", path + 1);
		}
	}
	host_cgroup_free(cgroup);
	*cgroup = fresh;
}

bool host_cgroup_throttled(struct host_cgroup *cgroup, struct host_files *files, uint64_t *ret_throttled_ns)
{
	uint64_t most_ns = 0;

	if (!cgroup->known)
		return false;
	for (size_t i = 0; i < cgroup->count; i++) {
		struct host_file now = host_file(files, cgroup->group[i].path, host_cgroup_parse_stat);
		uint64_t before_ns = cgroup->group[i].ns;

		if (!now.readable)
			continue;
		if (!cgroup->group[i].fresh && now.ns > before_ns && now.ns - before_ns > most_ns)
			most_ns = now.ns - before_ns;
		cgroup->group[i].ns = now.ns;
		cgroup->group[i].fresh = false;
	}
	*ret_throttled_ns = most_ns;
	return true;
}

/* Time since the last call in which a task of the group waited for memory. False: unknown. */
static bool host_cgroup_memory_stall(struct host_cgroup *cgroup, struct host_files *files, uint64_t *ret_stall_ns)
{
	struct host_cgroup_count *memory = &cgroup->memory;
	uint64_t before_ns = memory->ns;
	bool fresh = memory->fresh;
	struct host_file now;

	if (!memory->path)
		return false;
	now = host_file(files, memory->path, host_cgroup_parse_pressure);
	if (!now.readable)
		return false;
	memory->ns = now.ns;
	memory->fresh = false;
	*ret_stall_ns = now.ns > before_ns ? now.ns - before_ns : 0;
	return !fresh;
}

struct host_thread {
	uint32_t id;
	uint64_t run_ns;		 /* since it began, as of the scan */
	uint64_t run_delay_ns, since_ns; /* the same at the newest sample; since the one before, HOST_UNKNOWN */
	bool read;
	int schedstat_fd; /* or -1 */
};

struct host_sampler {
	char proc_root[128], cgroup_root[128];
	uint32_t pid;
	uint64_t taken_ns; /* 0: no sample yet */
	struct host_usage usage;
	size_t threads; /* the step thread first */
	struct host_thread thread[1 + LIMIT_HOST_THREADS];
	uint64_t threads_next_ns;
	unsigned threads_read; /* in this scan */
	struct host_cgroup cgroup;
	uint64_t cgroup_next_ns;
	int status_fd, cgroup_fd; /* of /proc/PID; or -1 */
};

static void host_thread_put(struct host_thread *place, const struct host_thread *thread)
{
	closep(&place->schedstat_fd);
	*place = *thread;
}

/* The last one takes its place. */
static void host_thread_remove(struct host_sampler *sampler, size_t i)
{
	struct host_thread *last = &sampler->thread[--sampler->threads];

	if (i < sampler->threads)
		host_thread_put(&sampler->thread[i], last);
	else
		closep(&last->schedstat_fd);
}

static void host_threads_forget(struct host_sampler *sampler)
{
	while (sampler->threads)
		host_thread_remove(sampler, sampler->threads - 1);
}

int host_sampler_new(const char *proc_root, const char *cgroup_root, uint32_t pid, struct host_sampler **ret)
{
	struct host_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	(void)copy_text(sampler->proc_root, sizeof(sampler->proc_root), proc_root);
	(void)copy_text(sampler->cgroup_root, sizeof(sampler->cgroup_root), cgroup_root);
	sampler->pid = pid;
	sampler->status_fd = sampler->cgroup_fd = -1;
	*ret = sampler;
	return 0;
}

struct host_sampler *host_sampler_free(struct host_sampler *sampler)
{
	if (!sampler)
		return NULL;
	host_threads_forget(sampler);
	closep(&sampler->status_fd);
	closep(&sampler->cgroup_fd);
	host_cgroup_free(&sampler->cgroup);
	free(sampler);
	return NULL;
}

static uint64_t host_sample_since(uint64_t now, uint64_t before)
{
	return now != HOST_UNKNOWN && now >= before ? now - before : HOST_UNKNOWN;
}

/* false: it is gone, or the kernel does not count. */
static bool host_thread_take(const struct host_sampler *sampler, struct host_thread *thread)
{
	uint64_t run_ns, delay_ns;

	if (procfs_schedstat_again(
		    sampler->proc_root, sampler->pid, thread->id, &thread->schedstat_fd, &run_ns, &delay_ns) < 0)
		return false;
	thread->since_ns = thread->read ? host_sample_since(delay_ns, thread->run_delay_ns) : HOST_UNKNOWN;
	thread->run_delay_ns = delay_ns;
	thread->run_ns = run_ns;
	thread->read = true;
	return true;
}

/* Another thread's counts are no continuation of the first one's. */
static void host_threads_begin(struct host_sampler *sampler, uint32_t step_thread)
{
	if (sampler->threads && sampler->thread[0].id == step_thread)
		return;
	for (size_t i = sampler->threads; i-- > 1;)
		if (sampler->thread[i].id == step_thread)
			host_thread_remove(sampler, i);
	if (sampler->threads)
		closep(&sampler->thread[0].schedstat_fd);
	else
		sampler->threads = 1;
	sampler->thread[0] = (struct host_thread){.id = step_thread, .schedstat_fd = -1};
}

static bool host_threads_found(void *arg, uint32_t id)
{
	struct host_sampler *sampler = arg;
	struct host_thread thread = {.id = id, .schedstat_fd = -1}, *least = NULL;

	if (sampler->threads_read++ >= LIMIT_HOST_THREADS_READ)
		return false;
	for (size_t i = 0; i < sampler->threads; i++)
		if (sampler->thread[i].id == id)
			return true;
	if (!host_thread_take(sampler, &thread))
		return true;
	if (sampler->threads <= LIMIT_HOST_THREADS) {
		sampler->thread[sampler->threads++] = thread;
		return true;
	}
	for (size_t i = 1; i < sampler->threads; i++)
		if (!least || sampler->thread[i].run_ns < least->run_ns)
			least = &sampler->thread[i];
	if (thread.run_ns > least->run_ns)
		host_thread_put(least, &thread);
	else
		closep(&thread.schedstat_fd);
	return true;
}

/* The longest of the step thread and of the threads that have used most CPU: forward and backward wait for their
 * helpers. */
static uint64_t take_run_delay(struct host_sampler *sampler, uint32_t step_thread, uint64_t now_ns)
{
	char folder[160];
	uint64_t most_ns;

	host_threads_begin(sampler, step_thread);
	for (size_t i = sampler->threads; i-- > 0;) {
		if (host_thread_take(sampler, &sampler->thread[i]))
			continue;
		if (i == 0)
			host_threads_forget(sampler);
		else
			host_thread_remove(sampler, i);
	}
	if (!sampler->threads)
		return HOST_UNKNOWN;
	most_ns = sampler->thread[0].since_ns;
	for (size_t i = 1; most_ns != HOST_UNKNOWN && i < sampler->threads; i++)
		if (sampler->thread[i].since_ns != HOST_UNKNOWN && sampler->thread[i].since_ns > most_ns)
			most_ns = sampler->thread[i].since_ns;
	if (now_ns >= sampler->threads_next_ns) {
		snprintf(folder, sizeof(folder), "%s/%u/task", sampler->proc_root, sampler->pid);
		sampler->threads_read = 0;
		(void)procfs_each(folder, host_threads_found, sampler);
		sampler->threads_next_ns = now_ns + HOST_THREADS_SCAN_NS;
	}
	return most_ns;
}

/* Summed over CPUs, so it can exceed the duration. */
static uint64_t take_throttled(struct host_sampler *sampler, struct host_files *files, uint64_t duration_ns)
{
	uint64_t throttled_ns;

	if (!host_cgroup_throttled(&sampler->cgroup, files, &throttled_ns))
		return HOST_UNKNOWN;
	return throttled_ns < duration_ns ? throttled_ns : duration_ns;
}

static uint64_t take_memory_stall(struct host_sampler *sampler, struct host_files *files, uint64_t duration_ns)
{
	uint64_t stall_ns;

	if (!host_cgroup_memory_stall(&sampler->cgroup, files, &stall_ns))
		return HOST_UNKNOWN;
	return stall_ns < duration_ns ? stall_ns : duration_ns;
}

int host_usage_read(struct host_sampler *sampler, uint64_t major_faults, struct host_usage *ret)
{
	struct procfs_status status;
	int r = procfs_status_again(sampler->proc_root, sampler->pid, &sampler->status_fd, &status);

	if (r < 0)
		return r;
	*ret = (struct host_usage){.state = status.state,
		.cpu_ns = HOST_UNKNOWN,
		.major_faults = major_faults,
		.resident_bytes = status.resident_bytes,
		.swapped_bytes = status.swapped_bytes};
	(void)procfs_cpu_time(sampler->pid, &ret->cpu_ns);
	return 0;
}

int host_sampler_take(struct host_sampler *sampler, struct host_files *files, uint32_t thread_id,
	const struct host_usage *usage, uint64_t now_ns, struct host_sample *ret)
{
	struct host_sample sample = {.start_ns = sampler->taken_ns};
	bool first = !sampler->taken_ns || now_ns <= sampler->taken_ns;

	sample.duration_ns = first ? 0 : now_ns - sampler->taken_ns;
	sample.state = usage->state;
	sample.cpu_total_ns = usage->cpu_ns;
	sample.resident_bytes = usage->resident_bytes;
	sample.swapped_bytes = usage->swapped_bytes;
	sample.cpu_ns = host_sample_since(usage->cpu_ns, sampler->usage.cpu_ns);
	sample.major_faults = host_sample_since(usage->major_faults, sampler->usage.major_faults);
	sample.run_delay_ns = take_run_delay(sampler, thread_id ? thread_id : sampler->pid, now_ns);
	if (now_ns >= sampler->cgroup_next_ns) {
		host_cgroup_scan(&sampler->cgroup, files, sampler->proc_root, sampler->cgroup_root, sampler->pid,
			&sampler->cgroup_fd);
		sampler->cgroup_next_ns = now_ns + HOST_CGROUP_SCAN_NS;
	}
	sample.throttled_ns = take_throttled(sampler, files, sample.duration_ns);
	sample.memory_stall_ns = take_memory_stall(sampler, files, sample.duration_ns);
	sampler->usage = *usage;
	sampler->taken_ns = now_ns;
	*ret = sample;
	return first ? 0 : 1;
}
