/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as data: words, ranks, sentences, JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "analyzers/finding/finding.h"

#include "tests/test.h"

#define S 1000000000ULL
#define MS 1e6

static struct finding make(enum finding_kind kind, enum finding_cause cause, enum finding_state state)
{
	struct finding finding = {.kind = kind, .cause = cause, .state = state, .tier = FRAME_TIER_HOST, .rank = -1};

	finding.since_ns = 100 * S;
	finding.updated_ns = 131 * S;
	finding.slowdown = 1;
	if (state == FINDING_CLOSED || state == FINDING_DROPPED)
		finding.until_ns = 131 * S;
	return finding;
}

static struct finding of_rank(int32_t rank, const char *host, const char *card, struct finding finding)
{
	finding.rank = rank;
	strcpy(finding.host, host);
	strcpy(finding.card, card);
	return finding;
}

static void assert_sentence(struct finding finding, const char *sentence)
{
	finding_write_sentence(&finding);
	assert_string_equal(finding.sentence, sentence);
}

TEST(words_round_trip)
{
	for (enum finding_kind i = 0; i < FINDING_KIND_MAX; i++)
		assert_int_equal(finding_kind_parse(finding_kind_word(i)), i);
	for (enum finding_cause i = 0; i < CAUSE_MAX; i++) {
		assert_int_equal(finding_cause_parse(finding_cause_word(i)), i);
		assert_true(finding_cause_title(i)[0] && finding_cause_advice(i)[0]);
	}
	assert_string_equal(finding_evidence_name("hog"), "preemptor");
	assert_string_equal(finding_evidence_name("gc"), "gc");
	assert_int_equal(finding_kind_parse("slow"), FINDING_KIND_MAX);
	assert_int_equal(finding_cause_parse(""), CAUSE_MAX);
	assert_string_equal(finding_kind_word(FINDING_KIND_MAX), "");
	assert_string_equal(finding_cause_advice((enum finding_cause)99), "");
	assert_string_equal(finding_state_word(FINDING_DROPPED), "dropped");
	assert_string_equal(finding_severity_word(SEVERITY_CRITICAL), "critical");
	assert_string_equal(finding_tier_word(FRAME_TIER_DEVICE), "device");
	assert_string_equal(finding_tier_word(FRAME_TIER_MAX), "");
}

TEST(ranks_as_text)
{
	int32_t rank[] = {7, 0, 5, 3, 4, 6, 5}, two[] = {4, 3}, far[] = {INT32_MAX, INT32_MAX - 1, INT32_MIN};
	char text[32], little[10];

	finding_ranks(rank, 7, text, sizeof(text));
	assert_string_equal(text, "0,3-7");
	finding_ranks(two, 2, text, sizeof(text));
	assert_string_equal(text, "3,4");
	finding_ranks(rank, 0, text, sizeof(text));
	assert_string_equal(text, "");
	finding_ranks(far, 3, text, sizeof(text));
	assert_string_equal(text, "-2147483648...");
	for (int32_t i = 0; i < 7; i++)
		rank[i] = 2 * i;
	finding_ranks(rank, 7, little, sizeof(little));
	assert_string_equal(little, "0,2,4...");
	finding_ranks(rank, 3, little, sizeof(little));
	assert_string_equal(little, "0,2,4");
}

