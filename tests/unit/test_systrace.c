/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sysTrace, written here as it writes them, to the detectors. */
#include <sys/stat.h>

#include "analyzers/offline/merge.h"
#include "analyzers/offline/systrace/systrace_feed.h"
#include "analyzers/offline/systrace/systrace_files.h"
#include "analyzers/offline/systrace/systrace_internal.h"
#include "tests/unit/systrace_script.h"

static unsigned warnings;

static void on_warning(void *arg, const char *sentence)
{
	assert_true(sentence[0]);
	warnings++;
}

static const char *const functions[STAGE_KIND_MAX] = {
	[STAGE_DATALOADER] = "torch.utils.data.dataloader@_BaseDataLoaderIter@__next__",
	[STAGE_FORWARD] = "megatron.core.pipeline_parallel@schedules@forward_step",
	[STAGE_BACKWARD] = "torch@autograd@backward",
};

/* As sysTrace: each function's calls together, not in the order of time; the counter of calls from 0. */
static void write_timeline(int rank, const char *host)
{
	FILE *file = create("timeline/%s--%05d--%d.timeline", host, rank, 100 + rank);

	for (int kind = STAGE_KIND_MAX - 1; kind >= 0; kind--)
		for (size_t i = 0; i < off.events && functions[kind]; i++) {
			const struct off_event *e = &off.event[i];

			if (e->rank == rank && e->what == OFF_STAGE && (int)e->kind == kind)
				put_stage_of(file, functions[kind], (uint64_t)e->step - 1, e->start_ns, e->end_ns);
		}
	put_number(file, 2, (uint64_t)rank);
	put_bytes(file, 4, off.job, strlen(off.job));
	fclose(file);
}

/* From the operation of that number on: captures do not begin at once everywhere. */
static void write_csv(int rank, uint64_t from_seq)
{
	FILE *file = create("mspti/hccl_activity-10.0.0.1-.%d.csv", rank);

	fputs(HEADER, file);
	for (size_t i = 0; i < off.events; i++) {
		const struct off_event *e = &off.event[i];
		unsigned long long id = 1000 + e->seq, start = e->start_ns, end = e->end_ns;

		if (e->rank != rank || e->what != OFF_OP || e->seq < from_seq)
			continue;
		fprintf(file, "2,%llu,1,comm:HcclAllreduce!group_name_3!fp16!524288,0,%llu,%d,7,%d,7\n", id,
			start - 900, 100 + rank, 100 + rank);
		fprintf(file, "16,%llu,1,comm:HcclAllreduce!group_name_3!fp16!524288,1,%llu,0,2,0,2\n", id, start);
		fprintf(file, "4,%llu,1,,0,%llu,%d,7,%d,7\n", id, start - 100, 100 + rank, 100 + rank);
		fprintf(file, "32,%llu,1,,1,%llu,0,2,0,2\n", id, end);
	}
	fclose(file);
}

static void make_folders(void)
{
	sh("mkdir '%s/timeline'", dir);
	sh("mkdir '%s/mspti'", dir);
	warnings = 0;
}

static struct systrace_counts counts;

/* Each operation has the number that it has in truth. */
static void assert_joined(const struct systrace_feed *feed)
{
	size_t checked = 0;

	for (size_t i = 0; i < feed->events.count; i++) {
		const struct systrace_event *event = &feed->events.event[i];

		for (size_t j = 0; event->what == SYSTRACE_OP && j < off.events; j++) {
			const struct off_event *truth = &off.event[j];

			if (truth->what != OFF_OP || truth->end_ns != event->end_ns ||
				truth->start_ns != event->start_ns)
				continue;
			assert_int_equal(event->number, truth->seq);
			checked++;
		}
	}
	for (size_t i = 0; i < feed->processes; i++)
		checked += feed->process[i].transfers;
	assert_int_equal(checked, counts.ops);
}

