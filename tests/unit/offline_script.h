/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data-parallel training of OFF_RANKS ranks as events in the order of time, that can be fed to detect as the daemon
 * does, or be written to stores as the daemon does, by nodes and with clocks of their own. Rank OFF_SLOW loads its data
 * slowly from step OFF_FROM on. Deterministic.
 */
#ifndef TESTS_OFFLINE_SCRIPT_H
#define TESTS_OFFLINE_SCRIPT_H

#include "analyzers/detect/detect.h"
#include "tests/unit/store_fixture.h"

#define OFF_RANKS 4
#define OFF_SLOW 3
#define OFF_FROM 200  /* of 122 ms: after the judge's 5 s of warming and 10 s of learning */
#define OFF_STEPS 360 /* of 212 ms from then on: longer than the 30 s of a warning */
#define OFF_FROM_S 30 /* after begin_ns: OFF_FROM has just begun */
#define OFF_BUCKETS 2
#define OFF_EVENTS (OFF_STEPS * OFF_RANKS * (5 + OFF_BUCKETS))
#define OFF_MS 1000000ULL
#define OFF_COMMUNICATOR "00c0ffee00c0ffee"
#define OFF_FOUND_MAX 32

enum off_what { OFF_STAGE, OFF_OP, OFF_STEP };

struct off_event {
	uint64_t start_ns, end_ns;
	enum off_what what;
	enum stage_kind kind;
	int rank;
	int64_t step;
	uint64_t seq;
};

struct off_script {
	bool ops, healthy;
	const char *job;
	int64_t launcher_pid, port; /* 0: not known */
	int jobs, number;	    /* in the store, and which of them it is: their ranks begin in turns */
	uint64_t begin_ns, noise, seq;
	size_t events;
	struct off_event event[OFF_EVENTS];
	uint64_t at_ns[OFF_RANKS];
};

static struct off_script off;

static inline uint64_t off_noise(uint64_t ns)
{
	off.noise = off.noise * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint64_t)((double)ns * (1 + 0.04 * ((double)(off.noise >> 40) / (1 << 24) - 0.5)));
}

static inline void off_add(int rank, enum off_what what, enum stage_kind kind, int64_t step, uint64_t start_ns)
{
	assert_true(off.events < OFF_EVENTS);
	off.event[off.events++] = (struct off_event){.start_ns = start_ns,
		.end_ns = off.at_ns[rank],
		.what = what,
		.kind = kind,
		.rank = rank,
		.step = step,
		.seq = off.seq};
}

static inline void off_own(int rank, enum stage_kind kind, int64_t step, uint64_t length_ns)
{
	uint64_t start_ns = off.at_ns[rank];

	off.at_ns[rank] += off_noise(length_ns);
	off_add(rank, OFF_STAGE, kind, step, start_ns);
}

static inline void off_bucket(int64_t step)
{
	uint64_t called_ns[OFF_RANKS], last_ns = 0;

	off.seq++;
	for (int i = 0; i < OFF_RANKS; i++) {
		called_ns[i] = off.at_ns[i] += off_noise(30 * OFF_MS);
		last_ns = called_ns[i] > last_ns ? called_ns[i] : last_ns;
	}
	for (int i = 0; i < OFF_RANKS; i++) {
		off.at_ns[i] = last_ns + off_noise(2 * OFF_MS);
		if (off.ops)
			off_add(i, OFF_OP, STAGE_USER, step, called_ns[i]);
	}
}

static inline void off_step(int64_t step)
{
	uint64_t begin_ns[OFF_RANKS], backward_ns[OFF_RANKS];
	bool slow = step >= OFF_FROM && !off.healthy;

	for (int i = 0; i < OFF_RANKS; i++) {
		begin_ns[i] = off.at_ns[i];
		off_own(i, STAGE_DATALOADER, step, slow && i == OFF_SLOW ? 100 * OFF_MS : 10 * OFF_MS);
		off_own(i, STAGE_FORWARD, step, 40 * OFF_MS);
		backward_ns[i] = off.at_ns[i];
	}
	for (int bucket = 0; bucket < OFF_BUCKETS; bucket++)
		off_bucket(step);
	for (int i = 0; i < OFF_RANKS; i++) {
		off_add(i, OFF_STAGE, STAGE_BACKWARD, step, backward_ns[i]);
		off_own(i, STAGE_OPTIMIZER, step, 8 * OFF_MS);
		off_add(i, OFF_STEP, STAGE_USER, step, begin_ns[i]);
	}
}

