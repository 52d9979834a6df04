/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_report_store DAY DIR UNTIL_S [NODES CARDS [STEP_S SAMPLE_S]]: writes stores of a synthetic day that ends at
 * UNTIL_S, for viewing reports. DAY is healthy, slow, twelve, recurring or gaps; with a "+" appended, each node has its
 * own store below DIR.
 */
#include <errno.h>

#include "tests/report/report_script.h"
#include "tests/unit/log_stderr.h"

static unsigned long argument(int argc, char **argv, int at, unsigned long otherwise)
{
	return argc > at ? strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	struct script script;
	size_t length;

	if (argc < 4) {
		fprintf(stderr, "usage: make_report_store healthy|slow|twelve|recurring|gaps[+] DIR UNTIL_S [NODES "
				"CARDS [STEP_S "
				"SAMPLE_S]]\n");
		return 2;
	}
	script = script_healthy(argv[2], argument(argc, argv, 3, 0) * SCRIPT_SECOND,
		(uint32_t)argument(argc, argv, 4, 8), (uint32_t)argument(argc, argv, 5, 8));
	script.step_ns = argument(argc, argv, 6, 60) * SCRIPT_SECOND;
	script.sample_ns = argument(argc, argv, 7, 60) * SCRIPT_SECOND;
	length = strlen(argv[1]);
	script.split = length && argv[1][length - 1] == '+';
	if (strncmp(argv[1], "slow", 4) == 0)
		script_one_slow(&script, script.nodes / 2, (int32_t)(script.cards / 2), 0.24);
	else if (strncmp(argv[1], "twelve", 6) == 0)
		script_twelve(&script);
	else if (strncmp(argv[1], "recurring", 9) == 0)
		script_recurring(&script);
	if (strncmp(argv[1], "gaps", 4) == 0 || strncmp(argv[1], "twelve", 6) == 0) {
		script.gap_node = script.nodes > 1 ? 1 : 0;
		script.gap_since_ns = 8 * SCRIPT_HOUR;
		script.gap_until_ns = 11 * SCRIPT_HOUR + SCRIPT_HOUR / 2;
		script.drops = 5417;
	}
	if (script_write(&script) < 0) {
		fprintf(stderr, "make_report_store: cannot write %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	return 0;
}
