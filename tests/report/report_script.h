/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic days, for the report's tests and for viewing: stores of nodes with cards and training ranks, some of them
 * slow, with gaps in watching. Determined by the script alone.
 */
#ifndef RANKTRACE_TESTS_REPORT_SCRIPT_H
#define RANKTRACE_TESTS_REPORT_SCRIPT_H

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzers/finding/finding.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"

#define SCRIPT_FINDINGS_MAX 32
#define SCRIPT_SECOND 1000000000ULL
#define SCRIPT_HOUR (3600 * SCRIPT_SECOND)
#define SCRIPT_DAY (24 * SCRIPT_HOUR)

struct script_finding {
	struct finding is;
	int32_t node;
	bool past; /* leaves the rows of the period unchanged */
};

struct script {
	const char *dir; /* a store, or with split a folder of stores */
	bool split;
	uint64_t until_ns, length_ns;
	uint32_t nodes, cards; /* cards per node */
	uint32_t jobs;	       /* among which the nodes are divided */
	uint64_t step_ns, sample_ns;
	const char *job, *host; /* prefixes of names */
	uint32_t stage_nodes;	/* one node in `stage_nodes` writes stages; 0: only those of findings */
	uint32_t gap_node;	/* unwatched from gap_since to gap_until, relative to the start; UINT32_MAX: all
				 */
	uint64_t gap_since_ns, gap_until_ns;
	uint64_t drops;
	bool cardless;	   /* ranks compute on CPUs */
	bool bystander;	   /* beside the first card's rank, a process that uses PyTorch, in no job, and makes no step */
	const char *waits; /* the stage in which ranks wait for others; NULL: backward */
	double uneven;	   /* part of a step by which forward varies from step to step and rank to rank */
	size_t findings;
	struct script_finding finding[SCRIPT_FINDINGS_MAX];
};

static inline uint32_t script_world(const struct script *script)
{
	return script->nodes / script->jobs * script->cards;
}

static inline void script_job(const struct script *script, uint32_t node, char ret[64])
{
	uint32_t job = node / (script->nodes / script->jobs);

	snprintf(ret, 64, script->jobs > 1 ? "%.40s-%u" : "%.40s", script->job, job);
}

static inline int32_t script_rank(const struct script *script, uint32_t node, uint32_t card)
{
	return (int32_t)(node % (script->nodes / script->jobs) * script->cards + card);
}

static inline void script_host(const struct script *script, uint32_t node, char ret[64])
{
	snprintf(ret, 64, "%.40s%03u", script->host, node);
}

/* A finding of the card that began ago_ns before the end and lasted lasted_ns; 0: open. slow: 0.24 for 24 %. */
static inline struct finding *script_slow(struct script *script, enum finding_kind kind, enum finding_cause cause,
	uint32_t node, int32_t card, uint64_t ago_ns, uint64_t lasted_ns, double slow)
{
	struct script_finding *to = &script->finding[script->findings++];
	struct finding *f = &to->is;
	uint64_t lived_ns = lasted_ns ? lasted_ns : ago_ns;

	card = card < 0 ? card : card % (int32_t)script->cards;
	*to = (struct script_finding){.node = (int32_t)node, .past = ago_ns > script->length_ns};
	f->id = script->findings;
	f->kind = kind;
	f->cause = cause;
	f->activity = ACTIVITY_MAX;
	f->state = lasted_ns ? FINDING_CLOSED : FINDING_OPEN;
	f->severity = kind == FINDING_IMBALANCE		    ? SEVERITY_INFO
		      : slow > 0.15 || kind == FINDING_HANG ? SEVERITY_CRITICAL
							    : SEVERITY_WARNING;
	f->tier = FRAME_TIER_HOST;
	f->confidence = 0.86;
	script_job(script, node, f->job);
	f->rank = card >= 0 ? script_rank(script, node, (uint32_t)card) : -1;
	if (card >= 0) {
		script_host(script, node, f->host);
		snprintf(f->card, sizeof(f->card), "%d", card);
	}
	f->since_ns = script->until_ns - ago_ns;
	f->noticed_ns = f->since_ns + 30 * SCRIPT_SECOND;
	f->until_ns = lasted_ns ? f->since_ns + lasted_ns : 0;
	f->updated_ns = f->since_ns + lived_ns;
	f->since_step =
		1 + (script->length_ns - (ago_ns < script->length_ns ? ago_ns : script->length_ns)) / script->step_ns;
	f->slowdown = kind == FINDING_HANG ? 0 : 1 + slow;
	f->cost_card_hours =
		(kind == FINDING_HANG ? 1 : slow / (1 + slow)) * script_world(script) * (double)lived_ns / SCRIPT_HOUR;
	return f;
}

