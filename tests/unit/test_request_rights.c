/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/request_rights: who may control, for real processes with other users and groups. */
#include <grp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "daemon/core/context.h"
#include "daemon/control/request.h"
#include "proto/frame.h"
#include "tests/test.h"

#define STRANGER 64123 /* no user and no group of this number */

/* "daemon" is on every machine. */
static const char group_name[] = "daemon";

/*
 * In a child of the uid STRANGER with these groups, on a pair of sockets that it made: 1 may control, 0 may not. The
 * owner's rights are those of our own uid, so the answer is asked for in the parent.
 */
static int may_control(gid_t primary, size_t count, const gid_t *groups, const char *group)
{
	struct request_peer peer = {.fd = -1};
	struct ucred credentials;
	socklen_t size_bytes = sizeof(credentials);
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int way[2], status, result;
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, way), 0);
	child = fork();
	if (child == 0) {
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		int pair[2];

		if (setgroups(count, groups) < 0 || setgid(primary) < 0 || setuid(STRANGER) < 0 ||
			socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			_exit(1);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
		_exit(sendmsg(way[1], &message, 0) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(recvmsg(way[0], &message, 0), 1);
	memcpy(&peer.fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	assert_int_equal(getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes), 0);
	peer.uid = credentials.uid;
	peer.gid = credentials.gid;
	assert_int_equal(peer.uid, STRANGER);
	result = request_peer_may_control(&peer, group);
	close(peer.fd);
	close(way[0]);
	close(way[1]);
	return result;
}

TEST(test_groups)
{
	const struct group *group = getgrnam(group_name);
	gid_t many[200], wanted;

	if (geteuid() != 0 || !group)
		skip();
	wanted = group->gr_gid;
	for (size_t i = 0; i < 200; i++)
		many[i] = STRANGER + 1 + (gid_t)i;
	assert_int_equal(may_control(STRANGER, 0, NULL, group_name), 0);
	assert_int_equal(may_control(wanted, 0, NULL, group_name), 1);
	assert_int_equal(may_control(STRANGER, 1, &wanted, group_name), 1);
	/* More than the first guess at the number of groups. */
	assert_int_equal(may_control(STRANGER, 200, many, group_name), 0);
	many[199] = wanted;
	assert_int_equal(may_control(STRANGER, 200, many, group_name), 1);
	/* No such group, or none configured: nobody but the owner. */
	assert_int_equal(may_control(STRANGER, 200, many, "ranktrace-no-such-group"), 0);
	assert_int_equal(may_control(STRANGER, 200, many, ""), 0);
}

TEST(test_owner)
{
	struct request_peer root = {.uid = 0, .fd = -1}, self = {.uid = geteuid(), .fd = -1};

	assert_true(request_peer_may_control(&root, ""));
	assert_true(request_peer_may_control(&self, ""));
}

TEST(test_missing)
{
	assert_true(request_group_missing("ranktrace-no-such-group"));
	assert_false(request_group_missing(""));
	if (getgrnam(group_name))
		assert_false(request_group_missing(group_name));
}

/* A refusal names who may. */
TEST(test_refusal)
{
	const struct request_peer peer = {.uid = STRANGER, .gid = STRANGER, .fd = -1};
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__LevelSwitch item = RANKTRACE__LEVEL_SWITCH__INIT, *list[] = {&item};
	struct context *context = calloc(1, sizeof(*context));
	Ranktrace__Response *response;

	assert_non_null(context);
	item.level = (char[]){"L1"};
	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_SET;
	request.n_set = 1;
	request.set = list;
	response = request_answer(context, &peer, &request);
	assert_string_equal(response->message, "set needs root: the configuration names no group");
	response_free(response);
	copy_text(context->config.group, sizeof(context->config.group), "ranktrace-no-such-group");
	response = request_answer(context, &peer, &request);
	assert_string_equal(response->message, "set needs root or group ranktrace-no-such-group");
	response_free(response);
	free(context);
}

TEST_MAIN(NULL, NULL)
