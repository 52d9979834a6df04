/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stores people mean by a folder: a state folder, the folder db of one (whatever it is called now), or a folder
 * that holds such folders, as where nodes share one. A store that is named twice is there once.
 */
#ifndef RANKTRACE_STORE_STORES_H
#define RANKTRACE_STORE_STORES_H

#include <stdbool.h>
#include <stddef.h>

#define STORES_MAX 4096

struct stores_one {
	char *path;
	bool is_db; /* it is the folder of the segments */
	unsigned long long device, inode;
};

struct stores {
	size_t count, capacity;
	struct stores_one *one; /* in the order of their names within a folder */
};

/* Adds those of the folder. 0, or negative errno with the sentence: -ENOENT where there is none. */
int stores_add(struct stores *stores, const char *folder, char *error, size_t error_size);
/* Adds that state folder as it is, whether it can be read or not: who opens it will say. 0 or -ENOMEM. */
int stores_add_state(struct stores *stores, const char *folder);
void stores_free(struct stores *stores);

#endif
