/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding in one sentence: who, how much, since when, why, who else is affected, and the cost. Unknown parts are left
 * out. Suspicions are marked as such.
 */
#include "analyzers/finding/finding.h"

#include "analyzers/base/text.h"
#include "analyzers/memory/memory.h"

#include <math.h>
#include <string.h>

#define NAME_BYTES 48

struct sentence {
	struct text text;
	const struct finding *finding;
	bool past, alone; /* over; of one rank */
};

static const struct finding_evidence *sentence_evidence(const struct finding *finding, const char *name)
{
	for (size_t i = 0; name && i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		if (strcmp(finding->evidence[i].name, name) == 0)
			return &finding->evidence[i];
	}
	return NULL;
}

static const char *sentence_detail(const struct finding *finding, const char *name)
{
	const struct finding_evidence *evidence = sentence_evidence(finding, name);

	return evidence ? evidence->detail : "";
}

/* "; peers 12 ms"; of a job, or where a rank's peers are no comparison, "; 12 ms before". */
static void sentence_peers(struct sentence *sentence, const struct finding_evidence *evidence)
{
	bool before = !sentence->alone || finding_is_before(evidence);

	if (!isfinite(evidence->peers))
		return;
	text_add(&sentence->text, before ? "; " : "; peers ");
	text_value(&sentence->text, evidence->peers, evidence->unit);
	text_add(&sentence->text, "%s", before ? " before" : "");
}

/* One of "$a$v$p$d$b" of causes.def. */
static void sentence_measure(struct sentence *sentence, char field, const struct finding_evidence *evidence)
{
	if (field == 'a') {
		const char *title = activity_title(sentence->finding->activity);

		text_add(&sentence->text, "%s", title[0] ? title : "compute");
	} else if (field == 'v') {
		text_value(&sentence->text, evidence->value, evidence->unit);
	} else if (field == 'p') {
		sentence_peers(sentence, evidence);
	} else if (evidence->detail[0] && !finding_is_before(evidence)) {
		text_add(&sentence->text, field == 'd' ? " (" : " by ");
		text_name(&sentence->text, evidence->detail, sizeof(evidence->detail));
		text_add(&sentence->text, "%s", field == 'd' ? ")" : "");
	}
}

/* Fills a clause of causes.def. evidence may be NULL where the clause names no measure. */
static void sentence_clause(struct sentence *sentence, const char *clause, const struct finding_evidence *evidence)
{
	bool inside = false, second = false;

	for (; *clause; clause++) {
		if (*clause == '{' || *clause == '|' || *clause == '}') {
			second = *clause == '|';
			inside = *clause != '}';
		} else if (inside && second != sentence->past) {
			continue;
		} else if (*clause != '$') {
			text_add(&sentence->text, "%c", *clause);
		} else if (*++clause && evidence) {
			sentence_measure(sentence, *clause, evidence);
		}
	}
}

static void sentence_others(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	bool more = strpbrk(finding->others, ",-") != NULL;

	if (finding->rank < 0 || !finding->others[0])
		return;
	text_add(&sentence->text, "; rank%s ", more ? "s" : "");
	text_name(&sentence->text, finding->others, sizeof(finding->others));
	text_add(&sentence->text, " %s affected too", sentence->past ? more ? "were" : "was" : more ? "are" : "is");
}

/* What shows the cause: named as its word, as its evidence, or self_time where it has none of its own. */
static const struct finding_evidence *sentence_cause_evidence(const struct finding *finding)
{
	const struct finding_cause_row *row = finding_cause_row(finding->cause);
	const char *names[] = {row->word, row->evidence[0] ? row->evidence : "self_time",
		row->evidence[0] ? NULL : activity_word(finding->activity)};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct finding_evidence *evidence = sentence_evidence(finding, names[i]);

		if (evidence && isfinite(evidence->value))
			return evidence;
	}
	return NULL;
}

/* ": " and why. */
static void sentence_cause(struct sentence *sentence)
{
	const struct finding_cause_row *row = finding_cause_row(sentence->finding->cause);
	const struct finding_evidence *evidence = sentence_cause_evidence(sentence->finding);

	text_add(&sentence->text, ": ");
	if (row->clause[0] && evidence)
		sentence_clause(sentence, row->clause, evidence);
	else
		text_add(&sentence->text, "%s", row->title);
}

