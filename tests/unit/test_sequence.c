/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of unequal length, and what is not: frames with what was measured of them, made up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "analyzers/detect/sequence.h"

#define RANKS 8
#define FRAMES 40
#define GAIN_MIN 0.03
#define MS 1000000ULL

static uint64_t noise = 1;

static double uniform(void)
{
	noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(noise >> 11) / 9007199254740992.0;
}

/* Ranks 2k and 2k + 1 send each other: of two stages, k is a replica. */
struct script {
	struct frame_rank rank[RANKS];
	struct measure_rank measured[RANKS];
	struct frame_who who[RANKS];
	struct frame_op op[RANKS];
	struct frame_group group[RANKS / 2];
	struct frame_comm comm;
	struct frame frame;
	struct measures measures;
	uint32_t member[RANKS], start[3];
	double value[RANKS];
	struct sequence_classes classes;
	struct sequence sequence;
	unsigned found;
};

static void script_begin(struct script *script, enum frame_tier tier, bool pipeline)
{
	memset(script, 0, sizeof(*script));
	for (uint32_t i = 0; i < RANKS; i++) {
		/* Class by class. */
		script->member[i] = pipeline ? i % 4 * 2 + i / 4 : i;
		script->op[i] = (struct frame_op){.group = i / 2, .rank = i, .duration_ns = MS};
		script->group[i / 2] = (struct frame_group){.members = 2, .p2p = true};
		script->rank[i].here = true;
		script->rank[i].host = (struct frame_host){
			FRAME_UNKNOWN, FRAME_UNKNOWN, FRAME_UNKNOWN, FRAME_UNKNOWN, FRAME_UNKNOWN, 0, 0, ""};
	}
	script->start[1] = pipeline ? RANKS / 2 : RANKS;
	script->start[2] = RANKS;
	script->classes = (struct sequence_classes){pipeline ? 2 : 1, script->member, script->start, script->value};
	script->frame = (struct frame){.tier = tier,
		.ranks = RANKS,
		.who = script->who,
		.rank = script->rank,
		.comms = 1,
		.comm = &script->comm,
		.groups = pipeline ? RANKS / 2 : 0,
		.group = script->group,
		.ops = pipeline ? RANKS : 0,
		.op = script->op};
	script->measures = (struct measures){.ranks = RANKS, .rank = script->measured, .step_ns = 100 * MS};
}

static void script_frame(struct script *script)
{
	script->frame.step++;
	for (size_t i = 0; i < RANKS; i++) {
		script->rank[i].step_ns = script->measures.step_ns;
		script->rank[i].end_ns = script->frame.step * 100 * MS + script->measures.step_ns;
	}
	script->found +=
		sequence_frame(&script->sequence, &script->classes, &script->frame, &script->measures, GAIN_MIN);
}

static unsigned script_end(struct script *script)
{
	sequence_free(&script->sequence);
	return script->found;
}

/* Forward and backward of a rank, `length` times as long as usual, and noise of its own in each. */
static void work(struct script *script, uint32_t rank, double length, double jitter)
{
	double forward = 30 * length * (1 + jitter * uniform()), backward = 60 * length * (1 + jitter * uniform());

	script->rank[rank].stage_ns[STAGE_FORWARD] = (uint64_t)(forward * (double)MS);
	script->measured[rank].self_ns = (uint64_t)((forward + backward) * (double)MS);
}

static void replicas_that_are_long_by_turns_are_found(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_DEVICE, true);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i += 2) {
			double length = 1 + 0.3 * uniform();

			work(&script, i, length, 0.02);
			work(&script, i + 1, length, 0.02);
		}
		script_frame(&script);
	}
	assert_true(script.sequence.replicas.count == RANKS / 2);
	assert_true(script.sequence.since_step <= 2);
	assert_true(script_end(&script) > FRAMES / 3);
}

static void ranks_that_are_long_alone_are_not(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_DEVICE, true);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++)
			work(&script, i, 1 + 0.3 * uniform(), 0.02);
		script_frame(&script);
	}
	assert_int_equal(script_end(&script), 0);
}

