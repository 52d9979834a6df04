/* SPDX-License-Identifier: Apache-2.0 */
/* See dump_room.h. What was written stands in the state file of the dumps, so that a restart knows it. */
#include <limits.h>
#include <signal.h>
#include "daemon/context.h"
#include "daemon/dump_child.h"
#include "daemon/dump_room.h"
#include "daemon/log.h"

#define FIRST_NS (10 * NSEC_PER_SEC) /* after a start: what was left of before */
#define LONGEST_NS (1800 * NSEC_PER_SEC)

static const enum level levels[DUMP_KIND_MAX] = {
	[DUMP_L0] = LEVEL_L0, [DUMP_L1] = LEVEL_L1, [DUMP_L2] = LEVEL_L2, [DUMP_L3] = LEVEL_L3};

struct dump_room {
	struct context *context;
	struct dump_child child;
	uint64_t began_ns;		 /* when the dump that runs began */
	unsigned kinds;			 /* it writes, a bit each */
	uint64_t due_ns[DUMP_KIND_MAX];	 /* of kinds that were never dumped since start */
	uint64_t last_ns[DUMP_KIND_MAX]; /* when the last dump of it began; 0: none since start */
	bool dirty[DUMP_KIND_MAX];	 /* on at some time since then */
	struct dump_state state;
	uint64_t cpu_ns;
	char program[PATH_MAX], dir[PATH_MAX + 8], trouble[DUMP_TROUBLE_BYTES];
};

int dump_room_new(struct context *context, struct dump_room **ret)
{
	struct dump_room *room = calloc(1, sizeof(*room));
	uint64_t now_ns = monotonic_ns();

	if (!room)
		return -ENOMEM;
	room->context = context;
	room->child.said_fd = -1;
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		room->due_ns[i] = now_ns + FIRST_NS;
		room->dirty[i] = true;
	}
	dump_child_program("dump", room->program, sizeof(room->program));
	snprintf(room->dir, sizeof(room->dir), "%s/dump", context->config.state_dir);
	(void)dump_state_look(room->dir, &room->state);
	*ret = room;
	return 0;
}

struct dump_room *dump_room_free(struct dump_room *room)
{
	if (!room)
		return NULL;
	dump_child_kill(&room->child);
	free(room);
	return NULL;
}

static uint64_t interval_ns(const struct dump_room *room, unsigned kind)
{
	double minutes = room->context->levels.interval_minutes[levels[kind]];

	return kind == DUMP_L0 ? room->context->config.dump_l0_interval_ns
			       : (uint64_t)(minutes * 60 * (double)NSEC_PER_SEC);
}

static unsigned due_kinds(const struct dump_room *room, uint64_t now_ns)
{
	unsigned kinds = 0;

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		uint64_t due_ns = room->last_ns[i] ? room->last_ns[i] + interval_ns(room, i) : room->due_ns[i];

		if (room->dirty[i] && now_ns >= due_ns)
			kinds |= 1U << i;
	}
	return kinds;
}

static void dumps_set_trouble(struct dump_room *room, const char *sentence)
{
	if (sentence[0] && !streq(room->trouble, sentence))
		log_warning("dump", "%s", sentence);
	copy_text(room->trouble, sizeof(room->trouble), sentence);
}

static int start_child(struct dump_room *room, unsigned kinds)
{
	const struct config *config = &room->context->config;
	char list[32] = "", window[24], size[24], age[24];
	const char *argv[] = {room->program, "--extend", "--level", list, "--window", window, "--size-max", size,
		"--age-max", age, "--state-dir", room->context->config.state_dir, NULL};
	size_t used = 0;

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
		if (kinds & 1U << i)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "",
				dump_kind_name((enum dump_kind)i));
	snprintf(window, sizeof(window), "%llu", (unsigned long long)(config->dump_window_ns / NSEC_PER_SEC));
	snprintf(size, sizeof(size), "%llu", (unsigned long long)config->dump_size_bytes_max);
	snprintf(age, sizeof(age), "%llu", (unsigned long long)(config->dump_age_ns_max / NSEC_PER_SEC));
	return dump_child_start(&room->child, argv);
}

static void dumps_begin(struct dump_room *room, unsigned kinds, uint64_t now_ns)
{
	char sentence[DUMP_TROUBLE_BYTES];
	int r = start_child(room, kinds);

	for (unsigned i = 0; i < DUMP_KIND_MAX; i++) {
		if (!(kinds & 1U << i))
			continue;
		room->last_ns[i] = now_ns;
		room->dirty[i] = r < 0 || room->context->levels.on[levels[i]];
	}
	if (r < 0) {
		snprintf(sentence, sizeof(sentence), "cannot run %.150s: %s", room->program, strerror(-r));
		dumps_set_trouble(room, sentence);
		return;
	}
	room->began_ns = now_ns;
	room->kinds = kinds;
}

static void dumps_end(struct dump_room *room, const struct dump_end *end)
{
	char sentence[DUMP_TROUBLE_BYTES + DUMP_SAID_BYTES];

	room->cpu_ns += end->cpu_ns;
	(void)dump_state_look(room->dir, &room->state);
	if (end->failed) {
		for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
			room->dirty[i] |= (room->kinds & 1U << i) != 0;
		snprintf(sentence, sizeof(sentence), "no dump was written: %s; trying again at the next interval",
			end->why);
		dumps_set_trouble(room, sentence);
		return;
	}
	if (end->why[0])
		log_info("dump", "%s", end->why);
	dumps_set_trouble(room, room->state.trouble);
}

void dump_room_tick(struct dump_room *room, uint64_t now_ns)
{
	struct dump_end how;
	unsigned kinds;

	if (!room)
		return;
	for (unsigned i = 0; i < DUMP_KIND_MAX; i++)
		room->dirty[i] |= room->context->levels.on[levels[i]];
	if (dump_child_ended(&room->child, &how))
		dumps_end(room, &how);
	if (room->child.pid) {
		if (now_ns > room->began_ns + LONGEST_NS)
			kill(room->child.pid, SIGKILL);
		return;
	}
	kinds = room->context->config.dump_enabled ? due_kinds(room, now_ns) : 0;
	if (kinds)
		dumps_begin(room, kinds, now_ns);
}

void dump_room_status(const struct dump_room *room, struct dump_room_status *ret)
{
	*ret = (struct dump_room_status){.state = room->state, .running = room->child.pid != 0, .cpu_ns = room->cpu_ns};
	copy_text(ret->trouble, sizeof(ret->trouble), room->trouble);
}