/* " (2 before)", where that is known. */
static void sentence_before(struct sentence *sentence, const struct finding_evidence *evidence)
{
	if (!isfinite(evidence->peers))
		return;
	text_add(&sentence->text, " (");
	text_value(&sentence->text, evidence->peers, "");
	text_add(&sentence->text, " before)");
}

/* "; 42 device synchronizations per step (2 before)" */
static void sentence_syncs(struct sentence *sentence)
{
	const struct finding_evidence *syncs = sentence_evidence(sentence->finding, "synchronizations");

	if (!syncs || !isfinite(syncs->value))
		return;
	text_add(&sentence->text, "; ");
	text_value(&sentence->text, syncs->value, "");
	text_add(&sentence->text, " device synchronizations per step");
	sentence_before(sentence, syncs);
}

/* "; the kernel: reads of files (data/b) 31 % of the time (its peers 1 %)" */
static void sentence_system(struct sentence *sentence)
{
	const struct finding_evidence *peers = sentence_evidence(sentence->finding, "system"),
				      *system = peers ? peers : sentence_evidence(sentence->finding, "system_before");

	if (!system || !isfinite(system->value))
		return;
	text_add(&sentence->text, "; the kernel: ");
	text_name(&sentence->text, system->detail, sizeof(system->detail));
	text_add(&sentence->text, " %.0f %% of the time", system->value);
	if (isfinite(system->peers))
		text_add(&sentence->text, " (%s %.0f %%)", peers ? "its peers" : "before", system->peers);
}

/* "; the network: packets received and dropped (eth0) 340 a second (2 before)" */
static void sentence_network(struct sentence *sentence)
{
	const struct finding_evidence *network = sentence_evidence(sentence->finding, "network");

	if (!network || !isfinite(network->value))
		return;
	text_add(&sentence->text, "; the network: ");
	text_name(&sentence->text, network->detail, sizeof(network->detail));
	text_add(&sentence->text, " ");
	text_value(&sentence->text, network->value, "");
	text_add(&sentence->text, " a second");
	sentence_before(sentence, network);
}

/* "rank 3 (node-a, card 1)"; "ranks 3-7"; false: of no rank. */
static bool sentence_who(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;

	if (finding->rank < 0 && !finding->others[0])
		return false;
	if (finding->rank < 0) {
		text_add(&sentence->text, "ranks ");
		text_name(&sentence->text, finding->others, NAME_BYTES);
		return true;
	}
	text_add(&sentence->text, "rank %d", finding->rank);
	if (finding->host[0] || finding->card[0])
		text_add(&sentence->text, " (");
	text_name(&sentence->text, finding->host, NAME_BYTES);
	if (finding->card[0]) {
		text_add(&sentence->text, finding->host[0] ? ", card " : "card ");
		text_name(&sentence->text, finding->card, NAME_BYTES);
	}
	if (finding->host[0] || finding->card[0])
		text_add(&sentence->text, ")");
	return true;
}

/* 0 if unknown. */
static uint64_t sentence_lasted_ns(const struct finding *finding)
{
	uint64_t end_ns = finding->until_ns ? finding->until_ns : finding->updated_ns;

	return finding->since_ns && end_ns > finding->since_ns ? end_ns - finding->since_ns : 0;
}

/* " for 31 s". */
static bool sentence_length(struct sentence *sentence)
{
	uint64_t lasted_ns = sentence_lasted_ns(sentence->finding);

	if (!lasted_ns)
		return false;
	text_add(&sentence->text, " for ");
	text_duration(&sentence->text, (double)lasted_ns);
	return true;
}

/* " since step 812"; past: " for 12 min, from step 812 to 1020". */
static void sentence_since(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	bool length = (sentence->past || !finding->since_step) && sentence_length(sentence);

	if (!finding->since_step)
		return;
	if (!sentence->past)
		text_add(&sentence->text, " since step %llu", (unsigned long long)finding->since_step);
	else if (finding->until_step > finding->since_step)
		text_add(&sentence->text, "%s from step %llu to %llu", length ? "," : "",
			(unsigned long long)finding->since_step, (unsigned long long)finding->until_step);
	else
		text_add(
			&sentence->text, "%s at step %llu", length ? "," : "", (unsigned long long)finding->since_step);
}

