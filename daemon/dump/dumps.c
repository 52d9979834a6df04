/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules dumps and runs their process. The state file records dumps across restarts. */
#include "daemon/dump/dumps.h"
#include "daemon/base/log.h"
#include "daemon/base/spawn.h"
#include "daemon/core/context.h"
#include "daemon/worker/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The process. */

int dump_child_start(struct dump_child *child, const char *const *argv)
{
	_cleanup_close_ int ours = -1, its = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	ours = ends[0];
	its = ends[1];
	*child = (struct dump_child){.said_fd = -1};
	r = spawn_program((char *const *)argv, environ, its, STDERR_FILENO, &child->pid); /* does not change argv */
	if (r < 0) {
		child->pid = 0;
		return r;
	}
	child->said_fd = TAKE_FD(ours);
	return 0;
}

/* Excess is read and discarded, so that the child never blocks. */
static void listen_to(struct dump_child *child)
{
	char rest[256];

	for (unsigned i = 0; i < 64; i++) {
		size_t capacity = sizeof(child->said) - 1 - child->said_used;
		ssize_t n =
			read(child->said_fd, capacity ? child->said + child->said_used : rest, capacity ? capacity : sizeof(rest));

		if (n <= 0)
			break;
		if (capacity)
			child->said_used += (size_t)n;
	}
	child->said[child->said_used] = 0;
}

static uint64_t dump_child_timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_usec * NSEC_PER_USEC;
}

bool dump_child_ended(struct dump_child *child, struct dump_end *ret)
{
	struct rusage usage = {0};
	int status = 0;
	pid_t pid;

	if (!child->pid)
		return false;
	listen_to(child);
	pid = wait4(child->pid, &status, WNOHANG, &usage);
	if (pid == 0 || (pid < 0 && errno == EINTR))
		return false;
	listen_to(child);
	close(child->said_fd);
	*ret = (struct dump_end){.failed = pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0,
		.cpu_ns = dump_child_timeval_ns(usage.ru_utime) + dump_child_timeval_ns(usage.ru_stime)};
	child->said[strcspn(child->said, "\n")] = 0; /* only the first sentence */
	copy_text(ret->why, sizeof(ret->why), child->said);
	if (ret->failed && !ret->why[0] && WIFSIGNALED(status))
		snprintf(ret->why, sizeof(ret->why), "it was ended by a signal: %s", strsignal(WTERMSIG(status)));
	else if (ret->failed && !ret->why[0])
		copy_text(ret->why, sizeof(ret->why), "it failed and did not say why");
	*child = (struct dump_child){.said_fd = -1};
	return true;
}

void dump_child_kill(struct dump_child *child)
{
	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(child->said_fd);
	*child = (struct dump_child){.said_fd = -1};
}

#define FIRST_NS (10 * NSEC_PER_SEC) /* after a start: dumps due before it */
#define LONGEST_NS (1800 * NSEC_PER_SEC)

static const enum level levels[DUMP_KIND_MAX] = {
	[DUMP_L0] = LEVEL_L0, [DUMP_L1] = LEVEL_L1, [DUMP_L2] = LEVEL_L2, [DUMP_L3] = LEVEL_L3};

struct dumps {
	struct context *context;
	struct dump_child child;
	uint64_t began_ns;		 /* start of the running dump */
	unsigned kinds;			 /* kinds it writes, one bit each */
	uint64_t due_ns[DUMP_KIND_MAX];	 /* of kinds not dumped since start */
	uint64_t last_ns[DUMP_KIND_MAX]; /* start of the kind's last dump; 0: none since start */
	bool dirty[DUMP_KIND_MAX];	 /* its level was on since then */
	struct dump_state state;
	uint64_t cpu_ns;
	char program[PATH_MAX], dir[PATH_MAX + 8], trouble[DUMP_TROUBLE_BYTES];
};

int dumps_new(struct context *context, struct dumps **ret)
{
	struct dumps *dumps = calloc(1, sizeof(*dumps));
	uint64_t now_ns = monotonic_ns();

	if (!dumps)
		return -ENOMEM;
	dumps->context = context;
	dumps->child.said_fd = -1;
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		dumps->due_ns[i] = now_ns + FIRST_NS;
		dumps->dirty[i] = true;
	}
	worker_program("dump", dumps->program, sizeof(dumps->program));
	snprintf(dumps->dir, sizeof(dumps->dir), "%s/dump", context->config.state_dir);
	(void)dump_state_load_summary(dumps->dir, &dumps->state);
	*ret = dumps;
	return 0;
}

