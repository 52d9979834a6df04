/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may change something: root, the daemon's own user, and members of the configured group, by what the kernel says
 * of the peer of the connection. The groups of the peer's process count; the group file is asked only where the kernel
 * does not report them.
 */
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include "daemon/control/request.h"
#include "daemon/core/config.h"

#define GROUPS_MAX 65536u /* NGROUPS_MAX of Linux */
#define LOOKUP_BYTES_MAX (1u << 20)
#define GROUP_KEPT_NS (5 * NSEC_PER_SEC) /* asking for a group may reach a server; any user may cause it */

bool request_peer_is_owner(const struct request_peer *peer)
{
	return peer->uid == 0 || peer->uid == geteuid();
}

/* Yields the group's entry; the caller frees the buffer that it points into. */
static int group_lookup(const char *name, struct group *ret, char **ret_buffer)
{
	for (size_t size = 4096; size <= LOOKUP_BYTES_MAX; size *= 4) {
		_cleanup_free_ char *buffer = malloc(size);
		struct group *found = NULL;
		int r;

		if (!buffer)
			return -ENOMEM;
		r = getgrnam_r(name, ret, buffer, size, &found);
		if (r == ERANGE)
			continue;
		if (r != 0 || !found)
			return r ? -r : -ENOENT;
		*ret_buffer = TAKE_PTR(buffer);
		return 0;
	}
	return -ERANGE;
}

static int group_id(const char *name, gid_t *ret)
{
	static char kept_name[sizeof(((struct config *)NULL)->group)];
	static uint64_t kept_until_ns;
	static gid_t kept;
	static int kept_error;
	_cleanup_free_ char *buffer = NULL;
	uint64_t now_ns = monotonic_ns();
	struct group entry;

	if (now_ns >= kept_until_ns || !streq(kept_name, name)) {
		kept_error = group_lookup(name, &entry, &buffer);
		kept = kept_error ? 0 : entry.gr_gid;
		(void)copy_text(kept_name, sizeof(kept_name), name);
		kept_until_ns = now_ns + GROUP_KEPT_NS;
	}
	*ret = kept;
	return kept_error;
}

/* 1: the peer's process is in the group, 0: it is not, negative: the kernel does not say. */
static int peer_in_groups(int fd, gid_t wanted)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t size_bytes = 64 * sizeof(gid_t);

	for (unsigned tries = 0; tries < 3; tries++) {
		gid_t *grown = realloc(groups, size_bytes ? size_bytes : sizeof(gid_t));

		if (!grown)
			return -ENOMEM;
		groups = grown;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size_bytes) == 0) {
			for (size_t i = 0; i < size_bytes / sizeof(gid_t); i++)
				if (groups[i] == wanted)
					return 1;
			return 0;
		}
		/* ERANGE has put the length that it needs into size_bytes. */
		if (errno != ERANGE || size_bytes > GROUPS_MAX * sizeof(gid_t))
			return -errno;
	}
	return -ERANGE;
}

static bool listed_as_member(uid_t uid, const struct group *group)
{
	char buffer[4096];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (streq(*member, entry.pw_name))
			return true;
	return false;
}

bool request_peer_may_control(const struct request_peer *peer, const char *group)
{
	_cleanup_free_ char *buffer = NULL;
	struct group entry;
	gid_t gid;
	int r;

	if (request_peer_is_owner(peer))
		return true;
	if (!*group || group_id(group, &gid) < 0)
		return false;
	if (peer->gid == gid)
		return true;
	r = peer_in_groups(peer->fd, gid);
	if (r >= 0)
		return r == 1;
	return group_lookup(group, &entry, &buffer) == 0 && listed_as_member(peer->uid, &entry);
}

bool request_peer_is_insider(const struct request_peer *peer, const char *group)
{
	gid_t own = getegid();

	if (request_peer_may_control(peer, group))
		return true;
	/* Group 0 is no sign of rights: containers give it to their users. */
	return own != 0 && (peer->gid == own || peer_in_groups(peer->fd, own) == 1);
}

bool request_group_missing(const char *group)
{
	_cleanup_free_ char *buffer = NULL;
	struct group entry;

	return *group && group_lookup(group, &entry, &buffer) == -ENOENT;
}
