/* SPDX-License-Identifier: Apache-2.0 */
/* See proc_maps.h. Numbers are converted by hand: sscanf() takes five times as long. */
#include "analyzers/base/proc_maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10) /* of a read; each one takes the process's memory lock */

/* The number at *at, which the character ends; a blank may also be the end of the line. */
static bool proc_map_number(char **at, int base, char end, uint64_t *ret)
{
	char *stop;

	if (strspn(*at, "0123456789abcdef") == 0)
		return false;
	*ret = strtoull(*at, &stop, base);
	if (*stop != end && (*stop || end != ' '))
		return false;
	*at = stop + (*stop != 0);
	return true;
}

static bool proc_map_path(char *at, struct proc_map *ret)
{
	static const char deleted[] = " (deleted)";
	size_t length;

	at += strspn(at, " ");
	length = strlen(at);
	ret->deleted = length >= sizeof(deleted) && strcmp(at + length - (sizeof(deleted) - 1), deleted) == 0;
	if (ret->deleted)
		at[length - (sizeof(deleted) - 1)] = 0;
	ret->path = at;
	return ret->start < ret->end;
}

bool proc_map_parse(char *line, struct proc_map *ret)
{
	uint64_t device_major, device_minor;

	line[strcspn(line, "\n")] = 0;
	if (!proc_map_number(&line, 16, '-', &ret->start) || !proc_map_number(&line, 16, ' ', &ret->end) ||
		strnlen(line, 5) < 5 || line[4] != ' ')
		return false;
	ret->readable = line[0] == 'r';
	ret->executable = line[2] == 'x';
	line += 5;
	if (!proc_map_number(&line, 16, ' ', &ret->offset) || !proc_map_number(&line, 16, ':', &device_major) ||
		!proc_map_number(&line, 16, ' ', &device_minor) || !proc_map_number(&line, 10, ' ', &ret->inode))
		return false;
	ret->device_major = (uint32_t)device_major;
	ret->device_minor = (uint32_t)device_minor;
	return proc_map_path(line, ret);
}

static int proc_maps_read(FILE *file, bool (*on_map)(void *arg, const struct proc_map *map), void *arg)
{
	struct proc_map map;
	size_t capacity = 0, total = 0;
	char *line = NULL;
	bool more = true;
	ssize_t n = 0;

	while (more && total < PROC_MAPS_BYTES_MAX && (n = getline(&line, &capacity, file)) > 0) {
		total += (size_t)n;
		if (proc_map_parse(line, &map))
			more = on_map(arg, &map);
	}
	free(line);
	if (ferror(file))
		return -errno;
	return more && n > 0 ? -EFBIG : 0;
}

int proc_maps_each(
	const char *proc_root, uint32_t pid, bool (*on_map)(void *arg, const struct proc_map *map), void *arg)
{
	char path[192];
	FILE *file;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%u/maps", proc_root, pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	(void)setvbuf(file, NULL, _IOFBF, CHUNK_BYTES);
	r = proc_maps_read(file, on_map, arg);
	fclose(file);
	return r;
}
