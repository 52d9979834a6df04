/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Container runtimes name a container's group by its id, alone (/docker/ID, /kubepods/.../ID) or as a unit
 * (docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, ...:cri-containerd:ID). All have 64 hexadecimal digits at
 * the end of a path's part, so no runtime has to be known by name. Kubernetes writes a pod's uid after "pod", with
 * underscores where systemd makes the name.
 */
#include "daemon/rank_cgroup.h"

#include <ctype.h>

#include "daemon/procfs.h"

#define ID_DIGITS 64
#define UID_CHARS 36

static bool container_of_part(const char *part, size_t length, char *ret)
{
	static const char scope[] = ".scope";
	const char *id;

	if (length > sizeof(scope) - 1 && memcmp(part + length - (sizeof(scope) - 1), scope, sizeof(scope) - 1) == 0)
		length -= sizeof(scope) - 1;
	if (length < ID_DIGITS)
		return false;
	id = part + length - ID_DIGITS;
	if (id > part && id[-1] != '-' && id[-1] != ':')
		return false;
	for (size_t i = 0; i < ID_DIGITS; i++)
		if (!isxdigit((unsigned char)id[i]))
			return false;
	memcpy(ret, id, ID_DIGITS);
	ret[ID_DIGITS] = 0;
	return true;
}

/* The innermost part that is a container. */
static void find_container(const char *path, char *ret)
{
	while (*path) {
		size_t length = strcspn(path, "/");

		(void)container_of_part(path, length, ret);
		path += length;
		path += *path == '/';
	}
}

static void find_pod_uid(const char *path, char *ret)
{
	for (const char *p = strstr(path, "pod"); p; p = strstr(p + 1, "pod")) {
		char uid[UID_CHARS + 1];
		size_t i;

		if (p > path && p[-1] != '/' && p[-1] != '-')
			continue;
		for (i = 0; i < UID_CHARS; i++) {
			bool dash = i == 8 || i == 13 || i == 18 || i == 23;
			char c = p[3 + i];

			if (dash ? c != '-' && c != '_' : !isxdigit((unsigned char)c))
				break;
			uid[i] = dash ? '-' : c;
		}
		if (i < UID_CHARS)
			continue;
		uid[UID_CHARS] = 0;
		memcpy(ret, uid, sizeof(uid));
		return;
	}
}

/* Of several hierarchies (version 1, or both versions) the one with a container says most, then the longest path. */
static bool rank_cgroup_says_more(const struct rank_cgroup *a, const struct rank_cgroup *b)
{
	if (!a->container[0] != !b->container[0])
		return a->container[0] != 0;
	return strlen(a->path) > strlen(b->path);
}

void rank_cgroup_parse(const char *text, struct rank_cgroup *ret)
{
	struct rank_cgroup best = {0};
	char line[4096];

	while (*text) {
		size_t length = strcspn(text, "\n");
		struct rank_cgroup here = {0};
		char *path;

		snprintf(line, sizeof(line), "%.*s", (int)(length < sizeof(line) ? length : sizeof(line) - 1), text);
		text += length;
		text += *text == '\n';
		/* hierarchy:controllers:path */
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		find_container(path + 1, here.container);
		find_pod_uid(path + 1, here.pod_uid);
		(void)copy_text(here.path, sizeof(here.path), path + 1);
		procfs_printable(here.path);
		if (rank_cgroup_says_more(&here, &best))
			best = here;
	}
	*ret = best;
}
