/* SPDX-License-Identifier: Apache-2.0 */
/* Number of members of communicators at a stall: all are judged, or a warning says that they are not. */
#include "analyzers/offline/stall_check.h"
#include "analyzers/offline/merge.h"
#include "tests/unit/offline_script.h"

#define S NSEC_PER_SEC
#define BEGIN_NS (1000 * S)
#define CHECKS 3

static struct off_found found;
static size_t members, recalled, stall_check_past, stall_check_enough;
static unsigned warned_of;

struct fake {
	bool fed;
	int process;
};

static uint64_t next(const void *arg)
{
	const struct fake *fake = arg;

	return fake->fed ? UINT64_MAX : BEGIN_NS;
}

static int feed(void *arg, const struct source_sink *sink, char *error, size_t error_size)
{
	struct fake *fake = arg;

	fake->process = align_rank_new(sink->align,
		&(struct align_rank){.job = "job", .world_size = 2, .host = "node", .card = "0", .start_ns = BEGIN_NS});
	fake->fed = true;
	return 0;
}

static uint64_t snapshot(void *arg, uint64_t after_ns)
{
	if (after_ns < BEGIN_NS)
		return BEGIN_NS + S;
	return after_ns < BEGIN_NS + CHECKS * S ? after_ns + S : UINT64_MAX;
}

static bool recall(const void *arg, uint64_t seq, struct coll_point *ret)
{
	recalled++;
	*ret = (struct coll_point){.seq = seq, .time_ns = BEGIN_NS};
	return true;
}

/* All have called two operations. Pairs are a communicator. */
static void stand(void *arg, uint64_t now_ns, struct stall_check *checks)
{
	size_t kept = members < STALL_CHECK_MEMBERS_MAX ? members : STALL_CHECK_MEMBERS_MAX;
	const struct fake *fake = arg;

	assert_int_equal(stall_check_members_before(checks), stall_check_past ? kept : 0);
	stall_check_past++;
	stall_check_add_standing(checks, &(struct standing){.rank = (uint32_t)fake->process, .progress_ns = now_ns});
	for (size_t i = 0; i < members; i++) {
		struct stall_check_member member = {.job = "job",
			.process = (uint32_t)fake->process,
			.judged = {.rank = (int32_t)(i % 2), .recall = recall}};

		snprintf(
			member.judged.standing.communicator, sizeof(member.judged.standing.communicator), "%zu", i / 2);
		member.judged.standing.members = 2;
		member.judged.standing.entered = (struct coll_point){.seq = 2, .time_ns = now_ns};
		stall_check_add_member(checks, &member);
	}
}

static void on_warning(void *arg, const char *sentence)
{
	assert_non_null(strstr(sentence, "262144 members"));
	warned_of++;
}

static bool progress(void *arg, uint64_t events, uint64_t now_ns)
{
	assert_true(events == 1 && now_ns == BEGIN_NS + stall_check_past * S);
	return stall_check_past < stall_check_enough;
}

static void run(size_t members_of_it, size_t enough)
{
	static const struct source_ops ops = {.next = next, .feed = feed, .snapshot = snapshot, .stand = stand};
	const struct merge_options merging = {.warning = on_warning, .progress = progress};
	struct detect *detect = off_detect(&found);
	struct fake fake = {.process = -1};
	uint64_t end_ns;
	size_t failed;

	members = members_of_it;
	stall_check_enough = enough;
	recalled = stall_check_past = warned_of = 0;
	assert_int_equal(merge_run(&(struct source){&ops, &fake}, 1, detect, &merging, &end_ns, &failed), 0);
	assert_int_equal(failed, 0);
	assert_int_equal(stall_check_past, enough);
	detect_free(detect);
}

TEST(members_of_a_thousand_ranks_are_judged)
{
	run(20000, CHECKS);
	assert_true(recalled >= CHECKS * members);
	assert_int_equal(warned_of, 0);
}

TEST(what_is_not_judged_is_said_once)
{
	run(STALL_CHECK_MEMBERS_MAX + 1, CHECKS);
	assert_int_equal(recalled, 0);
	assert_int_equal(warned_of, 1);
}

/* A check may take seconds. */
TEST(each_check_may_be_the_last)
{
	run(2, 1);
}

TEST_MAIN(NULL, NULL)
