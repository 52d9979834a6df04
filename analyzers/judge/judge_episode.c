/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence against each rank and the job, the episodes that it opens, and their findings. See judge.h. */
#include "analyzers/finding/finding_groups.h"
#include "analyzers/judge/judge_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_S 0.5     /* lost above the allowance: 10 % for 6 s, 50 % for 1 s */
#define OPEN_STEPS 0.2 /* usual steps lost, where that is more */
#define OPEN_LOST 1    /* more, while operations lack records: a wait that is not recorded is taken for own work */
#define OVER_HALF 0.5  /* of the episode's rate: what loses less for QUIET_S is over */
#define SAME_RATE 0.8  /* of it: a tick that loses so much is of the episode, however long it was quiet */
#define QUIET_S 5.0    /* without loss, or QUIET_STEPS, end an episode */
#define QUIET_STEPS 5.0
#define GAP_SPREADS 3.0 /* standard deviations of what it loses in a time, from which none at all is no chance */
#define GAP_S 15.0
#define PAUSE_NS 30000000000ULL	 /* the same rank and activity within it continue the episode */
#define OTHER_ACTIVITY 0.6	 /* of a tick's loss in another activity, and */
#define NAMED_ACTIVITY 0.2	 /* at most that in the named one: another episode */
#define CARD_LEAD 0.7		 /* of the usual lead: the host is as far ahead as ever */
#define KNOWN_TIMES 10		 /* a slow-down of the job is judged by its history alone: so long it must be */
#define PUBLISH_NS 5000000000ULL /* between updates of an episode that goes on */
#define RISE_HALF 0.5		 /* of what opens: an episode begins with the rise that has lost as much */
/* Standard deviations of what is lost in so many steps while nothing is slow: less is chance */
#define NOISE_SPREADS 5
#define SYNC_S 25e-6	  /* of an .item() whose result is there: 25 to 36 us in recorded jobs on H200s */
#define RISE_SPREADS 5	  /* standard deviations of its mean: less is how the episode itself goes */
#define RISE_AGAIN 8	  /* times what it lost, in the newest tick: it begins there */
#define EVIDENCE_MIN 1e-6 /* s a step: the kernel counts stalls in us, so less is none; also of faults */

/* What opens an episode, by what the watch is of. */
static const struct watch_rule {
	double open;   /* times judge_open_at(), s of evidence */
	double noise;  /* times judge_open_at(): the most that noise raises the limit to */
	double allow;  /* of the usual, a step: what jitter may lose; where something is lost */
	double growth; /* of the usual, since the onset: less opens nothing */
	double steps;  /* fewer open nothing */
} watch_rules[] = {
	/* Growth: half of the smallest notice. */
	[WATCH_RANK] = {1, 4, JUDGE_ALLOW, 0.025, 0},
	[WATCH_START] = {1, 4, JUDGE_ALLOW, 0.025, 0},
	[WATCH_CHECKPOINT] = {1, 4, JUDGE_ALLOW, 0.025, 0},
	/* It has only its own history to compare with, and the odd slow steps of all ranks are no slow-down of it. */
	[WATCH_JOB] = {1, 10, 0.04, 0.06, 5},
	/* Detectors report only what lasts for several frames, and is beyond noise. */
	[WATCH_CLAIM] = {0.25, 0, 0, 0, 0},
};

double judge_open_at(const struct judge *judge)
{
	return fmax(OPEN_S, OPEN_STEPS * (1 + OPEN_LOST * judge->lost) * judge->usual);
}

double judge_quiet_s(const struct judge *judge)
{
	return fmax(QUIET_S, QUIET_STEPS * judge->usual);
}

/* What opens, raised by what noise has reached before: of any rank, or of the job. */
static double limit_of(const struct judge *judge, const struct judge_watch *watch)
{
	const struct watch_rule *rule = &watch_rules[watch->kind];
	double open = judge_open_at(judge), peak = watch->kind == WATCH_JOB ? judge->whole_peak : judge->rank_peak;

	return fmax(rule->open * open, fmin(2 * peak, rule->noise * open));
}

double judge_open_rank(const struct judge *judge)
{
	return judge->ranks ? limit_of(judge, &judge->rank[0].watch) : judge_open_at(judge);
}

void judge_watch_reset(struct judge_watch *watch, uint64_t now_ns, uint64_t step)
{
	watch->span = watch->rise = (struct judge_span){.onset_ns = now_ns, .onset_step = step};
	watch->top = watch->quiet = watch->gap_s = 0;
	watch->wanted = false;
}

bool judge_quiet(const struct judge *judge)
{
	double limit = judge_open_at(judge) / 4;

	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].watch.open || judge->rank[r].watch.evidence > limit)
			return false;
	return ((!judge->whole.open && judge->whole.evidence <= limit) || judge_job_works(judge)) &&
	       judge_claims_quiet(judge);
}

bool judge_suspects(const struct judge *judge)
{
	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].watch.open ||
			judge->rank[r].watch.evidence >= limit_of(judge, &judge->rank[r].watch) / 2)
			return true;
	return judge->whole.open || judge->whole.evidence >= limit_of(judge, &judge->whole) / 2;
}

