/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of findings: rows, what is left at the end or after a kill, and levels that they turn on and off. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <fcntl.h>
#include <sys/stat.h>

#include "analyzers/gauges/network_gauges.h"
#include "daemon/gauges/gauges_internal.h"
#include "daemon/memory/memory_rows.h"
#include "daemon/ranks/ranks_internal.h"
#include "tests/unit/findings_fixture.h"

#define USER 1000
#define OTHER_USER 1001

static struct finding finding(uint64_t id, enum finding_state state)
{
	struct finding f = {
		.id = id,
		.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_DATALOADER,
		.state = state,
		.severity = SEVERITY_WARNING,
		.tier = FRAME_TIER_HOST,
		.confidence = 0.9,
		.job = "j",
		.uid_known = true,
		.uid = 1000,
		.rank = 1,
		.host = "a",
		.since_step = 812,
		.since_ns = monotonic_ns(),
		.slowdown = 1.24,
		.cost_card_hours = 0.5,
		.sentence = "rank 1 is slow",
	};

	finding_add(&f, "dataloader", "ns", 3e8, 1e7, "\"loader\"");
	return f;
}

static void say(struct finding f)
{
	sink.finding(sink.arg, &f);
}

/* What the network lost in the last 100 s, of which the finding has lasted 20. */
TEST_WITH(test_network, setup, teardown)
{
	const struct gauge_roots none = {"/nowhere", "/nowhere", "/nowhere", "no.so", "no.so"};
	struct finding of = finding(1, FINDING_OPEN);
	uint64_t now_ns = monotonic_ns();

	assert_int_equal(gauges_new_at(&context, &none, &context.gauges), 0);
	for (uint64_t ago_s = 100; ago_s > 0; ago_s--)
		network_gauges_sample(gauges_network(context.gauges), now_ns - ago_s * NSEC_PER_SEC, "eth0",
			"packets received and dropped", true, ago_s > 20 ? 1 : 50);
	of.kind = FINDING_SLOW_COMMUNICATION;
	of.cause = CAUSE_COMMUNICATION;
	of.since_ns = now_ns - 20 * NSEC_PER_SEC;
	say(of);
	flush();
	assert_query("select json_extract(evidence, '$[1].name'), json_extract(evidence, '$[1].detail'), sentence like "
		     "'%; the network: packets received and dropped (eth0) % a second (1 before)%' from findings",
		"network|packets received and dropped (eth0)|1\n");
	context.gauges = gauges_free(context.gauges);
}

TEST_WITH(test_rows, setup, teardown)
{
	struct online_counts counts;

	say(finding(1, FINDING_SUSPECTED));
	online_counts_get(context.findings, &counts);
	assert_true(counts.suspected == 1 && counts.open == 0);
	say(finding(1, FINDING_OPEN));
	say(finding(1, FINDING_OPEN));
	say(finding(2, FINDING_SUSPECTED));
	say(finding(2, FINDING_DROPPED));
	online_counts_get(context.findings, &counts);
	assert_true(counts.suspected == 0 && counts.open == 1 && counts.dropped == 1 && counts.closed == 0);
	flush();
	assert_query("select kind, cause, state, severity, tier, job, rank, host, card, since_step, until_step, "
		     "until_ns, slowdown, "
		     "cost_card_hours, sentence from findings order by finding",
		"slow_rank|dataloader|open|warning|host|j|1|a|NULL|812|NULL|NULL|1.24|0.5|rank 1 is slow\n"
		"slow_rank|dataloader|dropped|warning|host|j|1|a|NULL|812|NULL|NULL|1.24|0.5|rank 1 is slow\n");
	assert_int_equal(
		query_int(
			"select count(*) from findings where abs(since_ns / 1000000000 - strftime('%s', 'now')) < 60"),
		2);
	assert_query("select json_extract(evidence, '$[0].detail'), json_extract(evidence, '$[0].value') from findings "
		     "limit 1",
		"\"loader\"|300000000\n");
	assert_query("select uid, count(*) from findings", "1000|2\n");
	/* A judge that is out of its mind. */
	say((struct finding){.kind = FINDING_KIND_MAX});
	say((struct finding){.cause = CAUSE_MAX});
	online_counts_get(context.findings, &counts);
	assert_true(counts.suspected == 0 && counts.open == 1);
}

