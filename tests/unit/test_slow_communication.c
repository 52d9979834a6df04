/* SPDX-License-Identifier: Apache-2.0 */
/* Slow links, nodes and communicators, and what is neither: frames with what was measured of them, made up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/detect/detector.h"

#include "tests/test.h"

#define NODES 6
#define RANKS (2 * NODES)
#define ROUNDS 5
#define PAIRS 15 /* each two nodes; three at a time */
#define MS 1000000ULL
#define STEP_NS (1000 * MS) /* where a script says nothing else */
#define TRANSFER_NS (100 * MS)

extern const struct detector slow_communication_detector;

/* Nodes of each pair, of which the first ranks send to each other. */
static const uint32_t ends[PAIRS][2] = {{0, 5}, {1, 4}, {2, 3}, {0, 4}, {3, 5}, {1, 2}, {0, 3}, {2, 4}, {1, 5}, {0, 2},
	{1, 3}, {4, 5}, {0, 1}, {2, 5}, {3, 4}};

static struct frame_rank rank[RANKS];
static struct measure_rank measured[RANKS];
static struct frame_who who[RANKS];
static struct frame_comm comm = {.communicator = "pipe", .kind = COMM_KIND_PIPELINE, .members = RANKS};
static struct frame_group group[PAIRS];
static struct measure_group transfer[PAIRS];
static struct frame_op op[2 * RANKS * PAIRS];
static struct frame frame;
static struct measures measures;
static void *detector;
static unsigned found, n_pairs;
static uint64_t step_ns;
static struct verdict newest;
static double times[PAIRS]; /* a pair's transfer over what it should take */
static int64_t gap_ns;	    /* to another operation of the rank after each; INT64_MAX: there is none */

static void on_verdict(void *arg, const struct verdict *verdict)
{
	assert_true(verdict->lost_ns > 0);
	assert_int_equal(verdict->finding.kind, FINDING_SLOW_COMMUNICATION);
	found++;
	newest = *verdict;
}

/* pairs: the first so many; 0: one collective of all ranks instead, which is times[0]. */
static void begin(enum frame_tier tier, unsigned pairs)
{
	const struct detect_options options = {
		.slow_ratio = 1.05, .slow_z = 5, .slow_frames = 5, .slow_of = 8, .gain_min = 0.03};

	found = 0;
	step_ns = STEP_NS;
	n_pairs = pairs;
	gap_ns = INT64_MAX;
	memset(measured, 0, sizeof(measured));
	for (uint32_t i = 0; i < RANKS; i++) {
		rank[i] = (struct frame_rank){.here = true, .step_ns = STEP_NS};
		rank[i].host = frame_host_unknown();
		who[i] = (struct frame_who){.rank = (int32_t)i, .node = i / 2};
		snprintf(who[i].host, sizeof(who[i].host), "node-%u", i / 2);
	}
	for (unsigned i = 0; i < PAIRS; i++)
		times[i] = 1;
	frame = (struct frame){.tier = tier,
		.class = FRAME_TRAIN,
		.ranks = RANKS,
		.who = who,
		.rank = rank,
		.comms = 1,
		.comm = &comm,
		.group = group,
		.op = op};
	measures = (struct measures){.ranks = RANKS, .rank = measured, .group = transfer, .step_ns = STEP_NS};
	detector = slow_communication_detector.new(&options);
	assert_non_null(detector);
}

static void add_op(uint32_t g, uint32_t r, int64_t start_ns, uint64_t duration_ns)
{
	op[frame.ops++] = (struct frame_op){.group = g, .rank = r, .start_ns = start_ns, .duration_ns = duration_ns};
}

static void add_group(uint32_t g, uint32_t last, uint32_t before, uint32_t members)
{
	uint64_t took_ns = (uint64_t)((double)TRANSFER_NS * times[g]);
	int64_t start_ns = g / (PAIRS / ROUNDS) * (int64_t)(STEP_NS / ROUNDS);

	group[g] = (struct frame_group){.members = members, .bytes = 1 << 20, .p2p = members == 2};
	transfer[g] = (struct measure_group){.transfer_ns = took_ns, .last = last, .before = before};
	for (uint32_t r = 0; r < RANKS; r++) {
		if (members < RANKS && r != last && r != before)
			continue;
		add_op(g, r, start_ns, took_ns);
		if (gap_ns != INT64_MAX)
			add_op(g, r, start_ns + (int64_t)took_ns + gap_ns, 1);
	}
}