static inline void script_put_finding(struct store *store, const struct finding *f)
{
	char evidence[FINDING_JSON_BYTES];
	struct finding complete = *f;

	if (!complete.sentence[0])
		finding_write_sentence(&complete);
	(void)finding_evidence_json(f, evidence, sizeof(evidence));
	const struct row_findings row = {.kind = field_text(finding_kind_word(f->kind)),
		.cause = field_text(finding_cause_word(f->cause)),
		.activity = field_text_if(activity_word(f->activity)),
		.side = field_text_if(finding_side_word(f->side)),
		.state = field_text(finding_state_word(f->state)),
		.severity = field_text(finding_severity_word(f->severity)),
		.confidence = field_real(f->confidence),
		.tier = field_text(finding_tier_word(f->tier)),
		.job = field_text_if(f->job),
		.rank = field_int_if(f->rank >= 0, f->rank),
		.host = field_text_if(f->host),
		.card = field_text_if(f->card),
		.communicator = field_text_if(f->communicator),
		.since_step = field_int(f->since_step),
		.since_ns = field_time(f->since_ns),
		.noticed_ns = field_time(f->noticed_ns),
		.until_ns = field_time_if(f->until_ns, f->until_ns),
		.slowdown = field_real_if(f->slowdown > 0, f->slowdown),
		.cost_card_hours = field_real(f->cost_card_hours),
		.others = field_text_if(f->others),
		.evidence = field_text(evidence),
		.sentence = field_text(complete.sentence),
		.finding = field_int(f->id)};

	store_put_findings(store, &row);
}

static inline int64_t script_instance(const struct script *script, uint32_t node, uint32_t card)
{
	return 1 + (int64_t)(script->split ? card : node * script->cards + card);
}

static inline void script_put_rank(struct store *store, const struct script *script, uint32_t node, uint32_t card)
{
	uint64_t start_ns = script->until_ns - 10 * SCRIPT_DAY;
	char job[64], host[64], name[16];

	script_job(script, node, job);
	script_host(script, node, host);
	snprintf(name, sizeof(name), "%u", card);
	const struct row_ranks row = {.rank = field_int(script_rank(script, node, card)),
		.world_size = field_int(script_world(script)),
		.local_rank = field_int(card),
		.job = field_text(job),
		.host = field_text(host),
		.pid = field_int(1000 + card),
		.start_time_ns = field_time(start_ns),
		.exe = field_text("/usr/bin/python3"),
		.command = field_text("train.py"),
		.card = field_text_if(script->cardless ? "" : name),
		.source = field_text("torchrun"),
		.first_seen_ns = field_time(start_ns + SCRIPT_SECOND),
		.last_seen_ns = field_time(start_ns + SCRIPT_SECOND),
		.ended = field_int(0),
		.instance = field_int(script_instance(script, node, card))};

	store_put_ranks(store, &row);
	if (script->bystander && card == 0) {
		struct row_ranks other = row;

		other.job = field_text_if("");
		other.card = field_text_if("");
		other.pid = field_int(999);
		other.world_size = field_int(1);
		other.first_seen_ns = field_time(script->until_ns - SCRIPT_HOUR);
		other.last_seen_ns = field_time(script->until_ns - SCRIPT_HOUR / 2);
		other.ended = field_int(1);
		other.instance = field_int(script_instance(script, node, card) + 500);
		store_put_ranks(store, &other);
	}
}

