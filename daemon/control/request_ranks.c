/* SPDX-License-Identifier: Apache-2.0 */
/* The request `ranks`: who is on the node, and what each is in right now. Changes nothing. */
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/control/request.h"
#include "daemon/steps/rank_steps.h"

/* A row is below 1.5 KiB, so that this many fit into one response. */
#define ROWS_MAX 512u

struct listing {
	struct context *context;
	Ranktrace__RanksBody *body;
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	int error;
};

static const char *const role_names[RANK_ROLE_MAX] = {
	[RANK_ROLE_RANK] = "rank",
	[RANK_ROLE_CHILD] = "child",
	[RANK_ROLE_LAUNCHER] = "launcher",
};

static void fill_stage(const struct listing *listing, const struct rank *rank, Ranktrace__Rank *item)
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

static void add_rank(void *arg, const struct rank *rank)
{
	struct listing *listing = arg;
	Ranktrace__Rank *item;

	if (listing->body->n_ranks >= ROWS_MAX) {
		listing->body->left_out++;
		return;
	}
	item = request_message_new(&ranktrace__rank__descriptor);
	if (!item) {
		listing->error = -ENOMEM;
		return;
	}
	listing->body->ranks[listing->body->n_ranks++] = item;
	item->rank = rank->env.rank;
	item->world_size = rank->env.world_size;
	item->local_rank = rank->env.local_rank;
	item->job = strndup(rank->env.job, sizeof(rank->env.job));
	item->source = strndup(rank->env.source, sizeof(rank->env.source));
	item->pid = rank->pid;
	item->parent_pid = rank->parent_pid;
	item->role = strdup((unsigned)rank->role < RANK_ROLE_MAX ? role_names[rank->role] : "");
	item->card = strndup(rank->env.card, sizeof(rank->env.card));
	item->host = strndup(rank->host, sizeof(rank->host));
	item->container = strndup(rank->container, sizeof(rank->container));
	item->pod = strndup(rank->env.pod, sizeof(rank->env.pod));
	item->command = strndup(rank->command, sizeof(rank->command));
	item->since_ns = rank->first_seen_ns;
	item->from_start = rank->from_start;
	fill_stage(listing, rank, item);
}

int request_ranks(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	struct listing listing = {.context = context, .now_ns = monotonic_ns()};

	(void)request;
	listing.body = request_message_new(&ranktrace__ranks_body__descriptor);
	if (!listing.body)
		return -ENOMEM;
	response->body_case = RANKTRACE__RESPONSE__BODY_RANKS;
	response->ranks = listing.body;
	listing.body->ranks = calloc(ROWS_MAX, sizeof(*listing.body->ranks));
	if (!listing.body->ranks)
		return -ENOMEM;
	if (context->ranks)
		ranks_each(context->ranks, add_rank, &listing);
	return listing.error;
}
