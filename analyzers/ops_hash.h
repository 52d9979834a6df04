/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and hash tables of things that carry their own links: nothing to allocate when one is put in or taken out, both
 * in constant time. A table's chains are in the order of putting in, so that the oldest of equals is found first.
 */
#ifndef RANKTRACE_OPS_HASH_H
#define RANKTRACE_OPS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct ops_link {
	struct ops_link *prev, *next; /* NULL: in no list */
};

struct ops_node {
	struct ops_link link;
	uint64_t key;
};

struct ops_hash {
	struct ops_link *bucket;
	uint64_t mask;
};

#define OPS_CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))
#define OPS_EACH(link, list) \
	for (struct ops_link *link = (list)->next, *link##_next = link->next; link != (list); \
		link = link##_next, link##_next = link->next)

static inline void ops_list_init(struct ops_link *list)
{
	list->prev = list->next = list;
}

static inline bool ops_linked(const struct ops_link *link)
{
	return link->next;
}

static inline bool ops_list_empty(const struct ops_link *list)
{
	return list->next == list;
}

static inline void ops_append(struct ops_link *list, struct ops_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void ops_unlink(struct ops_link *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

static inline uint64_t ops_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL ^ b;

	x ^= x >> 32;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 29;
}

/* size: a power of two. */
static inline int ops_hash_init(struct ops_hash *hash, size_t size)
{
	hash->bucket = calloc(size, sizeof(*hash->bucket));
	if (!hash->bucket)
		return -1;
	hash->mask = size - 1;
	for (size_t i = 0; i < size; i++)
		ops_list_init(&hash->bucket[i]);
	return 0;
}

static inline struct ops_link *ops_bucket(const struct ops_hash *hash, uint64_t key)
{
	return &hash->bucket[ops_mix(key, 0) & hash->mask];
}

static inline void ops_hash_put(struct ops_hash *hash, struct ops_node *node, uint64_t key)
{
	node->key = key;
	ops_append(ops_bucket(hash, key), &node->link);
}

static inline struct ops_node *ops_hash_find(const struct ops_hash *hash, uint64_t key)
{
	OPS_EACH(link, ops_bucket(hash, key)) {
		struct ops_node *node = OPS_CONTAINER(link, struct ops_node, link);

		if (node->key == key)
			return node;
	}
	return NULL;
}

#endif
