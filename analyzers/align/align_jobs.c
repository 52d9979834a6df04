/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is of which job. Numbers of processes and jobs that are gone are given again, those of processes only
 * after many others.
 */
#include "analyzers/align/align_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/hash.h"

#define TOGETHER_NS 120000000000ULL /* ranks without a job word that start within it are of one job */
#define NUMBERS_REST 4096	    /* numbers of processes that rest before one is given again */
#define WORD_MAX 256

static void rest_number(struct align *align, int number)
{
	if (!array_reserve((void **)&align->unused, &align->unused_capacity,
		    align->unused_first + align->unused_count + 1, sizeof(*align->unused), INT_MAX))
		return;
	align->unused[align->unused_first + align->unused_count++] = number;
}

static int take_number(struct align *align)
{
	if (align->unused_count > NUMBERS_REST) {
		int number = align->unused[align->unused_first++];

		align->unused_count--;
		if (align->unused_first > align->unused_count) {
			memmove(align->unused, align->unused + align->unused_first,
				align->unused_count * sizeof(*align->unused));
			align->unused_first = 0;
		}
		return number;
	}
	if (!array_reserve((void **)&align->process, &align->process_capacity, align->processes + 1,
		    sizeof(struct align_process *), INT_MAX))
		return -ENOMEM;
	align->process[align->processes] = NULL;
	return (int)align->processes++;
}

static void align_jobs_forget(struct align *align, struct align_process *process)
{
	int number = process->number;

	align_process_free(align, process);
	align->process[number] = NULL;
	rest_number(align, number);
}

static void align_job_free(struct align *align, struct align_job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->ranks; i++)
		align_jobs_forget(align, job->live[i]);
	align->job[job->number] = NULL;
	free(job->word);
	free(job->who);
	free(job->process);
	free(job->live);
	free(job->node_key);
	free(job->node_ref);
	free(job->due);
	free(job->comm);
	free(job->comm_key);
	free(job->comm_hash);
	free(job->evidence);
	free(job);
}

void align_jobs_free(struct align *align)
{
	for (size_t i = 0; i < ALIGN_JOBS_MAX; i++)
		align_job_free(align, align->job[i]);
	free(align->process);
	free(align->unused);
}

static size_t jobs_of_user(const struct align *align, uint32_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < ALIGN_JOBS_MAX && uid != ALIGN_UID_UNKNOWN; i++)
		count += align->job[i] && align->job[i]->alive && align->job[i]->uid == uid;
	return count;
}

static struct align_job *align_job_new(struct align *align, const struct align_rank *rank, const char *word)
{
	struct align_job *job;
	size_t number = 0;