/* Shared by all users, so that a day is reproducible. */
static inline double script_noise(uint64_t seed)
{
	seed ^= seed >> 33;
	seed *= 0xff51afd7ed558ccdULL;
	seed ^= seed >> 33;
	seed *= 0xc4ceb9fe1a85ec53ULL;
	seed ^= seed >> 33;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static inline bool script_holds(const struct script_finding *finding, uint64_t time_ns)
{
	return !finding->past && time_ns >= finding->is.since_ns &&
	       (!finding->is.until_ns || time_ns < finding->is.until_ns);
}

/* Slowdown of the job's steps; infinity for a hung job. */
static inline double script_slowness(const struct script *script, const char *job, uint64_t time_ns)
{
	double slow = 1;

	for (size_t i = 0; i < script->findings; i++)
		if (script_holds(&script->finding[i], time_ns) && strcmp(script->finding[i].is.job, job) == 0) {
			if (script->finding[i].is.kind == FINDING_HANG)
				return INFINITY;
			if (script->finding[i].is.kind != FINDING_IMBALANCE && script->finding[i].is.slowdown > slow)
				slow = script->finding[i].is.slowdown;
		}
	return slow;
}

/* Part of the step that a rank spends in a stage; larger if the stage is the cause. */
static inline double script_stage(
	const struct script *script, const char *job, int32_t rank, const char *stage, double share, uint64_t time_ns)
{
	for (size_t i = 0; i < script->findings; i++) {
		const struct finding *f = &script->finding[i].is;

		if (script_holds(&script->finding[i], time_ns) && f->rank == rank && f->evidences &&
			strcmp(f->job, job) == 0 && strcmp(f->evidence[0].name, stage) == 0)
			share += f->slowdown - 1;
	}
	return share;
}

static inline void script_put_stages(
	struct store *store, const struct script *script, uint32_t node, uint32_t card, int64_t step, uint64_t time_ns)
{
	static const struct {
		const char *stage;
		double share;
	} stages[] = {{"dataloader", 0.06}, {"forward", 0.30}, {"backward", 0.52}, {"optimizer", 0.08}};
	int64_t instance = script_instance(script, node, card);
	int32_t rank = script_rank(script, node, card);
	uint64_t at_ns = time_ns;
	double waits;
	char job[64];

	script_job(script, node, job);
	/* Who is not slow waits. */
	waits = script_slowness(script, job, time_ns) - 1;
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		waits -= script_stage(script, job, rank, stages[i].stage, 0, time_ns);
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		double share =
			script_stage(script, job, rank, stages[i].stage, stages[i].share, time_ns) +
			(strcmp(stages[i].stage, script->waits ? script->waits : "backward") == 0 && waits > 0 ? waits
													       : 0);
		uint64_t length_ns;

		/* Who is early waits in backward. */
		if (i == 1 || i == 2)
			share += (i == 1 ? 1 : -1) * script->uneven *
				 (script_noise(time_ns * 3 + (uint64_t)rank * 1000003) - 0.5);
		length_ns = (uint64_t)(share * (double)script->step_ns *
				       (0.97 + 0.06 * script_noise(time_ns + (uint64_t)rank * 7 + i)));
		const struct row_stages row = {.rank = field_int(rank),
			.step = field_int(step),
			.stage = field_text(stages[i].stage),
			.name = field_text("x"),
			.start_ns = field_time(at_ns),
			.duration_ns = field_duration(length_ns),
			.thread_id = field_int(1),
			.depth = field_int(0),
			.instance = field_int(instance)};

		store_put_stages(store, &row);
		at_ns += length_ns;
	}
}

static inline void script_put_sample(
	struct store *store, const struct script *script, uint32_t node, uint32_t card, uint64_t time_ns)
{
	int32_t rank = script_rank(script, node, card);
	uint64_t delay_ns = (uint64_t)((double)script->sample_ns * 0.01 * script_noise(time_ns + (uint64_t)rank)),
		 throttled_ns = 0, faults = 0;
	char job[64];

	script_job(script, node, job);
	for (size_t i = 0; i < script->findings; i++) {
		const struct finding *f = &script->finding[i].is;

		if (!script_holds(&script->finding[i], time_ns) || f->rank != rank || strcmp(f->job, job) != 0)
			continue;
		delay_ns += f->cause == CAUSE_PREEMPTION ? script->sample_ns / 5 : 0;
		throttled_ns += f->cause == CAUSE_THROTTLING ? script->sample_ns / 4 : 0;
		faults += f->cause == CAUSE_FAULTS ? 400 * script->sample_ns / SCRIPT_SECOND : 0;
	}
	const struct row_host_samples row = {.rank = field_int(rank),
		.start_ns = field_time(time_ns),
		.duration_ns = field_duration(script->sample_ns),
		.cpu_ns = field_duration(script->sample_ns / 2),
		.run_delay_ns = field_duration(delay_ns),
		.throttled_ns = field_duration(throttled_ns),
		.major_faults = field_int(faults),
		.resident_bytes = field_int(4ULL << 30),
		.state = field_text("R"),
		.instance = field_int(script_instance(script, node, card))};