TEST_WITH(test_swap, setup, teardown)
{
	struct online_process *process = &context.findings->slot[1];
	struct finding f = finding(1, FINDING_OPEN);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	f.cause = CAUSE_FAULTS;
	finding_add(&f, "major_faults", "1", 2560, 0, NULL);
	*process = (struct online_process){
		.instance = 5, .rank = 1, .job = "j", .newest = {.state = 'R', .swapped_bytes = 2559 * page}};
	say(f); /* most of them read something else */
	process->newest.swapped_bytes = HOST_UNKNOWN;
	say(f);
	flush();
	assert_query("select distinct cause, sentence from findings", "page_faults|rank 1 is slow\n");
	process->newest.swapped_bytes = 2560 * page;
	say(f);
	flush();
	assert_query("select count(*) from findings where cause = 'swap' and sentence like "
		     "'%: 2560 major page faults per step (10.0 MiB of its memory swapped out); peers 0%'",
		"1\n");
	*process = (struct online_process){0};
}

/* What a suspected user's job seems to need turns no level on for others, and keeps none on. */
TEST_WITH(test_doubt, setup, teardown)
{
	const struct finding one = finding(1, FINDING_SUSPECTED);
	struct online_auto_level *level = &context.findings->auto_level;
	static struct ranks ranks;

	context.ranks = &ranks;
	ranks_suspect(&ranks, one.uid, "nonsense");
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, one.uid, "j", "slow");
	assert_false(level->turned_on[LEVEL_L1]);
	say(one);
	assert_false(online_publish_suspects(context.findings));
	say(finding(1, FINDING_OPEN));
	assert_false(level->fruitful[LEVEL_L1]);

	ranks = (struct ranks){0};
	ranks_suspect(&ranks, one.uid + 1, "nonsense");
	say(finding(2, FINDING_SUSPECTED));
	assert_true(online_publish_suspects(context.findings));
	say(finding(2, FINDING_OPEN));
	assert_true(level->fruitful[LEVEL_L1]);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, one.uid, "j", "slow");
	assert_true(level->turned_on[LEVEL_L1]);
	context.ranks = NULL;
}

/* A leak is one finding from its begin to its end. */
TEST_WITH(test_leak, setup, teardown)
{
	const struct rank rank = {.env = {.rank = 3, .job = "j"}, .host = "a", .uid = 1001};
	struct online_leak_info info = {
		.rank = &rank, .device = "cuda:0", .since_ns = monotonic_ns(), .place = "keep (leak.py:63)"};
	struct online_open open = {0}, other = {0};

	online_leak(context.findings, &info, true, &open);
	assert_int_equal(open.number, 0);
	info.grown_bytes = 1048576;
	info.hourly_bytes = 2097152;
	online_leak(context.findings, &info, false, &open);
	other = open;
	assert_true(open.number > 0);
	online_leak(context.findings, &info, false, &open);
	assert_int_equal(open.number, other.number);
	assert_int_equal(open.noticed_ns, other.noticed_ns);
	flush();
	assert_query("select kind, cause, state, rank, sentence like 'rank 3 (a) leaks memory of cuda:0%: what is "
		     "allocated between "
		     "steps has grown by 1 MiB, 2 MiB an hour; most of it is held by keep (leak.py:63)' from findings",
		"memory|memory_leak|open|3|1\n");
	online_leak(context.findings, &info, true, &open);
	assert_int_equal(open.number, 0);
	flush();
	/* When it was noticed does not change, though it is written again. */
	assert_query("select state, until_ns > noticed_ns, uid from findings", "closed|1|1001\n");
	online_leak(context.findings, &info, false, &open);
	assert_true(open.number > other.number);
	open = (struct online_open){0};
	online_leak(NULL, &info, false, &open);
	assert_int_equal(open.number, 0);
}

/* So is an excess of the budget. */
TEST_WITH(test_overhead, setup, teardown)
{
	const struct rank rank = {.env = {.rank = 3, .job = "j"}, .host = "a", .uid = 1001};
	struct online_overhead_info info = {&rank, "L0", 2.1, 1.9, 0.5, monotonic_ns(), 0, 0};
	struct online_open open = {0};

	online_overhead(context.findings, &info, true, &open);
	assert_int_equal(open.number, 0);
	online_overhead(context.findings, &info, false, &open);
	assert_true(open.number > 0);
	flush();
	assert_query("select kind, cause, state, severity, rank, sentence like 'probes take up to 2.1 %% of the time "
		     "of rank 3 (a)%, more than the "
		     "budget of 0.5 %%: 1.9 %% by L0' from findings where cause = 'probes'",
		"overhead|probes|open|notice|3|1\n");
	online_overhead(context.findings, &info, true, &open);
	flush();
	assert_query("select state, until_ns is not null, uid from findings where cause = 'probes'", "closed|1|1001\n");
	online_overhead(NULL, &info, false, &open);
	assert_int_equal(open.number, 0);
	/* The daemon's own is of its node. */
	info.rank = NULL;
	copy_text(context.host, sizeof(context.host), "node-b");
	online_overhead(context.findings, &info, false, &open);
	assert_true(open.number > 0);
	flush();
	assert_query("select kind, state, severity, rank, host, uid, sentence like 'ranktraced takes up to 2.1 %% of a "
		     "CPU of node-b%' from findings "
		     "where cause = 'daemon'",
		"overhead|open|notice|NULL|node-b|NULL|1\n");
}

