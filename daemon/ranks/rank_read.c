/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process shows of itself (struct rank_read): the kind of its libraries, its environment and command, and those
 * of the launchers above it. Reading these waits for the process's memory lock and for file systems that its user may
 * own, so a worker does it; its answer is checked, because it comes from one that read hostile input.
 */
#include "daemon/base/procfs.h"
#include "daemon/ranks/ranks_internal.h"
#include "daemon/worker/wire.h"

#include <linux/capability.h>

#define READ_MAGIC "RANK"
#define LIBRARY_KINDS (PROCFS_LIBRARY_TRAINING | PROCFS_LIBRARY_COMPANION | PROCFS_LIBRARY_PYTHON)

const struct worker_kind rank_read_kind = {
	.name = "process reader",
	.program = "worker/reader",
	.processes_max = 3,
	.reused = true,
	.memory_bytes_max = 64 << 20,
	.cpu_s_max = 5,
	.wall_ns_max = 2 * NSEC_PER_SEC,
	.reply_bytes_max = 1 << 20, /* 33 commands of 16 KiB */
};

struct rank_question {
	char magic[4];
	uint32_t pid;
	uint64_t known_start_ns; /* of the process and image whose environment is known; 0: not known */
	char known_exe[RANK_EXE_TAIL];
	char proc_root[128];
};

void rank_read_free(struct rank_read *read)
{
	for (unsigned i = 0; i < read->count; i++)
		free(read->process[i].command);
	*read = (struct rank_read){0};
}

const struct rank_process *rank_read_find(const struct rank_read *read, uint32_t pid)
{
	for (unsigned i = 0; read && i < read->count; i++)
		if (read->process[i].pid == pid)
			return &read->process[i];
	return NULL;
}

static int read_status(const char *proc_root, struct rank_process *process)
{
	struct procfs_status status;
	int r = procfs_status(proc_root, process->pid, &status);

	if (r < 0)
		return r;
	process->uid = status.uid;
	process->inode = status.inode;
	return 0;
}

static int read_environment(const char *proc_root, struct rank_process *process)
{
	_cleanup_free_ char *block = NULL;
	size_t size;
	bool cut;
	int r = procfs_environ(proc_root, process->pid, &block, &size, &cut);

	if (r < 0)
		return r;
	/* The first variable of a name counts, so what is read must be all. Only a process that moved its environment
	 * has more. */
	if (cut)
		return -E2BIG;
	rank_env_parse(block, size, &process->env);
	if (process->env.card[0] && !rank_card_is_possible(proc_root, process->pid))
		process->env.card[0] = 0;
	return 0;
}

static void rank_read_cgroup(const char *proc_root, struct rank_process *process)
{
	_cleanup_free_ char *text = NULL;

	if (procfs_cgroup(proc_root, process->pid, &text) == 0)
		rank_cgroup_parse(text, &process->cgroup);
}

static void read_process(const char *proc_root, struct rank_process *process)
{
	rank_read_cgroup(proc_root, process);
	process->env_error = read_environment(proc_root, process);
	if (procfs_command(proc_root, process->pid, &process->command, &process->command_bytes) < 0)
		process->command_bytes = 0;
	process->is_launcher = process->command && rank_command_is_launcher(process->command, process->command_bytes);
}

/* Of a training process: the processes above it, and of these the launchers. */
static void read_ancestors(const char *proc_root, struct rank_read *read)
{
	uint32_t pid = read->process[0].stat.parent_pid;

	while (pid > 1 && read->above.count < RANK_ANCESTORS_MAX) {
		struct rank_process process = {.pid = pid};

		read->above.pid[read->above.count++] = pid;
		if (procfs_stat(proc_root, pid, &process.stat) < 0)
			break;
		pid = process.stat.parent_pid;
		if (procfs_command(proc_root, process.pid, &process.command, &process.command_bytes) < 0)
			continue;
		if (rank_command_is_launcher(process.command, process.command_bytes) &&
			read_status(proc_root, &process) == 0) {
			process.is_launcher = true;
			(void)procfs_exe(proc_root, process.pid, process.exe, sizeof(process.exe));
			process.env_error = read_environment(proc_root, &process);
			read->process[read->count++] = process;
		} else {
			free(process.command);
		}
	}
}

const char *rank_exe_tail(const char *exe)
{
	size_t length = strlen(exe);

	return length < RANK_EXE_TAIL ? exe : exe + length - (RANK_EXE_TAIL - 1);
}

