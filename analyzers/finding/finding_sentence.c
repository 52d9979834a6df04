/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding in one sentence: who and how much and since when, why, what else it concerns, and what it cost. Tables of
 * kinds and of causes; what is not known is not said. What was seen from stages alone, or is only suspected, is said as
 * such.
 */
#include "analyzers/finding/finding.h"

#include "analyzers/base/text.h"

#include <math.h>
#include <string.h>

#define NAME_BYTES 48

struct telling {
	struct text text;
	const struct finding *finding;
	bool past, alone; /* over; of one rank */
};

static const struct finding_evidence *finding_sentence_evidence_of(const struct finding *finding, const char *name)
{
	for (size_t i = 0; name && i < finding->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		if (strcmp(finding->evidence[i].name, name) == 0)
			return &finding->evidence[i];
	}
	return NULL;
}

static const char *detail_of(const struct finding *finding, const char *name)
{
	const struct finding_evidence *evidence = finding_sentence_evidence_of(finding, name);

	return evidence ? evidence->detail : "";
}

/* "$v" value, "$p" what its peers' is, "$f" for how long its peers, "$d" the detail, "$i" its; "{now|then}". */
static void finding_sentence_fill(struct telling *telling, const char *form, const struct finding_evidence *evidence)
{
	const char *peers = telling->alone ? (strstr(form, "$f") ? ", its peers for " : ", its peers' ") : ", ";
	bool inside = false, second = false;

	for (; *form; form++) {
		if (*form == '{' || *form == '|' || *form == '}') {
			second = *form == '|';
			inside = *form != '}';
		} else if (inside && second != telling->past) {
			continue;
		} else if (*form != '$') {
			text_add(&telling->text, "%c", *form);
		} else if (*++form == 'v') {
			text_value(&telling->text, evidence->value, evidence->unit);
		} else if ((*form == 'p' || *form == 'f') && isfinite(evidence->peers)) {
			text_add(&telling->text, "%s", peers);
			text_value(&telling->text, evidence->peers, evidence->unit);
			text_add(&telling->text, "%s", telling->alone ? "" : " before");
		} else if (*form == 'd' && evidence->detail[0]) {
			text_add(&telling->text, " (");
			text_name(&telling->text, evidence->detail, sizeof(evidence->detail));
			text_add(&telling->text, ")");
		} else if (*form == 'i' && telling->alone) {
			text_add(&telling->text, "its ");
		}
	}
}

/* How evidence of a cause is told, by the first name that there is evidence of. */
struct clause {
	const char *evidence[3];
	const char *form;
	const char *of_job; /* NULL: the same of all ranks alike */
};

static const struct clause clauses[CAUSE_MAX] = {
	[CAUSE_UNKNOWN] = {.evidence = {"self_time"},
		.form = "what it does itself {takes|took} $v a step$p; why is not seen"},
	[CAUSE_COMPUTE] = {.evidence = {"compute", "self_time"}, .form = "$icomputing {takes|took} $v a step$p$d"},
	[CAUSE_HOST] = {.evidence = {"host", "self_time"}, .form = "$iwork on the host {takes|took} $v a step$p$d"},
	[CAUSE_PREEMPTION] = {.evidence = {"preemption", "run_delay"},
		.form = "others$d {have|had} its CPUs while it {is|was} ready to run, for $v a step$f",
		.of_job = "others$d {have|had} the ranks' CPUs while they {are|were} ready to run, for $v a step$f"},
	[CAUSE_THROTTLING] = {.evidence = {"throttling", "throttled"},
		.form = "the CPU limit of its control group {holds|held} it back for $v a step$f",
		.of_job = "CPU limits of control groups {hold|held} the ranks back for $v a step$f"},
	[CAUSE_GARBAGE_COLLECTION] = {.evidence = {"garbage_collection", "gc"},
		.form = "Python's garbage collection {takes|took} $v a step$p"},
	[CAUSE_LAUNCH] = {.evidence = {"launch", "launch_gap"},
		.form = "$ikernel launches {leave|left} its device without work for up to $v$f"},
	[CAUSE_FAULTS] = {.evidence = {"page_faults", "major_faults"},
		.form = "page faults that {read|read} from a disk: $v a step$p"},
	[CAUSE_DATALOADER] = {.evidence = {"dataloader"}, .form = "$idata loading {takes|took} $v a step$p$d"},
	[CAUSE_CHECKPOINT] = {.evidence = {"checkpoint"}, .form = "$icheckpoints {take|took} $v a step$p$d"},
	[CAUSE_COMMUNICATION] = {.evidence = {"communication", "transfer"}, .form = "$ioperations {take|took} $v$p$d"},
};

