/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are profiled, when and for how long. See profiles.h. */
#include <inttypes.h>

#include "analyzers/base/fnv1a.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/ranks/ranks.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/store/store.h"

#define LAYOUT_WAIT_NS (3 * NSEC_PER_SEC) /* then the others begin without; a layout takes 10 ms */
#define DRAIN_NS (300 * NSEC_PER_MSEC)	  /* records of before the end are read from the ring by then */
#define NAMES_WAIT_NS (30 * NSEC_PER_SEC) /* three requests that reach their limit of time */
#define HISTORY 8			  /* profiles whose progress can be asked for after their end */
#define SHARES 64			  /* users and jobs whose part is counted */
#define SHARE_WINDOW_NS (300 * NSEC_PER_SEC)
#define SHARE_NS (60 * NSEC_PER_SEC)	 /* of a window, for a user: by his own wish, and by suspicion of his jobs */
#define SUSPECTED_KEY (1ULL << 32)	 /* of a user's share by suspicion; that by wish has the bare user */
#define SUSPECTED_NS (10 * NSEC_PER_SEC) /* of one suspicion */
/* Of a window, for the ranks of a job, and for the job as a whole: a tenth of the time */
#define SUSPECTED_OF_JOB_NS (3 * SUSPECTED_NS)
#define SUSPECTED_PEERS 3u
#define HOURLY_OF_USER (SHARES / 4)	     /* jobs of a user with hourly profiles: names of jobs are his to choose */
#define HOURLY_FIRST_NS (120 * NSEC_PER_SEC) /* frameworks compile, and caches fill, in the first minute or two */

enum profile_state { PROFILE_NONE, PROFILE_PREPARES, PROFILE_RUNS, PROFILE_DRAINS, PROFILE_NAMES };

/* Time that a user or a job had in the window that began at since_ns. */
struct profile_share {
	uint64_t key, since_ns, used_ns;
};

/* A job, and when its next hourly profile is due. */
struct profile_hourly {
	uint64_t key, due_ns;
	uint32_t uid;
	bool seen;
};

struct profiles {
	struct context *context;
	const struct profile_probe *probe;
	enum profile_state state;
	int64_t number;
	enum profile_reason reason;
	enum profile_urgency urgency;
	uint32_t frequency_hz;
	uint64_t for_ns, start_ns, until_ns; /* CLOCK_MONOTONIC; until: of the state */
	uint64_t sampled_ns;		     /* for how long, once it drains */
	struct profile_rank rank[PROFILES_RANKS_MAX];
	size_t ranks;
	struct profile_progress history[HISTORY]; /* a ring */
	unsigned ended;
	struct profile_share share[SHARES];
	struct profile_hourly hourly[SHARES];
	uint64_t hourly_at_ns; /* when jobs were gone through last */
	uint64_t hourly_key;   /* the job whose hourly profile runs, or ran last */
	struct profiles_status status;
};

static const char *const profile_reasons[] = {
	[PROFILE_ASKED] = "asked", [PROFILE_SUSPECTED] = "suspected", [PROFILE_HOURLY] = "hourly"};

int profiles_new(struct context *context, struct profiles **ret)
{
	struct profiles *profiles = calloc(1, sizeof(*profiles));

	if (!profiles)
		return -ENOMEM;
	profiles->context = context;
	*ret = profiles;
	return 0;
}

/* Progress. */

static void profiles_fill(const struct profiles *profiles, struct profile_progress *ret)
{
	uint64_t now_ns = monotonic_ns();

	*ret = (struct profile_progress){.number = profiles->number,
		.running = profiles->state != PROFILE_NONE,
		.start_ns = profiles->start_ns,
		.frequency_hz = profiles->frequency_hz,
		.ranks = profiles->ranks};
	if (profiles->state == PROFILE_PREPARES)
		ret->remaining_ns = profiles->for_ns;
	else if (profiles->state == PROFILE_RUNS && profiles->until_ns > now_ns)
		ret->remaining_ns = profiles->until_ns - now_ns;
	for (size_t i = 0; i < profiles->ranks; i++) {
		const struct profile_rank *rank = &profiles->rank[i];
		struct profile_rank_progress *item = &ret->rank[i];

		*item = (struct profile_rank_progress){.rank = rank->rank,
			.pid = rank->asked.pid,
			.uid = rank->uid,
			.instance = rank->instance,
			.samples = rank->rows + rank->held_count,
			.refused = rank->refused,
			.lost = rank->lost + rank->counts.lost};
		copy_text(item->job, sizeof(item->job), rank->job);
		copy_text(item->reason, sizeof(item->reason), rank->layout.reason);
	}
}

