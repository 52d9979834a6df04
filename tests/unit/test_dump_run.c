/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of a store made by hand: what is in the files is what was stored, each row once, whatever comes between;
 * windows turn, old ones go; a disk that takes no more changes nothing. Files are parsed here, by the wire format and
 * nothing of ours.
 */
#include "tests/unit/store_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "analyzers/dump/dump_folder.h"
#include "analyzers/dump/dump_run.h"
#include "analyzers/dump/dump_state.h"
#include "tests/unit/dump_script.h"

#define NOW (1763737500ULL * NSEC_PER_SEC) /* 2025-11-21 15:05 UTC */
#define WINDOW (3600ULL * NSEC_PER_SEC)

static char dumps[PATH_MAX];

static int setup(void **state)
{
	int r = store_setup(state);

	setenv("TZ", "UTC", 1);
	snprintf(dumps, sizeof(dumps), "%s/dump", dir);
	return r;
}

static struct dump_options how_at(uint64_t now_ns)
{
	return (struct dump_options){.state_dir = dir,
		.dir = dumps,
		.kinds = (1U << DUMP_KIND_MAX) - 1,
		.extend = true,
		.now_ns = now_ns,
		.window_ns = WINDOW,
		.bytes_max = 1 << 30,
		.age_max_ns = 100 * WINDOW,
		.warning = warned};
}

static long dump_at(uint64_t now_ns)
{
	struct dump_options how = how_at(now_ns);

	return dump_with(&how);
}

struct content {
	unsigned char *data;
	size_t size;
};

static struct content load(const char *name)
{
	struct content content = {0};
	char path[2 * PATH_MAX];
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dumps, name);
	f = fopen(path, "re");
	if (!f)
		return content;
	assert_int_equal(fstat(fileno(f), &st), 0);
	content.data = calloc(1, (size_t)st.st_size + 1);
	assert_non_null(content.data);
	content.size = fread(content.data, 1, (size_t)st.st_size, f);
	fclose(f);
	return content;
}

static uint64_t varint(const unsigned char **p, const unsigned char *end)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		unsigned char byte = *(*p)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	fail_msg("a number does not end");
	return 0;
}

/* The next field of a message: its number; *ret_value: an integer, or the length of what starts at *ret_bytes. */
static unsigned next_field(
	const unsigned char **p, const unsigned char *end, uint64_t *ret_value, const unsigned char **ret_bytes)
{
	uint64_t tag = varint(p, end);

	*ret_value = varint(p, end);
	*ret_bytes = *p;
	assert_true((tag & 7) == 0 || (tag & 7) == 2);
	if ((tag & 7) == 2) {
		assert_true(*ret_value <= (uint64_t)(end - *p));
		*p += *ret_value;
	}
	return (unsigned)(tag >> 3);
}

/* How often a message of the file has the field; and the sum of the integers `inner` within, where that is not 0. */
static unsigned count_fields(const char *name, unsigned number, unsigned inner, uint64_t *ret_sum)
{
	struct content content = load(name);
	const unsigned char *p = content.data, *end = p + content.size, *bytes, *q, *unused;
	uint64_t value, part;
	unsigned count = 0;

	*ret_sum = 0;
	while (p < end) {
		if (next_field(&p, end, &value, &bytes) != number)
			continue;
		count++;
		for (q = bytes; inner && q < bytes + value;)
			if (next_field(&q, bytes + value, &part, &unused) == inner)
				*ret_sum += part;
	}
	free(content.data);
	return count;
}

static unsigned count_lines(const char *name)
{
	struct content content = load(name);
	unsigned lines = 0;

	for (size_t i = 0; i < content.size; i++)
		lines += content.data[i] == '\n';
	free(content.data);
	return lines;
}

static void put_process(struct store *store, int64_t instance, int64_t rank)
{
	store_put_ranks(store, &(struct row_ranks){
				       .rank = field_int(rank),
				       .local_rank = field_int(rank),
				       .job = field_text("job"),
				       .host = field_text("node"),
				       .pid = field_int(100 + instance),
				       .instance = field_int(instance),
			       });
}

