/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of all nodes and communicators of the present one. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/store/rank_table.h"
#include "analyzers/timeline/timeline_internal.h"

static int timeline_ranks_add_rank(void *arg, const struct rank_row *row)
{
	struct timeline *t = arg;
	struct timeline_rank *rank;

	if (t->ranks_count == TIMELINE_RANKS_MAX)
		return 1; /* rows of further ones count as unknown */
	if (!array_reserve(
		    (void **)&t->rank, &t->ranks_capacity, t->ranks_count + 1, sizeof(*t->rank), TIMELINE_RANKS_MAX))
		return -ENOMEM;
	rank = &t->rank[t->ranks_count++];
	*rank = (struct timeline_rank){
		.node = t->node,
		.instance = row->instance,
		.rank = row->rank < 0 ? 0 : row->rank,
		.pid = row->pid,
		.seen_ns = (uint64_t)row->last_seen_ns,
	};
	snprintf(rank->job, sizeof(rank->job), "%s", row->job);
	snprintf(rank->host, sizeof(rank->host), "%s", row->host);
	snprintf(rank->card, sizeof(rank->card), "%s", row->card);
	rank->wanted = ranges_have(&t->options->ranks, rank->rank) &&
		       (!t->options->job || strcmp(t->options->job, rank->job) == 0);
	return 0;
}

int timeline_ranks_load(struct timeline *t)
{
	return rank_table_read(t->reader, timeline_ranks_add_rank, t, t->error, t->error_size);
}

static int timeline_ranks_by_instance(const void *a, const void *b)
{
	const struct timeline_rank *x = a, *y = b;

	return ORDER(x->node, y->node) ?: ORDER(x->instance, y->instance);
}

struct pid {
	int64_t pid;
	size_t index;
};

static int by_pid(const void *a, const void *b)
{
	const struct pid *x = a, *y = b;

	return ORDER(x->pid, y->pid) ?: ORDER(x->index, y->index);
}

/* PIDs repeat across nodes and over time: only the first process keeps its PID. */
int timeline_ranks_sort(struct timeline *t)
{
	struct pid *pids = calloc(t->ranks_count + 1, sizeof(*pids));
	int64_t last = -1;

	if (!pids)
		return -ENOMEM;
	if (t->ranks_count)
		qsort(t->rank, t->ranks_count, sizeof(*t->rank), timeline_ranks_by_instance);
	for (size_t i = 0; i < t->ranks_count; i++)
		pids[i] = (struct pid){t->rank[i].pid, i};
	qsort(pids, t->ranks_count, sizeof(*pids), by_pid);
	for (size_t i = 0; i < t->ranks_count; i++) {
		struct timeline_rank *rank = &t->rank[pids[i].index];
		bool ours = rank->wanted && rank->pid > 0 && rank->pid < TIMELINE_PID_FREE && rank->pid != last;

		rank->shown_pid = ours ? rank->pid : TIMELINE_PID_FREE + TIMELINE_NODES_MAX + (int64_t)pids[i].index;
		if (ours)
			last = rank->pid;
	}
	free(pids);
	return 0;
}

struct timeline_rank *timeline_rank_find(struct timeline *t, size_t node, int64_t instance)
{
	const struct timeline_rank key = {.node = node, .instance = instance};

	return t->ranks_count ? bsearch(&key, t->rank, t->ranks_count, sizeof(key), timeline_ranks_by_instance) : NULL;
}

struct timeline_rank *timeline_rank_named(struct timeline *t, int64_t rank, const char *job, const char *host)
{
	struct timeline_rank *ret = NULL;

	for (size_t i = 0; i < t->ranks_count; i++) {
		struct timeline_rank *at = &t->rank[i];

		if (at->rank == rank && (!job || strcmp(job, at->job) == 0) && (!host || strcmp(host, at->host) == 0) &&
			(!ret || at->seen_ns > ret->seen_ns))
			ret = at;
	}
	return ret;
}

static int timeline_ranks_add_comm(struct timeline *t, void *arg, sqlite3_stmt *s)
{
	struct timeline_comm *comm;
	const char *kind = (const char *)sqlite3_column_text(s, 2), *name = (const char *)sqlite3_column_text(s, 3),
		   *identity = (const char *)sqlite3_column_text(s, 4);

	if (t->comms_count == TIMELINE_COMMS_MAX)
		return 0;
	if (!array_reserve(
		    (void **)&t->comm, &t->comms_capacity, t->comms_count + 1, sizeof(*t->comm), TIMELINE_COMMS_MAX))
		return -ENOMEM;
	comm = &t->comm[t->comms_count++];
	*comm = (struct timeline_comm){
		.key = sqlite3_column_int64(s, 0),
		.member = sqlite3_column_type(s, 1) == SQLITE_NULL ? -1 : sqlite3_column_int64(s, 1),
	};
	snprintf(comm->label, sizeof(comm->label), "%.15s%s%.23s", kind ? kind : "", kind && *kind ? " " : "",
		name && *name ? name
		: identity    ? identity
			      : "");
	return 0;
}

static int timeline_ranks_by_key(const void *a, const void *b)
{
	const struct timeline_comm *x = a, *y = b;

	return ORDER(x->key, y->key);
}

int timeline_comms_load(struct timeline *t)
{
	int r;

	t->comms_count = 0;
	r = timeline_each(t, "select communicator_key, member, kind, name, communicator from communicators",
		timeline_ranks_add_comm, NULL);
	if (t->comms_count)
		qsort(t->comm, t->comms_count, sizeof(*t->comm), timeline_ranks_by_key);
	return r;
}

const struct timeline_comm *timeline_comm_find(const struct timeline *t, int64_t key)
{
	const struct timeline_comm wanted = {.key = key};

	return t->comms_count ? bsearch(&wanted, t->comm, t->comms_count, sizeof(wanted), timeline_ranks_by_key) : NULL;
}