TEST_WITH(test_calls, setup, teardown)
{
	const struct rank rank = {.env = {.rank = 3, .job = "j"}, .host = "a", .uid = 1001};
	struct online_calls_info info = {
		.rank = &rank, .since_ns = monotonic_ns(), .place = "step (gpt.py:54)", .percent = 12};
	struct online_open open = {0};

	online_calls(context.findings, &info, false, &open);
	assert_true(open.number > 0);
	online_calls(context.findings, &info, true, &open);
	assert_int_equal(open.number, 0);
	online_calls(context.findings, &info, true, &open);
	flush();
	assert_query("select kind, cause, state, severity, sentence like 'rank 3 (a) gave back device memory and took "
		     "it again%: the calls took "
		     "12 % of its time, the longest in step (gpt.py:54)' from findings",
		"memory|memory_calls|closed|warning|1\n");
}

/* It is over at once. */
TEST_WITH(test_oom, setup, teardown)
{
	const struct rank rank = {.env = {.rank = 3, .job = "j"}, .host = "a", .uid = 1001};
	struct online_oom_info info = {.rank = &rank,
		.device = "cuda:0",
		.place = "ask (leak.py:66)",
		.time_ns = monotonic_ns(),
		.asked_bytes = 2097152,
		.allocated_bytes = 1048576};

	online_oom(NULL, &info);
	online_oom(context.findings, &info);
	info.place = "";
	online_oom(context.findings, &info);
	flush();
	assert_query("select kind, cause, state, severity, rank, uid, until_ns = since_ns, sentence from findings "
		     "order by length(sentence) desc",
		"memory|device_memory|closed|warning|3|1001|1|rank 3 (a) ran out of memory of cuda:0 in ask "
		"(leak.py:66): 2 MiB asked for, "
		"1 MiB allocated\n"
		"memory|device_memory|closed|warning|3|1001|1|rank 3 (a) ran out of memory of cuda:0: 2 MiB asked for, "
		"1 MiB allocated\n");
}

/* Why, where it is known: others on the card may hold what is missing. */
TEST_WITH(test_oom_why, setup, teardown)
{
	static const struct {
		double asked, reserved, leaked, card, others;
	} requests[] = {{200, 0, 0, 0, 0}, {200, 1199, 0, 0, 0}, {200, 1199, 99, 2000, NAN}, {200, 1199, 100, 0, 0},
		{200, 1200, 100, 0, 0}, {200, 1199, 0, 2000, 199}, {200, 1199, 0, 2000, 200}};
	const struct rank rank = {.env = {.rank = 3, .job = "j"}, .host = "a", .uid = 1001};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		online_oom(
			context.findings, &(struct online_oom_info){.rank = &rank,
						  .device = "cuda:0",
						  .place = "",
						  .time_ns = monotonic_ns(),
						  .asked_bytes = requests[i].asked,
						  .allocated_bytes = 1000,
						  .reserved_bytes = requests[i].reserved,
						  .leaked_bytes = requests[i].leaked,
						  .card = {.total = requests[i].card, .others = requests[i].others}});
	flush();
	assert_query(
		"select evidence like '%memory_why%', evidence like '%\"memory_why\"%\"detail\":\"leak\"%', "
		"evidence like '%\"memory_why\"%\"detail\":\"fragmentation\"%', sentence like '%reserved; a leak "
		"has filled the pool', sentence like '%reserved; the pool has enough, but in pieces', evidence like "
		"'%\"memory_why\"%\"detail\":\"capacity\"%', sentence like '%reserved; other processes hold 200 B of "
		"the card' from findings order by finding",
		"0|0|0|0|0|0|0\n"
		"0|0|0|0|0|0|0\n"
		"0|0|0|0|0|0|0\n"
		"1|1|0|1|0|0|0\n"
		"1|0|1|0|1|0|0\n"
		"1|0|0|0|0|1|0\n"
		"1|0|0|0|0|0|1\n");
}

