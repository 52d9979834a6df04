/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive lists and hash tables: insertion and removal take constant time and allocate nothing. Chains keep insertion
 * order, so a search finds the oldest of equal keys first.
 */
#ifndef RANKTRACE_BASE_HASH_H
#define RANKTRACE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct list_link {
	struct list_link *prev, *next; /* NULL: not linked */
};

struct hash_node {
	struct list_link link;
	uint64_t key;
};

struct hash_table {
	struct list_link *bucket;
	uint64_t mask;
};

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define LIST_EACH(link, list) \
	for (struct list_link *link = (list)->next, *link##_next = link->next; link != (list); \
		link = link##_next, link##_next = link->next)

static inline void list_reset(struct list_link *list)
{
	list->prev = list->next = list;
}

static inline bool list_linked(const struct list_link *link)
{
	return link->next;
}

static inline bool list_empty(const struct list_link *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list_link *list, struct list_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void list_unlink(struct list_link *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL ^ b;

	x ^= x >> 32;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 29;
}

/* size: a power of two. */
static inline int hash_table_init(struct hash_table *hash, size_t size)
{
	hash->bucket = calloc(size, sizeof(*hash->bucket));
	if (!hash->bucket)
		return -1;
	hash->mask = size - 1;
	for (size_t i = 0; i < size; i++)
		list_reset(&hash->bucket[i]);
	return 0;
}

static inline struct list_link *hash_table_bucket(const struct hash_table *hash, uint64_t key)
{
	return &hash->bucket[hash_mix(key, 0) & hash->mask];
}

static inline void hash_table_put(struct hash_table *hash, struct hash_node *node, uint64_t key)
{
	node->key = key;
	list_add_tail(hash_table_bucket(hash, key), &node->link);
}

static inline struct hash_node *hash_table_find(const struct hash_table *hash, uint64_t key)
{
	LIST_EACH (link, hash_table_bucket(hash, key)) {
		struct hash_node *node = CONTAINER_OF(link, struct hash_node, link);

		if (node->key == key)
			return node;
	}
	return NULL;
}

#endif