	if (jobs_of_user(align, rank->uid) >= ALIGN_JOBS_USER_MAX)
		return NULL;
	while (number < ALIGN_JOBS_MAX && align->job[number])
		number++;
	if (number == ALIGN_JOBS_MAX) {
		size_t oldest = ALIGN_JOBS_MAX;

		for (size_t i = 0; i < ALIGN_JOBS_MAX; i++) {
			if (!align->job[i]->alive &&
				(oldest == ALIGN_JOBS_MAX ||
					align->job[i]->last_end_ns < align->job[oldest]->last_end_ns))
				oldest = i;
		}
		if (oldest == ALIGN_JOBS_MAX)
			return NULL;
		align_job_free(align, align->job[oldest]);
		number = oldest;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->word = strndup(word, WORD_MAX);
	if (!job->word) {
		free(job);
		return NULL;
	}
	*job = (struct align_job){.align = align,
		.number = (uint32_t)number,
		.id = ++align->jobs,
		.word = job->word,
		.world_size = rank->world_size,
		.uid = rank->uid,
		.first_start_ns = rank->start_ns,
		.ref = -1};
	align->job[number] = job;
	return job;
}

/* Index of the rank, or of the next one. Ranks mostly come in their order. */
static size_t index_of(const struct align_job *job, int32_t rank)
{
	if ((size_t)rank < job->ranks && job->who[rank].rank == rank)
		return (size_t)rank;
	if (job->ranks && job->who[job->ranks - 1].rank < rank && (size_t)rank == job->ranks)
		return job->ranks;
	for (size_t i = 0; i < job->ranks; i++) {
		if (job->who[i].rank == rank)
			return i;
	}
	return job->ranks;
}

static uint64_t apart_ns(const struct align_job *job, const struct align_rank *rank)
{
	return rank->start_ns > job->first_start_ns ? rank->start_ns - job->first_start_ns
						    : job->first_start_ns - rank->start_ns;
}

/* Has it a rank that the same process started? */
static bool has_launcher(const struct align_job *job, const struct align_rank *rank)
{
	for (size_t i = 0; i < job->ranks && rank->launcher; i++)
		if (job->live[i]->launcher == rank->launcher && !job->live[i]->ended &&
			strncmp(job->who[i].host, rank->host ? rank->host : "", sizeof(job->who->host) - 1) == 0)
			return true;
	return false;
}

static bool is_same_user(const struct align_job *job, const struct align_rank *rank)
{
	return job->uid == rank->uid || job->uid == ALIGN_UID_UNKNOWN || rank->uid == ALIGN_UID_UNKNOWN;
}

/* Do their lives overlap, and does no living process have that rank there? */
static bool align_jobs_fits(const struct align_job *job, const struct align_rank *rank, const char *word)
{
	size_t index;

	if (job->world_size != rank->world_size || !is_same_user(job, rank) || strncmp(job->word, word, WORD_MAX) != 0)
		return false;
	if (!*word && apart_ns(job, rank) > TOGETHER_NS)
		return false;
	if (!job->alive && job->last_end_ns <= rank->start_ns)
		return false;
	/* Of two jobs without a word that begin together, ranks come in any order. */
	if (job->alive && job->port && rank->port && job->port != rank->port)
		return false;
	index = index_of(job, rank->rank);
	return index == job->ranks ? job->ranks < ALIGN_RANKS_MAX : job->live[index]->ended;
}

static uint32_t align_jobs_node_of(struct align_job *job, const char *host)
{
	uint64_t key = 0xcbf29ce484222325ULL;
	size_t many = job->nodes_capacity;

	if (!*host)
		return FRAME_NONE;
	for (const char *at = host; *at && at - host < 64; at++)
		key = hash_mix(key, (unsigned char)*at);
	if (job->ranks && job->who[job->ranks - 1].node != FRAME_NONE &&
		job->node_key[job->who[job->ranks - 1].node] == key)
		return job->who[job->ranks - 1].node;
	for (size_t i = 0; i < job->nodes; i++) {
		if (job->node_key[i] == key)
			return (uint32_t)i;
	}
	if (!array_reserve((void **)&job->node_key, &many, job->nodes + 1, sizeof(*job->node_key), SIZE_MAX / 64))
		return FRAME_NONE;
	many = job->nodes_capacity;
	if (!array_reserve((void **)&job->node_ref, &many, job->nodes + 1, sizeof(*job->node_ref), SIZE_MAX / 64))
		return FRAME_NONE;
	job->nodes_capacity = many;
	job->node_key[job->nodes] = key;
	job->node_ref[job->nodes] = -1;
	return (uint32_t)job->nodes++;
}

static bool align_job_grow(struct align_job *job)
{
	size_t many = job->ranks_capacity;

	if (job->ranks < job->ranks_capacity)
		return true;
	if (!array_reserve((void **)&job->who, &many, job->ranks + 1, sizeof(*job->who), SIZE_MAX / 256))
		return false;
	many = job->ranks_capacity;
	if (!array_reserve((void **)&job->process, &many, job->ranks + 1, sizeof(*job->process), SIZE_MAX / 256))
		return false;
	many = job->ranks_capacity;
	if (!array_reserve((void **)&job->live, &many, job->ranks + 1, sizeof(struct align_process *), SIZE_MAX / 256))
		return false;
	job->ranks_capacity = many;
	return true;
}

static struct align_process *process_new(struct align *align, const struct align_rank *rank)
{
	struct align_process *process = calloc(1, sizeof(*process));
	int number;

	if (!process)
		return NULL;
	number = take_number(align);
	if (number < 0) {
		free(process);
		return NULL;
	}
	process->number = number;
	process->job = FRAME_NONE;
	process->from_start = rank->from_start;
	process->launcher = rank->launcher;
	process->high = -1;
	process->newest = ALIGN_NO_STEP;
	process->coll.since = process->coll.newest = process->lost_until = ALIGN_NO_STEP;
	align_typical_from(process, UINT32_MAX);
	process->typical.once = UINT32_MAX;
	align->process[number] = process;
	return process;
}

static void align_jobs_enter(
	struct align *align, struct align_job *job, struct align_process *process, const struct align_rank *rank)
{
	const char *host = rank->host ? rank->host : "", *card = rank->card ? rank->card : "";
	size_t index = index_of(job, rank->rank);
	uint32_t node = align_jobs_node_of(job, host);
	struct frame_who *who = &job->who[index];

