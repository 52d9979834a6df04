/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are profiled and when: hourly profiles of jobs, which give way to others. */
#define TEST_ALONE /* has a file of the daemon within */
#include "daemon/stacks/profiles.c"

#include "tests/test.h"

#define RANKS 24
#define HOUR_NS (3600 * NSEC_PER_SEC)

static struct context context;
static struct rank rank_of[RANKS];
static uint64_t period_ns; /* of the probe; 0: it does not run */
static unsigned added, rows;
static char reason[16]; /* of the newest row */

/* What profiles.c calls. */

void ranks_each(const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	for (size_t i = 0; i < RANKS; i++)
		if (rank_of[i].pid)
			callback(arg, &rank_of[i]);
}

const char *ranks_suspicion(const struct ranks *ranks, uint32_t uid)
{
	return uid == 666 ? "it does" : "";
}

uint64_t store_utc_ns(struct store *store, uint64_t ns)
{
	return ns + 1000 * HOUR_NS;
}

void store_put_values(struct store *store, enum schema_id table, const struct store_value *values)
{
	const struct row_profiles *row = (const struct row_profiles *)values;

	assert_int_equal(table, TABLE_PROFILES);
	rows++;
	snprintf(reason, sizeof(reason), "%s", row->reason.value.text);
}

int profile_rank_begin(struct profile_rank *profile)
{
	profile->used = profile->laid_out = true;
	return 0;
}

void profile_rank_free(struct profile_rank *profile)
{
	*profile = (struct profile_rank){0};
}

void profile_rank_stack(struct profile_rank *profile, const struct rt_profile_stack_event *stack)
{
}

void profile_rank_code(struct profile_rank *profile, const struct rt_profile_code_event *code)
{
}

void profile_rank_sample(struct profile_rank *profile, const struct rt_profile_sample_event *sample)
{
	profile->rows++;
}

bool profile_rank_name(struct profile_rank *profile, uint64_t now_ns, bool at_once)
{
	return at_once;
}

void profile_rank_give_up(struct profile_rank *profile)
{
}

/* The probe. */

static int probe_start(void *arg, uint64_t ns)
{
	period_ns = ns;
	added = 0;
	return 0;
}

static void probe_stop(void *arg)
{
	period_ns = 0;
}

static int probe_add(void *arg, uint32_t pid, const struct rt_profile_process *process)
{
	/* Half of 1 % each. */
	assert_int_equal(process->cpu_ppm, 5000);
	assert_int_equal(process->waits_ppm, 5000);
	added++;
	return 0;
}

static int probe_counts(void *arg, uint32_t pid, bool remove, struct rt_profile_process *ret)
{
	*ret = (struct rt_profile_process){0};
	return 0;
}

static const struct profile_probe probe = {probe_start, probe_stop, probe_add, probe_counts, NULL};

static void put_rank(size_t i, const char *job, uint32_t uid)
{
	rank_of[i] =
		(struct rank){.pid = 100 + (uint32_t)i, .uid = uid, .role = RANK_ROLE_RANK, .instance = 1 + (int64_t)i};
	rank_of[i].env.rank = (int32_t)i;
	rank_of[i].env.world_size = RANKS;
	copy_text(rank_of[i].env.job, sizeof(rank_of[i].env.job), job);
}

static uint64_t now_ns;

static int setup(void **state)
{
	context = (struct context){.workers = (struct workers *)&context}; /* only tested for NULL */
	config_defaults(&context.config);
	memset(rank_of, 0, sizeof(rank_of));
	period_ns = 0;
	rows = added = 0;
	now_ns = monotonic_ns();
	if (profiles_new(&context, &context.profiles) < 0)
		return -1;
	profiles_serve(context.profiles, &probe);
	return 0;
}

static int teardown(void **state)
{
	context.profiles = profiles_free(context.profiles);
	return 0;
}

