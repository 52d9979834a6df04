/* SPDX-License-Identifier: Apache-2.0 */
/* Hangs and mismatched operations, from stores as the daemon leaves them: who is named, and where nobody is. */
#include "analyzers/offline/merge.h"
#include "analyzers/offline/stall.h"
#include "analyzers/offline/store_feed.h"
#include "tests/unit/offline_script.h"

#define S NSEC_PER_SEC
#define SAMPLE_NS (10 * S)

static struct off_found found;
static unsigned warned_of;
static const char *const node[] = {"node-a", "node-b"};

/* A job as off_make() makes it, of which something stands at `at`; of the ranks of one node each. */
static struct {
	struct store *store[2];
	size_t stores;
	uint64_t at_ns;	 /* nothing that ends later is in the store */
	uint64_t end_ns; /* end of its records */
	uint64_t call_ns;
	const char *communicator; /* of calls */
} job;

static struct store *store_of(int rank)
{
	return job.store[job.stores == 2 && rank >= OFF_RANKS / 2];
}

static void begin(size_t stores, bool ops)
{
	static void (*const put[])(struct store *, const struct off_event *, int64_t) = {
		off_put_stage, off_put_op, off_put_step};

	off_make("job", ops, true);
	job.stores = stores;
	job.at_ns = off.event[off.events / 2].end_ns;
	job.end_ns = job.at_ns + 60 * S;
	job.call_ns = job.at_ns + 20 * OFF_MS;
	job.communicator = OFF_COMMUNICATOR;
	for (size_t i = 0; i < stores; i++)
		job.store[i] = off_store(node[i]);
	for (int i = 0; i < OFF_RANKS; i++) {
		off_put_rank(store_of(i), i, node[stores == 2 && i >= OFF_RANKS / 2], 0);
		if (ops)
			off_put_comm(store_of(i), i);
	}
	for (size_t i = 0; i < off.events; i++)
		if (off.event[i].end_ns <= job.at_ns)
			put[off.event[i].what](
				store_of(off.event[i].rank), &off.event[i], (int64_t)off.event[i].start_ns);
}

static void sample(int rank, uint64_t start_ns, uint64_t end_ns, const char *state, uint64_t cpu_ns)
{
	OFF_ROW(TABLE_HOST_SAMPLES);

	OFF_SET("rank", V_INT(rank));
	OFF_SET("start_ns", V_INT(start_ns));
	OFF_SET("duration_ns", V_INT(end_ns - start_ns));
	OFF_SET("cpu_ns", V_INT(cpu_ns));
	OFF_SET("state", V_TEXT(state));
	OFF_SET("instance", V_INT(rank + 1));
	assert_int_equal(store_put(store_of(rank), TABLE_HOST_SAMPLES, row, schema_columns(table)), 0);
}

/* From the begin of the job to `until`; stopped: whose process is, from at_ns on. */
static void samples(uint64_t until_ns, int stopped)
{
	for (uint64_t from_ns = off.begin_ns; from_ns < until_ns; from_ns += SAMPLE_NS)
		for (int i = 0; i < OFF_RANKS; i++) {
			uint64_t to_ns = from_ns + SAMPLE_NS < until_ns ? from_ns + SAMPLE_NS : until_ns;

			sample(i, from_ns, to_ns, i == stopped && to_ns > job.at_ns ? "T" : "S",
				to_ns < job.at_ns ? S : 0);
		}
}

/* A stage that began at at_ns and was cut off by the end. */
static void cut(int rank, enum stage_kind kind)
{
	OFF_ROW(TABLE_CUT_STAGES);

	OFF_SET("rank", V_INT(rank));
	OFF_SET("step", V_INT(999));
	OFF_SET("stage", V_TEXT(stage_text(kind)));
	OFF_SET("start_ns", V_INT(job.at_ns + 10 * OFF_MS));
	OFF_SET("duration_ns", V_INT(job.end_ns - job.at_ns - 10 * OFF_MS));
	OFF_SET("thread_id", V_INT(1));
	OFF_SET("depth", V_INT(0));
	OFF_SET("instance", V_INT(rank + 1));
	assert_int_equal(store_put(store_of(rank), TABLE_CUT_STAGES, row, schema_columns(table)), 0);
}

