/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges: samples to rows; each source against files and libraries of the test; a driver that hangs; rows in the store.
 */
#include "tests/unit/store_fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/core/context.h"
#include "daemon/gauges/gauges_internal.h"
#include "daemon/gauges/gauges.h"

#define SECOND NSEC_PER_SEC

static void near(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
		fail_msg("%g is not %g", value, expected);
}

struct kept {
	struct gauge_row row;
	char object[GAUGE_OBJECT_BYTES];
};

static struct kept kept[1000];
static size_t kept_count;

static void keep(void *arg, const struct gauge_row *row)
{
	assert_true(kept_count < ARRAY_SIZE(kept));
	kept[kept_count].row = *row;
	(void)copy_text(kept[kept_count++].object, GAUGE_OBJECT_BYTES, row->object);
}

static const struct gauge level = {"level", "C", GAUGE_LEVEL, 1, 3, "a level"};
static const struct gauge count = {"count", "1", GAUGE_COUNT, 1, 0, "a count"};
static const struct gauge rate = {"rate", "1/s", GAUGE_RATE, 1, 100, "a rate"};

static struct gauge_series_set *new_serieses(unsigned rows_per_second)
{
	kept_count = 0;
	return gauge_series_set_new(rows_per_second, 8, &(struct gauge_sink){keep, NULL, NULL});
}

static void feed(
	struct gauge_series_set *set, unsigned second, const struct gauge *gauge, const char *object, double value)
{
	struct gauge_batch *batch = gauge_batch_new(0, 8);

	batch->time_ns = second * SECOND;
	batch->groups = 1;
	if (gauge)
		gauge_sample(batch, gauge, object, value);
	gauge_series_set_feed(set, batch);
	gauge_batch_free(batch);
}

/* Equal samples: a row a minute, the first sample begins it. */
TEST(a_steady_gauge)
{
	struct gauge_series_set *set = new_serieses(1);

	for (unsigned i = 1; i <= 130; i++)
		feed(set, i, &level, "x", 40);
	assert_int_equal(kept_count, 2);
	assert_int_equal(kept[0].row.start_ns, SECOND);
	assert_int_equal(kept[0].row.duration_ns, GAUGE_STEADY_NS);
	assert_int_equal(kept[1].row.start_ns, 61 * SECOND);
	assert_true(kept[1].row.value == 40 && kept[1].row.least == 40 && kept[1].row.most == 40);
	gauge_series_set_free(set);
	assert_int_equal(kept_count, 3);
}

/* Noise below the step: a row each 10 s, with mean, least and most. Beyond it: at once. */
TEST(a_gauge_that_varies)
{
	struct gauge_series_set *set = new_serieses(10);

	for (unsigned i = 1; i <= 12; i++)
		feed(set, i, &level, "x", i % 2 ? 40 : 42);
	assert_int_equal(kept_count, 1);
	assert_int_equal(kept[0].row.duration_ns, GAUGE_ROW_NS);
	assert_true(kept[0].row.least == 40 && kept[0].row.most == 42);
	assert_true(kept[0].row.value > 40.8 && kept[0].row.value < 41.2);
	feed(set, 13, &level, "x", 80);
	assert_int_equal(kept_count, 2);
	assert_int_equal(kept[1].row.start_ns, 11 * SECOND);
	assert_int_equal(kept[1].row.duration_ns, SECOND);
	gauge_series_set_free(set);
	assert_true(
		kept[2].row.value == 80 && kept[2].row.start_ns == 12 * SECOND && kept[2].row.duration_ns == SECOND);
}

/* A change by one is a row of its own: the increase is not blurred. */
TEST(a_counter_of_errors)
{
	struct gauge_series_set *set = new_serieses(10);

	for (unsigned i = 1; i <= 5; i++)
		feed(set, i, &count, "x", i < 4 ? 7 : 8);
	gauge_series_set_free(set);
	assert_int_equal(kept_count, 2);
	assert_true(kept[0].row.value == 7 && kept[1].row.value == 8);
	assert_int_equal(kept[1].row.start_ns, 3 * SECOND);
}

/* The increase a second, over the time that has passed; a counter that begins again gives no row below zero. */
TEST(a_rate)
{
	struct gauge_series_set *set = new_serieses(10);

	feed(set, 1, &rate, "x", 1000);
	feed(set, 3, &rate, "x", 1050);
	feed(set, 4, &rate, "x", 3);
	feed(set, 5, &rate, "x", 13);
	gauge_series_set_free(set);
	assert_int_equal(kept_count, 2);
	assert_true(kept[0].row.value == 25 && kept[0].row.start_ns == SECOND && kept[0].row.duration_ns == 2 * SECOND);
	assert_true(kept[1].row.value == 10 && kept[1].row.start_ns == 4 * SECOND);
}