static void finding_sentence_tell_others(struct telling *telling)
{
	const struct finding *finding = telling->finding;

	if (finding->rank < 0 || !finding->others[0])
		return;
	text_add(&telling->text, "; so it is with rank%s ", strpbrk(finding->others, ",-") ? "s" : "");
	text_name(&telling->text, finding->others, sizeof(finding->others));
}

/* ": " and why; nothing where there is nothing to say. */
static void tell_cause(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct clause *clause = &clauses[finding->cause];

	for (size_t i = 0; clause->form && i < sizeof(clause->evidence) / sizeof(clause->evidence[0]); i++) {
		const struct finding_evidence *evidence = finding_sentence_evidence_of(finding, clause->evidence[i]);

		if (!evidence || !isfinite(evidence->value))
			continue;
		text_add(&telling->text, ": ");
		finding_sentence_fill(telling, !telling->alone && clause->of_job ? clause->of_job : clause->form, evidence);
		return;
	}
	if (finding->cause == CAUSE_UNKNOWN)
		text_add(&telling->text, ": why is not seen");
	else
		text_add(&telling->text, ": the cause %s %s", telling->past ? "was" : "is",
			finding_cause_text(finding->cause));
}

/* "rank 3 (node-a, card 1)"; "ranks 3-7"; "" if of none. */
static bool tell_who(struct telling *telling)
{
	const struct finding *finding = telling->finding;

	if (finding->rank < 0 && !finding->others[0])
		return false;
	if (finding->rank < 0) {
		text_add(&telling->text, "ranks ");
		text_name(&telling->text, finding->others, NAME_BYTES);
		return true;
	}
	text_add(&telling->text, "rank %d", finding->rank);
	if (finding->host[0] || finding->card[0])
		text_add(&telling->text, " (");
	text_name(&telling->text, finding->host, NAME_BYTES);
	if (finding->card[0]) {
		text_add(&telling->text, finding->host[0] ? ", card " : "card ");
		text_name(&telling->text, finding->card, NAME_BYTES);
	}
	if (finding->host[0] || finding->card[0])
		text_add(&telling->text, ")");
	return true;
}

/* How long it has been so, or was. */
static bool tell_length(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	uint64_t end = finding->until_ns ? finding->until_ns : finding->told_ns;

	if (!finding->since_ns || end <= finding->since_ns)
		return false;
	text_add(&telling->text, " for ");
	text_duration(&telling->text, (double)(end - finding->since_ns));
	return true;
}

/* " since step 812"; of what is over " for 12 min, from step 812 to 1020". */
static void tell_since(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	bool length = (telling->past || !finding->since_step) && tell_length(telling);

	if (!finding->since_step)
		return;
	if (!telling->past)
		text_add(&telling->text, " since step %llu", (unsigned long long)finding->since_step);
	else if (finding->until_step > finding->since_step)
		text_add(&telling->text, "%s from step %llu to %llu", length ? "," : "",
			(unsigned long long)finding->since_step, (unsigned long long)finding->until_step);
	else
		text_add(&telling->text, "%s at step %llu", length ? "," : "", (unsigned long long)finding->since_step);
}

/* Percent above 1; 0 where that cannot be told. */
static double percent(double ratio)
{
	return isfinite(ratio) && ratio > 1.005 && ratio < 1e6 ? (ratio - 1) * 100 : 0;
}

static double ratio_of(const struct finding_evidence *evidence)
{
	return evidence && evidence->peers > 0 ? evidence->value / evidence->peers : NAN;
}

