/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores named by a folder: a state folder, its db folder (also renamed), or a folder of such folders, as on a shared
 * file system. Duplicates are removed.
 */
#ifndef RANKTRACE_STORE_STORES_H
#define RANKTRACE_STORE_STORES_H

#include <stdbool.h>
#include <stddef.h>

#define STORES_MAX 4096

struct stores_one {
	char *path;
	bool is_db; /* path is the folder of segments */
	unsigned long long device, inode;
};

struct stores {
	size_t count, capacity;
	struct stores_one *one; /* by name within a folder */
};

/* Adds the stores of a folder. 0, or negative errno with the sentence; -ENOENT: none. */
int stores_add(struct stores *stores, const char *folder, char *error, size_t error_size);
/* Adds a state folder unchecked: opening it reports errors. 0 or -ENOMEM. */
int stores_add_state(struct stores *stores, const char *folder);
void stores_free(struct stores *stores);

#endif