TEST(slow_ranks)
{
	struct finding finding = of_rank(3, "node-a", "1", make(FINDING_SLOW_RANK, CAUSE_DATALOADER, FINDING_OPEN));

	finding.since_step = 812;
	finding.slowdown = 1.24;
	finding.cost_card_hours = 1.2;
	finding_add(&finding, "step_time", "ns", 1210 * MS, 1020 * MS, NULL);
	finding_add(&finding, "dataloader", "ns", 310 * MS, 12 * MS, "");
	assert_sentence(finding, "rank 3 (node-a, card 1) slows its job by 24 % since step 812: data loading takes 310 "
				 "ms per step; peers 12 ms; 1.2 card-hours lost so far");
	finding.tier = FRAME_TIER_STAGES;
	assert_sentence(finding, "rank 3 (node-a, card 1) slows its job by 24 % since step 812: data loading takes 310 "
				 "ms per step; peers 12 ms; 1.2 card-hours lost so far");
	finding.state = FINDING_CLOSED;
	finding.until_ns = finding.since_ns + 725 * S;
	finding.until_step = 1020;
	assert_sentence(finding, "rank 3 (node-a, card 1) slowed its job by 24 % for 12 min 5 s, from step 812 to "
				 "1020: data loading took 310 ms per step; peers 12 ms; 1.2 card-hours lost");
	finding.state = FINDING_DROPPED;
	finding.cost_card_hours = 0.05;
	finding.host[0] = finding.card[0] = 0;
	finding.slowdown = NAN;
	assert_sentence(finding, "rank 3 may have been slower than its peers for 12 min 5 s, from step 812 to 1020: "
				 "data loading took 310 ms per step; peers 12 ms; 3 card-minutes lost; not confirmed");
}

TEST(slow_ranks_have_what_the_kernel_did)
{
	struct finding finding = of_rank(3, "", "", make(FINDING_SLOW_RANK, CAUSE_DATALOADER, FINDING_OPEN));

	finding.slowdown = 1.24;
	finding_add(&finding, "dataloader", "ns", 310 * MS, 12 * MS, "");
	finding_add(&finding, "system", "%", 31, 1, "reads of files (data/b)");
	assert_sentence(finding,
		"rank 3 slows its job by 24 % for 31 s: data loading takes 310 ms per step; peers 12 ms; the "
		"kernel: reads of files (data/b) 31 % of the time (its peers 1 %)");
	strcpy(finding.evidence[1].name, "system_before");
	finding.evidence[1].peers = NAN;
	assert_sentence(finding,
		"rank 3 slows its job by 24 % for 31 s: data loading takes 310 ms per step; peers 12 ms; the "
		"kernel: reads of files (data/b) 31 % of the time");
}

TEST(causes_of_slow_ranks)
{
	struct finding finding = of_rank(3, "", "", make(FINDING_SLOW_RANK, CAUSE_PREEMPTION, FINDING_OPEN));

	finding.slowdown = 1.1;
	finding_add(&finding, "run_delay", "ns", 120 * MS, 0.5 * MS, "stress-ng (pid 4711)");
	assert_sentence(finding, "rank 3 slows its job by 10 % for 31 s: preempted 120 ms per step by stress-ng (pid "
				 "4711); peers 500 us");
	finding.cause = CAUSE_UNKNOWN;
	assert_sentence(finding, "rank 3 slows its job by 10 % for 31 s: cause unknown");
	finding.cause = CAUSE_THROTTLING;
	assert_sentence(finding, "rank 3 slows its job by 10 % for 31 s: CPU limit of the control group");
	finding.evidence[0].peers = NAN;
	strcpy(finding.evidence[0].name, "throttled");
	strcpy(finding.others, "4-7");
	assert_sentence(finding, "rank 3 slows its job by 10 % for 31 s: throttled 120 ms per step by the CPU limit of "
				 "its control group; ranks 4-7 are affected too");
	finding.evidence[0].value = INFINITY;
	strcpy(finding.others, "4");
	assert_sentence(finding,
		"rank 3 slows its job by 10 % for 31 s: CPU limit of the control group; rank 4 is affected too");
}

