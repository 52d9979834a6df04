/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is of which job. Numbers of processes and jobs that are gone are given again, those of processes only
 * after many others.
 */
#include "analyzers/detect/framer_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/ops_hash.h"

#define TOGETHER_NS 120000000000ULL /* ranks without a job word that start within it are of one job */
#define NUMBERS_REST 4096	    /* numbers of processes that rest before one is given again */
#define WORD_MAX 256

static void rest_number(struct framer *framer, int number)
{
	if (!framer_grow((void **)&framer->unused, &framer->unused_room,
		    framer->unused_first + framer->unused_count + 1, sizeof(*framer->unused), INT_MAX))
		return;
	framer->unused[framer->unused_first + framer->unused_count++] = number;
}

static int take_number(struct framer *framer)
{
	if (framer->unused_count > NUMBERS_REST) {
		int number = framer->unused[framer->unused_first++];

		framer->unused_count--;
		if (framer->unused_first > framer->unused_count) {
			memmove(framer->unused, framer->unused + framer->unused_first,
				framer->unused_count * sizeof(*framer->unused));
			framer->unused_first = 0;
		}
		return number;
	}
	if (!framer_grow((void **)&framer->process, &framer->process_room, framer->processes + 1,
		    sizeof(struct framer_process *), INT_MAX))
		return -ENOMEM;
	framer->process[framer->processes] = NULL;
	return (int)framer->processes++;
}

static void align_jobs_forget(struct framer *framer, struct framer_process *process)
{
	int number = process->number;

	framer_process_free(framer, process);
	framer->process[number] = NULL;
	rest_number(framer, number);
}

static void align_jobs_room_free(struct framer *framer, struct framer_room *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->ranks; i++)
		align_jobs_forget(framer, job->live[i]);
	framer->job[job->number] = NULL;
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

void framer_rooms_free(struct framer *framer)
{
	for (size_t i = 0; i < FRAMER_JOBS_MAX; i++)
		align_jobs_room_free(framer, framer->job[i]);
	free(framer->process);
	free(framer->unused);
}

static struct framer_room *room_new(struct framer *framer, const struct framer_rank *rank, const char *word)
{
	struct framer_room *job;
	size_t number = 0;

	while (number < FRAMER_JOBS_MAX && framer->job[number])
		number++;
	if (number == FRAMER_JOBS_MAX) {
		size_t oldest = FRAMER_JOBS_MAX;

		for (size_t i = 0; i < FRAMER_JOBS_MAX; i++) {
			if (!framer->job[i]->alive &&
				(oldest == FRAMER_JOBS_MAX ||
					framer->job[i]->last_end_ns < framer->job[oldest]->last_end_ns))
				oldest = i;
		}
		if (oldest == FRAMER_JOBS_MAX)
			return NULL;
		align_jobs_room_free(framer, framer->job[oldest]);
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
	*job = (struct framer_room){.framer = framer,
		.number = (uint32_t)number,
		.id = ++framer->jobs,
		.word = job->word,
		.world_size = rank->world_size,
		.first_start_ns = rank->start_ns,
		.ref = -1};
	framer->job[number] = job;
	return job;
}

/* Index of the rank, or of the next one. Ranks mostly come in their order. */
static size_t index_of(const struct framer_room *job, int32_t rank)
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

/* Do their lives overlap, and has nobody that lives that rank there? */
static bool align_jobs_fits(const struct framer_room *job, const struct framer_rank *rank, const char *word)
{
	uint64_t apart_ns = rank->start_ns > job->first_start_ns ? rank->start_ns - job->first_start_ns
								  : job->first_start_ns - rank->start_ns;
	size_t index;

	if (job->world_size != rank->world_size || strncmp(job->word, word, WORD_MAX) != 0)
		return false;
	if (!*word && apart_ns > TOGETHER_NS)
		return false;
	if (!job->alive && job->last_end_ns <= rank->start_ns)
		return false;
	/* Of two jobs without a word that begin together, ranks come in any order. */
	if (job->alive && job->port && rank->port && job->port != rank->port)
		return false;
	index = index_of(job, rank->rank);
	return index == job->ranks ? job->ranks < FRAMER_RANKS_MAX : job->live[index]->ended;
}

static uint32_t align_jobs_node_of(struct framer_room *job, const char *host)
{
	uint64_t key = 0xcbf29ce484222325ULL;
	size_t many = job->nodes_room;

	if (!*host)
		return FRAME_NONE;
	for (const char *at = host; *at && at - host < 64; at++)
		key = ops_mix(key, (unsigned char)*at);
	if (job->ranks && job->who[job->ranks - 1].node != FRAME_NONE &&
		job->node_key[job->who[job->ranks - 1].node] == key)
		return job->who[job->ranks - 1].node;
	for (size_t i = 0; i < job->nodes; i++) {
		if (job->node_key[i] == key)
			return (uint32_t)i;
	}
	if (!framer_grow((void **)&job->node_key, &many, job->nodes + 1, sizeof(*job->node_key), SIZE_MAX / 64))
		return FRAME_NONE;
	many = job->nodes_room;
	if (!framer_grow((void **)&job->node_ref, &many, job->nodes + 1, sizeof(*job->node_ref), SIZE_MAX / 64))
		return FRAME_NONE;
	job->nodes_room = many;
	job->node_key[job->nodes] = key;
	job->node_ref[job->nodes] = -1;
	return (uint32_t)job->nodes++;
}

static bool room_grow(struct framer_room *job)
{
	size_t many = job->ranks_room;

	if (job->ranks < job->ranks_room)
		return true;
	if (!framer_grow((void **)&job->who, &many, job->ranks + 1, sizeof(*job->who), SIZE_MAX / 256))
		return false;
	many = job->ranks_room;
	if (!framer_grow((void **)&job->process, &many, job->ranks + 1, sizeof(*job->process), SIZE_MAX / 256))
		return false;
	many = job->ranks_room;
	if (!framer_grow((void **)&job->live, &many, job->ranks + 1, sizeof(struct framer_process *), SIZE_MAX / 256))
		return false;
	job->ranks_room = many;
	return true;
}

static struct framer_process *process_new(struct framer *framer, const struct framer_rank *rank)
{
	struct framer_process *process = calloc(1, sizeof(*process));
	int number;

