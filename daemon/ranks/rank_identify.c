/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a process is. With a training library and a number it is a rank; without a number it is the child of
 * the nearest rank above it, or rank 0 of 1. A process that starts ranks is a launcher, whatever its environment:
 * recognized by its command, or when a rank appears below it.
 */
#include "daemon/base/log_limit.h"
#include "daemon/base/procfs.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks_internal.h"

#include <ctype.h>

/*
 * Container runtimes name a container's cgroup by its id, alone (/docker/ID, /kubepods/.../ID) or as a unit
 * (docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, ...:cri-containerd:ID). All end a path component with 64
 * hexadecimal digits, so runtimes need no names. Kubernetes writes a pod's uid after "pod", with underscores under
 * systemd.
 */

#define ID_DIGITS 64
#define UID_CHARS 36

static bool container_of_part(const char *part, size_t length, char *ret)
{
	static const char scope[] = ".scope";
	const char *id;

	if (length > sizeof(scope) - 1 && memcmp(part + length - (sizeof(scope) - 1), scope, sizeof(scope) - 1) == 0)
		length -= sizeof(scope) - 1;
	if (length < ID_DIGITS)
		return false;
	id = part + length - ID_DIGITS;
	if (id > part && id[-1] != '-' && id[-1] != ':')
		return false;
	for (size_t i = 0; i < ID_DIGITS; i++)
		if (!isxdigit((unsigned char)id[i]))
			return false;
	memcpy(ret, id, ID_DIGITS);
	ret[ID_DIGITS] = 0;
	return true;
}

/* The innermost container of the path. */
static void find_container(const char *path, char *ret)
{
	while (*path) {
		size_t length = strcspn(path, "/");

		(void)container_of_part(path, length, ret);
		path += length;
		path += *path == '/';
	}
}

static void find_pod_uid(const char *path, char *ret)
{
	for (const char *p = strstr(path, "pod"); p; p = strstr(p + 1, "pod")) {
		char uid[UID_CHARS + 1];
		size_t i;

		if (p > path && p[-1] != '/' && p[-1] != '-')
			continue;
		for (i = 0; i < UID_CHARS; i++) {
			bool dash = i == 8 || i == 13 || i == 18 || i == 23;
			char c = p[3 + i];

			if (dash ? c != '-' && c != '_' : !isxdigit((unsigned char)c))
				break;
			uid[i] = dash ? '-' : c;
		}
		if (i < UID_CHARS)
			continue;
		uid[UID_CHARS] = 0;
		memcpy(ret, uid, sizeof(uid));
		return;
	}
}

/* Of several hierarchies (version 1, or both versions): the one with a container, then the longest path. */
static bool rank_cgroup_is_better(const struct rank_cgroup *a, const struct rank_cgroup *b)
{
	if (!a->container[0] != !b->container[0])
		return a->container[0] != 0;
	return strlen(a->path) > strlen(b->path);
}

void rank_cgroup_parse(const char *text, struct rank_cgroup *ret)
{
	struct rank_cgroup best = {0};
	char line[4096];

	while (*text) {
		size_t length = strcspn(text, "\n");
		struct rank_cgroup here = {0};
		char *path;

		snprintf(line, sizeof(line), "%.*s", (int)(length < sizeof(line) ? length : sizeof(line) - 1), text);
		text += length;
		text += *text == '\n';
		/* hierarchy:controllers:path */
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		find_container(path + 1, here.container);
		find_pod_uid(path + 1, here.pod_uid);
		(void)copy_text(here.path, sizeof(here.path), path + 1);
		procfs_printable(here.path);
		if (rank_cgroup_is_better(&here, &best))
			best = here;
	}
	*ret = best;
}

/*
 * Launchers by name. Only the program counts (argv[0], or the script or module of an interpreter), never a later
 * argument: a training script may have an argument "torchrun".
 */

#define ARGS_MAX 16

static const struct {
	const char *name; /* of the program, script or module */
	const char *verb; /* its first argument must be this, if not NULL */
} launcher_programs[] = {
	{"torchrun", NULL},
	{"torch.distributed.run", NULL},
	{"torch.distributed.launch", NULL},
	{"accelerate", "launch"},
	{"accelerate.commands.accelerate_cli", "launch"},
	{"accelerate.commands.launch", NULL},
	{"deepspeed", NULL},
	{"deepspeed.launcher.runner", NULL},
	{"deepspeed.launcher.launch", NULL},
	{"horovodrun", NULL},
	{"mpirun", NULL},
	{"mpiexec", NULL},
	{"mpiexec.hydra", NULL},
	{"orterun", NULL},
	{"prterun", NULL},
	{"srun", NULL},
	{"msrun", NULL},
};