/* Of the same end, stages are before the step that ends with them. */
static inline int off_order(const void *a, const void *b)
{
	const struct off_event *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (x->what > y->what) - (x->what < y->what);
}

/* Ends some seconds ago. */
static inline void off_make(const char *job, bool ops, bool healthy)
{
	off = (struct off_script){.ops = ops, .healthy = healthy, .job = job, .noise = 7, .jobs = 1};
	off.begin_ns = (realtime_ns() / NSEC_PER_SEC - 300) * NSEC_PER_SEC;
	for (int i = 0; i < OFF_RANKS; i++)
		off.at_ns[i] = off.begin_ns + 5 * NSEC_PER_SEC;
	for (int64_t step = 1; step <= OFF_STEPS; step++)
		off_step(step);
	qsort(off.event, off.events, sizeof(off.event[0]), off_order);
}

static inline struct align_rank off_rank(int rank, const char *host)
{
	static char card[OFF_RANKS][8];

	snprintf(card[rank], sizeof(card[rank]), "%d", rank % 2);
	return (struct align_rank){.job = off.job,
		.rank = rank,
		.world_size = OFF_RANKS,
		.host = host,
		.card = card[rank],
		.start_ns = off.begin_ns,
		.from_start = true};
}

/* As the daemon feeds them; all of one node. */
static inline void off_online(struct detect *detect)
{
	struct align *align = detect_align(detect);
	uint64_t advanced_ns = 0;
	int process[OFF_RANKS];

	for (int i = 0; i < OFF_RANKS; i++) {
		const struct align_rank rank = off_rank(i, "node-a");

		process[i] = align_rank_new(align, &rank);
		assert_true(process[i] >= 0);
		if (off.ops)
			align_comm(align, process[i], OFF_COMMUNICATOR, COMM_KIND_DATA, OFF_RANKS, i);
	}
	for (size_t i = 0; i < off.events; i++) {
		const struct off_event *e = &off.event[i];

		if (e->end_ns > advanced_ns + 100 * OFF_MS) {
			detect_advance(detect, e->end_ns);
			advanced_ns = e->end_ns;
		}
		if (e->what == OFF_STAGE)
			align_stage(align, process[e->rank],
				&(struct align_stage){.step = e->step,
					.kind = e->kind,
					.start_ns = e->start_ns,
					.duration_ns = e->end_ns - e->start_ns,
					.thread_id = 1});
		else if (e->what == OFF_OP)
			align_op(align, process[e->rank],
				&(struct align_op){.communicator = OFF_COMMUNICATOR,
					.seq = e->seq,
					.op = "AllReduce",
					.step = e->step,
					.start_ns = e->start_ns,
					.duration_ns = e->end_ns - e->start_ns,
					.bytes = 1 << 20,
					.peer = -1,
					.member = e->rank,
					.tier = FRAME_TIER_HOST});
		else
			align_step(align, process[e->rank],
				&(struct align_step){e->step, e->start_ns, e->end_ns - e->start_ns, false});
	}
	detect_end(detect);
}

static inline struct store *off_store(const char *name)
{
	static char folder[PATH_MAX];
	struct store_options of_node = options;
	struct store *store = NULL;

	snprintf(folder, sizeof(folder), "%s/%s", dir, name);
	of_node.state_dir = folder;
	assert_int_equal(store_open(&of_node, &store), 0);
	return store;
}

static inline int64_t off_instance(int rank)
{
	return rank * off.jobs + (off.number + rank) % off.jobs + 1;
}

static inline void off_put_rank(struct store *store, int rank, const char *host, int64_t skew_ns)
{
	const struct align_rank who = off_rank(rank, host);
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(rank),
				       .world_size = field_int(OFF_RANKS),
				       .job = field_text_if(off.job),
				       .host = field_text(host),
				       .card = field_text(who.card),
				       .pid = field_int(100 + rank),
				       .start_time_ns = field_time((int64_t)off.begin_ns + skew_ns),
				       .first_seen_ns = field_time((int64_t)off.begin_ns + skew_ns + 1000000),
				       .last_seen_ns = field_time((int64_t)off.begin_ns + skew_ns + 1000000),
				       .ended = field_int(0),
				       .launcher_pid = field_int_if(off.launcher_pid > 0, off.launcher_pid),
				       .port = field_int_if(off.port > 0, off.port),
				       .instance = field_int(off_instance(rank))});
}

