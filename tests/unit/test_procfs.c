/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of /proc against made-up processes, some hostile, and against ourselves. */
#include <fcntl.h>

#include "daemon/base/procfs.h"
#include "tests/test.h"
#include "tests/unit/fake_proc.h"

static char root[128];

static int setup(void **state)
{
	fake_new(root, sizeof(root));
	return 0;
}

static int teardown(void **state)
{
	fake_free(root);
	return 0;
}

TEST_WITH(test_stat, setup, teardown)
{
	static const char *const names[] = {"a", "a b", ") S 99 1 1", "((", "x) Z"};
	uint64_t tick_ns = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	struct procfs_stat stat;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		FAKE_PUT(root, 10, 7, 12345, .comm = names[i], .state = 'R');
		assert_int_equal(procfs_stat(root, 10, &stat), 0);
		assert_int_equal(stat.parent_pid, 7);
		assert_int_equal(stat.state, 'R');
		assert_int_equal(stat.start_time_ns, 12345 * tick_ns);
	}
	fake_write(root, 10, "stat", "10 (a) R 7", 10);
	assert_int_equal(procfs_stat(root, 10, &stat), -EBADMSG);
	fake_write(root, 10, "stat", "", 0);
	assert_int_equal(procfs_stat(root, 10, &stat), -EBADMSG);
	assert_int_equal(procfs_stat(root, 11, &stat), -ENOENT);
}

TEST_WITH(test_environ_limits, setup, teardown)
{
	size_t size = PROCFS_ENVIRON_BYTES_MAX, got;
	char *big = malloc(size + 1), *text;
	bool cut;

	assert_non_null(big);
	memset(big, 'x', size + 1);
	FAKE_PUT(root, 10, 1, 1, .environ = big, .environ_size = size);
	assert_int_equal(procfs_environ(root, 10, &text, &got, &cut), 0);
	assert_int_equal(got, size);
	assert_false(cut);
	free(text);
	fake_write(root, 10, "environ", big, size + 1);
	assert_int_equal(procfs_environ(root, 10, &text, &got, &cut), 0);
	assert_int_equal(got, size);
	assert_true(cut);
	free(text);
	free(big);
	fake_write(root, 10, "environ", "", 0);
	assert_int_equal(procfs_environ(root, 10, &text, &got, &cut), 0);
	assert_int_equal(got, 0);
	assert_string_equal(text, "");
	free(text);
	text = (char *)"untouched";
	assert_int_equal(procfs_environ(root, 11, &text, &got, &cut), -ENOENT);
	assert_string_equal(text, "untouched");
}

static uint32_t libraries_of(const char *maps, size_t size)
{
	uint32_t found = 0;

	FAKE_PUT(root, 10, 1, 1);
	fake_write(root, 10, "maps", maps, size);
	assert_int_equal(procfs_libraries(root, 10, &found), 0);
	return found;
}

#define MAP(path) "7f00-7f01 r-xp 00000000 08:01 42    " path "\n"
#define LIBRARIES(maps) libraries_of(maps, sizeof(maps) - 1)

TEST_WITH(test_libraries, setup, teardown)
{
	size_t size = 300000;
	char *big = malloc(size + sizeof(FAKE_TORCH));

	assert_int_equal(LIBRARIES(FAKE_PLAIN), 0);
	assert_int_equal(LIBRARIES(MAP("/a b/libtorch_python.so")), PROCFS_LIBRARY_TRAINING);
	assert_int_equal(LIBRARIES(MAP("/x/libtorch_cpu-1a2b.so.1.13 (deleted)")), PROCFS_LIBRARY_TRAINING);
	assert_int_equal(LIBRARIES(MAP("/x/libnccl.so.2")), PROCFS_LIBRARY_TRAINING);
	assert_int_equal(LIBRARIES(MAP("/x/libhccl.so")), PROCFS_LIBRARY_TRAINING);
	assert_int_equal(LIBRARIES(MAP("/x/libmindspore_core.so.2")), PROCFS_LIBRARY_TRAINING);
	assert_int_equal(LIBRARIES(MAP("/x/libc10.so")), PROCFS_LIBRARY_COMPANION);
	assert_int_equal(LIBRARIES(MAP("/x/libpython3.11.so.1.0")), PROCFS_LIBRARY_PYTHON);
	assert_int_equal(LIBRARIES(MAP("/libtorch.so/file") MAP("[heap]")), 0);
	assert_int_equal(LIBRARIES(MAP("/x/notlibtorch.so") MAP("/x/libtorch.txt")), 0);
	/* No line end, then a line far longer than our buffer before the one that counts. */
	assert_int_equal(LIBRARIES("garbage"), 0);
	assert_non_null(big);
	memset(big, 'y', size);
	big[size - 1] = '\n';
	memcpy(big + size, FAKE_TORCH, sizeof(FAKE_TORCH));
	assert_int_equal(libraries_of(big, size + sizeof(FAKE_TORCH) - 1), PROCFS_LIBRARY_TRAINING);
	/* Many lines: some are split by the end of the buffer. */
	for (size_t at = 0; at + sizeof(FAKE_PLAIN) < size; at += sizeof(FAKE_PLAIN) - 1)
		memcpy(big + at, FAKE_PLAIN, sizeof(FAKE_PLAIN) - 1);
	assert_int_equal(libraries_of(big, size + sizeof(FAKE_TORCH) - 1), PROCFS_LIBRARY_TRAINING);
	free(big);
}