/* The curve of the device that was asked says whether it leaks. */
TEST(test_leaked)
{
	static struct memory_put put[RT_MEMORY_DEVICES_MAX];
	static struct rt_memory_rank counts = {.device = {{.used = 1, .device = 0xff00}, {.used = 2, .device = 0x1}}};

	assert_true(memory_rows_leaked(&counts, put, 0x1) <= 0);
	for (uint64_t i = 0; i < MEMORY_POINTS_MAX; i++) {
		memory_history_add(&put[0].lows, (1000 + i) * MEMORY_BUCKET_NS, 500);
		memory_history_add(&put[1].lows, (1000 + i) * MEMORY_BUCKET_NS, 500 + 5 * (double)i);
	}
	assert_true(memory_rows_leaked(&counts, put, 0xff00) <= 0);
	assert_true(memory_rows_leaked(&counts, put, 0x101) <= 0);
	assert_true(memory_rows_leaked(&counts, put, 0x1) > 400);
}

/* Findings close when watching stops. */
TEST_WITH(test_end, setup, teardown)
{
	say(finding(3, FINDING_OPEN));
	has_open = true;
	open_at_end = finding(3, FINDING_OPEN);
	context.findings = online_free(context.findings);
	flush();
	assert_query("select state, until_ns is not null, sentence from findings",
		"closed|1|rank 1 is slow; still so when ranktraced stopped\n");
	sh("test ! -e '%s/findings'", dir);
}

/* The mark of open findings waits for a disk: here for a pipe's reader. */
TEST_WITH(test_disk_that_waits, setup, teardown)
{
	char path[4096];
	int fd;

	context.findings->wait_ns = NSEC_PER_MSEC;
	snprintf(path, sizeof(path), "%s/findings", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	say(finding(3, FINDING_OPEN));
	assert_non_null(context.findings->mark);
	say(finding(3, FINDING_CLOSED));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	context.findings->wait_ns = 60 * NSEC_PER_SEC;
	context.findings = online_free(context.findings);
	sh("test ! -e '%s/findings'", dir);
	close(fd);
}

/* Killed, and started again. */
TEST_WITH(test_left, setup, teardown)
{
	struct online *killed = context.findings;

	say(finding(3, FINDING_OPEN));
	say(finding(4, FINDING_SUSPECTED));
	/* The last that it saw. */
	store_put_host_samples(
		context.store, &(struct row_host_samples){.rank = field_int(1),
				       .start_ns = field_time(store_utc_ns(context.store, monotonic_ns())),
				       .duration_ns = field_duration(1000),
				       .state = field_text("S"),
				       .instance = field_int(1)});
	say(finding(5, FINDING_OPEN));
	say(finding(5, FINDING_CLOSED));
	flush();
	sh("test -e '%s/findings'", dir);
	observer_count--;
	context.findings = NULL;
	assert_int_equal(online_new(&context, &context.findings), 0);
	context.findings->wait_ns = 60 * NSEC_PER_SEC;
	flush();
	assert_query("select state, until_ns is not null, sentence from findings order by finding",
		"closed|1|when ranktraced ended unexpectedly: rank 1 is slow\ndropped|1|when ranktraced ended "
		"unexpectedly: rank 1 is slow\nclosed|0|rank 1 is slow\n");
	assert_int_equal(query_int("select count(*) from findings where until_ns = (select start_ns + duration_ns from "
				   "host_samples)"),
		2);
	sh("test ! -e '%s/findings'", dir);
	free(killed);
}

/* More than are closed at once: the next start goes on. */
TEST_WITH(test_many_left, setup, teardown)
{
	struct online *killed[2];

	for (uint64_t id = 1; id <= 700; id++)
		say(finding(id, FINDING_OPEN));
	flush();
	for (unsigned i = 0; i < 2; i++) {
		killed[i] = context.findings;
		observer_count--;
		context.findings = NULL;
		sh("cd '%s' && mv findings kept", dir);
		assert_int_equal(online_new(&context, &context.findings), 0);
		context.findings->wait_ns = 60 * NSEC_PER_SEC;
		sh("cd '%s' && mv kept findings", dir);
		online_recover_close(context.findings, 600 * NSEC_PER_SEC); /* under any load */
		flush();
		assert_int_equal(query_int("select count(*) from findings where state = 'open'"), i ? 0 : 700 - 512);
		sh(i ? "test ! -e '%s/findings'" : "test -e '%s/findings'", dir);
		/* Its own come and go; the remaining ones are still marked. */
		say(finding(1000, FINDING_OPEN));
		say(finding(1000, FINDING_CLOSED));
		sh(i ? "test ! -e '%s/findings'" : "test -e '%s/findings'", dir);
	}
	free(killed[0]);
	free(killed[1]);
}

/* Two users have a job of the same name: one of them is suspected. */
TEST_WITH(test_suspected_user_raises_nothing, setup, teardown)
{
	static struct ranks ranks;

	context.ranks = &ranks;
	ranks_suspect(&ranks, OTHER_USER, "nonsense");
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM, OTHER_USER, "j", "rank 1 may be slow");
	assert_int_equal(switches, 0);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	assert_int_equal(switches, 1);
	context.ranks = NULL;
}

