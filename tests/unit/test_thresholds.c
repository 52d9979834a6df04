/* SPDX-License-Identifier: Apache-2.0 */
/* Thresholds as options: they take what their keys in the configuration file take, within the same limits. */
#include "analyzers/detect/detect.h"
#include "analyzers/analyze/analysis.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/config.h"
#include "tests/test.h"

static char path[64];

static bool config_takes(const char *name, const char *text)
{
	struct config config;
	char key[64], error[512] = "";
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	snprintf(key, sizeof(key), "%s", name);
	for (char *c = key; *c; c++)
		*c = *c == '-' ? '_' : *c;
	fprintf(f, "[findings]\n%s = %s\n", key, text);
	fclose(f);
	config_defaults(&config);
	return config_load(path, &config, error, sizeof(error)) == 0;
}

static void assert_same(size_t which, const char *text)
{
	struct detect_options options;
	bool taken;

	detect_options_default(&options);
	taken = threshold_set(which, text, &options) == 0;
	if (taken != config_takes(thresholds[which].name, text))
		fail_msg("%s: %s is %s", thresholds[which].name, text, taken ? "taken" : "not taken");
}

TEST(test_as_configuration)
{
	static const char *const texts[] = {"", "x", "-1", "1.5", "5s", "100ms", "5000ms", "1m", "7", "0", "1 s", "1d",
		"8d", "30", "99999999999999999999", "99999999999999999999d", "18446744073709551615s", "+5", "0x10",
		"5sec"};
	char text[64];

	for (size_t i = 0; i < THRESHOLDS; i++) {
		const struct threshold *threshold = &thresholds[i];

		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
			if (texts[k][0])
				assert_same(i, texts[k]);
		for (int off = -1; off <= 1; off++) {
			snprintf(text, sizeof(text), "%llu%s", (unsigned long long)threshold->min + (unsigned)off,
				threshold->is_duration ? "ns" : "");
			assert_same(i, text);
			snprintf(text, sizeof(text), "%llu%s", (unsigned long long)threshold->max + (unsigned)off,
				threshold->is_duration ? "ns" : "");
			assert_same(i, text);
		}
	}
}

TEST(test_set)
{
	static const char *const texts[THRESHOLDS] = {"20", "7", "50", "6", "11s", "12", "31s", "60", "2m", "1m", "2h"};
	struct detect_options options;

	detect_options_default(&options);
	for (size_t i = 0; i < THRESHOLDS; i++)
		assert_int_equal(threshold_set(i, texts[i], &options), 0);
	assert_true(options.slow_ratio > 1.199 && options.slow_ratio < 1.201);
	assert_true(options.gain_min > 0.069 && options.gain_min < 0.071);
	assert_true(options.judge.job_growth > 0.499 && options.judge.job_growth < 0.501);
	assert_true(fabs(options.judge.grade[JUDGE_NOTICE].growth - 0.06) < 1e-9);
	assert_int_equal(options.judge.grade[JUDGE_NOTICE].lasts_ns, 11000000000);
	assert_true(fabs(options.judge.grade[JUDGE_WARNING].growth - 0.12) < 1e-9);
	assert_int_equal(options.judge.grade[JUDGE_WARNING].lasts_ns, 31000000000);
	assert_true(fabs(options.judge.grade[JUDGE_CRITICAL].growth - 0.6) < 1e-9);
	assert_true(fabs(options.judge.grade[JUDGE_SUDDEN].growth - 0.6) < 1e-9);
	assert_true(fabs(options.judge.grade[JUDGE_SOON].growth - 0.3) < 1e-9);
	assert_int_equal(options.judge.grade[JUDGE_CRITICAL].lasts_ns, 120000000000);
	assert_int_equal(options.hang_ns, 60000000000);
	assert_int_equal(options.hang_busy_ns, 7200000000000);
	assert_int_not_equal(threshold_set(0, "", &options), 0);
	assert_int_not_equal(threshold_set(THRESHOLDS, "1", &options), 0);
	assert_true(options.slow_ratio > 1.199);
}

static int begin(void **state)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/ranktrace-thresholds-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
	return unlink(path);
}

TEST_MAIN(begin, end)
