/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of one rank with its peers. Method and terms: profile.h. */
#include "analyzers/profile/profile_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/robust.h"
#include "analyzers/base/text.h"

#define DIFF_ROWS_MAX 1000
#define DIFF_SLICES 10	      /* parts of the time where there are no steps */
#define DIFF_ALIKE_MIN 5      /* functions of which a common factor is taken */
#define DIFF_ALIKE_SHARE 0.02 /* of the peers' own work: 10 samples of 10 s at 49 Hz */
#define DIFF_FACTOR_MIN 1.25  /* a common factor below is the noise of these samples */
#define DIFF_LINE_RATIO 1.25  /* a line is named in place of its function where it scores so many times as much */
#define DIFF_NEAR 0.9	      /* of the best score: one chain of calls, of which the innermost own function is named */
#define DIFF_PARTS_SEEN 3     /* an excess that fewer parts show is an event, not what the rank does */

/* Time in functions or lines of one rank, of each part. */
struct diff_sums {
	double *sum, *square; /* of parts' values; square with those of parts that are complete */
	double *part;	      /* value of the part that is summed */
	uint32_t *last;	      /* that part + 1; 0: none yet */
	uint32_t *seen;	      /* parts with a value */
	uint32_t *stamp;      /* piece that was added last + 1: recursion counts once */
	double *depth;	      /* innermost place in the stack, times the value */
};

/* A part of a sample in a step or slice. */
struct diff_piece {
	uint32_t part, stack;
	double weight_ns;
	bool wait;
};

struct diff_side {
	const struct profile_rank *rank;
	size_t parts;
	double part_ns; /* mean length */
	double scale;	/* of values: a step, or a second */
	struct diff_sums function, line;
	double *self; /* of functions */
	double own, waits;
};

struct diff {
	struct profile *profile;
	struct diff_side side[1 + PROFILE_PEERS_MAX]; /* the rank, then its peers */
	size_t sides;
	const char *stage; /* NULL: all */
	bool slices;
	double factor;
};

static bool diff_sums_new(struct diff_sums *sums, size_t count)
{
	sums->sum = calloc(count + 1, sizeof(double));
	sums->square = calloc(count + 1, sizeof(double));
	sums->part = calloc(count + 1, sizeof(double));
	sums->last = calloc(count + 1, sizeof(uint32_t));
	sums->seen = calloc(count + 1, sizeof(uint32_t));
	sums->stamp = calloc(count + 1, sizeof(uint32_t));
	sums->depth = calloc(count + 1, sizeof(double));
	return sums->sum && sums->square && sums->part && sums->last && sums->seen && sums->stamp && sums->depth;
}

static void diff_sums_free(struct diff_sums *sums)
{
	free(sums->sum);
	free(sums->square);
	free(sums->part);
	free(sums->last);
	free(sums->seen);
	free(sums->stamp);
	free(sums->depth);
}

static void diff_sums_close_part(struct diff_sums *sums, size_t at)
{
	sums->square[at] += sums->part[at] * sums->part[at];
	sums->part[at] = 0;
}

/* Pieces come by part, their frames from the innermost one on. */
static void diff_sums_add(
	struct diff_sums *sums, size_t at, const struct diff_piece *piece, uint32_t stamp, uint32_t depth)
{
	if (sums->stamp[at] == stamp)
		return;
	sums->stamp[at] = stamp;
	if (sums->last[at] != piece->part + 1) {
		diff_sums_close_part(sums, at);
		sums->last[at] = piece->part + 1;
		sums->seen[at]++;
	}
	sums->part[at] += piece->weight_ns;
	sums->sum[at] += piece->weight_ns;
	sums->depth[at] += piece->weight_ns * depth;
}

static double diff_depth(const struct diff_sums *sums, size_t at)
{
	return sums->sum[at] > 0 ? sums->depth[at] / sums->sum[at] : 0;
}

/* Mean of a part, and the square of its standard error. */
static double diff_mean(const struct diff_side *side, const struct diff_sums *sums, size_t at, double *ret_error2)
{
	double n = (double)side->parts, mean = sums->sum[at] / n;
	double variance = n > 1 ? (sums->square[at] - sums->sum[at] * mean) / (n - 1) : 0;

	*ret_error2 = variance > 0 ? variance / n * side->scale * side->scale : 0;
	return mean * side->scale;
}