int profiles_progress(const struct profiles *profiles, int64_t number, struct profile_progress *ret)
{
	if (!profiles)
		return -ENOENT;
	if (profiles->state != PROFILE_NONE && (!number || profiles->number == number)) {
		profiles_fill(profiles, ret);
		return 0;
	}
	for (unsigned i = 0; i < HISTORY && i < profiles->ended; i++) {
		const struct profile_progress *progress = &profiles->history[(profiles->ended - 1 - i) % HISTORY];

		if (!number || progress->number == number) {
			*ret = *progress;
			return 0;
		}
	}
	return -ENOENT;
}

/* The end. */

static void profiles_put(struct profiles *profiles, const struct profile_rank *rank)
{
	struct store *store = profiles->context->store;

	store_put_profiles(store, &(struct row_profiles){
					  .profile = field_int(profiles->number),
					  .start_ns = field_time(store_utc_ns(store, profiles->start_ns)),
					  .duration_ns = field_duration(profiles->sampled_ns),
					  .rank = field_int(rank->rank),
					  .reason = field_text(profile_reasons[profiles->reason]),
					  .frequency_hz = field_int(profiles->frequency_hz),
					  .samples = field_int((int64_t)rank->rows),
					  .refused = field_int((int64_t)rank->refused),
					  .lost = field_int((int64_t)(rank->lost + rank->counts.lost)),
					  .read_share = field_real_if(rank->counts.seen,
						  (double)rank->counts.read / (double)rank->counts.seen),
					  .instance = field_int(rank->instance),
				  });
	log_info("profiles",
		"profile %" PRId64 ", rank %d: %" PRIu64 " samples, %" PRIu64 " without a stack (%" PRIu64
		" of them in the kernel), %" PRIu64 " lost",
		profiles->number, rank->rank, rank->rows, rank->refused, rank->counts.refused,
		rank->lost + rank->counts.lost);
	profiles->status.samples += rank->rows;
	profiles->status.refused += rank->refused;
	profiles->status.lost += rank->lost + rank->counts.lost;
	profiles->status.took_ns += rank->counts.took_ns;
	profiles->status.seen += rank->counts.seen;
	profiles->status.read += rank->counts.read;
}

static void profiles_clear(struct profiles *profiles)
{
	profiles->state = PROFILE_NONE;
	for (size_t i = 0; i < profiles->ranks; i++)
		profile_rank_free(&profiles->rank[i]);
	profiles->ranks = 0;
}

static void profiles_finish(struct profiles *profiles, uint64_t now_ns)
{
	struct profile_progress *progress = &profiles->history[profiles->ended++ % HISTORY];

	for (size_t i = 0; i < profiles->ranks; i++) {
		profile_rank_give_up(&profiles->rank[i]);
		profiles_put(profiles, &profiles->rank[i]);
	}
	profiles->state = PROFILE_NONE;
	profiles_fill(profiles, progress);
	profiles_clear(profiles);
	for (size_t i = 0; i < SHARES && profiles->reason == PROFILE_HOURLY; i++)
		if (profiles->hourly[i].key == profiles->hourly_key)
			profiles->hourly[i].due_ns = now_ns + profiles->context->config.profiles_interval_ns;
}

static void profiles_remove(struct profiles *profiles, struct profile_rank *rank)
{
	if (rank->sampled)
		(void)profiles->probe->counts(profiles->probe->arg, rank->asked.pid, true, &rank->counts);
	rank->sampled = false;
}

/* No more samples; what the ring holds of them is still to come. */
static void profiles_stop(struct profiles *profiles, uint64_t now_ns)
{
	for (size_t i = 0; i < profiles->ranks; i++)
		profiles_remove(profiles, &profiles->rank[i]);
	profiles->probe->stop(profiles->probe->arg);
	profiles->sampled_ns = now_ns - profiles->start_ns;
	profiles->state = PROFILE_DRAINS;
	profiles->until_ns = now_ns + DRAIN_NS;
}

