/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of unequal length, overloaded stages, and what is neither: frames with what was measured of them, made up. */
#include <string.h>

#include "analyzers/detect/detector.h"

#include "tests/test.h"

#define RANKS 8
#define FRAMES 60
#define MS 1000000ULL

extern const struct detector imbalance_detector;

static uint64_t noise = 1;

static double uniform(void)
{
	noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(noise >> 11) / 9007199254740992.0;
}

/* One class, or two of four: ranks 0 to 3 and 4 to 7. */
static struct frame_rank rank[RANKS];
static struct measure_rank measured[RANKS];
static struct frame_who who[RANKS];
static struct frame frame;
static uint32_t member[RANKS], class_start[RANKS], class_ranks[RANKS];
static struct measures measures;
static void *detector;
static unsigned found[CAUSE_MAX];
static struct verdict newest;

static void on_verdict(void *arg, const struct verdict *verdict)
{
	assert_true(verdict->lost_ns > 0);
	assert_int_equal(verdict->finding.kind, FINDING_IMBALANCE);
	assert_int_equal(verdict->finding.rank, -1);
	found[verdict->finding.cause]++;
	newest = *verdict;
}

static void begin(enum frame_tier tier, uint32_t classes)
{
	const struct detect_options options = {.gain_min = 0.03};

	memset(found, 0, sizeof(found));
	memset(measured, 0, sizeof(measured));
	for (uint32_t i = 0; i < RANKS; i++) {
		rank[i] = (struct frame_rank){.here = true};
		rank[i].host = frame_host_unknown();
		who[i].rank = (int32_t)i;
		measured[i].class = i * classes / RANKS;
		member[i] = i;
		class_start[i] = i * RANKS / classes % RANKS;
		class_ranks[i] = RANKS / classes;
		measured[i].last_ns = 50 * MS; /* others wait for it */
	}
	frame = (struct frame){.tier = tier, .class = FRAME_TRAIN, .ranks = RANKS, .who = who, .rank = rank};
	measures = (struct measures){.ranks = RANKS,
		.classes = classes,
		.rank = measured,
		.member = member,
		.class_start = class_start,
		.class_ranks = class_ranks,
		.step_ns = 100 * MS};
	detector = imbalance_detector.new(&options);
	assert_non_null(detector);
}

static void next(void)
{
	const struct detector_out out = {.emit = on_verdict};

	frame.step++;
	for (size_t i = 0; i < RANKS; i++) {
		rank[i].step_ns = measures.step_ns;
		rank[i].end_ns = frame.step * 100 * MS + measures.step_ns;
	}
	imbalance_detector.frame(detector, &frame, &measures, &out);
}

static void finish(void)
{
	detector = imbalance_detector.free(detector);
}

/* Forward and backward of a rank, `length` times as long as usual, and noise of its own in each. */
static void work(uint32_t of, double length, double jitter)
{
	double forward = 30 * length * (1 + jitter * uniform()), backward = 60 * length * (1 + jitter * uniform());

	rank[of].activity_ns[ACTIVITY_FORWARD] = (uint64_t)(forward * (double)MS);
	measured[of].self_ns = (uint64_t)((forward + backward) * (double)MS);
}

/* In each step each rank's samples are up to a third longer than usual. */
static unsigned lengths(enum frame_tier tier, uint32_t classes, uint64_t last_ns)
{
	begin(tier, classes);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			work(i, 1 + 0.3 * uniform(), 0.02);
			measured[i].last_ns = last_ns;
		}
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_STAGE], 0);
	return found[CAUSE_SEQUENCE];
}

TEST(ranks_that_are_long_by_turns_are_found)
{
	assert_true(lengths(FRAME_TIER_DEVICE, 1, 50 * MS) > FRAMES / 3);
	assert_true(newest.finding.since_step <= 2);
	assert_true(lengths(FRAME_TIER_HOST, 1, 50 * MS) > FRAMES / 3);
	/* No rank waits for them. */
	assert_int_equal(lengths(FRAME_TIER_DEVICE, 1, 0), 0);
}

TEST(a_rank_that_is_always_long_is_not)
{
	begin(FRAME_TIER_DEVICE, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++)
			work(i, i == 2 ? 1.3 : 1, 0.02);
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE], 0);
}

/* A wait that was not recorded is taken for work. */
TEST(one_rank_that_is_odd_at_times_is_not)
{
	begin(FRAME_TIER_DEVICE, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		uint32_t odd = (uint32_t)(uniform() * RANKS);

		for (uint32_t i = 0; i < RANKS; i++)
			work(i, i == odd ? 1.5 : 1, 0.02);
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE], 0);
}

