/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks, created on first use, in a hash table of pointers. Further lanes of a track are tracks of the same name and
 * parent, which viewers merge.
 */
#include "analyzers/timeline/timeline_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/fnv1a.h"

struct lane {
	uint64_t id; /* of its track */
	size_t depth;
	int64_t end_ns[LANES_DEPTH]; /* of open slices, outermost first */
};

static bool timeline_lanes_take(struct lane *lane, bool nest, int64_t start_ns, int64_t end_ns)
{
	while (lane->depth > 0 && lane->end_ns[lane->depth - 1] <= start_ns)
		lane->depth--;
	if (lane->depth > 0 && (!nest || lane->depth == LANES_DEPTH || lane->end_ns[lane->depth - 1] < end_ns))
		return false;
	lane->end_ns[lane->depth++] = end_ns;
	return true;
}

int lanes_place(struct lanes *lanes, int64_t start_ns, int64_t end_ns)
{
	struct lane *more;

	for (size_t i = 0; i < lanes->count; i++)
		if (timeline_lanes_take(&lanes->lane[i], lanes->nest, start_ns, end_ns))
			return (int)i;
	if (lanes->count == LANES_MAX)
		return -ENOSPC;
	/* By one: most tracks have one lane. */
	more = realloc(lanes->lane, (lanes->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	lanes->lane = more;
	lanes->lane[lanes->count] = (struct lane){.depth = 1, .end_ns = {end_ns}};
	return (int)lanes->count++;
}

void lanes_clear(struct lanes *lanes)
{
	free(lanes->lane);
	lanes->lane = NULL;
	lanes->count = 0;
}

#define SLOTS (2 * TIMELINE_TRACKS_MAX)

struct tracks {
	uint64_t ids;				 /* assigned so far */
	size_t used;				 /* tracks and lanes */
	uint64_t node_track[TIMELINE_NODES_MAX]; /* 0: not written yet */
	struct timeline_track *slot[SLOTS];
};

enum parent { PARENT_PROCESS, PARENT_THREAD, PARENT_EITHER };

static const struct class_row {
	const char *name; /* NULL: the label */
	enum trace_track_kind kind;
	enum parent parent;
	bool nest;
	int rank;
} classes[TRACK_CLASSES] = {
	[TRACK_FINDINGS] = {"findings", TRACE_SLICES, PARENT_PROCESS, false, 1},
	[TRACK_GAPS] = {"not watched", TRACE_SLICES, PARENT_PROCESS, false, 2},
	[TRACK_STATES] = {"process state", TRACE_SLICES, PARENT_PROCESS, false, 3},
	[TRACK_STEPS] = {"steps", TRACE_SLICES, PARENT_PROCESS, false, 4},
	[TRACK_DEVICE] = {NULL, TRACE_SLICES, PARENT_PROCESS, false, 5},
	[TRACK_THREAD] = {NULL, TRACE_THREAD, PARENT_PROCESS, true, 6},
	[TRACK_COLLECTIVES] = {"collectives", TRACE_SLICES, PARENT_THREAD, false, 1},
	[TRACK_OFFCPU] = {"off-CPU", TRACE_SLICES, PARENT_THREAD, false, 2},
	[TRACK_MEMORY] = {"memory calls", TRACE_SLICES, PARENT_THREAD, true, 3},
	[TRACK_WAITS] = {"waits", TRACE_SLICES, PARENT_THREAD, false, 4},
	[TRACK_COUNTER] = {NULL, TRACE_COUNTER, PARENT_EITHER, false, 7},
	[TRACK_DROPS] = {"lost records", TRACE_SLICES, PARENT_PROCESS, false, 2},
	[TRACK_CLOCK] = {"clock steps", TRACE_SLICES, PARENT_PROCESS, false, 3},
};

int tracks_new(struct tracks **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct tracks *tracks_free(struct tracks *tracks)
{
	for (size_t i = 0; tracks && i < SLOTS; i++) {
		if (!tracks->slot[i])
			continue;
		lanes_clear(&tracks->slot[i]->lanes);
		free(tracks->slot[i]);
	}
	free(tracks);
	return NULL;
}

static void add_word(char *text, size_t size, const char *before, const char *word)
{
	size_t used = strlen(text);

	if (*word && used < size)
		snprintf(text + used, size - used, "%s%s", before, word);
}

/* "rank 3, card 1, JOB, HOST" */
static uint64_t rank_track(struct timeline *t, struct timeline_rank *rank)
{
	char name[256];

	if (rank->written)
		return rank->track;
	snprintf(name, sizeof(name), "rank %" PRId64, rank->rank);
	add_word(name, sizeof(name), ", card ", rank->card);
	add_word(name, sizeof(name), ", ", rank->job);
	add_word(name, sizeof(name), ", ", rank->host);
	rank->written = true;
	rank->track = ++t->tracks->ids;
	t->counts.ranks++;
	trace_track(t->trace, &(struct trace_track){
				      .kind = TRACE_PROCESS,
				      .id = rank->track,
				      .name = name,
				      .where = "",
				      .pid = rank->shown_pid,
				      .rank = rank->rank < 1000000 ? (int)rank->rank + 1 : 1000000,
			      });
	return rank->track;
}

static const char *node_name(const struct timeline *t)
{
	for (size_t i = 0; i < t->ranks_count; i++)
		if (t->rank[i].node == t->node && t->rank[i].host[0])
			return t->rank[i].host;
	return t->options->store[t->node].path;
}

static uint64_t node_track(struct timeline *t)
{
	uint64_t *id = &t->tracks->node_track[t->node];
	char name[256];

	if (*id)
		return *id;
	*id = ++t->tracks->ids;
	snprintf(name, sizeof(name), "node %s", node_name(t));
	trace_track(t->trace, &(struct trace_track){
				      .kind = TRACE_PROCESS,
				      .id = *id,
				      .name = name,
				      .where = "",
				      .pid = TIMELINE_PID_FREE + (int64_t)t->node,
			      });
	return *id;
}

static uint64_t timeline_tracks_hash_of(size_t owner, enum track_class class, int64_t number, const char *label)
{
	uint64_t hash = (uint64_t)owner * 31 + (uint64_t) class;

	hash = fnv1a_text((hash ^ (uint64_t)number) * 0x9e3779b97f4a7c15ULL, label);
	return hash ^ hash >> 32;
}

static struct timeline_track **timeline_tracks_slot_of(struct tracks *tracks, const struct timeline_track *key)
{
	size_t at = key->hash % SLOTS;

	for (; tracks->slot[at]; at = (at + 1) % SLOTS) {
		const struct timeline_track *track = tracks->slot[at];

		if (track->hash == key->hash && track->owner == key->owner && track->class == key->class &&
			track->number == key->number && strcmp(track->label, key->label) == 0)
			break;
	}
	return &tracks->slot[at];
}

/* "NAME|UNIT" */
static void name_counter(struct timeline_track *track)
{
	char *bar = strchr(track->name, '|');

	track->trace.unit = "";
	if (bar) {
		*bar = 0;
		track->trace.unit = bar + 1;
	}
}

static void name_track(const struct timeline *t, struct timeline_track *track, const struct timeline_rank *rank)
{
	const struct class_row *class = &classes[track->class];
	bool main = rank && rank->pid == track->number;

	snprintf(track->name, sizeof(track->name), "%s", class->name ? class->name : track->label);
	if (track->class == TRACK_COUNTER)
		name_counter(track);
	if (track->class == TRACK_THREAD)
		snprintf(track->name, sizeof(track->name), "%s", main ? "main" : "thread");
	if (class->parent != PARENT_PROCESS && track->number)
		snprintf(track->where, sizeof(track->where), "thread %" PRId64, track->number);
}

/* Writes the track, after its thread's. */
static int timeline_tracks_write(struct timeline *t, struct timeline_track *track, struct timeline_rank *rank)
{
	const struct class_row *class = &classes[track->class];
	bool below = class->parent == PARENT_THREAD || (class->parent == PARENT_EITHER && track->number);
	uint64_t process = rank ? rank_track(t, rank) : node_track(t);
	const struct timeline_track *thread =
		below && rank ? timeline_track(t, rank, TRACK_THREAD, track->number, "") : NULL;

	if (below && rank && !thread)
		return -ENOSPC;
	name_track(t, track, rank);
	track->trace.kind = class->kind;
	track->trace.id = ++t->tracks->ids;
	track->trace.parent = thread ? thread->trace.id : process;
	track->trace.name = track->name;
	track->trace.where = track->where;
	track->trace.pid = rank ? rank->shown_pid : TIMELINE_PID_FREE + (int64_t)t->node;
	track->trace.tid = class->kind == TRACE_THREAD && track->number > 0 && track->number < TIMELINE_TID_FREE
				   ? track->number
				   : TIMELINE_TID_FREE + (int64_t)track->trace.id;
	track->trace.rank = class->rank;
	track->lanes.nest = class->nest;
	trace_track(t->trace, &track->trace);
	return 0;
}

struct timeline_track *timeline_track(
	struct timeline *t, struct timeline_rank *rank, enum track_class class, int64_t number, const char *label)
{
	struct timeline_track key = {.class = class, .number = number}, *track;

	key.owner = rank ? (size_t)(rank - t->rank) + 1 : SIZE_MAX - t->node;
	trace_clean(label, key.label, sizeof(key.label));
	key.hash = timeline_tracks_hash_of(key.owner, class, number, key.label);
	track = *timeline_tracks_slot_of(t->tracks, &key);
	if (track)
		return track;
	if (t->tracks->used == TIMELINE_TRACKS_MAX || !(track = malloc(sizeof(*track))))
		return NULL;
	*track = key;
	if (timeline_tracks_write(t, track, rank) < 0) {
		free(track);
		return NULL;
	}
	t->tracks->used++;
	*timeline_tracks_slot_of(t->tracks, &key) = track; /* writing may have inserted its thread's track */
	return track;
}

void timeline_thread_name(struct timeline *t, struct timeline_rank *rank, int64_t thread, const char *name)
{
	struct timeline_track *track = timeline_track(t, rank, TRACK_THREAD, thread, "");

	if (!track || !*name || track->value > 0)
		return;
	track->value = 1; /* named */
	trace_clean(name, track->name, sizeof(track->name));
	trace_track(t->trace, &track->trace);
}

/* The track of a new lane; lane 0 is the track itself. */
static void tracks_new_lane(struct timeline *t, struct timeline_track *track, size_t lane)
{
	struct trace_track more = track->trace;

	track->lanes.lane[lane].id = track->trace.id;
	if (lane == 0)
		return;
	track->lanes.lane[lane].id = more.id = ++t->tracks->ids;
	more.tid = TIMELINE_TID_FREE + (int64_t)more.id;
	if (more.kind == TRACE_THREAD) {
		more.kind = TRACE_SLICES;
		more.parent = track->trace.id;
		more.name = "overlapping stages";
	}
	trace_track(t->trace, &more);
	t->tracks->used++;
}

bool timeline_put(
	struct timeline *t, struct timeline_track *track, struct trace_event *event, struct trace_end *ret_end)
{
	struct trace_track on;
	int lane = 0;

	if (!track) {
		t->counts.crowded++;
		return false;
	}
	on = track->trace;
	if (!event->instant) {
		size_t before = track->lanes.count;

		lane = t->tracks->used < TIMELINE_TRACKS_MAX
			       ? lanes_place(&track->lanes, event->start_ns, event->end_ns)
			       : -ENOSPC;
		if (lane < 0) {
			t->counts.crowded++;
			return false;
		}
		if ((size_t)lane == before)
			tracks_new_lane(t, track, (size_t)lane);
		on.id = track->lanes.lane[lane].id;
		on.tid = lane ? TIMELINE_TID_FREE + (int64_t)on.id : on.tid;
	}
	event->track = &on;
	trace_event(t->trace, event);
	if (ret_end)
		*ret_end = (struct trace_end){on.pid, on.tid, event->start_ns};
	return true;
}

void timeline_value(struct timeline *t, struct timeline_track *track, int64_t time_ns, double value)
{
	if (!track) {
		t->counts.crowded++;
		return;
	}
	track->value = value;
	trace_counter(t->trace, &track->trace, time_ns, value);
}