bool judge_has_slow_rank(const struct judge *judge)
{
	for (size_t r = 0; r < judge->ranks; r++)
		if (judge->rank[r].watch.open)
			return true;
	return false;
}

/* How far noise takes the evidence: excursions that came to little, but for what is left beside a slow rank. */
static void excursion_over(struct judge *judge, struct judge_watch *watch)
{
	double *peak = watch->kind == WATCH_JOB ? &judge->whole_peak : &judge->rank_peak;

	if (watch->kind != WATCH_CLAIM && watch->top > *peak && !judge_has_slow_rank(judge))
		*peak = fmax(*peak, watch->top);
	watch->top = 0;
}

static double episode_growth(const struct judge_episode *episode)
{
	return episode->lost > 0 && episode->base > 0 ? episode->lost / episode->base : 0;
}

/* known_s: that the job was known for before. */
static enum finding_severity severity_at(
	const struct judge *judge, enum finding_kind kind, double growth, uint64_t lasts_ns, double known_s)
{
	/* Nobody to compare with: only the job's own history. */
	bool sure = kind != FINDING_SLOW_JOB || growth >= 0.5 || known_s >= KNOWN_TIMES * (double)lasts_ns * NS;

	if (kind == FINDING_IMBALANCE || (kind == FINDING_SLOW_JOB && growth < judge->options.job_growth))
		return SEVERITY_INFO;
	for (size_t i = 0; i < JUDGE_GRADES; i++) {
		const struct judge_grade *grade = &judge->options.grade[i];

		if (growth >= grade->growth && lasts_ns >= grade->lasts_ns &&
			(sure || grade->severity != SEVERITY_WARNING))
			return grade->severity;
	}
	return SEVERITY_INFO;
}

static enum finding_severity severity_of(const struct judge *judge, const struct judge_episode *episode)
{
	const struct judge_grade *notice = &judge->options.grade[JUDGE_NOTICE];
	const struct finding *finding = &episode->finding;
	enum finding_severity severity = severity_at(
		judge, finding->kind, episode_growth(episode), finding->until_ns - finding->since_ns, episode->known);

	if (finding->kind == FINDING_SLOW_JOB && severity > SEVERITY_NOTICE &&
		episode->cause_lost[HOST_CPU] >= JUDGE_CAUSE_HALF * episode->lost)
		return SEVERITY_NOTICE; /* its steps do more work: no fault */
	/* What limits took needs no length: it may all be in one step. */
	if (severity == SEVERITY_INFO && finding->kind == FINDING_SLOW_RANK &&
		judge_limits_took(episode->cause_lost) >= JUDGE_CAUSE_HALF * episode->lost &&
		episode->lost >= notice->growth * (double)notice->lasts_ns * NS)
		return notice->severity;
	return severity;
}

/* Of what the job lost since the onset, the share that is its own. */
static double confidence_of(const struct judge_watch *watch)
{
	if (watch->kind == WATCH_CLAIM)
		return fmin(fmax(watch->of->confidence, 0), 1);
	return watch->span.total > 0 ? fmin(fmax(watch->span.lost / watch->span.total, 0), 1) : 0;
}

/* Of the activity, unless the operating system took the time. */
static enum finding_cause cause_of(const struct judge *judge, const struct judge_watch *watch)
{
	const struct judge_episode *episode = watch->episode;
	const struct finding *finding = &episode->finding;
	/* Of what is known to be its own. */
	double own = confidence_of(watch) * episode->lost;
	enum finding_cause cause = finding_cause_of(finding->activity), system;

	system = finding->kind == FINDING_SLOW_RANK || watch->kind == WATCH_JOB
			 ? judge_host_cause(episode->cause_lost, own)
			 : CAUSE_UNKNOWN;
	/* Ranks that share their CPUs take them from each other, also while they wait. */
	if (system == CAUSE_PREEMPTION &&
		episode->worst.host[HOST_RUN_DELAY] <= episode->worst.host_peers[HOST_RUN_DELAY])
		system = CAUSE_UNKNOWN;
	if (system != CAUSE_UNKNOWN && (system != CAUSE_LAUNCH || cause == CAUSE_COMPUTE))
		return system;
	if (cause == CAUSE_COMPUTE && finding->side == FINDING_SIDE_CARD)
		return CAUSE_CARD;
	/* A host that waits for its card is no sleeper. */
	if (cause == CAUSE_COMPUTE &&
		(finding->kind == FINDING_SLOW_RANK ? !finding->card[0] : watch->kind == WATCH_JOB && !judge->cards) &&
		episode->worst.host_known[HOST_CPU] && episode->cause_lost[HOST_CPU] < JUDGE_CAUSE_HALF * own)
		return watch->kind == WATCH_JOB && episode->cause_lost[JUDGE_OPERATIONS] >= JUDGE_CAUSE_HALF * own
			       ? CAUSE_OPERATIONS
			       : CAUSE_ASLEEP;
	/* Wherever it runs, code that reads results back far more often is the reason, if it takes as long. */
	if ((episode->worst.syncs - episode->worst.syncs_usual) * SYNC_S >=
			JUDGE_CAUSE_HALF * (episode->worst.step - episode->worst.usual) &&
		episode->worst.syncs > 0 && (cause == CAUSE_COMPUTE || cause == CAUSE_PYTHON))
		return CAUSE_SYNCHRONIZATION;
	return cause == CAUSE_COMPUTE && finding->side == FINDING_SIDE_HOST && finding->card[0] ? CAUSE_HOST : cause;
}