TEST_WITH(test_raise, setup, teardown)
{
	uint64_t now_ns = monotonic_ns(), until_ns;
	unsigned raises = 0;

	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	assert_true(context.levels.on[LEVEL_L1] && context.levels.is_auto[LEVEL_L1] && !context.levels.on[LEVEL_L3]);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM, USER, "j", "rank 1 may be slow");
	assert_true(context.levels.on[LEVEL_L3]);
	assert_int_equal(switches, 2);
	until_ns = context.levels.until_ns[LEVEL_L1];
	assert_true(until_ns > now_ns + 50 * NSEC_PER_SEC && until_ns < now_ns + 70 * NSEC_PER_SEC);
	/* It comes to nothing: then there is a pause. */
	levels_tick(&context, until_ns + NSEC_PER_SEC);
	online_tick(context.findings, until_ns + NSEC_PER_SEC);
	assert_false(context.levels.on[LEVEL_L1] || context.levels.on[LEVEL_L3]);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	assert_false(context.levels.on[LEVEL_L1]);
	/* After it, again; and what is worth it needs no pause, but a tenth of the hour is all there is. */
	now_ns = until_ns + 400 * NSEC_PER_SEC;
	for (unsigned i = 0; i < 30; i++) {
		online_auto_level_want(
			&context.findings->auto_level, &context, JUDGE_WANT_OPERATIONS, "j", "slow", now_ns);
		raises += context.levels.on[LEVEL_L1];
		say(finding(10 + i, FINDING_OPEN));
		if (!context.levels.on[LEVEL_L1])
			continue;
		levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
		online_auto_level_tick(&context.findings->auto_level, &context, false, now_ns);
	}
	assert_int_equal(raises, 5); /* of six in an hour one was spent before, and hardly any time has passed */
}

/* Until what is suspected is decided, but no longer than as long again. */
TEST_WITH(test_raise_goes_on, setup, teardown)
{
	uint64_t until_ns, first_ns, for_ns = context.config.online_auto_level_for_ns;
	unsigned longer = 0;

	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	first_ns = until_ns = context.levels.until_ns[LEVEL_L1];
	say(finding(1, FINDING_SUSPECTED));
	online_tick(context.findings, until_ns - 3 * NSEC_PER_SEC);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns);
	say(finding(1, FINDING_OPEN)); /* decided */
	online_tick(context.findings, until_ns - NSEC_PER_SEC);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns);
	say(finding(2, FINDING_SUSPECTED));
	for (; context.levels.on[LEVEL_L1] && longer < 100; longer++) {
		until_ns = context.levels.until_ns[LEVEL_L1];
		online_tick(context.findings, until_ns - NSEC_PER_SEC);
		levels_tick(&context, until_ns);
	}
	assert_false(context.levels.on[LEVEL_L1]);
	assert_int_equal(until_ns - first_ns, for_ns);
	/* It came to something, and more is wanted: another one without an end between, but not for ever. */
	online_tick(context.findings, until_ns);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	until_ns = context.levels.until_ns[LEVEL_L1];
	assert_true(context.levels.on[LEVEL_L1]);
	for (int i = 0; i < 3; i++)
		online_auto_level_want(&context.findings->auto_level, &context, JUDGE_WANT_OPERATIONS, "j", "slow",
			until_ns - (i == 0 ? 3 : 1) * NSEC_PER_SEC);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns);
	online_auto_level_confirmed(&context.findings->auto_level);
	for (int i = 0; i < 3; i++)
		online_auto_level_want(&context.findings->auto_level, &context, JUDGE_WANT_OPERATIONS, "j", "slow",
			until_ns - NSEC_PER_SEC + (uint64_t)i * for_ns);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns + for_ns);
	/* A tick's time is older than a frame's, which does not fill the budget. */
	context.findings->auto_level.budget_ns[LEVEL_L1] = 0;
	context.findings->auto_level.budget_at_ns[LEVEL_L1] = until_ns + for_ns;
	online_auto_level_tick(&context.findings->auto_level, &context, true, until_ns + for_ns - 1);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns + for_ns);
	/* Nothing was confirmed in this one: a pause, also for what is asked before that is seen. */
	context.findings->auto_level.budget_ns[LEVEL_L1] = 2 * for_ns;
	levels_tick(&context, until_ns + for_ns);
	online_auto_level_want(
		&context.findings->auto_level, &context, JUDGE_WANT_OPERATIONS, "j", "slow", until_ns + for_ns);
	assert_false(context.levels.on[LEVEL_L1]);
	online_tick(context.findings, until_ns + for_ns);
	assert_false(context.levels.on[LEVEL_L1]);
	/* What a person has turned on is his. */
	say(finding(3, FINDING_SUSPECTED));
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 10 * NSEC_PER_SEC, (char[256]){0}, 256), 0);
	until_ns = context.levels.until_ns[LEVEL_L1];
	online_tick(context.findings, until_ns - NSEC_PER_SEC);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], until_ns);
}

