/* SPDX-License-Identifier: Apache-2.0 */
/* The attribution of judge_share.c on a table of means, as a tick that has one step. */
#include "analyzers/judge/judge_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int judge_table(struct judge_row *row, size_t rows, bool cards, double growth, double ret_common[ACTIVITY_MAX])
{
	const struct judge_options options = {0};
	uint64_t next_id = 1;
	struct judge *judge;
	bool learned = true;

	if (!rows || rows > JUDGE_RANKS_MAX)
		return -EINVAL;
	judge = judge_new(&options, "", &(struct judge_sink){0}, &next_id);
	if (!judge)
		return -ENOMEM;
	judge->rank = calloc(rows, sizeof(*judge->rank));
	if (!judge->rank || !columns_renew(&judge->columns, rows)) {
		judge_free(judge);
		return -ENOMEM;
	}
	judge->ranks = rows;
	judge->cards = cards;
	for (size_t i = 0; i < rows; i++) {
		struct judge_rank *rank = &judge->rank[i];

		rank->here = true;
		rank->class = FRAME_NONE;
		rank->recent.steps = 1;
		memcpy(rank->recent.sum.act, row[i].now, sizeof(row[i].now));
		memcpy(rank->usual.act, row[i].usual, sizeof(row[i].usual));
		learned = learned && !isnan(row[i].wait_usual);
		if (isnan(row[i].wait))
			continue;
		rank->recent.l1_steps = 1;
		rank->recent.sum.wait = row[i].wait;
		rank->usual.wait = isnan(row[i].wait_usual) ? 0 : row[i].wait_usual;
	}
	judge->l1_ticks = learned ? JUDGE_L1_TICKS : 0;
	judge_share(judge, growth);
	for (size_t i = 0; i < rows; i++) {
		row[i].own = judge->rank[i].own;
		memcpy(row[i].act, judge->rank[i].act, sizeof(row[i].act));
	}
	memcpy(ret_common, judge->common, sizeof(judge->common));
	judge_free(judge);
	return 0;
}
