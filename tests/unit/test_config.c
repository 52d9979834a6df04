/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys, the sentences about what is wrong in a file, reload, and the shipped file against the table. */
#define TEST_ALONE		/* has a file of the daemon within */
#include "daemon/core/config.c" /* for its table */
#include "tests/test.h"

static char path[] = "/tmp/test_config.XXXXXX";

static int setup(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	return unlink(path);
}

static int load_text(const char *text, struct config *config, char *error, size_t error_size)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return config_load(path, config, error, error_size);
}

TEST(defaults_are_within_their_limits)
{
	struct config config;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_int_equal(set_key(&config, &keys[i], keys[i].value), 0);
		if (!keys[i].min)
			continue;
		assert_int_equal(set_key(&config, &keys[i], keys[i].min), 0);
		assert_int_equal(set_key(&config, &keys[i], keys[i].max), 0);
	}
	config_defaults(&config);
	assert_true(config.ring_size_bytes == 16u << 20);
	assert_true(config.offcpu_threshold_ns == NSEC_PER_MSEC);
	assert_true(config.flush_interval_ns == NSEC_PER_SEC);
	assert_int_equal(config.log_level, LOG_INFO);
	assert_string_equal(config.socket, RANKTRACE_SOCKET);
}

/* Two rows that name one field or one key would hide each other. */
TEST(keys_are_distinct)
{
	size_t covered = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		covered += keys[i].size_bytes;
		for (size_t j = 0; j < i; j++) {
			assert_int_not_equal(keys[i].offset, keys[j].offset);
			assert_false(streq(keys[i].section, keys[j].section) && streq(keys[i].name, keys[j].name));
		}
	}
	/* All of struct config is covered but for alignment. */
	assert_in_range(covered, sizeof(struct config) - 16, sizeof(struct config));
}

TEST(values_are_read)
{
	struct config config;
	char error[512] = "";

	assert_int_equal(
		load_text("[store]\nflush_interval = 250ms\n[daemon]\nstate_dir=/s\nlog_level = debug\n[ring]\n"
			  "size=1M\n[ranks]\nmax = 65536\n[daemon]\ngroup =\n",
			&config, error, sizeof(error)),
		0);
	assert_true(config.flush_interval_ns == 250 * NSEC_PER_MSEC);
	assert_string_equal(config.state_dir, "/s");
	assert_int_equal(config.log_level, LOG_DEBUG);
	assert_true(config.ring_size_bytes == 1u << 20);
	assert_true(config.ranks_max == 65536);
	assert_string_equal(config.group, "");
	/* what the file does not say is the default, whatever was in config before */
	assert_true(config.segment_ns == 3600 * NSEC_PER_SEC);
}

TEST(mistakes_get_a_sentence)
{
	static const struct {
		const char *text;
		const char *sentence;
	} rows[] = {
		{"\n[store]\nflush_intervall = 1s",
			":3: unknown key 'flush_intervall' in [store]; did you mean 'flush_interval'?"},
		{"[store]\nage_max = 1s", ":2: unknown key 'age_max' in [store]; did you mean"},
		{"[store]\nxyzzy = 1s", ":2: unknown key 'xyzzy' in [store]"},
		{"[stor]", ":1: unknown section [stor]; did you mean [store]?"},
		{"[store \"x\"]", ":1: section [store] takes no name"},
		{"size = 1", ":1: key 'size' precedes the first [section]"},
		{"[ring]\nsize=1M\nsize=2M", ":3: key 'size' in [ring] is already set in line 2"},
		{"[ring]\nsize = 3M",
			":2: bad value '3M' for 'size' in [ring]: expected a power of two in bytes or with K, M or "
			"G, from 64K to 1G"},
		{"[ring]\nsize = 2G", ":2: bad value '2G' for 'size' in [ring]: expected a power of two"},
		{"[ranks]\nmax = 0", ":2: bad value '0' for 'max' in [ranks]: expected a number, from 1 to 65536"},
		{"[store]\nsegment = 1 week", ":2: bad value '1 week' for 'segment' in [store]: expected a duration"},
		{"[daemon]\nstate_dir = here",
			":2: bad value 'here' for 'state_dir' in [daemon]: expected an absolute path"},
		{"[daemon]\nlog_level = loud",
			":2: bad value 'loud' for 'log_level' in [daemon]: expected emergency, alert"},
		{"[daemon]\nsocket = "
		 "/1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
		 "90123456789012345678",
			" for 'socket' in [daemon]: expected an absolute path of at most 107 bytes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config config = {.ranks_max = 77};
		char error[512] = "";

		assert_true(load_text(rows[i].text, &config, error, sizeof(error)) < 0);
		assert_true(config.ranks_max == 77);
		assert_int_equal(strncmp(error, path, strlen(path)), 0);
		if (!strstr(error, rows[i].sentence))
			fail_msg("'%s' does not hold '%s'", error, rows[i].sentence);
	}
}

TEST(a_guess_is_near_or_none)
{
	assert_string_equal(config_guess("store", "segments"), "segment");
	assert_string_equal(config_guess("ranks", "scan"), "scan_interval");
	assert_null(config_guess("ranks", "segment"));
	assert_null(config_guess(NULL, "prometheus"));
	assert_null(config_guess("store", "a_name_that_is_longer_than_every_key_there_is_by_far"));
}

TEST(reload_takes_only_what_it_may)
{
	static struct config running, fresh;
	char ignored[256];
	char small[8];

	config_defaults(&running);
	fresh = running;
	/* What follows the end of a text does not make it another text. */
	fresh.state_dir[sizeof(fresh.state_dir) - 1] = 'x';
	config_reload(&running, &fresh, ignored, sizeof(ignored));
	assert_string_equal(ignored, "");

	fresh.log_level = LOG_ERR;
	fresh.ranks_max = 3;
	copy_text(fresh.group, sizeof(fresh.group), "wheel");
	copy_text(fresh.socket, sizeof(fresh.socket), "/x");
	config_reload(&running, &fresh, ignored, sizeof(ignored));
	assert_string_equal(ignored, "[daemon] socket, [ranks] max");
	assert_int_equal(running.log_level, LOG_ERR);
	assert_string_equal(running.group, "wheel");
	assert_true(running.ranks_max == 1024);
	assert_string_equal(running.socket, RANKTRACE_SOCKET);
	config_reload(&running, &fresh, small, sizeof(small));
	assert_string_equal(small, "[daemon");
}

/* With every '#' before a key taken away, the shipped file sets every key, to its default. */
TEST(shipped_file_is_the_table)
{
	_cleanup_fclose_ FILE *f = fopen(SHIPPED_CONF, "re");
	struct config config, defaults;
	char line[512], text[16384] = "", error[512] = "";
	unsigned set = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		bool key = line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';

		set += key;
		strncat(text, key ? line + 1 : line, sizeof(text) - strlen(text) - 1);
	}
	if (load_text(text, &config, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	assert_int_equal(set, ARRAY_SIZE(keys));
	config_defaults(&defaults);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!config_same(&keys[i], (char *)&config + keys[i].offset, (char *)&defaults + keys[i].offset))
			fail_msg("[%s] %s is not '%s' in ranktrace.conf", keys[i].section, keys[i].name, keys[i].value);
}

TEST_MAIN(setup, teardown)