/* More changes than rows: fewer rows over longer times, whose mean, least and most still cover every sample. */
TEST(rows_are_bounded)
{
	struct gauge_series_set *set = new_serieses(1);
	double least = 1e9, most = 0, sum = 0, seconds = 0;

	for (unsigned i = 1; i <= 300; i++) {
		struct gauge_batch *batch = gauge_batch_new(0, 8);

		batch->time_ns = i * SECOND;
		for (char object[] = "a"; object[0] < 'f'; object[0]++)
			gauge_sample(batch, &level, object, i % 2 ? 0 : 100);
		gauge_series_set_feed(set, batch);
		gauge_batch_free(batch);
	}
	gauge_series_set_free(set);
	assert_true(kept_count >= 290 && kept_count <= 300 + GAUGE_BURST_S + 5);
	for (size_t i = 0; i < kept_count; i++) {
		if (!streq(kept[i].object, "c"))
			continue;
		least = fmin(least, kept[i].row.least);
		most = fmax(most, kept[i].row.most);
		sum += kept[i].row.value * (double)kept[i].row.duration_ns / 1e9;
		seconds += (double)kept[i].row.duration_ns / 1e9;
	}
	assert_true(least == 0 && most == 100 && seconds == 299);
	assert_true(sum / seconds > 45 && sum / seconds < 55);
}

/* What is gone ends, and comes back as new. Beyond the greatest number: counted. */
TEST(objects_come_and_go)
{
	struct gauge_series_set *set = new_serieses(10);
	struct gauge_batch *batch = gauge_batch_new(0, 100);

	feed(set, 1, &level, "x", 1);
	feed(set, 2, &level, "y", 1);
	assert_int_equal(kept_count, 1);
	assert_int_equal(gauge_series_set_count(set), 1);
	feed(set, 3, NULL, "", 0);
	assert_int_equal(gauge_series_set_count(set), 0);
	for (unsigned i = 0; i < 12; i++)
		gauge_sample(batch, &level, (char[]){(char)('a' + i), 0}, 1);
	batch->time_ns = 4 * SECOND;
	gauge_series_set_feed(set, batch);
	assert_int_equal(gauge_series_set_count(set), 8);
	assert_int_equal(gauge_series_set_left_out(set), 4);
	gauge_batch_free(batch);
	gauge_series_set_free(set);
}

/* A group that is not due gives nothing, and its gauges remain, with their newest value; at its next reading they may
 * be gone. */
TEST(groups_come_at_their_own_times)
{
	struct gauge_series_set *set = new_serieses(10);

	for (unsigned second = 1; second <= 41; second++) {
		struct gauge_batch *batch = gauge_batch_new(0, 8);

		batch->time_ns = second * SECOND;
		batch->groups = 1;
		gauge_sample(batch, &level, "x", 40);
		if (second % 20 == 1) {
			batch->group = 1;
			batch->groups |= 2;
			if (second < 41)
				gauge_sample(batch, &count, "x", second);
			gauge_sample(batch, &rate, "x", 10 * second);
		}
		gauge_series_set_feed(set, batch);
		gauge_batch_free(batch);
		assert_int_equal(gauge_series_set_count(set), second < 41 ? 3 : 2);
	}
	gauge_series_set_free(set);
	/* 1 and 21 of the count, each a row; the rate is over the time between its readings. */
	assert_int_equal(kept_count, 4);
	assert_ptr_equal(kept[0].row.gauge, &count);
	assert_int_equal(kept[1].row.start_ns, SECOND);
	assert_int_equal(kept[1].row.duration_ns, 20 * SECOND);
	assert_true(kept[1].row.value == 21);
	assert_true(kept[2].row.value == 40 && kept[2].row.duration_ns == 40 * SECOND);
	assert_true(kept[3].row.value == 10 && kept[3].row.duration_ns == 40 * SECOND);
}

/* How often groups are read. */

#define MS 1e-3 /* of CPU time a second, in CPUs */

TEST(groups_that_fit_are_read_every_second)
{
	const double need[] = {1 * MS, 1.5 * MS, 2.4 * MS};
	double most = gauge_pace_level(5 * MS, 0.1 * MS, need, 3);

	for (size_t i = 0; i < 3; i++)
		assert_true(need[i] <= most);
	assert_true(gauge_pace_level(5 * MS, 0, NULL, 0) > 0);
}

/* What cheap groups leave is for the costly ones, in equal parts; all together keep the share. */
TEST(costly_groups_share_what_cheap_ones_leave)
{
	const double need[] = {1 * MS, 36 * MS, 0.2 * MS, 6 * MS};
	double most = gauge_pace_level(5 * MS, 0, need, 4), sum = 0;

	for (size_t i = 0; i < 4; i++)
		sum += fmin(need[i], most);
	near(most, 1.9 * MS);
	near(sum, 5 * MS);
	/* What cannot wait comes first, and leaves half of the share. */
	near(gauge_pace_level(5 * MS, 2 * MS, need, 4), (3 - 0.2) / 3 * MS);
	near(gauge_pace_level(5 * MS, 200 * MS, need, 4), (2.5 - 0.2) / 3 * MS);
}