static void tell_slow_rank(struct telling *telling)
{
	static const char *const slows[FINDING_STATE_MAX][2] = {
		[FINDING_SUSPECTED] = {"may be slowing", "may be slowing"},
		[FINDING_OPEN] = {"slows", "seems to slow"},
		[FINDING_CLOSED] = {"slowed", "seems to have slowed"},
		[FINDING_DROPPED] = {"may have slowed", "may have slowed"},
	};
	static const char *const slower[FINDING_STATE_MAX] = {
		"may be slower", "is slower", "was slower", "may have been slower"};
	const struct finding *finding = telling->finding;
	bool stages = finding->tier == FRAME_TIER_STAGES;

	if (!tell_who(telling))
		text_add(&telling->text, "a rank");
	if (percent(finding->slowdown) > 0)
		text_add(&telling->text, " %s its job by %s%.0f %%", slows[finding->state][stages],
			stages ? "about " : "", percent(finding->slowdown));
	else
		text_add(&telling->text, " %s than its peers", slower[finding->state]);
	tell_since(telling);
	if (stages)
		text_add(&telling->text, ", judged by stages alone");
	tell_cause(telling);
	finding_sentence_tell_others(telling);
}

static const char *const take[FINDING_STATE_MAX] = {"may take", "take", "took", "may have taken"};

static void tell_slow_communication(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct finding_evidence *transfer = finding_sentence_evidence_of(finding, "transfer");
	double ratio = ratio_of(transfer);

	text_add(&telling->text, "operations");
	if (finding->communicator[0]) {
		text_add(&telling->text, " of communicator ");
		text_name(&telling->text, finding->communicator, sizeof(finding->communicator));
	}
	if (isfinite(ratio) && ratio < 1e6)
		text_add(&telling->text, " %s %.3g times as long as ", take[finding->state], ratio);
	else
		text_add(&telling->text, " %s longer than ", take[finding->state]);
	text_name(&telling->text, transfer && transfer->detail[0] ? transfer->detail : "before", NAME_BYTES);
	tell_since(telling);
	if (finding->cause == CAUSE_NODE && finding->host[0]) {
		text_add(&telling->text, ": all slow ones have ");
		text_name(&telling->text, finding->host, NAME_BYTES);
		text_add(&telling->text, " in common");
	} else if (finding->cause == CAUSE_LINK) {
		text_add(&telling->text, ": the link of ");
		if (!tell_who(telling))
			text_add(&telling->text, "two ranks");
		if (finding->rank >= 0 && finding->others[0]) {
			text_add(&telling->text, " and rank ");
			text_name(&telling->text, finding->others, NAME_BYTES);
		}
	}
	if (percent(finding->slowdown) > 0)
		text_add(&telling->text, "; steps %s %.0f %% longer for it", take[finding->state],
			percent(finding->slowdown));
}

static void tell_slow_job(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct finding_evidence *step = finding_sentence_evidence_of(finding, "step_time");

	text_add(&telling->text, "steps %s ", take[finding->state]);
	if (percent(finding->slowdown) > 0)
		text_add(&telling->text, "%.0f %% ", percent(finding->slowdown));
	text_add(&telling->text, "longer");
	tell_since(telling);
	if (step && isfinite(step->peers)) {
		text_add(&telling->text, " (");
		text_value(&telling->text, step->value, step->unit);
		text_add(&telling->text, ", ");
		text_value(&telling->text, step->peers, step->unit);
		text_add(&telling->text, " before)");
	}
	if (finding->others[0]) {
		text_add(&telling->text, ", most on ranks ");
		text_name(&telling->text, finding->others, sizeof(finding->others));
	} else if (finding->tier != FRAME_TIER_STAGES) {
		text_add(&telling->text, ", on all ranks alike");
	}
	tell_cause(telling);
}

/* Of one rank, and of several. */
struct why {
	const char *one, *one_past, *more, *more_past;
};

