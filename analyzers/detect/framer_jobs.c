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

static void align_jobs_room_free(struct framer *framer, struct framer_room *room)
{
	if (!room)
		return;
	for (size_t i = 0; i < room->ranks; i++)
		align_jobs_forget(framer, room->live[i]);
	framer->room[room->number] = NULL;
	free(room->word);
	free(room->who);
	free(room->process);
	free(room->live);
	free(room->node_key);
	free(room->node_ref);
	free(room->due);
	free(room->comm);
	free(room->comm_key);
	free(room->comm_hash);
	free(room->evidence);
	free(room);
}

void framer_rooms_free(struct framer *framer)
{
	for (size_t i = 0; i < FRAMER_JOBS_MAX; i++)
		align_jobs_room_free(framer, framer->room[i]);
	free(framer->process);
	free(framer->unused);
}

static struct framer_room *room_new(struct framer *framer, const struct framer_rank *rank, const char *word)
{
	struct framer_room *room;
	size_t number = 0;

	while (number < FRAMER_JOBS_MAX && framer->room[number])
		number++;
	if (number == FRAMER_JOBS_MAX) {
		size_t oldest = FRAMER_JOBS_MAX;

		for (size_t i = 0; i < FRAMER_JOBS_MAX; i++) {
			if (!framer->room[i]->alive &&
				(oldest == FRAMER_JOBS_MAX ||
					framer->room[i]->last_end_ns < framer->room[oldest]->last_end_ns))
				oldest = i;
		}
		if (oldest == FRAMER_JOBS_MAX)
			return NULL;
		align_jobs_room_free(framer, framer->room[oldest]);
		number = oldest;
	}
	room = calloc(1, sizeof(*room));
	if (!room)
		return NULL;
	room->word = strndup(word, WORD_MAX);
	if (!room->word) {
		free(room);
		return NULL;
	}
	*room = (struct framer_room){.framer = framer,
		.number = (uint32_t)number,
		.id = ++framer->jobs,
		.word = room->word,
		.world_size = rank->world_size,
		.first_start_ns = rank->start_ns,
		.ref = -1};
	framer->room[number] = room;
	return room;
}

/* Index of the rank, or of the next one. Ranks mostly come in their order. */
static size_t index_of(const struct framer_room *room, int32_t rank)
{
	if ((size_t)rank < room->ranks && room->who[rank].rank == rank)
		return (size_t)rank;
	if (room->ranks && room->who[room->ranks - 1].rank < rank && (size_t)rank == room->ranks)
		return room->ranks;
	for (size_t i = 0; i < room->ranks; i++) {
		if (room->who[i].rank == rank)
			return i;
	}
	return room->ranks;
}

/* Do their lives overlap, and has nobody that lives that rank there? */
static bool align_jobs_fits(const struct framer_room *room, const struct framer_rank *rank, const char *word)
{
	uint64_t apart_ns = rank->start_ns > room->first_start_ns ? rank->start_ns - room->first_start_ns
								  : room->first_start_ns - rank->start_ns;
	size_t index;

	if (room->world_size != rank->world_size || strncmp(room->word, word, WORD_MAX) != 0)
		return false;
	if (!*word && apart_ns > TOGETHER_NS)
		return false;
	if (!room->alive && room->last_end_ns <= rank->start_ns)
		return false;
	/* Of two jobs without a word that begin together, ranks come in any order. */
	if (room->alive && room->port && rank->port && room->port != rank->port)
		return false;
	index = index_of(room, rank->rank);
	return index == room->ranks ? room->ranks < FRAMER_RANKS_MAX : room->live[index]->ended;
}

static uint32_t align_jobs_node_of(struct framer_room *room, const char *host)
{
	uint64_t key = 0xcbf29ce484222325ULL;
	size_t many = room->nodes_room;

	if (!*host)
		return FRAME_NONE;
	for (const char *at = host; *at && at - host < 64; at++)
		key = ops_mix(key, (unsigned char)*at);
	if (room->ranks && room->who[room->ranks - 1].node != FRAME_NONE &&
		room->node_key[room->who[room->ranks - 1].node] == key)
		return room->who[room->ranks - 1].node;
	for (size_t i = 0; i < room->nodes; i++) {
		if (room->node_key[i] == key)
			return (uint32_t)i;
	}
	if (!framer_grow((void **)&room->node_key, &many, room->nodes + 1, sizeof(*room->node_key), SIZE_MAX / 64))
		return FRAME_NONE;
	many = room->nodes_room;
	if (!framer_grow((void **)&room->node_ref, &many, room->nodes + 1, sizeof(*room->node_ref), SIZE_MAX / 64))
		return FRAME_NONE;
	room->nodes_room = many;
	room->node_key[room->nodes] = key;
	room->node_ref[room->nodes] = -1;
	return (uint32_t)room->nodes++;
}

