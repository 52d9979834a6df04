/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of operations to numbers: communicators of a job, names, and the kinds of operation of a process. */
#include "analyzers/detect/framer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/ops_hash.h"

#define NAME_BYTES 64
#define NAMES_KNOWN_BITS 5 /* log2 of sets of two */
#define NAMES_HASH 4096	   /* a power of two, well above ALIGN_NAMES_MAX */

struct align_names {
	size_t count;
	uint64_t key[ALIGN_NAMES_MAX];
	uint16_t hash[NAMES_HASH]; /* number + 1 */
	struct align_known known[2 << NAMES_KNOWN_BITS];
};

void align_names_free(struct align_names *names)
{
	free(names);
}

static uint64_t align_names_key_of(const char *text, size_t max)
{
	size_t length = strnlen(text, max);
	uint64_t key = length, word;

	for (; length >= sizeof(word); length -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		key = coll_mix(word, key);
	}
	word = 0;
	memcpy(&word, text, length);
	return coll_mix(word, key);
}

static uint16_t number_find(struct align_names *names, const char *name)
{
	uint64_t key = align_names_key_of(name, NAME_BYTES);
	size_t at;

	for (at = coll_mix(key, 0) & (NAMES_HASH - 1); names->hash[at]; at = (at + 1) & (NAMES_HASH - 1)) {
		if (names->key[names->hash[at] - 1] == key)
			return names->hash[at];
	}
	if (names->count == ALIGN_NAMES_MAX)
		return 0;
	names->key[names->count] = key;
	names->hash[at] = (uint16_t)++names->count;
	return names->hash[at];
}

/* From 1; 0 for all that are too many. */
static uint16_t align_names_number_of(struct align *align, const char *name)
{
	struct align_names *names = align->names;
	const struct align_known *known;
	struct align_known what, *set;

	if (!names)
		names = align->names = calloc(1, sizeof(*names));
	if (!names)
		return 0;
	if (!align_known_read(&what, name, strnlen(name, NAME_BYTES)))
		return number_find(names, name);
	set = align_known_set(names->known, NAMES_KNOWN_BITS, &what);
	known = align_known_find(set, &what);
	if (known)
		return (uint16_t)known->number;
	what.number = number_find(names, name);
	align_known_keep(set, &what);
	return (uint16_t)what.number;
}

static void hash_put(struct align_job *job, uint32_t comm)
{
	size_t at = coll_mix(job->comm_key[comm], 0) & (job->comm_hash_size - 1);

	while (job->comm_hash[at])
		at = (at + 1) & (job->comm_hash_size - 1);
	job->comm_hash[at] = comm + 1;
}

static bool align_names_hash_grow(struct align_job *job)
{
	size_t size = job->comm_hash_size ? job->comm_hash_size * 2 : 64;
	uint32_t *hash;

	if (job->comms * 2 < job->comm_hash_size)
		return true;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return false;
	free(job->comm_hash);
	job->comm_hash = hash;
	job->comm_hash_size = size;
	for (uint32_t i = 0; i < job->comms; i++)
		hash_put(job, i);
	return true;
}

/* Counts in `now` which communicators the records that wait are of; or gives them the numbers in it. */
static void each_comm(struct align_process *process, uint32_t *now, bool renumber)
{
	for (int64_t step = process->low; step <= process->high; step++) {
		struct align_slot *slot = align_slot_find(process, step);

		for (uint32_t i = 0; slot && i < slot->records; i++) {
			uint32_t comm = align_record_comm(&slot->record[i]);

			if (renumber)
				slot->record[i].duration_comm += (uint64_t)now[comm] - comm;
			else
				now[comm]++;
		}
	}
}

/* Numbers of communicators are kept nowhere but in full records, and beside texts. */
static void only_records(struct align_job *job, struct align_process *process)
{
	for (int64_t step = process->low; step <= process->high; step++) {
		struct align_slot *slot = align_slot_find(process, step);

		if (slot && slot->plan)
			align_template_leave(job->align, job, process, slot);
	}
	align_template_drop(job, &process->plan);
	memset(process->known, 0, sizeof(process->known));
	memset(process->kind, 0, sizeof(process->kind));
}

/* Forgets those of which no record waits. */
static bool align_names_reserve(struct align_job *job)
{
	uint32_t *now = calloc(job->comms, sizeof(*now)), kept = 0;

	if (!now)
		return false;
	for (size_t i = 0; i < job->ranks; i++)
		only_records(job, job->live[i]);
	for (size_t i = 0; i < job->ranks; i++)
		each_comm(job->live[i], now, false);
	for (uint32_t i = 0; i < job->comms; i++) {
		if (!now[i])
			continue;
		now[i] = kept;
		job->comm[kept] = job->comm[i];
		job->comm_key[kept++] = job->comm_key[i];
	}
	for (size_t i = 0; i < job->ranks; i++)
		each_comm(job->live[i], now, true);
	free(now);
	job->comms = kept;
	memset(job->comm_hash, 0, job->comm_hash_size * sizeof(*job->comm_hash));
	for (uint32_t i = 0; i < kept; i++)
		hash_put(job, i);
	return kept < ALIGN_COMMS_MAX;
}