	store_put_host_samples(store, &row);
}

/* Operations of the finding's communicator, with the durations of its evidence. */
static inline void script_put_operations(
	struct store *store, const struct script *script, uint32_t node, uint32_t card, int64_t step, uint64_t time_ns)
{
	for (size_t i = 0; i < script->findings; i++) {
		const struct finding *f = &script->finding[i].is;
		double wanted_ns =
			script_holds(&script->finding[i], time_ns) ? f->evidence[0].value : f->evidence[0].peers;
		double ns = wanted_ns >= 0 && wanted_ns < 1e15 ? wanted_ns : 0;
		const struct row_collectives row = {.rank = field_int(script_rank(script, node, card)),
			.step = field_int(step),
			.communicator = field_text(f->communicator),
			.seq = field_int(step),
			.op = field_text("AllReduce"),
			.count = field_int(1),
			.bytes = field_int(4096),
			.host_start_ns = field_time(time_ns),
			.host_duration_ns = field_duration(ns * (0.95 + 0.1 * script_noise(time_ns + card))),
			.tier = field_text("host"),
			.seq_from = field_text("init"),
			.captured = field_int(0),
			.result = field_int(0),
			.family = field_text("nccl"),
			.thread_id = field_int(1),
			.instance = field_int(script_instance(script, node, card))};

		if (f->communicator[0] && script->finding[i].node == (int32_t)node)
			store_put_collectives(store, &row);
	}
}

static inline bool script_watches(const struct script *script, uint32_t node, uint64_t time_ns)
{
	uint64_t at_ns = time_ns - (script->until_ns - script->length_ns);

	return !(script->gap_node == node || script->gap_node == UINT32_MAX) || at_ns < script->gap_since_ns ||
	       at_ns >= script->gap_until_ns;
}

static inline bool script_has_stages(const struct script *script, uint32_t node)
{
	for (size_t i = 0; i < script->findings; i++)
		if (script->finding[i].node == (int32_t)node && script->finding[i].is.rank >= 0)
			return true;
	return script->stage_nodes && node % script->stage_nodes == 0;
}

/* Writes one node's rows of one sample time. next_ns, step: of the job's next step. */
static inline void script_put_time(struct store *store, const struct script *script, uint32_t node, uint64_t time_ns,
	uint64_t *next_ns, int64_t *step)
{
	char job[64];

	script_job(script, node, job);
	for (uint32_t card = 0; card < script->cards && script_watches(script, node, time_ns); card++)
		script_put_sample(store, script, node, card, time_ns);
	while (*next_ns < time_ns + script->sample_ns) {
		double slow = script_slowness(script, job, *next_ns);
		uint64_t length_ns;

		if (!isfinite(slow)) {
			*next_ns += script->step_ns;
			continue;
		}
		length_ns = (uint64_t)((double)script->step_ns * slow * (0.985 + 0.03 * script_noise(*next_ns)));
		for (uint32_t card = 0; card < script->cards && script_watches(script, node, *next_ns); card++) {
			int32_t rank = script_rank(script, node, card);
			const struct row_steps row = {.rank = field_int(rank),
				.step = field_int(*step),
				.start_ns = field_time(*next_ns),
				.duration_ns = field_duration(
					(double)length_ns * (0.998 + 0.004 * script_noise(*next_ns + (uint64_t)rank))),
				.kind = field_text("train"),
				.instance = field_int(script_instance(script, node, card))};

			store_put_steps(store, &row);
			if (script_has_stages(script, node))
				script_put_stages(store, script, node, card, *step, *next_ns);
			script_put_operations(store, script, node, card, *step, *next_ns);
		}
		*next_ns += length_ns;
		++*step;
	}
}

static inline int script_open(const struct script *script, const char *folder, struct store **ret)
{
	const struct store_options how = {.state_dir = folder,
		.segment_ns = 6 * SCRIPT_HOUR, /* each is opened for each report */
		.events_size_bytes_max = 64ULL << 30,
		.events_age_ns_max = 40 * SCRIPT_DAY,
		.summary_age_ns_max = 40 * SCRIPT_DAY};

	return store_open(&how, ret);
}

