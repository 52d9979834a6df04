/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/align/align_internal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/hash.h"

#define WORDS_AN_OP 2

/* A template that is being made. */
struct draft {
	struct align_pattern *pattern;
	struct align_stream stream[ALIGN_STREAMS_MAX];
	uint32_t base[ALIGN_STREAMS_MAX], newest[ALIGN_STREAMS_MAX];
};

/* The stream of the record, likely the one that came after the stream before; ALIGN_STREAMS_MAX: no more of them. */
static uint32_t align_template_stream_of(struct draft *draft, const struct align_record *record, uint32_t guess)
{
	uint32_t comm = align_record_comm(record), streams = draft->pattern->streams;
	bool p2p = align_record_p2p(record);

	for (uint32_t i = 0, at = guess; i < streams; i++, at++) {
		const struct align_stream *stream = &draft->stream[at < streams ? at : at - streams];

		if (stream->comm == comm && stream->sides == record->sides && stream->p2p == p2p)
			return (uint32_t)(stream - draft->stream);
	}
	if (streams == ALIGN_STREAMS_MAX)
		return ALIGN_STREAMS_MAX;
	draft->stream[streams] = (struct align_stream){.comm = comm, .sides = record->sides, .p2p = p2p};
	draft->base[streams] = record->seq;
	draft->pattern->stream[streams] = (struct align_pattern_stream){.count = 0};
	return draft->pattern->streams++;
}

/* False: not a step that a template can be made of. */
static bool align_template_draw(struct draft *draft, const struct align_slot *slot)
{
	struct align_pattern *pattern = draft->pattern;
	uint32_t stream = 0;

	for (uint32_t i = 0; i < slot->records; i++) {
		const struct align_record *record = &slot->record[i];
		struct align_entry *entry = &pattern->entry[i];
		struct align_pattern_stream *one;

		stream = align_template_stream_of(draft, record, stream + 1 < pattern->streams ? stream + 1 : 0);
		if (stream == ALIGN_STREAMS_MAX)
			return false;
		one = &pattern->stream[stream];
		if (one->count && record->seq <= draft->newest[stream])
			return false;
		draft->newest[stream] = record->seq;
		entry->bytes = align_record_bytes(record);
		entry->what = (uint16_t)record->bytes_what;
		entry->seq = record->seq - draft->base[stream];
		entry->stream = (uint16_t)stream;
		entry->nth = (uint16_t)one->count;
		one->count++;
		one->like = hash_mix(one->like, (uint64_t)align_record_tier(record) << 32 | entry->seq);
		pattern->key = hash_mix(hash_mix(pattern->key, entry->bytes),
			(uint64_t)entry->seq << 32 | (uint32_t)entry->what << 16 | entry->stream);
	}
	pattern->count = slot->records;
	return true;
}

static bool align_template_equal(const struct align_pattern *a, const struct align_pattern *b)
{
	return a->key == b->key && a->count == b->count && a->streams == b->streams &&
	       memcmp(a->entry, b->entry, a->count * sizeof(*a->entry)) == 0;
}

/* The job's own one that is equal, which may be this; NULL: too many of them. Takes the pattern. */
static struct align_pattern *align_template_intern(struct align_job *job, struct align_pattern *pattern)
{
	struct align_pattern **bucket = &job->pattern[pattern->key % ALIGN_PATTERN_BUCKETS];

	for (struct align_pattern *one = *bucket; one; one = one->next) {
		if (align_template_equal(one, pattern)) {
			free(pattern);
			return one;
		}
	}
	if (job->entries + pattern->count > ALIGN_ENTRIES_MAX) {
		free(pattern);
		return NULL;
	}
	job->entries += pattern->count;
	pattern->next = *bucket;
	*bucket = pattern;
	return pattern;
}

static void align_template_forget(struct align_job *job, struct align_pattern *pattern)
{
	struct align_pattern **link = &job->pattern[pattern->key % ALIGN_PATTERN_BUCKETS];

	while (*link != pattern)
		link = &(*link)->next;
	*link = pattern->next;
	job->entries -= pattern->count;
	free(pattern);
}

void align_template_drop(struct align_job *job, struct align_template **template)
{
	struct align_template *one = *template;

	*template = NULL;
	if (!one || --one->refs)
		return;
	if (!--one->pattern->refs)
		align_template_forget(job, one->pattern);
	free(one);
}

void align_template_learn(struct align_job *job, struct align_process *process, const struct align_slot *slot)
{
	struct draft draft;
	struct align_pattern *pattern;
	struct align_template *template;
	uint32_t streams;

	align_template_drop(job, &process->template);
	if (slot->records < ALIGN_PATTERN_MIN || slot->records > ALIGN_PATTERN_MAX)
		return;
	draft.pattern = calloc(1, sizeof(*pattern) + slot->records * sizeof(*pattern->entry));
	if (!draft.pattern)
		return;
	if (!align_template_draw(&draft, slot)) {
		free(draft.pattern);
		return;
	}
	pattern = align_template_intern(job, draft.pattern);
	if (!pattern)
		return;
	streams = pattern->streams;
	template = malloc(sizeof(*template) + streams * sizeof(*template->stream));
	if (!template) {
		if (!pattern->refs)
			align_template_forget(job, pattern);
		return;
	}
	*template = (struct align_template){.refs = 1, .count = pattern->count, .streams = streams, .pattern = pattern};
	memcpy(template->stream, draft.stream, streams * sizeof(*template->stream));
	pattern->refs++;
	process->template = template;
}

bool align_template_begin(struct align_process *process, struct align_slot *slot)
{
	struct align_template *template = process->template;
	uint32_t words = template->streams + template->count * WORDS_AN_OP;

	if (slot->words < words) {
		uint32_t *word = process->spare.word;

		process->spare.word = NULL;
		if (process->spare.words < words) {
			free(word);
			word = malloc(words * sizeof(*word));
		} else {
			words = process->spare.words;
		}
		process->spare.words = 0;
		if (!word)
			return false;
		free(slot->word);
		slot->word = word;
		slot->words = words;
	}
	slot->template = template;
	template->refs++;
	return true;
}

/* As full records; false: out of memory. */
static bool write_out(struct align_slot *slot, uint32_t capacity)
{
	const struct align_template *template = slot->template;
	const uint32_t *time = slot->word + template->streams;
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
		const struct align_entry *entry = &template->pattern->entry[i];
		const struct align_stream *stream = &template->stream[entry->stream];

		start_ns += time[0];
		slot->record[i] = (struct align_record){.start_ns = start_ns,
			.duration_comm = (uint64_t)time[1] << 16 | stream->comm,
			.bytes_what = entry->bytes << 16 | entry->what,
			.seq = slot->word[entry->stream] + entry->seq,
			.sides = stream->sides};
	}
	return true;
}

void align_template_leave(
	struct align *align, struct align_job *job, struct align_process *process, struct align_slot *slot)
{
	uint32_t need = slot->template->count + 1;

	if (slot->records && !write_out(slot, need)) {
		align->counts.coll_left_out += slot->records;
		slot->lost += slot->records;
		job->records -= slot->records;
		slot->records = 0;
	}
	align_template_drop(job, &slot->template);
	align_slot_spare_words(process, slot);
}