/* Another one is more urgent: this one ends without a row in `profiles`. */
static void profiles_give_way(struct profiles *profiles)
{
	if (profiles->state == PROFILE_RUNS)
		profiles_stop(profiles, monotonic_ns());
	profiles_clear(profiles);
}

void profiles_serve(struct profiles *profiles, const struct profile_probe *probe)
{
	if (!probe && profiles->state == PROFILE_RUNS)
		profiles_stop(profiles, monotonic_ns());
	if (!probe && profiles->state != PROFILE_NONE)
		profiles_finish(profiles, monotonic_ns());
	profiles->probe = probe;
}

struct profiles *profiles_free(struct profiles *profiles)
{
	if (!profiles)
		return NULL;
	for (size_t i = 0; i < profiles->ranks; i++)
		profile_rank_free(&profiles->rank[i]);
	free(profiles);
	return NULL;
}

/* The beginning. */

static void profiles_add(struct profiles *profiles, struct profile_rank *rank)
{
	uint64_t budget_ppm = 10000 * profiles->context->config.profiles_budget_percent;
	const struct rt_profile_process process = {
		.period_ns = NSEC_PER_SEC / profiles->frequency_hz,
		.threads_max = LIMIT_PROFILE_THREADS / (uint32_t)profiles->ranks,
		.cpu_ppm = budget_ppm / 2,
		.waits_ppm = budget_ppm / 2,
		.python = rank->layout.python,
	};
	int r = profiles->probe->add(profiles->probe->arg, rank->asked.pid, &process);

	rank->sampled = r == 0;
	if (r < 0)
		snprintf(rank->layout.reason, sizeof(rank->layout.reason), "it cannot be sampled: %s", strerror(-r));
}

static void profiles_run(struct profiles *profiles, uint64_t now_ns)
{
	int r = profiles->probe->start(profiles->probe->arg, NSEC_PER_SEC / profiles->frequency_hz);

	profiles->start_ns = now_ns;
	if (r < 0) {
		log_error_errno("profiles", r, "profile %" PRId64 " cannot start", profiles->number);
		profiles_finish(profiles, now_ns);
		return;
	}
	for (size_t i = 0; i < profiles->ranks; i++)
		if (!profiles->rank[i].ended)
			profiles_add(profiles, &profiles->rank[i]);
	profiles->state = PROFILE_RUNS;
	profiles->until_ns = now_ns + profiles->for_ns;
	for (size_t i = 0; i < profiles->ranks; i++)
		profiles->rank[i].name_at_ns = now_ns + profiles->rank[i].name_interval_ns;
}

static bool profiles_prepared(const struct profiles *profiles)
{
	for (size_t i = 0; i < profiles->ranks; i++)
		if (!profiles->rank[i].laid_out && !profiles->rank[i].ended)
			return false;
	return true;
}

struct profiles_choosing {
	const struct profile_wish *wish;
	const struct rank *rank[PROFILES_RANKS_MAX];
	size_t ranks, left_out;
};

static void profiles_choose(void *arg, const struct rank *rank)
{
	struct profiles_choosing *choosing = arg;

	if (rank->role != RANK_ROLE_RANK || rank->ended || !choosing->wish->wanted(choosing->wish->arg, rank))
		return;
	if (choosing->ranks == PROFILES_RANKS_MAX)
		choosing->left_out++;
	else
		choosing->rank[choosing->ranks++] = rank;
}

static int profiles_begin(struct profiles *profiles, const struct rank *rank)
{
	struct profile_rank *profile = &profiles->rank[profiles->ranks];
	int r;

	*profile = (struct profile_rank){
		.context = profiles->context,
		.profile = profiles->number,
		.asked = {.pid = rank->pid, .start_time_ns = rank->start_time_ns},
		.uid = rank->uid,
		.rank = rank->env.rank,
		.instance = rank->instance,
	};
	copy_text(profile->job, sizeof(profile->job), rank->env.job);
	r = profile_rank_begin(profile);
	if (r < 0)
		profile_rank_free(profile);
	else
		profiles->ranks++;
	return r;
}

