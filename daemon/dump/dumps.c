/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules dumps and runs their process. The state file records dumps across restarts. */
#include "daemon/dump/dumps.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/worker/worker.h"

#include <limits.h>

#define FIRST_NS (10 * NSEC_PER_SEC) /* after a start: dumps due before it */
#define LONGEST_NS (1800 * NSEC_PER_SEC)

static const enum level levels[DUMP_KIND_MAX] = {
	[DUMP_L0] = LEVEL_L0, [DUMP_L1] = LEVEL_L1, [DUMP_L2] = LEVEL_L2, [DUMP_L3] = LEVEL_L3};

struct dumps {
	struct context *context;
	struct child child;
	uint64_t began_ns;		 /* start of the running dump */
	unsigned kinds;			 /* kinds it writes, one bit each */
	uint64_t due_ns[DUMP_KIND_MAX];	 /* of kinds not dumped since start */
	uint64_t last_ns[DUMP_KIND_MAX]; /* start of the kind's last dump; 0: none since start */
	bool dirty[DUMP_KIND_MAX];	 /* its level was on since then */
	struct dump_state state;
	uint64_t cpu_ns;
	char program[PATH_MAX], dir[PATH_MAX + 8], reason[DUMP_REASON_BYTES];
};

int dumps_new(struct context *context, struct dumps **ret)
{
	struct dumps *dumps = calloc(1, sizeof(*dumps));
	uint64_t now_ns = monotonic_ns();

	if (!dumps)
		return -ENOMEM;
	dumps->context = context;
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
	child_forget(&dumps->child);
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

static void dumps_set_reason(struct dumps *dumps, const char *sentence)
{
	if (sentence[0] && !streq(dumps->reason, sentence))
		log_warning("dump", "%s", sentence);
	copy_text(dumps->reason, sizeof(dumps->reason), sentence);
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
	return child_start(&dumps->child, workers_spawner(dumps->context->workers), argv, STDERR_FILENO);
}

static void dumps_begin(struct dumps *dumps, unsigned kinds, uint64_t now_ns)
{
	char sentence[DUMP_REASON_BYTES];
	int r = start_child(dumps, kinds);

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		if (!(kinds & 1U << i))
			continue;
		dumps->last_ns[i] = now_ns;
		dumps->dirty[i] = r < 0 || dumps->context->levels.on[levels[i]];
	}
	if (r < 0) {
		snprintf(sentence, sizeof(sentence), "cannot run %.150s: %s", dumps->program, strerror(-r));
		dumps_set_reason(dumps, sentence);
		return;
	}
	dumps->began_ns = now_ns;
	dumps->kinds = kinds;
}

static void dumps_end(struct dumps *dumps, const struct child_end *end)
{
	char sentence[DUMP_REASON_BYTES + CHILD_SAID_BYTES];

	dumps->cpu_ns += end->cpu_ns;
	(void)dump_state_load_summary(dumps->dir, &dumps->state);
	if (end->failed) {
		for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
			dumps->dirty[i] |= (dumps->kinds & 1U << i) != 0;
		snprintf(sentence, sizeof(sentence), "no dump was written: %s; trying again at the next interval",
			end->why);
		dumps_set_reason(dumps, sentence);
		return;
	}
	if (end->said[0])
		log_info("dump", "%s", end->said);
	dumps_set_reason(dumps, dumps->state.reason);
}

void dumps_tick(struct dumps *dumps, uint64_t now_ns)
{
	struct child_end how;
	unsigned kinds;

	if (!dumps)
		return;
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
		dumps->dirty[i] |= dumps->context->levels.on[levels[i]];
	if (child_ended(&dumps->child, &how))
		dumps_end(dumps, &how);
	if (dumps->child.running) {
		if (now_ns > dumps->began_ns + LONGEST_NS)
			child_kill(&dumps->child);
		return;
	}
	kinds = dumps->context->config.dump_enabled ? due_kinds(dumps, now_ns) : 0;
	if (kinds)
		dumps_begin(dumps, kinds, now_ns);
}

void dumps_status(const struct dumps *dumps, struct dumps_status *ret)
{
	*ret = (struct dumps_status){.state = dumps->state, .running = dumps->child.running, .cpu_ns = dumps->cpu_ns};
	copy_text(ret->reason, sizeof(ret->reason), dumps->reason);
}
