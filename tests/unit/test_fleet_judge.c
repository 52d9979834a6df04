/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement over nodes: who is named, who is not, and the sentences. */
#include "tests/unit/fleet_script.h"

TEST(a_slow_rank_is_named)
{
	for (size_t ranks = 16; ranks <= FLEET_SCRIPT_RANKS; ranks *= 8) {
		fleet_script_begin(ranks);
		fleet_script_slow(13, 1, 0.08);
		fleet_script_expect(FLEET_RANK, 13, 13);
		assert_int_equal(fleet_script.verdict[0].activity, ACTIVITY_DATALOADER);
		assert_true(fabs(fleet_script.verdict[0].growth - 0.08) < 0.02);
		assert_true(fabs(fleet_script.verdict[0].cards / (double)ranks - 0.074) < 0.02);
	}
	assert_non_null(strstr(fleet_script.sentence, "rank 13 (node-1) slows job gpt by "));
	assert_non_null(strstr(fleet_script.sentence, "data loading takes 1"));
}

/* With operations also in what may hold waits. */
TEST(a_rank_that_computes_longer_is_named)
{
	fleet_script_begin(128);
	fleet_script.operations = true;
	fleet_script.activity = ACTIVITY_BACKWARD;
	fleet_script_slow(77, 1, 0.08);
	fleet_script_expect(FLEET_RANK, 77, 77);
	/* Without, nobody is: all backward grew alike. */
	fleet_script.operations = false;
	fleet_script_expect_nobody();
	fleet_script_slow(77, 1, 0.3);
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 1);
	assert_int_equal(fleet_script.verdict[0].kind, FLEET_JOB);
	assert_non_null(strstr(
		fleet_script.sentence, "no single rank or node slows job gpt by 30 %, in backward: a step takes 1.3"));
}

TEST(a_slow_node_is_named)
{
	for (size_t ranks = 16; ranks <= FLEET_SCRIPT_RANKS; ranks *= 8)
		for (int operations = 0; operations < 2; operations++) {
			fleet_script_begin(ranks);
			fleet_script.operations = operations;
			fleet_script_slow(8, 8, 0.08);
			fleet_script_expect(FLEET_NODE, 8, 15);
			assert_int_equal(fleet_script.verdict[0].node[0], 1);
		}
	assert_non_null(strstr(fleet_script.sentence, "node node-1 (ranks 8 to 15 alike) slows job gpt by "));
}

TEST(a_slow_stage_is_named)
{
	fleet_script_begin(512);
	fleet_script.operations = true;
	fleet_script.activity = ACTIVITY_FORWARD;
	fleet_script_slow(128, 128, 0.1);
	fleet_script_expect(FLEET_STAGE, 128, 255);
	assert_non_null(strstr(fleet_script.sentence, "ranks 128 to 255 (node-16, node-17, node-18, node-19 and 12 "
						      "more), as a pipeline stage, slow job gpt"));
}

TEST(two_ranks_share_it)
{
	fleet_script_begin(128);
	fleet_script_slow(3, 1, 0.2);
	fleet_script_slow(90, 1, 0.2);
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 2);
	assert_int_equal(fleet_script.verdict[0].first, 3);
	assert_int_equal(fleet_script.verdict[1].first, 90);
	/* Together no more than the job lost. */
	assert_true(fabs(fleet_script.verdict[0].growth + fleet_script.verdict[1].growth - 0.2) < 0.02);
}

/* A smaller fault hides behind a larger one. */
TEST(half_as_slow_is_not_named)
{
	fleet_script_begin(128);
	fleet_script_slow(3, 1, 0.2);
	fleet_script_slow(90, 1, 0.1);
	fleet_script_expect(FLEET_RANK, 3, 3);
}

/* All ranks take longer, and one of them more so. */
TEST(a_rank_is_named_for_most_of_the_growth)
{
	fleet_script_begin(128);
	fleet_script.slower = 0.3;
	fleet_script_slow(3, 1, 0.1);
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 1);
	assert_int_equal(fleet_script.verdict[0].kind, FLEET_JOB);
	fleet_script.slower = 0.1;
	fleet_script_slow(3, 1, 0.15);
	fleet_script_expect(FLEET_RANK, 3, 3);
}

