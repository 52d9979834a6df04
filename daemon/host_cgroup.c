/* SPDX-License-Identifier: Apache-2.0 */
/* See host_cgroup.h. Paths come from /proc/PID/cgroup and lead only below cgroup_root. */
#include <fcntl.h>
#include <limits.h>

#include "daemon/host_cgroup.h"
#include "daemon/procfs.h"

#define STAT_BYTES_MAX 4096

/* The number behind that word at the start of a line; false where there is none. */
static bool host_cgroup_number_of(const char *text, const char *word, uint64_t *ret)
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

/* *ret_limited: a limit holds here. *ret_ns: so long it held the group back. */
static bool read_stat(const char *path, bool *ret_limited, uint64_t *ret_ns)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[STAT_BYTES_MAX];
	uint64_t periods = 0, throttled = 0;
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n <= 0)
		return false;
	text[n] = 0;
	*ret_limited = host_cgroup_number_of(text, "nr_periods", &periods) && periods > 0;
	if (host_cgroup_number_of(text, "throttled_usec", &throttled))
		*ret_ns = throttled > UINT64_MAX / NSEC_PER_USEC ? UINT64_MAX : throttled * NSEC_PER_USEC;
	else if (host_cgroup_number_of(text, "throttled_time", &throttled))
		*ret_ns = throttled;
	else
		*ret_ns = 0; /* no controller here: nothing is held back */
	return true;
}

static bool leads_elsewhere(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	return path[0] != '/';
}

/* A group of before keeps what was read. */
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
	fresh->group[fresh->count].path = copy;
	fresh->group[fresh->count].throttled_ns = 0;
	fresh->group[fresh->count++].fresh = true;
}

/* The group and those above it, without the root, which has no limit. */
static void look_up_from(struct host_cgroup *fresh, struct host_cgroup *before, const char *root, const char *hierarchy,
	const char *group)
{
	char path[PATH_MAX], below[PATH_MAX];

	if (leads_elsewhere(group) || !copy_text(below, sizeof(below), group))
		return;
	for (unsigned level = 0; level < HOST_CGROUPS_MAX; level++) {
		bool limited = false;
		uint64_t throttled_ns = 0;
		char *slash;

		if (!below[0] || streq(below, "/"))
			break;
		if (snprintf(path, sizeof(path), "%s%s%s/cpu.stat", root, hierarchy, below) >= (int)sizeof(path))
			break;
		if (read_stat(path, &limited, &throttled_ns)) {
			fresh->known = true;
			if (limited)
				host_cgroup_keep(fresh, before, path);
		}
		slash = strrchr(below, '/');
		if (!slash)
			break;
		*slash = 0;
	}
}

/* Whether "cpu" is one of the words. */
static bool has_cpu(const char *words, size_t length)
{
	for (size_t at = 0; at < length;) {
		size_t n = strcspn(words + at, ",:");

		if (n == 3 && memcmp(words + at, "cpu", 3) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

void host_cgroup_look(struct host_cgroup *cgroup, const char *proc_root, const char *cgroup_root, uint32_t pid)
{
	_cleanup_free_ char *text = NULL;
	struct host_cgroup fresh = {0};
	char *rest = NULL;

	if (procfs_cgroup(proc_root, pid, &text) < 0)
		return;
	/* hierarchy:controllers:path */
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *words = strchr(line, ':'), *path = words ? strchr(words + 1, ':') : NULL;

		if (!path)
			continue;
		if (strncmp(line, "0::", 3) == 0) {
			look_up_from(&fresh, cgroup, cgroup_root, "", path + 1);
			look_up_from(&fresh, cgroup, cgroup_root, "/unified", path + 1);
		} else if (has_cpu(words + 1, (size_t)(path - words - 1))) {
			look_up_from(&fresh, cgroup, cgroup_root, "/cpu", path + 1);
		}
	}
	host_cgroup_free(cgroup);
	*cgroup = fresh;
}

bool host_cgroup_take(struct host_cgroup *cgroup, uint64_t *ret_throttled_ns)
{
	uint64_t most_ns = 0;

	if (!cgroup->known)
		return false;
	for (size_t i = 0; i < cgroup->count; i++) {
		uint64_t now_ns = 0, before_ns = cgroup->group[i].throttled_ns;
		bool limited;

		if (!read_stat(cgroup->group[i].path, &limited, &now_ns))
			continue;
		if (!cgroup->group[i].fresh && now_ns > before_ns && now_ns - before_ns > most_ns)
			most_ns = now_ns - before_ns;
		cgroup->group[i].throttled_ns = now_ns;
		cgroup->group[i].fresh = false;
	}
	*ret_throttled_ns = most_ns;
	return true;
}

void host_cgroup_free(struct host_cgroup *cgroup)
{
	for (size_t i = 0; i < cgroup->count; i++)
		free(cgroup->group[i].path);
	*cgroup = (struct host_cgroup){0};
}