static void run(unsigned frames)
{
	const struct detector_out out = {.emit = on_verdict};

	for (unsigned i = 0; i < frames; i++) {
		frame.step++;
		frame.ops = 0;
		measures.groups = frame.groups = n_pairs ? n_pairs : 1;
		for (uint32_t r = 0; r < RANKS; r++) {
			rank[r].step_ns = step_ns;
			rank[r].end_ns = (frame.step + 1) * step_ns;
		}
		for (uint32_t g = 0; g < n_pairs; g++)
			add_group(g, 2 * ends[g][0], 2 * ends[g][1], 2);
		if (!n_pairs)
			add_group(0, RANKS - 1, 0, RANKS);
		slow_communication_detector.frame(detector, &frame, &measures, &out);
	}
}

static unsigned end(void)
{
	detector = slow_communication_detector.free(detector);
	return found;
}

/* All pairs of a node, or those with the other nodes of a set (bits) alone. */
static void slow_pairs(uint32_t node, unsigned others, double by)
{
	for (unsigned i = 0; i < PAIRS; i++)
		for (unsigned e = 0; e < 2; e++)
			if (ends[i][e] == node && others >> ends[i][!e] & 1)
				times[i] = by;
}

/* Of pairs that were learned and take longer then. */
static enum finding_cause cause_of(uint32_t node, unsigned others, double by)
{
	begin(FRAME_TIER_DEVICE, PAIRS);
	run(30);
	assert_int_equal(found, 0);
	slow_pairs(node, others, by);
	run(20);
	return end() ? newest.finding.cause : CAUSE_MAX;
}

TEST(one_pair_of_nodes_is_a_link)
{
	const struct finding_evidence *evidence = &newest.finding.evidence[0];

	assert_int_equal(cause_of(0, 1 << 1, 1.3), CAUSE_LINK);
	assert_string_equal(newest.finding.others, "0-3");
	assert_int_equal(newest.finding.since_step, 31);
	assert_string_equal(evidence->name, "transfer");
	assert_true(fabs(evidence->value - 1.3 * TRANSFER_NS) < 1e5 && fabs(evidence->peers - TRANSFER_NS) < 1e5);
	/* The two ranks that wait for it lose it; the others lose nothing, and do not count. */
	assert_true(fabs(newest.lost_ns - 0.3 * TRANSFER_NS) < 1e5);
}

TEST(all_pairs_of_a_node_are_the_node)
{
	assert_int_equal(cause_of(2, ~0U, 1.3), CAUSE_NODE);
	assert_string_equal(newest.finding.host, "node-2");
	assert_string_equal(newest.finding.others, "4,5");
}

/* Three of five, or all of two nodes: of the communicator. */
TEST(what_is_neither_is_the_communicator)
{
	assert_int_equal(cause_of(2, 1 << 0 | 1 << 1 | 1 << 3, 1.3), CAUSE_COMMUNICATION);
	assert_string_equal(newest.finding.communicator, "pipe");
	begin(FRAME_TIER_DEVICE, PAIRS);
	run(30);
	slow_pairs(2, 1 << 0 | 1 << 1 | 1 << 4, 1.3);
	slow_pairs(5, 1 << 0 | 1 << 1 | 1 << 3, 1.3);
	run(20);
	assert_int_equal(end() ? newest.finding.cause : CAUSE_MAX, CAUSE_COMMUNICATION);
}

/* 10 % beyond the peers and what was before, and beyond noise. */
TEST(by_a_tenth_is_slow)
{
	assert_int_equal(cause_of(0, 1 << 1, 1.09), CAUSE_MAX);
	assert_int_equal(cause_of(0, 1 << 1, 1.16), CAUSE_LINK);
}

/* Series whose peers grew alike are not slow; of less than three others the past alone is known. */
TEST(peers_that_grew_alike_are_no_slow_link)
{
	for (unsigned pairs = 3; pairs < 5; pairs++) {
		begin(FRAME_TIER_DEVICE, pairs);
		run(30);
		for (unsigned i = 0; i < PAIRS; i++)
			times[i] = 1.3;
		run(20);
		assert_true(!end() == (pairs == 4));
	}
}

