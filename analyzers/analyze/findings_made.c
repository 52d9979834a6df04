/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_rows.h. Columns, their order and what is NULL are those of the daemon's rows
 * (daemon/findings/online_publish.c).
 */
#include "analyzers/analyze/findings_rows.h"
#include "analyzers/base/array.h"
#include "analyzers/tool/tool_json.h"

#include <math.h>
#include <stdlib.h>

struct findings_made {
	struct finding *finding; /* by id, which only rises */
	size_t count, capacity;
	uint64_t left_out;
};

struct findings_made *findings_made_new(void)
{
	return calloc(1, sizeof(struct findings_made));
}

struct findings_made *findings_made_free(struct findings_made *made)
{
	if (made)
		free(made->finding);
	free(made);
	return NULL;
}

/* Where the finding of that number is, or would be. */
static size_t findings_made_place_of(const struct findings_made *made, uint64_t id)
{
	return array_first_not(i, made->count, made->finding[i].id < id);
}

void findings_made_publish(void *arg, const struct finding *finding)
{
	struct findings_made *made = arg;
	size_t at = findings_made_place_of(made, finding->id);

	if (at < made->count && made->finding[at].id == finding->id) {
		made->finding[at] = *finding;
		return;
	}
	if (!array_reserve((void **)&made->finding, &made->capacity, made->count + 1, sizeof(*made->finding),
		    FINDINGS_MADE_MAX)) {
		made->left_out++;
		return;
	}
	/* Mostly the newest: the first telling of a number comes in their order. */
	for (size_t i = made->count++; i > at; i--)
		made->finding[i] = made->finding[i - 1];
	made->finding[at] = *finding;
}

static json_t *findings_made_text(const char *text)
{
	return text[0] ? findings_row_text(text) : json_null();
}

static json_t *findings_made_evidence_of(const struct finding *f)
{
	char text[FINDING_JSON_BYTES];
	json_t *json;

	(void)finding_evidence_json(f, text, sizeof(text));
	json = json_loads(text, 0, NULL);
	return json ? json : json_array();
}

static json_t *findings_made_row_of(const struct finding *f)
{
	return tool_object("kind", tool_text(finding_kind_word(f->kind)), "cause",
		tool_text(finding_cause_word(f->cause)), "state", tool_text(finding_state_word(f->state)), "severity",
		tool_text(finding_severity_word(f->severity)), "confidence", tool_real(f->confidence), "tier",
		tool_text(finding_tier_word(f->tier)), "job", findings_made_text(f->job), "rank", tool_known(f->rank),
		"host", findings_made_text(f->host), "card", findings_made_text(f->card), "communicator",
		findings_made_text(f->communicator), "since_step", tool_some(f->since_step), "until_step",
		tool_some(f->until_ns ? f->until_step : 0), "since_ns", tool_some(f->since_ns), "noticed_ns",
		tool_some(f->noticed_ns), "until_ns", tool_some(f->until_ns), "slowdown",
		tool_real(f->slowdown > 0 ? f->slowdown : NAN), "cost_card_hours", tool_real(f->cost_card_hours),
		"activity", findings_made_text(activity_word(f->activity)), "side",
		findings_made_text(finding_side_word(f->side)), "others", findings_made_text(f->others), "evidence",
		findings_made_evidence_of(f), "sentence", findings_row_text(f->sentence), "uid",
		f->uid_known ? tool_count(f->uid) : json_null(), "finding", tool_count(f->id), NULL);
}

static int by_since(const void *a, const void *b)
{
	const struct finding *x = *(const struct finding *const *)a, *y = *(const struct finding *const *)b;

	return ORDER(x->since_ns, y->since_ns) ?: ORDER(x->id, y->id);
}

static bool is_shown(const struct findings_filter *filter, const struct finding *f)
{
	if (f->kind >= FINDING_KIND_MAX || f->cause >= CAUSE_MAX || f->state >= FINDING_STATE_MAX ||
		f->severity >= SEVERITY_MAX || f->tier >= FRAME_TIER_MAX)
		return false;
	if (f->until_ns && f->until_ns < filter->since_ns)
		return false;
	return filter->all || f->state == FINDING_OPEN || f->state == FINDING_CLOSED;
}

json_t *findings_made_rows(const struct findings_made *made, const struct findings_filter *filter)
{
	const struct finding **list = calloc(made->count + 1, sizeof(const struct finding *));
	json_t *rows = list ? json_array() : NULL;
	size_t count = 0;

	for (size_t i = 0; rows && i < made->count; i++)
		if (is_shown(filter, &made->finding[i]))
			list[count++] = &made->finding[i];
	if (count)
		qsort(list, count, sizeof(const struct finding *), by_since);
	for (size_t i = 0; i < count; i++) {
		json_t *row = findings_made_row_of(list[i]);

		if (findings_row_is_wanted(filter, row))
			json_array_append_new(rows, row);
		else
			json_decref(row);
	}
	free(list);
	return rows;
}

const struct finding *findings_made_at(const struct findings_made *made, size_t i)
{
	return i < made->count ? &made->finding[i] : NULL;
}

uint64_t findings_made_left_out(const struct findings_made *made)
{
	return made->left_out;
}
