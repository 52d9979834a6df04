/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slow rank does that its peers do not, and what a job that became slower as a whole does that it did not
 * before: evidence of its finding, with function and line. After each profile with the rank and a peer, or with a rank
 * of the job, libexec/ranktrace/diff compares them in the stage of the finding, a job's with the newest profile of
 * before it. It is a process of its own: names of functions are what the rank's user chooses. One runs at a time. State
 * is in online_internal.h.
 */
#include <inttypes.h>

#include "analyzers/base/text.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/stacks/profiles.h"
#include "daemon/worker/worker.h"

#define ONLINE_PROFILE_STORED_NS (2 * NSEC_PER_SEC)   /* after its end: the store has its rows */
#define ONLINE_PROFILE_LONGEST_NS (30 * NSEC_PER_SEC) /* 4 ranks of 200 threads took 2 s */

static bool online_profile_is_of(const struct finding *finding)
{
	return finding->kind == FINDING_SLOW_JOB || (finding->kind == FINDING_SLOW_RANK && finding->rank >= 0);
}

static bool online_profile_lasts(const struct finding *finding)
{
	return online_profile_is_of(finding) && (finding->state == FINDING_SUSPECTED || finding->state == FINDING_OPEN);
}

/* For how long the profile was taken while the rank or job was slow: short slow-downs end before their profile, and a
 * later one has little of them. */
static uint64_t online_profile_covers(
	const struct profile_progress *progress, uint64_t ended_ns, const struct finding *finding)
{
	uint64_t since_ns = finding->since_ns > progress->start_ns ? finding->since_ns : progress->start_ns,
		 until_ns = ended_ns;

	if (!online_profile_lasts(finding))
		until_ns = online_profile_is_of(finding) && finding->state == FINDING_CLOSED ? finding->until_ns : 0;
	until_ns = until_ns < ended_ns ? until_ns : ended_ns;
	return until_ns > since_ns ? until_ns - since_ns : 0;
}

static struct online_profile *online_profile_find(struct online *online, uint64_t id)
{
	for (size_t i = 0; i < ONLINE_PROFILES_MAX; i++)
		if (id && online->profiles.of[i].last.id == id)
			return &online->profiles.of[i];
	return NULL;
}

/* The rank to compare: the slow one, if the profile has a peer of it; of a job the first. -1: none. */
static int32_t online_profile_rank(const struct profile_progress *progress, const struct finding *finding)
{
	int32_t first = -1, own = -1;
	size_t ranks = 0;

	for (size_t i = 0; i < progress->ranks; i++)
		if (streq(progress->rank[i].job, finding->job)) {
			if (!ranks++)
				first = progress->rank[i].rank;
			if (progress->rank[i].rank == finding->rank)
				own = finding->rank;
		}
	if (finding->kind == FINDING_SLOW_JOB)
		return first;
	return ranks > 1 ? own : -1;
}

/* The stage in which the rank or job is slow; NULL: that is no single one, or one in which it waits. */
static const char *online_profile_stage(enum activity activity)
{
	bool any = activity >= ACTIVITY_MAX || activity == ACTIVITY_COMPUTE || activity == ACTIVITY_MARK ||
		   activity == ACTIVITY_SYNC;

	return any ? NULL : activity_word(activity);
}

static int online_profile_start(
	struct online *online, struct online_profile *of, int64_t number, int32_t compared, uint64_t now_ns)
{
	struct online_profiles *profiles = &online->profiles;
	char path[PATH_MAX], rank[16], profile[24], until[32];
	const char *argv[16] = {
		path, "--line", "--state-dir", online->context->config.state_dir, "--rank", rank, "--profile", profile};
	const char *stage = online_profile_stage(of->last.activity);
	int r, at = 8;

	worker_program("diff", path, sizeof(path));
	snprintf(rank, sizeof(rank), "%" PRId32, compared);
	snprintf(profile, sizeof(profile), "%" PRId64, number);
	if (of->last.job[0]) {
		argv[at++] = "--job";
		argv[at++] = of->last.job;
	}
	if (of->last.kind == FINDING_SLOW_JOB) {
		snprintf(until, sizeof(until), "%llums", (now_ns - of->last.since_ns) / NSEC_PER_MSEC);
		argv[at++] = "--until";
		argv[at++] = until;
	}
	if (stage) {
		argv[at++] = "--stage";
		argv[at++] = stage;
	}
	of->rank = compared;
	r = child_start(&profiles->child, workers_spawner(online->context->workers), argv, STDOUT_FILENO);
	if (r < 0)
		return r;
	profiles->began_ns = now_ns;
	profiles->id = of->last.id;
	return 0;
}

