/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to the judge and the detectors, snapshots to the detectors, their verdicts to findings: one set of each a job.
 * A job's set lives from its first frame or snapshot until no rank of it lives, or another job has its number in the
 * aligner.
 */
#include "analyzers/detect/detect_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_finding(void *arg, const struct finding *finding)
{
	struct detect *detect = arg;

	detect->sink.finding(detect->sink.arg, finding);
}

static void on_job_finding(void *arg, const struct finding *finding)
{
	const struct detect_job *job = arg;
	struct finding whose = *finding;

	whose.uid_known = job->uid != ALIGN_UID_UNKNOWN;
	whose.uid = whose.uid_known ? job->uid : 0;
	on_finding(job->detect, &whose);
}

static struct detect_job *job_free(struct detect_job *job)
{
	if (!job)
		return NULL;
	for (size_t i = 0; i < job->detect->count; i++) {
		if (job->state[i])
			job->detect->detectors[i]->free(job->state[i]);
	}
	measure_free(job->measure);
	hang_findings_free(job->hangs);
	judge_free(job->judge);
	free(job);
	return NULL;
}

static void on_judged_want(void *arg, unsigned wants, const char *why)
{
	const struct detect_job *job = arg;
	const struct detect_sink *sink = &job->detect->sink;

	if (sink->want)
		sink->want(sink->arg, wants, job->uid, job->word, why);
}

static bool on_judged_hung(void *arg, uint64_t begin_ns, uint64_t end_ns)
{
	const struct detect_job *job = arg;

	return hang_findings_cover(job->hangs, begin_ns, end_ns);
}

struct judge *detect_judge_new(struct detect_job *job)
{
	const struct judge_sink sink = {on_job_finding, on_judged_want, on_judged_hung, job};

	return judge_new(&job->detect->options.judge, job->word, &sink, &job->detect->next_id);
}

static struct detect_job *job_new(struct detect *detect, uint32_t number, const struct align_job_info *known)
{
	struct detect_job *job = calloc(1, sizeof(*job));
	const struct hang_findings_sink sink = {on_job_finding, job};
	bool whole;

	if (!job)
		return NULL;
	job->detect = detect;
	job->number = number;
	job->world_size = job->cards = known->world_size;
	snprintf(job->word, sizeof(job->word), "%s", known->job);
	job->measure = measure_new();
	job->hangs = hang_findings_new(job->word, &sink, &detect->next_id);
	job->judge = detect_judge_new(job);
	whole = job->measure && job->hangs && job->judge;
	for (size_t i = 0; whole && i < detect->count; i++) {
		job->state[i] = detect->detectors[i]->new (&detect->options);
		whole = job->state[i];
	}
	return whole ? job : job_free(job);
}

/* Its findings end with it. */
static void job_over(struct detect *detect, size_t i)
{
	hang_findings_close(detect->job[i]->hangs, detect->now_ns);
	judge_close(detect->job[i]->judge);
	job_free(detect->job[i]);
	detect->job[i] = detect->job[--detect->jobs];
}

static bool is_job(const struct detect_job *job, uint32_t number, const struct align_job_info *known)
{
	return job->number == number && job->world_size == known->world_size &&
	       (job->uid == known->uid || job->uid == ALIGN_UID_UNKNOWN) &&
	       strncmp(job->word, known->job, sizeof(job->word) - 1) == 0;
}

struct detect_job *detect_job_find(struct detect *detect, uint32_t number, const struct align_job_info *known)
{
	size_t oldest = 0;
	struct detect_job *job;

	for (size_t i = detect->jobs; i-- > 0;) {
		job = detect->job[i];
		if (is_job(job, number, known)) {
			job->used = ++detect->uses;
			job->uid = known->uid;
			return job;
		}
		if (number != DETECT_ELSEWHERE && job->number == number)
			job_over(detect, i);
	}
	for (size_t i = 0; i < detect->jobs; i++)
		oldest = detect->job[i]->used < detect->job[oldest]->used ? i : oldest;
	if (detect->jobs == ALIGN_JOBS_MAX)
		job_over(detect, oldest);
	job = job_new(detect, number, known);
	if (!job)
		return NULL;
	job->uid = known->uid;
	job->used = ++detect->uses;
	detect->job[detect->jobs++] = job;
	return job;
}

/* What a frame shows. */
static void on_frame_verdict(void *arg, const struct verdict *verdict)
{
	const struct detect_session *session = arg;

	judge_claim(session->job->judge, &verdict->finding, verdict->lost_ns);
}

void detect_want(void *arg, unsigned wants, const char *why)
{
	const struct detect_session *session = arg;

	if (wants)
		on_judged_want(session->job, wants, why);
}

/* When the frame ended: of the first rank that is in it. */
static uint64_t detect_end_of(const struct frame *frame, uint64_t otherwise)
{
	for (size_t i = 0; i < frame->ranks; i++) {
		if (frame->rank[i].here && frame->rank[i].end_ns)
			return frame->rank[i].end_ns;
	}
	return otherwise;
}

/* Of a job that has just begun, or of which we have just begun to know. */
static bool is_warm(struct detect_job *job, uint64_t now_ns)
{
	if (!job->first_ns)
		job->first_ns = now_ns;
	return now_ns - job->first_ns >= job->detect->options.warm_ns;
}