/* Percent above 1; 0 if unknown. */
static double sentence_percent(double ratio)
{
	return isfinite(ratio) && ratio > 1.005 && ratio < 1e6 ? (ratio - 1) * 100 : 0;
}

static double sentence_ratio(const struct finding_evidence *evidence)
{
	return evidence && evidence->peers > 0 ? evidence->value / evidence->peers : NAN;
}

static void sentence_slow_rank(struct sentence *sentence)
{
	static const char *const slows[FINDING_STATE_MAX] = {"may be slowing", "slows", "slowed", "may have slowed"};
	static const char *const slower[FINDING_STATE_MAX] = {
		"may be slower", "is slower", "was slower", "may have been slower"};
	const struct finding *finding = sentence->finding;

	if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	if (sentence_percent(finding->slowdown) > 0)
		text_add(&sentence->text, " %s its job by %.0f %%", slows[finding->state],
			sentence_percent(finding->slowdown));
	else
		text_add(&sentence->text, " %s than its peers", slower[finding->state]);
	sentence_since(sentence);
	sentence_cause(sentence);
	sentence_syncs(sentence);
	sentence_system(sentence);
	sentence_others(sentence);
}

static const char *const take[FINDING_STATE_MAX] = {"may take", "take", "took", "may have taken"};

static void sentence_slow_communication(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_evidence *transfer = sentence_evidence(finding, "transfer");
	double ratio = sentence_ratio(transfer);

	text_add(&sentence->text, "operations");
	if (finding->communicator[0]) {
		text_add(&sentence->text, " of communicator ");
		text_name(&sentence->text, finding->communicator, sizeof(finding->communicator));
	}
	if (isfinite(ratio) && ratio < 1e6)
		text_add(&sentence->text, " %s %.3g times as long as ", take[finding->state], ratio);
	else
		text_add(&sentence->text, " %s longer than ", take[finding->state]);
	text_name(&sentence->text, transfer && transfer->detail[0] ? transfer->detail : "before", NAME_BYTES);
	sentence_since(sentence);
	if (finding->cause == CAUSE_NODE && finding->host[0]) {
		text_add(&sentence->text, ": all slow operations involve ");
		text_name(&sentence->text, finding->host, NAME_BYTES);
	} else if (finding->cause == CAUSE_LINK) {
		text_add(&sentence->text, ": slow link between ");
		if (!sentence_who(sentence))
			text_add(&sentence->text, "two ranks");
		if (finding->rank >= 0 && finding->others[0]) {
			text_add(&sentence->text, " and rank ");
			text_name(&sentence->text, finding->others, NAME_BYTES);
		}
	}
	if (sentence_percent(finding->slowdown) > 0)
		text_add(&sentence->text, "; steps %s %.0f %% longer", take[finding->state],
			sentence_percent(finding->slowdown));
}

static void sentence_slow_job(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_evidence *step = sentence_evidence(finding, "step_time");

	text_add(&sentence->text, "steps %s ", take[finding->state]);
	if (sentence_percent(finding->slowdown) > 0)
		text_add(&sentence->text, "%.0f %% ", sentence_percent(finding->slowdown));
	text_add(&sentence->text, "longer");
	sentence_since(sentence);
	if (step && isfinite(step->peers)) {
		/* The worst moment; the percent is of the whole episode. */
		text_add(&sentence->text, " (up to ");
		text_value(&sentence->text, step->value, step->unit);
		text_add(&sentence->text, "; ");
		text_value(&sentence->text, step->peers, step->unit);
		text_add(&sentence->text, " before)");
	}
	if (finding->others[0]) {
		text_add(&sentence->text, ", mostly on ranks ");
		text_name(&sentence->text, finding->others, sizeof(finding->others));
	} else if (finding->tier != FRAME_TIER_STAGES) {
		text_add(&sentence->text, ", on all ranks");
	}
	sentence_cause(sentence);
}

