/* SPDX-License-Identifier: Apache-2.0 */
/* A dump as the daemon has it made: by a process of its own. */
#ifndef RANKTRACE_TESTS_DUMP_SCRIPT_H
#define RANKTRACE_TESTS_DUMP_SCRIPT_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzers/dump/dump_run.h"

#include "tests/test.h"

/* In a process of its own, as it always is: the lock of a folder lasts as long as the process. Returns its rows or an
 * error. */
static inline long dump_with(const struct dump_options *how)
{
	int ends[2], status;
	long rows = 0;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct dump_result result;
		char error[512] = "";
		int r = dump_run(how, &result, error, sizeof(error));
		long said = r < 0 ? r : (long)result.rows;

		if (r < 0)
			fprintf(stderr, "%s\n", error);
		dump_files_free(result.files);
		_exit(write(ends[1], &said, sizeof(said)) != sizeof(said));
	}
	assert_true(pid > 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &rows, sizeof(rows)), sizeof(rows));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return rows;
}

#endif