static void analyze(const struct systrace_options *all_of, struct off_found *found)
{
	const struct merge_options merging = {.warning = on_warning};
	struct detect *detect = off_detect(found);
	struct systrace_feed *feed = NULL;
	char error[512] = "";
	uint64_t end_ns;
	size_t failed;

	if (systrace_feed_open(dir, all_of, &feed, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	systrace_feed_counts(feed, &counts);
	assert_joined(feed);
	assert_int_equal(
		merge_run(&(struct source){&systrace_feed_source, feed}, 1, detect, &merging, &end_ns, &failed), 0);
	assert_int_equal(failed, 0);
	systrace_feed_close(feed);
	detect_free(detect);
}

static const struct systrace_options all = {.warning = on_warning};

static void assert_slow(const struct off_found *found, enum frame_tier tier)
{
	const struct finding *slow = off_only(found, FINDING_SLOW_RANK);

	assert_non_null(slow);
	assert_int_equal(slow->rank, OFF_SLOW);
	assert_int_equal(slow->cause, CAUSE_DATALOADER);
	assert_int_equal(slow->tier, tier);
	assert_string_equal(slow->host, "node-a");
	assert_string_equal(slow->job, "job");
	/* Counters of calls begin at 0; where operations come in late, it takes longer to be sure. */
	assert_true(slow->since_step >= OFF_FROM - 6 && slow->since_step <= OFF_FROM + 12);
}

TEST_WITH(test_timelines, store_setup, store_teardown)
{
	static struct off_found found;

	make_folders();
	off_make("job", false, false);
	for (int i = 0; i < OFF_RANKS; i++)
		write_timeline(i, "node-a");
	analyze(&all, &found);
	assert_int_equal(warnings, 0);
	assert_int_equal(counts.ranks, OFF_RANKS);
	assert_int_equal(counts.steps, OFF_RANKS * (OFF_STEPS - 1));
	assert_int_equal(counts.dropped + counts.left_out, 0);
	assert_slow(&found, FRAME_TIER_STAGES);
}

/* Captures of operations that begin at different ones, on ranks that show them from the first on. */
TEST_WITH(test_operations, store_setup, store_teardown)
{
	static struct off_found found;

	make_folders();
	off_make("job", true, false);
	for (int i = 0; i < OFF_RANKS; i++) {
		write_timeline(i, "node-a");
		write_csv(i, (uint64_t)i * 3 + 1);
	}
	analyze(&all, &found);
	assert_int_equal(counts.ops, OFF_RANKS * OFF_STEPS * OFF_BUCKETS - 3 * (1 + 2 + 3));
	assert_int_equal(counts.coll_not_joined, 0);
	assert_slow(&found, FRAME_TIER_DEVICE);
}

TEST_WITH(test_healthy, store_setup, store_teardown)
{
	static struct off_found found;

	make_folders();
	off_make("job", true, true);
	for (int i = 0; i < OFF_RANKS; i++) {
		write_timeline(i, "node-a");
		write_csv(i, 1);
	}
	analyze(&all, &found);
	assert_int_equal(found.count, 0);
}

TEST_WITH(test_range_and_job, store_setup, store_teardown)
{
	struct systrace_options part = all;
	static struct off_found found;

	make_folders();
	off_make("job", false, false);
	for (int i = 0; i < OFF_RANKS; i++)
		write_timeline(i, "node-a");
	part.until_ns = off.begin_ns + 5 * NSEC_PER_SEC - OFF_MS; /* before the first step */
	analyze(&part, &found);
	assert_int_equal(counts.steps + counts.ranks + found.count, 0);
	part = all;
	part.job = "another";
	analyze(&part, &found);
	assert_int_equal(counts.steps + found.count, 0);
	part.job = "job";
	analyze(&part, &found);
	assert_slow(&found, FRAME_TIER_STAGES);
}

static uint64_t operations_of(const struct systrace_options *options_of)
{
	struct systrace_feed *feed = NULL;
	char error[512] = "";

	if (systrace_feed_open(dir, options_of, &feed, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	systrace_feed_counts(feed, &counts);
	systrace_feed_close(feed);
	return counts.ops;
}

/* Jobs on a node have the file of a rank's operations together; the host's lines identify the job. Where none of a
 * file was seen on the device, the host's times are all there is. */
TEST_WITH(test_pids, store_setup, store_teardown)
{
	static const unsigned pids[] = {100, 100, 999};
	struct systrace_options part = all;
	FILE *file;

	make_folders();
	off_make("job", false, true);
	for (int i = 0; i < OFF_RANKS; i++)
		write_timeline(i, "node-a");
	file = create("mspti/hccl_activity-10.0.0.1-.0.csv");
	fputs(HEADER, file);
	for (unsigned i = 0; i < ARRAY_SIZE(pids); i++) {
		unsigned long long start = off.begin_ns + (6 + i) * NSEC_PER_SEC;

		fprintf(file, "2,%u,1,comm:AllReduce!g!fp32!4,0,%llu,%u,7,%u,7\n", i, start, pids[i], pids[i]);
		fprintf(file, "4,%u,1,,0,%llu,%u,7,%u,7\n", i, start + OFF_MS, pids[i], pids[i]);
	}
	fclose(file);
	assert_int_equal(operations_of(&all), 3);
	part.job = "job";
	assert_int_equal(operations_of(&part), 2);
	/* One that the device did makes the others calls without an end. */
	file = create("mspti/hccl_activity-10.0.0.1-.0.csv");
	fputs(HEADER, file);
	fprintf(file, "2,1,1,comm:AllReduce!g!fp32!4,0,%llu,100,7,100,7\n4,1,1,,0,%llu,100,7,100,7\n",
		(unsigned long long)off.begin_ns, (unsigned long long)off.begin_ns + 5);
	fprintf(file, "16,2,1,comm:AllReduce!g!fp32!4,1,%llu,0,2,0,2\n32,2,1,,1,%llu,0,2,0,2\n",
		(unsigned long long)off.begin_ns + 10, (unsigned long long)off.begin_ns + OFF_MS);
	fclose(file);
	assert_int_equal(operations_of(&all), 1);
}

/* Of rank 0, one send in each so many steps; the job's other ranks show none. */
static void write_sends(int64_t steps)
{
	FILE *file = create("mspti/hccl_activity-10.0.0.1-.0.csv");
	unsigned id = 0;

	fputs(HEADER, file);
	for (size_t i = 0; i < off.events; i++) {
		const struct off_event *e = &off.event[i];
		unsigned long long start = e->start_ns + OFF_MS;

		if (e->rank != 0 || e->what != OFF_STEP || e->step % steps)
			continue;
		id++;
		fprintf(file, "2,%u,1,comm:HcclBatchSendRecv!g!fp32!4,0,%llu,100,7,100,7\n", id, start);
		fprintf(file, "16,%u,1,comm:HcclBatchSendRecv!g!fp32!4,1,%llu,0,2,0,2\n", id, start);
		fprintf(file, "4,%u,1,,0,%llu,100,7,100,7\n32,%u,1,,1,%llu,0,2,0,2\n", id, start + 9, id,
			start + OFF_MS);
	}
	fclose(file);
}

/* A job that sends and receives in every step is not judged; one that does so now and then is. */
TEST_WITH(test_sends, store_setup, store_teardown)
{
	static struct off_found found;

	make_folders();
	off_make("job", false, false);
	for (int i = 0; i < OFF_RANKS; i++)
		write_timeline(i, "node-a");
	write_sends(2);
	analyze(&all, &found);
	assert_int_equal(warnings + counts.jobs_refused + counts.ranks_refused, 0);
	assert_int_equal(counts.coll_not_joined, OFF_STEPS / 2);
	assert_slow(&found, FRAME_TIER_STAGES);
	write_sends(1);
	analyze(&all, &found);
	assert_int_equal(warnings, 1);
	assert_int_equal(counts.jobs_refused, 1);
	assert_int_equal(counts.ranks_refused, OFF_RANKS);
	assert_int_equal(counts.ranks + counts.first_ns + found.count, 0);
}

static void write_life(unsigned pid, uint64_t start_ns)
{
	FILE *file = create("timeline/node-a--00000--%u.timeline", pid);

	put_stage_of(file, functions[STAGE_FORWARD], 1, start_ns, start_ns + NSEC_PER_SEC);
	put_stage_of(file, functions[STAGE_FORWARD], 2, start_ns + 9 * NSEC_PER_SEC, start_ns + 10 * NSEC_PER_SEC);
	fclose(file);
}

/* Of a rank that was started again operations are of who lived then, in whatever order they are in the file, where
 * no line of the host says whose they are. */
TEST_WITH(test_lives, store_setup, store_teardown)
{
	static const struct {
		unsigned at_s, pid, of;
	} ops[] = {{1, 0, 100}, {2, 0, 100}, {21, 0, 200}, {3, 0, 100}, {22, 0, 200}, {23, 100, 100}, {24, 0, 100},
		{25, 200, 200}, {26, 999, 200}, {40, 0, 200}};
	uint64_t begin_ns = (realtime_ns() - 100 * NSEC_PER_SEC) / 1000 * 1000;
	struct systrace_feed *feed = NULL;
	char error[512] = "";
	size_t found = 0;
	FILE *file;

	make_folders();
	write_life(100, begin_ns);
	write_life(200, begin_ns + 20 * NSEC_PER_SEC);
	file = create("mspti/hccl_activity-10.0.0.1-.0.csv");
	fputs(HEADER, file);
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		unsigned long long start = begin_ns + ops[i].at_s * NSEC_PER_SEC;

		if (ops[i].pid)
			fprintf(file, "2,%u,1,comm:AllReduce!g!fp32!4,0,%llu,%u,7,%u,7\n", i, start, ops[i].pid,
				ops[i].pid);
		fprintf(file, "16,%u,1,comm:AllReduce!g!fp32!4,1,%llu,0,2,0,2\n32,%u,1,,1,%llu,0,2,0,2\n", i, start, i,
			start + (ops[i].at_s == 23 ? 3 * NSEC_PER_SEC / 2 : OFF_MS));
	}
	fclose(file);
	assert_int_equal(systrace_feed_open(dir, &all, &feed, error, sizeof(error)), 0);
	for (size_t i = 0; i < feed->events.count; i++) {
		const struct systrace_event *event = &feed->events.event[i];

		for (size_t k = 0; event->what == SYSTRACE_OP && k < ARRAY_SIZE(ops); k++)
			if (event->start_ns == begin_ns + ops[k].at_s * NSEC_PER_SEC) {
				assert_int_equal(feed->process[event->process].pid, ops[k].of);
				found++;
			}
	}
	assert_int_equal(found, ARRAY_SIZE(ops));
	systrace_feed_close(feed);
}

/* A process that was started again has its rank; one that is cut in the middle of a record still yields the rest. */
TEST_WITH(test_damaged, store_setup, store_teardown)
{
	static struct off_found found;
	char command[PATH_MAX + 128];
	FILE *file;

	make_folders();
	off_make("job", false, false);
	for (int i = 0; i < OFF_RANKS; i++)
		write_timeline(i, "node-a");
	snprintf(command, sizeof(command), "truncate -s -20 %s/timeline/node-a--00001--101.timeline", dir);
	assert_int_equal(system(command), 0);
	file = create("timeline/node-a--00009--109.timeline");
	fputs("\x0b groups are no such file", file);
	fclose(file);
	file = create("mspti/hccl_activity-10.0.0.1-.2.csv");
	fputs("Name,What\n1,2\n", file);
	fclose(file);
	file = create("mspti/hccl_activity-10.0.0.1-.-1.csv");
	fputs(HEADER, file);
	fclose(file);
	file = create("mspti/hccl_activity-10.0.0.1-.0.csv");
	fputs(HEADER "16,18446744073709551616,1,x,1,5,0,0,0,0\n,,,\n2,1,1,comm:A!,1,99,0,0,0,0\n", file);
	fclose(file);
	analyze(&all, &found);
	assert_int_equal(warnings, 4); /* cut, and three that are none or nobody's */
	assert_int_equal(counts.files_failed, 3);
	assert_int_equal(counts.dropped, 3);
	assert_slow(&found, FRAME_TIER_STAGES);
}

TEST_WITH(test_none, store_setup, store_teardown)
{
	struct systrace_feed *feed = NULL;
	char error[512] = "";

	make_folders();
	assert_int_equal(systrace_feed_open(dir, &all, &feed, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "no files of sysTrace in"));
	assert_int_equal(systrace_feed_open("/nonexistent", &all, &feed, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "/nonexistent"));
}

static void name_is(const char *name, bool fits, const char *host, int64_t rank, uint32_t pid)
{
	struct systrace_name parsed;

	assert_int_equal(systrace_name_parse(name, &parsed), fits);
	if (!fits)
		return;
	assert_string_equal(parsed.host, host);
	assert_int_equal(parsed.rank, rank);
	assert_int_equal(parsed.pid, pid);
}

TEST(test_names)
{
	name_is("node-a--00012--4711.timeline", true, "node-a", 12, 4711);
	name_is("node--a--00012--4711.timeline", true, "node--a", 12, 4711);
	name_is("localhost.localdomain--00000.timeline", true, "localhost.localdomain", 0, 0);
	name_is("hccl_activity-10.0.0.1-.7.csv", true, "10.0.0.1", 7, 0);
	name_is("hccl_activity-10.0.0.1-.-1.csv", true, "10.0.0.1", -1, 0);
	name_is("mspti-marker-10.0.0.1-15.csv", true, "10.0.0.1", 15, 0);
	name_is("mspti-marker-10.0.0.1--1.csv", true, "10.0.0.1", -1, 0);
	name_is("hccl_activity-10.0.0.1-.7_device.csv", false, NULL, 0, 0);
	name_is("hccl_activity-.csv", false, NULL, 0, 0);
	name_is("hccl_activity--.1.csv", false, NULL, 0, 0);
	name_is(".timeline", false, NULL, 0, 0);
	name_is("--1.timeline", false, NULL, 0, 0);
	name_is("a--1x.timeline", false, NULL, 0, 0);
	name_is("a--99999999999.timeline", false, NULL, 0, 0);
	name_is("step_time.csv", false, NULL, 0, 0);
}

TEST(test_words)
{
	assert_int_equal(
		systrace_word_of("torch.utils.data.dataloader@_BaseDataLoaderIter@__next__").kind, STAGE_DATALOADER);
	assert_true(systrace_word_of("torch.utils.data.dataloader@_BaseDataLoaderIter@__next__").opens);
	assert_int_equal(systrace_word_of("torch.utils.data@IterDataPipe@__next__").kind, STAGE_DATALOADER);
	assert_false(systrace_word_of("torch.utils.data@IterDataPipe@__next__").opens);
	assert_int_equal(systrace_word_of("torch_npu@npu@synchronize").kind, STAGE_SYNC);
	assert_int_equal(systrace_word_of("torch_npu.npu@Stream@wait_event").kind, STAGE_SYNC);
	assert_int_equal(systrace_word_of("torch_npu.npu@Event@wait").kind, STAGE_SYNC);
	assert_int_equal(systrace_word_of("torch@autograd@grad").kind, STAGE_BACKWARD);
	assert_int_equal(
		systrace_word_of("megatron.core.pipeline_parallel@schedules@backward_step").kind, STAGE_BACKWARD);
	assert_int_equal(systrace_word_of("mindspore.nn@Cell@__call__").kind, STAGE_USER);
	assert_true(systrace_word_of("mindspore.train@Callback@on_train_step_begin").opens);
	assert_int_equal(systrace_word_of("GC").kind, STAGE_GC);
	assert_true(systrace_word_of("optimizer").closes);
	assert_int_equal(systrace_word_of("").kind, STAGE_USER);
}

/* Steps that only an optimizer ends, with counters that say nothing: they are counted. */
TEST(test_closing)
{
	struct systrace_events events = {0};

	for (uint64_t i = 0; i < 5; i++) {
		const struct systrace_event end = {.start_ns = 100 * i + 90,
			.end_ns = 100 * i + 99,
			.what = SYSTRACE_STAGE,
			.op = 2,
			.closes = true};
		const struct systrace_event work = {
			.start_ns = 100 * i + 10, .end_ns = 100 * i + 80, .what = SYSTRACE_STAGE};

		assert_int_equal(systrace_events_add(&events, &work), 0);
		assert_int_equal(systrace_events_add(&events, &end), 0);
	}
	assert_int_equal(systrace_events_steps(&events), 0);
	assert_int_equal(events.count, 10 + 4);
	for (size_t i = 0; i < events.count; i++) {
		const struct systrace_event *event = &events.event[i];
		uint64_t number = event->start_ns < 99 ? 0 : event->start_ns / 100 + 2;

		if (event->what == SYSTRACE_STEP) {
			assert_int_equal(event->end_ns - event->start_ns, 100);
			assert_int_equal(event->number, event->end_ns / 100 + 2);
		} else {
			assert_int_equal(event->number, number);
		}
	}
	free(events.event);
}

TEST_MAIN(NULL, NULL)