/* Nothing is suspected: what is suspected next has no pause before it, and what comes to nothing within it is a
 * suspicion. */
TEST_WITH(test_routine_is_no_suspicion, setup, teardown)
{
	uint64_t until_ns;

	for (int suspicion = 0; suspicion < 2; suspicion++) {
		sink.want(sink.arg, JUDGE_WANT_ROUTINE, USER, "j", "whether a rank is slow from the start");
		until_ns = context.levels.until_ns[LEVEL_L1];
		assert_true(context.levels.on[LEVEL_L1]);
		if (suspicion)
			sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
		levels_tick(&context, until_ns);
		online_tick(context.findings, until_ns);
		assert_false(context.levels.on[LEVEL_L1]);
		sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
		assert_int_equal(context.levels.on[LEVEL_L1], !suspicion);
		context.findings->auto_level.fruitful[LEVEL_L1] = true;
		levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
		online_tick(context.findings, until_ns);
	}
}

/* Of six minutes an hour three are left for suspicions. */
TEST_WITH(test_routine_leaves_half, setup, teardown)
{
	unsigned times = 0;

	for (unsigned i = 0; i < 10; i++) {
		sink.want(sink.arg, JUDGE_WANT_ROUTINE, USER, "j", "whether a rank is slow from the start");
		if (!context.levels.on[LEVEL_L1])
			continue;
		times++;
		levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
		online_tick(context.findings, monotonic_ns());
	}
	assert_int_equal(times, 3);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	assert_true(context.levels.on[LEVEL_L1]);
}

/* It goes on while more is wanted, as long again. */
TEST_WITH(test_routine_goes_on, setup, teardown)
{
	uint64_t first_ns, until_ns, for_ns = context.config.online_auto_level_for_ns;

	sink.want(sink.arg, JUDGE_WANT_ROUTINE, USER, "j", "whether a rank is slow from the start");
	first_ns = context.levels.until_ns[LEVEL_L1];
	for (unsigned i = 0; i < 100; i++) {
		until_ns = context.levels.until_ns[LEVEL_L1];
		online_auto_level_want(&context.findings->auto_level, &context, JUDGE_WANT_ROUTINE, "j", "slow",
			until_ns - NSEC_PER_SEC);
	}
	assert_int_equal(context.levels.until_ns[LEVEL_L1], first_ns + for_ns);
}

/* With less than half of the budget left it is not prolonged; where the budget is one period and a bit, that is enough
 * for it. */
TEST_WITH(test_routine_within_its_share, setup, teardown)
{
	uint64_t first_ns, for_ns = context.config.online_auto_level_for_ns;

	context.config.online_auto_level_percent = 2; /* 72 s an hour */
	sink.want(sink.arg, JUDGE_WANT_ROUTINE, USER, "j", "whether a rank is slow from the start");
	assert_true(context.levels.on[LEVEL_L1]);
	first_ns = context.levels.until_ns[LEVEL_L1];
	context.config.online_auto_level_percent = 10;
	context.findings->auto_level.budget_at_ns[LEVEL_L1] = first_ns;
	context.findings->auto_level.budget_ns[LEVEL_L1] = 3 * for_ns;
	online_auto_level_want(
		&context.findings->auto_level, &context, JUDGE_WANT_ROUTINE, "j", "slow", first_ns - NSEC_PER_SEC);
	assert_int_equal(context.levels.until_ns[LEVEL_L1], first_ns);
	context.findings->auto_level.budget_ns[LEVEL_L1] = 4 * for_ns;
	online_auto_level_want(
		&context.findings->auto_level, &context, JUDGE_WANT_ROUTINE, "j", "slow", first_ns - NSEC_PER_SEC);
	assert_true(context.levels.until_ns[LEVEL_L1] > first_ns);
}

