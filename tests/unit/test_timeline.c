/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made by hand as timelines: what a viewer sees is what the store has. */
#include "tests/unit/timeline_script.h"

TEST_WITH(test_steps_and_stages, setup, teardown)
{
	struct decode *d;

	two_ranks();
	store_put_steps(store, &(struct row_steps){.rank = field_int(0),
				       .step = field_int(7),
				       .start_ns = field_time(t0 + S),
				       .duration_ns = field_duration(2 * S),
				       .kind = field_text("train"),
				       .instance = field_int(1)});
	put_stage_of(1, 4000, "inner", t0 + S + 10 * MS, 5 * MS); /* stored before the one around it */
	put_stage_of(1, 4000, "outer", t0 + S + 10 * MS, 100 * MS);
	put_stage_of(1, 4000, "next", t0 + S + 110 * MS, 10 * MS);
	put_stage_of(1, 4000, "crossing", t0 + S + 115 * MS, 10 * MS);
	put_stage_of(1, 4000, "backwards", t0 + 2 * S, -5);
	put_stage_of(1, 4009, "elsewhere", t0 + S, 10 * MS);
	put_stage_of(9, 4000, "of nobody", t0 + S, 10 * MS);
	store_put_in_flight(store, &(struct row_in_flight){.rank = field_int(1),
					   .step = field_int(8),
					   .stage = field_text("hanging"),
					   .name = field_text("wait"),
					   .start_ns = field_time(t0 + 3 * S),
					   .thread_id = field_int(4001),
					   .depth = field_int(0),
					   .instance = field_int(2)});
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, "step"), 1);
	assert_int_equal(decode_count(d, DECODE_BEGIN, "stage"), 7);
	assert_int_equal(decode_named(d, "step 7")->end_ns, t0 + 3 * S);
	assert_string_equal(track_of(d, decode_named(d, "step 7"))->name, "steps");
	assert_string_equal(decode_named(d, "step 7")->arg, "step=7;kind=train;");
	/* Within each other on the thread's own track, whatever the order in the store */
	assert_int_equal(decode_named(d, "outer")->end_ns, t0 + S + 110 * MS);
	assert_int_equal(decode_named(d, "inner")->end_ns, t0 + S + 15 * MS);
	assert_true(decode_named(d, "outer") < decode_named(d, "inner"));
	assert_int_equal(track_of(d, decode_named(d, "inner"))->tid, 4000);
	assert_int_equal(track_of(d, decode_named(d, "next"))->tid, 4000);
	assert_string_equal(track_of(d, decode_named(d, "next"))->name, "main");
	assert_int_equal(decode_named(d, "crossing")->end_ns, t0 + S + 125 * MS);
	assert_int_equal(track_of(d, decode_named(d, "crossing"))->parent, decode_named(d, "next")->track);
	assert_int_equal(decode_named(d, "backwards")->end_ns, t0 + 2 * S);
	assert_string_equal(track_of(d, decode_named(d, "elsewhere"))->name, "thread");
	assert_true(decode_named(d, "hanging")->end_ns == UINT64_MAX);
	assert_int_equal(track_of(d, decode_named(d, "hanging"))->pid, 4001);
	assert_string_equal(
		decode_track(d, track_of(d, decode_named(d, "step 7"))->parent)->name, "rank 0, card 3, llama, node7");
	assert_int_equal(counts.unknown, 1);
	assert_int_equal(counts.ranks, 2);
	decode_free(d);
}