/* It was slow beside its peers while it was learned. */
TEST(a_link_may_be_slow_from_the_start)
{
	begin(FRAME_TIER_DEVICE, PAIRS);
	slow_pairs(0, 1 << 1, 1.3);
	run(60);
	assert_true(end() > 50);
	assert_int_equal(newest.finding.cause, CAUSE_LINK);
}

/* Five of eight frames; a frame or two are none. */
TEST(a_few_frames_are_not_slow)
{
	begin(FRAME_TIER_DEVICE, PAIRS);
	run(30);
	for (int i = 0; i < 20; i++) {
		slow_pairs(0, 1 << 1, i % 2 ? 1.3 : 1);
		run(1);
	}
	assert_int_equal(end(), 0);
}

/* A collective of all: its past is the median of its first 16 frames. */
TEST(the_past_is_the_median_of_the_first_frames)
{
	/* Frames that are slow at first, and all after so many frames: whether that is seen. */
	static const struct {
		unsigned slow_first, normal;
		bool seen;
	} past[] = {{0, 10, true}, {0, 5, false}, {5, 20, true}, {10, 20, false}};

	for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
		begin(FRAME_TIER_DEVICE, 0);
		times[0] = 1.3;
		run(past[i].slow_first);
		times[0] = 1;
		run(past[i].normal);
		times[0] = 1.3;
		run(30);
		assert_true((end() > 0) == past[i].seen);
		if (past[i].seen)
			assert_int_equal(newest.finding.cause, CAUSE_COMMUNICATION);
	}
}

/* What was not slow is the past of what comes, by and by. */
TEST(the_past_follows_slowly)
{
	for (unsigned frames = 10; frames <= 200; frames += 190) {
		begin(FRAME_TIER_DEVICE, 0);
		run(30);
		times[0] = 1.09;
		run(frames);
		assert_int_equal(found, 0);
		times[0] = 1.18;
		run(20);
		assert_true((end() > 0) == (frames == 10));
	}
}

/* On the host a frame each 600 ms is learned: three slow seconds at the start are not the past. */
TEST(on_the_host_the_past_is_of_ten_seconds)
{
	begin(FRAME_TIER_HOST, 0);
	step_ns = 200 * MS;
	times[0] = 1.3;
	run(15);
	times[0] = 1;
	run(60);
	times[0] = 1.3;
	run(30);
	assert_true(end() > 0);
}

/* On the host, load comes and goes within seconds: a burst of eight frames is no slow link, one of ten is. */
TEST(on_the_host_it_must_last)
{
	for (unsigned lasts = 9; lasts < 11; lasts++) {
		begin(FRAME_TIER_HOST, PAIRS);
		run(40);
		slow_pairs(0, 1 << 1, 1.3);
		run(lasts);
		slow_pairs(0, 1 << 1, 1);
		run(20);
		assert_true((end() > 0) == (lasts == 10));
	}
	/* Nine of each twelve are none. */
	begin(FRAME_TIER_HOST, PAIRS);
	run(40);
	for (int i = 0; i < 60; i++) {
		slow_pairs(0, 1 << 1, i % 4 ? 1.3 : 1);
		run(1);
	}
	assert_int_equal(end(), 0);
}

/* What another operation of the rank overlaps costs nothing, but for the 2 us by which clocks differ. */
TEST(what_hides_behind_other_work_costs_nothing)
{
	static const int64_t gaps_ns[] = {1000, -1000, -3000};

	for (size_t i = 0; i < 3; i++) {
		begin(FRAME_TIER_DEVICE, PAIRS);
		gap_ns = gaps_ns[i];
		run(30);
		slow_pairs(0, 1 << 1, 1.3);
		run(20);
		assert_true((end() > 0) == (i < 2));
	}
}

/* Less than 1.5 % of the step is not reported. */
TEST(what_costs_little_is_not_reported)
{
	begin(FRAME_TIER_DEVICE, PAIRS);
	run(30);
	slow_pairs(0, 1 << 1, 1.14);
	run(20);
	assert_int_equal(end(), 0);
}

/* A rank that is slow itself comes last and holds up its transfers: no link. */
TEST(a_slow_rank_is_no_slow_link)
{
	begin(FRAME_TIER_DEVICE, PAIRS);
	run(30);
	slow_pairs(0, ~0U, 1.3);
	measured[0] = (struct measure_rank){.ratio = 1.5, .z = 20};
	run(20);
	assert_int_equal(end(), 0);
}

TEST_MAIN(NULL, NULL)