struct dumps *dumps_free(struct dumps *dumps)
{
	if (!dumps)
		return NULL;
	dump_child_kill(&dumps->child);
	free(dumps);
	return NULL;
}

static uint64_t interval_ns(const struct dumps *dumps, unsigned kind)
{
	double minutes = dumps->context->levels.interval_minutes[levels[kind]];

	return kind == DUMP_L0 ? dumps->context->config.dump_l0_interval_ns
			       : (uint64_t)(minutes * 60 * (double)NSEC_PER_SEC);
}

static unsigned due_kinds(const struct dumps *dumps, uint64_t now_ns)
{
	unsigned kinds = 0;

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		uint64_t due_ns = dumps->last_ns[i] ? dumps->last_ns[i] + interval_ns(dumps, i) : dumps->due_ns[i];

		if (dumps->dirty[i] && now_ns >= due_ns)
			kinds |= 1U << i;
	}
	return kinds;
}

static void dumps_set_trouble(struct dumps *dumps, const char *sentence)
{
	if (sentence[0] && !streq(dumps->trouble, sentence))
		log_warning("dump", "%s", sentence);
	copy_text(dumps->trouble, sizeof(dumps->trouble), sentence);
}

static int start_child(struct dumps *dumps, unsigned kinds)
{
	const struct config *config = &dumps->context->config;
	char list[32] = "", window[24], size[24], age[24];
	const char *argv[] = {dumps->program, "--extend", "--level", list, "--window", window, "--size-max", size,
		"--age-max", age, "--state-dir", dumps->context->config.state_dir, NULL};
	size_t used = 0;

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
		if (kinds & 1U << i)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "",
				dump_kind_name((enum dump_kind)i));
	snprintf(window, sizeof(window), "%llu", (unsigned long long)(config->dump_window_ns / NSEC_PER_SEC));
	snprintf(size, sizeof(size), "%llu", (unsigned long long)config->dump_size_bytes_max);
	snprintf(age, sizeof(age), "%llu", (unsigned long long)(config->dump_age_ns_max / NSEC_PER_SEC));
	return dump_child_start(&dumps->child, argv);
}

static void dumps_begin(struct dumps *dumps, unsigned kinds, uint64_t now_ns)
{
	char sentence[DUMP_TROUBLE_BYTES];
	int r = start_child(dumps, kinds);

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		if (!(kinds & 1U << i))
			continue;
		dumps->last_ns[i] = now_ns;
		dumps->dirty[i] = r < 0 || dumps->context->levels.on[levels[i]];
	}
	if (r < 0) {
		snprintf(sentence, sizeof(sentence), "cannot run %.150s: %s", dumps->program, strerror(-r));
		dumps_set_trouble(dumps, sentence);
		return;
	}
	dumps->began_ns = now_ns;
	dumps->kinds = kinds;
}

static void dumps_end(struct dumps *dumps, const struct dump_end *end)
{
	char sentence[DUMP_TROUBLE_BYTES + DUMP_SAID_BYTES];

	dumps->cpu_ns += end->cpu_ns;
	(void)dump_state_load_summary(dumps->dir, &dumps->state);
	if (end->failed) {
		for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
			dumps->dirty[i] |= (dumps->kinds & 1U << i) != 0;
		snprintf(sentence, sizeof(sentence), "no dump was written: %s; trying again at the next interval",
			end->why);
		dumps_set_trouble(dumps, sentence);
		return;
	}
	if (end->why[0])
		log_info("dump", "%s", end->why);
	dumps_set_trouble(dumps, dumps->state.trouble);
}

void dumps_tick(struct dumps *dumps, uint64_t now_ns)
{
	struct dump_end how;
	unsigned kinds;

	if (!dumps)
		return;
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
		dumps->dirty[i] |= dumps->context->levels.on[levels[i]];
	if (dump_child_ended(&dumps->child, &how))
		dumps_end(dumps, &how);
	if (dumps->child.pid) {
		if (now_ns > dumps->began_ns + LONGEST_NS)
			kill(dumps->child.pid, SIGKILL);
		return;
	}
	kinds = dumps->context->config.dump_enabled ? due_kinds(dumps, now_ns) : 0;
	if (kinds)
		dumps_begin(dumps, kinds, now_ns);
}

void dumps_status(const struct dumps *dumps, struct dumps_status *ret)
{
	*ret = (struct dumps_status){.state = dumps->state, .running = dumps->child.pid != 0, .cpu_ns = dumps->cpu_ns};
	copy_text(ret->trouble, sizeof(ret->trouble), dumps->trouble);
}