static void sentence_hang_cause(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_cause_row *row = finding_cause_row(finding->cause);
	const char *state = sentence_detail(finding, "state"), *stage = sentence_detail(finding, "stage");

	if (!row->hang[0]) {
		sentence_cause(sentence);
		return;
	}
	text_add(&sentence->text, ": ");
	sentence_clause(sentence, row->hang, NULL);
	if (state[0]) {
		text_add(&sentence->text, " (state ");
		text_name(&sentence->text, state, 16);
		text_add(&sentence->text, ")");
	}
	if (stage[0] && strcmp(stage, row->word) != 0) {
		text_add(&sentence->text, ", in ");
		text_name(&sentence->text, stage, NAME_BYTES);
	}
}

static void sentence_waiting(struct sentence *sentence, const struct finding_evidence *waiting)
{
	const struct finding_evidence *seq = sentence_evidence(sentence->finding, "entered_seq");
	bool more = waiting->value >= 2, accused = sentence->alone || sentence->finding->others[0];

	text_add(&sentence->text, "; %.0f %srank%s %s", waiting->value, accused ? "other " : "", more ? "s" : "",
		sentence->past ? "waited"
		: more	       ? "wait"
			       : "waits");
	if (waiting->detail[0] && strcmp(waiting->detail, "no stage") != 0) {
		text_add(&sentence->text, " in ");
		text_name(&sentence->text, waiting->detail, sizeof(waiting->detail));
	}
	if (seq && seq->value >= 1 && seq->value < 1e15)
		text_add(&sentence->text, " for operation %.0f", seq->value);
}

static void sentence_hang(struct sentence *sentence)
{
	static const char *const one[] = {"may be blocking", "has blocked", "blocked", "may have blocked"};
	static const char *const more[] = {"may be blocking", "have blocked", "blocked", "may have blocked"};
	static const char *const job[] = {"may be hung", "has been hung", "was hung", "may have been hung"};
	const struct finding *finding = sentence->finding;
	const struct finding_evidence *waiting = sentence_evidence(finding, "waiting");

	if (sentence_who(sentence))
		text_add(&sentence->text, " %s the job",
			finding->rank >= 0 ? one[finding->state] : more[finding->state]);
	else
		text_add(&sentence->text, "the job %s",
			finding->state == FINDING_OPEN && !sentence_lasted_ns(finding) ? "is hung"
										       : job[finding->state]);
	sentence_length(sentence);
	sentence_hang_cause(sentence);
	if (waiting && waiting->value >= 1 && waiting->value < 1e7)
		sentence_waiting(sentence, waiting);
	sentence_others(sentence);
}

static void sentence_mismatch(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const char *what = sentence_detail(finding, "mismatch");

	if (!sentence_who(sentence))
		text_add(&sentence->text, "ranks");
	text_add(&sentence->text, " called %s than the others under one sequence number",
		finding->cause == CAUSE_SIZE_MISMATCH ? "an operation of another size" : "another operation");
	if (finding->communicator[0]) {
		text_add(&sentence->text, " of communicator ");
		text_name(&sentence->text, finding->communicator, sizeof(finding->communicator));
	}
	if (what[0]) {
		text_add(&sentence->text, ": ");
		/* Shows where it was cut. */
		text_name(&sentence->text, what, 60);
	}
}

static void sentence_leak(struct sentence *sentence)
{
	const struct finding_evidence *growth = sentence_evidence(sentence->finding, "memory_growth"),
				      *hourly = sentence_evidence(sentence->finding, "memory_hourly");
	const char *place = sentence_detail(sentence->finding, "stack");

	if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	text_add(&sentence->text, sentence->past ? " leaked memory" : " leaks memory");
	if (growth && growth->detail[0]) {
		text_add(&sentence->text, " of ");
		text_name(&sentence->text, growth->detail, NAME_BYTES);
	}
	sentence_since(sentence);
	if (growth && hourly) {
		text_add(&sentence->text, ": what is allocated between steps %s by ",
			sentence->past ? "grew" : "has grown");
		text_bytes(&sentence->text, growth->value);
		text_add(&sentence->text, ", ");
		text_bytes(&sentence->text, hourly->value);
		text_add(&sentence->text, " an hour");
	}
	if (place[0]) {
		text_add(&sentence->text, sentence->past ? "; most of it was held by " : "; most of it is held by ");
		text_name(&sentence->text, place, sizeof(sentence->finding->evidence->detail));
	}
}

