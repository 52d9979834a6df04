/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/flame/flame_words.h"

#include <inttypes.h>
#include <math.h>

#include "analyzers/base/text.h"
#include "analyzers/finding/finding.h"
#include "analyzers/tool/tool.h"

const char *flame_words_duration(double ns, char ret[FLAME_WORDS_BYTES])
{
	struct text text;

	text_begin(&text, ret, FLAME_WORDS_BYTES);
	if (ns > 0)
		text_duration(&text, ns);
	else
		text_add(&text, "0");
	text_end(&text);
	return ret;
}

const char *flame_words_ranks(const struct flame_source *source, char ret[FLAME_WORDS_BYTES])
{
	int32_t rank[FLAME_RANKS_MAX];
	char list[96];

	for (size_t i = 0; i < source->ranks; i++)
		rank[i] = (int32_t)source->rank[i].rank;
	finding_ranks(rank, source->ranks, list, sizeof(list));
	snprintf(ret, FLAME_WORDS_BYTES, "rank%s %s", source->ranks == 1 ? "" : "s", list);
	return ret;
}

const char *flame_words_title(const struct flame_view *view, char ret[FLAME_WORDS_BYTES])
{
	char sentence[PROFILE_SENTENCE_BYTES], ranks[FLAME_WORDS_BYTES];

	if (view->memory)
		snprintf(ret, FLAME_WORDS_BYTES, "%.400s", view->memory);
	else if (!view->diff)
		snprintf(ret, FLAME_WORDS_BYTES, "Profile %" PRId64 " of %.200s", view->source->number,
			flame_words_ranks(view->source, ranks));
	else if (*profile_sentence(view->diff, sentence))
		snprintf(ret, FLAME_WORDS_BYTES, "%s", sentence);
	else
		snprintf(ret, FLAME_WORDS_BYTES, "no function of rank %" PRId64 " takes longer than %s, beyond noise",
			view->diff->rank,
			view->past		 ? "before"
			: view->diff->peers == 1 ? "that of its peer"
						 : "those of its peers");
	return ret;
}

const char *flame_words_counts(const struct flame_view *view, char ret[FLAME_WORDS_BYTES])
{
	struct profile_totals totals;
	uint64_t refused = 0, lost = 0;
	double least = 1;
	char when[TOOL_TEXT_BYTES];
	struct text text;

	profile_totals(view->profile, &totals);
	for (size_t i = 0; i < view->source->ranks; i++) {
		refused += view->source->rank[i].refused;
		lost += view->source->rank[i].lost;
		least = fmin(least, view->source->rank[i].read_share);
	}
	text_begin(&text, ret, FLAME_WORDS_BYTES);
	if (view->memory) {
		text_add(&text, "from sampled blocks, by %" PRIu64 " different stacks", totals.stacks);
		text_end(&text);
		return ret;
	}
	text_add(&text, "from %s, for ", tool_time((uint64_t)view->source->start_ns, when));
	text_duration(&text, (double)(view->source->end_ns - view->source->start_ns));
	text_add(&text, ": %" PRIu64 " samples of %" PRIu64 " different stacks", totals.samples, totals.stacks);
	if (totals.cut)
		text_add(&text, ", outer frames of %" PRIu64 " are missing", totals.cut);
	if (totals.native_cut)
		text_add(&text, ", native callers of %" PRIu64 " are missing (code without frame pointers)",
			totals.native_cut);
	if (totals.unknown)
		text_add(&text, ", stacks of %" PRIu64 " are no longer stored", totals.unknown);
	if (refused)
		text_add(&text, ", %" PRIu64 " refused", refused);
	if (lost)
		text_add(&text, ", %" PRIu64 " lost", lost);
	if (least < 0.995)
		text_add(&text, ", of a rank %.2g %% of stacks read within the budget, which stand for all",
			100 * least);
	if (view->source->limited)
		text_add(&text, ", %" PRIu64 " rows beyond limits left out", view->source->limited);
	text_end(&text);
	return ret;
}

const char *flame_words_work(const struct profile_diff *diff, char ret[FLAME_WORDS_BYTES])
{
	struct text text;

	text_begin(&text, ret, FLAME_WORDS_BYTES);
	if (diff->seconds)
		text_add(&text, "of each second: ");
	else {
		text_add(&text, "over %" PRIu64 " steps of ", diff->steps);
		text_duration(&text, diff->step_ns);
		text_add(&text, ", ");
	}
	text_add(&text, "own work ");
	if (diff->stage && !*diff->stage)
		text_add(&text, "outside all stages ");
	else if (diff->stage)
		text_add(&text, "in %.40s ", diff->stage);
	text_duration(&text, diff->own_ns);
	text_add(&text, ", of peers ");
	text_duration(&text, diff->peers_own_ns);
	text_add(&text, "; waits ");
	text_duration(&text, diff->waits_ns);
	text_add(&text, ", of peers ");
	text_duration(&text, diff->peers_waits_ns);
	if (diff->factor > 1)
		text_add(&text, "; all functions take about %.1f times as long", diff->factor);
	text_end(&text);
	return ret;
}