TEST(loading_that_takes_long_by_turns_is_not)
{
	begin(FRAME_TIER_HOST, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			uint64_t load_ns = (uint64_t)(uniform() * 30 * (double)MS);

			work(i, 1, 0.02);
			rank[i].activity_ns[ACTIVITY_DATALOADER] = load_ns;
			measured[i].self_ns += load_ns;
		}
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE], 0);
}

/* Samples of unequal length; half of the ranks always have `lasting` ms more or less of it, and all load for up to
 * `loading` ms. */
static unsigned lengths_beside(double lasting, double loading)
{
	begin(FRAME_TIER_DEVICE, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			uint64_t load_ns = (uint64_t)(loading * uniform() * (double)MS);

			work(i, 1 + 0.3 * uniform() + (i % 2 ? lasting : -lasting) / 90, 0.02);
			rank[i].activity_ns[ACTIVITY_DATALOADER] = load_ns;
			measured[i].self_ns += load_ns;
		}
		next();
	}
	finish();
	return found[CAUSE_SEQUENCE];
}

TEST(what_lasts_or_is_loading_may_be_a_part)
{
	assert_true(lengths_beside(2, 0) > FRAMES / 4);
	assert_int_equal(lengths_beside(6, 0), 0);
	assert_true(lengths_beside(0, 6) > FRAMES / 4);
	assert_int_equal(lengths_beside(0, 18), 0);
}

static unsigned pieces(double shared, double alone, bool delayed)
{
	begin(FRAME_TIER_HOST, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			double length = shared * uniform();

			work(i, 1 + length, alone);
			if (delayed)
				rank[i].host.run_delay_ns = (uint64_t)(length * 90 * (double)MS);
		}
		next();
	}
	finish();
	return found[CAUSE_SEQUENCE];
}

TEST(on_the_host_forward_and_the_rest_are_long_together)
{
	assert_true(pieces(0.3, 0.02, false) > FRAMES / 3);
	assert_int_equal(pieces(0, 0.5, false), 0);
	/* They had no CPU: that is what made them long. */
	assert_int_equal(pieces(0.3, 0.02, true), 0);
}

/* The step is `times` as much longer as the longest forward is. */
static unsigned stages(double times)
{
	begin(FRAME_TIER_STAGES, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		double most = 0;

		for (uint32_t i = 0; i < RANKS; i++) {
			double tail = uniform(), length = 1 + 0.5 * tail * tail * tail;

			work(i, length, 0);
			most = length > most ? length : most;
		}
		measures.step_ns = (uint64_t)((70 + 30 * times * most) * (double)MS);
		next();
	}
	finish();
	return found[CAUSE_SEQUENCE];
}

TEST(with_stages_only_the_step_shows_a_long_backward)
{
	assert_true(stages(3) > FRAMES / 4);
	assert_int_equal(stages(1), 0);
}

TEST(another_tier_begins_anew)
{
	begin(FRAME_TIER_DEVICE, 1);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++)
			work(i, 1 + 0.3 * uniform(), 0);
		frame.tier = n % 10 < 5 ? FRAME_TIER_DEVICE : FRAME_TIER_HOST;
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE], 0);
}

/* The second stage has `more` work; others wait so long for it. */
static unsigned stage(double more, uint64_t last_ns)
{
	begin(FRAME_TIER_DEVICE, 2);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			work(i, i < RANKS / 2 ? 1 : 1 + more, 0.02);
			measured[i].last_ns = last_ns;
		}
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE], 0);
	return found[CAUSE_STAGE];
}

TEST(a_stage_with_more_work_is_found)
{
	assert_true(stage(0.2, 50 * MS) > FRAMES / 2);
	assert_string_equal(newest.finding.others, "4-7");
	assert_int_equal(newest.finding.since_step, 1);
	assert_true(newest.lost_ns > 15.0 * MS && newest.lost_ns < 21.0 * MS);
	assert_int_equal(stage(0.02, 50 * MS), 0);
	/* Its time is hidden: no rank waits for it. */
	assert_int_equal(stage(0.2, 0), 0);
}

TEST(hostile_frames_do_no_harm)
{
	begin(FRAME_TIER_HOST, 2);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			rank[i].activity_ns[ACTIVITY_FORWARD] = n % 2 ? UINT64_MAX : 0;
			rank[i].activity_ns[ACTIVITY_DATALOADER] = n % 3 ? UINT64_MAX : 0;
			measured[i].self_ns = i % 2 ? UINT64_MAX : 0;
			class_ranks[i] = n % 7 == 6 ? 0 : RANKS / 2;
		}
		next();
	}
	finish();
	assert_int_equal(found[CAUSE_SEQUENCE] + found[CAUSE_STAGE], 0);
}

TEST_MAIN(NULL, NULL)