TEST(the_interval_is_what_the_level_allows)
{
	const struct gauge_group group = {.name = "x"}, urgent = {.is_urgent = true}, seldom = {.every_s = 60};
	struct gauge_pace pace = {.read_ns = 100 * SECOND, .cost_ns = 30 * NSEC_PER_MSEC};

	assert_int_equal(gauge_pace_interval_ns(&pace, &group, 40 * MS), SECOND);
	near((double)gauge_pace_interval_ns(&pace, &group, 2 * MS), 15e9);
	/* A driver that hung is asked again. */
	assert_int_equal(gauge_pace_interval_ns(&pace, &group, 0.01 * MS), 300 * SECOND);
	assert_int_equal(gauge_pace_interval_ns(&pace, &urgent, 2 * MS), SECOND);
	assert_int_equal(gauge_pace_interval_ns(&pace, &seldom, 2 * MS), 60 * SECOND);
	near(gauge_pace_need(&pace, &seldom), 0.5 * MS);
	assert_false(gauge_pace_is_due(&pace, &group, 2 * MS, 114 * SECOND));
	assert_true(gauge_pace_is_due(&pace, &group, 2 * MS, 116 * SECOND));
	assert_true(gauge_pace_is_due(&pace, &group, 40 * MS, 101 * SECOND));
	pace.read_ns = 0; /* never read */
	assert_true(gauge_pace_is_due(&pace, &seldom, 2 * MS, SECOND));
}

/* Takes so much CPU time, or so long without. */
static int read_slowly(void *state, struct gauge_batch *batch)
{
	const unsigned *us = state;
	uint64_t end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us[0] * NSEC_PER_USEC;

	(void)batch;
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		;
	usleep(us[1]);
	return 0;
}

/* The newest two readings count, by the lower one: a single slow one is chance, as is a single quick one at the
 * begin. */
TEST(a_group_costs_what_two_readings_took)
{
	const struct gauge_group group = {.name = "x", .read = read_slowly};
	unsigned none[2] = {0, 0}, burnt[2] = {2000, 0}, waited[2] = {0, 2000};
	struct gauge_pace pace = {0};

	for (unsigned turn = 0; turn < 2; turn++) {
		unsigned *slow = turn ? waited : burnt;

		pace = (struct gauge_pace){0};
		assert_int_equal(gauge_pace_read(&pace, &group, slow, NULL, SECOND), 0);
		assert_int_equal(pace.cost_ns, 0);
		assert_int_equal(gauge_pace_read(&pace, &group, slow, NULL, 2 * SECOND), 0);
		assert_true(pace.cost_ns >= 2 * NSEC_PER_MSEC);
		assert_true(turn || pace.cpu_ns >= 2 * NSEC_PER_MSEC);
		assert_int_equal(pace.read_ns, 2 * SECOND);
	}
	/* It comes back at once. */
	assert_int_equal(gauge_pace_read(&pace, &group, none, NULL, 3 * SECOND), 0);
	assert_true(pace.cost_ns == pace.took_ns);
}

/* Sources. */