struct pids {
	unsigned count;
	uint32_t pid[64];
};

static void note(void *arg, uint32_t pid)
{
	struct pids *pids = arg;

	assert_true(pids->count < ARRAY_SIZE(pids->pid));
	pids->pid[pids->count++] = pid;
}

static bool note_each(void *arg, uint32_t pid)
{
	note(arg, pid);
	return true;
}

TEST_WITH(test_children, setup, teardown)
{
	struct pids pids = {0};
	uint32_t cursor = 0;

	FAKE_PUT(root, 10, 1, 1, .children = "11 12 junk -3 99999999999 ");
	fake_folder(root, 10, "/task/15");
	fake_write(root, 10, "task/15/children", "16", 2);
	fake_folder(root, 10, "/task/17");
	fake_write(root, 10, "task/17/children", "18", 2);
	assert_int_equal(procfs_children(root, 10, 8, &cursor, note, &pids), 0);
	assert_int_equal(pids.count, 4);
	assert_int_equal(pids.pid[0], 11);
	assert_int_equal(pids.pid[1], 12);
	assert_int_equal(pids.pid[2] + pids.pid[3], 16 + 18);
	assert_int_equal(cursor, 0);
	assert_int_equal(procfs_children(root, 99, 8, &cursor, note, &pids), -ENOENT);
}

TEST_WITH(test_each, setup, teardown)
{
	struct pids pids = {0};

	FAKE_PUT(root, 10, 1, 1);
	FAKE_PUT(root, 11, 1, 1);
	fake_folder(root, 0, "self");
	assert_int_equal(procfs_each(root, note_each, &pids), 0);
	assert_int_equal(pids.count, 2);
	assert_int_equal(procfs_each("/nonexistent", note_each, &pids), -ENOENT);
}

TEST_WITH(test_ourselves, setup, teardown)
{
	uint32_t pid = (uint32_t)getpid(), found;
	struct procfs_stat stat;
	char exe[256], *text;
	size_t size;

	assert_int_equal(procfs_stat("/proc", pid, &stat), 0);
	assert_int_equal(stat.parent_pid, getppid());
	assert_true(stat.start_time_ns > 0);
	assert_int_equal(procfs_exe("/proc", pid, exe, sizeof(exe)), 0);
	assert_non_null(strstr(exe, program_invocation_short_name));
	assert_int_equal(procfs_libraries("/proc", pid, &found), 0);
	assert_int_equal(found, 0);
	assert_int_equal(procfs_command("/proc", pid, &text, &size), 0);
	assert_true(size > 0);
	free(text);
	assert_int_equal(procfs_cgroup("/proc", pid, &text), 0);
	free(text);
}

/* A file is kept open only where its descriptor leaves others enough. */
TEST(test_files_kept)
{
	int filler[PROCFS_FILES_KEPT], fillers = 0, fd = -1;
	struct procfs_status status;

	assert_int_equal(procfs_status_again("/proc", (uint32_t)getpid(), &fd, &status), 0);
	assert_true(fd >= 0);
	closep(&fd);
	fd = -1;
	do
		filler[fillers] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (filler[fillers] >= 0 && filler[fillers++] < PROCFS_FILES_KEPT - 1);
	assert_int_equal(procfs_status_again("/proc", (uint32_t)getpid(), &fd, &status), 0);
	assert_int_equal(fd, -1);
	assert_int_equal(status.parent_pid, getppid());
	while (fillers)
		close(filler[--fillers]);
}

TEST_MAIN(NULL, NULL)
