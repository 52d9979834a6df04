/* SPDX-License-Identifier: Apache-2.0 */
/* Words of findings, and their evidence. See finding.h; the sentence is made in finding_sentence.c. */
#include "analyzers/finding/finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind_row {
	const char *word, *text;
};

struct cause_row {
	const char *word, *text, *advice;
};

static const struct kind_row kinds[] = {
#define FINDING_KIND(id, word, text) [FINDING_##id] = {word, text},
#define FINDING_CAUSE(id, word, text, advice)
#include "analyzers/finding/finding_words.def"
#undef FINDING_KIND
#undef FINDING_CAUSE
};

static const struct cause_row causes[] = {
#define FINDING_KIND(id, word, text)
#define FINDING_CAUSE(id, word, text, advice) [CAUSE_##id] = {word, text, advice},
#include "analyzers/finding/finding_words.def"
#undef FINDING_KIND
#undef FINDING_CAUSE
};

const char *finding_kind_word(enum finding_kind kind)
{
	return (size_t)kind < FINDING_KIND_MAX ? kinds[kind].word : "";
}

const char *finding_cause_word(enum finding_cause cause)
{
	return (size_t)cause < CAUSE_MAX ? causes[cause].word : "";
}

const char *finding_cause_text(enum finding_cause cause)
{
	return (size_t)cause < CAUSE_MAX ? causes[cause].text : "";
}

const char *finding_cause_advice(enum finding_cause cause)
{
	return (size_t)cause < CAUSE_MAX ? causes[cause].advice : "";
}

const char *finding_state_word(enum finding_state state)
{
	static const char *const words[] = {
		[FINDING_SUSPECTED] = "suspected",
		[FINDING_OPEN] = "open",
		[FINDING_CLOSED] = "closed",
		[FINDING_DROPPED] = "dropped",
	};

	_Static_assert(sizeof(words) / sizeof(words[0]) == FINDING_STATE_MAX, "a word a state");
	return (size_t)state < FINDING_STATE_MAX ? words[state] : "";
}

const char *finding_severity_word(enum finding_severity severity)
{
	static const char *const words[] = {
		[SEVERITY_INFO] = "info",
		[SEVERITY_WARNING] = "warning",
		[SEVERITY_CRITICAL] = "critical",
	};

	_Static_assert(sizeof(words) / sizeof(words[0]) == SEVERITY_MAX, "a word a severity");
	return (size_t)severity < SEVERITY_MAX ? words[severity] : "";
}

const char *finding_tier_word(enum frame_tier tier)
{
	static const char *const words[] = {
		[FRAME_TIER_STAGES] = "stages",
		[FRAME_TIER_HOST] = "host",
		[FRAME_TIER_DEVICE] = "device",
	};

	_Static_assert(sizeof(words) / sizeof(words[0]) == FRAME_TIER_MAX, "a word a tier");
	return (size_t)tier < FRAME_TIER_MAX ? words[tier] : "";
}

enum finding_kind finding_kind_parse(const char *word)
{
	size_t i = 0;

	while (i < FINDING_KIND_MAX && strcmp(kinds[i].word, word) != 0)
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

static int finding_compare(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

void finding_ranks(int32_t *rank, size_t ranks, char *ret, size_t size)
{
	size_t used = 0, distinct = 0;

	if (!size)
		return;
	ret[0] = 0;
	if (!ranks)
		return;
	qsort(rank, ranks, sizeof(*rank), finding_compare);
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
		/* Every piece but the last leaves room to say that there are more. */
		if (used + (size_t)length + (last + 1 < distinct ? 4 : 0) >= size) {
			snprintf(ret + used, size - used, "...");
			return;
		}
		memcpy(ret + used, piece, (size_t)length + 1);
		used += (size_t)length;
	}
}