/* Ticks each 100 ms for so long; how often a profile began to sample. */
static unsigned pass(uint64_t for_ns)
{
	unsigned begun = 0;

	for (uint64_t end_ns = now_ns + for_ns; now_ns < end_ns; now_ns += 100 * NSEC_PER_MSEC) {
		bool ran = period_ns != 0;

		profiles_tick(context.profiles, now_ns);
		begun += !ran && period_ns;
	}
	return begun;
}

TEST_WITH(test_hourly, setup, teardown)
{
	assert_int_equal(pass(HOUR_NS), 0); /* no job */
	for (size_t i = 0; i < RANKS; i++)
		put_rank(i, "llama", 1000);
	assert_int_equal(pass(119 * NSEC_PER_SEC), 0);
	assert_int_equal(pass(3 * NSEC_PER_SEC), 1);
	assert_int_equal(added, 4); /* a rank and 3 more */
	assert_int_equal(period_ns, NSEC_PER_SEC / 49);
	assert_int_equal(pass(60 * NSEC_PER_SEC), 0);
	assert_int_equal(period_ns, 0);
	assert_int_equal(rows, 4);
	assert_string_equal(reason, "hourly");
	assert_int_equal(pass(HOUR_NS - 120 * NSEC_PER_SEC), 0);
	assert_int_equal(pass(90 * NSEC_PER_SEC), 1);
	/* Another job comes, and has its own time. */
	put_rank(5, "bert", 1000);
	assert_int_equal(pass(110 * NSEC_PER_SEC), 0);
	assert_int_equal(pass(20 * NSEC_PER_SEC), 1);
	assert_int_equal(added, 1);
	/* A job that is back begins anew. */
	rank_of[5].pid = 0;
	pass(2 * NSEC_PER_SEC);
	assert_int_equal(pass(20 * NSEC_PER_SEC), 0);
	put_rank(5, "bert", 1000);
	assert_int_equal(pass(125 * NSEC_PER_SEC), 1);
	/* Off, and of a user who is suspected. */
	context.config.profiles_interval_ns = 0;
	assert_int_equal(pass(3 * HOUR_NS), 0);
	context.config.profiles_interval_ns = HOUR_NS;
	for (size_t i = 0; i < RANKS; i++)
		put_rank(i, "mine", 666);
	assert_int_equal(pass(3 * HOUR_NS), 0);
}

static bool wants_all(void *arg, const struct rank *rank)
{
	return true;
}

TEST_WITH(test_gives_way, setup, teardown)
{
	const struct profile_wish wish = {
		.wanted = wants_all, .urgency = PROFILE_NOW, .for_ns = NSEC_PER_SEC, .frequency_hz = 99};
	struct rt_profile_sample_event sample = {.event = {.pid = 100}};
	struct profile_progress progress;
	int64_t number;
	size_t left_out;

	put_rank(0, "llama", 1000);
	put_rank(1, "llama", 1000);
	assert_int_equal(pass(122 * NSEC_PER_SEC), 1);
	sample.event.time_ns = monotonic_ns();
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), 0);
	assert_int_equal(period_ns, 0);
	assert_int_equal(rows, 0);
	/* What the ring still has of the hourly one is not of this one. */
	profiles_sample(context.profiles, &sample);
	profiles_tick(context.profiles, now_ns);
	assert_int_equal(period_ns, NSEC_PER_SEC / 99);
	profiles_sample(context.profiles, &sample);
	sample.event.time_ns = now_ns + 1;
	profiles_sample(context.profiles, &sample);
	assert_int_equal(profiles_progress(context.profiles, number, &progress), 0);
	assert_int_equal(progress.rank[0].samples, 1);
	/* Nothing else gives way. */
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), -EBUSY);
	pass(5 * NSEC_PER_SEC);
	assert_int_equal(rows, 2);
	assert_string_equal(reason, "asked");
	/* The hourly one began again then; a suspicion takes its turn, too. */
	assert_int_equal(period_ns, NSEC_PER_SEC / 49);
	profiles_suspect(context.profiles, &rank_of[0], true);
	assert_int_equal(period_ns, 0);
	pass(NSEC_PER_SEC);
	/* That of the job gives way to that of a rank, and both had their part. */
	profiles_suspect(context.profiles, &rank_of[1], true);
	assert_int_equal(period_ns, NSEC_PER_SEC / 49);
	profiles_suspect(context.profiles, &rank_of[1], false);
	assert_int_equal(period_ns, 0);
	pass(11 * NSEC_PER_SEC);
	assert_int_equal(rows, 4);
	for (int of_job = 0; of_job < 2; of_job++) {
		for (uint64_t used_ns = SUSPECTED_NS; used_ns < SUSPECTED_OF_JOB_NS; used_ns += SUSPECTED_NS) {
			profiles_suspect(context.profiles, &rank_of[1], of_job);
			pass(11 * NSEC_PER_SEC);
		}
	}
	assert_int_equal(rows, 12);
	profiles_suspect(context.profiles, &rank_of[1], true);
	profiles_suspect(context.profiles, &rank_of[1], false);
	pass(NSEC_PER_SEC);
	assert_string_equal(reason, "suspected");
	pass(20 * NSEC_PER_SEC);
	assert_int_equal(rows, 14);
	assert_string_equal(reason, "hourly");
}

