/* SPDX-License-Identifier: Apache-2.0 */
/* Hangs and mismatched operations, from stores as the daemon leaves them: who is named, and where nobody is. */
#include "analyzers/offline/merge.h"
#include "analyzers/offline/store_feed.h"
#include "tests/unit/offline_script.h"

#define S NSEC_PER_SEC

static struct off_found found;
static unsigned warned_of;
static const char *const node[] = {"node-a", "node-b"};

/* What the daemon writes of a rank while it is silent. */
struct stand {
	const char *state;
	enum stage_kind stage;
	const char *op;
	int64_t count;
	uint64_t seq, ended_ns;
	const char *seq_from;
	struct field_text main_thread;
};

/* A job as off_make() makes it, of which all stand at `at`; of the ranks of one node each. */
static struct {
	struct store *store[2];
	size_t stores;
	uint64_t at_ns;	 /* nothing that ends later is in the store */
	uint64_t end_ns; /* end of its records */
	struct stand rank[OFF_RANKS];
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
	for (size_t i = 0; i < stores; i++)
		job.store[i] = off_store(node[i]);
	for (int i = 0; i < OFF_RANKS; i++) {
		job.rank[i] = (struct stand){.state = "S", .stage = STAGE_USER, .op = ""};
		off_put_rank(store_of(i), i, node[stores == 2 && i >= OFF_RANKS / 2], 0);
		if (ops)
			off_put_comm(store_of(i), i);
	}
	for (size_t i = 0; i < off.events; i++)
		if (off.event[i].end_ns <= job.at_ns)
			put[off.event[i].what](
				store_of(off.event[i].rank), &off.event[i], (int64_t)off.event[i].start_ns);
}

/* for_ns 0: it was written because a rank ended. */
static void stand_row(int rank, uint64_t now_ns, uint64_t ended_ns, uint64_t for_ns)
{
	const struct stand *stand = &job.rank[rank];
	uint64_t stage_ns = stand->stage == STAGE_USER ? 0 : job.at_ns + 10 * OFF_MS;

	store_put_standings(store_of(rank), &(struct row_standings){.rank = field_int(rank),
						    .start_ns = field_time(now_ns),
						    .duration_ns = field_duration(for_ns),
						    .state = field_text(stand->state),
						    .ended_ns = field_time_if(ended_ns && ended_ns <= now_ns, ended_ns),
						    .progress_ns = field_time(stage_ns ? stage_ns : job.at_ns),
						    .step_end_ns = field_time(job.at_ns),
						    .steps = field_int(100),
						    .stage = field_text(stage_text(stand->stage)),
						    .stage_since_ns = field_time_if(stage_ns, stage_ns),
						    .cpu_ns = field_duration(S),
						    .main_thread = stand->main_thread,
						    .instance = field_int(rank + 1)});
}

static void stand_call(int rank, uint64_t now_ns)
{
	const struct stand *stand = &job.rank[rank];

	store_put_standing_calls(store_of(rank), &(struct row_standing_calls){.rank = field_int(rank),
							 .start_ns = field_time(now_ns),
							 .communicator = field_text(OFF_COMMUNICATOR),
							 .seq = field_int(stand->seq),
							 .seq_from = field_text(stand->seq_from),
							 .op = field_text(stand->op),
							 .dtype = field_text("float32"),
							 .count = field_int(stand->count),
							 .bytes = field_int(4 * stand->count),
							 .called_ns = field_time(job.at_ns + 20 * OFF_MS),
							 .completed_seq = field_int(stand->seq - 1),
							 .instance = field_int(rank + 1)});
}

/* From 3 s of silence on, of ranks first to last; each row holds for so long. Calls do not change. */
static void stands_for(int first, int last, uint64_t until_ns, uint64_t for_ns)
{
	for (uint64_t now_ns = job.at_ns + 3 * S; now_ns <= until_ns; now_ns += for_ns)
		for (int i = first; i <= last; i++) {
			stand_row(i, now_ns, job.rank[i].ended_ns, for_ns);
			if (now_ns == job.at_ns + 3 * S && job.rank[i].seq_from)
				stand_call(i, now_ns);
		}
}

