/* SPDX-License-Identifier: Apache-2.0 */
/* Families of ranks, and what is observed for them. */
#include "daemon/guard/guard.h"
#include "daemon/kernel/kernel.h"
#include "daemon/metrics/metrics_internal.h"

struct metrics_rank *metrics_rank_of(struct metrics *metrics, uint32_t slot, int64_t instance)
{
	struct metrics_rank *rank;

	if (slot >= metrics->slots || !instance)
		return NULL;
	rank = metrics->slot[slot];
	if (rank && rank->instance == instance)
		return rank;
	if (!rank)
		rank = metrics->slot[slot] = malloc(sizeof(*rank));
	if (!rank)
		return NULL;
	*rank = (struct metrics_rank){.instance = instance,
		.sum = {.cpu_ns = UINT64_MAX,
			.run_delay_ns = UINT64_MAX,
			.throttled_ns = UINT64_MAX,
			.major_faults = UINT64_MAX}};
	metrics_minute_init(&rank->minute);
	return rank;
}

void metrics_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct metrics *metrics = arg;

	if (rank->slot >= metrics->slots || !metrics->slot[rank->slot] ||
		metrics->slot[rank->slot]->instance != rank->instance ||
		(change != RANK_ENDED && rank->role == RANK_ROLE_RANK))
		return;
	free(metrics->slot[rank->slot]);
	metrics->slot[rank->slot] = NULL;
}

/* The state of a rank that lives: the last events of one that ended come after its state is gone. */
static struct metrics_rank *metrics_live(struct metrics *metrics, uint32_t slot, int64_t instance)
{
	const struct rank *rank = ranks_by_slot(metrics->context->ranks, slot);

	return rank && rank->instance == instance ? metrics_rank_of(metrics, slot, instance) : NULL;
}

static void metrics_on_step(void *arg, uint32_t slot, int64_t instance, const struct steps_step *step)
{
	struct metrics *metrics = arg;
	struct metrics_rank *rank = metrics_live(metrics, slot, instance);

	if (rank)
		metrics_histogram_add(&rank->steps, step->step, step->duration_ns,
			store_utc_ns(metrics->context->store, step->start_ns + step->duration_ns));
}

const struct rank_steps_observer metrics_steps_observer = {.step = metrics_on_step};

static void metrics_on_frame(void *arg, uint32_t slot, int64_t instance, enum frame_tier tier,
	const struct frame_rank *of, const struct measure_rank *measure)
{
	struct metrics_rank *rank = metrics_live(arg, slot, instance);

	if (!rank)
		return;
	rank->has_activities = true;
	for (enum activity activity = 0; activity < ACTIVITY_MAX; activity++)
		rank->activity_ns[activity] += of->activity_ns[activity];
	if (measure->wait_ns == FRAME_UNKNOWN)
		return;
	rank->own_ns[tier] += measure->self_ns;
	rank->wait_ns[tier] += measure->wait_ns;
}

/* Known from the first known part on: a count that pauses is not one that began anew. */
static void metrics_sum(uint64_t *sum, uint64_t part)
{
	if (part != UINT64_MAX)
		*sum = *sum == UINT64_MAX ? part : *sum + part;
}

static void metrics_on_sample(void *arg, uint32_t slot, int64_t instance, const struct online_sample_info *sample)
{
	struct metrics_rank *rank = metrics_live(arg, slot, instance);

	if (!rank)
		return;
	rank->sampled = true;
	metrics_sum(&rank->sum.cpu_ns, sample->cpu_ns);
	metrics_sum(&rank->sum.run_delay_ns, sample->run_delay_ns);
	metrics_sum(&rank->sum.throttled_ns, sample->throttled_ns);
	metrics_sum(&rank->sum.major_faults, sample->major_faults);
	rank->sum.resident_bytes = sample->resident_bytes;
	rank->sum.swapped_bytes = sample->swapped_bytes;
}

const struct online_observer metrics_online_observer = {
	.finding = metrics_on_finding, .frame = metrics_on_frame, .sample = metrics_on_sample};

void metrics_of_rank(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (size_t i = 0; i < gather->ranks; i++) {
		const struct rank *rank = gather->rank[i].rank;
		struct metrics_labels labels = gather->rank[i].labels;

		if (rank->env.local_rank >= 0)
			metrics_labels_add_number(&labels, "local_rank", rank->env.local_rank);
		if (rank->env.world_size > 0)
			metrics_labels_add_number(&labels, "world_size", rank->env.world_size);
		metrics_labels_add(&labels, "node", gather->context->host);
		metrics_labels_add(&labels, "card", rank->env.card);
		metrics_labels_add(&labels, "pod", rank->env.pod);
		metrics_labels_add(&labels, "pod_uid", rank->pod_uid);
		metrics_labels_add(&labels, "container", rank->container);
		metrics_labels_add_number(&labels, "uid", rank->uid);
		metrics_page_count(page, &labels, 1);
	}
}

