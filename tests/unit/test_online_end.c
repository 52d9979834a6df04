/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that end: which of them is a finding. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <signal.h>

#include "daemon/gauges/gauges.h"
#include "tests/unit/findings_fixture.h"

static void end(unsigned rank, int wait_status, uint64_t ended_ns)
{
	const struct online_end_info info = {&ranks_here[rank], ended_ns, NULL, "SIGKILL", "step (train.py:7)"};

	ranks_here[rank].wait_status = wait_status;
	online_ended(context.findings, &info);
}

static void all_are_gone(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ranks_here); i++)
		ranks_here[i].ended = true;
}

/* Both are gone before either end is read. */
static void both(int first, int next)
{
	uint64_t now_ns = monotonic_ns();

	all_are_gone();
	end(0, first, now_ns);
	end(1, next, now_ns + 50 * MS);
	flush();
}

TEST_WITH(a_killed_rank_whose_launcher_ends_the_others, setup, teardown)
{
	both(SIGKILL, SIGTERM);
	assert_query("select kind, cause, severity, job, rank, json_extract(evidence, '$[1].detail') from findings",
		"crash|crashed|critical|j|0|step (train.py:7)\n");
}

/* Their operations with it fail within milliseconds. One that ends well needs nobody. */
TEST_WITH(a_killed_rank_whose_peers_fail, setup, teardown)
{
	both(SIGKILL, 1 << 8);
	assert_query("select kind, cause, severity, job, rank from findings", "crash|crashed|critical|j|0\n");
}

TEST_WITH(a_killed_rank_whose_peers_have_ended_well, setup, teardown)
{
	both(SIGKILL, 0);
	assert_query("select count(*) from findings", "0\n");
}

/* One leaves the job, the others' operations with it fail. */
TEST_WITH(a_rank_that_leaves_its_peers, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	all_are_gone();
	end(0, 0, now_ns);
	end(1, 1 << 8, now_ns + 50 * MS);
	end(2, 1 << 8, now_ns + 60 * MS);
	flush();
	assert_query("select kind, cause, severity, job, rank, json_extract(evidence, '$[0].detail') from findings",
		"crash|crashed|critical|j|1|SIGKILL after rank 0 ended (status 0)\n");
}

/* The end of the one that left is read last but one. */
TEST_WITH(ends_that_are_read_in_another_order_are_one_finding, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	all_are_gone();
	end(2, 1 << 8, now_ns + 60 * MS);
	end(0, 0, now_ns);
	end(1, 1 << 8, now_ns + 50 * MS);
	flush();
	assert_query("select kind, rank from findings", "crash|2\n");
}

/* What the launcher did about it is read before it. */
TEST_WITH(a_killed_rank_that_is_read_last, setup, teardown)
{
	for (int error = 0; error < 2; error++) {
		uint64_t now_ns = monotonic_ns() + (uint64_t)error * 600 * NSEC_PER_SEC;

		all_are_gone();
		end(1, error ? 1 << 8 : SIGTERM, now_ns + 50 * MS);
		end(0, SIGKILL, now_ns);
		flush();
		/* A peer that failed is the finding already. */
		assert_query("select rank from findings order by finding", error ? "0\n1\n" : "0\n");
	}
}

TEST_WITH(a_job_that_is_killed_as_a_whole, setup, teardown)
{
	both(SIGKILL, SIGKILL);
	assert_query("select count(*) from findings", "0\n");
}

/* Some end when they are asked to, others are killed later. */
TEST_WITH(a_job_that_is_asked_to_end, setup, teardown)
{
	both(SIGTERM, SIGKILL);
	assert_query("select count(*) from findings", "0\n");
}

/* Others live when the first end is read. */
TEST_WITH(the_first_end_is_one_finding, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	ranks_here[0].ended = true;
	end(0, SIGKILL, now_ns);
	ranks_here[1].ended = true;
	end(1, SIGTERM, now_ns + 50 * MS);
	flush();
	assert_query("select rank from findings", "0\n");
}

/* An end after minutes has a reason of its own. */
TEST_WITH(an_end_much_later_is_no_consequence, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	all_are_gone();
	end(0, SIGKILL, now_ns - 61 * NSEC_PER_SEC);
	end(1, SIGTERM, now_ns);
	flush();
	assert_query("select count(*) from findings", "0\n");
}

static void message(const char *kind, const char *object, int64_t number, uint64_t time_ns)
{
	const struct gauges_message said = {.kind = kind, .object = object, .text = "", .number = number};

	online_end_message(context.findings, time_ns, &said);
}

static void killed_for_memory(unsigned rank, uint64_t ended_ns)
{
	const struct end_sender kernel = {.signal = SIGKILL, .out_of_memory = true};
	const struct online_end_info info = {
		&ranks_here[rank], ended_ns, &kernel, "SIGKILL from the kernel, out of memory", ""};

	ranks_here[rank].wait_status = SIGKILL;
	ranks_here[rank].ended = true;
	online_ended(context.findings, &info);
}

TEST_WITH(a_rank_killed_for_memory_says_whose, setup, teardown)
{
	static const struct {
		const char *object, *how;
		int64_t group_before_ns; /* said so long before the end; below 0: after it; 0: not at all */
		bool other;
	} cases[] = {
		{"/a/b", ": limit of control group /a/b", 0, false},
		{".../c.scope", ": limit of control group .../c.scope", 0, false},
		{"node", " of the node", 0, false},
		{"/a/b", "", 0, true},
		/* Killed with all of its control group; or long after that. */
		{"/a/b", ": limit of control group /a/b", (int64_t)NSEC_PER_SEC, true},
		{"/a/b", ": limit of control group /a/b", 9 * (int64_t)NSEC_PER_SEC, true},
		{"/a/b", "", 11 * (int64_t)NSEC_PER_SEC, true},
		/* Read after the end; or another end. */
		{"/a/b", ": limit of control group /a/b", -(int64_t)NSEC_PER_SEC, true},
		{"/a/b", "", -3 * (int64_t)NSEC_PER_SEC, true},
	};
	uint64_t now_ns = monotonic_ns();

	message("oom_group", "/a", 0, now_ns); /* of nothing that was said */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char wanted[192];

		/* Hours apart: each is the first of its time. */
		now_ns += 3600 * NSEC_PER_SEC;
		message("oom_limit", cases[i].object, cases[i].other ? 1 : ranks_here[0].pid, now_ns + 500 * MS);
		if (cases[i].group_before_ns)
			message("oom_group", "/a", 0, (uint64_t)((int64_t)now_ns - cases[i].group_before_ns));
		message("oom_kill", "python", ranks_here[0].pid, now_ns + 500 * MS);
		killed_for_memory(0, now_ns);
		ranks_here[0].pid++; /* another process */
		flush();
		snprintf(wanted, sizeof(wanted), "out_of_memory|SIGKILL from the kernel, out of memory%s\n",
			cases[i].how);
		assert_query("select cause, json_extract(evidence, '$[0].detail') from findings order by finding desc "
			     "limit 1",
			wanted);
	}
	/* More than are kept. */
	for (int64_t i = 0; i < 1000; i++)
		message("oom_limit", "/a", 1000 + i, now_ns);
	ranks_here[0].pid = 1000;
	now_ns += 3600 * NSEC_PER_SEC;
	killed_for_memory(0, now_ns);
	flush();
	assert_query("select json_extract(evidence, '$[0].detail') from findings order by finding desc limit 1",
		"SIGKILL from the kernel, out of memory\n");
}

TEST_MAIN(NULL, NULL)