/* The part of a window that `key` had; NULL: all entries are of others, in their windows. */
static struct profile_share *profiles_share(struct profiles *profiles, uint64_t key, uint64_t now_ns)
{
	struct profile_share *free = NULL;

	for (size_t i = 0; i < SHARES; i++) {
		struct profile_share *share = &profiles->share[i];

		if (share->since_ns && now_ns - share->since_ns >= SHARE_WINDOW_NS)
			*share = (struct profile_share){0};
		if (share->since_ns && share->key == key)
			return share;
		if (!share->since_ns && !free)
			free = share;
	}
	if (free)
		*free = (struct profile_share){.key = key, .since_ns = now_ns};
	return free;
}

static bool profiles_take(struct profiles *profiles, uint64_t key, uint64_t for_ns, uint64_t most_ns)
{
	struct profile_share *share = profiles_share(profiles, key, monotonic_ns());

	if (!share || share->used_ns + for_ns > most_ns)
		return false;
	share->used_ns += for_ns;
	return true;
}

int profiles_start(
	struct profiles *profiles, const struct profile_wish *wish, int64_t *ret_number, size_t *ret_left_out)
{
	struct profiles_choosing choosing = {.wish = wish};
	int64_t number = (int64_t)(store_utc_ns(profiles->context->store, monotonic_ns()) / NSEC_PER_SEC);
	int r = 0;

	if (!profiles->probe || !profiles->context->workers)
		return -EOPNOTSUPP;
	if (profiles->state != PROFILE_NONE && profiles->urgency >= wish->urgency)
		return -EBUSY;
	ranks_each(profiles->context->ranks, profiles_choose, &choosing);
	if (!choosing.ranks)
		return -ENOENT;
	if (wish->limited && !profiles_take(profiles, wish->uid, wish->for_ns, SHARE_NS))
		return -EDQUOT;
	/* Only now: a wish that comes to nothing ends no other profile. */
	if (profiles->state != PROFILE_NONE)
		profiles_give_way(profiles);
	profiles->number = number > profiles->number ? number : profiles->number + 1;
	for (size_t i = 0; i < choosing.ranks; i++) {
		int error = profiles_begin(profiles, choosing.rank[i]);

		r = error < 0 ? error : r;
	}
	if (!profiles->ranks)
		return r;
	profiles->reason = wish->reason;
	profiles->urgency = wish->urgency;
	profiles->frequency_hz = wish->frequency_hz;
	profiles->for_ns = wish->for_ns;
	profiles->sampled_ns = 0;
	profiles->state = PROFILE_PREPARES;
	profiles->start_ns = monotonic_ns();
	profiles->until_ns = profiles->start_ns + LAYOUT_WAIT_NS;
	profiles->status.profiles++;
	profiles->status.suspected += wish->reason == PROFILE_SUSPECTED;
	*ret_number = profiles->number;
	*ret_left_out = choosing.left_out;
	return 0;
}

/* What the daemon profiles by itself: a rank and peers of it. Keys of users are below 2^33. */

static uint64_t profiles_job_key(const struct rank *rank)
{
	return hash_mix((uint64_t)(uint32_t)rank->env.master_port << 32 | rank->uid,
		       fnv1a_bytes(FNV1A_START, rank->env.job, strlen(rank->env.job))) |
	       1ULL << 63;
}

struct profiles_suspicion {
	const struct rank *rank;
	uint32_t peers;
};

static bool profiles_suspicion_wanted(void *arg, const struct rank *rank)
{
	struct profiles_suspicion *suspicion = arg;
	const struct rank *of = suspicion->rank;

	if (rank->instance == of->instance)
		return true;
	/* Jobs may have no names, and one name may be that of several users' jobs. */
	if (rank->uid != of->uid || rank->env.master_port != of->env.master_port ||
		rank->env.world_size != of->env.world_size || !streq(rank->env.job, of->env.job) ||
		suspicion->peers == SUSPECTED_PEERS)
		return false;
	suspicion->peers++;
	return true;
}

