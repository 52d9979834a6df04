/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/coll/coll_judge.h"
#include "analyzers/base/array.h"
#include "analyzers/base/text.h"
#include "analyzers/coll/coll.h"
#include "analyzers/coll/coll_bytes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Uneven counts do not distinguish calls. */
static bool coll_majority_is_same(const struct coll_point *a, const struct coll_point *b)
{
	return strcasecmp(a->op, b->op) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
	       (a->count == b->count || coll_operation(a->op)->uneven);
}

static void coll_majority_add(struct coll_majority *majority, const struct coll_point *point)
{
	struct coll_majority_call *call = majority->call;
	size_t i = 0, kept = 0;

	while (i < majority->count && !coll_majority_is_same(&call[i].point, point))
		i++;
	if (i < majority->count) {
		call[i].weight++;
		return;
	}
	if (majority->count < COLL_MAJORITY_MAX) {
		call[majority->count++] = (struct coll_majority_call){*point, 1};
		return;
	}
	/* Misra and Gries: a new call beyond the bound lowers all weights. */
	for (i = 0; i < majority->count; i++)
		if (--call[i].weight)
			call[kept++] = call[i];
	if (!kept)
		call[kept++] = (struct coll_majority_call){*point, 1};
	majority->count = kept;
}

static int coll_judge_by_rank(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return ORDER(x, y);
}

static void coll_judge_add_ranks(struct text *text, int32_t *rank, size_t ranks)
{
	size_t distinct = 0;

	if (!ranks)
		return;
	qsort(rank, ranks, sizeof(*rank), coll_judge_by_rank);
	for (size_t i = 0; i < ranks; i++) {
		if (!distinct || rank[distinct - 1] != rank[i])
			rank[distinct++] = rank[i];
	}
	text_add(text, distinct > 1 ? "ranks " : "rank ");
	for (size_t i = 0, last; i < distinct; i = last + 1) {
		for (last = i; last + 1 < distinct && rank[last + 1] == rank[last] + 1;)
			last++;
		text_add(text, "%s%d", i ? ", " : "", rank[i]);
		if (last > i)
			text_add(text, "%s%d", last > i + 1 ? "-" : ", ", rank[last]);
	}
}

static void coll_judge_add_bytes(struct text *text, uint64_t bytes)
{
	if (bytes == COLL_UNKNOWN)
		return;
	text_add(text, " (");
	text_bytes(text, (double)bytes);
	text_add(text, ")");
}

/* Cached first call of a number: members that are behind await the same few. */
struct first_call {
	bool valid, found;
	uint64_t seq;
	struct coll_point point;
};

struct judging {
	struct coll_judged *member;
	size_t members;
	uint64_t now_ns, patience_ns, far;
	int32_t *rank; /* scratch, of all members */
	struct coll_verdict *verdict;
	struct first_call first[COLL_RECENT + 1];
};

WORD_OF_ENUM(coll_state_name, coll_state,
	COLL_STATE_MAX, [COLL_STATE_RUNNING] = "RUNNING", [COLL_STATE_MISSING] = "MISSING_RANKS",
	[COLL_STATE_TYPE_MISMATCH] = "COLLECTIVE_TYPE_MISMATCH", [COLL_STATE_SIZE_MISMATCH] = "SIZE_OR_SYNTAX_MISMATCH")

/* Kinds of numbers that may be compared; 0: never. */
static const unsigned numbering[] = {
	[COLL_SEQ_INIT] = 1,
	[COLL_SEQ_LIBRARY] = 2,
	[COLL_SEQ_MARKER] = 1,
	[COLL_SEQ_GROUP] = 3,
	[COLL_SEQ_ATTACH] = 0,
};

static unsigned numbering_of(const struct coll_judged *member)
{
	size_t from = (size_t)member->standing.seq_from;

	return from < sizeof(numbering) / sizeof(numbering[0]) ? numbering[from] : 0;
}

static void coll_judge_choose_numbering(struct judging *judging)
{
	size_t count[4] = {0};
	unsigned best = 1;

	for (size_t i = 0; i < judging->members; i++)
		count[numbering_of(&judging->member[i])]++;
	for (unsigned i = 2; i < 4; i++)
		best = count[i] > count[best] ? i : best;
	for (size_t i = 0; i < judging->members; i++) {
		struct coll_judged *member = &judging->member[i];

		member->compared = numbering_of(member) == best && member->standing.communicator[0];
		member->missing = member->differs = false;
		member->behind = 0;
		if (member->compared && member->standing.entered.seq > judging->far)
			judging->far = member->standing.entered.seq;
	}
	for (size_t i = 0; i < judging->members; i++) {
		struct coll_judged *member = &judging->member[i];

		if (member->compared)
			member->behind = judging->far - member->standing.entered.seq;
	}
}