/* What is left of a mean that has decayed is nothing. */
static double evidence_of(double value)
{
	return value < EVIDENCE_MIN ? 0 : value;
}

/* Another rank of the job by its number. */
static void name_preemptor(const struct judge *judge, const struct judge_watch *watch, char *buffer, size_t size)
{
	const struct judge_moment *worst = &watch->episode->worst;
	const char *host = watch->episode->finding.host;

	for (size_t r = 0; r < judge->ranks; r++) {
		const struct judge_rank *rank = &judge->rank[r];

		if (rank->pid == worst->preemptor_pid && rank->rank != watch->episode->finding.rank &&
			strcmp(rank->host, host) == 0) {
			snprintf(buffer, size, "rank %" PRId32 " (pid %" PRIu32 ")", rank->rank, rank->pid);
			return;
		}
	}
	snprintf(buffer, size, "%s (pid %" PRIu32 ")", worst->preemptor_name, worst->preemptor_pid);
}

static void add_evidence(const struct judge *judge, const struct judge_watch *watch)
{
	struct judge_episode *episode = watch->episode;
	const struct judge_moment *worst = &episode->worst;
	struct finding *finding = &episode->finding;
	char detail[64];
	bool system;

	finding->evidences = 0;
	if (finding->activity < ACTIVITY_MAX)
		finding_add(finding, activity_word(finding->activity), "ns", worst->value * 1e9, worst->peers * 1e9,
			worst->before ? FINDING_BEFORE : NULL);
	finding_add(finding, "step_time", "ns", worst->step * 1e9, worst->usual * 1e9, NULL);
	/* What the operating system takes lengthens them all. */
	system = judge_host_cause(episode->cause_lost, confidence_of(watch) * episode->lost) != CAUSE_UNKNOWN;
	if (worst->syncs > 0 && !system)
		finding_add(finding, "synchronizations", "", worst->syncs, worst->syncs_usual, FINDING_BEFORE);
	if (worst->rate > 0 && worst->also < ACTIVITY_MAX && !system)
		finding_add(finding, activity_word(worst->also), "ns", worst->also_value * 1e9, worst->also_peers * 1e9,
			NULL);
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		bool named = h == HOST_RUN_DELAY && worst->preemptor_pid;

		if (!worst->host_known[h] || fmax(worst->host[h], worst->host_peers[h]) < EVIDENCE_MIN)
			continue;
		if (named)
			name_preemptor(judge, watch, detail, sizeof(detail));
		finding_add(finding, judge_hosts[h].name, judge_hosts[h].unit,
			evidence_of(worst->host[h]) * judge_hosts[h].scale,
			evidence_of(worst->host_peers[h]) * judge_hosts[h].scale, named ? detail : NULL);
	}
}

/* What its detector says of the worst frame. */
static void take_claim(struct finding *finding, const struct finding *of)
{
	finding->tier = of->tier;
	finding->evidences = of->evidences;
	memcpy(finding->evidence, of->evidence, sizeof(finding->evidence));
	memcpy(finding->host, of->host, sizeof(finding->host));
	memcpy(finding->communicator, of->communicator, sizeof(finding->communicator));
	memcpy(finding->others, of->others, sizeof(finding->others));
}

static void judge_publish(struct judge *judge, struct judge_watch *watch, enum finding_state state)
{
	struct judge_episode *episode = watch->episode;
	struct finding *finding = &episode->finding;
	enum finding_severity severity = severity_of(judge, episode);
	struct finding out;

	if (!finding->id)
		finding->id = (*judge->next_id)++;
	finding->severity = severity > finding->severity ? severity : finding->severity;
	if (finding->severity > SEVERITY_INFO && !finding->noticed_ns)
		finding->noticed_ns = judge->now_ns;
	finding->cause = watch->kind == WATCH_CLAIM ? watch->of->cause : cause_of(judge, watch);
	finding->confidence = confidence_of(watch);
	finding->state = state;
	finding->updated_ns = judge->now_ns;
	finding->slowdown = 1 + episode_growth(episode);
	finding->cost_card_hours = fmax(0, episode->lost) * episode->cards / 3600;
	episode->published_ns = judge->now_ns;
	episode->published_cause = finding->cause;
	if (watch->kind == WATCH_CLAIM)
		take_claim(finding, watch->of);
	else
		add_evidence(judge, watch);
	out = *finding;
	if (state == FINDING_OPEN)
		out.until_ns = out.until_step = 0;
	finding_write_sentence(&out);
	judge->sink.finding(judge->sink.arg, &out);
}