static void stands(int first, int last, uint64_t until_ns)
{
	stands_for(first, last, until_ns, S);
}

static void all_stand(void)
{
	stands(0, OFF_RANKS - 1, job.end_ns);
}

static void call_as(int rank, const char *op, int64_t count, uint64_t seq, const char *seq_from)
{
	job.rank[rank].op = op;
	job.rank[rank].count = count;
	job.rank[rank].seq = seq;
	job.rank[rank].seq_from = seq_from;
}

static uint64_t next_seq(void)
{
	return off.event[off.events - 1].seq + 1000;
}

static void call(int rank, const char *op, int64_t count)
{
	call_as(rank, op, count, next_seq(), "init");
}

/* It has called all but that one. */
static void call_before(int rank)
{
	call_as(rank, "AllReduce", 1000, next_seq() - 1, "init");
}

static void end_rank(int rank, uint64_t end_ns)
{
	store_put_ranks(store_of(rank), &(struct row_ranks){.rank = field_int(rank),
						.world_size = field_int(OFF_RANKS),
						.job = field_text("job"),
						.host = field_text(node[job.stores == 2 && rank >= OFF_RANKS / 2]),
						.pid = field_int(100 + rank),
						.start_time_ns = field_time(off.begin_ns),
						.first_seen_ns = field_time(off.begin_ns + 1000000),
						.last_seen_ns = field_time(end_ns),
						.ended = field_int(1),
						.instance = field_int(rank + 1)});
}

static void end_all(uint64_t end_ns)
{
	for (int i = 0; i < OFF_RANKS; i++)
		end_rank(i, end_ns);
}

static void on_warning(void *arg, const char *sentence)
{
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
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i == 2)
			call_before(i);
		else
			call(i, "AllReduce", 1000);
		job.rank[i].stage = i == 2 ? STAGE_FORWARD : STAGE_BACKWARD;
	}
	all_stand();
	end_all(job.end_ns);
	hang = assert_hang(CAUSE_MISSING, 2);
	assert_string_equal(hang->host, node[stores - 1]);
	assert_true(hang->until_ns >= job.end_ns - 2 * S && hang->until_ns <= job.end_ns + 5 * S);
	assert_non_null(strstr(hang->sentence, "3 other ranks waited in backward"));
}

TEST_WITH(test_missing, store_setup, store_teardown)
{
	missing(1);
}

/* Each node alone knows but a part of it. */
TEST_WITH(test_missing_across, store_setup, store_teardown)
{
	missing(2);
}

/* The records of the node that it is on end earlier: it has not gone on then. */
TEST_WITH(test_missing_ends_apart, store_setup, store_teardown)
{
	const struct finding *hang;

	begin(2, true);
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i == 2)
			call_before(i);
		else
			call(i, "AllReduce", 1000);
	}
	stands(0, 1, job.end_ns);
	stands(2, 3, job.end_ns - 10 * S);
	hang = assert_hang(CAUSE_MISSING, 2);
	assert_int_equal(hang->state, FINDING_OPEN);
}

/* Records of rank 1 were lost: it is not behind, its numbers are. */
TEST_WITH(test_missing_beside_lost, store_setup, store_teardown)
{
	const struct finding *hang;

	begin(1, true);
	for (int i = 0; i < OFF_RANKS; i++) {
		if (i == 1)
			call_as(i, "AllReduce", 1000, 7, "attach");
		else if (i == 2)
			call_before(i);
		else
			call(i, "AllReduce", 1000);
		job.rank[i].stage = i == 2 ? STAGE_FORWARD : STAGE_BACKWARD;
	}
	all_stand();
	end_all(job.end_ns);
	hang = assert_hang(CAUSE_MISSING, 2);
	assert_null(strstr(hang->sentence, "rank 1"));
	assert_null(strstr(hang->sentence, "ranks 1"));
}

