/* SPDX-License-Identifier: Apache-2.0 */
/* Families of communication: operations by group, operation, class of size and tier. */
#include <math.h>

#include "daemon/coll/rank_coll.h"
#include "daemon/metrics/metrics_internal.h"

/* Classes of size: the largest of each, its word. Latency rules the first, bandwidth the last. */
static const struct {
	uint64_t bytes_max;
	const char *word;
} sizes[METRICS_SIZES] = {
	{4ULL << 10, "4Ki"},
	{64ULL << 10, "64Ki"},
	{1ULL << 20, "1Mi"},
	{16ULL << 20, "16Mi"},
	{256ULL << 20, "256Mi"},
	{UINT64_MAX - 1, "more"},
	[METRICS_SIZE_UNKNOWN] = {UINT64_MAX, "unknown"},
};

#define WINDOW_PART_NS (60 * NSEC_PER_SEC)
#define WINDOW_BINS_OCTAVE 4
#define WINDOW_LEAST_NS 1000.0

void metrics_window_add(struct metrics_window *window, uint64_t now_ns, uint64_t duration_ns)
{
	double bin = WINDOW_BINS_OCTAVE * log2(fmax(1, (double)duration_ns / WINDOW_LEAST_NS));
	uint16_t *count;

	if (now_ns >= window->begin_ns[window->part] + WINDOW_PART_NS) {
		window->part = !window->part;
		window->begin_ns[window->part] = now_ns;
		memset(window->bin[window->part], 0, sizeof(window->bin[0]));
	}
	count = &window->bin[window->part][bin < METRICS_WINDOW_BINS ? (size_t)bin : METRICS_WINDOW_BINS - 1];
	*count += *count < UINT16_MAX;
}

double metrics_window_quantile_s(const struct metrics_window *window, uint64_t now_ns, double q)
{
	uint64_t sum[METRICS_WINDOW_BINS] = {0}, all = 0, below = 0;
	size_t i = 0;

	for (unsigned part = 0; part < 2; part++)
		for (size_t j = 0; now_ns < window->begin_ns[part] + 2 * WINDOW_PART_NS && j < METRICS_WINDOW_BINS;
			j++) {
			sum[j] += window->bin[part][j];
			all += window->bin[part][j];
		}
	if (!all)
		return NAN;
	while (i + 1 < METRICS_WINDOW_BINS && (double)(below + sum[i]) < q * (double)all)
		below += sum[i++];
	return WINDOW_LEAST_NS * exp2(((double)i + 0.5) / WINDOW_BINS_OCTAVE) / (double)NSEC_PER_SEC;
}

static enum metrics_size metrics_size_of(uint64_t bytes)
{
	enum metrics_size size = 0;

	while (bytes > sizes[size].bytes_max)
		size++;
	return size;
}

/* The op of the rank with these words; the last one where the bound is reached. */
static struct metrics_op *metrics_op_of(struct metrics_rank *rank, const struct coll_row *row, const char *group)
{
	enum metrics_size size = metrics_size_of(row->bytes);
	bool device = row->device && row->device_duration_ns != COLL_UNKNOWN;
	struct metrics_op *op;

	for (size_t i = 0; i < rank->ops && i < LIMIT_METRIC_OPS; i++) {
		op = &rank->op[i];
		if (op->size == size && op->device == device &&
			strncmp(op->operation, row->op, sizeof(op->operation) - 1) == 0 && streq(op->group, group))
			return op;
	}
	if (rank->ops > LIMIT_METRIC_OPS)
		return &rank->op[LIMIT_METRIC_OPS];
	op = &rank->op[rank->ops++];
	*op = (struct metrics_op){.size = size, .device = device};
	(void)copy_text(op->operation, sizeof(op->operation), row->op);
	(void)copy_text(op->group, sizeof(op->group), group);
	if (rank->ops <= LIMIT_METRIC_OPS)
		return op;
	*op = (struct metrics_op){.group = "other", .operation = "other", .size = METRICS_SIZE_UNKNOWN};
	return op;
}

static void metrics_on_row(
	void *arg, uint32_t slot, int64_t instance, const struct coll_row *row, int64_t step, int32_t member)
{
	struct metrics *metrics = arg;
	const struct rank *live = ranks_by_slot(metrics->context->ranks, slot);
	struct metrics_rank *rank =
		live && live->instance == instance ? metrics_rank_of(metrics, slot, instance) : NULL;
	const char *group;
	struct metrics_op *op;
	uint64_t end_ns, duration_ns;

	(void)step, (void)member;
	/* A captured or refused operation was not executed. */
	if (!rank || row->captured || row->result)
		return;
	group = rank_coll_kind(metrics->context->ops, slot, instance, row->communicator);
	op = metrics_op_of(rank, row, group[0] ? group : "unclear");
	op->count++;
	op->bytes += row->bytes == COLL_UNKNOWN ? 0 : row->bytes;
	duration_ns = op->device ? row->device_duration_ns : row->host_duration_ns;
	end_ns = row->host_start_ns + (row->host_duration_ns == COLL_UNKNOWN ? 0 : row->host_duration_ns);
	if (duration_ns != COLL_UNKNOWN) {
		op->duration_ns += duration_ns;
		metrics_window_add(&op->window, end_ns, duration_ns);
	}
	if (end_ns > rank->op_end_ns)
		rank->op_end_ns = end_ns;
}

const struct rank_coll_observer metrics_coll_observer = {.row = metrics_on_row};

static struct metrics_labels metrics_op_labels(const struct metrics_shown *it, const struct metrics_op *op)
{
	struct metrics_labels labels = it->labels;

	metrics_labels_add(&labels, "group", op->group);
	metrics_labels_add(&labels, "operation", op->operation);
	metrics_labels_add(&labels, "size", sizes[op->size].word);
	metrics_labels_add(&labels, "tier", op->device ? "device" : "host");
	return labels;
}

#define METRICS_OF_OPS(word, write, value) \
	void metrics_of_##word(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		for (size_t i = 0; i < gather->ranks; i++) { \
			const struct metrics_shown *it = &gather->rank[i]; \
\
			for (size_t j = 0; j < it->state->ops; j++) { \
				struct metrics_labels labels = metrics_op_labels(it, &it->state->op[j]); \
\
				write(page, &labels, it->state->op[j].value); \
			} \
		} \
	}

METRICS_OF_OPS(collectives, metrics_page_count, count)
METRICS_OF_OPS(collective_bytes, metrics_page_count, bytes)
METRICS_OF_OPS(collective_seconds, metrics_page_seconds, duration_ns)

void metrics_of_collective_duration_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	static const struct {
		double q;
		const char *word;
	} quantiles[] = {{0.5, "0.5"}, {0.99, "0.99"}};

	for (size_t i = 0; i < gather->ranks; i++) {
		const struct metrics_shown *it = &gather->rank[i];

		for (size_t j = 0; j < it->state->ops; j++)
			for (size_t k = 0; k < ARRAY_SIZE(quantiles); k++) {
				double value = metrics_window_quantile_s(
					&it->state->op[j].window, gather->now_ns, quantiles[k].q);
				struct metrics_labels labels = metrics_op_labels(it, &it->state->op[j]);

				metrics_labels_add(&labels, "quantile", quantiles[k].word);
				if (!isnan(value))
					metrics_page_real(page, &labels, value);
			}
	}
}