static bool room_grow(struct framer_room *room)
{
	size_t many = room->ranks_room;

	if (room->ranks < room->ranks_room)
		return true;
	if (!framer_grow((void **)&room->who, &many, room->ranks + 1, sizeof(*room->who), SIZE_MAX / 256))
		return false;
	many = room->ranks_room;
	if (!framer_grow((void **)&room->process, &many, room->ranks + 1, sizeof(*room->process), SIZE_MAX / 256))
		return false;
	many = room->ranks_room;
	if (!framer_grow((void **)&room->live, &many, room->ranks + 1, sizeof(struct framer_process *), SIZE_MAX / 256))
		return false;
	room->ranks_room = many;
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
	struct framer *framer, struct framer_room *room, struct framer_process *process, const struct framer_rank *rank)
{
	const char *host = rank->host ? rank->host : "", *card = rank->card ? rank->card : "";
	size_t index = index_of(room, rank->rank);
	uint32_t node = align_jobs_node_of(room, host);
	struct frame_who *who = &room->who[index];

	if (index < room->ranks) {
		struct framer_process *before = room->live[index];

		/* What it had ended goes out before it is forgotten. */
		if (before->align != FRAMER_UNPLACED && before->newest != FRAMER_NO_STEP)
			framer_wait_flush(framer, room, framer_frame_of(before, before->newest));
		process->after_ns = before->end_ns;
		align_jobs_forget(framer, before);
	} else {
		room->ranks++;
	}
	*who = (struct frame_who){.rank = rank->rank, .node = node, .stage = FRAME_NONE};
	snprintf(who->host, sizeof(who->host), "%s", host);
	snprintf(who->card, sizeof(who->card), "%s", card);
	room->live[index] = process;
	room->process[index] = process->number;
	room->alive++;
	if (rank->start_ns < room->first_start_ns)
		room->first_start_ns = rank->start_ns;
	process->job = room->number;
	process->index = (uint32_t)index;
	process->node = node;
	framer_wait_update(room, process);
}

int framer_rank_new(struct framer *framer, const struct framer_rank *rank)
{
	const char *word = rank->job ? rank->job : "";
	struct framer_room *room = NULL;
	struct framer_process *process;

	if (rank->rank < 0 || (rank->world_size && (uint32_t)rank->rank >= rank->world_size)) {
		framer->counts.ranks_left_out++;
		return -EINVAL;
	}
	for (size_t i = 0; i < FRAMER_JOBS_MAX && !room; i++) {
		if (framer->room[i] && align_jobs_fits(framer->room[i], rank, word))
			room = framer->room[i];
	}
	if (!room)
		room = room_new(framer, rank, word);
	if (!room) {
		framer->counts.ranks_left_out++;
		return -ENOSPC;
	}
	process = room_grow(room) ? process_new(framer, rank) : NULL;
	if (!process) {
		framer->counts.ranks_left_out++;
		return -ENOMEM;
	}
	if (!room->alive || !room->port)
		room->port = rank->port;
	enter(framer, room, process, rank);
	return process->number;
}

void framer_rank_card(struct framer *framer, int number, const char *card)
{
	const struct framer_process *process = framer_process_get(framer, number);
	struct framer_room *room = process ? framer_room_of(framer, process) : NULL;

	if (room)
		snprintf(room->who[process->index].card, sizeof(room->who->card), "%s", card ? card : "");
}

void framer_rank_end(struct framer *framer, int number, uint64_t end_ns)
{
	struct framer_process *process = framer_process_get(framer, number);
	struct framer_room *room;

	if (!process || process->ended)
		return;
	room = framer_room_of(framer, process);
	process->ended = true;
	process->end_ns = end_ns;
	room->alive--;
	if (process->align != FRAMER_UNPLACED) {
		room->placed--;
		framer_align_ended(framer, process);
	}
	if (end_ns > room->last_end_ns && end_ns < FRAMER_TIME_MAX)
		room->last_end_ns = end_ns;
	framer_wait_update(room, process);
	framer_align_tick(framer, room, false);
	framer_wait_pump(framer, room);
}

bool framer_job(const struct framer *framer, uint32_t job, struct framer_job *ret)
{
	const struct framer_room *room = job < FRAMER_JOBS_MAX ? framer->room[job] : NULL;

	if (!room)
		return false;
	*ret = (struct framer_job){.id = room->id,
		.job = room->word,
		.world_size = room->world_size,
		.ranks = room->ranks,
		.who = room->who,
		.process = room->process,
		.step_ns = room->step_ns,
		.checkpoint_ns = room->checkpoint_ns,
		.ended = room->alive == 0};
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