static bool coll_judge_called(const struct coll_judged *member, uint64_t seq, struct coll_point *ret)
{
	if (!member->compared)
		return false;
	if (member->standing.entered.seq == seq) {
		*ret = member->standing.entered;
		return true;
	}
	if (member->recall)
		return member->recall(member->recall_arg, seq, ret);
	return member->ops && coll_at(member->ops, member->standing.communicator, seq, ret);
}

static bool search_first_call(const struct judging *judging, uint64_t seq, struct coll_point *ret)
{
	bool found = false;

	for (; seq <= judging->far && !found; seq++) {
		for (size_t i = 0; i < judging->members; i++) {
			struct coll_point point;

			if (!coll_judge_called(&judging->member[i], seq, &point) ||
				(found && point.time_ns >= ret->time_ns))
				continue;
			*ret = point;
			found = true;
		}
	}
	return found;
}

/* The first call of a number, or of the lowest later one still remembered. */
static bool first_call(struct judging *judging, uint64_t seq, struct coll_point *ret)
{
	struct first_call *first;

	if (judging->far > seq + COLL_RECENT)
		seq = judging->far - COLL_RECENT;
	first = &judging->first[seq % (COLL_RECENT + 1)];
	if (!first->valid || first->seq != seq) {
		*first = (struct first_call){.valid = true, .seq = seq};
		first->found = search_first_call(judging, seq, &first->point);
	}
	if (first->found)
		*ret = first->point;
	return first->found;
}

static uint64_t coll_judge_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The first call of the member's next number. If it is forgotten, as a peer is far ahead, it is dated to the member's
 * own last call. */
static bool awaited_call(struct judging *judging, const struct coll_judged *member, struct coll_point *ret)
{
	const struct coll_point *last = &member->standing.entered;

	if (!first_call(judging, last->seq + 1, ret))
		return false;
	if (last->seq && member->behind > COLL_RECENT && last->time_ns < ret->time_ns)
		ret->time_ns = last->time_ns;
	return true;
}

/* The lowest number not called by a missing member; 0: no member is missing. */
static uint64_t find_missing(struct judging *judging, struct coll_point *ret)
{
	uint64_t lowest = 0;

	for (size_t i = 0; i < judging->members; i++) {
		struct coll_judged *member = &judging->member[i];
		const struct coll_point *last = &member->standing.entered;
		struct coll_point first;

		if (!member->behind || !awaited_call(judging, member, &first) ||
			coll_judge_since(judging->now_ns, first.time_ns) <= judging->patience_ns ||
			(last->seq && coll_judge_since(judging->now_ns, last->time_ns) <= judging->patience_ns))
			continue;
		member->missing = true;
		if (!lowest || last->seq + 1 < lowest) {
			lowest = last->seq + 1;
			*ret = first;
		}
	}
	return lowest;
}

static enum coll_state coll_judge_difference(const struct coll_point *a, const struct coll_point *b)
{
	if (strcasecmp(a->op, b->op) != 0)
		return COLL_STATE_TYPE_MISMATCH;
	if (a->dtype[0] && b->dtype[0] && strcmp(a->dtype, b->dtype) != 0)
		return COLL_STATE_SIZE_MISMATCH;
	return !coll_operation(a->op)->uneven && a->count != COLL_UNKNOWN && b->count != COLL_UNKNOWN &&
			       a->count != b->count
		       ? COLL_STATE_SIZE_MISMATCH
		       : COLL_STATE_RUNNING;
}

static bool coll_judge_complete(const struct coll_judged *member, uint64_t seq)
{
	return member->standing.completion_known && member->standing.completed.seq >= seq;
}

/* Marks members whose call differs from `majority` in that way; returns how many. */
static size_t mark_differing(
	struct judging *judging, uint64_t seq, const struct coll_point *majority, enum coll_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < judging->members; i++) {
		struct coll_judged *member = &judging->member[i];
		struct coll_point point;

		member->differs =
			coll_judge_called(member, seq, &point) && coll_judge_difference(majority, &point) == state;
		n += member->differs;
	}
	return n;
}

/* The call from which the fewest members differ; the first one where no candidate differs from any. False: no calls. */
static bool find_majority(struct judging *judging, uint64_t seq, enum coll_state state, struct coll_point *ret)
{
	struct coll_majority tried = {0};
	struct coll_point point;
	bool found = false, any = false;
	size_t least = 0;

	for (size_t i = 0; i < judging->members; i++) {
		if (!coll_judge_called(&judging->member[i], seq, &point))
			continue;
		if (!any)
			*ret = point;
		any = true;
		coll_majority_add(&tried, &point);
	}
	for (size_t i = 0; i < tried.count; i++) {
		size_t n = mark_differing(judging, seq, &tried.call[i].point, state);

		if (n == 0) /* its size or type is unknown */
			continue;
		if (!found || n < least) {
			found = true;
			least = n;
			*ret = tried.call[i].point;
		}
		if (n * 2 < judging->members)
			break;
	}
	if (any)
		mark_differing(judging, seq, ret, state);
	return any;
}