static void a_replica_that_is_always_long_is_not(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_DEVICE, true);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++)
			work(&script, i, i / 2 == 2 ? 1.3 : 1, 0.02);
		script_frame(&script);
	}
	assert_int_equal(script_end(&script), 0);
}

static void loading_that_takes_long_by_turns_is_not(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_HOST, false);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			uint64_t load_ns = (uint64_t)(uniform() * 30 * (double)MS);

			work(&script, i, 1, 0.02);
			script.rank[i].stage_ns[STAGE_DATALOADER] = load_ns;
			script.measured[i].self_ns += load_ns;
		}
		script_frame(&script);
	}
	assert_int_equal(script_end(&script), 0);
}

static unsigned pieces(double shared, double alone, bool delayed)
{
	static struct script script;

	script_begin(&script, FRAME_TIER_HOST, false);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			double length = shared * uniform();

			work(&script, i, 1 + length, alone);
			if (delayed)
				script.rank[i].host.run_delay_ns = (uint64_t)(length * 90 * (double)MS);
		}
		script_frame(&script);
	}
	return script_end(&script);
}

static void on_the_host_forward_and_the_rest_are_long_together(void **state)
{
	(void)state;
	assert_true(pieces(0.3, 0.02, false) > FRAMES / 3);
	assert_int_equal(pieces(0, 0.5, false), 0);
	/* They had no CPU: that is what made them long. */
	assert_int_equal(pieces(0.3, 0.02, true), 0);
}

/* The step is `times` as much longer as the longest forward is; ranks come in groups of `equal` that wait in it. */
static unsigned stages(double times, uint32_t equal)
{
	static struct script script;

	script_begin(&script, FRAME_TIER_STAGES, false);
	for (unsigned n = 0; n < FRAMES; n++) {
		double most = 0, length = 0;

		for (uint32_t i = 0; i < RANKS; i++) {
			length = i % equal ? length : 1 + 0.3 * uniform();
			work(&script, i, length, 0);
			most = length > most ? length : most;
		}
		script.measures.step_ns = (uint64_t)((70 + 30 * times * most) * (double)MS);
		script_frame(&script);
	}
	return script_end(&script);
}

static void with_stages_only_the_step_shows_a_long_backward(void **state)
{
	(void)state;
	assert_true(stages(3, 1) > FRAMES / 3);
	assert_int_equal(stages(1, 1), 0);
	assert_int_equal(stages(3, 2), 0);
}

static void another_tier_begins_anew(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_DEVICE, false);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++)
			work(&script, i, 1 + 0.3 * uniform(), 0);
		script.frame.tier = n % 10 < 5 ? FRAME_TIER_DEVICE : FRAME_TIER_HOST;
		script_frame(&script);
	}
	assert_int_equal(script_end(&script), 0);
}

static void hostile_frames_do_no_harm(void **state)
{
	static struct script script;

	(void)state;
	script_begin(&script, FRAME_TIER_HOST, true);
	for (unsigned n = 0; n < FRAMES; n++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			script.rank[i].stage_ns[STAGE_FORWARD] = n % 2 ? UINT64_MAX : 0;
			script.rank[i].stage_ns[STAGE_DATALOADER] = n % 3 ? UINT64_MAX : 0;
			script.measured[i].self_ns = i % 2 ? UINT64_MAX : 0;
			script.op[i].group = n % 5 ? UINT32_MAX : i;
			script.op[i].rank = n % 7 ? UINT32_MAX : i;
		}
		script_frame(&script);
	}
	assert_int_equal(script_end(&script), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_that_are_long_by_turns_are_found),
		cmocka_unit_test(ranks_that_are_long_alone_are_not),
		cmocka_unit_test(a_replica_that_is_always_long_is_not),
		cmocka_unit_test(loading_that_takes_long_by_turns_is_not),
		cmocka_unit_test(on_the_host_forward_and_the_rest_are_long_together),
		cmocka_unit_test(with_stages_only_the_step_shows_a_long_backward),
		cmocka_unit_test(another_tier_begins_anew),
		cmocka_unit_test(hostile_frames_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
