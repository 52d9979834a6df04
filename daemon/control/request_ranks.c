/* SPDX-License-Identifier: Apache-2.0 */
/* The request `ranks`: who is on the node, and what each is in right now. Changes nothing. */
#include <inttypes.h>
#include <stdarg.h>

#include "daemon/base/fair.h"
#include "daemon/core/context.h"
#include "daemon/gauges/gauge_cards.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/ranks/ranks.h"
#include "daemon/control/request.h"
#include "daemon/steps/rank_steps.h"

/* A row is below 1.9 KiB, so that this many fit into one response. Where there are more, users have equal parts. */
#define ROWS_MAX 512u

struct listing {
	struct context *context;
	const Ranktrace__Request *request;
	const struct request_peer *outsider; /* who gets his own only; NULL: all are listed */
	Ranktrace__RanksBody *body;
	struct fair rows;
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	int error;
};

static const char *const role_names[RANK_ROLE_MAX] = {
	[RANK_ROLE_RANK] = "rank",
	[RANK_ROLE_CHILD] = "child",
	[RANK_ROLE_LAUNCHER] = "launcher",
};

/* As /proc says it, in words. */
static const char *request_ranks_state(char state)
{
	static const struct {
		char state;
		const char *word;
	} words[] = {{'R', "running"}, {'S', "sleeping"}, {'I', "sleeping"}, {'D', "D"}, {'T', "stopped"},
		{'t', "traced"}, {'Z', "zombie"}, {'X', "zombie"}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].state == state)
			return words[i].word;
	return "";
}

static void request_ranks_fill_stage(const struct listing *listing, const struct rank *rank, Ranktrace__Rank *item)
{
	struct steps_open open;

	item->step = STEPS_NONE;
	if (!listing->context->steps || rank->role != RANK_ROLE_RANK ||
		!rank_steps_current(listing->context->steps, rank, &open))
		return;
	item->stage = strndup(open.stage, sizeof(open.stage));
	item->stage_name = strndup(open.name, sizeof(open.name));
	item->step = open.step;
	item->stage_for_ns = listing->now_ns > open.start_ns ? listing->now_ns - open.start_ns : 0;
	item->stage_thread_id = open.thread_id;
}

/* Adds a clause. */
static _printf_(3, 4) void remark_add(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list list;

	used += (size_t)snprintf(text + used, size - used, "%s", used ? "; " : "");
	va_start(list, format);
	if (used < size)
		vsnprintf(text + used, size - used, format, list);
	va_end(list);
}

/* Names only users: what they claim is in the other columns. */
static char *request_ranks_remark(const struct ranks *ranks, const Ranktrace__Rank *item, const struct rank *rank)
{
	const char *suspicion = ranks_suspicion(ranks, rank->uid);
	char text[512] = "";
	uint32_t other;

	if (ranks_disputed(ranks, rank, &other))
		remark_add(text, sizeof(text), "user %u claims this rank too", other);
	if (item->limited)
		remark_add(text, sizeof(text), "%" PRIu64 " records beyond its part were not sent", item->limited);
	if (item->refused)
		remark_add(text, sizeof(text),
			"its state was dropped and %" PRIu64 " records refused, for want of memory", item->refused);
	if (rank_cpus_are_far(&rank->cpus))
		remark_add(
			text, sizeof(text), "none of the %u CPUs that it may use is near its card", rank->cpus.usable);
	if (suspicion[0])
		remark_add(text, sizeof(text), "user suspected: %s", suspicion);
	return strdup(text);
}

static void request_ranks_fill_limits(const struct context *context, const struct rank *rank, Ranktrace__Rank *item)
{
	struct rank_budget_use use;

	if (rank->role != RANK_ROLE_RANK)
		return;
	rank_budget_use(context->budget, rank, &use);
	item->limited = context->kernel ? kernel_limited(context->kernel, rank->slot) : 0;
	item->state_bytes = use.bytes;
	item->refused = use.refused;
}

static void request_ranks_fill_card(const struct listing *listing, const struct rank *rank, Ranktrace__Rank *item)
{
	const struct gauge_card *card = gauge_cards_find(listing->context->cards, rank->env.card);

	item->card = strndup(rank->env.card, sizeof(rank->env.card));
	if (!card)
		return;
	item->card_uuid = strdup(card->object);
	item->card_pci = strdup(card->pci);
	item->card_serial = strdup(card->serial);
}

static bool request_ranks_wants(const struct listing *listing, const struct rank *rank)
{
	return (!listing->outsider || listing->outsider->uid == rank->uid) &&
	       request_has_rank(listing->request, rank->env.rank, rank->env.job);
}

static void request_ranks_count(void *arg, const struct rank *rank)
{
	struct listing *listing = arg;

	if (request_ranks_wants(listing, rank))
		fair_count(&listing->rows, rank->uid, 1);
}

static void request_ranks_add(void *arg, const struct rank *rank)
{
	struct listing *listing = arg;
	Ranktrace__Rank *item;

	if (!request_ranks_wants(listing, rank))
		return;
	if (!fair_take(&listing->rows, rank->uid, 1)) {
		listing->body->left_out++;
		return;
	}
	item = REQUEST_ADD(listing->body, ranks);
	if (!item) {
		listing->error = -ENOMEM;
		return;
	}
	item->rank = rank->env.rank;
	item->world_size = rank->env.world_size;
	item->local_rank = rank->env.local_rank;
	item->job = strndup(rank->env.job, sizeof(rank->env.job));
	item->source = strndup(rank->env.source, sizeof(rank->env.source));
	item->pid = rank->pid;
	item->parent_pid = rank->parent_pid;
	item->uid = rank->uid;
	item->uid_known = true;
	request_ranks_fill_limits(listing->context, rank, item);
	item->remark = request_ranks_remark(listing->context->ranks, item, rank);
	item->role = strdup((unsigned)rank->role < RANK_ROLE_MAX ? role_names[rank->role] : "");
	request_ranks_fill_card(listing, rank, item);
	item->host = strndup(rank->host, sizeof(rank->host));
	item->container = strndup(rank->container, sizeof(rank->container));
	item->pod = strndup(rank->env.pod, sizeof(rank->env.pod));
	item->command = strndup(rank->command, sizeof(rank->command));
	item->since_ns = rank->first_seen_ns;
	item->from_start = rank->from_start;
	item->state = strdup(request_ranks_state(rank->state));
	request_ranks_fill_stage(listing, rank, item);
}

int request_ranks(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	struct listing listing = {.context = context,
		.request = request,
		.outsider = request_outsider(context),
		.now_ns = monotonic_ns()};

	listing.body = request_body_new(response, RANKTRACE__RESPONSE__BODY_RANKS);
	if (!listing.body)
		return -ENOMEM;
	if (!context->ranks)
		return 0;
	ranks_each(context->ranks, request_ranks_count, &listing);
	fair_share(&listing.rows, ROWS_MAX);
	ranks_each(context->ranks, request_ranks_add, &listing);
	return listing.error;
}
