/* SPDX-License-Identifier: Apache-2.0 */
/* What several benchmarks need: a folder that goes away again, a store in it that keeps everything, and what a program
 * takes. Errors are negative errno. */
#ifndef RANKTRACE_TESTS_BENCH_COMMON_H
#define RANKTRACE_TESTS_BENCH_COMMON_H

#include <limits.h>

#include "daemon/store/store.h"

#define BENCH_FOLDER_BYTES (PATH_MAX - 64) /* names of files are added */

/* A new folder below another one. */
int bench_folder_new(const char *below, const char *name, char ret[BENCH_FOLDER_BYTES]);
/* Removes the tree; keeps it if RANKTRACE_BENCH_KEEP is set. */
void bench_folder_remove(const char *folder);

int bench_store_open(const char *folder, struct store **ret);

struct bench_usage {
	double cpu_s, mib; /* of user and kernel; the most that was resident */
};

/* Runs a program to its end; -EIO where it fails. What it prints is thrown away. */
int bench_run(const char *const argv[], struct bench_usage *ret);

#endif