int rank_read_here(
	const char *proc_root, uint32_t pid, uint64_t known_start_ns, const char *known_exe, struct rank_read *ret)
{
	struct rank_read read = {.count = 1, .process[0] = {.pid = pid, .env_error = -ENODATA}};
	struct rank_process *process = &read.process[0];
	int r = procfs_stat(proc_root, pid, &process->stat);

	if (r < 0 || process->stat.state == 'Z' || process->stat.state == 'X')
		return r < 0 ? r : -ESRCH;
	r = read_status(proc_root, process);
	if (r < 0)
		return r;
	/* A thread of the kernel has no program. */
	if (procfs_exe(proc_root, pid, process->exe, sizeof(process->exe)) < 0) {
		*ret = read;
		return 0;
	}
	/* In this order: the environment is refused before anything else is read. */
	if (process->stat.start_time_ns != known_start_ns || !streq(rank_exe_tail(process->exe), known_exe)) {
		process->env_error = read_environment(proc_root, process);
		if (process->env_error < 0 && process->env_error != -E2BIG)
			return process->env_error;
	}
	r = procfs_libraries(proc_root, pid, &read.libraries);
	if (r < 0)
		return r;
	if (read.libraries & PROCFS_LIBRARY_TRAINING) {
		read_process(proc_root, process);
		read_ancestors(proc_root, &read);
	}
	*ret = read;
	return 0;
}

static void rank_read_put_text(struct wire_writer *writer, const char *text, size_t size)
{
	wire_put_bytes(writer, text, size);
}

/* Terminated and printable. */
static void rank_read_take_text(struct wire_reader *reader, char *ret, size_t size)
{
	const uint8_t *text = wire_take_bytes(reader, size);

	if (!text || !memchr(text, 0, size)) {
		reader->is_bad = true;
		ret[0] = 0;
		return;
	}
	(void)copy_text(ret, size, (const char *)text);
	procfs_printable(ret);
}

static void rank_read_put_env(struct wire_writer *writer, const struct rank_env *env)
{
	wire_put(writer, (uint32_t)env->rank, 4);
	wire_put(writer, (uint32_t)env->world_size, 4);
	wire_put(writer, (uint32_t)env->local_rank, 4);
	wire_put(writer, (uint32_t)env->local_world_size, 4);
	wire_put(writer, (uint32_t)env->master_port, 4);
	rank_read_put_text(writer, env->source, sizeof(env->source));
	rank_read_put_text(writer, env->job, sizeof(env->job));
	rank_read_put_text(writer, env->pod, sizeof(env->pod));
	rank_read_put_text(writer, env->card, sizeof(env->card));
}

/* -1 or a number in range. */
static int32_t rank_read_take_number(struct wire_reader *reader)
{
	int32_t value = (int32_t)wire_take(reader, 4);

	reader->is_bad |= value < -1 || value > RANK_ENV_NUMBER_MAX;
	return value;
}

static void rank_read_take_env(struct wire_reader *reader, struct rank_env *ret)
{
	ret->rank = rank_read_take_number(reader);
	ret->world_size = rank_read_take_number(reader);
	ret->local_rank = rank_read_take_number(reader);
	ret->local_world_size = rank_read_take_number(reader);
	ret->master_port = rank_read_take_number(reader);
	rank_read_take_text(reader, ret->source, sizeof(ret->source));
	rank_read_take_text(reader, ret->job, sizeof(ret->job));
	rank_read_take_text(reader, ret->pod, sizeof(ret->pod));
	rank_read_take_text(reader, ret->card, sizeof(ret->card));
}

static void put_read(struct wire_writer *writer, const struct rank_read *read)
{
	wire_put(writer, read->libraries, 4);
	wire_put(writer, read->above.count, 4);
	for (unsigned i = 0; i < read->above.count; i++)
		wire_put(writer, read->above.pid[i], 4);
	wire_put(writer, read->count, 4);
	for (unsigned i = 0; i < read->count; i++) {
		const struct rank_process *process = &read->process[i];

		wire_put(writer, process->pid, 4);
		wire_put(writer, process->stat.parent_pid, 4);
		wire_put(writer, process->stat.start_time_ns, 8);
		wire_put(writer, process->uid, 4);
		wire_put(writer, process->inode, 8);
		rank_read_put_text(writer, process->exe, sizeof(process->exe));
		wire_put(writer, process->is_launcher, 1);
		wire_put(writer, (uint32_t)process->env_error, 4);
		if (process->env_error == 0)
			rank_read_put_env(writer, &process->env);
		rank_read_put_text(writer, process->cgroup.path, sizeof(process->cgroup.path));
		rank_read_put_text(writer, process->cgroup.container, sizeof(process->cgroup.container));
		rank_read_put_text(writer, process->cgroup.pod_uid, sizeof(process->cgroup.pod_uid));
		wire_put(writer, process->command_bytes, 4);
		wire_put_bytes(writer, process->command, process->command_bytes);
	}
}

