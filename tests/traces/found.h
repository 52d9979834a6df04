/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of a test, each once as it was reported last. Include after cmocka.h. */
#ifndef RANKTRACE_TEST_FOUND_H
#define RANKTRACE_TEST_FOUND_H

#include "analyzers/finding/finding.h"

static struct finding found[16];
static size_t n_found;

static void on_finding(void *arg, const struct finding *finding)
{
	size_t i = 0;

	while (i < n_found && found[i].id != finding->id)
		i++;
	assert_true(i < sizeof(found) / sizeof(found[0]));
	found[i] = *finding;
	n_found += i == n_found;
}

#endif