TEST(jobs_and_communicators)
{
	struct finding job = make(FINDING_SLOW_JOB, CAUSE_UNKNOWN, FINDING_OPEN);
	struct finding slow = make(FINDING_SLOW_COMMUNICATION, CAUSE_NODE, FINDING_OPEN);

	job.slowdown = 1.18;
	job.since_step = 400;
	finding_add(&job, "step_time", "ns", 1210 * MS, 1025 * MS, NULL);
	assert_sentence(job,
		"steps take 18 % longer since step 400 (up to 1.21 s; 1.02 s before), on all ranks: cause unknown");
	job.cause = CAUSE_DATALOADER;
	job.tier = FRAME_TIER_STAGES;
	finding_add(&job, "dataloader", "ns", 200 * MS, 12 * MS, "");
	assert_sentence(job,
		"steps take 18 % longer since step 400 (up to 1.21 s; 1.02 s before): data loading takes 200 ms "
		"per step; 12 ms before");
	job.cause = CAUSE_PREEMPTION;
	job.tier = FRAME_TIER_HOST;
	finding_add(&job, "run_delay", "ns", 24 * MS, 14.5 * MS, "");
	assert_sentence(job,
		"steps take 18 % longer since step 400 (up to 1.21 s; 1.02 s before), on all ranks: preempted "
		"24 ms per step; 14.5 ms before");
	job.cause = CAUSE_DATALOADER;
	job.tier = FRAME_TIER_STAGES;
	finding_add(&job, "explained", "1", 7, NAN, "finding slow_rank, rank 3");
	job.state = FINDING_CLOSED;
	job.until_ns = 0;
	assert_sentence(job,
		"steps took 18 % longer for 31 s, at step 400 (up to 1.21 s; 1.02 s before): data loading took "
		"200 ms per step; 12 ms before; explained by finding slow_rank, rank 3");
	strcpy(slow.communicator, "5f3c000011112222");
	strcpy(slow.host, "node-c");
	slow.since_step = 90;
	finding_add(&slow, "transfer", "ns", 14 * MS, 10 * MS, "");
	assert_sentence(slow, "operations of communicator 5f3c000011112222 take 1.4 times as long as before since step "
			      "90: all slow operations involve node-c");
	slow.cause = CAUSE_LINK;
	slow.rank = 1;
	slow.slowdown = 1.06;
	strcpy(slow.others, "9");
	assert_sentence(slow, "operations of communicator 5f3c000011112222 take 1.4 times as long as before since step "
			      "90: slow link between rank 1 (node-c) and rank 9; steps take 6 % longer");
}

TEST(hangs)
{
	struct finding finding = of_rank(5, "node-b", "", make(FINDING_HANG, CAUSE_STOPPED, FINDING_OPEN));
	char text[64];

	finding.slowdown = 0;
	finding_add(&finding, "state", "", NAN, NAN, "T");
	finding_add(&finding, "waiting", "1", 7, NAN, "AllReduce 118");
	assert_sentence(finding, "rank 5 (node-b) has blocked the job for 31 s: process stopped (state T); 7 other "
				 "ranks wait in AllReduce 118");
	finding_add(&finding, "entered_seq", "1", 118, NAN, "");
	finding_add(&finding, "stage", "ns", 3e10, NAN, "stopped");
	strcpy(finding.evidence[1].detail, "backward");
	assert_sentence(finding, "rank 5 (node-b) has blocked the job for 31 s: process stopped (state T); 7 other "
				 "ranks wait in backward for operation 118");
	strcpy(finding.evidence[3].detail, "forward");
	finding.evidences = 4;
	assert_sentence(finding, "rank 5 (node-b) has blocked the job for 31 s: process stopped (state T), in forward; "
				 "7 other ranks wait in backward for operation 118");
	finding.evidences = 2;
	strcpy(finding.evidence[1].detail, "AllReduce 118");
	finding.state = FINDING_CLOSED;
	finding.evidence[1].value = 1;
	assert_sentence(finding, "rank 5 (node-b) blocked the job for 31 s: process stopped (state T); 1 other rank "
				 "waited in AllReduce 118");
	finding_write_cause(&finding, text, sizeof(text));
	assert_string_equal(text, "process stopped");
	finding.cause = CAUSE_MISSING;
	finding_write_cause(&finding, text, sizeof(text));
	assert_string_equal(text, "late to the operation that the others waited in");
	finding.kind = FINDING_SLOW_RANK;
	finding_write_cause(&finding, text, sizeof(text));
	assert_string_equal(text, "rank missing from collective");
	finding = make(FINDING_HANG, CAUSE_UNKNOWN, FINDING_OPEN);
	assert_sentence(finding, "the job has been hung for 31 s: cause unknown");
	finding_add(&finding, "waiting", "1", 8, NAN, "no stage");
	assert_sentence(finding, "the job has been hung for 31 s: cause unknown; 8 ranks wait");
	finding.evidences = 0;
	finding.cause = CAUSE_MISSING;
	strcpy(finding.others, "3,5");
	assert_sentence(
		finding, "ranks 3,5 have blocked the job for 31 s: missing from the operation that the others wait in");
	finding = of_rank(2, "", "", make(FINDING_MISMATCH, CAUSE_SIZE_MISMATCH, FINDING_OPEN));
	strcpy(finding.communicator, "5f3c");
	finding_add(&finding, "mismatch", "", NAN, NAN, "AllReduce 118 of 4 MiB");
	assert_sentence(finding, "rank 2 called an operation of another size than the others under one sequence number "
				 "of communicator 5f3c: AllReduce 118 of 4 MiB");
}