static void detect_take(struct detect_job *job, const struct frame *given)
{
	struct frame mine = *given;
	const struct frame *frame = &mine;
	struct detect *detect = job->detect;
	struct detect_session session = {.job = job};
	const struct detector_out out = {on_frame_verdict, detect_want, &session};
	const struct measures *measures;

	if (measure_frame(job->measure, frame, &measures) < 0)
		return;
	if (frame->class == FRAME_TRAIN)
		detect_job_resume(job, frame, detect_end_of(frame, detect->now_ns));
	if (!is_warm(job, detect_end_of(frame, detect->now_ns)) && frame->class == FRAME_TRAIN)
		mine.class = FRAME_FIRST;
	job->tier = frame->tier;
	job->step = frame->step;
	job->cards = frame->cards ? frame->cards : frame->world_size;
	if (detect->sink.frame && job->number != DETECT_ELSEWHERE)
		detect->sink.frame(detect->sink.arg, job->number, frame, measures);
	if (judge_frame(job->judge, frame, measures) < 0)
		return;
	for (size_t i = 0; i < detect->count; i++) {
		if (detect->detectors[i]->frame)
			detect->detectors[i]->frame(job->state[i], frame, measures, &out);
	}
}

static void on_frame(void *arg, uint32_t number, const struct frame *frame)
{
	struct detect *detect = arg;
	struct align_job_info known;
	struct detect_job *job;

	if (!align_job_info(detect->align, number, &known))
		return;
	job = detect_job_find(detect, number, &known);
	if (job)
		detect_take(job, frame);
}

struct detect *detect_new_with(const struct detect_options *options, const struct detect_sink *sink,
	const struct detector *const *detectors, size_t count)
{
	struct detect *detect = count <= DETECT_DETECTORS_MAX ? calloc(1, sizeof(*detect)) : NULL;
	struct align_sink frames = {on_frame, detect};

	if (!detect)
		return NULL;
	detect->options = *options;
	detect->sink = *sink;
	detect->detectors = detectors;
	detect->count = count;
	detect->next_id = 1;
	detect->align = align_new(&frames);
	return detect->align ? detect : detect_free(detect);
}

struct detect *detect_free(struct detect *detect)
{
	if (!detect)
		return NULL;
	align_free(detect->align);
	for (size_t i = 0; i < detect->jobs; i++)
		job_free(detect->job[i]);
	for (size_t i = 0; i < detect->nodes; i++)
		hardware_free(detect->node[i]);
	json_decref(detect->learned);
	free(detect);
	return NULL;
}

struct align *detect_align(struct detect *detect)
{
	return detect->align;
}

/* Of the first job that lives and uses it. */
static void on_users(void *arg, const char *host, const struct hardware_card *card, struct finding *finding)
{
	const struct detect *detect = arg;
	struct align_job_info known;
	int32_t rank[HARDWARE_USERS_MAX];
	size_t ranks = 0;

	for (uint32_t job = 0; !ranks && align_job_info(detect->align, job, &known); job++)
		for (size_t i = 0; !known.ended && i < known.ranks && ranks < HARDWARE_USERS_MAX; i++) {
			const struct frame_who *who = &known.who[i];

			if (!who->card[0] || strcmp(who->host, host) != 0 ||
				!hardware_card_is(card->object, card->minor, who->card))
				continue;
			if (!ranks) {
				snprintf(finding->job, sizeof(finding->job), "%s", known.job);
				finding->uid_known = known.uid != ALIGN_UID_UNKNOWN;
				finding->uid = finding->uid_known ? known.uid : 0;
			}
			memcpy(finding->card, who->card, sizeof(finding->card));
			rank[ranks++] = who->rank;
		}
	if (!ranks)
		return;
	finding->rank = ranks == 1 ? rank[0] : -1;
	finding->others[0] = 0;
	if (ranks > 1)
		finding_ranks(rank, ranks, finding->others, sizeof(finding->others));
}

struct hardware *detect_hardware(struct detect *detect, const char *host)
{
	const struct hardware_sink sink = {on_finding, on_users, detect};
	struct hardware *node;

	for (size_t i = 0; i < detect->nodes; i++)
		if (strcmp(hardware_host(detect->node[i]), host) == 0)
			return detect->node[i];
	node = detect->nodes < DETECT_NODES_MAX ? hardware_new(host, &sink, &detect->next_id) : NULL;
	if (node)
		detect->node[detect->nodes++] = node;
	return node;
}

void detect_frame(struct detect *detect, const char *word, const struct frame *frame)
{
	const struct align_job_info known = {.job = word, .world_size = frame->world_size, .uid = ALIGN_UID_UNKNOWN};
	struct detect_job *job = detect_job_find(detect, DETECT_ELSEWHERE, &known);

	if (job)
		detect_take(job, frame);
}

static bool detect_is_over(const struct detect *detect, const struct detect_job *job)
{
	struct align_job_info known;

	return job->number != DETECT_ELSEWHERE && (!align_job_info(detect->align, job->number, &known) || known.ended ||
							  !is_job(job, job->number, &known));
}

void detect_advance(struct detect *detect, uint64_t now_ns)
{
	detect->now_ns = now_ns;
	align_advance(detect->align, now_ns);
	for (size_t i = detect->jobs; i-- > 0;) {
		if (detect_is_over(detect, detect->job[i]))
			job_over(detect, i);
	}
	for (size_t i = 0; i < detect->nodes; i++)
		hardware_advance(detect->node[i], now_ns);
}

void detect_end(struct detect *detect)
{
	align_end(detect->align);
	for (size_t i = 0; i < detect->jobs; i++) {
		hang_findings_end(detect->job[i]->hangs, detect->now_ns);
		judge_end(detect->job[i]->judge);
	}
	for (size_t i = 0; i < detect->nodes; i++)
		hardware_end(detect->node[i], detect->now_ns);
}