static void put_op(struct store *store, int64_t instance, int64_t rank, int64_t seq, uint64_t at_ns)
{
	const struct row_collectives row = {.rank = field_int(rank),
		.communicator = field_text("c0ffee"),
		.seq = field_int(seq),
		.op = field_text("AllGather"),
		.dtype = field_text("float32"),
		.count = field_int(64),
		.bytes = field_int(256),
		.host_start_ns = field_time(at_ns),
		.host_duration_ns = field_duration(1000),
		.device_start_ns = field_time(at_ns + 100),
		.device_duration_ns = field_duration(500),
		.tier = field_text("device"),
		.seq_from = field_text("init"),
		.result = field_int(0),
		.family = field_text("nccl"),
		.thread_id = field_int(9),
		.instance = field_int(instance)};

	store_put_collectives(store, &row);
}

#define STACK 77
#define FRAMES "python main (/job/gpt.py:9)\npython burn (/job/gpt.py:54)"
#define FRAMES_BYTES (2 + strlen("main (gpt.py:9)") + 2 + strlen("burn (gpt.py:54)")) /* as messages */

static void put_memory(struct store *store, int64_t instance, const char *op, int64_t address, int64_t bytes,
	int result, uint64_t at_ns)
{
	const struct row_allocations row = {.rank = field_int(0),
		.step = field_int(4),
		.stage = field_text("backward"),
		.op = field_text(op),
		.address = field_int_if(address, address),
		.bytes = field_int(bytes),
		.result = field_int(result),
		.start_ns = field_time(at_ns),
		.duration_ns = field_duration(10),
		.stack = field_int_if(bytes != 0, address > 5 * 4096 ? STACK : STACK + 1), /* one without a row */
		.thread_id = field_int(9),
		.instance = field_int(instance)};

	store_put_allocations(store, &row);
}

static void put_offcpu(struct store *store, int64_t instance, int64_t thread, int64_t delay_ns, uint64_t at_ns)
{
	const struct row_offcpu row = {.rank = field_int(0),
		.thread_id = field_int(thread),
		.thread_name = field_text("pt_\xff"),
		.start_ns = field_time(at_ns),
		.duration_ns = field_duration(2000000),
		.run_delay_ns = field_duration(delay_ns),
		.next_pid = field_int(77),
		.next_name = field_text("cpu"),
		.instance = field_int(instance)};

	store_put_offcpu(store, &row);
}

#define L0 "timeline/node--00000--101.timeline"
#define L2 "hbm_trace/hbm_trace_trace_rank0_101.pb"
#define L3 "osprobe/os_trace_20251121_15_rank_0_101.pb"

static void put_all(struct store *store, uint64_t at_ns)
{
	put_process(store, 1, 0);
	put_process(store, 2, 1);
	store_put_call_stacks(store,
		&(struct row_call_stacks){.id = field_int(STACK), .frames = field_text(FRAMES), .cut = field_int(0)});
	for (unsigned i = 0; i < 10; i++) {
		put_stage(store, 1, "dataloader", at_ns + i * NSEC_PER_SEC, 5000000);
		put_op(store, 1, 0, i + 1, at_ns + i * NSEC_PER_SEC);
		put_op(store, 2, 1, i + 1, at_ns + i * NSEC_PER_SEC);
		put_memory(store, 1, "cudaMalloc", 4096 * (i + 1), 100, 0, at_ns);
		put_offcpu(store, 1, 5, 1000, at_ns + i * NSEC_PER_SEC);
	}
	put_memory(store, 1, "cudaMalloc", 0, 100, 2, at_ns); /* failed */
	put_memory(store, 1, "cudaFree", 4096, 0, 0, at_ns);
	assert_int_equal(store_flush(store, at_ns), 0);
}

static void check_all(unsigned times)
{
	uint64_t sum;

	assert_int_equal(count_fields(L0, 1, 0, &sum), 10 * times);
	assert_int_equal(count_fields(L0, 4, 0, &sum), 1); /* the job, once a file */
	assert_int_equal(count_fields(L2, 2, 4, &sum), 10 * times);
	assert_int_equal(sum, 1000 * times);
	(void)count_fields(L2, 2, 5, &sum); /* frames of five of them */
	assert_int_equal(sum, 5 * FRAMES_BYTES * times);
	assert_int_equal(count_fields(L2, 3, 1, &sum), times);
	assert_int_equal(sum, 4096 * times);
	assert_int_equal(count_fields(L3, 1, 3, &sum), 10 * times);
	assert_int_equal(sum, 20000 * times);
	(void)count_fields(L3, 1, 4, &sum); /* 1000, 2000, 3000 ...: of the thread so far */
	assert_int_equal(sum, 1000 * (10 * times) * (10 * times + 1) / 2);
}

