/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges: samples to rows; each source against files and libraries of the test; a driver that hangs; rows in the store.
 */
#include "tests/unit/store_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/core/context.h"
#include "daemon/gauges/gauges_internal.h"
#include "daemon/gauges/gauges.h"

#define SECOND NSEC_PER_SEC

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

static struct gauge_serieses *new_serieses(unsigned rows_per_second)
{
	kept_count = 0;
	return gauge_serieses_new(rows_per_second, 8, &(struct gauge_sink){keep, NULL, NULL});
}

static void feed(
	struct gauge_serieses *serieses, unsigned second, const struct gauge *gauge, const char *object, double value)
{
	struct gauge_batch *batch = gauge_batch_new(0, 8);

	batch->time_ns = second * SECOND;
	if (gauge)
		gauge_sample(batch, gauge, object, value);
	gauge_serieses_feed(serieses, batch);
	gauge_batch_free(batch);
}

/* Equal samples: a row a minute, the first sample begins it. */
TEST(a_steady_gauge)
{
	struct gauge_serieses *serieses = new_serieses(1);

	for (unsigned i = 1; i <= 130; i++)
		feed(serieses, i, &level, "x", 40);
	assert_int_equal(kept_count, 2);
	assert_int_equal(kept[0].row.start_ns, SECOND);
	assert_int_equal(kept[0].row.duration_ns, GAUGE_STEADY_NS);
	assert_int_equal(kept[1].row.start_ns, 61 * SECOND);
	assert_true(kept[1].row.value == 40 && kept[1].row.least == 40 && kept[1].row.most == 40);
	gauge_serieses_free(serieses);
	assert_int_equal(kept_count, 3);
}

/* Noise below the step: a row each 10 s, with mean, least and most. Beyond it: at once. */
TEST(a_gauge_that_varies)
{
	struct gauge_serieses *serieses = new_serieses(10);

	for (unsigned i = 1; i <= 12; i++)
		feed(serieses, i, &level, "x", i % 2 ? 40 : 42);
	assert_int_equal(kept_count, 1);
	assert_int_equal(kept[0].row.duration_ns, GAUGE_ROW_NS);
	assert_true(kept[0].row.least == 40 && kept[0].row.most == 42);
	assert_true(kept[0].row.value > 40.8 && kept[0].row.value < 41.2);
	feed(serieses, 13, &level, "x", 80);
	assert_int_equal(kept_count, 2);
	assert_int_equal(kept[1].row.start_ns, 11 * SECOND);
	assert_int_equal(kept[1].row.duration_ns, SECOND);
	gauge_serieses_free(serieses);
	assert_true(
		kept[2].row.value == 80 && kept[2].row.start_ns == 12 * SECOND && kept[2].row.duration_ns == SECOND);
}

/* A change by one is a row of its own: the increase is not blurred. */
TEST(a_counter_of_errors)
{
	struct gauge_serieses *serieses = new_serieses(10);

	for (unsigned i = 1; i <= 5; i++)
		feed(serieses, i, &count, "x", i < 4 ? 7 : 8);
	gauge_serieses_free(serieses);
	assert_int_equal(kept_count, 2);
	assert_true(kept[0].row.value == 7 && kept[1].row.value == 8);
	assert_int_equal(kept[1].row.start_ns, 3 * SECOND);
}

/* The increase a second, over the time that has passed; a counter that begins again gives no row below zero. */
TEST(a_rate)
{
	struct gauge_serieses *serieses = new_serieses(10);

	feed(serieses, 1, &rate, "x", 1000);
	feed(serieses, 3, &rate, "x", 1050);
	feed(serieses, 4, &rate, "x", 3);
	feed(serieses, 5, &rate, "x", 13);
	gauge_serieses_free(serieses);
	assert_int_equal(kept_count, 2);
	assert_true(kept[0].row.value == 25 && kept[0].row.start_ns == SECOND && kept[0].row.duration_ns == 2 * SECOND);
	assert_true(kept[1].row.value == 10 && kept[1].row.start_ns == 4 * SECOND);
}