TEST_WITH(test_collectives_and_flows, setup, teardown)
{
	struct decode *d;
	json_t *json;

	two_ranks();
	for (int64_t instance = 1; instance <= 2; instance++) {
		put_op((struct op){instance, 1, t0 + instance * MS, 20 * MS, 0, "AllReduce", NULL, -1});
		put_op((struct op){
			instance, 2, t0 + (4 + instance) * MS, 20 * MS, 0, "AllGather", NULL, -1}); /* async */
		put_op((struct op){instance, 3, t0 + S, 1000, 5 * MS, "Broadcast", "marker", -1});
		put_op((struct op){instance, 4, t0 + 2 * S, MS, 0, "Reduce", "attach", -1}); /* not to be joined */
	}
	put_op((struct op){1, 1, t0 + 3 * S, MS, 0, "Send", NULL, 1});
	put_op((struct op){2, 1, t0 + 3 * S, MS, 0, "Recv", NULL, 0});
	put_op((struct op){2, 1, t0 + 4 * S, MS, 0, "Send", NULL, 0}); /* its number on the way back */
	put_op((struct op){1, 5, t0 + 5 * S, -1, 0, "AllReduce", NULL, -1});
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, "collective"), 11);
	assert_int_equal(decode_count(d, DECODE_INSTANT, "collective"), 1);
	assert_int_equal(decode_count(d, DECODE_BEGIN, "device"), 2);
	/* AllReduce, AllGather, Broadcast between the ranks and from call to device twice, Send and Recv */
	assert_int_equal(decode_flows(d), 3 + 2 + 1);
	assert_string_equal(track_of(d, decode_named(d, "AllGather"))->name, "collectives");
	assert_int_not_equal(decode_named(d, "AllGather")->track, decode_named(d, "AllReduce")->track);
	assert_int_equal(decode_named(d, "AllGather")->end_ns - decode_named(d, "AllGather")->time_ns, 20 * MS);
	for (size_t i = 0; i < d->events; i++)
		if (strcmp(d->event[i].category, "device") == 0)
			assert_string_equal(track_of(d, &d->event[i])->name, "device: data default_pg");
	assert_non_null(strstr(
		decode_named(d, "AllReduce")->arg, "communicator=" COMM ";seq=1;seq_from=init;tier=host;step=1;"));
	decode_free(d);
	json = chrome();
	assert_int_equal(phases(json, "X"), 13);
	assert_int_equal(phases(json, "s"), 6);
	assert_int_equal(phases(json, "f"), 6);
	assert_int_equal(phases(json, "i"), 1);
	json_decref(json);
}

static double last_value(struct decode *d, const char *name)
{
	double value = -1e300;

	for (size_t i = 0; i < d->events; i++)
		if (d->event[i].type == DECODE_COUNTER && strcmp(track_of(d, &d->event[i])->name, name) == 0)
			value = d->event[i].value;
	return value;
}

TEST_WITH(test_memory, setup, teardown)
{
	struct decode *d;

	two_ranks();
	put_alloc(1, "cudaMalloc", 1000, 0, t0 - 2 * 3600 * S); /* before the lookback */
	put_alloc(1, "cudaMalloc", 100, 0, t0 - 60 * S);	/* before the window */
	put_alloc(1, "cudaMalloc", 10, 0, t0 + S);
	put_alloc(1, "cuMemAlloc_v2", 2048, 0, t0 + S);	 /* the same memory, by the driver */
	put_alloc(1, "cudaMalloc", 5000, 2, t0 + 2 * S); /* failed */
	put_alloc(1, "cudaHostAlloc", 7, 0, t0 + 3 * S); /* of the host */
	put_alloc(1, "cudaFree", 100, 0, t0 + 4 * S);
	put_alloc(1, "cudaFree", -1, 0, t0 + 5 * S); /* taken before it was watched */
	d = perfetto();
	assert_true(last_value(d, "memory of device, CUDA runtime") == 1010);
	assert_true(last_value(d, "memory of device, CUDA driver") == 2048);
	assert_true(last_value(d, "memory of the host, pinned, CUDA runtime") == 7);
	assert_int_equal(decode_count(d, DECODE_COUNTER, NULL), 4);
	assert_int_equal(decode_count(d, DECODE_BEGIN, "memory"), 6);
	assert_int_equal(d->event[0].time_ns, t0 + S);
	decode_free(d);
}

static void put_offcpu(int64_t start_ns, int64_t duration_ns, int64_t delay_ns, int64_t previous, const char *name)
{
	store_put_offcpu(store, &(struct row_offcpu){.rank = field_int(0),
					.thread_id = field_int(4100),
					.thread_name = field_text("pt_autograd_0"),
					.start_ns = field_time(start_ns),
					.duration_ns = field_duration(duration_ns),
					.run_delay_ns = field_duration(delay_ns),
					.next_pid = field_int(1),
					.next_name = field_text("next"),
					.previous_pid = field_int(previous),
					.previous_name = field_text(name),
					.instance = field_int(1)});
}

static void put_sample(int64_t start_ns, const char *state)
{
	store_put_host_samples(store, &(struct row_host_samples){.rank = field_int(0),
					      .start_ns = field_time(start_ns),
					      .duration_ns = field_duration(S),
					      .cpu_ns = field_duration(S / 2),
					      .run_delay_ns = field_duration(S / 10),
					      .major_faults = field_int(3),
					      .resident_bytes = field_int(4096),
					      .state = field_text(state),
					      .instance = field_int(1)});
}