/* Its host as far ahead of the card as ever: the card; unknown where no operation's start on the device is. */
static enum finding_side side_of(const struct judge *judge, const struct judge_rank *rank, enum activity activity)
{
	if (!rank)
		return FINDING_SIDE_UNKNOWN;
	if (!judge->cards || !(activity_may_wait(activity, true) || activity == ACTIVITY_COMPUTE) ||
		activity == ACTIVITY_SYNC || rank->host_late)
		return FINDING_SIDE_HOST;
	if (!(rank->usual.lead > 0) || !(rank->recent.leads > 0))
		return FINDING_SIDE_UNKNOWN;
	return rank->recent.sum.lead / rank->recent.leads > CARD_LEAD * rank->usual.lead ? FINDING_SIDE_CARD
											 : FINDING_SIDE_HOST;
}

/* On which side it lost its time. */
static void add_side(
	const struct judge *judge, const struct judge_rank *rank, struct judge_episode *episode, double lost)
{
	episode->sides[side_of(judge, rank, episode->finding.activity)] += lost;
	episode->finding.side = FINDING_SIDE_UNKNOWN;
	for (int s = FINDING_SIDE_HOST; s < FINDING_SIDE_MAX; s++)
		if (episode->sides[s] > episode->sides[episode->finding.side])
			episode->finding.side = (enum finding_side)s;
}

enum activity judge_most(const double act[ACTIVITY_MAX])
{
	int most = 0;

	for (int a = 1; a < ACTIVITY_MAX; a++)
		if (act[a] > act[most])
			most = a;
	return act[most] > 0 ? (enum activity)most : ACTIVITY_OUTSIDE;
}

/* As of its last episode: held by the operating system alike, in whatever activity, or in the same one. */
static bool same_reason(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank,
	enum activity activity, double cost)
{
	const struct judge_episode *episode = watch->episode;
	enum finding_cause cause = judge_host_cause(watch->span.host, cost);

	return cause == judge_host_cause(episode->cause_lost, episode->lost) &&
	       (cause != CAUSE_UNKNOWN || activity == episode->finding.activity ||
		       (watch->kind != WATCH_JOB && judge_same_work(judge, rank, activity, episode->finding.activity)));
}

/* An episode of its own, from the onset of what is slow. */
static void episode_start(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank,
	enum activity activity, double rate, struct judge_episode *ret)
{
	struct finding *finding = &ret->finding;

	*ret = (struct judge_episode){.known = (double)(watch->span.onset_ns - judge->first_ns) * NS,
		.rate = rate,
		.cards = judge->card_count,
		.finding = {.kind = rank ? FINDING_SLOW_RANK : FINDING_SLOW_JOB,
			.activity = activity,
			.tier = judge->tier,
			.rank = rank ? rank->rank : -1,
			.since_ns = watch->span.onset_ns,
			.since_step = watch->span.onset_step}};
	snprintf(finding->job, sizeof(finding->job), "%s", judge->job);
	if (watch->kind == WATCH_CLAIM) {
		finding->kind = watch->of->kind;
		if (watch->of->since_ns && watch->of->since_ns < finding->since_ns) {
			finding->since_ns = watch->of->since_ns;
			finding->since_step = watch->of->since_step;
		}
	}
	if (rank) {
		memcpy(finding->host, rank->host, sizeof(finding->host));
		memcpy(finding->card, rank->card, sizeof(finding->card));
	}
}

/* A rank that is named within seconds of the job explains its finding, which goes on as the rank's. */
static void take_from_job(struct judge *judge, struct judge_episode *episode)
{
	struct judge_watch *whole = &judge->whole;
	const struct judge_episode *of = whole->episode;
	struct finding *finding = &episode->finding;

	if (!whole->open || of->rate < OVER_HALF * episode->rate || episode->rate < OVER_HALF * of->rate ||
		(double)(int64_t)(finding->since_ns - of->finding.since_ns) * NS > judge_quiet_s(judge))
		return;
	finding->id = of->finding.id;
	finding->severity = of->finding.severity;
	finding->noticed_ns = of->finding.noticed_ns;
	if (of->finding.since_ns < finding->since_ns) {
		finding->since_ns = of->finding.since_ns;
		finding->since_step = of->finding.since_step;
	}
	episode->lost += of->lost;
	episode->base += of->base;
	whole->open = false;
	whole->evidence = whole->top = 0;
	whole->episode->finding.id = 0;
}

void judge_watch_open(struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, enum activity activity,
	double lost, double cost)
{
	struct judge_episode *episode = watch->episode ? watch->episode : calloc(1, sizeof(*episode));
	double rate = cost / fmax(1e-9, watch->span.base + cost), took[JUDGE_MEASURE_MAX] = {0};
	struct finding *finding;

	if (!episode)
		return;
	watch->episode = episode;
	finding = &episode->finding;
	watch->open = true;
	watch->rise = (struct judge_span){0};
	watch->pending = watch->pending_base = watch->quiet = 0;
	memset(watch->pending_host, 0, sizeof(watch->pending_host));
	if (!finding->id || !same_reason(judge, watch, rank, activity, cost) ||
		watch->span.onset_ns > finding->until_ns + PAUSE_NS || rate < OVER_HALF * episode->rate ||
		episode->rate < OVER_HALF * rate) {
		episode_start(judge, watch, rank, activity, rate, episode);
		if (watch->kind == WATCH_RANK)
			take_from_job(judge, episode);
	} else if (watch->span.onset_ns > finding->until_ns) {
		/* What it cost is of its whole length. */
		episode->base += (double)(watch->span.onset_ns - finding->until_ns) * NS;
	}
	finding->until_ns = judge->now_ns;
	finding->until_step = judge->step;
	episode->lost += cost;
	episode->base += watch->span.base;
	judge_moment_take(judge, rank, watch, lost);
	add_side(judge, rank, episode, cost);
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		episode->cause_lost[h] += watch->span.host[h];
	memcpy(episode->carry, watch->span.carry, sizeof(episode->carry));
	if (watch->kind == WATCH_START) {
		/* What the tick shows was so all the time. */
		judge_host_add(judge, rank, true, lost, NULL, took);
		for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
			episode->cause_lost[h] += lost > 0 ? took[h] * cost / lost : 0;
	} else if (rank && watch->kind != WATCH_CHECKPOINT && !(watch->span.steps > 0)) {
		judge_host_add(judge, rank, false, cost, NULL, episode->cause_lost);
	}
	judge_publish(judge, watch, FINDING_OPEN);
}