/* Python interpreter options that take a value. */
static const char *const valued_options[] = {"-W", "-X", "--check-hash-based-pycs"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool rank_command_is_interpreter(const char *exe)
{
	const char *name = base_name(exe);

	return strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0;
}

static unsigned rank_command_split(const char *block, size_t size_bytes, const char **args)
{
	unsigned count = 0;
	size_t at = 0;

	while (at < size_bytes && count < ARGS_MAX) {
		size_t length = strnlen(block + at, size_bytes - at);

		/* A truncated block has an unterminated last argument. */
		if (at + length == size_bytes)
			break;
		args[count++] = block + at;
		at += length + 1;
	}
	return count;
}

/* Index of the script or module that an interpreter runs; count if there is none. */
static unsigned find_script(const char **args, unsigned count)
{
	unsigned i = 1;

	for (; i < count && args[i][0] == '-'; i++) {
		if (streq(args[i], "-m"))
			return i + 1 < count ? i + 1 : count;
		if (streq(args[i], "-c") || streq(args[i], "-"))
			return count;
		for (size_t k = 0; k < ARRAY_SIZE(valued_options); k++)
			if (streq(args[i], valued_options[k])) {
				i++;
				break;
			}
	}
	return i < count ? i : count;
}

bool rank_command_is_launcher(const char *block, size_t size_bytes)
{
	const char *args[ARGS_MAX];
	unsigned count = rank_command_split(block, size_bytes, args), program = 0;

	if (count == 0)
		return false;
	if (rank_command_is_interpreter(args[0]))
		program = find_script(args, count);
	if (program >= count)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(launcher_programs); i++) {
		if (!streq(base_name(args[program]), launcher_programs[i].name))
			continue;
		if (!launcher_programs[i].verb ||
			(program + 1 < count && streq(args[program + 1], launcher_programs[i].verb)))
			return true;
	}
	return false;
}

#define FROM_START_NS NSEC_PER_SEC
#define FRESH_NS NSEC_PER_SEC /* a process that began no longer ago is seen since its exec */

static bool descends_from(const struct tracked *tracked, uint32_t pid)
{
	for (unsigned i = 0; i < tracked->above.count; i++)
		if (tracked->above.pid[i] == pid)
			return true;
	return false;
}

/*
 * Does the child repeat its parent's rank? Scripts copy the launcher's number into other launchers' variables
 * (SLURM_PROCID to RANK), so across launchers equal rank and world size mean the same rank.
 */
static bool is_same_rank(const struct rank_env *child, const struct rank_env *parent)
{
	if (!child->source[0])
		return true;
	if (child->rank != parent->rank)
		return false;
	if (streq(child->source, parent->source))
		return streq(child->job, parent->job);
	return child->world_size > 0 && child->world_size == parent->world_size;
}

/*
 * Does the rank below show that the one above only launches? A rank may start a job of its own (an evaluation); then
 * it has a local rank itself, or a number of the same launcher.
 */
static bool is_outranked(const struct rank_env *above, const struct rank_env *below)
{
	if (is_same_rank(below, above))
		return false;
	return !streq(below->source, above->source) || (above->local_rank < 0 && below->local_rank >= 0);
}

static struct tracked *find_owner(const struct ranks *ranks, const struct ancestors *above, const struct rank_env *env)
{
	for (unsigned i = 0; i < above->count; i++) {
		struct tracked *tracked = tracked_find(ranks, above->pid[i]);

		if (tracked && tracked->rank.role == RANK_ROLE_RANK && is_same_rank(env, &tracked->rank.env))
			return tracked;
	}
	return NULL;
}

/* It loaded its library after a rank that it started. */
static bool has_launched(const struct ranks *ranks, const struct rank *rank)
{
	for (uint32_t i = 0; i < ranks->slots; i++)
		if (ranks->slot[i] && is_outranked(&rank->env, &ranks->slot[i]->rank.env) &&
			descends_from(ranks->slot[i], rank->pid))
			return true;
	return false;
}