/* Steps that lie within the sampled time. */
static size_t diff_whole_steps(const struct profile_rank *rank, size_t *ret_first)
{
	int64_t from = rank->sample[0].start_ns, to = rank->sample[rank->samples - 1].start_ns;
	size_t first = 0, count = 0;

	while (first < rank->steps && rank->step[first].start_ns < from)
		first++;
	while (first + count < rank->steps && rank->step[first + count].end_ns <= to)
		count++;
	*ret_first = first;
	return count;
}

/* Parts of the rank's time: its steps, or equal slices. */
static struct profile_step *diff_parts(const struct diff *diff, struct diff_side *side)
{
	const struct profile_rank *rank = side->rank;
	int64_t from = rank->sample[0].start_ns, to = rank->sample[rank->samples - 1].start_ns + 1;
	size_t first = 0, count = diff->slices ? DIFF_SLICES : diff_whole_steps(rank, &first);
	struct profile_step *part = calloc(count + 1, sizeof(*part));
	double length_ns = 0;

	for (size_t i = 0; part && i < count; i++) {
		if (diff->slices)
			part[i] = (struct profile_step){from + (int64_t)i * ((to - from) / DIFF_SLICES),
				from + (int64_t)(i + 1) * ((to - from) / DIFF_SLICES)};
		else
			part[i] = rank->step[first + i];
		length_ns += (double)(part[i].end_ns - part[i].start_ns);
	}
	side->parts = count;
	side->part_ns = length_ns / (double)count;
	side->scale = diff->slices ? 1e9 / side->part_ns : 1;
	return part;
}

static bool diff_is_backward_thread(const struct profile_thread *thread)
{
	return strncmp(thread->name, "pt_autograd", 11) == 0;
}

/* Is it the rank's own work, or a wait of its steps, in what is compared of the step? Other threads' waits are
 * neither. */
static bool diff_counts(
	const struct diff *diff, const struct profile_rank *rank, const struct profile_taken *taken, bool *ret_wait)
{
	const struct profile_stack *stack = &diff->profile->stack[taken->stack];
	const struct profile_stage *stage = profile_parts_stage(rank, taken->start_ns);

	*ret_wait = false;
	if (diff->stage && strcmp(stage ? stage->name : "", diff->stage) != 0)
		return false;
	if (!profile_parts_steps_here(rank, taken->thread))
		return !taken->off_cpu && !stack->communicates &&
		       (stack->python || diff_is_backward_thread(&rank->thread[taken->thread]));
	*ret_wait = stack->communicates || (taken->off_cpu && stack->backward) ||
		    (stage && strcmp(stage->name, "sync") == 0);
	return true;
}

/* Splits samples at the ends of parts. NULL: out of memory. */
static struct diff_piece *diff_pieces(
	const struct diff *diff, const struct diff_side *side, const struct profile_step *part, size_t *ret_count)
{
	const struct profile_rank *rank = side->rank;
	size_t capacity = rank->samples + side->parts + 16, count = 0, at = 0;
	struct diff_piece *piece = calloc(capacity, sizeof(*piece));

	for (size_t i = 0; piece && i < rank->samples; i++) {
		const struct profile_taken *taken = &rank->sample[i];
		int64_t end_ns = taken->start_ns + taken->duration_ns;
		bool wait;

		while (at < side->parts && part[at].end_ns <= taken->start_ns)
			at++;
		if (at == side->parts)
			break;
		if (!diff_counts(diff, rank, taken, &wait))
			continue;
		for (size_t j = at; j < side->parts && part[j].start_ns < end_ns; j++) {
			int64_t from = taken->start_ns > part[j].start_ns ? taken->start_ns : part[j].start_ns;
			int64_t to = end_ns < part[j].end_ns ? end_ns : part[j].end_ns;

			if (!array_reserve((void **)&piece, &capacity, count + 1, sizeof(*piece), SIZE_MAX)) {
				free(piece);
				return NULL;
			}
			piece[count++] = (struct diff_piece){(uint32_t)j, taken->stack,
				(double)taken->weight_ns * (double)(to - from) / (double)taken->duration_ns, wait};
		}
	}
	*ret_count = count;
	return piece;
}