void profiles_suspect(struct profiles *profiles, const struct rank *rank, bool of_job)
{
	struct profiles_suspicion suspicion = {.rank = rank};
	const struct profile_wish wish = {
		.wanted = profiles_suspicion_wanted,
		.arg = &suspicion,
		.reason = PROFILE_SUSPECTED,
		.urgency = of_job ? PROFILE_OF_JOB : PROFILE_NOW,
		.for_ns = SUSPECTED_NS,
		.frequency_hz = PROFILES_HZ,
	};
	struct profile_share *share;
	uint64_t key;
	int64_t number;
	size_t left_out;

	if (!profiles || !rank || !profiles->probe || !profiles->context->config.findings_profile ||
		(profiles->state != PROFILE_NONE && profiles->urgency >= wish.urgency) ||
		ranks_suspicion(profiles->context->ranks, rank->uid)[0])
		return;
	/* A user may give his ranks the names of any number of jobs. */
	share = profiles_share(profiles, SUSPECTED_KEY | rank->uid, monotonic_ns());
	if (!share || share->used_ns + SUSPECTED_NS > SHARE_NS)
		return;
	/* A part for each: the ranks of the one need not be those of the other. */
	key = hash_mix(profiles_job_key(rank), of_job) | 1ULL << 63;
	if (!profiles_take(profiles, key, SUSPECTED_NS, SUSPECTED_OF_JOB_NS))
		return;
	share->used_ns += SUSPECTED_NS;
	if (profiles_start(profiles, &wish, &number, &left_out) == 0)
		log_info("profiles",
			"profile %" PRId64 ": %srank %d%s%s is suspected; it and %u peers are sampled for 10 s", number,
			of_job ? "the job as a whole of " : "", rank->env.rank, rank->env.job[0] ? " of job " : "",
			rank->env.job, suspicion.peers);
}

/* The job's entry; a new one where there is a free one and its user has less than his part. */
static struct profile_hourly *profiles_hourly_of(struct profiles *profiles, const struct rank *rank, uint64_t now_ns)
{
	uint64_t interval_ns = profiles->context->config.profiles_interval_ns, key = profiles_job_key(rank);
	struct profile_hourly *free = NULL;
	unsigned of_user = 0;

	for (size_t i = 0; i < SHARES; i++) {
		struct profile_hourly *hourly = &profiles->hourly[i];

		if (hourly->key == key)
			return hourly;
		if (!hourly->key && !free)
			free = hourly;
		of_user += hourly->key && hourly->uid == rank->uid;
	}
	if (!free || of_user >= HOURLY_OF_USER)
		return NULL;
	*free = (struct profile_hourly){.key = key,
		.due_ns = now_ns + (interval_ns < HOURLY_FIRST_NS ? interval_ns : HOURLY_FIRST_NS),
		.uid = rank->uid};
	return free;
}

struct profiles_due {
	struct profiles *profiles;
	const struct rank *rank;
	struct profile_hourly *hourly;
	uint64_t now_ns;
};

static void profiles_hourly_see(void *arg, const struct rank *rank)
{
	struct profiles_due *due = arg;
	struct profile_hourly *hourly;

	if (rank->role != RANK_ROLE_RANK || rank->ended || ranks_suspicion(due->profiles->context->ranks, rank->uid)[0])
		return;
	hourly = profiles_hourly_of(due->profiles, rank, due->now_ns);
	if (!hourly)
		return;
	hourly->seen = true;
	if (hourly->due_ns > due->now_ns || (due->hourly && due->hourly->due_ns <= hourly->due_ns))
		return;
	due->hourly = hourly;
	due->rank = rank;
}

/* Once a second: the job whose profile is due for longest. */
static void profiles_hourly_tick(struct profiles *profiles, uint64_t now_ns)
{
	struct profiles_due due = {.profiles = profiles, .now_ns = now_ns};
	struct profiles_suspicion of = {.peers = 0};
	const struct profile_wish wish = {
		.wanted = profiles_suspicion_wanted,
		.arg = &of,
		.reason = PROFILE_HOURLY,
		.urgency = PROFILE_OF_HOUR,
		.for_ns = SUSPECTED_NS,
		.frequency_hz = PROFILES_HZ,
	};
	uint64_t interval_ns = profiles->context->config.profiles_interval_ns;
	int64_t number;
	size_t left_out;

	if (!interval_ns || !profiles->probe || now_ns - profiles->hourly_at_ns < NSEC_PER_SEC)
		return;
	profiles->hourly_at_ns = now_ns;
	ranks_each(profiles->context->ranks, profiles_hourly_see, &due);
	for (size_t i = 0; i < SHARES; i++) {
		if (!profiles->hourly[i].seen)
			profiles->hourly[i] = (struct profile_hourly){0};
		profiles->hourly[i].seen = false;
	}
	if (!due.rank)
		return;
	of.rank = due.rank;
	profiles->hourly_key = due.hourly->key;
	if (profiles_start(profiles, &wish, &number, &left_out) < 0)
		due.hourly->due_ns = now_ns + interval_ns;
}

