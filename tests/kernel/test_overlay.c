/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that map one file through two overlays, as containers of one image do, have one library. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/probes/libraries.h"

#include "tests/test.h"

#define SKIPPED 77

static const char *const folders[] = {"/lower", "/upper1", "/work1", "/root1", "/upper2", "/work2", "/root2"};
static char base[64] = "/tmp/ranktrace-overlay-XXXXXX";
static unsigned added, dropped;

static const char *const wanted[] = {"libsame.so", "libother.so", NULL};

static void on_added(void *arg, struct library *library)
{
	added++;
}

static void on_dropped(void *arg, struct library *library)
{
	dropped++;
}

static void on_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	fail_msg("%s of process %u is refused: %s", path, pid, strerror(-error));
}

static void put_lower(const char *name)
{
	char path[128], page[4096] = "x";
	int fd;

	snprintf(path, sizeof(path), "%s/lower/%s", base, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
	close(fd);
}

static int mount_overlay(unsigned i)
{
	char options[512], path[128];

	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper%u,workdir=%s/work%u", base, base, i,
		base, i);
	snprintf(path, sizeof(path), "%s/root%u", base, i);
	return mount("overlay", path, "overlay", 0, options) < 0 ? -errno : 0;
}

#define BELOW 0 /* not in an overlay */

/* A process that maps both files of its overlay and waits for its end. */
static pid_t map_in_child(unsigned i)
{
	static const char *const names[] = {"libsame.so", "libother.so"};
	int ready[2];
	char path[128], c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			int fd;

			if (i == BELOW)
				snprintf(path, sizeof(path), "%s/lower/%s", base, names[k]);
			else
				snprintf(path, sizeof(path), "%s/root%u/%s", base, i, names[k]);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
				_exit(1);
			close(fd);
		}
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(test_one_file_is_one_library)
{
	static const struct libraries_ops ops = {
		.patterns = wanted, .added = on_added, .dropped = on_dropped, .refused = on_refused};
	struct libraries *libraries = libraries_new(&ops, "/proc");
	pid_t first = map_in_child(1), second = map_in_child(2);

	assert_non_null(libraries);
	assert_int_equal(libraries_scan(libraries, (uint32_t)first, 0, 1), 2);
	assert_int_equal(libraries_scan(libraries, (uint32_t)second, 0, 2), 2);
	assert_int_equal(libraries_scan(libraries, (uint32_t)second, 0, 2), 2);
	assert_int_equal(added, 2); /* not four, and the two files of one image are two */
	libraries_forget(libraries, 1);
	end_child(first);
	assert_int_equal(dropped, 0);
	assert_int_equal(libraries_scan(libraries, (uint32_t)second, 0, 2), 2);
	assert_int_equal(added, 2);
	libraries_forget(libraries, 2);
	assert_int_equal(dropped, 2);
	end_child(second);
	libraries_free(libraries);
}

/* A rank outside the containers maps the file that their overlays lie over. */
TEST(test_the_file_below_is_the_same)
{
	static const struct libraries_ops ops = {
		.patterns = wanted, .added = on_added, .dropped = on_dropped, .refused = on_refused};
	static const unsigned orders[][2] = {{BELOW, 1}, {2, BELOW}};

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct libraries *libraries = libraries_new(&ops, "/proc");
		pid_t first = map_in_child(orders[i][0]), second = map_in_child(orders[i][1]);

		assert_non_null(libraries);
		added = dropped = 0;
		assert_int_equal(libraries_scan(libraries, (uint32_t)first, 0, 1), 2);
		assert_int_equal(libraries_scan(libraries, (uint32_t)second, 0, 2), 2);
		assert_int_equal(added, 2);
		libraries_forget(libraries, 1);
		assert_int_equal(dropped, 0);
		libraries_forget(libraries, 2);
		assert_int_equal(dropped, 2);
		end_child(first);
		end_child(second);
		libraries_free(libraries);
	}
}

static int set_up(void)
{
	char path[128];

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (!mkdtemp(base))
		return -errno;
	/* An overlay over an overlay is refused in places. */
	if (mount("tmpfs", base, "tmpfs", 0, NULL) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s%s", base, folders[i]);
		if (mkdir(path, 0700) < 0)
			return -errno;
	}
	put_lower("libsame.so");
	put_lower("libother.so");
	return mount_overlay(1) < 0 ? mount_overlay(1) : mount_overlay(2);
}

int main(void)
{
	int r = set_up();

	if (r < 0) {
		printf("SKIP: no overlay can be mounted here: %s\n", strerror(-r));
		(void)umount2(base, MNT_DETACH);
		(void)rmdir(base);
		return SKIPPED;
	}
	r = TEST_RUN(NULL, NULL);
	(void)umount2(base, MNT_DETACH);
	(void)rmdir(base);
	return r;
}