/* More changes than rows: fewer rows over longer times, whose mean, least and most still cover every sample. */
TEST(rows_are_bounded)
{
	struct gauge_serieses *serieses = new_serieses(1);
	double least = 1e9, most = 0, sum = 0, seconds = 0;

	for (unsigned i = 1; i <= 300; i++) {
		struct gauge_batch *batch = gauge_batch_new(0, 8);

		batch->time_ns = i * SECOND;
		for (char object[] = "a"; object[0] < 'f'; object[0]++)
			gauge_sample(batch, &level, object, i % 2 ? 0 : 100);
		gauge_serieses_feed(serieses, batch);
		gauge_batch_free(batch);
	}
	gauge_serieses_free(serieses);
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
	struct gauge_serieses *serieses = new_serieses(10);
	struct gauge_batch *batch = gauge_batch_new(0, 100);

	feed(serieses, 1, &level, "x", 1);
	feed(serieses, 2, &level, "y", 1);
	assert_int_equal(kept_count, 1);
	assert_int_equal(gauge_serieses_count(serieses), 1);
	feed(serieses, 3, NULL, "", 0);
	assert_int_equal(gauge_serieses_count(serieses), 0);
	for (unsigned i = 0; i < 12; i++)
		gauge_sample(batch, &level, (char[]){(char)('a' + i), 0}, 1);
	batch->time_ns = 4 * SECOND;
	gauge_serieses_feed(serieses, batch);
	assert_int_equal(gauge_serieses_count(serieses), 8);
	assert_int_equal(gauge_serieses_left_out(serieses), 4);
	gauge_batch_free(batch);
	gauge_serieses_free(serieses);
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

static struct gauge_batch *read_source(const char *name, void **ret_state)
{
	const struct gauge_roots roots = {dir, dir, "kmsg", CARD_FIXTURES "/libnvidia-ml.so.1", CARD_FIXTURES "/libdcmi.so"};
	const struct gauge_source *source = source_of(name);
	struct gauge_batch *batch = gauge_batch_new(0, GAUGES_MAX);
	char why[160] = "";
	void *state = NULL;

	assert_int_equal(source->open(&roots, &state, why, sizeof(why)), 0);
	assert_int_equal(source->read(state, batch), 0);
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

static void near(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-9 * fmax(1, fabs(expected))))
		fail_msg("%g is not %g", value, expected);
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
	put("vmstat", "pgmajfault_not 5\npgmajfault 77\noom_kill 3\n");
	batch = read_source("memory", NULL);
	near(value_of(batch, "", "available"), 2048 * 1024);
	near(value_of(batch, "", "major_faults"), 77);
	near(value_of(batch, "", "oom_kills"), 3);
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

/* /dev/kmsg gives a record a read, as a packet socket does. */
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
	int pair[2], *log;
	void *opened = NULL;
	char why[160];

	assert_int_equal(source->open(&(struct gauge_roots){.kernel_log = "/dev/null"}, &opened, why, sizeof(why)), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	log = opened; /* its descriptor is all that it has */
	assert_int_equal(dup2(pair[0], *log), *log);
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		assert_int_equal(write(pair[1], records[i], strlen(records[i])), strlen(records[i]));
	assert_int_equal(source->read(opened, batch), 0);
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
	assert_int_equal(source->read(opened, batch), 0);
	assert_int_equal(batch->texts, GAUGE_MESSAGES_MAX / 2 + 1);
	assert_string_equal(batch->text[GAUGE_MESSAGES_MAX / 2].kind, "xid");
	assert_int_equal(batch->left_out, 3 * GAUGE_MESSAGES_MAX / 2);
	source->close(opened);
	close(pair[0]);
	close(pair[1]);
	gauge_batch_free(batch);
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
	struct context context = {.store = open_store()};
	struct gauges *gauges;
	uint64_t begin_ns;

	put("stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 100 10 50 700 20 3 4 5 0 0\n");
	put_cards("0 uuid " CARD "\n0 power_mw 1000\n0 utilization 5\n0 memory_busy 5\n0 block_ms 60000\n");
	assert_int_equal(
		gauges_new_at(&context,
			&(struct gauge_roots){dir, dir, "/nowhere", CARD_FIXTURES "/libnvidia-ml.so.1", "no.so"}, &gauges),
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
	begin_ns = monotonic_ns();
	gauges_free(gauges);
	assert_true(monotonic_ns() - begin_ns < 3 * NSEC_PER_SEC);
	store_close(context.store);
	assert_int_equal(ask("SELECT count(*) FROM gauges WHERE source = 'cpu' AND object = 'cpu0' AND name = 'irq' "
			     "AND value > 0"),
		1);
	assert_int_equal(ask("SELECT count(*) FROM gauges WHERE source = 'nvml'"), 0);
}

TEST_MAIN(NULL, NULL)
