/* SPDX-License-Identifier: Apache-2.0 */
/* bench_calls FUNCTION CALLS: calls one of target.h's functions and prints the mean ns a call. */
#include <inttypes.h>

#include "daemon/util.h"
#include "tests/bench/target.h"

static const struct {
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

int main(int argc, char **argv)
{
	long calls = argc == 3 ? strtol(argv[2], NULL, 10) : 0, sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(functions) && calls > 0; i++) {
		uint64_t start_ns, end_ns;

		if (!streq(functions[i].name, argv[1]))
			continue;
		for (long n = 0; n < calls / 100; n++) /* warm */
			sum = functions[i].call(sum);
		sum = 0;
		start_ns = monotonic_ns();
		for (long n = 0; n < calls; n++)
			sum = functions[i].call(sum);
		end_ns = monotonic_ns();
		if (sum != calls) {
			fprintf(stderr, "target_%s returned a wrong value\n", argv[1]);
			return 1;
		}
		printf("%.1f\n", (double)(end_ns - start_ns) / (double)calls);
		return 0;
	}
	fprintf(stderr, "usage: bench_calls landing|push|sub|lea|nop|nop5 CALLS\n");
	return 2;
}