/* Events. */

static struct profile_rank *profiles_find(struct profiles *profiles, uint32_t pid)
{
	for (size_t i = 0; i < profiles->ranks; i++)
		if (profiles->rank[i].asked.pid == pid)
			return &profiles->rank[i];
	return NULL;
}

/* NULL: it is of no rank that is profiled, or of an earlier profile that gave way. */
static struct profile_rank *profiles_of(struct profiles *profiles, const struct rt_event *event)
{
	bool earlier = profiles->state == PROFILE_PREPARES || event->time_ns < profiles->start_ns;

	return earlier ? NULL : profiles_find(profiles, event->pid);
}

void profiles_sample(struct profiles *profiles, const struct rt_profile_sample_event *sample)
{
	struct profile_rank *rank = profiles_of(profiles, &sample->event);

	if (rank)
		profile_rank_sample(rank, sample);
}

void profiles_stack(struct profiles *profiles, const struct rt_profile_stack_event *stack)
{
	struct profile_rank *rank = profiles_of(profiles, &stack->event);

	if (rank)
		profile_rank_stack(rank, stack);
}

void profiles_code(struct profiles *profiles, const struct rt_profile_code_event *code)
{
	struct profile_rank *rank = profiles_of(profiles, &code->event);

	if (rank)
		profile_rank_code(rank, code);
}

void profiles_ended(struct profiles *profiles, uint32_t pid)
{
	struct profile_rank *rank = profiles_find(profiles, pid);

	if (!rank)
		return;
	profiles_remove(profiles, rank);
	rank->ended = true;
}

static void profiles_update_counts(struct profiles *profiles)
{
	for (size_t i = 0; i < profiles->ranks; i++)
		if (profiles->rank[i].sampled)
			(void)profiles->probe->counts(
				profiles->probe->arg, profiles->rank[i].asked.pid, false, &profiles->rank[i].counts);
}

/* True: nothing is left to be named. */
static bool profiles_name(struct profiles *profiles, uint64_t now_ns, bool at_once)
{
	bool done = true;

	for (size_t i = 0; i < profiles->ranks; i++)
		done &= profile_rank_name(&profiles->rank[i], now_ns, at_once);
	return done;
}

void profiles_tick(struct profiles *profiles, uint64_t now_ns)
{
	bool over = now_ns >= profiles->until_ns;

	switch (profiles->state) {
	case PROFILE_NONE:
		profiles_hourly_tick(profiles, now_ns);
		break;
	case PROFILE_PREPARES:
		if (over || profiles_prepared(profiles))
			profiles_run(profiles, now_ns);
		break;
	case PROFILE_RUNS:
		profiles_update_counts(profiles);
		profiles_name(profiles, now_ns, false);
		if (over)
			profiles_stop(profiles, now_ns);
		break;
	case PROFILE_DRAINS:
		if (over) {
			profiles->state = PROFILE_NAMES;
			profiles->until_ns = now_ns + NAMES_WAIT_NS;
		}
		break;
	case PROFILE_NAMES:
		if (profiles_name(profiles, now_ns, true) || over)
			profiles_finish(profiles, now_ns);
		break;
	}
}

void profiles_status(const struct profiles *profiles, struct profiles_status *ret)
{
	*ret = profiles ? profiles->status : (struct profiles_status){0};
	if (!profiles)
		return;
	ret->running = profiles->state != PROFILE_NONE;
	for (size_t i = 0; i < profiles->ranks; i++) {
		const struct profile_rank *rank = &profiles->rank[i];

		ret->samples += rank->rows + rank->held_count;
		ret->refused += rank->refused;
		ret->lost += rank->lost + rank->counts.lost;
		ret->took_ns += rank->counts.took_ns;
		ret->seen += rank->counts.seen;
		ret->read += rank->counts.read;
	}
}
