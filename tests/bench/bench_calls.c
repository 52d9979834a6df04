/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_calls CALLS: for each line with a name on stdin calls that one of target.h's functions CALLS times and prints
 * the mean ns a call. One process for all samples of a table, so that only the probe differs between them. Pinned to
 * the last allowed CPU, so that the reader of the ring runs on another one.
 */
#include <inttypes.h>
#include <sched.h>

#include "daemon/base/util.h"
#include "tests/bench/target.h"

static const struct function {
	const char *name;
	long (*call)(long value);
} functions[] = {
	{"landing", target_landing},
	{"push", target_push},
	{"sub", target_sub},
	{"lea", target_lea},
	{"nop", target_nop},
	{"nop5", target_nop5},
};

static void pin(void)
{
	cpu_set_t set, one;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static int sample(const struct function *function, long calls)
{
	uint64_t start_ns, end_ns;
	long sum = 0;

	for (long n = 0; n < calls / 20; n++) /* warm */
		sum = function->call(sum);
	sum = 0;
	start_ns = monotonic_ns();
	for (long n = 0; n < calls; n++)
		sum = function->call(sum);
	end_ns = monotonic_ns();
	if (sum != calls) {
		fprintf(stderr, "target_%s returned a wrong value\n", function->name);
		return -EIO;
	}
	printf("%.1f\n", (double)(end_ns - start_ns) / (double)calls);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	long calls = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	char line[64];

	if (calls <= 0) {
		fprintf(stderr, "usage: bench_calls CALLS, and names on stdin: landing, push, sub, lea, nop, nop5\n");
		return 2;
	}
	pin();
	while (fgets(line, sizeof(line), stdin)) {
		size_t i = 0;

		line[strcspn(line, "\n")] = 0;
		while (i < ARRAY_SIZE(functions) && !streq(functions[i].name, line))
			i++;
		if (i == ARRAY_SIZE(functions) || sample(&functions[i], calls) < 0) {
			fprintf(stderr, "bench_calls: cannot measure '%s'\n", line);
			return 1;
		}
	}
	return 0;
}
