/* SPDX-License-Identifier: Apache-2.0 */
/* What `tracectl why` names beside the parts of a step. */
#include "analyzers/cli/why_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/test.h"

#define MS 1e6

/* Of a step of 40 ms that usually takes 20. */
static struct why_result result = {.chosen = 10,
	.usual = 10,
	.chosen_ns = 40 * MS,
	.usual_ns = 20 * MS,
	.thread_known = true,
	.usual_known = true,
	.tier = FRAME_TIER_HOST};
static struct cmd_why cmd;

static void add(enum cmd_why_cause_kind kind, const char *name, double chosen, double usual)
{
	struct cmd_why_cause *cause = &cmd.cause[cmd.causes++];

	*cause = (struct cmd_why_cause){.kind = kind, .chosen = chosen, .usual = usual};
	snprintf(cause->name, sizeof(cause->name), "%s", name);
}

static const char *text(void)
{
	static char text[8192];
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	cmd_why_text(f, &cmd, &result);
	fclose(f);
	cmd = (struct cmd_why){0};
	return text;
}

static bool has(const char *words)
{
	return strstr(text(), words);
}

TEST(what_takes_a_time_worth_a_name)
{
	add(WHY_CAUSE_KERNEL, "sends to sockets", 5 * MS, 1 * MS);
	add(WHY_CAUSE_KERNEL, "softirqs", 1.2 * MS, 1 * MS);
	assert_true(has("the kernel took longer for it: sends to sockets 5 ms a step (usual 1 ms)\n"));
}

/* A rank that is slow from the start has no shorter steps: what it does longer than its peers is named. */
TEST(what_is_usual_but_beyond_peers)
{
	result.parts = 4;
	result.part[0] = (struct why_part){.activity = ACTIVITY_FORWARD,
		.kind = WHY_WORK,
		.chosen_ns = 20 * MS,
		.usual_ns = 19 * MS,
		.peers_ns = 8 * MS};
	/* A tenth of the step, or more only now, or a wait: no. */
	result.part[1] = (struct why_part){.activity = ACTIVITY_OPTIMIZER,
		.kind = WHY_WORK,
		.chosen_ns = 5 * MS,
		.usual_ns = 5 * MS,
		.peers_ns = 1.2 * MS};
	result.part[2] = (struct why_part){
		.activity = ACTIVITY_GC, .kind = WHY_WORK, .chosen_ns = 9 * MS, .usual_ns = 2 * MS, .peers_ns = 0};
	result.part[3] = (struct why_part){.activity = ACTIVITY_BACKWARD,
		.kind = WHY_WAITING,
		.chosen_ns = 9 * MS,
		.usual_ns = 9 * MS,
		.peers_ns = 0};
	assert_true(has("\nbeyond its peers, in its usual steps, too: forward 20 ms (peers 8 ms)\n"));
	result.part[0].peers_ns = NAN;
	assert_false(has("beyond its peers"));
	result.parts = 0;
}

/* Many minor faults and moves between CPUs, or they do not matter; a single retransmit does. */
TEST(what_is_counted)
{
	add(WHY_CAUSE_COUNTED, "minor page faults", 900, 200);
	add(WHY_CAUSE_COUNTED, "CPU migrations", 9, 0.5);
	add(WHY_CAUSE_COUNTED, "node migrations", 0.1, 0);
	add(WHY_CAUSE_COUNTED, "TCP retransmits", 0.1, 0.06);
	assert_true(has("more often than usual: CPU migrations 9 a step (usual 0.5), node migrations 0.1 a step\n"));
	add(WHY_CAUSE_COUNTED, "minor page faults", 1100, 200);
	add(WHY_CAUSE_COUNTED, "CPU migrations", 7, 0.5);
	add(WHY_CAUSE_COUNTED, "TCP retransmits", 0.1, 0.04);
	assert_true(has("more often than usual: minor page faults 1.1e+03 a step (usual 200), TCP retransmits 0.1 a "
			"step (usual 0.04)\n"));
}

TEST(swapped_memory_is_named_with_faults)
{
	result.major_faults = 70;
	cmd.swapped_bytes = 21 << 20;
	assert_true(has("major page faults: 70.0 a step, usual 0.0; 21.0 MiB of its memory swapped out\n"));
	cmd.swapped_bytes = NAN;
	assert_true(has("major page faults: 70.0 a step, usual 0.0\n"));
	result.major_faults = 0;
	cmd.swapped_bytes = 21 << 20;
	assert_false(has("swapped"));
}

TEST(places_in_the_kernel_are_named)
{
	cmd.place[0] = (struct cmd_why_place){"jbd2_log_wait_commit < ext4_sync_file", 9 * MS, 2 * MS};
	cmd.place[1] = (struct cmd_why_place){"futex_wait_queue", 9 * MS, 8.9 * MS};
	cmd.place[2] = (struct cmd_why_place){"do_nanosleep", 3 * MS, 0};
	cmd.places = 3;
	assert_true(has("blocked in the kernel's jbd2_log_wait_commit < ext4_sync_file 9 ms a step (usual 2 ms); "
			"do_nanosleep 3 ms a step\n"));
}

TEST(lines_of_long_calls_are_named)
{
	cmd.line[0] = (struct cmd_why_place){"save (train.py:12) from main (train.py:40)", 9 * MS, 2 * MS};
	cmd.line[1] = (struct cmd_why_place){"wait (dist.py:7)", 9 * MS, 8.9 * MS};
	cmd.lines = 2;
	assert_true(
		has("in long system calls of save (train.py:12) from main (train.py:40) 9 ms a step (usual 2 ms)\n"));
}

TEST(slow_calls_are_named)
{
	cmd.file[0] = (struct cmd_why_file){"sync", "checkpoints/a.pt", 30 * MS, 1, 3 * MS, 0};
	cmd.file[1] = (struct cmd_why_file){"send", "10.0.0.2:29500", 90 * MS, 7, 9 * MS, 8.9 * MS};
	cmd.file[2] = (struct cmd_why_file){"read", "data/b", 20 * MS, 7, 9 * MS, 2 * MS};
	cmd.files = 3;
	assert_true(has(
		"slow calls: sync of checkpoints/a.pt 3 ms a step, 1 call; read of data/b 9 ms a step (usual 2 ms), 7 "
		"calls\n"));
}

TEST_MAIN(NULL, NULL)