/* "30000000 0 step burn (gpt.py:54)"; false: nothing is sure. */
static bool online_profile_parse(const char *said, struct online_profile *of)
{
	char unit[8], place[sizeof(of->place)];
	double own_ns, peers_ns;

	if (sscanf(said, "%lf %lf %7s %63[^\n]", &own_ns, &peers_ns, unit, place) != 4 || !(own_ns > 0) ||
		!(peers_ns >= 0))
		return false;
	of->own_ns = own_ns;
	of->peers_ns = peers_ns;
	of->seconds = streq(unit, "second");
	(void)copy_text(of->place, sizeof(of->place), text_clean(place));
	return true;
}

void online_profile_end(struct online *online)
{
	child_forget(&online->profiles.child);
}

/* The comparison has ended: its finding is published again, with what it found. */
static void online_profile_take(struct online *online, const struct child_end *end)
{
	struct online_profile *of = online_profile_find(online, online->profiles.id);
	struct finding f;

	if (!of || end->failed || !online_profile_parse(end->said, of))
		return;
	of->covered_ns = online->profiles.covered_ns;
	f = of->last;
	online_profile_add(online, &f);
	log_info("findings", "rank %" PRId32 " differs from %s in %s", of->rank,
		f.kind == FINDING_SLOW_JOB ? "before" : "its peers", of->place);
	if (f.state != FINDING_DROPPED)
		online_publish_put_row(online, &f);
}

static void online_profile_wait(struct online *online, uint64_t now_ns)
{
	struct online_profiles *profiles = &online->profiles;
	struct child_end end;

	if (child_ended(&profiles->child, &end))
		online_profile_take(online, &end);
	else if (now_ns - profiles->began_ns > ONLINE_PROFILE_LONGEST_NS)
		child_kill(&profiles->child);
}

void online_profile_tick(struct online *online, uint64_t now_ns)
{
	struct online_profiles *profiles = &online->profiles;
	struct profile_progress progress;
	int32_t rank;

	if (profiles->child.running) {
		online_profile_wait(online, now_ns);
		return;
	}
	if (!online->context->profiles || profiles_progress(online->context->profiles, 0, &progress) < 0 ||
		progress.running)
		return;
	if (progress.number != profiles->number) {
		profiles->number = progress.number;
		profiles->ended_ns = now_ns;
	}
	if (now_ns - profiles->ended_ns < ONLINE_PROFILE_STORED_NS)
		return;
	for (size_t i = 0; i < ONLINE_PROFILES_MAX && !profiles->child.running; i++) {
		struct online_profile *of = &profiles->of[i];

		if (!of->last.id || of->number == progress.number)
			continue;
		profiles->covered_ns = online_profile_covers(&progress, profiles->ended_ns, &of->last);
		if (!profiles->covered_ns || profiles->covered_ns < of->covered_ns)
			continue;
		rank = online_profile_rank(&progress, &of->last);
		if (rank < 0)
			continue;
		of->number = progress.number;
		if (online_profile_start(online, of, progress.number, rank, now_ns) < 0)
			log_info("findings", "cannot compare profile %" PRId64, progress.number);
	}
}

void online_profile_note(struct online *online, const struct finding *finding)
{
	struct online_profile *of = online_profile_find(online, finding->id);

	if (!of && online_profile_lasts(finding)) {
		of = &online->profiles.of[online->profiles.next++ % ONLINE_PROFILES_MAX];
		*of = (struct online_profile){.number = 0};
	}
	if (of)
		of->last = *finding;
}

void online_profile_add(struct online *online, struct finding *finding)
{
	const struct online_profile *of = online_profile_find(online, finding->id);
	bool job = finding->kind == FINDING_SLOW_JOB;
	char own[32], peers[32] = "0", who[24] = "it";

	if (!of || !of->place[0])
		return;
	if (job)
		snprintf(who, sizeof(who), "rank %" PRId32, of->rank);
	if (of->peers_ns > 0)
		(void)text_format_duration((uint64_t)of->peers_ns, peers, sizeof(peers));
	text_append(finding->sentence, sizeof(finding->sentence), "; %s spends %s %s in %s, %s %s", who,
		text_format_duration((uint64_t)of->own_ns, own, sizeof(own)), of->seconds ? "of each second" : "a step",
		of->place, job ? "before" : "its peers", peers);
	finding_add(finding, "function", "ns", of->own_ns, of->peers_ns, of->place);
}