/* A family of one sample a rank: `has` says whether it has one; both are expressions of `it`, struct metrics_shown. */
#define METRICS_OF_RANKS(word, write, has, value) \
	void metrics_of_##word(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		for (size_t i = 0; i < gather->ranks; i++) { \
			const struct metrics_shown *it = &gather->rank[i]; \
\
			if (has) \
				write(page, &it->labels, value); \
		} \
	}

METRICS_OF_RANKS(rank_steps, metrics_page_count, true, it->state->steps.count)
METRICS_OF_RANKS(rank_step_seconds, metrics_page_histogram, it->state->steps.count, &it->state->steps)
METRICS_OF_RANKS(rank_since_step_seconds, metrics_page_seconds, it->has_progress && it->progress.step_end_ns,
	gather->now_ns > it->progress.step_end_ns ? gather->now_ns - it->progress.step_end_ns : 0)
METRICS_OF_RANKS(rank_cpu_seconds, metrics_page_seconds, it->state->sum.cpu_ns != UINT64_MAX, it->state->sum.cpu_ns)
METRICS_OF_RANKS(rank_run_delay_seconds, metrics_page_seconds, it->state->sum.run_delay_ns != UINT64_MAX,
	it->state->sum.run_delay_ns)
METRICS_OF_RANKS(rank_throttled_seconds, metrics_page_seconds, it->state->sum.throttled_ns != UINT64_MAX,
	it->state->sum.throttled_ns)
METRICS_OF_RANKS(
	rank_major_faults, metrics_page_count, it->state->sum.major_faults != UINT64_MAX, it->state->sum.major_faults)
METRICS_OF_RANKS(rank_resident_bytes, metrics_page_count,
	it->state->sampled && it->state->sum.resident_bytes != UINT64_MAX, it->state->sum.resident_bytes)
METRICS_OF_RANKS(rank_swapped_bytes, metrics_page_count,
	it->state->sampled && it->state->sum.swapped_bytes != UINT64_MAX, it->state->sum.swapped_bytes)
METRICS_OF_RANKS(rank_limited_records, metrics_page_count, gather->context->kernel,
	kernel_limited(gather->context->kernel, it->rank->slot))
METRICS_OF_RANKS(rank_since_collective_seconds, metrics_page_seconds,
	it->state->op_end_ns && gather->context->levels.on[LEVEL_L1],
	gather->now_ns > it->state->op_end_ns ? gather->now_ns - it->state->op_end_ns : 0)

void metrics_of_rank_activity_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (size_t i = 0; i < gather->ranks; i++) {
		const struct metrics_shown *it = &gather->rank[i];

		for (enum activity activity = 0; it->state->has_activities && activity < ACTIVITY_COMPUTE; activity++) {
			struct metrics_labels labels = it->labels;

			metrics_labels_add(&labels, "activity", activity_word(activity));
			metrics_page_seconds(page, &labels, it->state->activity_ns[activity]);
		}
	}
}

void metrics_of_rank_probes_ratio(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (size_t i = 0; gather->context->guard && i < gather->ranks; i++) {
		const struct metrics_shown *it = &gather->rank[i];

		for (enum level level = 0; level < LEVEL_MAX; level++) {
			struct metrics_labels labels = it->labels;
			struct guard_share share;

			guard_rank_paid(gather->context->guard, it->rank, level, &share);
			if (!share.known || share.hits_per_s <= 0)
				continue;
			metrics_labels_add(&labels, "level", level_name(level));
			metrics_page_real(page, &labels, share.share);
		}
	}
}

static void metrics_write_tiers(const struct metrics_gather *gather, struct metrics_page *page, size_t offset)
{
	for (size_t i = 0; i < gather->ranks; i++) {
		const struct metrics_shown *it = &gather->rank[i];
		const uint64_t *value_ns = (const uint64_t *)(const void *)((const char *)it->state + offset);

		for (enum frame_tier tier = FRAME_TIER_HOST; tier < FRAME_TIER_MAX; tier++) {
			struct metrics_labels labels = it->labels;

			if (!it->state->own_ns[tier] && !it->state->wait_ns[tier])
				continue;
			metrics_labels_add(&labels, "tier", finding_tier_word(tier));
			metrics_page_seconds(page, &labels, value_ns[tier]);
		}
	}
}

void metrics_of_rank_own_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_tiers(gather, page, offsetof(struct metrics_rank, own_ns));
}

void metrics_of_rank_wait_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	metrics_write_tiers(gather, page, offsetof(struct metrics_rank, wait_ns));
}