/* It has called nothing there yet. */
TEST_WITH(test_missing_first, store_setup, store_teardown)
{
	begin(1, true);
	for (int i = 0; i < OFF_RANKS; i++)
		call_as(i, i == 2 ? "" : "AllReduce", 1000, i == 2 ? 0 : 1, "init");
	all_stand();
	assert_hang(CAUSE_MISSING, 2);
}

/* What was called before a step is no longer where it stands. */
TEST_WITH(test_old_calls, store_setup, store_teardown)
{
	begin(1, true);
	for (int i = 0; i < OFF_RANKS; i++) {
		call_as(i, "AllReduce", 1000, i == 2 ? 1 : 2, "init");
		stand_call(i, job.at_ns - 10 * S);
		job.rank[i].seq_from = NULL;
		job.rank[i].stage = i == 3 ? STAGE_DATALOADER : STAGE_BACKWARD;
	}
	all_stand();
	assert_hang(CAUSE_DATALOADER, 3);
}

/* Of stages alone, and still so at the end of what there is. */
TEST_WITH(test_missing_stages, store_setup, store_teardown)
{
	const struct finding *hang;

	begin(1, false);
	for (int i = 0; i < OFF_RANKS; i++)
		job.rank[i].stage = i == 2 ? STAGE_DATALOADER : STAGE_BACKWARD;
	all_stand();
	hang = assert_hang(CAUSE_DATALOADER, 2);
	assert_int_equal(hang->state, FINDING_OPEN);
	assert_true(hang->cost_card_hours > 0.9 * OFF_RANKS * 55 / 3600 &&
		    hang->cost_card_hours < 1.1 * OFF_RANKS * 60 / 3600);
}

static void stopped(uint64_t until_ns)
{
	job.rank[1].state = "T";
	stands(0, OFF_RANKS - 1, until_ns);
}

/* Killed, while the others wait for it. */
TEST_WITH(test_ended, store_setup, store_teardown)
{
	begin(1, false);
	for (int i = 0; i < OFF_RANKS; i++)
		job.rank[i].stage = i == 2 ? STAGE_USER : STAGE_BACKWARD;
	job.rank[2].ended_ns = job.at_ns + 100 * OFF_MS;
	all_stand();
	end_rank(2, job.rank[2].ended_ns);
	assert_hang(CAUSE_ENDED, 2);
}

TEST_WITH(test_stopped, store_setup, store_teardown)
{
	const struct finding *hang;

	begin(1, false);
	stopped(job.end_ns);
	hang = assert_hang(CAUSE_STOPPED, 1);
	assert_non_null(strstr(hang->sentence, "state T"));
}

/* And goes on: the rest of the job is there, later. */
static void stopped_over(uint64_t for_ns)
{
	const struct finding *hang;
	uint64_t later_ns = 40 * S;

	begin(1, false);
	job.rank[1].state = "T";
	stands(0, 0, job.at_ns + later_ns - 100 * OFF_MS);
	stands_for(1, OFF_RANKS - 1, job.at_ns + later_ns - 100 * OFF_MS, for_ns);
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
	/* Checks go on: of another rank something is written. */
	for (uint64_t now_ns = job.end_ns + S; for_ns > S && now_ns < job.end_ns + 10 * S; now_ns += S)
		stand_row(0, now_ns, 0, S);
	hang = assert_hang(CAUSE_STOPPED, 1);
	assert_int_equal(hang->state, FINDING_CLOSED);
	assert_true(hang->until_ns >= job.end_ns - 2 * S && hang->until_ns <= job.end_ns + 3 * S);
}

TEST_WITH(test_stopped_over, store_setup, store_teardown)
{
	stopped_over(S);
}

/* The last row would hold for 11 s longer. */
TEST_WITH(test_rare_rows, store_setup, store_teardown)
{
	stopped_over(16 * S);
}