static bool is_launcher(const struct ranks *ranks, uint32_t pid)
{
	const struct rank_process *process = rank_read_find(ranks->read, pid);

	return process && process->is_launcher;
}

static void read_command(const struct ranks *ranks, struct rank *rank)
{
	const struct rank_process *process = rank_read_find(ranks->read, rank->pid);

	if (process && process->command)
		rank_command_join(process->command, process->command_bytes, rank->command, sizeof(rank->command));
}

static void read_cgroup(const struct ranks *ranks, struct rank *rank)
{
	const struct rank_process *process = rank_read_find(ranks->read, rank->pid);

	if (!process)
		return;
	memcpy(rank->cgroup, process->cgroup.path, sizeof(rank->cgroup));
	memcpy(rank->container, process->cgroup.container, sizeof(rank->container));
	memcpy(rank->pod_uid, process->cgroup.pod_uid, sizeof(rank->pod_uid));
	if (!rank->env.pod[0])
		memcpy(rank->env.pod, process->cgroup.pod_uid, sizeof(process->cgroup.pod_uid));
}

static int read_env(const struct ranks *ranks, uint32_t pid, struct rank_env *ret)
{
	const struct rank_process *process = rank_read_find(ranks->read, pid);

	if (!process || process->env_error < 0)
		return process ? process->env_error : -ENODATA;
	*ret = process->env;
	return 0;
}

/* Everything but role, number and slot. */
static int rank_identify_describe(const struct ranks *ranks, uint32_t pid, struct rank *ret)
{
	const struct rank_process *process = rank_read_find(ranks->read, pid);
	int r;

	if (!process)
		return -ESRCH;
	*ret = (struct rank){.pid = pid,
		.uid = process->uid,
		.start_time_ns = process->stat.start_time_ns,
		.parent_pid = process->stat.parent_pid,
		.major_faults = RANK_FAULTS_UNKNOWN,
		.state = process->stat.state};
	r = read_env(ranks, pid, &ret->env);
	if (r < 0)
		return r;
	(void)copy_text(ret->boot_id, sizeof(ret->boot_id), ranks->context->boot_id);
	(void)copy_text(ret->host, sizeof(ret->host), ranks->context->host);
	memcpy(ret->exe, process->exe, sizeof(ret->exe));
	read_command(ranks, ret);
	read_cgroup(ranks, ret);
	ret->first_seen_ns = ret->last_seen_ns = realtime_ns();
	return 0;
}

static void make_launcher(struct rank *rank)
{
	rank->role = RANK_ROLE_LAUNCHER;
	rank->env.rank = rank->env.world_size = -1;
}

/* A new rank can change the role of its relatives. */
static void rank_identify_review(
	struct ranks *ranks, const struct rank *rank, const struct ancestors *above, uint64_t now_ns)
{
	for (unsigned i = 0; i < above->count; i++) {
		struct tracked *tracked = tracked_find(ranks, above->pid[i]), *added;
		struct rank launcher;

		if (tracked && tracked->rank.role == RANK_ROLE_RANK && is_outranked(&tracked->rank.env, &rank->env))
			tracked_become(ranks, tracked, RANK_ROLE_LAUNCHER, 0);
		if (tracked || !is_launcher(ranks, above->pid[i]) ||
			rank_identify_describe(ranks, above->pid[i], &launcher) < 0)
			continue;
		/* mpirun and similar have no training library. */
		make_launcher(&launcher);
		if (tracked_add(ranks, &launcher, now_ns, &added) == 0)
			rank_queue_remove(ranks->queue, launcher.pid);
	}
	for (uint32_t i = 0; i < ranks->slots; i++) {
		struct tracked *other = ranks->slot[i];

		if (other && &other->rank != rank && is_same_rank(&other->rank.env, &rank->env) &&
			descends_from(other, rank->pid))
			tracked_become(ranks, other, RANK_ROLE_CHILD, rank->instance);
	}
}

static enum rank_identity rank_identify_decide(
	struct ranks *ranks, const struct rank_candidate *candidate, uint64_t now_ns)
{
	uint64_t before_ns = candidate->checked_ns ? candidate->checked_ns : candidate->since_ns;
	const struct ancestors *above = &ranks->read->above;
	struct tracked *owner, *added;
	struct rank rank;