TEST(the_network_between_two_nodes_is_named)
{
	fleet_script_begin(512);
	fleet_script.operations = true;
	fleet_script.link = 0.15;
	fleet_script.link_first = 20;
	fleet_script.link_nodes = 2;
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 1);
	assert_int_equal(fleet_script.verdict[0].kind, FLEET_LINK);
	assert_int_equal(fleet_script.verdict[0].nodes, 2);
	assert_int_equal(fleet_script.verdict[0].node[0], 20);
	assert_int_equal(fleet_script.verdict[0].node[1], 21);
	assert_non_null(strstr(fleet_script.sentence, "communication between node-20 and node-21 slows job gpt by 15 "
						      "%: send of pipeline takes 160 ms a step, 10 ms before"));
	/* Less than what is said of a job is said of a link. */
	fleet_script.link = 0.08;
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 1);
	assert_int_equal(fleet_script.verdict[0].kind, FLEET_LINK);
	fleet_script.link = 0.15;
	/* All nodes alike: it is the job's. */
	fleet_script.link_first = 0;
	fleet_script.link_nodes = 64;
	fleet_script_judge();
	assert_int_equal(fleet_script.verdicts, 1);
	assert_int_equal(fleet_script.verdict[0].kind, FLEET_JOB);
}

/* A fault that has just begun is in all of one node's minute, and in a part of another's. */
TEST(nodes_are_scraped_in_turns)
{
	for (double early = 0.3; early < 0.7; early += 0.3) {
		fleet_script_begin(512);
		fleet_script.operations = true;
		fleet_script.early = early;
		fleet_script.activity = ACTIVITY_BACKWARD;
		fleet_script_slow(128, 128, 0.2);
		fleet_script_expect(FLEET_STAGE, 128, 255);
		fleet_script_slow(128, 128, 0);
		fleet_script_slow(8, 1, 0.2);
		fleet_script_expect(FLEET_RANK, 8, 8);
		fleet_script_slow(8, 1, 0);
		fleet_script.link = 0.3;
		fleet_script.link_first = 20;
		fleet_script.link_nodes = 2;
		fleet_script_judge();
		assert_int_equal(fleet_script.verdicts, 1);
		assert_int_equal(fleet_script.verdict[0].kind, FLEET_LINK);
		assert_int_equal(fleet_script.verdict[0].nodes, 2);
	}
	/* Nodes that do not show it yet may have it. */
	fleet_script_begin(512);
	fleet_script.operations = true;
	fleet_script.activity = ACTIVITY_BACKWARD;
	fleet_script.early = 0.8;
	fleet_script_slow(8, 1, 0.5);
	fleet_script_expect_nobody();
	/* A stage of two nodes, of which one does not show it yet, is no slow node. */
	fleet_script_begin(512);
	fleet_script.early = 0.8;
	fleet_script_slow(15 * 8, 16, 0.5);
	fleet_script_expect_nobody();
	/* A few ranks of many that do not show it do not matter. */
	for (size_t late = 4; late <= 8; late += 4) {
		fleet_script_begin(512);
		fleet_script_slow(100, 1, 0.5);
		fleet_script_judge();
		for (size_t r = 504; r < 504 + late; r++) {
			fleet_script.fleet.rank[r].step = fleet_script.fleet.rank[r].step_usual;
			memcpy(fleet_script.fleet.rank[r].act, fleet_script.fleet.rank[r].usual,
				sizeof(fleet_script.fleet.rank[r].act));
		}
		assert_int_equal(fleet_judge(&fleet_script.fleet, 0, fleet_script.verdict, &fleet_script.verdicts), 0);
		assert_int_equal(fleet_script.verdicts, late == 4);
	}
	/* Nor is a node slow because the others' minute is another. */
	fleet_script_begin(512);
	for (size_t r = 0; r < 512; r++)
		fleet_script.fault[r] = 0.5;
	fleet_script.faulty_before = true;
	fleet_script_judge();
	for (size_t r = 0; r < 512; r++)
		if (r / 8 != 5) {
			fleet_script.fleet.rank[r].step -= 0.5;
			fleet_script.fleet.rank[r].act[ACTIVITY_DATALOADER] -= 0.5;
		}
	assert_int_equal(fleet_judge(&fleet_script.fleet, 0, fleet_script.verdict, &fleet_script.verdicts), 0);
	assert_int_equal(fleet_script.verdicts, 0);
}

