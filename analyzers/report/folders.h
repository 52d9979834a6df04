/* SPDX-License-Identifier: Apache-2.0 */
/* State folders of nodes, as the command line names them: one, or a shared folder that holds one a node. */
#ifndef RANKTRACE_REPORT_FOLDERS_H
#define RANKTRACE_REPORT_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

struct folders {
	char **path;
	size_t count;
};

/* A folder with db/ in it, or that db/; with many also one whose sub-folders have that, in the order of their names. 0,
 * or negative errno with a sentence. At most REPORT_STORES_MAX. */
int folders_add(struct folders *folders, const char *path, bool many, char *error, size_t error_size);
void folders_free(struct folders *folders);

#endif