TEST_WITH(test_host, setup, teardown)
{
	struct decode *d;

	two_ranks();
	put_offcpu(t0 + S, 10 * MS, 9 * MS, 77, "stress-ng");
	put_offcpu(t0 + 2 * S, 10 * MS, MS, 78, "other");
	put_offcpu(t0 + 3 * S, 10 * MS, 9 * MS, 0, "swapper/1");
	store_put_offcpu_sums(store, &(struct row_offcpu_sums){.rank = field_int(0),
					     .thread_id = field_int(4100),
					     .thread_name = field_text("x"),
					     .start_ns = field_time(t0),
					     .duration_ns = field_duration(5 * MS),
					     .run_delay_ns = field_duration(MS),
					     .count = field_int(9),
					     .instance = field_int(1)});
	store_put_launches(store, &(struct row_launches){.rank = field_int(0),
					  .start_ns = field_time(t0 + S),
					  .duration_ns = field_duration(50 * MS),
					  .thread_id = field_int(4000),
					  .api = field_text("cudaLaunchKernel"),
					  .count = field_int(10),
					  .longest_gap_ns = field_duration(8 * MS),
					  .instance = field_int(1)});
	store_put_launches(store, &(struct row_launches){.rank = field_int(0),
					  .start_ns = field_time(t0 + 2 * S),
					  .duration_ns = field_duration(50 * MS),
					  .count = field_int(0),
					  .instance = field_int(1)});
	put_sample(t0 + S, "R");
	put_sample(t0 + 2 * S, "T");
	put_sample(t0 + 30 * S, "R");
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, "offcpu"), 3);
	assert_int_equal(decode_named(d, "waits for the CPU: stress-ng")->time_ns, t0 + S);
	assert_int_equal(decode_named(d, "sleeps")->time_ns, t0 + 2 * S);
	assert_int_equal(decode_named(d, "waits for the CPU")->time_ns, t0 + 3 * S);
	assert_non_null(strstr(
		decode_named(d, "sleeps")->arg, "previous_pid=78;previous_name=other;next_pid=1;next_name=next;"));
	assert_string_equal(decode_track(d, track_of(d, decode_named(d, "sleeps"))->parent)->name, "pt_autograd_0");
	assert_true(last_value(d, "short off-CPU intervals") == 9); /* of two units; the later track */
	assert_true(last_value(d, "cudaLaunchKernel") == 0);
	assert_true(last_value(d, "longest launch gap") == 8 * MS);
	assert_true(last_value(d, "CPU of the process") == 0.5);
	assert_true(last_value(d, "run delay") == 10);
	assert_true(last_value(d, "throttled") == -1e300);
	assert_int_equal(decode_named(d, "stopped")->time_ns, t0 + 3 * S);
	assert_int_equal(decode_named(d, "no samples")->time_ns, t0 + 3 * S);
	assert_int_equal(decode_named(d, "no samples")->end_ns, t0 + 30 * S);
	decode_free(d);
}

static void put_stack_sample(int64_t start_ns, int64_t duration_ns, int64_t stack, int64_t thread)
{
	store_put_samples(store, &(struct row_samples){.rank = field_int(0),
					 .start_ns = field_time(start_ns),
					 .profile = field_int(1),
					 .thread_id = field_int(thread),
					 .thread_name = field_text("python3"),
					 .main = field_int(thread == 4000),
					 .kind = field_text(duration_ns ? "off_cpu" : "on_cpu"),
					 .duration_ns = field_duration_if(duration_ns != 0, duration_ns),
					 .weight_ns = field_duration(3 * MS),
					 .stack = field_int_if(stack != 0, stack),
					 .instance = field_int(1)});
}

static void put_call_stack(int64_t id, const char *frames)
{
	store_put_call_stacks(store,
		&(struct row_call_stacks){.id = field_int(id), .frames = field_text(frames), .cut = field_int(0)});
}

static size_t samples_of(const struct decode *d, const char *stack)
{
	size_t n = 0;

	for (size_t i = 0; i < d->events; i++)
		n += d->event[i].type == DECODE_SAMPLE && d->event[i].pid == 4000 && d->event[i].tid == 4100 &&
		     strcmp(d->event[i].stack, stack) == 0;
	return n;
}