static int diff_piece_order(const void *a, const void *b)
{
	const struct diff_piece *x = a, *y = b;

	return (x->part > y->part) - (x->part < y->part);
}

static void diff_add_piece(
	const struct diff *diff, struct diff_side *side, const struct diff_piece *piece, uint32_t stamp)
{
	const struct profile_stack *stack = &diff->profile->stack[piece->stack];

	if (piece->wait) {
		side->waits += piece->weight_ns;
		return;
	}
	side->own += piece->weight_ns;
	for (uint32_t i = stack->lines; i-- > 0;) {
		uint32_t line = stack->line[i], function = diff->profile->line[line].function;

		diff_sums_add(&side->line, line, piece, stamp, i);
		diff_sums_add(&side->function, function, piece, stamp, i);
	}
	side->self[diff->profile->line[stack->line[stack->lines - 1]].function] += piece->weight_ns;
}

static int diff_fill_side(const struct diff *diff, struct diff_side *side)
{
	struct profile_step *part = diff_parts(diff, side);
	struct diff_piece *piece = NULL;
	size_t count = 0;

	side->self = calloc(diff->profile->functions + 1, sizeof(double));
	if (part && side->self && diff_sums_new(&side->function, diff->profile->functions) &&
		diff_sums_new(&side->line, diff->profile->lines))
		piece = diff_pieces(diff, side, part, &count);
	free(part);
	if (!piece)
		return -ENOMEM;
	qsort(piece, count, sizeof(*piece), diff_piece_order);
	for (size_t i = 0; i < count; i++)
		diff_add_piece(diff, side, &piece[i], (uint32_t)i + 1);
	for (size_t i = 0; i < diff->profile->functions; i++)
		diff_sums_close_part(&side->function, i);
	for (size_t i = 0; i < diff->profile->lines; i++)
		diff_sums_close_part(&side->line, i);
	free(piece);
	side->own *= side->scale / (double)side->parts;
	side->waits *= side->scale / (double)side->parts;
	return 0;
}

/* Median, of an even count the mean of both in the middle; so that half of two peers is no reference. */
static double diff_middle(double *value, size_t count)
{
	double low;

	if (!count)
		return 0;
	low = robust_kth(value, count, (count - 1) / 2);
	return count % 2 ? low : (low + robust_kth(value, count, count / 2)) / 2;
}

/* How far peers are from each other: by their deviations, of few by their range. */
static double diff_spread(double *value, size_t count, double middle)
{
	double low = INFINITY, high = -INFINITY;

	for (size_t i = 0; i < count; i++) {
		low = fmin(low, value[i]);
		high = fmax(high, value[i]);
		value[i] = fabs(value[i] - middle);
	}
	if (count < 3)
		return count == 2 ? (high - low) / 2 : 0;
	return ROBUST_SIGMA * diff_middle(value, count);
}

struct diff_excess {
	double own, peers, excess, noise, score;
	bool sure;
};

/* One function or line: which sums of a side are meant stands in `lines`. */
static struct diff_excess diff_excess_of(const struct diff *diff, bool lines, size_t at)
{
	const struct diff_side *own = &diff->side[0];
	const struct diff_sums *sums = lines ? &own->line : &own->function;
	double mean[PROFILE_PEERS_MAX], error2[PROFILE_PEERS_MAX], spread, step_ns = own->part_ns * own->scale;
	size_t peers = diff->sides - 1;
	struct diff_excess ret = {.noise = 0};
	double own_error2;

	ret.own = diff_mean(own, sums, at, &own_error2);
	for (size_t i = 0; i < peers; i++)
		mean[i] = diff_mean(&diff->side[1 + i], lines ? &diff->side[1 + i].line : &diff->side[1 + i].function,
			at, &error2[i]);
	ret.peers = diff_middle(mean, peers);
	spread = diff_spread(mean, peers, ret.peers);
	ret.excess = ret.own - ret.peers * diff->factor;
	ret.noise = sqrt(own_error2 + diff_middle(error2, peers) + spread * spread);
	if (ret.excess <= 0)
		return ret;
	ret.score = ret.excess * ret.excess / ret.own;
	ret.sure = ret.excess >= PROFILE_SHARE_MIN * step_ns && ret.excess >= PROFILE_SIGMAS * ret.noise &&
		   sums->seen[at] >= DIFF_PARTS_SEEN;
	/* The common factor is known roughly. */
	if (diff->factor > 1 && ret.own < DIFF_FACTOR_MIN * diff->factor * ret.peers)
		ret.sure = false;
	return ret;
}