TEST(leaks_name_the_device)
{
	struct finding finding = of_rank(2, "", "", make(FINDING_MEMORY, CAUSE_MEMORY_LEAK, FINDING_OPEN));

	finding_add(&finding, "memory_growth", "bytes", 12 * 1048576.0, NAN, "cuda:0");
	finding_add(&finding, "memory_hourly", "bytes", 360 * 1048576.0, NAN, NULL);
	assert_sentence(finding, "rank 2 leaks memory of cuda:0 for 31 s: what is allocated between steps has grown by "
				 "12 MiB, 360 MiB an "
				 "hour");
	finding_add(&finding, "stack", "1", 1, NAN, "keep (leak.py:63)");
	assert_sentence(finding, "rank 2 leaks memory of cuda:0 for 31 s: what is allocated between steps has grown by "
				 "12 MiB, 360 MiB an "
				 "hour; most of it is held by keep (leak.py:63)");
}

TEST(lack_of_device_memory_names_the_line_that_asked)
{
	struct finding finding = of_rank(2, "", "", make(FINDING_MEMORY, CAUSE_DEVICE_MEMORY, FINDING_CLOSED));

	assert_sentence(finding, "rank 2 ran out of memory");
	finding_add(&finding, "memory_asked", "bytes", 2048 * 1048576.0, NAN, "cuda:0");
	finding_add(&finding, "memory_allocated", "bytes", 76 * 1048576.0, NAN, NULL);
	assert_sentence(finding, "rank 2 ran out of memory of cuda:0: 2 GiB asked for, 76 MiB allocated");
	finding_add(&finding, "memory_reserved", "bytes", 1024 * 1048576.0, NAN, NULL);
	finding_add(&finding, "stack", "1", 1, NAN, "ask (leak.py:66)");
	assert_sentence(finding, "rank 2 ran out of memory of cuda:0 in ask (leak.py:66): 2 GiB asked for, 76 MiB "
				 "allocated, 1 GiB reserved");
	finding_add(&finding, "memory_why", "1", 1, NAN, "leak");
	assert_sentence(finding, "rank 2 ran out of memory of cuda:0 in ask (leak.py:66): 2 GiB asked for, 76 MiB "
				 "allocated, 1 GiB reserved; a leak has filled the pool");
	strcpy(finding.evidence[finding.evidences - 1].detail, "fragmentation");
	assert_sentence(finding, "rank 2 ran out of memory of cuda:0 in ask (leak.py:66): 2 GiB asked for, 76 MiB "
				 "allocated, 1 GiB reserved; the pool has enough, but in pieces");
	strcpy(finding.evidence[finding.evidences - 1].detail, "capacity");
	assert_sentence(finding, "rank 2 ran out of memory of cuda:0 in ask (leak.py:66): 2 GiB asked for, 76 MiB "
				 "allocated, 1 GiB reserved");
}

TEST(calls_of_device_memory_name_their_cost)
{
	struct finding finding = of_rank(2, "", "", make(FINDING_MEMORY, CAUSE_MEMORY_CALLS, FINDING_OPEN));

	finding_add(&finding, "memory_calls", "%", 23.4, NAN, NULL);
	assert_sentence(finding,
		"rank 2 gives back device memory and takes it again for 31 s: the calls take 23 % of its time");
	finding_add(&finding, "stack", "1", 1, NAN, "step (gpt.py:54)");
	finding.state = FINDING_CLOSED;
	assert_sentence(finding, "rank 2 gave back device memory and took it again for 31 s: the calls took 23 % of "
				 "its time, the longest in "
				 "step (gpt.py:54)");
}

