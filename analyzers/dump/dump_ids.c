/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dump_ids.h. A hash table with few places a key: a new operation takes the place of the oldest one there, so that
 * nothing is ever searched or grown. A key is kept as a 64-bit hash; two operations with one hash in the same rank's
 * file would still get two numbers, because the ranks that have taken one are kept, too.
 */
#include "analyzers/dump/dump_ids.h"

#include <stdlib.h>

#define WAYS 4

struct place {
	uint64_t hash;
	uint64_t id;	/* 0: free */
	uint64_t taken; /* a bit a member, modulo 64 */
};

struct dump_ids {
	uint64_t next;
	struct place place[DUMP_IDS_MAX];
};

struct dump_ids *dump_ids_new(uint64_t next)
{
	struct dump_ids *ids = calloc(1, sizeof(*ids));

	if (ids)
		ids->next = next ? next : 1;
	return ids;
}

struct dump_ids *dump_ids_free(struct dump_ids *ids)
{
	free(ids);
	return NULL;
}

/* FNV-1a, 64 bits. */
static uint64_t dump_ids_add(uint64_t hash, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3ULL;
	return hash;
}

static uint64_t dump_ids_add_text(uint64_t hash, const char *text)
{
	const char *p = text ? text : "";

	do
		hash = dump_ids_add(hash, p, 1);
	while (*p++);
	return hash;
}

static uint64_t dump_ids_hash_of(const struct dump_op_key *key)
{
	uint64_t hash = dump_ids_add_text(0xcbf29ce484222325ULL, key->communicator);

	hash = dump_ids_add_text(hash, key->op);
	hash = dump_ids_add(hash, &key->seq, sizeof(key->seq));
	return dump_ids_add(hash, &key->peer, sizeof(key->peer));
}

uint64_t dump_ids_of(struct dump_ids *ids, const struct dump_op_key *key, uint64_t member)
{
	uint64_t hash, bit = 1ULL << (member % 64);
	struct place *set, *oldest;

	if (!key->joins)
		return ids->next++;
	hash = dump_ids_hash_of(key);
	set = &ids->place[(hash ^ hash >> 32) % (DUMP_IDS_MAX / WAYS) * WAYS];
	oldest = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].id && set[i].hash == hash && !(set[i].taken & bit)) {
			set[i].taken |= bit;
			return set[i].id;
		}
		if (set[i].id < oldest->id)
			oldest = &set[i];
	}
	*oldest = (struct place){hash, ids->next++, bit};
	return oldest->id;
}

uint64_t dump_ids_next(const struct dump_ids *ids)
{
	return ids->next;
}