static double diff_self(const struct diff_side *side, size_t function)
{
	return side->self[function] / (double)side->parts * side->scale;
}

static double diff_peers_self(const struct diff *diff, size_t function)
{
	double self[PROFILE_PEERS_MAX];

	for (size_t i = 1; i < diff->sides; i++)
		self[i - 1] = diff_self(&diff->side[i], function);
	return diff_middle(self, diff->sides - 1);
}

static double diff_peers_of(const struct diff *diff, bool waits)
{
	double value[PROFILE_PEERS_MAX];

	for (size_t i = 1; i < diff->sides; i++)
		value[i - 1] = waits ? diff->side[i].waits : diff->side[i].own;
	return diff_middle(value, diff->sides - 1);
}

/* The median of how many times as long as its peers' each function of weight takes. 1: equal, or unknown. */
static int diff_common_factor(struct diff *diff)
{
	double peers_own = diff_peers_of(diff, false), *ratio = calloc(diff->profile->functions + 1, sizeof(*ratio));
	double factor;
	size_t count = 0;

	if (!ratio)
		return -ENOMEM;
	for (size_t i = 0; i < diff->profile->functions; i++) {
		double peers = diff_peers_self(diff, i);

		if (peers > 0 && peers >= DIFF_ALIKE_SHARE * peers_own)
			ratio[count++] = diff_self(&diff->side[0], i) / peers;
	}
	factor = count >= DIFF_ALIKE_MIN ? diff_middle(ratio, count) : 1;
	diff->factor = factor >= DIFF_FACTOR_MIN ? factor : 1;
	free(ratio);
	return 0;
}

/* The line of a function with the greatest excess, of nearly equal ones the innermost: a recursion ends there. */
struct diff_best_line {
	uint32_t line;
	struct diff_excess of;
	bool known;
};

static struct diff_best_line *diff_best_lines(const struct diff *diff)
{
	struct diff_best_line *best = calloc(diff->profile->functions + 1, sizeof(*best));

	for (size_t i = 0; best && i < diff->profile->lines; i++) {
		struct diff_best_line *at = &best[diff->profile->line[i].function];
		struct diff_excess excess;

		if (diff->side[0].line.sum[i] <= 0)
			continue;
		excess = diff_excess_of(diff, true, i);
		if (!at->known || excess.excess * DIFF_NEAR > at->of.excess ||
			(excess.excess > at->of.excess * DIFF_NEAR &&
				diff_depth(&diff->side[0].line, i) > diff_depth(&diff->side[0].line, at->line)))
			*at = (struct diff_best_line){(uint32_t)i, excess, true};
	}
	return best;
}

/* The heaviest stack of the rank with the function: its innermost caller outside of libraries, a row of its own aside.
 */
static const struct stack_frame *diff_caller(const struct diff *diff, const double *stack_ns, uint32_t function)
{
	const struct profile *profile = diff->profile;
	const struct stack_frame *caller = NULL;
	double most = 0;

	for (size_t i = 0; i < profile->stacks; i++) {
		const struct profile_stack *stack = &profile->stack[i];
		const struct stack_frame *own = NULL;
		bool found = false;

		if (stack_ns[i] <= most)
			continue;
		for (uint32_t j = 0; j < stack->lines && !found; j++) {
			const struct profile_line *line = &profile->line[stack->line[j]];

			found = line->function == function;
			if (!found && stack_frame_is_python(&line->frame) && !stack_frame_is_library(&line->frame))
				own = &line->frame;
		}
		if (found) {
			most = stack_ns[i];
			caller = own;
		}
	}
	return caller;
}

static double *diff_stack_weights(const struct diff *diff)
{
	const struct profile_rank *rank = diff->side[0].rank;
	double *weight = calloc(diff->profile->stacks + 1, sizeof(*weight));

	for (size_t i = 0; weight && i < rank->samples; i++)
		weight[rank->sample[i].stack] += (double)rank->sample[i].weight_ns;
	return weight;
}