static unsigned csv_lines(unsigned rank)
{
	char command[2 * PATH_MAX], name[PATH_MAX] = "";
	FILE *f;

	snprintf(command, sizeof(command), "cd '%s' && ls mspti/hccl_activity-*-.%u.csv", dumps, rank);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(name, sizeof(name), f));
	pclose(f);
	name[strcspn(name, "\n")] = 0;
	return count_lines(name);
}

TEST_WITH(every_row_comes_once, setup, store_teardown)
{
	struct store *store = open_store();

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	assert_int_equal(dump_at(NOW), 10 + 20 + 11 + 10);
	check_all(1);
	assert_int_equal(csv_lines(0), 1 + 40);
	assert_int_equal(csv_lines(1), 1 + 40);
	assert_int_equal(dump_at(NOW + NSEC_PER_SEC), 0);
	check_all(1);
	put_all(store, NOW - 3000 * NSEC_PER_SEC); /* rows that come late, by their times */
	assert_int_equal(dump_at(NOW + 2 * NSEC_PER_SEC), 51);
	check_all(2);
	assert_int_equal(csv_lines(0), 1 + 80);
	/* What is older than a window when the first dump comes was nobody's wish. */
	put_all(store, NOW - 3 * WINDOW);
	assert_int_equal(dump_at(NOW + 3 * NSEC_PER_SEC), 0);
	store_close(store);
}

TEST_WITH(marks_of_one_operation_have_one_number, setup, store_teardown)
{
	struct store *store = open_store();
	char command[3 * PATH_MAX];

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	assert_int_equal(dump_at(NOW), 51);
	snprintf(command, sizeof(command),
		"cd '%s/mspti' && cut -d, -f1,2,4 *.0.csv >../a && cut -d, -f1,2,4 *.1.csv >../b && cmp ../a ../b && "
		"[ $(cut -d, -f2 *.0.csv | sort -u | wc -l) = 11 ]",
		dumps);
	assert_int_equal(system(command), 0);
	store_close(store);
}

