/* SPDX-License-Identifier: Apache-2.0 */
/* A struct measure for each test: fixtures start and stop. */
#ifndef RANKTRACE_TESTS_MEASURE_FIXTURE_H
#define RANKTRACE_TESTS_MEASURE_FIXTURE_H

#include "analyzers/judge/measure.h"
#include "tests/test.h"

static struct measure *measure;

static inline int start(void **state)
{
	measure = measure_new();
	return measure ? 0 : -1;
}

static inline int stop(void **state)
{
	measure = measure_free(measure);
	return 0;
}

#endif
