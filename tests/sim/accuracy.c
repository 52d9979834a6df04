/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of verdicts on simulated jobs: accuracy [--cases N] [--report] [--csv FILE] [--inject WORD] [--size N]
 * [--tier N] [--severity N] [--culprits N] [--seed SEED] [--largest N] [--markdown] [--verbose]
 *
 * N cases of each (injection, size, severity, tier, culprits). Seeds from 1 (or --seed 2000001) are for tuning, seeds
 * from 1,000,001 (--report) for published results. Large sizes have fewer cases (case_size.weight). Exits 1 if a goal
 * is missed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/accuracy_compare.h"
#include "tests/sim/accuracy_table.h"

#define REPORT_SEED 1000001ULL

struct choice {
	unsigned cases, thin;
	int inject, size, tier, severity, culprits;
	unsigned largest;
	uint64_t seed;
	bool verbose, goals, markdown;
	FILE *csv;
};

static bool chosen(const struct choice *choice, const struct case_spec *spec)
{
	return (choice->inject < 0 || choice->inject == (int)spec->inject) &&
	       (choice->size < 0 || choice->size == (int)spec->size) &&
	       (choice->tier < 0 || choice->tier == (int)spec->tier) &&
	       (choice->severity < 0 || choice->severity == (int)spec->severity) &&
	       (choice->culprits < 0 || choice->culprits == (int)spec->culprits) && spec->size <= choice->largest;
}

static int run_one(const struct choice *choice, const struct case_spec *spec)
{
	struct outcome outcome;

	if (choice->verbose)
		printf("%s %u %s %s %u culprits, seed %llu\n", sim_inject_word(spec->inject), spec->severity,
			case_sizes[spec->size].name, finding_tier_word(spec->tier), spec->culprits,
			(unsigned long long)spec->seed);
	if (judge_case(spec, choice->verbose, &outcome) < 0) {
		fprintf(stderr, "out of memory\n");
		return -1;
	}
	table_add(spec, &outcome);
	compare_add(spec, &outcome);
	if (choice->csv)
		table_csv(choice->csv, spec, &outcome);
	return 0;
}

/* Of large sizes one case in `weight` runs, selected by its number. */
static int run_all(const struct choice *choice)
{
	uint64_t number = 0;
	struct case_spec spec;

	for (unsigned i = 0; i < SIM_INJECT_MAX * CASE_SIZES * CASE_SEVERITIES_MAX * FRAME_TIER_MAX * SIM_CULPRITS_MAX;
		i++) {
		unsigned rest = i;

		spec.culprits = rest % SIM_CULPRITS_MAX + 1;
		rest /= SIM_CULPRITS_MAX;
		spec.tier = rest % FRAME_TIER_MAX;
		rest /= FRAME_TIER_MAX;
		spec.severity = rest % CASE_SEVERITIES_MAX;
		rest /= CASE_SEVERITIES_MAX;
		spec.size = rest % CASE_SIZES;
		spec.inject = rest / CASE_SIZES;
		if (!case_makes_sense(&spec) || !chosen(choice, &spec))
			continue;
		for (unsigned n = 0; n < choice->cases; n++) {
			spec.seed = choice->seed + n;
			if (number++ * 7919 % (case_sizes[spec.size].weight * choice->thin))
				continue;
			if (run_one(choice, &spec) < 0)
				return -1;
		}
	}
	return 0;
}

static int inject_of(const char *word)
{
	for (int i = 0; i < SIM_INJECT_MAX; i++) {
		if (!strcmp(sim_inject_word(i), word))
			return i;
	}
	fprintf(stderr, "no such injection: %s\n", word);
	exit(2);
}

static const struct option long_options[] = {
	{"cases", required_argument, NULL, 'n'},
	{"thin", required_argument, NULL, 'T'},
	{"report", no_argument, NULL, 'r'},
	{"seed", required_argument, NULL, 'S'},
	{"csv", required_argument, NULL, 'f'},
	{"inject", required_argument, NULL, 'i'},
	{"size", required_argument, NULL, 's'},
	{"tier", required_argument, NULL, 't'},
	{"severity", required_argument, NULL, 'x'},
	{"culprits", required_argument, NULL, 'c'},
	{"largest", required_argument, NULL, 'l'},
	{"no-goals", no_argument, NULL, 'g'},
	{"markdown", no_argument, NULL, 'm'},
	{"verbose", no_argument, NULL, 'v'},
	{NULL, 0, NULL, 0},
};

static void set(struct choice *choice, int option)
{
	int number = optarg ? atoi(optarg) : 0;

	switch (option) {
	case 'n':
		choice->cases = (unsigned)number;
		break;
	case 'T':
		choice->thin = number > 0 ? (unsigned)number : 1;
		break;
	case 'r':
		choice->seed = REPORT_SEED;
		break;
	case 'f':
		choice->csv = fopen(optarg, "w");
		break;
	case 'i':
		choice->inject = inject_of(optarg);
		break;
	case 's':
		choice->size = number;
		break;
	case 't':
		choice->tier = number;
		break;
	case 'x':
		choice->severity = number;
		break;
	case 'c':
		choice->culprits = number;
		break;
	case 'S':
		choice->seed = (uint64_t)atoll(optarg);
		break;
	case 'l':
		choice->largest = (unsigned)number;
		break;
	case 'g':
		choice->goals = false;
		break;
	case 'm':
		choice->markdown = true;
		break;
	case 'v':
		choice->verbose = true;
		break;
	default:
		fprintf(stderr, "usage: accuracy [--cases N] [--report] ... (see its source)\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct choice choice = {.cases = 1,
		.thin = 1,
		.inject = -1,
		.size = -1,
		.tier = -1,
		.severity = -1,
		.culprits = -1,
		.largest = CASE_SIZES,
		.seed = 1,
		.goals = true};
	unsigned missed, fallen;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set(&choice, c);
	if (choice.csv)
		table_csv_head(choice.csv);
	if (run_all(&choice) < 0)
		return 2;
	if (choice.csv)
		fclose(choice.csv);
	table_print(stdout, choice.markdown);
	compare_print(stdout, choice.markdown);
	missed = table_goals(stdout, &fallen);
	if (!choice.goals && fallen)
		printf("%u are worse than before\n", fallen);
	return (choice.goals ? missed : fallen) ? 1 : 0;
}