	if (rank_identify_describe(ranks, candidate->pid, &rank) < 0 || rank.start_time_ns != candidate->start_time_ns)
		return IDENTIFY_GONE;
	rank.from_start = candidate->from_exec && now_ns - before_ns <= FROM_START_NS;
	owner = find_owner(ranks, above, &rank.env);
	if (is_launcher(ranks, rank.pid)) {
		make_launcher(&rank);
	} else if (owner) {
		rank.role = RANK_ROLE_CHILD;
		rank.parent_instance = owner->rank.instance;
	} else {
		rank.role = RANK_ROLE_RANK;
		if (!rank.env.source[0]) {
			rank.env.rank = 0;
			rank.env.world_size = 1;
		}
		if (has_launched(ranks, &rank))
			make_launcher(&rank);
	}
	if (tracked_add(ranks, &rank, now_ns, &added) < 0)
		return IDENTIFY_AGAIN;
	added->above = *above;
	if (rank.role == RANK_ROLE_RANK)
		rank_identify_review(ranks, &added->rank, above, now_ns);
	return IDENTIFY_DECIDED;
}

/* Read once per image. */
static int rank_identify_describe_candidate(
	const struct ranks *ranks, struct rank_candidate *candidate, const char *exe)
{
	struct rank_env env;
	int r = read_env(ranks, candidate->pid, &env);

	if (r < 0)
		return r;
	candidate->known = true;
	candidate->has_env = env.source[0] != 0;
	candidate->interpreter = rank_command_is_interpreter(exe);
	(void)copy_text(candidate->exe, sizeof(candidate->exe), rank_exe_tail(exe));
	return 0;
}

static void refuse_environment(struct ranks *ranks, uint32_t pid, uint32_t uid)
{
	log_limited(LOG_WARNING, "ranks", uid,
		"process %u of user %u has more than %u MiB of environment, which execve() does not allow: leaving it "
		"out",
		pid, uid, PROCFS_ENVIRON_BYTES_MAX >> 20);
	ranks_suspect(ranks, uid, "a process has an environment larger than the kernel gives");
}

/* Of a process that a scan has found. */
static bool is_fresh(const struct rank_candidate *candidate, uint64_t start_time_ns, uint64_t now_ns)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return start_time_ns + FRESH_NS + (now_ns - candidate->since_ns) >
	       (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Forgets what is known of another process or image. */
static void rank_identify_compare(struct rank_candidate *candidate, const struct rank_process *process, uint64_t now_ns)
{
	uint64_t start_time_ns = process->stat.start_time_ns;

	if (candidate->known && candidate->start_time_ns != start_time_ns)
		*candidate = (struct rank_candidate){.pid = candidate->pid, .since_ns = now_ns};
	candidate->uid = process->uid;
	candidate->inode = process->inode;
	candidate->start_time_ns = start_time_ns;
	candidate->from_exec |= candidate->from_scan && is_fresh(candidate, start_time_ns, now_ns);
	candidate->from_scan = false;
	if (candidate->known && !streq(candidate->exe, rank_exe_tail(process->exe))) {
		candidate->known = false;
		candidate->since_ns = now_ns;
		candidate->interval_ns = 0;
	}
}

static enum rank_identity rank_identify_read(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns)
{
	const struct rank_process *process = &ranks->read->process[0];
	enum rank_identity identity;

	rank_identify_compare(candidate, process, now_ns);
	if (!process->exe[0])
		return IDENTIFY_NEVER;
	/* Also of one that was known: it may move its environment at any time. */
	if (process->env_error == -E2BIG) {
		refuse_environment(ranks, candidate->pid, process->uid);
		return IDENTIFY_NEVER;
	}
	if (!candidate->known && rank_identify_describe_candidate(ranks, candidate, process->exe) < 0)
		return IDENTIFY_GONE;
	if (ranks->read->libraries & PROCFS_LIBRARY_PYTHON)
		candidate->interpreter = true;
	identity = ranks->read->libraries & PROCFS_LIBRARY_TRAINING ? rank_identify_decide(ranks, candidate, now_ns)
								    : IDENTIFY_AGAIN;
	candidate->checked_ns = now_ns;
	return identity;
}

enum rank_identity rank_identify(
	struct ranks *ranks, struct rank_candidate *candidate, const struct rank_read *read, uint64_t now_ns)
{
	enum rank_identity identity;

	ranks->read = read;
	identity = rank_identify_read(ranks, candidate, now_ns);
	ranks->read = NULL;
	return identity;
}