TEST(overheads_name_level_cost_and_budget)
{
	struct finding finding = of_rank(2, "node-a", "", make(FINDING_OVERHEAD, CAUSE_PROBES, FINDING_OPEN));

	finding_add(&finding, "probes", "%", 2.13, NAN, "L0");
	finding_add(&finding, "level", "%", 1.9, NAN, NULL);
	finding_add(&finding, "budget", "%", 0.5, NAN, NULL);
	assert_sentence(finding, "probes take up to 2.1 % of the time of rank 2 (node-a) for 31 s, more than the "
				 "budget of 0.5 %: 1.9 % by L0");
	finding.state = FINDING_CLOSED;
	assert_sentence(finding, "probes took up to 2.1 % of the time of rank 2 (node-a) for 31 s, more than the "
				 "budget of 0.5 %: 1.9 % by L0");
}

TEST(the_daemon_has_a_budget_of_its_own)
{
	struct finding finding = of_rank(-1, "node-a", "", make(FINDING_OVERHEAD, CAUSE_DAEMON, FINDING_OPEN));

	finding_add(&finding, "daemon", "%", 1.94, NAN, "L3");
	finding_add(&finding, "level", "%", 0.8, NAN, NULL);
	finding_add(&finding, "budget", "%", 1, NAN, NULL);
	assert_sentence(finding,
		"ranktraced takes up to 1.9 % of a CPU of node-a for 31 s, more than the budget of 1 %: 0.8 % by L3");
	finding.state = FINDING_CLOSED;
	assert_sentence(finding,
		"ranktraced took up to 1.9 % of a CPU of node-a for 31 s, more than the budget of 1 %: 0.8 % by L3");
	finding.evidence[0].value = 166;
	finding.evidence[1].value = 83;
	assert_sentence(finding,
		"ranktraced took up to 166 % of a CPU of node-a for 31 s, more than the budget of 1 %: 83 % by L3");
	/* Less than half of what is beyond the budget. */
	finding.evidence[0].value = 1.94;
	finding.evidence[1].value = 0.4;
	assert_sentence(
		finding, "ranktraced took up to 1.9 % of a CPU of node-a for 31 s, more than the budget of 1 %");
}

TEST(the_daemon_has_a_budget_of_memory)
{
	struct finding finding = make(FINDING_OVERHEAD, CAUSE_DAEMON, FINDING_OPEN);

	strcpy(finding.host, "node-a");
	finding_add(&finding, "daemon", "bytes", 140 << 20, NAN, NULL);
	finding_add(&finding, "budget", "bytes", 128 << 20, NAN, NULL);
	assert_sentence(
		finding, "ranktraced has up to 140 MiB of memory of node-a for 31 s, more than the budget of 128 MiB");
	finding.state = FINDING_CLOSED;
	assert_sentence(
		finding, "ranktraced had up to 140 MiB of memory of node-a for 31 s, more than the budget of 128 MiB");
}

TEST(crashes_say_how_and_where)
{
	struct finding finding = of_rank(3, "node-a", "1", make(FINDING_CRASH, CAUSE_CRASHED, FINDING_CLOSED));

	assert_sentence(finding, "rank 3 (node-a, card 1) ended with an error");
	finding_add(&finding, "end", "1", 11, NAN, "SIGSEGV");
	assert_sentence(finding, "rank 3 (node-a, card 1) ended with an error: SIGSEGV");
	finding_add(&finding, "stack", "1", 1, NAN, "step (train.py:54)");
	assert_sentence(finding, "rank 3 (node-a, card 1) ended with an error: SIGSEGV in step (train.py:54)");
}