/* "; a leak has filled the pool"; nothing where a step needs more than there is, or the cause is not known. */
static void sentence_memory_why(struct sentence *sentence)
{
	static const char *const clauses[MEMORY_CAUSE_MAX] = {
		[MEMORY_FRAGMENTED] = "; the pool has enough, but in pieces",
		[MEMORY_LEAKED] = "; a leak has filled the pool",
	};
	const char *why = sentence_detail(sentence->finding, "memory_why");
	const struct finding_evidence *others = sentence_evidence(sentence->finding, "memory_others");

	for (enum memory_cause cause = 0; cause < MEMORY_CAUSE_MAX; cause++)
		if (clauses[cause] && strcmp(why, memory_cause_word(cause)) == 0)
			text_add(&sentence->text, "%s", clauses[cause]);
	if (others && strcmp(why, memory_cause_word(MEMORY_NEIGHBOUR)) == 0) {
		text_add(&sentence->text, "; other processes hold ");
		text_bytes(&sentence->text, others->value);
		text_add(&sentence->text, " of the card");
	}
}

static void sentence_device_memory(struct sentence *sentence)
{
	const struct finding_evidence *asked = sentence_evidence(sentence->finding, "memory_asked"),
				      *allocated = sentence_evidence(sentence->finding, "memory_allocated"),
				      *reserved = sentence_evidence(sentence->finding, "memory_reserved");
	const char *place = sentence_detail(sentence->finding, "stack");

	if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	text_add(&sentence->text, " ran out of memory");
	if (asked && asked->detail[0]) {
		text_add(&sentence->text, " of ");
		text_name(&sentence->text, asked->detail, NAME_BYTES);
	}
	if (place[0]) {
		text_add(&sentence->text, " in ");
		text_name(&sentence->text, place, sizeof(sentence->finding->evidence->detail));
	}
	if (asked && allocated) {
		text_add(&sentence->text, ": ");
		text_bytes(&sentence->text, asked->value);
		text_add(&sentence->text, " asked for, ");
		text_bytes(&sentence->text, allocated->value);
		text_add(&sentence->text, " allocated");
	}
	if (reserved) {
		text_add(&sentence->text, ", ");
		text_bytes(&sentence->text, reserved->value);
		text_add(&sentence->text, " reserved");
	}
	sentence_memory_why(sentence);
}

static void sentence_memory_calls(struct sentence *sentence)
{
	const struct finding_evidence *calls = sentence_evidence(sentence->finding, "memory_calls");
	const char *place = sentence_detail(sentence->finding, "stack");

	if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	text_add(&sentence->text, sentence->past ? " gave back device memory and took it again"
						 : " gives back device memory and takes it again");
	sentence_since(sentence);
	if (calls)
		text_add(&sentence->text, ": the calls %s %.2g %% of its time", sentence->past ? "took" : "take",
			calls->value);
	if (place[0]) {
		text_add(&sentence->text, ", the longest in ");
		text_name(&sentence->text, place, sizeof(sentence->finding->evidence->detail));
	}
}

static void sentence_memory(struct sentence *sentence)
{
	if (sentence->finding->cause == CAUSE_DEVICE_MEMORY)
		sentence_device_memory(sentence);
	else if (sentence->finding->cause == CAUSE_MEMORY_CALLS)
		sentence_memory_calls(sentence);
	else
		sentence_leak(sentence);
}