void judge_watch_close(struct judge *judge, struct judge_watch *watch)
{
	if (watch->kind == WATCH_JOB && severity_of(judge, watch->episode) < SEVERITY_NOTICE)
		excursion_over(judge, watch);
	judge_publish(judge, watch, FINDING_CLOSED);
	watch->open = false;
	watch->evidence = watch->top = 0;
}

/* Python outside of all stages, of a job without cards, may be operations that the script itself calls: where no waits
 * were seen yet, operations show whether the rank waits in them. */
static bool may_be_wait(const struct judge *judge, const struct judge_watch *watch)
{
	return !judge->cards && !(judge->waited > 0) && judge_most(watch->span.act) == ACTIVITY_OUTSIDE;
}

static void want_more(struct judge *judge, struct judge_watch *watch, const struct judge_rank *rank)
{
	char why[128];

	if (watch->kind == WATCH_CLAIM || watch->wanted || !judge->sink.want ||
		watch->evidence < limit_of(judge, watch) / 2)
		return;
	watch->wanted = true;
	if (rank)
		snprintf(why, sizeof(why), "rank %" PRId32 " has delayed its job by %.1f s", rank->rank,
			watch->span.lost);
	else
		snprintf(why, sizeof(why), "the job has lost %.1f s and no rank is named", watch->span.lost);
	judge->sink.want(judge->sink.arg,
		rank && !may_be_wait(judge, watch) ? JUDGE_WANT_SYSTEM : JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM,
		why);
}

/* It may be another rank's, that works at the same time: operations show whose. */
void judge_unexplained_add(struct judge *judge, double lost)
{
	double limit = limit_of(judge, &judge->whole), before = judge->unexplained;
	char why[128];

	judge->unexplained = fmax(0, before + lost - JUDGE_ALLOW * judge->usual * judge->steps);
	if (before >= limit || judge->unexplained < limit || !judge->sink.want)
		return;
	snprintf(why, sizeof(why), "of what the job has lost, no rank's own work explains %.1f s", judge->unexplained);
	judge->sink.want(judge->sink.arg, JUDGE_WANT_OPERATIONS, why);
}

void judge_watch_slow(struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, double lost, double cost)
{
	struct judge_episode *episode = watch->episode;
	struct finding *finding = &episode->finding;
	enum finding_severity severity;

	finding->until_ns = judge->now_ns;
	finding->until_step = judge->step;
	episode->lost += watch->pending;
	episode->base += watch->pending_base;
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++)
		episode->cause_lost[h] += watch->pending_host[h];
	memset(watch->pending_host, 0, sizeof(watch->pending_host));
	watch->pending = watch->pending_base = 0;
	episode->rate = episode->lost / fmax(1e-9, episode->base + episode->lost);
	judge_moment_take(judge, rank, watch, lost);
	add_side(judge, rank, episode, cost);
	if (watch->kind == WATCH_START)
		judge_host_add(judge, rank, true, cost, NULL, episode->cause_lost);
	severity = severity_of(judge, episode);
	if (severity > finding->severity ||
		(watch->kind != WATCH_CLAIM && cause_of(judge, watch) != episode->published_cause) ||
		judge->now_ns - episode->published_ns >= PUBLISH_NS)
		judge_publish(judge, watch, FINDING_OPEN);
}

/* What a watch goes by. Ranks are clipped by what the step before took: that is no measure of a rate. One odd step of the
 * job is none either. */
static double watch_lost(const struct judge_watch *watch, double lost, double cost)
{
	return watch->kind == WATCH_JOB ? lost : cost;
}

static double span_lost(const struct judge_watch *watch, const struct judge_span *span)
{
	return watch_lost(watch, span->lost, span->cost);
}

/* s^2: by which its ticks differ from their mean. */
static double span_variance(double ticks, double squares, double mean)
{
	return fmax(0, squares / ticks - mean * mean);
}

/* It loses in bursts: so long without any are chance, by so many standard deviations. */
static void watch_note_gap(struct judge_watch *watch)
{
	const struct judge_span *span = &watch->span;
	double mean = span_lost(watch, span) / fmax(1, span->ticks);

	if (!(span->ticks > 1) || !(mean > 0))
		return;
	watch->gap_s = GAP_SPREADS * GAP_SPREADS * span_variance(span->ticks, span->squares, mean) / (mean * mean) *
		       fmax(0, (span->base + span->cost) / span->ticks);
}

