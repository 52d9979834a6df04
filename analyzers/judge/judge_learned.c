/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a judge has learned of a job, as JSON, for one that goes on after a restart: else a fault of that time would be
 * its usual. One that lacks a field, or has a number out of range, is refused. Not kept: evidence, classes of ranks,
 * the mean of the last seconds, and what detectors have learned.
 */
#include "analyzers/base/text.h"
#include "analyzers/judge/judge_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define LEARNED_RANKS_MAX 1024 /* of a daemon: those of one node */
#define LEARNED_MOST 1e12      /* of any number: s, steps, J */
/* Of its newest frame: after a longer time without a daemon a job may do other work */
#define LEARNED_AGE_NS 3600000000000ULL

struct learned_field {
	const char *name;
	size_t offset; /* of a double */
};

static const struct learned_field learned_of_job[] = {
	{"noise_of_ranks", offsetof(struct judge, rank_peak)},
	{"noise_of_job", offsetof(struct judge, whole_peak)},
	{"alone", offsetof(struct judge, single_growth_s)},
	{"plain", offsetof(struct judge, probe_cost_s)},
	{"plain_steps", offsetof(struct judge, probe_cost_steps)},
	{"checkpoints", offsetof(struct judge, checkpoints)},
	{"waited", offsetof(struct judge, waited)},
	{"waited_apart", offsetof(struct judge, waited_apart)},
};

static const struct learned_field learned_of_rank[] = {
	{"steps", offsetof(struct judge_rank, learned)},
	{"operation_steps", offsetof(struct judge_rank, l1_learned)},
	{"synchronizations", offsetof(struct judge_rank, usual.syncs)},
	{"synchronization_squares", offsetof(struct judge_rank, usual.sync_squares)},
	{"wait", offsetof(struct judge_rank, usual.wait)},
	{"transfer", offsetof(struct judge_rank, usual.xfer)},
	{"lead", offsetof(struct judge_rank, usual.lead)},
	{"checkpoint", offsetof(struct judge_rank, checkpoint)},

};

/* Of a watch; a file of an older version has none. */
static const struct learned_field learned_of_watch[] = {
	{"noise", offsetof(struct judge_watch, noise)},
	{"noise_steps", offsetof(struct judge_watch, noise_steps)},
};

#define LEARNED_FIELDS(fields) (sizeof(fields) / sizeof((fields)[0]))

/* False: out of memory, or no number. */
static bool learned_set(json_t *to, const char *name, double value)
{
	return json_object_set_new(to, name, json_real(value)) == 0;
}

static bool learned_write(json_t *to, const struct learned_field *field, size_t fields, const void *from)
{
	bool whole = true;

	for (size_t i = 0; i < fields; i++) {
		double value;

		memcpy(&value, (const char *)from + field[i].offset, sizeof(value));
		whole = learned_set(to, field[i].name, fmin(fmax(0, value), LEARNED_MOST)) && whole;
	}
	return whole;
}

json_t *judge_learned_text(const char *text)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text);
	return json_string(text_clean(copy));
}

bool judge_learned_is_text(const json_t *kept, const char *text)
{
	json_t *clean = judge_learned_text(text);
	bool ret = clean && json_equal(kept, clean);

	json_decref(clean);
	return ret;
}

static json_t *learned_rank(const struct judge_rank *rank)
{
	json_t *ret = json_pack("{s:i, s:I, s:o, s:i}", "rank", (int)rank->rank, "pid", (json_int_t)rank->pid, "host",
		judge_learned_text(rank->host), "ticks",
		(int)(rank->ticks < JUDGE_TICKS_LEARN ? rank->ticks : JUDGE_TICKS_LEARN));
	json_t *activities = json_object(), *host = json_object();
	bool whole = ret && activities && host &&
		     learned_write(ret, learned_of_rank, LEARNED_FIELDS(learned_of_rank), rank) &&
		     learned_write(ret, learned_of_watch, LEARNED_FIELDS(learned_of_watch), &rank->watch);

	for (int a = 0; a < ACTIVITY_MAX; a++)
		whole = whole && learned_set(activities, activity_word((enum activity)a), rank->usual.act[a]);
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		if (!(rank->host_learned[h] > 0))
			continue;
		/* Operations are negative where waits are still to come. */
		whole = whole && json_object_set_new(host, judge_hosts[h].name,
					 json_pack("[f, f]", fmax(0, rank->usual.host[h]), rank->host_learned[h])) == 0;
	}
	whole = json_object_set_new(ret, "activities", activities) == 0 && whole;
	whole = json_object_set_new(ret, "system", host) == 0 && whole;
	if (!whole)
		json_decref(ret);
	return whole ? ret : NULL;
}

bool judge_has_learned(const struct judge *judge)
{
	return judge->ticks >= JUDGE_TICKS_LEARN;
}

bool judge_learned_is_old(const json_t *learned, uint64_t now_ns)
{
	json_int_t time_ns = json_integer_value(json_object_get(learned, "time_ns"));

	return time_ns <= 0 || (uint64_t)time_ns > now_ns || now_ns - (uint64_t)time_ns > LEARNED_AGE_NS;
}