static void sentence_imbalance(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_evidence *stage = sentence_evidence(finding, "stage"),
				      *self = sentence_evidence(finding, "self_time");
	double more = sentence_percent(sentence_ratio(self));

	if (finding->cause == CAUSE_STAGE) {
		if (stage && stage->value >= 0 && stage->value < 1e6)
			text_add(&sentence->text, "pipeline stage %.0f", stage->value);
		else
			text_add(&sentence->text, "one pipeline stage");
		if (finding->others[0]) {
			text_add(&sentence->text, " (ranks ");
			text_name(&sentence->text, finding->others, NAME_BYTES);
			text_add(&sentence->text, ")");
		}
		text_add(&sentence->text, sentence->past ? " took " : " takes ");
		if (more > 0 || sentence_percent(finding->slowdown) > 0)
			text_add(&sentence->text, "%.0f %% ", more > 0 ? more : sentence_percent(finding->slowdown));
		text_add(&sentence->text, "longer than the others");
	} else {
		text_add(&sentence->text,
			"work %s divided unevenly between ranks: the slowest rank %s from step to step",
			sentence->past ? "was" : "is", sentence->past ? "changed" : "changes");
		if (sentence_percent(finding->slowdown) > 0)
			text_add(&sentence->text, ", and steps %s %.0f %% longer", take[finding->state],
				sentence_percent(finding->slowdown));
	}
	text_add(&sentence->text, "; no hardware fault");
}

/* "card 3 of node-a (rank 3) has fallen off the bus ..." */
static void sentence_hardware(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_cause_row *row = finding_cause_row(finding->cause);
	const struct finding_evidence *evidence = sentence_cause_evidence(finding);

	text_add(&sentence->text, finding->cause == CAUSE_PORT ? "network port " : "card ");
	text_name(&sentence->text, finding->card[0] ? finding->card : "unknown", NAME_BYTES);
	if (finding->host[0]) {
		text_add(&sentence->text, " of ");
		text_name(&sentence->text, finding->host, NAME_BYTES);
	}
	if (finding->rank >= 0)
		text_add(&sentence->text, " (rank %d)", finding->rank);
	else if (finding->others[0]) {
		text_add(&sentence->text, " (ranks ");
		text_name(&sentence->text, finding->others, NAME_BYTES);
		text_add(&sentence->text, ")");
	}
	text_add(&sentence->text, " ");
	if (row->clause[0] && evidence)
		sentence_clause(sentence, row->clause, evidence);
	else
		text_add(&sentence->text, "reports: %s", row->title);
}

/* "2.1", "166": of a CPU it may be more than 100. */
static void sentence_share(struct sentence *sentence, double percent)
{
	text_add(&sentence->text, percent < 10 ? "%.2g %%" : "%.0f %%", percent);
}

/* "probes take up to 2.1 % of the time of rank 3 (node-a) for 10 min, more than the budget of 0.5 %: 1.9 % by L0",
 * "ranktraced takes up to 1.9 % of a CPU of node-a for 10 min, more than the budget of 1 %: 0.8 % by L3" */
/* "140 MiB of memory of node-a ..., more than the budget of 128 MiB" */
static void sentence_overhead_memory(
	struct sentence *sentence, const struct finding_evidence *memory, const struct finding_evidence *budget)
{
	text_add(&sentence->text, "ranktraced %s up to ", sentence->past ? "had" : "has");
	text_value(&sentence->text, memory->value, memory->unit);
	text_add(&sentence->text, " of memory of ");
	text_name(&sentence->text, sentence->finding->host[0] ? sentence->finding->host : "a node", NAME_BYTES);
	sentence_since(sentence);
	if (!budget)
		return;
	text_add(&sentence->text, ", more than the budget of ");
	text_value(&sentence->text, budget->value, budget->unit);
}

