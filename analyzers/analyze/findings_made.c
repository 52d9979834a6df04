/* SPDX-License-Identifier: Apache-2.0 */
/* See findings_rows.h. Columns, their order and what is NULL are those of the daemon's rows (daemon/findings/online_publish.c).
 */
#include "analyzers/analyze/findings_rows.h"
#include "analyzers/base/array.h"

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
	if (made->count == FINDINGS_MADE_MAX) {
		made->left_out++;
		return;
	}
	if (made->count == made->capacity) {
		size_t capacity = made->capacity ? 2 * made->capacity : 64;
		struct finding *more = realloc(made->finding, capacity * sizeof(*more));

		if (!more) {
			made->left_out++;
			return;
		}
		made->finding = more;
		made->capacity = capacity;
	}
	/* Mostly the newest: the first telling of a number comes in their order. */
	for (size_t i = made->count++; i > at; i--)
		made->finding[i] = made->finding[i - 1];
	made->finding[at] = *finding;
}

static json_t *findings_made_text_or_null(const char *text)
{
	return text[0] ? findings_row_text(text) : json_null();
}

static json_t *findings_made_number_or_null(double number)
{
	return isfinite(number) ? json_real(number) : json_null();
}

static json_t *count_or_null(uint64_t count)
{
	return count ? json_integer((json_int_t)count) : json_null();
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
	json_t *row = json_object();

	json_object_set_new(row, "kind", json_string(finding_kind_word(f->kind)));
	json_object_set_new(row, "cause", json_string(finding_cause_word(f->cause)));
	json_object_set_new(row, "state", json_string(finding_state_word(f->state)));
	json_object_set_new(row, "severity", json_string(finding_severity_word(f->severity)));
	json_object_set_new(row, "confidence", findings_made_number_or_null(f->confidence));
	json_object_set_new(row, "tier", json_string(finding_tier_word(f->tier)));
	json_object_set_new(row, "job", findings_made_text_or_null(f->job));
	json_object_set_new(row, "rank", f->rank < 0 ? json_null() : json_integer(f->rank));
	json_object_set_new(row, "host", findings_made_text_or_null(f->host));
	json_object_set_new(row, "card", findings_made_text_or_null(f->card));
	json_object_set_new(row, "communicator", findings_made_text_or_null(f->communicator));
	json_object_set_new(row, "since_step", count_or_null(f->since_step));
	json_object_set_new(row, "until_step", count_or_null(f->until_ns ? f->until_step : 0));
	json_object_set_new(row, "since_ns", count_or_null(f->since_ns));
	json_object_set_new(row, "noticed_ns", count_or_null(f->noticed_ns));
	json_object_set_new(row, "until_ns", count_or_null(f->until_ns));
	json_object_set_new(row, "slowdown", f->slowdown > 0 ? findings_made_number_or_null(f->slowdown) : json_null());
	json_object_set_new(row, "cost_card_hours", findings_made_number_or_null(f->cost_card_hours));
	json_object_set_new(row, "activity", findings_made_text_or_null(activity_word(f->activity)));
	json_object_set_new(row, "side", findings_made_text_or_null(finding_side_word(f->side)));
	json_object_set_new(row, "others", findings_made_text_or_null(f->others));
	json_object_set_new(row, "evidence", findings_made_evidence_of(f));
	json_object_set_new(row, "sentence", findings_row_text(f->sentence));
	json_object_set_new(row, "finding", json_integer((json_int_t)f->id));
	return row;
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