static inline void off_put_comm_of(struct store *store, int rank, const char *communicator, int64_t key)
{
	store_put_communicators(store, &(struct row_communicators){.communicator = field_text(communicator),
					       .rank = field_int(rank),
					       .member = field_int(rank),
					       .members = field_int(OFF_RANKS),
					       .family = field_text("gloo"),
					       .kind = field_text("data"),
					       .instance = field_int(off_instance(rank)),
					       .communicator_key = field_int(key)});
}

static inline void off_put_comm(struct store *store, int rank)
{
	off_put_comm_of(store, rank, OFF_COMMUNICATOR, rank + 1);
}

static inline void off_put_stage(struct store *store, const struct off_event *e, int64_t start_ns)
{
	store_put_stages(store, &(struct row_stages){.rank = field_int(e->rank),
					.step = field_int(e->step),
					.stage = field_text(stage_text(e->kind)),
					.start_ns = field_time(start_ns),
					.duration_ns = field_duration(e->end_ns - e->start_ns),
					.thread_id = field_int(1),
					.depth = field_int(0),
					.instance = field_int(off_instance(e->rank))});
}

static inline void off_put_op(struct store *store, const struct off_event *e, int64_t start_ns)
{
	store_put_collectives(store, &(struct row_collectives){.rank = field_int(e->rank),
					     .step = field_int(e->step),
					     .communicator = field_text(OFF_COMMUNICATOR),
					     .seq = field_int(e->seq),
					     .op = field_text("AllReduce"),
					     .bytes = field_int(1 << 20),
					     .host_start_ns = field_time(start_ns),
					     .host_duration_ns = field_duration(e->end_ns - e->start_ns),
					     .tier = field_text("host"),
					     .seq_from = field_text("init"),
					     .family = field_text("gloo"),
					     .instance = field_int(off_instance(e->rank))});
}

static inline void off_put_step(struct store *store, const struct off_event *e, int64_t start_ns)
{
	store_put_steps(store, &(struct row_steps){.rank = field_int(e->rank),
				       .step = field_int(e->step),
				       .start_ns = field_time(start_ns),
				       .duration_ns = field_duration(e->end_ns - e->start_ns),
				       .kind = field_text("train"),
				       .instance = field_int(off_instance(e->rank))});
}

/* Ranks first to last to the store of that name below dir, whose clock is skew_ns ahead: of all events, those from one
 * to before another. */
static inline void off_write_part(const char *name, int first, int last, int64_t skew_ns, size_t from, size_t end)
{
	static void (*const put[])(struct store *, const struct off_event *, int64_t) = {
		off_put_stage, off_put_op, off_put_step};
	struct store *store = off_store(name);

	for (int i = first; i <= last; i++) {
		off_put_rank(store, i, name, skew_ns);
		if (off.ops)
			off_put_comm(store, i);
	}
	for (size_t i = from; i < end; i++) {
		const struct off_event *e = &off.event[i];

		if (e->rank >= first && e->rank <= last)
			put[e->what](store, e, (int64_t)e->start_ns + skew_ns);
	}
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_close(store);
}

static inline void off_write(const char *name, int first, int last, int64_t skew_ns)
{
	off_write_part(name, first, last, skew_ns, 0, off.events);
}

/* Findings as last published. */
struct off_found {
	size_t count;
	struct finding finding[OFF_FOUND_MAX];
};

static inline void off_on_finding(void *arg, const struct finding *finding)
{
	struct off_found *found = arg;
	size_t i = 0;

	while (i < found->count && found->finding[i].id != finding->id)
		i++;
	assert_true(i < OFF_FOUND_MAX);
	found->finding[i] = *finding;
	if (i == found->count)
		found->count++;
}

static inline struct detect *off_detect(struct off_found *found)
{
	struct detect_options defaults;
	struct detect *detect;

	detect_options_default(&defaults);
	*found = (struct off_found){0};
	detect = detect_new(&defaults, &(struct detect_sink){.finding = off_on_finding, .arg = found});
	assert_non_null(detect);
	return detect;
}

/* The only one of that kind that was confirmed; NULL: none, or more than one. */
static inline const struct finding *off_only(const struct off_found *found, enum finding_kind kind)
{
	const struct finding *ret = NULL;

	for (size_t i = 0; i < found->count; i++) {
		const struct finding *f = &found->finding[i];

		if (f->kind != kind || (f->state != FINDING_OPEN && f->state != FINDING_CLOSED))
			continue;
		if (ret)
			return NULL;
		ret = f;
	}
	return ret;
}

#endif
