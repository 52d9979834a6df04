/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel did for a rank, beside its finding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/gauges/system_causes.h"

#include "tests/test.h"

#define SECOND 1000000000ULL
#define MS 1000000ULL
#define RANKS 4
#define USER 1000

static struct system_causes *causes;
static uint64_t now_s;

static int setup(void **state)
{
	causes = system_causes_new();
	now_s = 1000;
	return causes ? 0 : -1;
}

static int teardown(void **state)
{
	causes = system_causes_free(causes);
	return 0;
}

static void watch(unsigned rank, const char *job)
{
	system_causes_watch(causes, &(struct system_causes_who){100 + rank, (int32_t)rank, USER, job}, now_s * SECOND);
}

/* A second of all ranks; reads of rank 1, and of the others. */
static void second(unsigned ranks, uint64_t of_one_ns, uint64_t of_others_ns)
{
	for (unsigned rank = 0; rank < ranks; rank++) {
		unsigned number = ranks == 1 ? 1 : rank;

		watch(number, "job");
		system_causes_add(causes, 100 + number, now_s * SECOND, "reads of files", "",
			number == 1 ? of_one_ns : of_others_ns);
	}
	now_s++;
}

/* Of rank 1, for 20 s: it loses a quarter of its time. */
static struct finding finding_of(double slowdown)
{
	return (struct finding){.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_DATALOADER,
		.state = FINDING_OPEN,
		.rank = 1,
		.uid_known = true,
		.uid = USER,
		.job = "job",
		.since_ns = (now_s - 20) * SECOND,
		.slowdown = slowdown};
}

static const struct finding_evidence *explained(struct finding *finding)
{
	return system_causes_explain(causes, now_s * SECOND, finding) ? &finding->evidence[finding->evidences - 1]
								      : NULL;
}

TEST_WITH(a_cause_that_its_peers_have_not, setup, teardown)
{
	struct finding finding;
	const struct finding_evidence *evidence;

	for (unsigned i = 0; i < 60; i++)
		second(RANKS, i >= 40 ? 300 * MS : 10 * MS, 10 * MS);
	finding = finding_of(1.33);
	evidence = explained(&finding);
	assert_non_null(evidence);
	assert_string_equal(evidence->name, "system");
	assert_string_equal(evidence->detail, "reads of files");
	assert_true(fabs(evidence->value - 30) < 0.1 && fabs(evidence->peers - 1) < 0.1);
	/* It explains 15 % of what is lost, then less than a tenth. */
	finding = finding_of(20);
	finding.since_ns = (now_s - 40) * SECOND;
	assert_non_null(explained(&finding));
	finding = finding_of(200);
	finding.since_ns = (now_s - 60) * SECOND;
	assert_null(explained(&finding));
	/* Another user's job of that name, or nobody knows whose. */
	finding = finding_of(1.33);
	finding.uid = 0;
	assert_null(explained(&finding));
	finding = finding_of(1.33);
	finding.uid_known = false;
	assert_null(explained(&finding));
	system_causes_watch(causes, &(struct system_causes_who){7, 1, 0, "job"}, now_s * SECOND);
	system_causes_add(causes, 7, now_s * SECOND, "reads of files", "a secret", 900 * MS);
	finding = finding_of(1.33);
	evidence = explained(&finding);
	assert_true(evidence && fabs(evidence->value - 30) < 0.1);
	assert_string_equal(evidence->detail, "reads of files");
	/* Another job's rank 1, a rank that is not here, and a finding that is not of a rank. */
	finding = finding_of(1.33);
	strcpy(finding.job, "other");
	assert_null(explained(&finding));
	finding = finding_of(1.33);
	finding.rank = 9;
	assert_null(explained(&finding));
	finding = finding_of(1.33);
	finding.kind = FINDING_HANG;
	assert_null(explained(&finding));
	assert_false(system_causes_explain(NULL, now_s * SECOND, &finding));
}

TEST_WITH(what_all_ranks_do_is_no_cause, setup, teardown)
{
	struct finding finding;

	for (unsigned i = 0; i < 40; i++)
		second(RANKS, 300 * MS, 290 * MS);
	finding = finding_of(1.33);
	assert_null(explained(&finding));
}