static enum coll_state differs_at(const struct judging *judging, uint64_t seq)
{
	enum coll_state worst = COLL_STATE_RUNNING;
	struct coll_point first, point;
	bool found = false, open = false;

	for (size_t i = 0; i < judging->members; i++) {
		enum coll_state state;

		if (!coll_judge_called(&judging->member[i], seq, &point))
			continue;
		open |= !coll_judge_complete(&judging->member[i], seq);
		if (!found) {
			first = point;
			found = true;
			continue;
		}
		state = coll_judge_difference(&first, &point);
		if (state == COLL_STATE_TYPE_MISMATCH || worst == COLL_STATE_RUNNING)
			worst = state;
	}
	return open ? worst : COLL_STATE_RUNNING;
}

/* Numbers below `before` (0: all). */
static enum coll_state find_difference(const struct judging *judging, uint64_t before, uint64_t *ret_seq)
{
	uint64_t seq = judging->far > COLL_RECENT ? judging->far - COLL_RECENT + 1 : 1;

	for (; seq <= judging->far && (!before || seq < before); seq++) {
		enum coll_state state = differs_at(judging, seq);

		if (state != COLL_STATE_RUNNING) {
			*ret_seq = seq;
			return state;
		}
	}
	return COLL_STATE_RUNNING;
}

static void add_communicator(struct text *text, const struct judging *judging)
{
	const struct coll_standing *standing = &judging->member[0].standing;

	text_add(text, " of communicator %s", standing->communicator[0] ? standing->communicator : "(unknown)");
	if (standing->name[0])
		text_add(text, " (%.32s)", standing->name);
}

static void add_call(struct text *text, const struct coll_point *point, uint64_t seq)
{
	text_add(text, "%.32s %llu", point->op[0] ? point->op : "number", (unsigned long long)seq);
	coll_judge_add_bytes(text, point->bytes);
}

static void add_elsewhere(struct text *text, const struct judging *judging)
{
	const struct coll_verdict *verdict = judging->verdict;
	uint32_t away = verdict->members > verdict->here ? verdict->members - verdict->here : 0;

	if (away)
		text_add(text, "; %u of %u members %s not on this node", away, verdict->members,
			away == 1 ? "is" : "are");
}

static size_t ranks_where(
	const struct judging *judging, bool (*which)(const struct coll_judged *member, uint64_t seq), uint64_t seq)
{
	size_t n = 0;

	for (size_t i = 0; i < judging->members; i++) {
		if (judging->member[i].compared && which(&judging->member[i], seq))
			judging->rank[n++] = judging->member[i].rank;
	}
	return n;
}

static bool has_not_called(const struct coll_judged *member, uint64_t seq)
{
	return member->missing && member->standing.entered.seq < seq;
}

static bool has_called(const struct coll_judged *member, uint64_t seq)
{
	return member->standing.entered.seq >= seq;
}

static bool does_differ(const struct coll_judged *member, uint64_t seq)
{
	return member->differs;
}

static bool does_agree(const struct coll_judged *member, uint64_t seq)
{
	return !member->differs && member->standing.entered.seq >= seq;
}

static void describe_missing(struct judging *judging, struct text *text, const struct coll_point *point)
{
	struct coll_verdict *verdict = judging->verdict;
	size_t n = ranks_where(judging, has_not_called, verdict->seq);

	coll_judge_add_ranks(text, judging->rank, n);
	text_add(text, n == 1 ? " has not called " : " have not called ");
	/* point may be of a later number if this one is forgotten. */
	if (point->seq == verdict->seq)
		add_call(text, point, verdict->seq);
	else
		text_add(text, "number %llu", (unsigned long long)verdict->seq);
	add_communicator(text, judging);
	text_add(text, "; ");
	n = ranks_where(judging, has_called, verdict->seq);
	coll_judge_add_ranks(text, judging->rank, n);
	text_add(text, n == 1 ? " has waited " : " have waited ");
	text_duration(text, (double)verdict->waited_ns);
}

/* Data types take precedence over sizes: called[] is short. */
static void add_measure(struct text *text, const struct coll_point *point, bool types)
{
	if (types)
		text_add(text, " of %.16s", point->dtype);
	else
		coll_judge_add_bytes(text, point->bytes);
}