/* An operation that was called and is not known to be complete. */
static void call_as(int rank, const char *op, int64_t count, uint64_t seq, const char *seq_from)
{
	OFF_ROW(TABLE_COLLECTIVES);

	OFF_SET("rank", V_INT(rank));
	OFF_SET("communicator", V_TEXT(job.communicator));
	OFF_SET("seq", V_INT(seq));
	OFF_SET("op", V_TEXT(op));
	OFF_SET("dtype", V_TEXT("float32"));
	OFF_SET("count", V_INT(count));
	OFF_SET("bytes", V_INT(4 * count));
	OFF_SET("host_start_ns", V_INT(job.call_ns));
	OFF_SET("tier", V_TEXT("host"));
	OFF_SET("seq_from", V_TEXT(seq_from));
	OFF_SET("family", V_TEXT("gloo"));
	OFF_SET("instance", V_INT(rank + 1));
	assert_int_equal(store_put(store_of(rank), TABLE_COLLECTIVES, row, schema_columns(table)), 0);
}

static void call(int rank, const char *op, int64_t count)
{
	call_as(rank, op, count, off.event[off.events - 1].seq + 1000, "init");
}

static void end_rank(int rank, uint64_t end_ns)
{
	OFF_ROW(TABLE_RANKS);

	OFF_SET("rank", V_INT(rank));
	OFF_SET("world_size", V_INT(OFF_RANKS));
	OFF_SET("job", V_TEXT("job"));
	OFF_SET("host", V_TEXT(node[job.stores == 2 && rank >= OFF_RANKS / 2]));
	OFF_SET("pid", V_INT(100 + rank));
	OFF_SET("start_time_ns", V_INT(off.begin_ns));
	OFF_SET("first_seen_ns", V_INT(off.begin_ns + 1000000));
	OFF_SET("last_seen_ns", V_INT(end_ns));
	OFF_SET("ended", V_INT(1));
	OFF_SET("instance", V_INT(rank + 1));
	assert_int_equal(store_put(store_of(rank), TABLE_RANKS, row, schema_columns(table)), 0);
}

static void end_all(uint64_t end_ns)
{
	for (int i = 0; i < OFF_RANKS; i++)
		end_rank(i, end_ns);
}

static void on_warning(void *arg, const char *sentence)
{
	(void)arg;
	fprintf(stderr, "%s\n", sentence);
	warned_of++;
}

static void judge(void)
{
	const struct merge_options merging = {.warning = on_warning};
	const struct store_feed_options all = {.warning = on_warning};
	struct store_feed *feed[2] = {NULL};
	struct source source[2];
	struct detect *detect = off_detect(&found);
	char error[512] = "", path[PATH_MAX];
	uint64_t end_ns;
	size_t failed;

	warned_of = 0;
	for (size_t i = 0; i < job.stores; i++) {
		assert_int_equal(store_flush(job.store[i], realtime_ns()), 0);
		store_close(job.store[i]);
		snprintf(path, sizeof(path), "%s/%s", dir, node[i]);
		if (store_feed_open(path, &all, &feed[i], error, sizeof(error)) < 0)
			fail_msg("%s", error);
		source[i] = (struct source){&store_feed_source, feed[i]};
	}
	assert_int_equal(merge_run(source, job.stores, detect, &merging, &end_ns, &failed), 0);
	assert_int_equal(failed + warned_of, 0);
	for (size_t i = 0; i < job.stores; i++)
		store_feed_close(feed[i]);
	detect_free(detect);
}

static void assert_nobody(void)
{
	judge();
	for (size_t i = 0; i < found.count; i++)
		if (found.finding[i].state == FINDING_OPEN || found.finding[i].state == FINDING_CLOSED)
			fail_msg("%s", found.finding[i].sentence);
}

static const struct finding *assert_hang(enum finding_cause cause, int rank)
{
	const struct finding *hang;

	judge();
	hang = off_only(&found, FINDING_HANG);
	assert_non_null(hang);
	assert_string_equal(finding_cause_word(hang->cause), finding_cause_word(cause));
	assert_int_equal(hang->rank, rank);
	assert_true(hang->since_ns >= job.at_ns - 500 * OFF_MS && hang->since_ns <= job.at_ns + 500 * OFF_MS);
	return hang;
}

/* Rank 2 has not called what the others wait in. All are killed in the end. */
static void missing(size_t stores)
{
	const struct finding *hang;

	begin(stores, true);
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i != 2)
			call(i, "AllReduce", 1000);
		cut(i, i == 2 ? STAGE_FORWARD : STAGE_BACKWARD);
	}
	end_all(job.end_ns);
	hang = assert_hang(CAUSE_MISSING, 2);
	assert_string_equal(hang->host, node[stores - 1]);
	assert_true(hang->until_ns >= job.end_ns - 2 * S && hang->until_ns <= job.end_ns + 5 * S);
	assert_non_null(strstr(hang->sentence, "3 others waited in backward"));
}