static void want_more(void)
{
	online_auto_level_want(&context.findings->auto_level, &context, JUDGE_WANT_OPERATIONS, "j", "slow",
		context.findings->auto_level.budget_at_ns[LEVEL_L1]);
}

/* The last operations arrive while a level goes off: a request made then does not keep it on. */
TEST_WITH(test_wanted_while_off, setup, teardown)
{
	uint64_t budget_ns;

	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "rank 1 may be slow");
	online_auto_level_confirmed(&context.findings->auto_level);
	context.findings->auto_level.budget_ns[LEVEL_L1] = budget_ns = 5 * context.config.online_auto_level_for_ns;
	context.findings->auto_level.budget_at_ns[LEVEL_L1] = context.levels.until_ns[LEVEL_L1];
	while_off = want_more;
	levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
	assert_false(context.levels.on[LEVEL_L1]);
	assert_int_equal(context.findings->auto_level.budget_ns[LEVEL_L1], budget_ns);
	assert_true(context.findings->auto_level.fruitful[LEVEL_L1]);
}

TEST_WITH(test_raise_and_people, setup, teardown)
{
	char report[256];

	/* Somebody has just turned it off: he does not want it. */
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_int_equal(levels_set(&context, LEVEL_L1, false, 0, report, sizeof(report)), 0);
	sink.want(sink.arg, JUDGE_WANT_OPERATIONS, USER, "j", "slow");
	assert_false(context.levels.on[LEVEL_L1]);
	context.config.online_auto_level = 0;
	sink.want(sink.arg, JUDGE_WANT_SYSTEM, USER, "j", "slow");
	assert_false(context.levels.on[LEVEL_L3]);
}

/* A program in the place of libexec/ranktrace/diff, which writes its arguments beside its answer. */
static void place_diff(const char *answer, const char *then)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/libexec", dir);
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	assert_int_equal(setenv("RANKTRACE_LIBEXEC", path, 1), 0);
	snprintf(path, sizeof(path), "%s/libexec/diff", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\necho \"$@\" >%s/asked\necho '%s'\n%s\n", dir, answer, then);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

/* A profile of the ranks 0 and 1 ends; ticks until the comparison has ended. */
static void end_profile(int64_t number)
{
	uint64_t now_ns = monotonic_ns();

	newest_profile = (struct profile_progress){.number = number,
		.start_ns = now_ns - 10 * NSEC_PER_SEC,
		.ranks = 2,
		.rank = {{.rank = 0, .job = "j"}, {.rank = 1, .job = "j"}}};
	context.profiles = (struct profiles *)&context; /* only passed on */
	online_profile_tick(context.findings, now_ns);
	assert_int_equal(context.findings->profiles.child.running, false);
	for (int i = 0; i < 1000; i++) {
		online_profile_tick(context.findings, now_ns + 3 * NSEC_PER_SEC);
		if (!context.findings->profiles.child.running)
			break;
		usleep(10000);
	}
	assert_int_equal(context.findings->profiles.child.running, false);
	context.profiles = NULL;
}

