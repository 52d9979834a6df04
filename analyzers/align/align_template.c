/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/align/align_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/hash.h"

#define WORDS_AN_OP 2

/* A plan that is being made. */
struct draft {
	struct align_shape *shape;
	struct align_lane lane[ALIGN_LANES_MAX];
	uint32_t base[ALIGN_LANES_MAX], newest[ALIGN_LANES_MAX];
};

/* The lane of the record, likely the one that came after the lane before; ALIGN_LANES_MAX: no more of them. */
static uint32_t lane_of(struct draft *draft, const struct align_record *record, uint32_t guess)
{
	uint32_t comm = align_record_comm(record), lanes = draft->shape->lanes;
	bool p2p = align_record_p2p(record);

	for (uint32_t i = 0, at = guess; i < lanes; i++, at++) {
		const struct align_lane *lane = &draft->lane[at < lanes ? at : at - lanes];

		if (lane->comm == comm && lane->sides == record->sides && lane->p2p == p2p)
			return (uint32_t)(lane - draft->lane);
	}
	if (lanes == ALIGN_LANES_MAX)
		return ALIGN_LANES_MAX;
	draft->lane[lanes] = (struct align_lane){.comm = comm, .sides = record->sides, .p2p = p2p};
	draft->base[lanes] = record->seq;
	draft->shape->lane[lanes] = (struct align_shape_lane){.count = 0};
	return draft->shape->lanes++;
}

/* False: not a step that a plan can be made of. */
static bool draw(struct draft *draft, const struct align_slot *slot)
{
	struct align_shape *shape = draft->shape;
	uint32_t lane = 0;

	for (uint32_t i = 0; i < slot->records; i++) {
		const struct align_record *record = &slot->record[i];
		struct align_entry *entry = &shape->entry[i];
		struct align_shape_lane *one;

		lane = lane_of(draft, record, lane + 1 < shape->lanes ? lane + 1 : 0);
		if (lane == ALIGN_LANES_MAX)
			return false;
		one = &shape->lane[lane];
		if (one->count && record->seq <= draft->newest[lane])
			return false;
		draft->newest[lane] = record->seq;
		entry->bytes = align_record_bytes(record);
		entry->what = (uint16_t)record->bytes_what;
		entry->seq = record->seq - draft->base[lane];
		entry->lane = (uint16_t)lane;
		entry->nth = (uint16_t)one->count;
		one->count++;
		one->like = hash_mix(one->like, (uint64_t)align_record_tier(record) << 32 | entry->seq);
		shape->key = hash_mix(hash_mix(shape->key, entry->bytes),
			(uint64_t)entry->seq << 32 | (uint32_t)entry->what << 16 | entry->lane);
	}
	shape->count = slot->records;
	return true;
}

static bool equal(const struct align_shape *a, const struct align_shape *b)
{
	return a->key == b->key && a->count == b->count && a->lanes == b->lanes &&
	       memcmp(a->entry, b->entry, a->count * sizeof(*a->entry)) == 0;
}

/* The job's own one that is equal, which may be this; NULL: too many of them. Takes the shape. */
static struct align_shape *align_template_intern(struct align_job *job, struct align_shape *shape)
{
	struct align_shape **bucket = &job->shape[shape->key % ALIGN_SHAPE_BUCKETS];

	for (struct align_shape *one = *bucket; one; one = one->next) {
		if (equal(one, shape)) {
			free(shape);
			return one;
		}
	}
	if (job->entries + shape->count > ALIGN_ENTRIES_MAX) {
		free(shape);
		return NULL;
	}
	job->entries += shape->count;
	shape->next = *bucket;
	*bucket = shape;
	return shape;
}

static void align_template_forget(struct align_job *job, struct align_shape *shape)
{
	struct align_shape **link = &job->shape[shape->key % ALIGN_SHAPE_BUCKETS];

	while (*link != shape)
		link = &(*link)->next;
	*link = shape->next;
	job->entries -= shape->count;
	free(shape);
}

void align_template_drop(struct align_job *job, struct align_template **plan)
{
	struct align_template *one = *plan;

	*plan = NULL;
	if (!one || --one->refs)
		return;
	if (!--one->shape->refs)
		align_template_forget(job, one->shape);
	free(one);
}

void align_template_learn(struct align_job *job, struct align_process *process, const struct align_slot *slot)
{
	struct draft draft;
	struct align_shape *shape;
	struct align_template *plan;
	uint32_t lanes;

	align_template_drop(job, &process->plan);
	if (slot->records < ALIGN_SHAPE_MIN || slot->records > ALIGN_SHAPE_MAX)
		return;
	draft.shape = calloc(1, sizeof(*shape) + slot->records * sizeof(*shape->entry));
	if (!draft.shape)
		return;
	if (!draw(&draft, slot)) {
		free(draft.shape);
		return;
	}
	shape = align_template_intern(job, draft.shape);
	if (!shape)
		return;
	lanes = shape->lanes;
	plan = malloc(sizeof(*plan) + lanes * sizeof(*plan->lane));
	if (!plan) {
		if (!shape->refs)
			align_template_forget(job, shape);
		return;
	}
	*plan = (struct align_template){.refs = 1, .count = shape->count, .lanes = lanes, .shape = shape};
	memcpy(plan->lane, draft.lane, lanes * sizeof(*plan->lane));
	shape->refs++;
	process->plan = plan;
}

bool align_template_begin(struct align_process *process, struct align_slot *slot)
{
	struct align_template *plan = process->plan;
	uint32_t words = plan->lanes + plan->count * WORDS_AN_OP;

	if (slot->words < words) {
		uint32_t *word = process->spare_word;

		process->spare_word = NULL;
		if (process->spare_words < words) {
			free(word);
			word = malloc(words * sizeof(*word));
		} else {
			words = process->spare_words;
		}
		process->spare_words = 0;
		if (!word)
			return false;
		free(slot->word);
		slot->word = word;
		slot->words = words;
	}
	slot->plan = plan;
	plan->refs++;
	return true;
}

/* As full records; false: out of memory. */
static bool write_out(struct align_slot *slot, uint32_t capacity)
{
	const struct align_template *plan = slot->plan;
	const uint32_t *time = slot->word + plan->lanes;
	uint64_t start_ns = slot->first_ns;

	if (slot->capacity < capacity) {
		struct align_record *record = malloc(capacity * sizeof(*record));

		if (!record)
			return false;
		free(slot->record);
		slot->record = record;
		slot->capacity = capacity;
	}
	for (uint32_t i = 0; i < slot->records; i++, time += WORDS_AN_OP) {
		const struct align_entry *entry = &plan->shape->entry[i];
		const struct align_lane *lane = &plan->lane[entry->lane];

		start_ns += time[0];
		slot->record[i] = (struct align_record){.start_ns = start_ns,
			.duration_comm = (uint64_t)time[1] << 16 | lane->comm,
			.bytes_what = entry->bytes << 16 | entry->what,
			.seq = slot->word[entry->lane] + entry->seq,
			.sides = lane->sides};
	}
	return true;
}

void align_template_leave(
	struct align *align, struct align_job *job, struct align_process *process, struct align_slot *slot)
{
	uint32_t need = slot->plan->count + 1;

	if (slot->records && !write_out(slot, need)) {
		align->counts.coll_left_out += slot->records;
		slot->lost += slot->records;
		job->records -= slot->records;
		slot->records = 0;
	}
	align_template_drop(job, &slot->plan);
	align_slot_spare_words(process, slot);
}