static void put(const char *path, const char *text)
{
	char whole[PATH_MAX + 128];
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/%s", dir, path);
	for (char *slash = whole + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		(void)mkdir(whole, 0755);
		*slash = '/';
	}
	f = fopen(whole, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const struct gauge_source *source_of(const char *name)
{
	for (unsigned i = 0; i < gauge_sources_count; i++)
		if (streq(gauge_sources[i]->name, name))
			return gauge_sources[i];
	fail_msg("no source %s", name);
	return NULL;
}

static void read_groups(const struct gauge_source *source, void *state, struct gauge_batch *batch)
{
	for (unsigned g = 0; g < GAUGE_GROUPS_MAX && source->group[g].read; g++) {
		batch->group = g;
		batch->groups |= 1U << g;
		assert_int_equal(source->group[g].read(state, batch), 0);
	}
}

static struct gauge_batch *read_source(const char *name, void **ret_state)
{
	const struct gauge_roots roots = {
		dir, dir, "kmsg", CARD_FIXTURES "/libnvidia-ml.so.1", CARD_FIXTURES "/libdcmi.so"};
	const struct gauge_source *source = source_of(name);
	struct gauge_batch *batch = gauge_batch_new(0, GAUGES_MAX);
	char why[160] = "";
	void *state = NULL;

	assert_int_equal(source->open(&roots, &state, why, sizeof(why)), 0);
	read_groups(source, state, batch);
	if (ret_state)
		*ret_state = state;
	else
		source->close(state);
	return batch;
}

/* NAN: there is none. */
static double value_of(const struct gauge_batch *batch, const char *object, const char *name)
{
	for (size_t i = 0; i < batch->count; i++)
		if (streq(batch->read[i].gauge->name, name) && streq(batch->read[i].object, object))
			return batch->read[i].value;
	return NAN;
}

TEST_WITH(the_node, store_setup, store_teardown)
{
	struct gauge_batch *batch;

	put("stat", "cpu  30 0 30 40 1 2 3 4 0 0\ncpu0 100 10 50 700 20 3 4 5 0 0\ncpu7 1 0 0 0 0 0 0 0 0 0\nintr 5\n");
	batch = read_source("cpu", NULL);
	near(value_of(batch, "cpu0", "busy"), 1.67);
	near(value_of(batch, "cpu0", "steal"), 0.05);
	near(value_of(batch, "cpu7", "busy"), 0.01);
	assert_int_equal(batch->count, 10);
	gauge_batch_free(batch);

	put("meminfo", "MemTotal:  100 kB\nMemAvailable:    2048 kB\nDirty: 4 kB\n");
	put("vmstat",
		"pgmajfault_not 5\npgmajfault 77\noom_kill 3\nnuma_miss 4\nnuma_other 9\nnuma_pages_migrated 2\n");
	batch = read_source("memory", NULL);
	near(value_of(batch, "", "available"), 2048 * 1024);
	near(value_of(batch, "", "major_faults"), 77);
	near(value_of(batch, "", "oom_kills"), 3);
	near(value_of(batch, "", "numa_other"), 9);
	near(value_of(batch, "", "numa_miss"), 4);
	near(value_of(batch, "", "numa_migrated"), 2);
	assert_true(isnan(value_of(batch, "", "swap_free")));
	gauge_batch_free(batch);

	put("pressure/cpu",
		"some avg10=1.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0 avg60=0 avg300=0 total=9\n");
	put("pressure/memory", "some avg10=0 avg60=0 avg300=0 total=5\nfull avg10=0 avg60=0 avg300=0 total=3000000\n");
	batch = read_source("pressure", NULL);
	near(value_of(batch, "", "cpu_some"), 2);
	near(value_of(batch, "", "memory_full"), 3);
	assert_true(isnan(value_of(batch, "", "io_some")));
	gauge_batch_free(batch);
}

TEST_WITH(the_network, store_setup, store_teardown)
{
	struct gauge_batch *batch;

	put("1/net/dev", "Inter-|   Receive\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
			 "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
	put("1/net/snmp",
		"Ip: A B\nIp: 1 2\nTcp: RtoAlgorithm InSegs RetransSegs OutRsts\nTcp: 1 900 42 7\nUdp: X\nUdp: 1\n");
	put("class/net/eth0/device/vendor", "");
	put("class/net/eth0/carrier_changes", "6\n");
	put("class/net/eth0/speed", "100000\n");
	batch = read_source("network", NULL);
	near(value_of(batch, "eth0", "received"), 1);
	near(value_of(batch, "eth0", "receive_errors"), 3);
	near(value_of(batch, "eth0", "receive_drops"), 4);
	near(value_of(batch, "eth0", "sent"), 9);
	near(value_of(batch, "eth0", "send_errors"), 11);
	near(value_of(batch, "eth0", "send_drops"), 12);
	near(value_of(batch, "eth0", "link_changes"), 6);
	near(value_of(batch, "eth0", "speed"), 1e11);
	near(value_of(batch, "", "tcp_retransmits"), 42);
	assert_true(isnan(value_of(batch, "lo", "received")));
	gauge_batch_free(batch);

	put("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1000\n");
	put("class/infiniband/mlx5_0/ports/1/counters/link_downed", "2\n");
	put("class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	put("class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "9\n");
	batch = read_source("infiniband", NULL);
	near(value_of(batch, "mlx5_0/1", "received"), 4000);
	near(value_of(batch, "mlx5_0/1", "link_downed"), 2);
	near(value_of(batch, "mlx5_0/1", "out_of_sequence"), 9);
	near(value_of(batch, "mlx5_0/1", "active"), 0);
	assert_int_equal(batch->count, 4);
	gauge_batch_free(batch);
}

#define CARD "GPU-11111111-2222-3333-4444-555555555555"

static void put_cards(const char *text)
{
	char path[PATH_MAX];

	put("cards", text);
	snprintf(path, sizeof(path), "%s/cards", dir);
	setenv("RANKTRACE_CARDS", path, 1);
}

TEST_WITH(what_the_driver_keeps_of_a_cards_memory_is_apart, store_setup, store_teardown)
{
	struct gauge_batch *batch;

	put_cards("0 uuid " CARD "\n0 memory_total 1000\n0 memory_used 600\n0 memory_reserved 15\n"
		  "1 uuid GPU-old\n1 memory_total 1000\n1 memory_used 600\n");
	batch = read_source("nvml", NULL);
	near(value_of(batch, CARD, "memory_used"), 600);
	near(value_of(batch, CARD, "memory_free"), 385);
	near(value_of(batch, "GPU-old", "memory_used"), 600);
	near(value_of(batch, "GPU-old", "memory_free"), 400);
	gauge_batch_free(batch);
}

TEST_WITH(the_cards, store_setup, store_teardown)
{
	struct gauge_batch *batch;

	put("4711/comm", "python\x1b[31m\n");
	put_cards(
		"0 uuid " CARD
		"\n0 pci 0000:3b:00\n0 serial 165\n0 name H\n0 minor 3\n0 utilization 98\n0 memory_busy 40\n"
		"0 power_mw 650000\n0 clock_sm_mhz 1200\n0 clock_sm_max_mhz 1980\n0 reasons 0x44\n0 nvlinks 2\n"
		"0 nvlink_replays 5\n0 pcie_width 8\n0 pcie_width_max 16\n0 ecc_uncorrected 1\n0 processes 4711 1000\n"
		"1 uuid GPU-lost\n1 lost 1\n1 utilization 5\n");
	batch = read_source("nvml", NULL);
	near(value_of(batch, CARD, "utilization"), 0.98);
	near(value_of(batch, CARD, "power"), 650);
	near(value_of(batch, CARD, "clock_sm"), 1.2e9);
	near(value_of(batch, CARD, "clock_sm_max"), 1.98e9);
	near(value_of(batch, CARD, "limited_power"), 1);
	near(value_of(batch, CARD, "limited_thermal"), 1);
	near(value_of(batch, CARD, "limited_hardware"), 0);
	near(value_of(batch, CARD, "nvlinks_up"), 2);
	near(value_of(batch, CARD, "nvlink_replays"), 10);
	near(value_of(batch, CARD, "pcie_width"), 8);
	near(value_of(batch, CARD, "ecc_uncorrected"), 1);
	near(value_of(batch, CARD, "processes"), 1);
	near(value_of(batch, CARD "/4711 python?[31m", "process_memory"), 1000);
	near(value_of(batch, CARD, "lost"), 0);
	/* Not supported is absent. */
	assert_true(isnan(value_of(batch, CARD, "temperature")) && isnan(value_of(batch, CARD, "ecc_corrected")));
	near(value_of(batch, "GPU-lost", "lost"), 1);
	assert_true(isnan(value_of(batch, "GPU-lost", "utilization")));
	assert_int_equal(batch->cards, 1);
	assert_string_equal(batch->card[0].pci, "0000:3b:00.0");
	assert_string_equal(batch->card[0].serial, "165");
	assert_int_equal(batch->card[0].minor, 3);
	gauge_batch_free(batch);

	put_cards("0 uuid x\n0 temperature 55\n0 power_dw 3105\n0 utilization 70\n0 clock_sm_mhz 1000\n0 health 2\n");
	batch = read_source("dcmi", NULL);
	near(value_of(batch, "npu0/0", "temperature"), 55);
	near(value_of(batch, "npu0/0", "power"), 310.5);
	near(value_of(batch, "npu0/0", "utilization"), 0.7);
	near(value_of(batch, "npu0/0", "clock_sm"), 1e9);
	near(value_of(batch, "npu0/0", "health"), 2);
	assert_int_equal(batch->count, 5);
	gauge_batch_free(batch);
}

/* Of the library that stands in for NVML. */
static unsigned *fixture_counter(const char *name)
{
	void *library = dlopen(CARD_FIXTURES "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	unsigned *counter = library ? dlsym(library, name) : NULL;

	assert_non_null(counter);
	return counter;
}

#define COUNTS \
	"0 uuid " CARD "\n0 utilization 5\n0 ecc_corrected 4\n0 ecc_uncorrected 1\n0 rows_corrected 2\n0 " \
	"rows_uncorrected 3\n0 rows_pending 1\n" \
	"0 pcie_replays 70\n0 nvlinks 3\n0 nvlink_replays 5\n0 nvlink_recoveries 6\n0 nvlink_crc 7\n"

static void expect_counts(const struct gauge_batch *batch)
{
	static const struct {
		const char *name;
		double value;
	} expected[] = {{"ecc_corrected", 4}, {"ecc_uncorrected", 1}, {"rows_remapped_corrected", 2},
		{"rows_remapped_uncorrected", 3}, {"rows_remap_pending", 1}, {"rows_remap_failed", 0},
		{"pcie_replays", 70}, {"nvlinks_up", 3}, {"nvlink_replays", 15}, {"nvlink_recoveries", 18},
		{"nvlink_crc_errors", 42}};

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		if (!(value_of(batch, CARD, expected[i].name) == expected[i].value))
			fail_msg("%s: %g, not %g", expected[i].name, value_of(batch, CARD, expected[i].name),
				expected[i].value);
}

/* Counts of errors by one call for all; where the driver or the card has none, each by its own, with the same
 * values. */
TEST_WITH(counts_of_cards_by_one_call_or_many, store_setup, store_teardown)
{
	static const char *const supported[] = {
		"", "0 fields 3 4 142 143 144 145 94 52 59 38 45\n", "0 fields 4 142 143 144 145 52 38\n"};
	const unsigned link_calls[] = {4 * 3, 0, 2 * 3}; /* kinds of errors, links */
	unsigned *of_links = fixture_counter("nvml_fixture_link_calls");

	for (size_t i = 0; i < ARRAY_SIZE(supported); i++) {
		struct gauge_batch *batch;
		char text[1024];

		snprintf(text, sizeof(text), COUNTS "%s", supported[i]);
		put_cards(text);
		*of_links = 0;
		batch = read_source("nvml", NULL);
		expect_counts(batch);
		assert_int_equal(*of_links, link_calls[i]);
		gauge_batch_free(batch);
	}
	/* Links without counters of errors are asked for each kind once. */
	put_cards("0 uuid " CARD "\n0 utilization 5\n0 nvlinks 3\n");
	*of_links = 0;
	gauge_batch_free(read_source("nvml", NULL));
	assert_int_equal(*of_links, 4);
}

/* One way of counting may see more than another: a count that was read by one is not continued by the other. */
TEST_WITH(a_count_keeps_its_way, store_setup, store_teardown)
{
	const struct gauge_source *source = source_of("nvml");
	struct gauge_batch *batch;
	void *opened;

	put_cards(COUNTS "0 fields 3 52 59 38 45\n");
	gauge_batch_free(read_source("nvml", &opened));
	put_cards(COUNTS "0 fields 4 142 143 144 145 94\n");
	batch = gauge_batch_new(0, GAUGES_MAX);
	read_groups(source, opened, batch);
	assert_true(isnan(value_of(batch, CARD, "nvlink_replays")) && isnan(value_of(batch, CARD, "ecc_corrected")));
	near(value_of(batch, CARD, "ecc_uncorrected"), 1); /* by its own call, as before */
	gauge_batch_free(batch);
	source->close(opened);
}

/*
 * A driver whose calls cost 1 ms of CPU time each, on a clock of the test's: every second each group that is due is
 * read, as the threads do it, and the level is set anew by what they cost. 41 calls in the first second; 0.5 % of a CPU
 * is 5 a second.
 */
TEST_WITH(a_costly_driver_is_read_less_often, store_setup, store_teardown)
{
	const double share = 0.005;
	const unsigned seconds = 120;
	const struct gauge_roots roots = {dir, dir, "kmsg", CARD_FIXTURES "/libnvidia-ml.so.1", "no.so"};
	const struct gauge_source *source = source_of("nvml");
	unsigned *calls = fixture_counter("nvml_fixture_calls"), readings[GAUGE_GROUPS_MAX] = {0}, first;
	struct gauge_pace pace[GAUGE_GROUPS_MAX] = {0};
	double most = INFINITY, need[GAUGE_GROUPS_MAX], urgent;
	uint64_t now_ns = SECOND;
	char why[160];
	void *opened;

	put_cards(COUNTS "0 fields 3 4 142 143 144 145 94 52 59 38 45\n0 burn_us 1000\n");
	assert_int_equal(source->open(&roots, &opened, why, sizeof(why)), 0);
	*calls = first = 0;
	for (unsigned second = 0; second < seconds; second++, now_ns += SECOND) {
		struct gauge_batch *batch = gauge_batch_new(0, GAUGES_MAX);
		size_t needs = 0;

		urgent = 0;
		for (unsigned g = 0; g < GAUGE_GROUPS_MAX && source->group[g].read; g++) {
			if (gauge_pace_is_due(&pace[g], &source->group[g], most, now_ns)) {
				readings[g]++;
				assert_int_equal(
					gauge_pace_read(&pace[g], &source->group[g], opened, batch, now_ns), 0);
			}
			if (source->group[g].is_urgent)
				urgent += gauge_pace_need(&pace[g], &source->group[g]);
			else
				need[needs++] = gauge_pace_need(&pace[g], &source->group[g]);
		}
		gauge_batch_free(batch);
		most = gauge_pace_level(share, urgent, need, needs);
		if (second == 1)
			first = *calls; /* before anything is known */
	}
	for (unsigned g = 0; g < GAUGE_GROUPS_MAX && source->group[g].read; g++) {
		print_message("%s: %u readings in %u s\n", source->group[g].name, readings[g], seconds);
		if (source->group[g].is_urgent)
			assert_int_equal(readings[g], seconds);
		else if (source->group[g].every_s)
			assert_int_equal(readings[g], 2);
		else
			assert_in_range(readings[g], 2, seconds / 2 + 1);
	}
	/* The two first seconds were read as a whole; the share is kept since, but for one reading of each. */
	print_message("%u calls of 1 ms in %u s\n", *calls - first, seconds - 2);
	assert_true(*calls - first <= (unsigned)(share * 1000 * (seconds - 2)) + 40);
	source->close(opened);
}

/* The source, opened: what is written to pair[1] are records. /dev/kmsg gives one a read, as a packet socket does. */
static void *kernel_log_open(const struct gauge_source *source, int pair[2])
{
	int *log;
	void *opened = NULL;
	char why[160];

	assert_int_equal(source->open(&(struct gauge_roots){.kernel_log = "/dev/null"}, &opened, why, sizeof(why)), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	log = opened; /* its descriptor is all that it has */
	assert_int_equal(dup2(pair[0], *log), *log);
	return opened;
}

TEST(the_kernel_log)
{
	static const char *const records[] = {
		"4,10,5000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n SUBSYSTEM=pci\n",
		"6,11,5001,-;usb 1-1: new device\n",
		/* A user's own record, and a program whose name is a driver's word. */
		"12,12,5002,-;NVRM: Xid (PCI:0000:3b:00): 79, forged\n",
		"6,13,5003,-;NVRM: Xid (PCI:[77]: segfault at 0 ip 0 sp 0 error 4 in x): 79, [0]\n",
		"3,14,5004,-;Memory cgroup out of memory: Killed process 4712 (python) total-vm:1kB\n",
		/* Who it is, and that it is lost. */
		"4,16,5006,-;NVRM: GPU at PCI:0000:3b:00: GPU-0b11d014-1685-04bd-26ed-5fc0bc1c44ae\n",
		"4,17,5007,-;NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
		"6,15,5005,-;mlx5_core 0000:5e:00.0 eth2: Link down\n",
	};
	struct gauge_batch *batch = gauge_batch_new(0, 1);
	const struct gauge_source *source = source_of("kernel_log");
	int pair[2];
	void *opened = kernel_log_open(source, pair);

	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		assert_int_equal(write(pair[1], records[i], strlen(records[i])), strlen(records[i]));
	read_groups(source, opened, batch);
	assert_int_equal(batch->texts, 6);
	assert_string_equal(batch->text[0].kind, "xid");
	assert_string_equal(batch->text[0].object, "0000:3b:00");
	assert_int_equal(batch->text[0].number, 79);
	assert_string_equal(
		batch->text[0].text, "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.");
	assert_string_equal(batch->text[1].kind, "card_driver"); /* no card is named */
	assert_string_equal(batch->text[2].kind, "oom_kill");
	assert_string_equal(batch->text[2].object, "python");
	assert_int_equal(batch->text[2].number, 4712);
	assert_string_equal(batch->text[3].kind, "card_driver");
	assert_string_equal(batch->text[4].kind, "card_lost");
	assert_string_equal(batch->text[4].object, "0000:3b:00.0");
	assert_string_equal(batch->text[5].kind, "network_driver");
	assert_string_equal(batch->text[5].object, "0000:5e:00.0");
	gauge_batch_free(batch);
	/* A user whose programs die again and again takes no place from a card. */
	batch = gauge_batch_new(0, 1);
	for (size_t i = 0; i < 2 * GAUGE_MESSAGES_MAX; i++)
		assert_int_equal(write(pair[1], records[4], strlen(records[4])), strlen(records[4]));
	assert_int_equal(write(pair[1], records[0], strlen(records[0])), strlen(records[0]));
	read_groups(source, opened, batch);
	assert_int_equal(batch->texts, GAUGE_MESSAGES_MAX / 2 + 1);
	assert_string_equal(batch->text[GAUGE_MESSAGES_MAX / 2].kind, "xid");
	assert_int_equal(batch->left_out, 3 * GAUGE_MESSAGES_MAX / 2);
	source->close(opened);
	close(pair[0]);
	close(pair[1]);
	gauge_batch_free(batch);
}

static void kernel_log_record(struct gauge_batch *batch, const char *record)
{
	const struct gauge_source *source = source_of("kernel_log");
	int pair[2];
	void *opened = kernel_log_open(source, pair);

	assert_int_equal(write(pair[1], record, strlen(record)), strlen(record));
	read_groups(source, opened, batch);
	source->close(opened);
	close(pair[0]);
	close(pair[1]);
}

/* What the kernel says before it kills a process for memory. */
TEST(the_kernel_log_of_a_kill_for_memory)
{
	static const struct {
		const char *record, *kind, *object;
		int number;
	} cases[] = {
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a/b,"
		 "task_memcg=/a/b/c,task=python,pid=4712,uid=0",
			"oom_limit", "/a/b", 4712},
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
		 "task_memcg=/a/b,task=python,pid=7,uid=1000",
			"oom_limit", "node", 7},
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=1,cpuset=x,mems_allowed=1,global_oom,"
		 "task_memcg=/a,task=python,pid=7,uid=1000",
			"oom_limit", "cpuset", 7},
		/* Long, as those of containers are: its last name. */
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/kubepods.slice/kubepods-burstable.slice/"
		 "kubepods-burstable-pod01234567.slice/cri-containerd-0123456789abcdef.scope,task_memcg=/"
		 "x,task=a,pid=9,uid=0",
			"oom_limit", ".../cri-containerd-0123456789abcdef.scope", 9},
		/* Names that programs and users choose. */
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/"
		 "x,pid=1,uid=0,task=,pid=1,uid=0,"
		 "pid=4712,uid=0",
			"oom_limit", "/a", 4712},
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/x,pid=1,task=a", "oom_limit",
			"/a", 0},
		{"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a", "oom_limit", "", 0}, /* cut */
		{"12,1,1,-;oom-kill:constraint=CONSTRAINT_NONE,pid=7,uid=0", NULL, NULL, 0},	   /* a user's */
		{"6,1,1,-;oom-kill:constraint=", NULL, NULL, 0},
		{"6,1,1,-;Tasks in /a/b are going to be killed due to memory.oom.group set", "oom_group", "/a/b", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gauge_batch *batch = gauge_batch_new(0, 1);
		char record[512];

		snprintf(record, sizeof(record), "%s\n", cases[i].record);
		kernel_log_record(batch, record);
		assert_int_equal(batch->texts, cases[i].kind ? 1 : 0);
		if (cases[i].kind) {
			assert_string_equal(batch->text[0].kind, cases[i].kind);
			assert_string_equal(batch->text[0].object, cases[i].object);
			assert_int_equal(batch->text[0].number, cases[i].number);
		}
		gauge_batch_free(batch);
	}
}