/* Writes nodes first to last into one store. */
static inline int script_write_nodes(const struct script *script, const char *folder, uint32_t first, uint32_t last)
{
	uint64_t since_ns = script->until_ns - script->length_ns, *next_ns = calloc(last - first + 1, sizeof(*next_ns));
	int64_t *step = calloc(last - first + 1, sizeof(*step));
	struct store *store = NULL;
	int r = next_ns && step ? script_open(script, folder, &store) : -1;

	for (uint32_t node = first; r == 0 && node <= last; node++) {
		next_ns[node - first] = since_ns;
		step[node - first] = 1;
		for (uint32_t card = 0; card < script->cards; card++)
			script_put_rank(store, script, node, card);
	}
	for (size_t i = 0; r == 0 && i < script->findings; i++)
		if (!script->split || script->finding[i].node == (int32_t)first)
			script_put_finding(store, &script->finding[i].is);
	if (r == 0 && script->drops) {
		const struct row_drops row = {.start_ns = field_time(since_ns + SCRIPT_HOUR),
			.source = field_text("ring"),
			.reason = field_text("full"),
			.count = field_int(script->drops)};

		store_put_drops(store, &row);
	}
	for (uint64_t time_ns = since_ns; r == 0 && time_ns < script->until_ns; time_ns += script->sample_ns) {
		for (uint32_t node = first; node <= last; node++)
			script_put_time(store, script, node, time_ns, &next_ns[node - first], &step[node - first]);
		/* Rarely: each flush waits for the disk. */
		if ((time_ns - since_ns) / script->sample_ns % 15 == 14)
			(void)store_flush(store, time_ns + script->sample_ns);
	}
	store_close(store);
	free(next_ns);
	free(step);
	return r;
}

static inline int script_write(const struct script *script)
{
	if (!script->split)
		return script_write_nodes(script, script->dir, 0, script->nodes - 1);
	(void)mkdir(script->dir, 0755);
	for (uint32_t node = 0; node < script->nodes; node++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/node%03u", script->dir, node);
		(void)mkdir(path, 0755);
		if (script_write_nodes(script, path, node, node) < 0)
			return -1;
	}
	return 0;
}

/* A healthy day of nodes with cards. */
static inline struct script script_healthy(const char *folder, uint64_t until_ns, uint32_t nodes, uint32_t cards)
{
	return (struct script){
		.dir = folder,
		.until_ns = until_ns,
		.length_ns = SCRIPT_DAY,
		.nodes = nodes,
		.cards = cards,
		.jobs = 1,
		.step_ns = 60 * SCRIPT_SECOND,
		.sample_ns = 60 * SCRIPT_SECOND,
		.job = "llama-70b",
		.host = "node",
		.stage_nodes = nodes / 8 + 1,
		.gap_node = UINT32_MAX,
	};
}

/* A slow card, also on six of the days before: to be replaced. */
static inline void script_one_slow(struct script *script, uint32_t node, int32_t card, double slow)
{
	double ns = (double)script->step_ns;

	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_CARD, node, card, 14 * SCRIPT_HOUR, 0, slow),
		"forward", "ns", (0.30 + slow) * ns, 0.30 * ns, NULL);
	for (uint64_t day = 1; day < 8; day++)
		if (day != 4)
			finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_CARD, node, card,
					    (day * 24 + 9) * SCRIPT_HOUR, 4 * SCRIPT_HOUR, slow),
				"forward", "ns", (0.30 + slow) * ns, 0.30 * ns, NULL);
}