static void set_hidden(const char *name, unsigned long run, const char *text)
{
	const char *slash = strchr(name, '/');
	char path[2 * PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%.*s/.%s.%lu.new", dumps, (int)(slash - name), name, slash + 1, run);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST_WITH(what_ended_a_dump_is_mended, setup, store_teardown)
{
	struct store *store = open_store();
	struct dump_state saved;
	struct content content;
	uint64_t sum;

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	assert_int_equal(dump_at(NOW), 51);
	assert_int_equal(dump_state_load(dumps, &saved), 0);
	/* Ended after the state and before the names: the file is as whole as the state says. */
	set_hidden(L0, saved.run, "named");
	/* Ended before the state: as if it had never been. */
	set_hidden(L2, saved.run + 1, "forgotten");
	dump_state_clear(&saved);
	assert_int_equal(dump_at(NOW + NSEC_PER_SEC), 0);
	content = load(L0);
	assert_string_equal((const char *)content.data, "named");
	free(content.data);
	assert_int_equal(count_fields(L2, 2, 0, &sum), 10);
	sh("[ -z \"$(find '%s/dump' -name '.*.new')\" ]", dir);
	store_close(store);
}

TEST_WITH(windows_turn_and_old_ones_go, setup, store_teardown)
{
	struct store *store = open_store();
	struct dump_options how;
	struct dump_state saved;
	uint64_t sum;

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	assert_int_equal(dump_at(NOW), 51);
	put_all(store, NOW);
	assert_int_equal(dump_at(NOW + WINDOW), 51); /* the next hour */
	assert_int_equal(count_fields(L0, 1, 0, &sum), 10);
	assert_int_equal(count_fields("old/20251121T150000Z/" L0, 1, 0, &sum), 10);
	assert_int_equal(count_fields("osprobe/os_trace_20251121_16_rank_0_101.pb", 1, 4, &sum), 10);
	assert_int_equal(sum, 55000); /* delays begin anew with the file */
	/* By size: a level whose files have an eighth of all begins new ones within the hour. */
	how = how_at(NOW + WINDOW + NSEC_PER_SEC);
	how.bytes_max = 36000;
	put_all(store, NOW);
	assert_int_equal(dump_with(&how), 51);
	sh("[ -n \"$(find '%s/dump/old/20251121T160000Z/mspti' -name '*.csv')\" ]", dir);
	/* By age. */
	how = how_at(NOW + 200 * WINDOW);
	assert_int_equal(dump_with(&how), 0);
	sh("[ -z \"$(find '%s/dump/old' -name '*.csv' -path '*T15*')\" ]", dir);
	assert_int_equal(dump_state_load(dumps, &saved), 0);
	assert_int_equal(saved.level[DUMP_L0].wrote.rows, 10);
	dump_state_clear(&saved);
	store_close(store);
}

TEST_WITH(all_files_together_are_bounded, setup, store_teardown)
{
	struct dump_kept kept;
	struct store *store;

	options.segment_ns = 24 * WINDOW; /* each is opened for each dump */
	store = open_store();
	for (unsigned i = 0; i < 30; i++) {
		struct dump_options how = how_at(NOW + i * WINDOW);

		how.bytes_max = 20000;
		put_all(store, NOW + i * WINDOW - NSEC_PER_SEC);
		assert_int_equal(dump_with(&how), 51);
	}
	assert_int_equal(dump_folder_keep(dumps, 20000, 1000 * WINDOW, NOW + 30 * WINDOW, &kept), 0);
	assert_in_range(kept.bytes, 10000, 20000);
	sh("cd '%s/dump/old' && [ ! -e 20251121T150000Z ] && [ -e 20251122T190000Z ]", dir); /* the newest of them */
	store_close(store);
}

/* A limit of the process stands for the disk: writing fails in the middle. */
TEST_WITH(a_full_disk_changes_nothing, setup, store_teardown)
{
	struct rlimit before, little = {256, 256};
	struct store *store = open_store();

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	assert_int_equal(dump_at(NOW), 51);
	put_all(store, NOW - 50 * NSEC_PER_SEC);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_true(dump_at(NOW + NSEC_PER_SEC) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	check_all(1);
	sh("[ -z \"$(find '%s/dump' -name '.*.new')\" ]", dir);
	assert_int_equal(dump_at(NOW + 2 * NSEC_PER_SEC), 51);
	check_all(2);
	store_close(store);
}

TEST_WITH(a_folder_of_ones_own_has_what_was_asked_for, setup, store_teardown)
{
	struct store *store = open_store();
	struct dump_options how = how_at(NOW);
	uint64_t sum;

	put_all(store, NOW - 100 * NSEC_PER_SEC);
	put_all(store, NOW - 5000 * NSEC_PER_SEC);
	how.extend = false;
	how.since_ns = NOW - 200 * NSEC_PER_SEC;
	how.kinds = 1U << DUMP_L0 | 1U << DUMP_L1;
	for (unsigned i = 0; i < 2; i++) { /* the second run replaces the first */
		assert_int_equal(dump_with(&how), 30);
		assert_int_equal(count_fields(L0, 1, 0, &sum), 10);
		assert_int_equal(csv_lines(1), 41);
	}
	assert_null(load(L2).data);
	how.kinds = 1U << DUMP_L1;
	assert_int_equal(ranges_parse("1", &how.ranks), 0);
	assert_int_equal(dump_with(&how), 10);
	store_close(store);
}

TEST_WITH(a_store_begun_anew_is_followed_anew, setup, store_teardown)
{
	struct store *store = open_store();

	options.segment_ns = 3600 * NSEC_PER_SEC;
	for (unsigned i = 0; i < 5; i++)
		put_all(store, NOW - (5 - i) * WINDOW); /* five segments */
	assert_true(dump_at(NOW) >= 51);
	store_close(store);
	sh("rm -rf '%s/db'", dir);
	store = open_store();
	put_all(store, NOW);
	assert_int_equal(dump_at(NOW + NSEC_PER_SEC), 51);
	store_close(store);
}

TEST_MAIN(NULL, NULL)
