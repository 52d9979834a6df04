/* SPDX-License-Identifier: Apache-2.0 */
/* Words of findings, and their evidence. See finding.h; finding_sentence.c writes the sentence. */
#include "analyzers/finding/finding.h"
#include "analyzers/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[][2] = {
#define FINDING_KIND(id, word, method, title) [FINDING_##id] = {#word, title},
#include "analyzers/finding/kinds.def"
#undef FINDING_KIND
};

static const struct finding_cause_row causes[] = {
#define FINDING_CAUSE(id, word, title, doc, evidence, clause, hang, part, hardware, advice) \
	[CAUSE_##id] = {#word, title, doc, evidence, clause, hang, advice, FINDING_PART_##part, hardware},
#include "analyzers/finding/causes.def"
#undef FINDING_CAUSE
};

_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == FINDING_KIND_MAX, "a row a kind");
_Static_assert(sizeof(causes) / sizeof(causes[0]) == CAUSE_MAX, "a row a cause");

#define FINDING_KIND(id, word, method, title) _Static_assert(sizeof(title) > 1, #word ": empty title");
#include "analyzers/finding/kinds.def"
#undef FINDING_KIND
#define FINDING_CAUSE(id, word, title, doc, evidence, clause, hang, part, hardware, advice) \
	_Static_assert(sizeof(title) > 1 && sizeof(doc) > 1 && sizeof(advice) > 1, #word ": empty column"); \
	_Static_assert(sizeof(evidence) <= sizeof(((struct finding_evidence *)0)->name), #word ": long evidence");
#include "analyzers/finding/causes.def"
#undef FINDING_CAUSE

const struct finding_cause_row *finding_cause_row(enum finding_cause cause)
{
	static const struct finding_cause_row none = {"", "", "", "", "", "", "", FINDING_PART_NONE, false};

	return (size_t)cause < CAUSE_MAX ? &causes[cause] : &none;
}

const char *finding_kind_word(enum finding_kind kind)
{
	return (size_t)kind < FINDING_KIND_MAX ? kinds[kind][0] : "";
}

const char *finding_cause_word(enum finding_cause cause)
{
	return finding_cause_row(cause)->word;
}

const char *finding_cause_title(enum finding_cause cause)
{
	return finding_cause_row(cause)->title;
}

const char *finding_cause_advice(enum finding_cause cause)
{
	return finding_cause_row(cause)->advice;
}

WORD_OF_ENUM(finding_state_word, finding_state, FINDING_STATE_MAX, [FINDING_SUSPECTED] = "suspected",
	[FINDING_OPEN] = "open", [FINDING_CLOSED] = "closed", [FINDING_DROPPED] = "dropped")
WORD_OF_ENUM(finding_severity_word, finding_severity, SEVERITY_MAX, [SEVERITY_INFO] = "info",
	[SEVERITY_NOTICE] = "notice", [SEVERITY_WARNING] = "warning", [SEVERITY_CRITICAL] = "critical")
WORD_OF_ENUM(finding_side_word, finding_side,
	FINDING_SIDE_MAX, [FINDING_SIDE_UNKNOWN] = "", [FINDING_SIDE_HOST] = "host", [FINDING_SIDE_CARD] = "card")
WORD_OF_ENUM(finding_tier_word, frame_tier,
	FRAME_TIER_MAX, [FRAME_TIER_STAGES] = "stages", [FRAME_TIER_HOST] = "host", [FRAME_TIER_DEVICE] = "device")

enum finding_kind finding_kind_parse(const char *word)
{
	size_t i = 0;

	while (i < FINDING_KIND_MAX && strcmp(kinds[i][0], word) != 0)
		i++;
	return (enum finding_kind)i;
}

enum finding_cause finding_cause_parse(const char *word)
{
	size_t i = 0;

	while (i < CAUSE_MAX && strcmp(causes[i].word, word) != 0)
		i++;
	return (enum finding_cause)i;
}

const char *finding_evidence_name(const char *stored)
{
	return strcmp(stored, "hog") == 0 ? "preemptor" : stored;
}

bool finding_is_before(const struct finding_evidence *evidence)
{
	return strcmp(evidence->detail, FINDING_BEFORE) == 0;
}

void finding_add(
	struct finding *finding, const char *name, const char *unit, double value, double peers, const char *detail)
{
	struct finding_evidence *evidence;

	if (finding->evidences >= FINDING_EVIDENCE_MAX)
		return;
	evidence = &finding->evidence[finding->evidences++];
	*evidence = (struct finding_evidence){.value = value, .peers = peers};
	snprintf(evidence->name, sizeof(evidence->name), "%s", name);
	snprintf(evidence->unit, sizeof(evidence->unit), "%s", unit);
	snprintf(evidence->detail, sizeof(evidence->detail), "%s", detail ? detail : "");
}

static int finding_compare_ranks(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return ORDER(x, y);
}

void finding_ranks(int32_t *rank, size_t ranks, char *ret, size_t size)
{
	size_t used = 0, distinct = 0;

	if (!size)
		return;
	ret[0] = 0;
	if (!ranks)
		return;
	qsort(rank, ranks, sizeof(*rank), finding_compare_ranks);
	for (size_t i = 0; i < ranks; i++) {
		if (!distinct || rank[distinct - 1] != rank[i])
			rank[distinct++] = rank[i];
	}
	for (size_t i = 0, last; i < distinct; i = last + 1) {
		char piece[32];
		int length;

		for (last = i; last + 1 < distinct && (int64_t)rank[last + 1] == (int64_t)rank[last] + 1;)
			last++;
		length = snprintf(piece, sizeof(piece), "%s%d", i ? "," : "", rank[i]);
		if (last > i)
			length += snprintf(piece + length, sizeof(piece) - (size_t)length, "%c%d",
				last > i + 1 ? '-' : ',', rank[last]);
		/* Every piece but the last leaves space for "...". */
		if (used + (size_t)length + (last + 1 < distinct ? 4 : 0) >= size) {
			snprintf(ret + used, size - used, "...");
			return;
		}
		memcpy(ret + used, piece, (size_t)length + 1);
		used += (size_t)length;
	}
}