/* A row, and its depth in the calls of the rank. */
struct diff_row {
	struct profile_row row;
	double depth;
	uint32_t function;
};

static bool diff_is_own_code(const struct stack_frame *frame)
{
	return stack_frame_is_python(frame) && !stack_frame_is_library(frame);
}

static struct diff_row diff_row_of(const struct diff *diff, uint32_t function, const struct diff_best_line *best)
{
	struct diff_excess excess = diff_excess_of(diff, false, function);
	const struct diff_side *own = &diff->side[0];
	bool line = excess.sure && best->of.sure && best->of.score > DIFF_LINE_RATIO * excess.score &&
		    2 * excess.excess >= best->of.excess;
	const struct stack_frame *frame = &diff->profile->line[best->line].frame;

	if (line)
		excess = best->of;
	return (struct diff_row){
		.row = {.frame = frame,
			.line = line,
			.library = !diff_is_own_code(frame),
			.sure = excess.sure,
			.total_ns = excess.own,
			.peers_total_ns = excess.peers,
			.self_ns = diff_self(own, function),
			.peers_self_ns = diff_peers_self(diff, function),
			.excess_ns = excess.excess,
			.noise_ns = excess.noise,
			.score_ns = excess.score},
		.depth = diff_depth(&own->function, function),
		.function = function,
	};
}

static int diff_row_order(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	int r = y->row.sure - x->row.sure;

	if (!r)
		r = (x->row.score_ns < y->row.score_ns) - (x->row.score_ns > y->row.score_ns);
	return r ? r : (x->depth > y->depth) - (x->depth < y->depth);
}

/* How much the name says of what the rank does: own code most, then libraries, but for the C library, in which every
 * thread waits, and places without a name. */
static int diff_row_says(const struct diff_row *row)
{
	const struct stack_frame *frame = row->row.frame;

	if (!row->row.library)
		return 2;
	return *frame->function && !stack_frame_is_c_library(frame);
}

/* Of the functions of one chain, which score nearly the same, the innermost one of own code comes first, else the
 * outermost one of those that say most. */
static void diff_name_own_code(struct diff_row *row, size_t count)
{
	struct diff_row first;
	size_t best = 0;

	for (size_t i = 0; i < count && row[i].row.sure && row[i].row.score_ns >= DIFF_NEAR * row[0].row.score_ns;
		i++) {
		int more = diff_row_says(&row[i]) - diff_row_says(&row[best]);

		if (more > 0 || (more == 0 && !row[i].row.library && row[i].depth > row[best].depth))
			best = i;
	}
	if (!best)
		return;
	first = row[best];
	memmove(&row[1], &row[0], best * sizeof(*row));
	row[0] = first;
}

static int diff_make_rows(const struct diff *diff, struct profile_diff *ret)
{
	struct diff_best_line *best = diff_best_lines(diff);
	struct diff_row *row = calloc(diff->profile->functions + 1, sizeof(*row));
	double *weight = diff_stack_weights(diff);
	size_t count = 0;

	ret->row = calloc(DIFF_ROWS_MAX, sizeof(*ret->row));
	if (!best || !row || !weight || !ret->row) {
		free(best);
		free(row);
		free(weight);
		return -ENOMEM;
	}
	for (size_t i = 0; i < diff->profile->functions; i++) {
		if (!best[i].known || !*diff->profile->function[i].file)
			continue;
		row[count] = diff_row_of(diff, (uint32_t)i, &best[i]);
		count += row[count].row.excess_ns > 0;
	}
	qsort(row, count, sizeof(*row), diff_row_order);
	diff_name_own_code(row, count);
	for (size_t i = 0; i < count && i < DIFF_ROWS_MAX; i++) {
		ret->row[ret->rows] = row[i].row;
		ret->row[ret->rows++].caller = row[i].row.sure ? diff_caller(diff, weight, row[i].function) : NULL;
	}
	free(best);
	free(row);
	free(weight);
	return 0;
}

static bool diff_is_peer(const int64_t *peers, size_t count, int64_t rank)
{
	for (size_t i = 0; i < count; i++)
		if (peers[i] == rank)
			return true;
	return count == 0;
}