json_t *judge_learned(const struct judge *judge)
{
	json_t *ret, *ranks;
	bool whole;

	if (!judge_has_learned(judge) || judge->ranks > LEARNED_RANKS_MAX)
		return NULL;
	ret = json_pack("{s:I, s:f, s:i, s:b}", "time_ns", (json_int_t)judge->now_ns, "known_s",
		(double)(judge->now_ns - judge->first_ns) * NS, "operation_ticks", (int)judge->l1_ticks,
		"checkpoints_are_frequent", (int)judge->frequent);
	ranks = json_array();
	whole = ret && ranks && learned_write(ret, learned_of_job, LEARNED_FIELDS(learned_of_job), judge) &&
		learned_write(ret, learned_of_watch, LEARNED_FIELDS(learned_of_watch), &judge->whole);
	for (size_t r = 0; whole && r < judge->ranks; r++)
		whole = json_array_append_new(ranks, learned_rank(&judge->rank[r])) == 0;
	whole = json_object_set_new(ret, "ranks", ranks) == 0 && whole;
	if (!whole)
		json_decref(ret);
	return whole ? ret : NULL;
}

/* A number from 0 to LEARNED_MOST; false: it is none. */
static bool learned_number(const json_t *value, double *ret)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !isfinite(number) || number < 0 || number > LEARNED_MOST)
		return false;
	*ret = number;
	return true;
}

static bool learned_read(const json_t *from, const struct learned_field *field, size_t fields, void *to)
{
	for (size_t i = 0; i < fields; i++) {
		double value;

		if (!learned_number(json_object_get(from, field[i].name), &value))
			return false;
		memcpy((char *)to + field[i].offset, &value, sizeof(value));
	}
	return true;
}

static bool learned_read_watch(const json_t *from, struct judge_watch *to)
{
	return !json_object_get(from, learned_of_watch[0].name) ||
	       learned_read(from, learned_of_watch, LEARNED_FIELDS(learned_of_watch), to);
}

/* One that has no steps, or too few, learns as a new one. */
static bool learned_read_rank(const json_t *from, struct judge_rank *to)
{
	const json_t *activities = json_object_get(from, "activities"), *system = json_object_get(from, "system"),
		     *ticks = json_object_get(from, "ticks");
	double sum = 0;

	if (!json_is_integer(ticks))
		return false;
	if (json_integer_value(ticks) < JUDGE_TICKS_LEARN)
		return true;
	if (!learned_read(from, learned_of_rank, LEARNED_FIELDS(learned_of_rank), to) ||
		!learned_read_watch(from, &to->watch))
		return false;
	for (int a = 0; a < ACTIVITY_MAX; a++) {
		if (!learned_number(json_object_get(activities, activity_word((enum activity)a)), &to->usual.act[a]))
			return false;
		sum += to->usual.act[a];
	}
	for (int h = 0; h < JUDGE_MEASURE_MAX; h++) {
		const json_t *pair = json_object_get(system, judge_hosts[h].name);

		if (pair && (!learned_number(json_array_get(pair, 0), &to->usual.host[h]) ||
				    !learned_number(json_array_get(pair, 1), &to->host_learned[h])))
			return false;
	}
	to->ticks = JUDGE_TICKS_LEARN;
	to->grows =
		true; /* what was learned may have a part of a fault that goes on, as of a job that had just begun */
	return sum > 0;
}

/* What was learned of this process; NULL: none. It is near `at` where ranks are in the order of before. */
static const json_t *learned_find(const json_t *ranks, size_t at, const struct frame_who *who)
{
	size_t n = who->pid ? json_array_size(ranks) : 0;

	for (size_t i = 0; i < n; i++) {
		const json_t *rank = json_array_get(ranks, (at + i) % n);

		if (json_integer_value(json_object_get(rank, "rank")) == who->rank &&
			json_integer_value(json_object_get(rank, "pid")) == who->pid &&
			judge_learned_is_text(json_object_get(rank, "host"), who->host))
			return rank;
	}
	return NULL;
}

int judge_resume(struct judge *judge, const json_t *learned, const struct frame *frame, uint64_t now_ns)
{
	const json_t *ranks = json_object_get(learned, "ranks"), *rank,
		     *l1 = json_object_get(learned, "operation_ticks");
	double known_s, sum = 0;
	size_t known = 0;
	bool all = frame->ranks <= LEARNED_RANKS_MAX && json_array_size(ranks) == frame->ranks &&
		   !judge_learned_is_old(learned, now_ns);
	int r = all ? judge_reserve(judge, frame->ranks) : -EINVAL;

	if (r < 0)
		return r;
	if (!learned_read(learned, learned_of_job, LEARNED_FIELDS(learned_of_job), judge) ||
		!learned_read_watch(learned, &judge->whole) ||
		!learned_number(json_object_get(learned, "known_s"), &known_s) || !json_is_integer(l1))
		r = -EINVAL;
	for (size_t i = 0; r == 0 && i < frame->ranks; i++) {
		rank = learned_find(ranks, i, &frame->who[i]);
		r = rank && learned_read_rank(rank, &judge->rank[i]) ? 0 : -EINVAL;
		known += judge->rank[i].ticks > 0;
		for (int a = 0; a < ACTIVITY_MAX; a++)
			sum += judge->rank[i].usual.act[a];
	}
	if (r < 0 || !known)
		return r < 0 ? r : -EINVAL;
	judge_take_who(judge, frame);
	judge->ticks = JUDGE_TICKS_LEARN;
	judge->l1_ticks = (unsigned)fmin(fmax(0, (double)json_integer_value(l1)), JUDGE_TICKS_LEARN);
	judge->frequent = json_is_true(json_object_get(learned, "checkpoints_are_frequent"));
	judge->usual = sum / (double)known;
	judge->first_ns = now_ns - (uint64_t)fmin(known_s / NS, (double)now_ns);
	judge->now_ns = judge->usual_since_ns = judge->learned_ns = now_ns;
	return 0;
}
