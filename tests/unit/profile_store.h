/* SPDX-License-Identifier: Apache-2.0 */
/* The job of profile_script.h in a store. */
#ifndef RANKTRACE_TESTS_PROFILE_STORE_H
#define RANKTRACE_TESTS_PROFILE_STORE_H

#include "tests/unit/profile_script.h"

#include "daemon/store/store.h"

#define SLOW 1

static inline void put_sample(struct script *s, const char *frames, const struct profile_sample *sample)
{
	store_put_call_stacks(
		s->arg, &(struct row_call_stacks){
				.id = field_int(sample->stack), .frames = field_text(frames), .cut = field_int(0)});
	store_put_samples(
		s->arg, &(struct row_samples){
				.start_ns = field_time((uint64_t)sample->start_ns),
				.rank = field_int(sample->rank),
				.profile = field_int(s->number),
				.thread_id = field_int(sample->thread_id),
				.thread_name = field_text(sample->thread_name),
				.main = field_int(sample->main),
				.kind = field_text(sample->off_cpu ? "off_cpu" : "on_cpu"),
				.duration_ns = field_duration_if(sample->off_cpu, (uint64_t)sample->duration_ns),
				.weight_ns = field_duration((uint64_t)sample->weight_ns),
				.stack = field_int(sample->stack),
				.instance = field_int(1000 + sample->rank),
			});
}

static inline void put_script_stage(
	struct script *s, int rank, const char *stage, int64_t start_ns, int64_t duration_ns)
{
	store_put_stages(s->arg, &(struct row_stages){.rank = field_int(rank),
					 .stage = field_text(stage),
					 .name = field_text("n"),
					 .start_ns = field_time((uint64_t)start_ns),
					 .duration_ns = field_duration((uint64_t)duration_ns),
					 .thread_id = field_int(100 + rank),
					 .depth = field_int(0),
					 .instance = field_int(1000 + rank)});
}

static inline void put_script_step(struct script *s, int rank, unsigned step, int64_t start_ns, int64_t duration_ns)
{
	store_put_steps(s->arg, &(struct row_steps){.rank = field_int(rank),
					.step = field_int(step + 1),
					.start_ns = field_time((uint64_t)start_ns),
					.duration_ns = field_duration((uint64_t)duration_ns),
					.kind = field_text("train"),
					.instance = field_int(1000 + rank)});
}

static const struct script_sink into_store = {put_sample, put_script_stage, put_script_step};

static const struct script_piece burn =
	ON("forward", 30, MAIN_AT(54) "python forward (/job/gpt.py:40)\npython burn (/job/<gpt>&\"x\".py:54)");

/* The rows of its ranks. */
static inline void put_profile_rows(struct store *store, int64_t number, int64_t start_ns)
{
	for (int rank = 0; rank < SCRIPT_RANKS; rank++) {
		store_put_ranks(store, &(struct row_ranks){.rank = field_int(rank),
					       .job = field_text("job"),
					       .host = field_text("node1"),
					       .first_seen_ns = field_time(1000),
					       .ended = field_int(0),
					       .instance = field_int(1000 + rank)});
		store_put_profiles(store, &(struct row_profiles){
						  .profile = field_int(number),
						  .start_ns = field_time((uint64_t)start_ns),
						  .duration_ns = field_duration(UINT64_C(12000) * MS),
						  .rank = field_int(rank),
						  .reason = field_text("asked"),
						  .read_share = field_real_if(rank == 2, 0.125),
						  .frequency_hz = field_int(49),
						  .samples = field_int(600),
						  .refused = field_int(rank == 2 ? 3 : 0),
						  .lost = field_int(0),
						  .instance = field_int(1000 + rank),
					  });
	}
}

/* Profile `number`, from start_ns on; of the slow rank with the fault, if any. */
static inline void put_profile(struct store *store, int64_t number, int64_t start_ns, const struct script_piece *fault)
{
	struct script s = {.draw = 7,
		.number = number,
		.steps = 50,
		.hz = 49,
		.jitter = 0.1,
		.slow = SLOW,
		.sink = &into_store,
		.arg = store,
		.start_ns = start_ns};

	if (fault)
		s.fault[s.faults++] = *fault;
	script_make(&s);
	put_profile_rows(store, number, start_ns);
}

#endif