static void assert_asked(const char *pattern)
{
	char path[PATH_MAX], text[PATH_MAX + 256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/asked", dir);
	file = fopen(path, "r");
	if (!file) {
		assert_null(pattern);
		return;
	}
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	unlink(path);
	assert_non_null(pattern);
	assert_non_null(strstr(text, pattern));
}

/* A slow rank is compared once a profile, and its finding holds the line from then on. */
TEST_WITH(test_line_of_code, setup, teardown)
{
	struct finding f = finding(1, FINDING_OPEN);

	place_diff("30000000 0 step burn (gpt.py:54)", "exit 0");
	say(f);
	end_profile(7);
	assert_asked(" --rank 1 --profile 7 --job j");
	flush();
	assert_query("select sentence from findings",
		"rank 1 is slow; it spends 30 ms a step in burn (gpt.py:54), its peers 0\n");
	assert_query("select json_extract(evidence, '$[1].name'), json_extract(evidence, '$[1].value'), "
		     "json_extract(evidence, "
		     "'$[1].peers'), json_extract(evidence, '$[1].detail') from findings",
		"function|30000000|0|burn (gpt.py:54)\n");
	end_profile(7);
	assert_asked(NULL);
	/* The judge goes on. */
	say(f);
	flush();
	assert_query("select sentence from findings",
		"rank 1 is slow; it spends 30 ms a step in burn (gpt.py:54), its peers 0\n");
	/* The next comparison finds nothing, or fails: what was found remains. */
	place_diff("", "exit 0");
	end_profile(8);
	assert_asked("--profile 8");
	place_diff("5 5 step x", "exit 1");
	end_profile(9);
	assert_asked("--profile 9");
	say(f);
	flush();
	assert_query("select sentence from findings",
		"rank 1 is slow; it spends 30 ms a step in burn (gpt.py:54), its peers 0\n");
	place_diff("2000000 1000000 second a\033[31m (b.py:1)", "exit 0");
	end_profile(10);
	assert_asked("--profile 10");
	flush();
	assert_query("select sentence from findings",
		"rank 1 is slow; it spends 2 ms of each second in a?[31m (b.py:1), its peers 1 ms\n");
}

/* A job is compared with itself before the finding began, by the first of its ranks in the profile. */
TEST_WITH(test_line_of_job, setup, teardown)
{
	struct finding f = finding(1, FINDING_OPEN);

	place_diff("30000000 0 step burn (gpt.py:54)", "exit 0");
	f.kind = FINDING_SLOW_JOB;
	f.rank = -1;
	f.since_ns = monotonic_ns() - 60 * NSEC_PER_SEC;
	copy_text(f.sentence, sizeof(f.sentence), "j is slow");
	say(f);
	end_profile(7);
	assert_asked(" --rank 0 --profile 7 --job j --until 63");
	flush();
	assert_query("select sentence from findings",
		"j is slow; rank 0 spends 30 ms a step in burn (gpt.py:54), before 0\n");
	end_profile(7);
	assert_asked(NULL);
}

/* A slow-down that ended while its profile was taken. */
TEST_WITH(test_line_of_short, setup, teardown)
{
	struct finding f = finding(1, FINDING_OPEN);

	place_diff("30000000 0 step burn (gpt.py:54)", "exit 0");
	f.since_ns -= 15 * NSEC_PER_SEC;
	say(f);
	f.state = FINDING_CLOSED;
	f.until_ns = monotonic_ns() - 5 * NSEC_PER_SEC;
	say(f);
	end_profile(7);
	assert_asked(" --rank 1 --profile 7 --job j");
	flush();
	assert_query("select state, sentence from findings",
		"closed|rank 1 is slow; it spends 30 ms a step in burn (gpt.py:54), its peers 0\n");
	/* The next one has less of it. */
	usleep(100000);
	place_diff("10000000 0 step train (gpt.py:9)", "exit 0");
	end_profile(8);
	assert_asked(NULL);
}

TEST_WITH(test_no_line, setup, teardown)
{
	struct finding f = finding(1, FINDING_OPEN);

	place_diff("30000000 0 step burn (gpt.py:54)", "exit 0");
	/* Of other ranks, of other jobs, of what ended, and of what began after the profile. */
	f.rank = 5;
	say(f);
	f = finding(2, FINDING_OPEN);
	copy_text(f.job, sizeof(f.job), "k");
	say(f);
	f = finding(3, FINDING_OPEN);
	f.kind = FINDING_SLOW_JOB;
	copy_text(f.job, sizeof(f.job), "k");
	say(f);
	f = finding(4, FINDING_OPEN);
	say(f);
	f.state = FINDING_CLOSED;
	f.until_ns = f.since_ns - 11 * NSEC_PER_SEC;
	say(f);
	f = finding(5, FINDING_OPEN);
	f.since_ns = monotonic_ns() + 10 * NSEC_PER_SEC;
	say(f);
	end_profile(7);
	assert_asked(NULL);
	/* One that runs when the daemon ends. */
	place_diff("30000000 0 step burn (gpt.py:54)", "exec sleep 100");
	f = finding(6, FINDING_OPEN);
	say(f);
	newest_profile.number = 8;
	context.profiles = (struct profiles *)&context;
	online_profile_tick(context.findings, monotonic_ns());
	online_profile_tick(context.findings, monotonic_ns() + 3 * NSEC_PER_SEC);
	assert_true(context.findings->profiles.child.pid > 0);
	context.profiles = NULL;
}

TEST_MAIN(NULL, NULL)