/* The whole: threads, the loop's side, rows in the store. */

static struct gauges_status status_of(const struct gauges *gauges, const char *name)
{
	struct gauges_status status;

	for (unsigned i = 0; gauges_status(gauges, i, &status); i++)
		if (streq(status.source->name, name))
			return status;
	fail_msg("no source %s", name);
	return status;
}

static int64_t ask(const char *sql)
{
	struct reader *reader;
	sqlite3_stmt *statement;
	char error[256];
	int64_t value;

	assert_int_equal(
		reader_open(dir, &(struct reader_options){.warning = warned}, &reader, error, sizeof(error)), 0);
	assert_int_equal(reader_prepare(reader, sql, &statement, error, sizeof(error)), 0);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	reader_close(reader);
	return value;
}

TEST_WITH(a_driver_that_hangs, store_setup, store_teardown)
{
	struct context context = {.store = open_store(), .config.budget_cpu_ppm = 10000};
	struct gauges *gauges;
	uint64_t begin_ns;

	put("stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 100 10 50 700 20 3 4 5 0 0\n");
	put_cards("0 uuid " CARD "\n0 power_mw 1000\n0 utilization 5\n0 memory_busy 5\n0 block_ms 60000\n");
	assert_int_equal(
		gauges_new_at(&context,
			&(struct gauge_roots){dir, dir, "/nowhere", CARD_FIXTURES "/libnvidia-ml.so.1", "no.so"},
			&gauges),
		0);
	for (unsigned i = 0; i < 60 && status_of(gauges, "cpu").rows < 5; i++) {
		usleep(50000);
		begin_ns = monotonic_ns();
		gauges_tick(gauges, begin_ns);
		assert_true(monotonic_ns() - begin_ns < NSEC_PER_SEC / 2);
		if (i == 30)
			put("stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 200 10 50 700 20 90 4 5 0 0\n");
	}
	assert_int_equal(status_of(gauges, "cpu").state, GAUGES_READ);
	assert_int_equal(status_of(gauges, "cpu").count, 5);
	assert_int_equal(status_of(gauges, "dcmi").state, GAUGES_ABSENT);
	assert_int_equal(status_of(gauges, "infiniband").state, GAUGES_ABSENT);
	assert_int_equal(status_of(gauges, "pressure").state, GAUGES_REFUSED);
	assert_int_equal(status_of(gauges, "kernel_log").state, GAUGES_REFUSED);
	assert_int_equal(status_of(gauges, "nvml").count, 0);
	gauges_tick(gauges, monotonic_ns() + 11 * NSEC_PER_SEC);
	assert_int_equal(status_of(gauges, "nvml").state, GAUGES_SILENT);
	/* A source of which nothing is due is not, however long that is; unless the test meets its thread at a
	 * reading. */
	for (unsigned i = 0; i < 20 && status_of(gauges, "cpu").state == GAUGES_SILENT; i++)
		gauges_tick(gauges, monotonic_ns() + 11 * NSEC_PER_SEC);
	assert_int_equal(status_of(gauges, "cpu").state, GAUGES_READ);
	begin_ns = monotonic_ns();
	gauges_free(gauges);
	assert_true(monotonic_ns() - begin_ns < 3 * NSEC_PER_SEC);
	store_close(context.store);
	assert_int_equal(ask("SELECT count(*) FROM gauges WHERE source = 'cpu' AND object = 'cpu0' AND name = 'irq' "
			     "AND value > 0"),
		1);
	assert_int_equal(ask("SELECT count(*) FROM gauges WHERE source = 'nvml'"), 0);
}