static void sentence_overhead(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	bool daemon = finding->cause == CAUSE_DAEMON;
	const struct finding_evidence *share = sentence_evidence(finding, daemon ? "daemon" : "probes"),
				      *level = sentence_evidence(finding, "level"),
				      *budget = sentence_evidence(finding, "budget");

	if (daemon && share && strcmp(share->unit, "bytes") == 0) {
		sentence_overhead_memory(sentence, share, budget);
		return;
	}
	text_add(&sentence->text, daemon ? "ranktraced %s " : "probes %s ",
		sentence->past ? "took"
		: daemon       ? "takes"
			       : "take");
	if (share) {
		text_add(&sentence->text, "up to ");
		sentence_share(sentence, share->value);
	}
	text_add(&sentence->text, !share ? "too much time of " : daemon ? " of a CPU of " : " of the time of ");
	if (daemon)
		text_name(&sentence->text, finding->host[0] ? finding->host : "a node", NAME_BYTES);
	else if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	sentence_since(sentence);
	if (budget)
		text_add(&sentence->text, ", more than the budget of %.2g %%", budget->value);
	/* What takes little of the excess is not its reason. */
	if (share && share->detail[0] && level && budget && level->value >= (share->value - budget->value) / 2) {
		text_add(&sentence->text, ": ");
		sentence_share(sentence, level->value);
		text_add(&sentence->text, " by ");
		text_name(&sentence->text, share->detail, NAME_BYTES);
	}
}

static void sentence_crash(struct sentence *sentence)
{
	const char *how = sentence_detail(sentence->finding, "end"),
		   *place = sentence_detail(sentence->finding, "stack");

	if (!sentence_who(sentence))
		text_add(&sentence->text, "a rank");
	text_add(&sentence->text, " ended with an error");
	if (how[0]) {
		text_add(&sentence->text, ": ");
		text_name(&sentence->text, how, sizeof(sentence->finding->evidence->detail));
	}
	if (place[0]) {
		text_add(&sentence->text, " in ");
		text_name(&sentence->text, place, sizeof(sentence->finding->evidence->detail));
	}
}

static void sentence_cost(struct sentence *sentence)
{
	double hours = sentence->finding->cost_card_hours;
	const char *end = sentence->past ? "" : " so far";

	if (!(hours * 60 >= 1) || hours > 1e9)
		return;
	if (hours * 60 < 10)
		text_add(&sentence->text, "; %.0f card-minute%s lost%s", hours * 60, hours * 60 < 1.5 ? "" : "s", end);
	else
		text_add(&sentence->text, hours < 9.95 ? "; %.1f card-hours lost%s" : "; %.0f card-hours lost%s", hours,
			end);
}

static void sentence_end(struct sentence *sentence)
{
	const struct finding *finding = sentence->finding;
	const struct finding_evidence *returns = sentence_evidence(finding, "returns");
	const char *by = sentence_detail(finding, "explained");

	if (returns && returns->value >= 1 && returns->value < 1e6)
		text_add(&sentence->text, "; recurred %.0f time%s", returns->value, returns->value >= 2 ? "s" : "");
	if (by[0]) {
		text_add(&sentence->text, "; explained by ");
		text_name(&sentence->text, by, 64);
	} else if (finding->state == FINDING_DROPPED) {
		text_add(&sentence->text, "; not confirmed");
	}
}

static struct sentence sentence_of(const struct finding *finding)
{
	return (struct sentence){.finding = finding,
		.past = finding->state == FINDING_CLOSED || finding->state == FINDING_DROPPED,
		.alone = finding->rank >= 0};
}

void finding_write_sentence(struct finding *finding)
{
	static void (*const write[])(struct sentence *) = {
#define FINDING_KIND(id, word, method, title) [FINDING_##id] = sentence_##word,
#include "analyzers/finding/kinds.def"
#undef FINDING_KIND
	};
	struct sentence sentence = sentence_of(finding);

	text_begin(&sentence.text, finding->sentence, sizeof(finding->sentence));
	if ((size_t)finding->kind >= FINDING_KIND_MAX || (size_t)finding->cause >= CAUSE_MAX ||
		(size_t)finding->state >= FINDING_STATE_MAX)
		return;
	write[finding->kind](&sentence);
	sentence_network(&sentence);
	sentence_cost(&sentence);
	sentence_end(&sentence);
	text_end(&sentence.text);
}

void finding_write_cause(const struct finding *finding, char *ret, size_t size)
{
	const struct finding_cause_row *row = finding_cause_row(finding->cause);
	struct sentence sentence = sentence_of(finding);

	text_begin(&sentence.text, ret, size);
	sentence_clause(&sentence, finding->kind == FINDING_HANG && row->hang[0] ? row->hang : row->title, NULL);
	text_end(&sentence.text);
}