/* clang-format off */
static const struct why hang_why[CAUSE_MAX] = {
	[CAUSE_STOPPED] = {"its process is stopped", "its process was stopped", "their processes are stopped", "their processes were stopped"},
	[CAUSE_ENDED] = {"its process has ended", "its process had ended", "their processes have ended", "their processes had ended"},
	[CAUSE_MISSING] = {"it has not come to the operation that the others wait in", "it came late to the operation that the others waited in",
		"they have not come to the operation that the others wait in", "they came late to the operation that the others waited in"},
	[CAUSE_COMMUNICATION] = {"it has come to the operation as all have, and it does not complete", "all had come to the operation, and it did not complete",
		"all have come to the operation, and it does not complete", "all had come to the operation, and it did not complete"},
	[CAUSE_CHECKPOINT] = {"it is in a checkpoint", "it was in a checkpoint", "they are in a checkpoint", "they were in a checkpoint"},
	[CAUSE_DATALOADER] = {"it waits for data", "it waited for data", "they wait for data", "they waited for data"},
	[CAUSE_COMPUTE] = {"it computes, or waits for its device", "it computed, or waited for its device",
		"they compute, or wait for their devices", "they computed, or waited for their devices"},
};
/* clang-format on */

static void tell_hang_why(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct why *row = &hang_why[finding->cause];
	const char *now = telling->alone ? row->one : row->more,
		   *then = telling->alone ? row->one_past : row->more_past;
	const char *state = detail_of(finding, "state"), *stage = detail_of(finding, "stage");

	if (now) {
		text_add(&telling->text, ": %s", telling->past ? then : now);
		if (state[0]) {
			text_add(&telling->text, " (state ");
			text_name(&telling->text, state, 16);
			text_add(&telling->text, ")");
		}
		if (stage[0] && strcmp(stage, finding_cause_word(finding->cause)) != 0) {
			text_add(&telling->text, ", in ");
			text_name(&telling->text, stage, NAME_BYTES);
		}
	} else {
		tell_cause(telling);
	}
}

static void tell_waiting(struct telling *telling, const struct finding_evidence *waiting)
{
	const struct finding_evidence *seq = finding_sentence_evidence_of(telling->finding, "entered_seq");
	bool more = waiting->value >= 2, accused = telling->alone || telling->finding->others[0];

	text_add(&telling->text, "; %.0f %s%s %s", waiting->value, accused ? "other" : "rank", more ? "s" : "",
		telling->past ? "waited"
		: more	      ? "wait"
			      : "waits");
	if (waiting->detail[0] && strcmp(waiting->detail, "no stage") != 0) {
		text_add(&telling->text, " in ");
		text_name(&telling->text, waiting->detail, sizeof(waiting->detail));
	}
	if (seq && seq->value >= 1 && seq->value < 1e15)
		text_add(&telling->text, ", for operation %.0f", seq->value);
}

static void tell_hang(struct telling *telling)
{
	static const char *const one[] = {"may have stopped", "has stopped", "stopped", "may have stopped"};
	static const char *const more[] = {"may have stopped", "have stopped", "stopped", "may have stopped"};
	static const char *const job[] = {"may stand still", "has stood still", "stood still", "may have stood still"};
	const struct finding *finding = telling->finding;
	const struct finding_evidence *waiting = finding_sentence_evidence_of(finding, "waiting");

	if (tell_who(telling))
		text_add(
			&telling->text, " %s the job", finding->rank >= 0 ? one[finding->state] : more[finding->state]);
	else
		text_add(&telling->text, "the job %s", job[finding->state]);
	tell_length(telling);
	tell_hang_why(telling);
	if (waiting && waiting->value >= 1 && waiting->value < 1e7)
		tell_waiting(telling, waiting);
	finding_sentence_tell_others(telling);
}

static void tell_mismatch(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const char *what = detail_of(finding, "mismatch");

	if (!tell_who(telling))
		text_add(&telling->text, "ranks");
	text_add(&telling->text, " called %s than the others under one number",
		finding->cause == CAUSE_SIZE_MISMATCH ? "an operation of another size" : "another operation");
	if (finding->communicator[0]) {
		text_add(&telling->text, " of communicator ");
		text_name(&telling->text, finding->communicator, sizeof(finding->communicator));
	}
	if (what[0]) {
		text_add(&telling->text, ": ");
		/* Where it was cut, that is to be seen. */
		text_name(&telling->text, what, 60);
	}
}

