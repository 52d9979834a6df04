/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_common.h. */
#include "bench_common.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int bench_folder_new(const char *below, const char *name, char ret[BENCH_FOLDER_BYTES])
{
	int n = snprintf(ret, BENCH_FOLDER_BYTES, "%s/%s.XXXXXX", below, name);

	if (n < 0 || n >= BENCH_FOLDER_BYTES)
		return -ENAMETOOLONG;
	return mkdtemp(ret) ? 0 : -errno;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	return remove(path);
}

void bench_folder_remove(const char *folder)
{
	if (!getenv("RANKTRACE_BENCH_KEEP"))
		nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int bench_store_open(const char *folder, struct store **ret)
{
	const struct store_options options = {
		.state_dir = folder,
		.segment_ns = 3600 * NSEC_PER_SEC,
		.events_size_bytes_max = 64ULL << 30,
		.events_age_ns_max = 30 * 86400 * NSEC_PER_SEC,
		.summary_age_ns_max = 30 * 86400 * NSEC_PER_SEC,
	};

	return store_open(&options, ret);
}

static double seconds_of(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

int bench_run(const char *const argv[], struct bench_usage *ret)
{
	struct rusage usage;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		(void)dup2(null, STDOUT_FILENO);
		execv(argv[0], (char *const *)(uintptr_t)argv); /* which it does not change */
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -EIO;
	ret->cpu_s = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
	ret->mib = (double)usage.ru_maxrss / 1024;
	return 0;
}
