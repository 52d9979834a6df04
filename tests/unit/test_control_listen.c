/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/control_listen: whose socket it is: made, left by a dead daemon, a live one's, a file's, or systemd's. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "daemon/control/control.h"

#include "tests/test.h"

#define PASSED_FD 3 /* the first that systemd passes */

static char folder[] = "/tmp/ranktrace-test-listen-XXXXXX";
static char run[sizeof(folder) + 8], path[sizeof(folder) + 32];

static struct stat snapshot(const char *at)
{
	struct stat st = {0};

	stat(at, &st);
	return st;
}

TEST(test_made_and_removed)
{
	struct control_listen listening = {.fd = -1};
	mode_t mask = umask(022);

	umask(mask);
	assert_int_equal(control_listen_open(path, &listening), 0);
	assert_true(S_ISDIR(snapshot(run).st_mode));
	assert_true(S_ISSOCK(snapshot(path).st_mode));
	assert_int_equal(snapshot(path).st_mode & 07777, 0666);
	assert_int_equal(umask(mask), mask);
	close(listening.fd);
	control_listen_remove(&listening);
	assert_int_equal(access(path, F_OK), -1);
}

TEST(test_answered_by_another)
{
	struct control_listen first = {.fd = -1}, second = {.fd = -1};

	assert_int_equal(control_listen_open(path, &first), 0);
	assert_int_equal(control_listen_open(path, &second), -EADDRINUSE);
	assert_int_equal(second.fd, -1);
	assert_int_equal(access(path, F_OK), 0);
	close(first.fd);
	/* Dead now, its socket left: the next replaces it, and the dead one's end does not remove what is not its own.
	 */
	assert_int_equal(control_listen_open(path, &second), 0);
	first.inode++;
	control_listen_remove(&first);
	assert_int_equal(access(path, F_OK), 0);
	close(second.fd);
	control_listen_remove(&second);
}

TEST(test_not_a_socket)
{
	struct control_listen listening = {.fd = -1};
	FILE *f;

	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(control_listen_open(path, &listening), -EEXIST);
	assert_true(S_ISREG(snapshot(path).st_mode));
	assert_int_equal(unlink(path), 0);
}

TEST(test_bad_paths)
{
	struct control_listen listening = {.fd = -1};
	char longest[200];

	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(control_listen_open("", &listening), -ENAMETOOLONG);
	assert_int_equal(control_listen_open(longest, &listening), -ENAMETOOLONG);
	assert_int_equal(listening.fd, -1);
}

/* In a child, because the descriptor's number is fixed: exit code 0 if the passed one was taken (or refused). */
static int with_passed(int type, bool taken)
{
	struct control_listen listening = {.fd = -1};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0), r;
	char pid[16];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return 1;
	if (type == SOCK_STREAM && listen(fd, 1) < 0)
		return 1;
	if (fd != PASSED_FD && dup2(fd, PASSED_FD) != PASSED_FD)
		return 1;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	r = control_listen_open("/nonexistent/never-made", &listening);
	if (!taken)
		return r == -EINVAL ? 0 : 2;
	if (r != 0 || listening.fd != PASSED_FD || getenv("LISTEN_FDS"))
		return 3;
	/* systemd's socket outlives the daemon. */
	control_listen_remove(&listening);
	return access(path, F_OK) == 0 ? 0 : 4;
}

TEST(test_passed_by_systemd)
{
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(with_passed(i ? SOCK_DGRAM : SOCK_STREAM, i == 0));
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		assert_int_equal(unlink(path), 0);
	}
}

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(run, sizeof(run), "%s/run", folder);
	snprintf(path, sizeof(path), "%s/control.sock", run);
	return 0;
}

static int remove_folder(void **state)
{
	return rmdir(run) == 0 ? rmdir(folder) : -1;
}

TEST_MAIN(make_folder, remove_folder)
