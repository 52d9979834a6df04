/* SPDX-License-Identifier: Apache-2.0 */
/* Lifecycle of metrics, and the page of all families. */
#include "daemon/coll/rank_coll.h"
#include "daemon/metrics/metrics_internal.h"

#define PAGE_AGE_NS NSEC_PER_SEC

const struct metrics_family metrics_families[METRICS_ID_MAX] = {
#define METRIC(word, type, unit, labels, help) {#word, METRICS_##type, unit, labels, help},
#include "daemon/metrics/metrics.def"
#undef METRIC
};

static void (*const writers[METRICS_ID_MAX])(const struct metrics_gather *gather, struct metrics_page *page) = {
#define METRIC(word, type, unit, labels, help) metrics_of_##word,
#include "daemon/metrics/metrics.def"
#undef METRIC
};

struct metrics_choice {
	struct metrics_gather *gather;
	uint32_t users;
	size_t users_count; /* of those met so far */
	struct {
		uint32_t uid;
		size_t ranks;
	} user[LIMIT_METRIC_RANKS];
};

/* Whether the user of this rank may have one more: each has an equal part, and no user more. */
static bool metrics_choose_user(struct metrics_choice *choice, uint32_t uid)
{
	size_t i = 0, part = LIMIT_METRIC_RANKS / (choice->users ? choice->users : 1);

	while (i < choice->users_count && choice->user[i].uid != uid)
		i++;
	if (i == LIMIT_METRIC_RANKS)
		return false;
	if (i == choice->users_count) {
		choice->user[i].uid = uid;
		choice->user[i].ranks = 0;
		choice->users_count++;
	}
	if (choice->user[i].ranks >= (part ? part : 1))
		return false;
	choice->user[i].ranks++;
	return true;
}

static void metrics_choose(void *arg, const struct rank *rank)
{
	struct metrics_choice *choice = arg;
	struct metrics_gather *gather = choice->gather;
	struct metrics *metrics = gather->metrics;
	struct metrics_shown *shown;

	if (rank->role != RANK_ROLE_RANK || !rank->instance)
		return;
	if (gather->ranks == LIMIT_METRIC_RANKS || !metrics_choose_user(choice, rank->uid)) {
		gather->ranks_left_out++;
		return;
	}
	shown = &gather->rank[gather->ranks];
	shown->state = metrics_rank_of(metrics, rank->slot, rank->instance);
	if (!shown->state)
		return;
	gather->ranks++;
	shown->rank = rank;
	shown->labels.used = 0;
	metrics_labels_add(&shown->labels, "job", rank->env.job);
	metrics_labels_add_number(&shown->labels, "rank", rank->env.rank);
	metrics_labels_add_number(&shown->labels, "pid", rank->pid);
	shown->has_progress = rank_steps_progress(gather->context->steps, rank->slot, rank->instance, &shown->progress);
}

static void metrics_gather_all(struct metrics *metrics)
{
	struct metrics_gather *gather = &metrics->gather;
	struct metrics_choice choice = {.gather = gather, .users = ranks_users(metrics->context->ranks)};

	gather->now_ns = monotonic_ns();
	gather->ranks = gather->ranks_left_out = 0;
	ranks_each(metrics->context->ranks, metrics_choose, &choice);
	memset(&gather->store, 0, sizeof(gather->store));
	store_status(metrics->context->store, &gather->store);
	online_counts_get(metrics->context->findings, &gather->findings);
	gather->collectors = 0;
	while (metrics->context->collectors && gather->collectors < METRICS_COLLECTORS_MAX) {
		struct collector_status *status = &gather->collector_status[gather->collectors];

		memset(status, 0, sizeof(*status));
		if (!collectors_status(metrics->context->collectors, (unsigned)gather->collectors,
			    &gather->collector[gather->collectors], status))
			break;
		gather->collectors++;
	}
}

const struct metrics_page *metrics_page_get(struct metrics *metrics, enum metrics_format format)
{
	struct metrics_page *page = &metrics->page[format];
	uint64_t now_ns = monotonic_ns(), begin_ns;

	if (metrics->built_ns[format] && now_ns - metrics->built_ns[format] < PAGE_AGE_NS)
		return page->failed ? NULL : page;
	begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	metrics_gather_all(metrics);
	metrics_page_begin(page, format);
	for (enum metrics_id id = 0; id < METRICS_ID_MAX; id++) {
		metrics_page_family(page, id);
		writers[id](&metrics->gather, page);
	}
	metrics_page_end(page);
	metrics->built_ns[format] = now_ns;
	metrics->build_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	return page->failed ? NULL : page;
}

static int metrics_open_ways(struct metrics *metrics)
{
	const struct config *config = &metrics->context->config;
	int r = metrics_http_open(metrics, config->metrics_listen, &metrics->http);

	if (r == 0 && config->metrics_textfile[0])
		r = metrics_textfile_new(metrics, config->metrics_textfile, &metrics->textfile);
	return r;
}

static int metrics_observe(struct metrics *metrics)
{
	struct context *context = metrics->context;
	int r = ranks_observe(context->ranks, metrics_on_rank, metrics);

	if (r == 0)
		r = rank_steps_observe(context->steps, &metrics_steps_observer, metrics);
	if (r == 0)
		r = rank_coll_observe(context->ops, &metrics_coll_observer, metrics);
	if (r == 0)
		online_observe(context->findings, &metrics_online_observer, metrics);
	return r;
}

int metrics_new(struct context *context, struct metrics **ret)
{
	struct metrics *metrics = calloc(1, sizeof(*metrics));
	int r = -ENOMEM;

	if (!metrics)
		return r;
	metrics->context = context;
	metrics->slots = context->config.ranks_max;
	metrics->gather.context = context;
	metrics->gather.metrics = metrics;
	metrics->slot = calloc(metrics->slots, sizeof(struct metrics_rank *));
	metrics->gather.rank = calloc(LIMIT_METRIC_RANKS, sizeof(*metrics->gather.rank));
	if (metrics->slot && metrics->gather.rank)
		r = metrics_open_ways(metrics);
	if (r == 0 && !metrics->http && !metrics->textfile) {
		metrics_free(metrics);
		*ret = NULL;
		return 0;
	}
	if (r == 0)
		r = metrics_observe(metrics);
	if (r < 0) {
		metrics_free(metrics);
		return r;
	}
	*ret = metrics;
	return 0;
}

struct metrics *metrics_free(struct metrics *metrics)
{
	if (!metrics)
		return NULL;
	metrics->http = metrics_http_close(metrics->http);
	metrics->textfile = metrics_textfile_free(metrics->textfile);
	(void)rank_steps_observe(metrics->context->steps, NULL, metrics);
	(void)rank_coll_observe(metrics->context->ops, NULL, metrics);
	online_observe(metrics->context->findings, NULL, NULL);
	for (size_t i = 0; metrics->slot && i < metrics->slots; i++)
		free(metrics->slot[i]);
	free(metrics->slot);
	free(metrics->gather.rank);
	for (enum metrics_format format = 0; format < METRICS_FORMAT_MAX; format++)
		metrics_page_free(&metrics->page[format]);
	free(metrics);
	return NULL;
}

void metrics_tick(struct metrics *metrics, uint64_t now_ns)
{
	if (!metrics)
		return;
	metrics_minutes_tick(metrics, now_ns);
	if (metrics->textfile)
		metrics_textfile_tick(metrics->textfile, now_ns);
}