TEST_WITH(a_rank_alone_is_compared_with_its_past, setup, teardown)
{
	struct finding finding;
	const struct finding_evidence *evidence;

	for (unsigned i = 0; i < 40; i++)
		second(1, i >= 20 ? 300 * MS : 250 * MS, 0);
	finding = finding_of(1.33);
	assert_null(explained(&finding));
	for (unsigned i = 0; i < 20; i++)
		second(1, 600 * MS, 0);
	finding = finding_of(1.33);
	evidence = explained(&finding);
	assert_non_null(evidence);
	assert_string_equal(evidence->name, "system_before");
	assert_true(fabs(evidence->value - 60) < 0.1);
}

/* L3 was turned on for the finding. */
TEST_WITH(without_anything_to_compare_with, setup, teardown)
{
	struct finding finding;

	for (unsigned i = 0; i < 10; i++)
		second(1, 100 * MS, 0);
	finding = finding_of(1.33);
	assert_null(explained(&finding));
	finding.slowdown = 1.2;
	assert_non_null(explained(&finding));
	assert_true(isnan(finding.evidence[finding.evidences - 1].peers));
}

TEST_WITH(a_file_is_named_and_requests_beneath_are_not, setup, teardown)
{
	struct finding finding;

	for (unsigned i = 0; i < 20; i++) {
		watch(1, "job");
		system_causes_add(causes, 101, now_s * SECOND, "block writes", "", 3000 * MS);
		system_causes_add(causes, 101, now_s * SECOND, "syncs of files", "ckpt/a", (200 + i) * MS);
		system_causes_add(causes, 101, now_s * SECOND, "syncs of files", "ckpt/b", 100 * MS);
		now_s++;
	}
	finding = finding_of(1.33);
	assert_non_null(explained(&finding));
	assert_string_equal(finding.evidence[0].detail, "syncs of files (ckpt/a)");
	/* Calls that were named before the finding began are none of its. */
	watch(1, "job");
	system_causes_add(causes, 101, now_s * SECOND, "syncs of files", "", 800 * MS);
	now_s++;
	finding = finding_of(1.33);
	finding.since_ns = (now_s - 1) * SECOND;
	assert_non_null(explained(&finding));
	assert_string_equal(finding.evidence[0].detail, "syncs of files");
	/* Of page faults they alone are known. */
	for (unsigned i = 0; i < 20; i++, now_s++) {
		watch(1, "job");
		system_causes_add(causes, 101, now_s * SECOND, "block writes", "", 600 * MS);
	}
	finding = finding_of(1.33);
	finding.since_ns = (now_s - 5) * SECOND;
	assert_null(explained(&finding)); /* less than before */
	system_causes_add(causes, 101, now_s * SECOND, "block writes", "nvme0n1", 90000 * MS);
	system_causes_add(causes, 101, now_s * SECOND, "block writes", "dm-0", 9000 * MS);
	system_causes_add(causes, 101, now_s * SECOND, "block writes", "", 99 * MS);
	assert_non_null(explained(&finding));
	assert_string_equal(finding.evidence[0].detail, "block writes (nvme0n1)");
}

/* A longer call is remembered for a minute. */
TEST_WITH(the_file_of_a_call_is_a_recent_one, setup, teardown)
{
	struct finding finding;

	for (unsigned i = 0; i < 120; i++) {
		for (unsigned rank = 0; rank < RANKS; rank++)
			watch(rank, "job");
		system_causes_add(causes, 101, now_s * SECOND, "syncs of files", i == 20 ? "old" : "new",
			(i == 20 ? 600 : 300) * MS);
		now_s++;
		finding = finding_of(1.33);
		if (i != 75 && i != 85)
			continue;
		assert_non_null(explained(&finding));
		assert_string_equal(finding.evidence[0].detail, i == 75 ? "syncs of files" : "syncs of files (new)");
	}
}

/* More ranks, words and seconds than are kept. */
TEST_WITH(bounds, setup, teardown)
{
	static char words[40][8];
	struct finding finding;

	for (unsigned w = 0; w < 40; w++)
		snprintf(words[w], sizeof(words[w]), "w%u", w);
	for (unsigned i = 0; i < 1000; i++, now_s++)
		for (unsigned rank = 0; rank < 3; rank++) {
			watch(rank + 3 * (i % 100), "job");
			system_causes_add(
				causes, 100 + rank + 3 * (i % 100), now_s * SECOND, words[i % 40], words[i % 40], MS);
		}
	system_causes_add(causes, 7, now_s * SECOND, "w1", "", MS);
	finding = finding_of(1.33);
	assert_null(explained(&finding));
}

TEST_MAIN(NULL, NULL)