static int diff_choose(struct diff *diff, const struct profile_comparison *of)
{
	struct profile_rank *own = profile_find_rank(diff->profile, of->rank);
	size_t first;

	if (!own || !own->samples)
		return -ENOENT;
	diff->side[diff->sides++].rank = own;
	for (size_t i = 0; i < diff->profile->ranks && diff->sides < 1 + PROFILE_PEERS_MAX; i++) {
		const struct profile_rank *peer = &diff->profile->rank[i];

		if (peer != own && peer->samples && diff_is_peer(of->peers, of->peers_count, peer->rank))
			diff->side[diff->sides++].rank = peer;
	}
	if (diff->sides < 2)
		return -ENOENT;
	for (size_t i = 0; i < diff->sides; i++) {
		profile_parts_sort(profile_find_rank(diff->profile, diff->side[i].rank->rank));
		diff->slices |= diff_whole_steps(diff->side[i].rank, &first) < PROFILE_STEPS_MIN;
	}
	return 0;
}

int profile_compare(struct profile *profile, const struct profile_comparison *of, struct profile_diff *ret)
{
	struct diff *diff = calloc(1, sizeof(*diff));
	int r;

	*ret = (struct profile_diff){.rank = of->rank, .stage = of->stage};
	if (!diff)
		return -ENOMEM;
	diff->profile = profile;
	diff->stage = of->stage;
	r = diff_choose(diff, of);
	for (size_t i = 0; r == 0 && i < diff->sides; i++)
		r = diff_fill_side(diff, &diff->side[i]);
	if (r == 0 && of->stage && !(diff->side[0].own + diff->side[0].waits > 0))
		r = -ENODATA;
	if (r == 0)
		r = diff_common_factor(diff);
	if (r == 0)
		r = diff_make_rows(diff, ret);
	if (r == 0) {
		ret->peers = diff->sides - 1;
		ret->steps = diff->slices ? 0 : diff->side[0].parts;
		ret->seconds = diff->slices;
		ret->step_ns = diff->side[0].part_ns * diff->side[0].scale;
		ret->own_ns = diff->side[0].own;
		ret->waits_ns = diff->side[0].waits;
		ret->peers_own_ns = diff_peers_of(diff, false);
		ret->peers_waits_ns = diff_peers_of(diff, true);
		ret->factor = diff->factor;
	}
	for (size_t i = 0; i < diff->sides; i++) {
		diff_sums_free(&diff->side[i].function);
		diff_sums_free(&diff->side[i].line);
		free(diff->side[i].self);
	}
	free(diff);
	if (r < 0)
		profile_diff_free(ret);
	return r;
}

void profile_diff_free(struct profile_diff *diff)
{
	free(diff->row);
	diff->row = NULL;
	diff->rows = 0;
}

const char *profile_sentence(const struct profile_diff *diff, char ret[PROFILE_SENTENCE_BYTES])
{
	const char *each = diff->seconds ? "of each second" : "a step";
	const struct profile_row *row = diff->rows && diff->row[0].sure ? &diff->row[0] : NULL;
	char place[STACK_PLACE_BYTES];
	struct text out;

	text_begin(&out, ret, PROFILE_SENTENCE_BYTES);
	if (row) {
		text_add(&out, "rank %lld spends ", (long long)diff->rank);
		text_duration(&out, row->total_ns);
		text_add(&out, " %s in ", each);
		text_name(&out, stack_frame_text(row->frame, false, place, sizeof(place)), 120);
		if (row->library && row->caller) {
			text_add(&out, " from ");
			text_name(&out, stack_frame_text(row->caller, false, place, sizeof(place)), 90);
		}
		text_add(&out, diff->past ? ", before " : diff->peers == 1 ? ", its peer " : ", its peers ");
		if (row->peers_total_ns > 0)
			text_duration(&out, row->peers_total_ns);
		else
			text_add(&out, "0");
	} else if (diff->factor > 1 && diff->peers) {
		text_add(&out, "rank %lld takes %.1f times as long as %s in all functions alike", (long long)diff->rank,
			diff->factor, diff->past ? "before" : "its peers");
	}
	text_end(&out);
	return ret;
}