static bool is_slow(const struct gauges *gauges, const char *group)
{
	struct gauges_status status = status_of(gauges, "nvml");

	for (size_t g = 0; g < status.groups; g++)
		if (streq(status.group[g].name, group))
			return status.group[g].slow;
	return false;
}

static double cpus_of(const struct gauges *gauges)
{
	struct gauges_status status;
	double cpus = 0;

	for (unsigned i = 0; gauges_status(gauges, i, &status); i++)
		cpus += status.cpus;
	return cpus;
}

/* The daemon's budget sets the pace of a driver in its thread, status says so, and a driver that is quick again is read
 * as before. */
TEST_WITH(the_pace_follows_the_budget, store_setup, store_teardown)
{
	struct context context = {.store = open_store(), .config.budget_cpu_ppm = 30000};
	const double half = 0.5 * 0.03, chance = 1.3; /* of one reading beside another */
	struct gauges *gauges;

	put_cards("0 uuid " CARD "\n0 utilization 5\n0 burn_us 3000\n");
	assert_int_equal(
		gauges_new_at(&context,
			&(struct gauge_roots){dir, dir, "/nowhere", CARD_FIXTURES "/libnvidia-ml.so.1", "no.so"},
			&gauges),
		0);
	for (unsigned i = 0; i < 300 && !(is_slow(gauges, "links") && cpus_of(gauges) < half * chance); i++) {
		usleep(50000);
		gauges_tick(gauges, monotonic_ns());
	}
	assert_true(is_slow(gauges, "usage") && is_slow(gauges, "links") && !is_slow(gauges, "presence"));
	assert_true(cpus_of(gauges) < half * chance);
	for (size_t g = 0; g < status_of(gauges, "nvml").groups; g++) {
		struct gauges_group_status group = status_of(gauges, "nvml").group[g];

		assert_true(group.slow ? group.interval_ns > SECOND
				       : streq(group.name, "limits") || group.interval_ns == SECOND);
		assert_true(group.cpus > 0);
	}
	put_cards("0 uuid " CARD "\n0 utilization 5\n");
	for (unsigned i = 0; i < 600 && is_slow(gauges, "usage"); i++) {
		usleep(50000);
		gauges_tick(gauges, monotonic_ns());
	}
	assert_false(is_slow(gauges, "usage"));
	gauges_free(gauges);
	store_close(context.store);
}

TEST_MAIN(NULL, NULL)