TEST(imbalances_accuse_nobody)
{
	struct finding finding = make(FINDING_IMBALANCE, CAUSE_STAGE, FINDING_OPEN);

	finding_add(&finding, "stage", "1", 3, NAN, NULL);
	finding_add(&finding, "self_time", "ns", 123 * MS, 100 * MS, NULL);
	assert_sentence(finding, "pipeline stage 3 takes 23 % longer than the others; no hardware fault");
	finding.cause = CAUSE_SEQUENCE;
	finding.slowdown = 1.3;
	assert_sentence(finding, "work is divided unevenly between ranks: the slowest rank changes from step to step, "
				 "and steps take 30 % longer; no hardware fault");
}

/* Every kind, cause and state, with names from outside that would do harm, is one terminated line. */
TEST(names_from_outside_are_cleaned)
{
	static const char evil[] = "a\033[31m\n\x80\xe2\x80\xae\xc3\xa9"
				   "bcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst";
	struct finding finding = of_rank(3, evil, "\t", make(FINDING_SLOW_RANK, CAUSE_COMPUTE, FINDING_OPEN));

	finding_add(&finding, "self_time", "ns", 1e300, -1, evil);
	finding_write_sentence(&finding);
	assert_non_null(strstr(finding.sentence, "rank 3 (a?[31m?????\xc3\xa9"
						 "bcdef"));
	for (int kind = 0; kind < FINDING_KIND_MAX; kind++) {
		for (int cause = 0; cause < CAUSE_MAX; cause++) {
			for (int lifecycle = 0; lifecycle < FINDING_STATE_MAX; lifecycle++) {
				finding.kind = (enum finding_kind)kind;
				finding.cause = (enum finding_cause)cause;
				finding.state = (enum finding_state)lifecycle;
				finding_write_sentence(&finding);
				assert_true(strlen(finding.sentence) > 10);
				for (const char *at = finding.sentence; *at; at++)
					assert_false((unsigned char)*at < 0x20);
			}
		}
	}
	/* Too long forms of what could be written shorter, and one that is cut. */
	strcpy(finding.host, "a\xc1\x81z\xe0\x82\xa1\xf0\x9f\x98");
	finding.kind = FINDING_SLOW_RANK;
	finding_write_sentence(&finding);
	assert_non_null(strstr(finding.sentence, "(a??z??????,"));
	finding.kind = FINDING_KIND_MAX;
	assert_sentence(finding, "");
}

TEST(evidence_as_json)
{
	struct finding finding = {.evidences = 0};
	char text[FINDING_JSON_BYTES];
	size_t length;
	json_t *json;

	assert_int_equal(finding_evidence_json(&finding, text, sizeof(text)), 2);
	assert_string_equal(text, "[]");
	assert_int_equal(finding_evidence_json(&finding, text, 2), 0);
	assert_string_equal(text, "");
	finding_add(&finding, "dataloader", "ns", 310 * MS, 12.5, "a\"\\\n\xff\xc3\xa9");
	finding_add(&finding, "x", "1", NAN, INFINITY, NULL);
	for (int i = 0; i < 9; i++)
		finding_add(&finding, "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"", "1234567", -1.23456789e-300,
			-1.23456789e-300,
			"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"
			"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\");
	assert_int_equal(finding.evidences, FINDING_EVIDENCE_MAX);
	for (size_t size = 3; size <= sizeof(text); size++) {
		memset(text, 'x', sizeof(text));
		length = finding_evidence_json(&finding, text, size);
		assert_true(length < size && length == strlen(text));
		json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		assert_true(json_is_array(json));
		assert_true(json_array_size(json) <= FINDING_EVIDENCE_MAX);
		if (size < sizeof(text))
			json_decref(json);
	}
	assert_int_equal(json_array_size(json), FINDING_EVIDENCE_MAX);
	assert_string_equal(json_string_value(json_object_get(json_array_get(json, 0), "detail")), "a\"\\??\xc3\xa9");
	assert_true(json_number_value(json_object_get(json_array_get(json, 0), "value")) == 310 * MS);
	assert_true(json_number_value(json_object_get(json_array_get(json, 0), "peers")) == 12.5);
	assert_true(json_is_null(json_object_get(json_array_get(json, 1), "value")));
	json_decref(json);
}

TEST_MAIN(NULL, NULL)