	if (!process)
		return NULL;
	number = take_number(framer);
	if (number < 0) {
		free(process);
		return NULL;
	}
	process->number = number;
	process->job = FRAME_NONE;
	process->from_start = rank->from_start;
	process->high = -1;
	process->newest = FRAMER_NO_STEP;
	process->ops_since = process->ops_newest = process->lost_until = FRAMER_NO_STEP;
	framer_usual_from(process, UINT32_MAX);
	process->usual_once = UINT32_MAX;
	framer->process[number] = process;
	return process;
}

static void enter(
	struct framer *framer, struct framer_room *job, struct framer_process *process, const struct framer_rank *rank)
{
	const char *host = rank->host ? rank->host : "", *card = rank->card ? rank->card : "";
	size_t index = index_of(job, rank->rank);
	uint32_t node = align_jobs_node_of(job, host);
	struct frame_who *who = &job->who[index];

	if (index < job->ranks) {
		struct framer_process *before = job->live[index];

		/* What it had ended goes out before it is forgotten. */
		if (before->align != FRAMER_UNPLACED && before->newest != FRAMER_NO_STEP)
			framer_wait_flush(framer, job, framer_frame_of(before, before->newest));
		process->after_ns = before->end_ns;
		align_jobs_forget(framer, before);
	} else {
		job->ranks++;
	}
	*who = (struct frame_who){.rank = rank->rank, .node = node, .stage = FRAME_NONE};
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
	framer_wait_update(job, process);
}

int framer_rank_new(struct framer *framer, const struct framer_rank *rank)
{
	const char *word = rank->job ? rank->job : "";
	struct framer_room *job = NULL;
	struct framer_process *process;

	if (rank->rank < 0 || (rank->world_size && (uint32_t)rank->rank >= rank->world_size)) {
		framer->counts.ranks_left_out++;
		return -EINVAL;
	}
	for (size_t i = 0; i < FRAMER_JOBS_MAX && !job; i++) {
		if (framer->job[i] && align_jobs_fits(framer->job[i], rank, word))
			job = framer->job[i];
	}
	if (!job)
		job = room_new(framer, rank, word);
	if (!job) {
		framer->counts.ranks_left_out++;
		return -ENOSPC;
	}
	process = room_grow(job) ? process_new(framer, rank) : NULL;
	if (!process) {
		framer->counts.ranks_left_out++;
		return -ENOMEM;
	}
	if (!job->alive || !job->port)
		job->port = rank->port;
	enter(framer, job, process, rank);
	return process->number;
}

void framer_rank_card(struct framer *framer, int number, const char *card)
{
	const struct framer_process *process = framer_process_get(framer, number);
	struct framer_room *job = process ? framer_room_of(framer, process) : NULL;

	if (job)
		snprintf(job->who[process->index].card, sizeof(job->who->card), "%s", card ? card : "");
}

void framer_rank_end(struct framer *framer, int number, uint64_t end_ns)
{
	struct framer_process *process = framer_process_get(framer, number);
	struct framer_room *job;

	if (!process || process->ended)
		return;
	job = framer_room_of(framer, process);
	process->ended = true;
	process->end_ns = end_ns;
	job->alive--;
	if (process->align != FRAMER_UNPLACED) {
		job->placed--;
		framer_align_ended(framer, process);
	}
	if (end_ns > job->last_end_ns && end_ns < FRAMER_TIME_MAX)
		job->last_end_ns = end_ns;
	framer_wait_update(job, process);
	framer_align_tick(framer, job, false);
	framer_wait_pump(framer, job);
}

bool framer_job(const struct framer *framer, uint32_t number, struct framer_job *ret)
{
	const struct framer_room *job = number < FRAMER_JOBS_MAX ? framer->job[number] : NULL;

	if (!job)
		return false;
	*ret = (struct framer_job){.id = job->id,
		.job = job->word,
		.world_size = job->world_size,
		.ranks = job->ranks,
		.who = job->who,
		.process = job->process,
		.step_ns = job->step_ns,
		.checkpoint_ns = job->checkpoint_ns,
		.ended = job->alive == 0};
	return true;
}

bool framer_where(const struct framer *framer, int number, uint32_t *ret_job, uint32_t *ret_index)
{
	const struct framer_process *process = framer_process_get(framer, number);

	if (!process || process->job == FRAME_NONE)
		return false;
	*ret_job = process->job;
	*ret_index = process->index;
	return true;
}