/* Samples have the stacks of the store, each written once, and waits their length. */
TEST_WITH(test_stacks, setup, teardown)
{
	static const char *const burn = "python main (train.py:5);python burn (gpt.py:54);";
	char deep[500 * 40] = "";
	struct decode *d;

	two_ranks();
	for (int i = 0; i < 500; i++)
		snprintf(deep + strlen(deep), 40, "python f%d (/a.py:%d)\n", i, i + 1);
	for (int i = 0; i < 2; i++) /* once a profile */
		put_call_stack(-7, "python main (/job/train.py:5)\npython burn (/job/gpt.py:54)");
	put_call_stack(
		8, "python main (/job/train.py:5)\npython nap (/job/gpt.py:70)\nnative clock_nanosleep (libc.so.6)");
	put_call_stack(9, deep);
	for (int i = 0; i < 3; i++)
		put_stack_sample(t0 + S + i * MS, 0, -7, 4100);
	put_stack_sample(t0 + S, 0, 9, 4101);
	put_stack_sample(t0 + S, 0, 0, 4101); /* refused: nothing is shown */
	put_stack_sample(t0 + 2 * S, 30 * MS, 8, 4100);
	put_stack_sample(t0 + 3 * S, 2 * MS, 0, 4100);
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_SAMPLE, NULL), 4);
	assert_int_equal(samples_of(d, burn), 3);
	assert_int_equal(decode_count(d, DECODE_BEGIN, "stack"), 2);
	assert_int_equal(decode_named(d, "nap (gpt.py:70)")->time_ns, t0 + 2 * S);
	assert_int_equal(decode_named(d, "nap (gpt.py:70)")->end_ns, t0 + 2 * S + 30 * MS);
	assert_string_equal(decode_named(d, "nap (gpt.py:70)")->stack,
		"python main (train.py:5);python nap (gpt.py:70);native clock_nanosleep (libc.so.6);");
	assert_string_equal(decode_named(d, "nap (gpt.py:70)")->arg, "weight_ns=3000000;profile=1;");
	assert_string_equal(track_of(d, decode_named(d, "waits"))->name, "waits");
	assert_string_equal(decode_named(d, "waits")->stack, "");
	decode_free(d);
}

static void put_finding(
	int64_t number, int64_t rank, const char *kind, const char *state, int64_t since_ns, int64_t until_ns)
{
	store_put_findings(store, &(struct row_findings){.kind = field_text(kind),
					  .cause = field_text("dataloader"),
					  .state = field_text(state),
					  .severity = field_text("warning"),
					  .confidence = field_real(0.5),
					  .tier = field_text("host"),
					  .job = field_text("llama"),
					  .rank = field_int_if(rank >= 0, rank),
					  .host = field_text("node7"),
					  .since_step = field_int(3),
					  .since_ns = field_time(since_ns),
					  .noticed_ns = field_time(t0 + 5 * S),
					  .until_ns = field_time_if(until_ns, until_ns),
					  .slowdown = field_real(1.5),
					  .cost_card_hours = field_real(0.25),
					  .others = field_text("2-3"),
					  .evidence = field_text("[{\"name\":\"x\"}]"),
					  .sentence = field_text("rank 1 is slow"),
					  .finding = field_int(number)});
}

TEST_WITH(test_findings_and_losses, setup, teardown)
{
	const struct decode_event *slow;
	struct decode *d;

	two_ranks();
	put_finding(1, 1, "slow_rank", "closed", t0 + 2 * S, t0 + 9 * S);
	put_finding(2, -1, "slow_job", "open", t0 - 7200 * S, 0);
	put_finding(3, 0, "hang", "dropped", t0 + S, t0 + 2 * S);
	put_finding(4, 0, "hang", "closed", t0 - 20 * S, t0 - 10 * S);
	store_put_drops(store, &(struct row_drops){.start_ns = field_time(t0 + 4 * S),
				       .source = field_text("ring"),
				       .reason = field_text("full"),
				       .count = field_int(12)});
	store_put_clock(
		store, &(struct row_clock){.monotonic_ns = field_duration(1000 * S), .utc_ns = field_time(t0 + S)});
	store_put_clock(store, &(struct row_clock){.monotonic_ns = field_duration(1002 * S),
				       .utc_ns = field_time(t0 + 3 * S + 1)}); /* no step */
	store_put_clock(
		store, &(struct row_clock){.monotonic_ns = field_duration(1003 * S), .utc_ns = field_time(t0 + 2 * S)});
	store_put_clock(
		store, &(struct row_clock){.monotonic_ns = field_duration(10 * S), .utc_ns = field_time(t0 + 6 * S)});
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, "finding"), 2);
	assert_int_equal(decode_count(d, DECODE_INSTANT, "finding"), 2);
	slow = decode_named(d, "slow_rank: dataloader");
	assert_int_equal(slow->time_ns, t0 + 2 * S);
	assert_int_equal(slow->end_ns, t0 + 9 * S);
	assert_non_null(strstr(slow->arg, "sentence=rank 1 is slow;state=closed;"));
	assert_string_equal(decode_track(d, track_of(d, slow)->parent)->name, "rank 1, card 3, llama, node7");
	assert_int_equal(decode_named(d, "slow_job: dataloader")->time_ns, t0); /* cut to the window */
	assert_true(decode_named(d, "slow_job: dataloader")->end_ns == UINT64_MAX);
	assert_string_equal(
		decode_track(d, track_of(d, decode_named(d, "slow_job: dataloader"))->parent)->name, "node node7");
	assert_int_equal(decode_named(d, "confirmed: slow_rank: dataloader")->time_ns, t0 + 5 * S);
	assert_string_equal(decode_named(d, "ring: full")->arg, "count=12;");
	assert_int_equal(decode_named(d, "clock set by -2.000 s")->time_ns, t0 + 2 * S);
	assert_int_equal(decode_named(d, "booted")->time_ns, t0 + 6 * S);
	assert_int_equal(decode_count(d, DECODE_INSTANT, "clock"), 2);
	decode_free(d);
}