/* Members of two nodes: neither sees it alone. They fail at once, as gloo does. */
static void mismatch(const char *op, int64_t count, enum finding_cause cause, uint64_t after_ns)
{
	const struct finding *finding;

	begin(2, true);
	job.end_ns = job.at_ns + after_ns;
	for (int i = 0; i < OFF_RANKS; i++)
		call(i, i == 3 ? op : "AllReduce", i == 3 ? count : 1000);
	all_stand();
	for (int i = 0; i < OFF_RANKS; i++) {
		stand_row(i, job.end_ns + OFF_MS, i ? 0 : job.end_ns, 0);
		stand_call(i, job.end_ns + OFF_MS);
	}
	for (int i = 0; i < OFF_RANKS; i++)
		end_rank(i, job.end_ns + (uint64_t)i * 10 * OFF_MS);
	judge();
	finding = off_only(&found, FINDING_MISMATCH);
	assert_non_null(finding);
	assert_string_equal(finding_cause_word(finding->cause), finding_cause_word(cause));
	assert_int_equal(finding->rank, 3);
	assert_string_equal(finding->communicator, OFF_COMMUNICATOR);
	assert_null(off_only(&found, FINDING_HANG));
}

TEST_WITH(test_type_mismatch, store_setup, store_teardown)
{
	mismatch("Broadcast", 1000, CAUSE_TYPE_MISMATCH, 300 * OFF_MS);
}

TEST_WITH(test_size_mismatch, store_setup, store_teardown)
{
	mismatch("AllReduce", 2000, CAUSE_SIZE_MISMATCH, 300 * OFF_MS);
}

TEST_WITH(test_mismatch_stands, store_setup, store_teardown)
{
	mismatch("AllReduce", 2000, CAUSE_SIZE_MISMATCH, 40 * S);
}

/* A daemon that came later saw the ranks first when it began. */
TEST_WITH(test_another_daemon, store_setup, store_teardown)
{
	uint64_t begin_ns;

	begin(1, false);
	stopped(job.end_ns);
	begin_ns = off.begin_ns;
	off.begin_ns = job.end_ns + 200 * S;
	for (int i = 0; i < OFF_RANKS; i++)
		off_put_rank(job.store[0], i, node[0], 0);
	off.begin_ns = begin_ns;
	assert_hang(CAUSE_STOPPED, 1);
}

static void begin_stacks(int known)
{
	begin(2, false);
	for (int i = 0; i < OFF_RANKS; i++)
		job.rank[i].main_thread = field_text_if(i >= known ? NULL : i == 1 ? "other" : "communication");
	job.end_ns += 120 * S;
	all_stand();
	end_all(job.end_ns);
}

/* Outside of all stages, of two nodes: who is outside of communication as stacks of both show; not if one node took
 * none. */
TEST_WITH(test_stacks, store_setup, store_teardown)
{
	begin_stacks(OFF_RANKS);
	assert_hang(CAUSE_MISSING, 1);
}

TEST_WITH(test_stacks_of_one_node, store_setup, store_teardown)
{
	begin_stacks(OFF_RANKS / 2);
	assert_nobody();
}

TEST_WITH(test_clean_end, store_setup, store_teardown)
{
	begin(1, true);
	end_all(job.at_ns + S);
	assert_nobody();
}

/* Its last words are those of all ranks; nobody knows what came then. */
TEST_WITH(test_daemon_stopped, store_setup, store_teardown)
{
	begin(2, true);
	for (int i = 0; i < OFF_RANKS; i++)
		job.rank[i].stage = STAGE_BACKWARD;
	stands(0, OFF_RANKS - 1, job.at_ns + 5 * S);
	assert_nobody();
}

TEST_WITH(test_long_checkpoint, store_setup, store_teardown)
{
	begin(1, true);
	for (int i = 0; i < OFF_RANKS; i++)
		job.rank[i].stage = STAGE_CHECKPOINT;
	all_stand();
	end_all(job.end_ns);
	assert_nobody();
}

TEST_MAIN(NULL, NULL)