/* Without loss, ends it. */
static double watch_quiet_s(const struct judge *judge, const struct judge_watch *watch)
{
	return fmax(judge_quiet_s(judge), fmin(watch->gap_s, GAP_S));
}

/* Beyond what the ticks before differ among themselves: a lossy network or a busy disk loses much in some seconds, and
 * nothing in others. */
static bool rise_is_no_noise(const struct judge_watch *watch)
{
	const struct judge_span *span = &watch->span, *rise = &watch->rise;
	double ticks = span->ticks - rise->ticks, mean, variance;

	if (!(ticks > 0) || !(rise->ticks > 0))
		return true;
	mean = (span_lost(watch, span) - span_lost(watch, rise)) / ticks;
	variance = span_variance(ticks, span->squares - rise->squares, mean);
	return span_lost(watch, rise) / rise->ticks - mean >= RISE_SPREADS * sqrt(variance / rise->ticks);
}

/* What would be announced by itself, and loses at least twice what the episode has lost before, is another one; not in
 * an episode's first seconds: its steps may differ. */
static bool episode_rises(const struct judge *judge, struct judge_watch *watch)
{
	const struct judge_span *rise = &watch->rise;
	const struct finding *finding = &watch->episode->finding;

	if (!(rise->steps > 0) || rise->lost < limit_of(judge, watch) || !rise_is_no_noise(watch))
		return false;
	if ((double)(rise->onset_ns - finding->since_ns) * NS >= judge_quiet_s(judge))
		return severity_at(judge, finding->kind, rise->cost / rise->base, judge->now_ns - rise->onset_ns,
			       (double)(rise->onset_ns - judge->first_ns) * NS) > SEVERITY_INFO;
	watch->span = *rise; /* what the next one is compared with */
	watch->rise = (struct judge_span){0};
	return false;
}

static void episode_rise(struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, double lost)
{
	struct judge_episode *episode = watch->episode;

	episode->lost -= watch->rise.cost - watch->pending;
	episode->base -= watch->rise.base - watch->pending_base;
	episode->finding.until_ns = watch->rise.onset_ns;
	episode->finding.until_step = watch->rise.onset_step;
	episode->finding.severity = SEVERITY_INFO; /* without it */
	judge_publish(judge, watch, FINDING_CLOSED);
	watch->span = watch->rise;
	episode->finding.id = 0; /* not continued */
	judge_watch_open(judge, watch, rank, watch->kind == WATCH_CLAIM ? ACTIVITY_MAX : judge_most(watch->span.act),
		lost, watch->span.cost);
}

/* By the operating system, in whatever activity. */
static bool held_now(const struct judge *judge, const struct judge_rank *rank, double cost)
{
	double took[JUDGE_MEASURE_MAX] = {0};

	judge_host_add(judge, rank, false, cost, NULL, took);
	return judge_host_cause(took, cost) != CAUSE_UNKNOWN;
}

/* A larger one of another rank costs all that is lost: until that ends nothing is known of this one, but that the rank
 * works as much longer. */
static bool episode_is_hidden(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank)
{
	double rate, longer;

	if (!watch->open || !rank || watch->kind != WATCH_RANK || rank->share > 0 || !(judge->clipped > 0))
		return false;
	longer = watch->episode->finding.activity < ACTIVITY_MAX
			 ? fmax(rank->own, rank->act[watch->episode->finding.activity])
			 : rank->own;
	rate = watch->episode->rate; /* of a second; of what steps usually take it is rate / (1 - rate) */
	return longer * (1 - rate) >= OVER_HALF * rate * judge->usual;
}

/* What it costs is of its whole length. */
static void episode_goes_on(struct judge *judge, struct judge_watch *watch)
{
	struct judge_episode *episode = watch->episode;

	episode->base += judge->elapsed_s;
	episode->finding.until_ns = judge->now_ns;
	episode->finding.until_step = judge->step;
	if (judge->now_ns - episode->published_ns >= PUBLISH_NS)
		judge_publish(judge, watch, FINDING_OPEN);
}