TEST_WITH(test_window_ranks_and_jobs, setup, teardown)
{
	struct decode *d;

	two_ranks();
	put_process(3, 2, 4002, "other");
	for (int64_t instance = 1; instance <= 3; instance++) {
		put_stage_of(instance, 4000, "long before", t0 - 2 * 3600 * S, 3 * 3600 * S);
		put_stage_of(instance, 4000, "before", t0 - 10 * S, 5 * S);
		put_stage_of(instance, 4000, "into", t0 - 4 * S, 5 * S);
		put_stage_of(instance, 4000, "out of", t0 + 59 * S, 10 * S);
		put_stage_of(instance, 4000, "after", t0 + 60 * S, 10 * S);
		put_stage_of(instance, 4000, "without an end", t0 + 10 * S, INT64_MAX / 4);
	}
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, NULL), 9);
	assert_int_equal(decode_named(d, "into")->time_ns, t0 - 4 * S);
	assert_int_equal(decode_named(d, "out of")->end_ns, t0 + 69 * S);
	assert_true(decode_named(d, "without an end")->end_ns == UINT64_MAX);
	decode_free(d);
	assert_int_equal(ranges_parse("1-2", &how.ranks), 0);
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, NULL), 6);
	decode_free(d);
	how.job = "llama";
	d = perfetto();
	assert_int_equal(decode_count(d, DECODE_BEGIN, NULL), 3);
	assert_int_equal(track_of(d, decode_named(d, "into"))->pid, 4001);
	decode_free(d);
}

/* Two nodes with the same process numbers, instances and threads: nothing runs together. */
TEST_WITH(test_nodes, setup, teardown)
{
	char first[sizeof(dir)];
	struct decode *d;
	json_t *json;

	memcpy(first, dir, sizeof(first));
	put_process(1, 0, 4000, "llama");
	put_comm(1, 0);
	put_stage_of(1, 4000, "here", t0, S);
	put_op((struct op){1, 1, t0 + S, S, 0, "AllReduce", NULL, -1});
	store_close(store);
	assert_int_equal(store_setup(NULL), 0);
	store = open_store();
	put_process(1, 5, 4000, "llama");
	put_comm(1, 5);
	put_stage_of(1, 4000, "there", t0, S);
	put_op((struct op){1, 1, t0 + S / 2, S, 0, "AllReduce", NULL, -1});
	stores[0].path = first;
	stores[1].path = dir;
	how.stores = 2;
	d = perfetto();
	assert_int_equal(counts.ranks, 2);
	assert_int_equal(decode_flows(d), 1);
	assert_int_equal(track_of(d, decode_named(d, "here"))->pid, 4000);
	assert_int_not_equal(track_of(d, decode_named(d, "there"))->pid, 4000);
	decode_free(d);
	json = chrome();
	assert_int_equal(phases(json, "s"), 1);
	json_decref(json);
	sh("rm -rf '%s'", first);
}

TEST_WITH(test_nothing, setup, teardown)
{
	struct decode *d;

	d = perfetto();
	assert_int_equal(d->events + d->tracks, 0);
	decode_free(d);
}

TEST_MAIN(NULL, NULL)