/* Twelve findings of all kinds. */
static inline void script_twelve(struct script *script)
{
	uint64_t hour = SCRIPT_HOUR, minute = hour / 60;
	double ns = (double)script->step_ns;
	struct finding *f;

	script_one_slow(script, 17 % script->nodes, 3, 0.11);
	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_DATALOADER, 64 % script->nodes, 0, 20 * hour, 2 * hour,
			    0.18),
		"dataloader", "ns", 0.24 * ns, 0.06 * ns, NULL);
	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_PREEMPTION, 9 % script->nodes, 5, 22 * hour,
			    40 * minute, 0.21),
		"run_delay", "ns", 0.21 * ns, 0.005 * ns, "pid 4711 stress-ng");
	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_THROTTLING, 37 % script->nodes, 4, 6 * hour, 3 * hour,
			    0.14),
		"throttled", "ns", 0.25 * ns, 0, NULL);
	f = script_slow(
		script, FINDING_SLOW_COMMUNICATION, CAUSE_NODE, 80 % script->nodes, -1, 9 * hour, 90 * minute, 0.09);
	snprintf(f->host, sizeof(f->host), "%.40s%03u", script->host, 80 % script->nodes);
	snprintf(f->communicator, sizeof(f->communicator), "2258c19d731308eb");
	finding_add(f, "transfer", "ns", 41e6, 12e6, "before");
	f = script_slow(
		script, FINDING_SLOW_COMMUNICATION, CAUSE_LINK, 100 % script->nodes, 1, 4 * hour, 50 * minute, 0.05);
	snprintf(f->communicator, sizeof(f->communicator), "91f02c19d731aa07");
	finding_add(f, "transfer", "ns", 22e6, 12e6, "others of its kind");
	finding_add(script_slow(script, FINDING_SLOW_JOB, CAUSE_UNKNOWN, 0, -1, 17 * hour, 70 * minute, 0.16),
		"step_time", "ns", 1.16 * ns, ns, NULL);
	finding_add(script_slow(script, FINDING_HANG, CAUSE_MISSING, 112 % script->nodes, 5, 11 * hour, 12 * minute, 0),
		"waiting", "1", script_world(script) - 1, NAN, "AllReduce 118");
	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_GARBAGE_COLLECTION, 2 % script->nodes, 4, 2 * hour,
			    30 * minute, 0.07),
		"gc", "ns", 0.07 * ns, 0.001 * ns, NULL);
	finding_add(script_slow(script, FINDING_SLOW_RANK, CAUSE_FAULTS, 91 % script->nodes, 6, 16 * hour, 25 * minute,
			    0.12),
		"major_faults", "1", 24000, 3, NULL);
	finding_add(
		script_slow(script, FINDING_SLOW_RANK, CAUSE_DATALOADER, 64 % script->nodes, 1, 90 * minute, 0, 0.08),
		"dataloader", "ns", 0.14 * ns, 0.06 * ns, NULL);
	finding_add(script_slow(script, FINDING_IMBALANCE, CAUSE_STAGE, 0, -1, 23 * hour, 0, 0.06), "stage", "1", 3,
		NAN, "stage 3 of 8");
}

/* A rank that loads data slowly, of the node's card 2. */
static inline struct finding *script_loads(struct script *script, uint64_t ago_ns, uint64_t lasted_ns, double slow)
{
	double ns = (double)script->step_ns;
	struct finding *f = script_slow(script, FINDING_SLOW_RANK, CAUSE_DATALOADER, 0, 2, ago_ns, lasted_ns, slow);

	f->activity = ACTIVITY_DATALOADER;
	f->side = FINDING_SIDE_HOST;
	finding_add(f, "dataloader", "ns", (0.06 + slow) * ns, 0.06 * ns, NULL);
	return f;
}

/* Faults that recur, one that is short each time, a hang of a rank, and a slow job. */
static inline void script_recurring(struct script *script)
{
	uint64_t minute = SCRIPT_HOUR / 60;

	for (uint64_t i = 0; i < 6; i++)
		script_loads(script, (20 - 3 * i) * SCRIPT_HOUR, (10 + 5 * i) * minute, 0.2 + 0.1 * (double)i);
	for (uint64_t i = 0; i < 5; i++) {
		struct finding *f = script_slow(script, FINDING_SLOW_RANK, CAUSE_UNKNOWN, 0, 0,
			(22 - 4 * i) * SCRIPT_HOUR, 20 * SCRIPT_SECOND, 0.1);

		f->activity = ACTIVITY_OUTSIDE;
		f->severity = SEVERITY_INFO;
	}
	finding_add(script_slow(script, FINDING_HANG, CAUSE_MISSING, 0, 1, 15 * SCRIPT_HOUR, 15 * minute, 0), "waiting",
		"1", script_world(script) - 1, NAN, "AllReduce 118");
	finding_add(script_slow(script, FINDING_SLOW_JOB, CAUSE_UNKNOWN, 0, -1, 100 * minute, 20 * minute, 0.2),
		"step_time", "ns", 1.2 * (double)script->step_ns, (double)script->step_ns, NULL);
}

#endif