/* One tick of an open episode. */
static void episode_tick(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, const struct judge_loss *loss)
{
	struct judge_episode *episode = watch->episode;
	struct finding *finding = &episode->finding;
	double total = 0, half;
	bool was_quiet, other;
	enum activity a;

	watch->pending += loss->cost;
	watch->pending_base += loss->usual;
	judge_host_add_known(judge, watch, rank, loss->cost, episode->carry, watch->pending_host);
	half = OVER_HALF * episode->rate;
	was_quiet = watch->quiet > 0;
	watch->quiet = fmax(0, watch->quiet + half * judge->elapsed_s - loss->cost);
	if (watch->quiet > 0 && loss->cost < SAME_RATE * episode->rate * judge->elapsed_s) {
		/* It went on in steps that are no measure, as those with a checkpoint. */
		if (!was_quiet && judge->begin_ns > finding->until_ns)
			finding->until_ns = judge->begin_ns;
		if (watch->quiet >= half * watch_quiet_s(judge, watch))
			judge_watch_close(judge, watch);
		return;
	}
	watch_note_gap(watch);
	if (episode_rises(judge, watch)) {
		episode_rise(judge, watch, rank, loss->lost);
		return;
	}
	a = judge_most(loss->act);
	for (int i = 0; i < ACTIVITY_MAX; i++)
		total += fmax(0, loss->act[i]);
	other = rank && loss->act[a] > OTHER_ACTIVITY * total &&
		loss->act[finding->activity] < NAMED_ACTIVITY * total && !held_now(judge, rank, loss->cost);
	if (other && !judge_same_work(judge, rank, a, finding->activity)) {
		judge_publish(judge, watch, FINDING_CLOSED);
		judge_watch_reset(watch, judge->begin_ns, judge->begin_step);
		watch->span.lost = loss->lost;
		watch->span.base = loss->usual;
		finding->activity = ACTIVITY_MAX; /* not continued */
		judge_watch_open(judge, watch, rank, a, loss->lost, loss->cost);
		return;
	}
	/* What all ranks do by turns shows after some of them. */
	if (watch->kind == WATCH_JOB && loss->lost > 0 && judge_most(watch->span.act) != finding->activity) {
		finding->activity = judge_most(watch->span.act);
		episode->worst.rate = 0;
	}
	/* The same work, but most of it is elsewhere where it is worst. */
	if (other && judge_moment_is_worst(judge, watch, loss->lost))
		finding->activity = a;
	judge_watch_slow(judge, watch, rank, loss->lost, loss->cost);
}

static void span_add(const struct judge *judge, const struct judge_watch *watch, const struct judge_rank *rank,
	struct judge_span *span, const struct judge_loss *loss)
{
	double lost = loss->lost, total = 0;

	span->lost += lost;
	/* What limits took is no less than it, and not clipped. */
	span->total += watch->kind == WATCH_CLAIM ? lost
		       : watch->kind == WATCH_JOB ? judge->clipped_job
						  : fmax(lost, judge->clipped);
	span->cost += loss->cost;
	span->base += loss->usual;
	span->steps += judge->steps;
	span->ticks++;
	span->squares += pow(watch_lost(watch, lost, loss->cost), 2);
	for (int a = 0; a < ACTIVITY_MAX; a++)
		total += fmax(0, loss->act[a]);
	for (int a = 0; a < ACTIVITY_MAX && total > 0 && lost > 0; a++)
		span->act[a] += lost * fmax(0, loss->act[a]) / total;
	judge_host_add_known(judge, watch, rank, fmax(0, loss->cost), span->carry, span->host);
}

/* The newest steps, from the one on from which they lose at least twice as much as those before: an episode begins
 * there, and not with the noise that it follows. */
static void rise_tick(const struct judge *judge, struct judge_watch *watch, const struct judge_rank *rank,
	const struct judge_loss *loss)
{
	struct judge_span *span = &watch->span, *rise = &watch->rise;
	double base = span->base - rise->base, before = span_lost(watch, span) - span_lost(watch, rise);

	if (!(span->steps > 0) || watch->kind == WATCH_CLAIM)
		return; /* the first tick; detectors say since when */
	/* Or several times as much as the rise so far. */
	if (!(rise->steps > 0) || watch_lost(watch, loss->lost, loss->cost) * fmax(rise->base, 0) >
					  RISE_AGAIN * fmax(0, span_lost(watch, rise)) * loss->usual) {
		*rise = (struct judge_span){.onset_ns = judge->onset_ns, .onset_step = judge->onset_step};
		rise->base = -loss->usual * judge->onset_steps / fmax(1, judge->steps);
	}
	span_add(judge, watch, rank, rise, loss);
	/* before / base > OVER_HALF * lost / rise->base */
	if (before * fmax(rise->base, 0) > OVER_HALF * span_lost(watch, rise) * base)
		*rise = (struct judge_span){0};
}

/* Evidence that does not grow for as long as ends an episode: what follows is another slow-down. */
static bool watch_is_over(const struct judge *judge, struct judge_watch *watch, double cost)
{
	double half = OVER_HALF * fmax(0, watch->span.cost) / fmax(1e-9, watch->span.base + watch->span.cost);

	watch->quiet = fmax(0, watch->quiet + half * judge->elapsed_s - cost);
	if (!(watch->quiet > 0))
		watch_note_gap(watch);
	return watch->quiet >= half * judge_quiet_s(judge);
}

bool judge_watch_may_open(const struct judge_watch *watch)
{
	return watch->open || watch->span.lost >= JUDGE_NAMED * watch->span.total;
}