static void tell_imbalance(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct finding_evidence *stage = finding_sentence_evidence_of(finding, "stage"), *self = finding_sentence_evidence_of(finding, "self_time");
	double more = percent(ratio_of(self));

	if (finding->cause == CAUSE_STAGE) {
		if (stage && stage->value >= 0 && stage->value < 1e6)
			text_add(&telling->text, "pipeline stage %.0f", stage->value);
		else
			text_add(&telling->text, "one pipeline stage");
		if (finding->others[0]) {
			text_add(&telling->text, " (ranks ");
			text_name(&telling->text, finding->others, NAME_BYTES);
			text_add(&telling->text, ")");
		}
		text_add(&telling->text, telling->past ? " took " : " takes ");
		if (more > 0 || percent(finding->slowdown) > 0)
			text_add(&telling->text, "%.0f %% ", more > 0 ? more : percent(finding->slowdown));
		text_add(&telling->text, "longer than the others");
	} else {
		text_add(&telling->text,
			"the work %s divided evenly between ranks: another one %s longest from step to step",
			telling->past ? "was not" : "is not", telling->past ? "took" : "takes");
		if (percent(finding->slowdown) > 0)
			text_add(&telling->text, ", and steps %s %.0f %% longer for it", take[finding->state],
				percent(finding->slowdown));
	}
	text_add(&telling->text, ": no fault of a machine");
}

static void tell_cost(struct telling *telling)
{
	double hours = telling->finding->cost_card_hours;
	const char *end = telling->past ? "" : " so far";

	if (!(hours * 60 >= 1) || hours > 1e9)
		return;
	if (hours * 60 < 10)
		text_add(&telling->text, "; %.0f card-minute%s lost%s", hours * 60, hours * 60 < 1.5 ? "" : "s", end);
	else
		text_add(&telling->text, hours < 9.95 ? "; %.1f card-hours lost%s" : "; %.0f card-hours lost%s", hours,
			end);
}

/* What became of it. */
static void tell_end(struct telling *telling)
{
	const struct finding *finding = telling->finding;
	const struct finding_evidence *returns = finding_sentence_evidence_of(finding, "returns");
	const char *by = detail_of(finding, "explained");

	if (returns && returns->value >= 1 && returns->value < 1e6)
		text_add(&telling->text, "; it came back %.0f time%s", returns->value, returns->value >= 2 ? "s" : "");
	if (by[0]) {
		text_add(&telling->text, "; explained by ");
		text_name(&telling->text, by, 64);
	} else if (finding->state == FINDING_DROPPED) {
		text_add(&telling->text, "; not confirmed");
	}
}

void finding_tell(struct finding *finding)
{
	static void (*const tell[])(struct telling *) = {
		[FINDING_SLOW_RANK] = tell_slow_rank,
		[FINDING_SLOW_COMMUNICATION] = tell_slow_communication,
		[FINDING_SLOW_JOB] = tell_slow_job,
		[FINDING_HANG] = tell_hang,
		[FINDING_MISMATCH] = tell_mismatch,
		[FINDING_IMBALANCE] = tell_imbalance,
	};
	struct telling telling = {.finding = finding,
		.past = finding->state == FINDING_CLOSED || finding->state == FINDING_DROPPED,
		.alone = finding->rank >= 0};

	_Static_assert(sizeof(tell) / sizeof(tell[0]) == FINDING_KIND_MAX, "a sentence a kind");
	text_begin(&telling.text, finding->sentence, sizeof(finding->sentence));
	if ((size_t)finding->kind >= FINDING_KIND_MAX || (size_t)finding->cause >= CAUSE_MAX ||
		(size_t)finding->state >= FINDING_STATE_MAX)
		return;
	tell[finding->kind](&telling);
	tell_cost(&telling);
	tell_end(&telling);
	text_end(&telling.text);
}