TEST(slow_for_all_of_the_window_is_named_beside_peers)
{
	fleet_script_begin(136);
	fleet_script.faulty_before = true;
	fleet_script_slow(40, 1, 0.2);
	fleet_script_expect(FLEET_RANK, 40, 40);
	assert_true(fleet_script.verdict[0].peers);
	assert_non_null(strstr(fleet_script.sentence, " elsewhere"));
	fleet_script_slow(40, 8, 0.2);
	fleet_script_expect(FLEET_NODE, 40, 47);
	assert_non_null(strstr(fleet_script.sentence, "the node, or the stage that it holds"));
	/* What differs by less is no fault. */
	fleet_script_slow(40, 8, 0);
	fleet_script_slow(40, 1, 0.07);
	fleet_script_expect_nobody();
	/* Nor is one of many that differ: */
	fleet_script_slow(40, 1, 0.2);
	fleet_script_slow(70, 1, 0.1);
	fleet_script_expect_nobody();
	fleet_script_slow(70, 1, 0.05);
	fleet_script_expect(FLEET_RANK, 40, 40);
	/* One of 16 nodes, or of 16 ranks, may be a stage. */
	fleet_script_begin(128);
	fleet_script.faulty_before = true;
	fleet_script_slow(40, 8, 0.2);
	fleet_script_expect_nobody();
	fleet_script_begin(16);
	fleet_script.faulty_before = true;
	fleet_script_slow(8, 1, 0.2);
	fleet_script_expect_nobody();
}

/* Clean tables: roles that differ, noise, few ranks and many. */
TEST(nobody_is_accused_without_a_fault)
{
	for (size_t ranks = 2; ranks <= FLEET_SCRIPT_RANKS; ranks *= 4)
		for (int operations = 0; operations < 2; operations++)
			for (int uneven = 0; uneven < 2; uneven++) {
				fleet_script_begin(ranks);
				fleet_script.operations = operations;
				fleet_script.noise = 0.02;
				/* The last quarter of the ranks, a stage, has the loss. */
				for (size_t r = ranks - ranks / 4; uneven && r < ranks; r++)
					fleet_script.role[r] = 0.2;
				fleet_script_expect_nobody();
			}
}

/* A job that slows down by itself has noise, too; the most of 10,240 ranks is no rank's fault. */
TEST(noise_is_not_named_when_the_job_slows_down)
{
	for (int i = 0; i < 8; i++) {
		fleet_script_begin(FLEET_SCRIPT_RANKS);
		fleet_script.random = (uint64_t)i;
		fleet_script.noise = 0.015;
		fleet_script.activity = ACTIVITY_BACKWARD;
		fleet_script_slow(0, FLEET_SCRIPT_RANKS, 0.12);
		fleet_script_judge();
		assert_int_equal(fleet_script.verdicts, 1);
		assert_int_equal(fleet_script.verdict[0].kind, FLEET_JOB);
	}
}

TEST(what_is_small_or_unknown_is_not_judged)
{
	struct fleet fleet = {0};
	size_t count = 3;

	/* Of the job alone, less than a tenth. */
	fleet_script_begin(128);
	fleet_script.activity = ACTIVITY_BACKWARD;
	fleet_script_slow(0, 128, 0.08);
	fleet_script_expect_nobody();
	/* Below what is judged at all. */
	fleet_script_begin(128);
	fleet_script_slow(5, 1, 0.03);
	fleet_script_expect_nobody();
	/* Ranks without steps, and no ranks. */
	fleet_script_begin(16);
	fleet_script_judge();
	for (size_t r = 0; r < 16; r++)
		fleet_script.fleet.rank[r].step = fleet_script.fleet.rank[r].step_usual = 0;
	assert_int_equal(fleet_judge(&fleet_script.fleet, 0, fleet_script.verdict, &fleet_script.verdicts), 0);
	assert_int_equal(fleet_script.verdicts, 0);
	assert_int_equal(fleet_judge(&fleet, 0, fleet_script.verdict, &count), 0);
	assert_int_equal(count, 0);
}

static int teardown(void **state)
{
	fleet_free(&fleet_script.fleet);
	return 0;
}

TEST_MAIN(NULL, teardown)