static bool wants_user(void *arg, const struct rank *rank)
{
	return rank->uid == *(const uint32_t *)arg;
}

/* What one user asks for, or makes the daemon suspect, takes no profile from another one's job. */
TEST_WITH(test_users, setup, teardown)
{
	uint32_t nobody = 65534, attacker = 1001;
	struct profile_wish wish = {.wanted = wants_user,
		.arg = &nobody,
		.urgency = PROFILE_OF_USER,
		.limited = true,
		.for_ns = 30 * NSEC_PER_SEC,
		.frequency_hz = 49};
	struct profile_wish of_root = {
		.wanted = wants_all, .urgency = PROFILE_NOW, .for_ns = NSEC_PER_SEC, .frequency_hz = 49};
	int64_t number;
	size_t left_out;
	char job[16];

	put_rank(0, "llama", 1000);
	for (size_t i = 1; i < 21; i++) {
		snprintf(job, sizeof(job), "job-%zu", i);
		put_rank(i, job, attacker);
	}
	/* A job has its hourly profile, whatever the number of another user's. */
	put_rank(22, "late", 1002);
	assert_int_equal(pass(122 * NSEC_PER_SEC), 1);
	pass(18 * 15 * NSEC_PER_SEC);
	assert_int_equal(rows, 1 + HOURLY_OF_USER + 1);
	/* Who has no rank, or had his part, ends nothing; nor does who asks while a job is suspected. */
	profiles_suspect(context.profiles, &rank_of[0], true);
	pass(NSEC_PER_SEC);
	assert_int_equal(period_ns, NSEC_PER_SEC / 49);
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), -EBUSY);
	pass(20 * NSEC_PER_SEC);
	assert_string_equal(reason, "suspected");
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), -ENOENT);
	wish.arg = &attacker;
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), 0);
	pass(NSEC_PER_SEC);
	/* His gives way to root's. */
	assert_int_equal(profiles_start(context.profiles, &of_root, &number, &left_out), 0);
	pass(10 * NSEC_PER_SEC);
	wish.for_ns = 31 * NSEC_PER_SEC;
	assert_int_equal(profiles_start(context.profiles, &wish, &number, &left_out), -EDQUOT);
	/* Suspicions of his jobs have a part of the time, too. */
	rows = 0;
	for (size_t i = 1; i < 21; i++) {
		profiles_suspect(context.profiles, &rank_of[i], true);
		pass(12 * NSEC_PER_SEC);
	}
	assert_int_equal(rows, SHARE_NS / SUSPECTED_NS);
	profiles_suspect(context.profiles, &rank_of[22], true);
	pass(12 * NSEC_PER_SEC);
	assert_int_equal(rows, SHARE_NS / SUSPECTED_NS + 1);
}

TEST_MAIN(NULL, NULL)