static uint32_t comm_add(struct align_job *job, const char *communicator, uint64_t key)
{
	size_t many = job->comm_capacity;
	uint32_t comm;

	if (job->comms == ALIGN_COMMS_MAX && !align_names_reserve(job))
		return FRAME_NONE;
	if (!align_grow((void **)&job->comm, &many, job->comms + 1, sizeof(*job->comm), ALIGN_COMMS_MAX))
		return FRAME_NONE;
	many = job->comm_capacity;
	if (!align_grow((void **)&job->comm_key, &many, job->comms + 1, sizeof(*job->comm_key), ALIGN_COMMS_MAX))
		return FRAME_NONE;
	job->comm_capacity = many;
	if (!align_names_hash_grow(job))
		return FRAME_NONE;
	comm = (uint32_t)job->comms++;
	job->comm[comm] = (struct frame_comm){.kind = COMM_KIND_UNCLEAR};
	strncpy(job->comm[comm].communicator, communicator, sizeof(job->comm[comm].communicator) - 1);
	job->comm_key[comm] = key;
	hash_put(job, comm);
	return comm;
}

static uint32_t comm_find(struct align_job *job, const char *communicator)
{
	uint64_t key = align_names_key_of(communicator, sizeof(job->comm->communicator) - 1);

	if (job->comm_hash_size) {
		size_t at = coll_mix(key, 0) & (job->comm_hash_size - 1);

		for (; job->comm_hash[at]; at = (at + 1) & (job->comm_hash_size - 1)) {
			if (job->comm_key[job->comm_hash[at] - 1] == key)
				return job->comm_hash[at] - 1;
		}
	}
	return comm_add(job, communicator, key);
}

/* FRAME_NONE: no room. */
static uint32_t align_names_comm_of(struct align_job *job, struct align_process *process, const char *communicator)
{
	size_t length = strnlen(communicator, sizeof(job->comm->communicator) - 1);
	const struct align_known *known;
	struct align_known what, *set;

	if (!align_known_read(&what, communicator, length))
		return comm_find(job, communicator);
	set = align_known_set(process->known, ALIGN_KNOWN_BITS, &what);
	known = align_known_find(set, &what);
	if (known)
		return known->number;
	what.number = comm_find(job, communicator);
	if (what.number != FRAME_NONE)
		align_known_keep(set, &what);
	return what.number;
}

void align_names_comm(struct align *align, struct align_process *process, const char *communicator,
	enum comm_kind kind, uint32_t members)
{
	struct align_job *job = align_job_of(align, process);
	uint32_t comm = align_names_comm_of(job, process, communicator);

	if (comm == FRAME_NONE)
		return;
	if (members)
		job->comm[comm].members = members;
	if (kind != COMM_KIND_UNCLEAR)
		job->comm[comm].kind = kind;
}

/* Where it is kept; its texts are set. */
static struct align_kind *kind_place(
	struct align_process *process, const struct align_op *op, uint32_t comm, uint16_t number, bool p2p)
{
	struct align_kind *kind;

	for (uint32_t i = 0; i < ALIGN_KINDS; i++) {
		kind = &process->kind[i];
		if (kind->comm == comm && kind->op == number && kind->p2p == p2p &&
			strcmp(kind->communicator, op->communicator) == 0 && strcmp(kind->name, op->op) == 0)
			return kind;
	}
	kind = &process->kind[process->kinds++ % ALIGN_KINDS];
	*kind = (struct align_kind){.comm = comm, .op = number, .p2p = p2p};
	strncpy(kind->communicator, op->communicator, sizeof(kind->communicator) - 1);
	strncpy(kind->name, op->op, sizeof(kind->name) - 1);
	return kind;
}

static bool align_names_fits(const struct align_op *op)
{
	struct align_kind *kind;

	return op->op && strnlen(op->communicator, sizeof(kind->communicator)) < sizeof(kind->communicator) &&
	       strnlen(op->op, sizeof(kind->name)) < sizeof(kind->name);
}

static bool is_receive(const char *op)
{
	return strncasecmp(op, "recv", 4) == 0 || strncasecmp(op, "irecv", 5) == 0;
}

bool align_names_kind(
	struct align *align, struct align_process *process, const struct align_op *op, struct align_kind *ret)
{
	const char *name = op->op ? op->op : "";
	bool p2p = op->peer >= 0, receive = p2p && is_receive(name);
	uint16_t number = align_names_number_of(align, receive ? "Send" : name);
	uint32_t comm = align_names_comm_of(align_job_of(align, process), process, op->communicator);
	struct align_kind *kind;

	if (comm == FRAME_NONE)
		return false;
	*ret = (struct align_kind){.comm = comm, .op = number, .p2p = p2p, .receive = receive};
	if (!align_names_fits(op))
		return true;
	kind = kind_place(process, op, comm, number, p2p);
	kind->receive = receive;
	process->kind[process->kind_last].next = (uint8_t)(kind - process->kind);
	process->kind_last = (uint8_t)(kind - process->kind);
	return true;
}
