/* SPDX-License-Identifier: Apache-2.0 */
/* State folders of several nodes, for programs that read them together. */
#ifndef RANKTRACE_TOOL_FOLDERS_H
#define RANKTRACE_TOOL_FOLDERS_H

#include <stddef.h>

#define TOOL_FOLDERS_MAX 4096

struct tool_folders {
	size_t count;
	char **path;
};

/* A state folder (one with db/ in it), or all those that lie in this folder, by name. 0, or negative errno with a
 * sentence said. */
int tool_folders_add(struct tool_folders *folders, const char *path);
/* One, as it stands. 0 or -ENOMEM. */
int tool_folders_take(struct tool_folders *folders, const char *path);
void tool_folders_clear(struct tool_folders *folders);

#endif