static void take_process(struct wire_reader *reader, struct rank_process *ret)
{
	const uint8_t *command;

	ret->pid = (uint32_t)wire_take_up_to(reader, 4, INT32_MAX);
	ret->stat.parent_pid = (uint32_t)wire_take_up_to(reader, 4, INT32_MAX);
	ret->stat.start_time_ns = wire_take(reader, 8);
	ret->uid = (uint32_t)wire_take(reader, 4);
	ret->inode = wire_take(reader, 8);
	rank_read_take_text(reader, ret->exe, sizeof(ret->exe));
	ret->is_launcher = wire_take_up_to(reader, 1, 1);
	ret->env_error = wire_take_result(reader, 0);
	if (ret->env_error == 0)
		rank_read_take_env(reader, &ret->env);
	rank_read_take_text(reader, ret->cgroup.path, sizeof(ret->cgroup.path));
	rank_read_take_text(reader, ret->cgroup.container, sizeof(ret->cgroup.container));
	rank_read_take_text(reader, ret->cgroup.pod_uid, sizeof(ret->cgroup.pod_uid));
	ret->command_bytes = (size_t)wire_take_up_to(reader, 4, PROCFS_COMMAND_BYTES_MAX);
	command = wire_take_bytes(reader, ret->command_bytes);
	if (!command)
		return;
	/* With the NUL that procfs_command() adds. */
	ret->command = calloc(1, ret->command_bytes + 1);
	if (ret->command)
		memcpy(ret->command, command, ret->command_bytes);
	reader->is_bad |= !ret->command;
}

int rank_read_take(const uint8_t *data, size_t size_bytes, uint32_t pid, struct rank_read *ret)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};
	struct wire_reader reader = {data, size_bytes, false};
	int r = wire_take_result(&reader, 0);
	unsigned count;

	if (reader.is_bad || r < 0)
		return reader.is_bad ? -EBADMSG : r;
	read.libraries = (uint32_t)wire_take_up_to(&reader, 4, LIBRARY_KINDS);
	count = (unsigned)wire_take_up_to(&reader, 4, RANK_ANCESTORS_MAX);
	while (read.above.count < count && !reader.is_bad)
		read.above.pid[read.above.count++] = (uint32_t)wire_take_up_to(&reader, 4, INT32_MAX);
	count = (unsigned)wire_take_up_to(&reader, 4, ARRAY_SIZE(read.process));
	while (read.count < count && !reader.is_bad)
		take_process(&reader, &read.process[read.count++]);
	if (reader.is_bad || reader.left || read.count == 0 || read.process[0].pid != pid)
		return -EBADMSG;
	*ret = read;
	read = (struct rank_read){0};
	return 0;
}

int rank_read_ask(struct workers *workers, const char *proc_root, uint32_t pid, uint32_t uid, uint64_t known_start_ns,
	const char *known_exe, worker_done done, void *arg, uint64_t *ret_id)
{
	struct rank_question question = {.magic = READ_MAGIC, .pid = pid, .known_start_ns = known_start_ns};

	(void)copy_text(question.known_exe, sizeof(question.known_exe), known_exe);
	(void)copy_text(question.proc_root, sizeof(question.proc_root), proc_root);
	return worker_ask(workers, &rank_read_kind, uid, &question, sizeof(question), NULL, 0, done, arg, ret_id);
}

bool rank_read_is_question(const struct worker_task *task)
{
	return task->size_bytes == sizeof(struct rank_question) &&
	       memcmp(task->request, READ_MAGIC, sizeof(READ_MAGIC) - 1) == 0;
}

int rank_read_serve(const struct worker_task *task)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};
	_cleanup_(wire_free) struct wire_writer answer = {0};
	struct rank_question question;
	int r;

	memcpy(&question, task->request, sizeof(question));
	if (worker_child_keep(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH) < 0)
		return -EPERM;
	r = rank_read_here(question.proc_root, question.pid, question.known_start_ns, question.known_exe, &read);
	wire_put(&answer, (uint32_t)r, 4);
	if (r == 0)
		put_read(&answer, &read);
	return answer.failed ? -ENOMEM : worker_child_add(answer.data, answer.size_bytes, NULL, 0);
}
