/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and hash tables of things that carry their own links: nothing to allocate when one is put in or taken out, both
 * in constant time. A table's chains are in the order of putting in, so that the oldest of equals is found first.
 */
#ifndef RANKTRACE_BASE_HASH_H
#define RANKTRACE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct coll_link {
	struct coll_link *prev, *next; /* NULL: in no list */
};

struct coll_node {
	struct coll_link link;
	uint64_t key;
};

struct coll_hash {
	struct coll_link *bucket;
	uint64_t mask;
};

#define COLL_CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))
#define COLL_EACH(link, list) \
	for (struct coll_link *link = (list)->next, *link##_next = link->next; link != (list); \
		link = link##_next, link##_next = link->next)

static inline void coll_list_init(struct coll_link *list)
{
	list->prev = list->next = list;
}

static inline bool coll_linked(const struct coll_link *link)
{
	return link->next;
}

static inline bool coll_list_empty(const struct coll_link *list)
{
	return list->next == list;
}

static inline void coll_append(struct coll_link *list, struct coll_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void coll_unlink(struct coll_link *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

static inline uint64_t coll_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL ^ b;

	x ^= x >> 32;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 29;
}

/* size: a power of two. */
static inline int coll_hash_init(struct coll_hash *hash, size_t size)
{
	hash->bucket = calloc(size, sizeof(*hash->bucket));
	if (!hash->bucket)
		return -1;
	hash->mask = size - 1;
	for (size_t i = 0; i < size; i++)
		coll_list_init(&hash->bucket[i]);
	return 0;
}

static inline struct coll_link *coll_bucket(const struct coll_hash *hash, uint64_t key)
{
	return &hash->bucket[coll_mix(key, 0) & hash->mask];
}

static inline void coll_hash_put(struct coll_hash *hash, struct coll_node *node, uint64_t key)
{
	node->key = key;
	coll_append(coll_bucket(hash, key), &node->link);
}

static inline struct coll_node *coll_hash_find(const struct coll_hash *hash, uint64_t key)
{
	COLL_EACH(link, coll_bucket(hash, key)) {
		struct coll_node *node = COLL_CONTAINER(link, struct coll_node, link);

		if (node->key == key)
			return node;
	}
	return NULL;
}

#endif