static void test_missing(void **state)
{
	(void)state;
	missing(1);
}

/* Each node alone knows but a part of it. */
static void test_missing_across(void **state)
{
	(void)state;
	missing(2);
}

/* Records of rank 1 were lost: it is not behind, its numbers are. */
static void test_missing_beside_lost(void **state)
{
	const struct finding *hang;

	(void)state;
	begin(1, true);
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i == 1)
			call_as(i, "AllReduce", 1000, 7, "attach");
		else if (i != 2)
			call(i, "AllReduce", 1000);
		cut(i, i == 2 ? STAGE_FORWARD : STAGE_BACKWARD);
	}
	end_all(job.end_ns);
	hang = assert_hang(CAUSE_MISSING, 2);
	assert_null(strstr(hang->sentence, "rank 1"));
	assert_null(strstr(hang->sentence, "ranks 1"));
}

/* Rank 2 calls its first operation there much later, and its records are lost only then. */
static void test_missing_before_lost(void **state)
{
	(void)state;
	begin(1, true);
	samples(job.end_ns, -1);
	job.communicator = "000000000000beef";
	for (int i = 0; i < OFF_RANKS; i++) {
		off_put_comm_of(store_of(i), i, job.communicator, 100 + i);
		cut(i, STAGE_BACKWARD);
		if (i != 2)
			call_as(i, "AllReduce", 1000, 1, "init");
	}
	job.call_ns = job.end_ns - S;
	call_as(2, "AllReduce", 1000, 1, "init");
	job.call_ns += 10 * OFF_MS;
	call_as(2, "AllReduce", 1000, 7, "attach");
	end_all(job.end_ns);
	assert_hang(CAUSE_MISSING, 2);
}

#define UNSURE_CALLS (STALL_ROWS_MAX + 1000)

/* Calls of rank 1 do not displace those of the others. */
static void test_missing_beside_many_lost(void **state)
{
	(void)state;
	begin(1, true);
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i != 1 && i != 2)
			call(i, "AllReduce", 1000);
		cut(i, STAGE_BACKWARD);
	}
	for (uint64_t seq = 1; seq <= UNSURE_CALLS; seq++) {
		call_as(1, "AllReduce", 1000, seq, "attach");
		job.call_ns += 20 * S / UNSURE_CALLS;
		if (seq % 20000 == 0)
			assert_int_equal(store_flush(job.store[0], realtime_ns()), 0);
	}
	end_all(job.end_ns);
	assert_hang(CAUSE_MISSING, 2);
}

/* Of stages alone, and still so at the end of what there is. */
static void test_missing_stages(void **state)
{
	const struct finding *hang;

	(void)state;
	begin(1, false);
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++)
		cut(i, i == 2 ? STAGE_DATALOADER : STAGE_BACKWARD);
	hang = assert_hang(CAUSE_DATALOADER, 2);
	assert_int_equal(hang->state, FINDING_OPEN);
	assert_true(hang->cost_card_hours > 0.9 * OFF_RANKS * 55 / 3600 &&
		    hang->cost_card_hours < 1.1 * OFF_RANKS * 60 / 3600);
}

static void test_stopped(void **state)
{
	const struct finding *hang;

	(void)state;
	begin(1, false);
	samples(job.end_ns, 1);
	hang = assert_hang(CAUSE_STOPPED, 1);
	assert_non_null(strstr(hang->sentence, "state T"));
}

/* And goes on: the rest of the job is there, later. */
static void test_stopped_over(void **state)
{
	const struct finding *hang;
	uint64_t later_ns = 40 * S;

	(void)state;
	begin(1, false);
	samples(job.at_ns + later_ns, 1);
	for (size_t i = 0; i < off.events; i++)
		if (off.event[i].end_ns > job.at_ns) {
			uint64_t shift_ns = off.event[i].start_ns > job.at_ns ? later_ns : 0;
			struct off_event event = off.event[i];

			event.start_ns += shift_ns;
			event.end_ns += later_ns;
			(event.what == OFF_STAGE ? off_put_stage : off_put_step)(
				job.store[0], &event, (int64_t)event.start_ns);
		}
	job.end_ns = job.at_ns + later_ns;
	hang = assert_hang(CAUSE_STOPPED, 1);
	assert_int_equal(hang->state, FINDING_CLOSED);
	assert_true(hang->until_ns >= job.end_ns - 2 * S && hang->until_ns <= job.end_ns + 3 * S);
}

