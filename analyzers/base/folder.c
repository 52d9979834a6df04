/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/folder.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAEMON_USER "ranktrace" /* systemd/ranktraced.service */

static bool folder_trusts(uid_t uid)
{
	const struct passwd *user;

	if (uid == 0 || uid == geteuid())
		return true;
	/* Root takes a dump of the installed daemon's store. */
	user = getpwnam(DAEMON_USER);
	return user && user->pw_uid == uid;
}

/* Somebody else may put files into it. Members of root's group and of the caller's count as the owner does. */
static bool folder_is_open(const struct stat *st)
{
	return st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && st->st_gid != 0 && st->st_gid != getegid());
}

static int folder_refuse(const char *path, const struct stat *st, char *why, size_t size)
{
	if (folder_trusts(st->st_uid))
		snprintf(why, size, "others may write to %s, and plant links there; chmod go-w, or use another folder",
			path);
	else
		snprintf(why, size, "%s belongs to user %u, who can plant links there; use a folder of your own", path,
			(unsigned)st->st_uid);
	return -EPERM;
}

static int folder_fail(const char *path, int error, char *why, size_t size)
{
	snprintf(why, size, "cannot use %s: %s", path, strerror(error));
	return -error;
}

int folder_own(const char *path, char *why, size_t size)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return folder_fail(path, errno, why, size);
	if (!S_ISDIR(st.st_mode))
		return folder_fail(path, ENOTDIR, why, size);
	return folder_trusts(st.st_uid) && !folder_is_open(&st) ? 0 : folder_refuse(path, &st, why, size);
}

/* A folder or link on the way. */
static int folder_check_above(const char *path, char *why, size_t size)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return folder_fail(path, errno, why, size);
	if (folder_trusts(st.st_uid) && (S_ISLNK(st.st_mode) || st.st_mode & S_ISVTX || !folder_is_open(&st)))
		return 0;
	return folder_refuse(path, &st, why, size);
}

static int folder_check_way(const char *path, char *why, size_t size)
{
	char part[PATH_MAX];
	int r = folder_check_above("/", why, size);

	if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
		return folder_fail("a path that long", ENAMETOOLONG, why, size);
	for (char *slash = strchr(part + 1, '/'); r == 0; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = 0;
		r = folder_check_above(part, why, size);
		if (!slash)
			break;
		*slash = '/';
	}
	return r;
}

int folder_safe(const char *path, char *why, size_t size)
{
	char whole[PATH_MAX], real[PATH_MAX];
	int r;

	if (*path == '/')
		*whole = 0;
	else if (!getcwd(whole, sizeof(whole) - 1))
		return folder_fail(path, errno, why, size);
	else
		strcat(whole, "/");
	if (strlen(whole) + strlen(path) >= sizeof(whole))
		return folder_fail("a path that long", ENAMETOOLONG, why, size);
	strcat(whole, path);
	if (!realpath(whole, real))
		return folder_fail(path, errno, why, size);
	/* The path as it is written, with its links, and the one that they lead to. */
	r = folder_check_way(whole, why, size);
	if (r == 0)
		r = folder_check_way(real, why, size);
	return r == 0 ? folder_own(real, why, size) : r;
}