	if (index < job->ranks) {
		struct align_process *before = job->live[index];

		/* What it had ended goes out before it is forgotten. */
		if (before->align != ALIGN_UNPLACED && before->newest != ALIGN_NO_STEP)
			align_wait_flush(align, job, align_frame_of(before, before->newest));
		process->after_ns = before->end_ns;
		align_jobs_forget(align, before);
	} else {
		job->ranks++;
	}
	*who = (struct frame_who){.rank = rank->rank, .pid = rank->pid, .node = node, .stage = FRAME_NONE};
	snprintf(who->host, sizeof(who->host), "%s", host);
	snprintf(who->card, sizeof(who->card), "%s", card);
	job->live[index] = process;
	job->process[index] = process->number;
	job->alive++;
	if (rank->start_ns < job->first_start_ns)
		job->first_start_ns = rank->start_ns;
	process->job = job->number;
	process->index = (uint32_t)index;
	process->node = node;
	align_wait_update(job, process);
}

/* NULL: none. Of several, which only jobs without a word are, the one of its launcher, else the closest in time. */
static struct align_job *align_jobs_find(const struct align *align, const struct align_rank *rank, const char *word)
{
	struct align_job *best = NULL;

	for (size_t i = 0; i < ALIGN_JOBS_MAX; i++) {
		struct align_job *job = align->job[i];
		bool here, there;

		if (!job || !align_jobs_fits(job, rank, word))
			continue;
		if (*word)
			return job;
		here = best && has_launcher(job, rank);
		there = best && has_launcher(best, rank);
		if (!best || (here && !there) || (here == there && apart_ns(job, rank) < apart_ns(best, rank)))
			best = job;
	}
	return best;
}

int align_rank_new(struct align *align, const struct align_rank *rank)
{
	const char *word = rank->job ? rank->job : "";
	struct align_job *job;
	struct align_process *process;

	if (rank->rank < 0 || (rank->world_size && (uint32_t)rank->rank >= rank->world_size)) {
		align->counts.ranks_left_out++;
		return -EINVAL;
	}
	job = align_jobs_find(align, rank, word);
	if (!job)
		job = align_job_new(align, rank, word);
	if (!job) {
		align->counts.ranks_left_out++;
		return -ENOSPC;
	}
	process = align_job_grow(job) ? process_new(align, rank) : NULL;
	if (!process) {
		align->counts.ranks_left_out++;
		return -ENOMEM;
	}
	if (job->uid == ALIGN_UID_UNKNOWN)
		job->uid = rank->uid;
	if (!job->alive || !job->port)
		job->port = rank->port;
	align_jobs_enter(align, job, process, rank);
	return process->number;
}

void align_rank_card(struct align *align, int number, const char *card)
{
	const struct align_process *process = align_process_get(align, number);
	struct align_job *job = process ? align_job_of(align, process) : NULL;

	if (job)
		snprintf(job->who[process->index].card, sizeof(job->who->card), "%s", card ? card : "");
}

void align_rank_end(struct align *align, int number, uint64_t end_ns)
{
	struct align_process *process = align_process_get(align, number);
	struct align_job *job;

	if (!process || process->ended)
		return;
	job = align_job_of(align, process);
	process->ended = true;
	process->end_ns = end_ns;
	job->alive--;
	if (process->align != ALIGN_UNPLACED) {
		job->placed--;
		align_steps_ended(align, process);
	}
	if (end_ns > job->last_end_ns && end_ns < ALIGN_TIME_MAX)
		job->last_end_ns = end_ns;
	align_wait_update(job, process);
	align_steps_tick(align, job, false);
	align_wait_pump(align, job);
}

bool align_job_info(const struct align *align, uint32_t number, struct align_job_info *ret)
{
	const struct align_job *job = number < ALIGN_JOBS_MAX ? align->job[number] : NULL;

	if (!job)
		return false;
	*ret = (struct align_job_info){.id = job->id,
		.job = job->word,
		.world_size = job->world_size,
		.uid = job->uid,
		.ranks = job->ranks,
		.who = job->who,
		.process = job->process,
		.step_ns = job->step_ns,
		.checkpoint_ns = job->checkpoint_ns,
		.warm_ns = job->warm_ns,
		.phase_ns = job->phase_ns,
		.ended = job->alive == 0};
	return true;
}

bool align_locate(const struct align *align, int number, uint32_t *ret_job, uint32_t *ret_index)
{
	const struct align_process *process = align_process_get(align, number);

	if (!process || process->job == FRAME_NONE)
		return false;
	*ret_job = process->job;
	*ret_index = process->index;
	return true;
}