/* Members of two nodes: neither sees it alone. They fail at once, as gloo does. */
static void mismatch(const char *op, int64_t count, enum finding_cause cause, uint64_t after_ns)
{
	const struct finding *finding;

	begin(2, true);
	job.end_ns = job.at_ns + after_ns;
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++)
		call(i, i == 3 ? op : "AllReduce", i == 3 ? count : 1000);
	for (int i = 0; i < OFF_RANKS; i++)
		end_rank(i, job.end_ns + (uint64_t)i * 150 * OFF_MS);
	judge();
	finding = off_only(&found, FINDING_MISMATCH);
	assert_non_null(finding);
	assert_string_equal(finding_cause_word(finding->cause), finding_cause_word(cause));
	assert_int_equal(finding->rank, 3);
	assert_string_equal(finding->communicator, OFF_COMMUNICATOR);
	assert_null(off_only(&found, FINDING_HANG));
}

static void test_type_mismatch(void **state)
{
	(void)state;
	mismatch("Broadcast", 1000, CAUSE_TYPE_MISMATCH, 300 * OFF_MS);
}

static void test_size_mismatch(void **state)
{
	(void)state;
	mismatch("AllReduce", 2000, CAUSE_SIZE_MISMATCH, 300 * OFF_MS);
}

static void test_mismatch_stands(void **state)
{
	(void)state;
	mismatch("AllReduce", 2000, CAUSE_SIZE_MISMATCH, 40 * S);
}

/* A daemon that came later saw the ranks first when it began. */
static void test_another_daemon(void **state)
{
	uint64_t begin_ns;

	(void)state;
	begin(1, false);
	samples(job.end_ns, 1);
	begin_ns = off.begin_ns;
	off.begin_ns = job.end_ns + 200 * S;
	for (int i = 0; i < OFF_RANKS; i++)
		off_put_rank(job.store[0], i, node[0], 0);
	off.begin_ns = begin_ns;
	assert_hang(CAUSE_STOPPED, 1);
}

static void test_clean_end(void **state)
{
	(void)state;
	begin(1, true);
	samples(job.at_ns + S, -1);
	end_all(job.at_ns + S);
	assert_nobody();
}

/* Its last words are those of all ranks; nobody knows what came then. */
static void test_daemon_stopped(void **state)
{
	(void)state;
	begin(2, true);
	samples(job.at_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++)
		cut(i, STAGE_BACKWARD);
	assert_nobody();
}

/* Half a minute of which there is nothing, in the middle of a stage. */
static void test_not_watched(void **state)
{
	uint64_t later_ns = 90 * S;

	(void)state;
	begin(1, true);
	samples(job.at_ns, -1);
	for (uint64_t from_ns = job.at_ns + later_ns; from_ns < job.at_ns + later_ns + 60 * S; from_ns += SAMPLE_NS)
		for (int i = 0; i < OFF_RANKS; i++)
			sample(i, from_ns, from_ns + SAMPLE_NS, "S", S);
	/* It goes on some seconds after it is watched again. */
	for (size_t i = 0; i < off.events; i++)
		if (off.event[i].start_ns > job.at_ns) {
			struct off_event event = off.event[i];

			event.start_ns += later_ns + 8 * S;
			event.end_ns += later_ns + 8 * S;
			if (event.what != OFF_OP)
				(event.what == OFF_STAGE ? off_put_stage : off_put_step)(
					job.store[0], &event, (int64_t)event.start_ns);
		}
	assert_nobody();
}

static void test_long_checkpoint(void **state)
{
	(void)state;
	begin(1, true);
	samples(job.end_ns, -1);
	for (int i = 0; i < OFF_RANKS; i++)
		cut(i, STAGE_CHECKPOINT);
	end_all(job.end_ns);
	assert_nobody();
}

#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_missing),
		T(test_missing_across),
		T(test_missing_beside_lost),
		T(test_missing_before_lost),
		T(test_missing_beside_many_lost),
		T(test_missing_stages),
		T(test_stopped),
		T(test_stopped_over),
		T(test_type_mismatch),
		T(test_size_mismatch),
		T(test_mismatch_stands),
		T(test_another_daemon),
		T(test_clean_end),
		T(test_daemon_stopped),
		T(test_not_watched),
		T(test_long_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