void judge_watch_add(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, const struct judge_loss *loss)
{
	const struct watch_rule *rule = &watch_rules[watch->kind];
	double limit = limit_of(judge, watch);
	double allow = (loss->lost > 0 ? rule->allow : fmax(rule->allow, JUDGE_ALLOW)) * loss->usual;

	if (episode_is_hidden(judge, watch, rank)) {
		episode_goes_on(judge, watch);
		return;
	}
	if (!(watch->evidence > 0) && !watch->open && watch->kind == WATCH_CLAIM) {
		judge_watch_reset(watch, judge->begin_ns, judge->begin_step);
	} else if (!(watch->evidence > 0) && !watch->open) {
		judge_watch_reset(watch, judge->onset_ns, judge->onset_step);
		watch->span.base = -loss->usual * judge->onset_steps / fmax(1, judge->steps);
	}
	rise_tick(judge, watch, rank, loss);
	/* Signed: else any jitter would add up. */
	watch->evidence = fmin(fmax(0, watch->evidence + loss->lost - allow), 2 * limit);
	watch->top = fmax(watch->top, watch->evidence);
	span_add(judge, watch, rank, &watch->span, loss);
	if (!watch->open && watch->evidence > 0 && watch_is_over(judge, watch, loss->cost))
		watch->evidence = 0;
	if (!watch->open && !(watch->evidence > 0))
		excursion_over(judge, watch);
	if (!watch->open)
		want_more(judge, watch, rank);
	judge->named += watch->open && rank ? fmax(0, loss->cost) : 0;
	if (watch->open) {
		episode_tick(judge, watch, rank, loss);
		return;
	}
	if (watch->evidence < limit || loss->lost <= allow)
		return;
	if (watch->rise.steps > 0 && watch->rise.lost < RISE_HALF * limit)
		return; /* whether it begins here shows soon */
	if (watch->rise.steps > 0)
		watch->span = watch->rise;
	if (judge_watch_may_open(watch) && watch->span.lost >= rule->growth * watch->span.base &&
		watch->span.steps >= rule->steps &&
		(watch->kind == WATCH_CLAIM ||
			watch->span.lost >= NOISE_SPREADS * sqrt(watch->noise * watch->span.steps)))
		judge_watch_open(judge, watch, rank,
			watch->kind == WATCH_CLAIM ? ACTIVITY_MAX : judge_most(watch->span.act), loss->lost,
			watch->span.cost);
}

/* By ticks that follow each other: work that grows is no noise. */
void judge_watch_learn(const struct judge *judge, struct judge_watch *watch, double most, bool quiet)
{
	double differs = watch->newest - watch->before;

	watch->before = watch->newest;
	if (!quiet)
		return;
	watch->noise_steps += judge->steps;
	watch->noise += fmin(1, judge->steps / fmin(watch->noise_steps, most)) *
			(differs * differs / 2 * judge->steps - watch->noise);
}

void judge_watch_tick(
	struct judge *judge, struct judge_watch *watch, struct judge_rank *rank, double claim, double share)
{
	double usual = judge->usual * judge->steps, clipped = rank ? judge->clipped : judge->clipped_job;
	/* Time won back counts for everybody. */
	double lost = clipped > 0 ? claim * clipped : clipped, took[JUDGE_MEASURE_MAX] = {0};
	struct judge_loss loss = {
		.cost = share * (judge->elapsed_s - usual), .usual = usual, .act = rank ? rank->act : judge->common};

	/* Of that, however few steps are enough. */
	if (rank && clipped > 0) {
		judge_host_add(judge, rank, false, claim * (judge->elapsed_s - usual), NULL, took);
		lost = fmax(lost, judge_limits_took(took));
	}
	loss.lost = lost;
	judge_watch_add(judge, watch, rank, &loss);
	/* What is the job's depends on whom else it may be: its noise is that of all. */
	watch->newest = (rank ? lost : clipped) / judge->steps;
}

#define RANK_WATCHES 3

/* Of all ranks, then the claims, then the job's; NULL after the last one. */
static struct judge_watch *watch_at(struct judge *judge, size_t i)
{
	if (i < RANK_WATCHES * judge->ranks) {
		struct judge_rank *rank = &judge->rank[i / RANK_WATCHES];
		struct judge_watch *const watches[RANK_WATCHES] = {&rank->watch, &rank->start, &rank->checkpoint_watch};

		return watches[i % RANK_WATCHES];
	}
	i -= RANK_WATCHES * judge->ranks;
	if (i < judge->claims)
		return &judge->claim[i].watch;
	return i == judge->claims ? &judge->whole : NULL;
}

void judge_close(struct judge *judge)
{
	struct judge_watch *watch;

	for (size_t i = 0; (watch = watch_at(judge, i)); i++)
		if (watch->open)
			judge_watch_close(judge, watch);
}

void judge_interrupt(struct judge *judge)
{
	struct judge_watch *watch;

	for (size_t i = 0; (watch = watch_at(judge, i)); i++) {
		if (watch->open)
			judge_watch_close(judge, watch);
		if (watch->episode)
			watch->episode->finding.id = 0;
		watch->evidence = watch->top = 0;
	}
	/* What was slow from the start is judged anew. */
	for (size_t r = 0; r < judge->ranks; r++) {
		judge->rank[r].shown = (struct judge_shown){0};
		judge->rank[r].fast_ns[0] = judge->rank[r].fast_ns[1] = judge->now_ns;
	}
	judge->routine_ns = judge->routine_ns ? judge->now_ns : 0;
}

void judge_end(struct judge *judge)
{
	struct judge_watch *watch;

	for (size_t i = 0; (watch = watch_at(judge, i)); i++)
		if (watch->open)
			judge_publish(judge, watch, FINDING_OPEN);
}