static void describe_called(
	struct coll_verdict *verdict, const struct coll_point *other, const struct coll_point *majority)
{
	bool types = other->dtype[0] && majority->dtype[0] && strcmp(other->dtype, majority->dtype) != 0;
	struct text text;

	text_begin(&text, verdict->called, sizeof(verdict->called));
	text_add(&text, "%.32s %llu", other->op, (unsigned long long)verdict->seq);
	add_measure(&text, other, types);
	text_add(&text, " instead of %.32s", majority->op);
	add_measure(&text, majority, types);
	text_end(&text);
}

static void describe_difference(struct judging *judging, struct text *text)
{
	struct coll_verdict *verdict = judging->verdict;
	struct coll_point majority = {0}, other = {0};
	bool found = false;
	size_t n;

	(void)find_majority(judging, verdict->seq, verdict->state, &majority);
	for (size_t i = 0; i < judging->members && !found; i++)
		found = judging->member[i].differs && coll_judge_called(&judging->member[i], verdict->seq, &other);
	n = ranks_where(judging, does_differ, verdict->seq);
	coll_judge_add_ranks(text, judging->rank, n);
	text_add(text, " called ");
	add_call(text, &other, verdict->seq);
	if (other.dtype[0])
		text_add(text, " of %s", other.dtype);
	add_communicator(text, judging);
	text_add(text, " where ");
	n = ranks_where(judging, does_agree, verdict->seq);
	coll_judge_add_ranks(text, judging->rank, n);
	text_add(text, " called %.32s", majority.op);
	coll_judge_add_bytes(text, majority.bytes);
	if (majority.dtype[0])
		text_add(text, " of %s", majority.dtype);
	if (found)
		describe_called(verdict, &other, &majority);
}

static void describe_running(struct judging *judging, struct text *text)
{
	struct coll_verdict *verdict = judging->verdict;
	struct coll_point first;
	size_t compared = 0, done = 0;

	for (size_t i = 0; i < judging->members; i++) {
		compared += judging->member[i].compared;
		done += judging->member[i].compared && coll_judge_complete(&judging->member[i], judging->far);
	}
	if (!compared) {
		text_add(text, "call numbers are unknown and cannot be compared");
		add_communicator(text, judging);
		return;
	}
	if (!judging->far || !first_call(judging, judging->far, &first)) {
		text_add(text, "no calls yet");
		add_communicator(text, judging);
		return;
	}
	verdict->seq = judging->far;
	verdict->waited_ns = coll_judge_since(judging->now_ns, first.time_ns);
	text_add(text, "last call ");
	add_call(text, &first, judging->far);
	add_communicator(text, judging);
	text_add(text, ", ");
	text_duration(text, (double)verdict->waited_ns);
	text_add(text, " old: %zu of %zu local members entered", ranks_where(judging, has_called, judging->far),
		judging->members);
	if (done)
		text_add(text, ", %zu completed", done);
}

static void coll_judge_comm(struct judging *judging, struct text *text)
{
	struct coll_verdict *verdict = judging->verdict;
	struct coll_point missing = {0}, first;
	uint64_t seq = find_missing(judging, &missing), different = 0;
	enum coll_state state = find_difference(judging, seq, &different);

	if (state != COLL_STATE_RUNNING) {
		verdict->state = state;
		verdict->seq = different;
		if (first_call(judging, different, &first))
			verdict->waited_ns = coll_judge_since(judging->now_ns, first.time_ns);
		describe_difference(judging, text);
	} else if (seq) {
		verdict->state = COLL_STATE_MISSING;
		verdict->seq = seq;
		verdict->waited_ns = coll_judge_since(judging->now_ns, missing.time_ns);
		describe_missing(judging, text, &missing);
	} else {
		describe_running(judging, text);
	}
}

void coll_judge(
	struct coll_judged *member, size_t members, uint64_t now_ns, uint64_t patience_ns, struct coll_verdict *ret)
{
	struct judging judging = {
		.member = member, .members = members, .now_ns = now_ns, .patience_ns = patience_ns, .verdict = ret};
	struct text text;

	*ret = (struct coll_verdict){.here = (uint32_t)members};
	if (!members)
		return;
	for (size_t i = 0; i < members; i++) {
		if (member[i].standing.members > ret->members)
			ret->members = member[i].standing.members;
	}
	judging.rank = calloc(members, sizeof(*judging.rank));
	if (!judging.rank)
		return;
	coll_judge_choose_numbering(&judging);
	text_begin(&text, ret->sentence, sizeof(ret->sentence));
	coll_judge_comm(&judging, &text);
	add_elsewhere(&text, &judging);
	text_end(&text);
	free(judging.rank);
}
