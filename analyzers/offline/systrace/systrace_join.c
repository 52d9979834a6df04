/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysTrace does not number operations. Those of a group are numbered by the process that shows most of them; another
 * that shows the same ones has the same numbers, and else each of its operations has the number of the one of that name
 * and size that ended closest, once the ends of those were brought together that lie close already.
 */
#include <errno.h>
#include <stdlib.h>

#include "analyzers/offline/systrace/systrace_internal.h"
#include "analyzers/base/array.h"

#define ENOUGH 4

/* The operations of a process in a group, by their ends. */
struct run {
	struct systrace_event **op;
	size_t count;
};

static int systrace_join_by_group(const void *a, const void *b)
{
	const struct systrace_event *x = *(struct systrace_event *const *)a, *y = *(struct systrace_event *const *)b;

	return ORDER(x->comm, y->comm) ?: ORDER(x->process, y->process) ?: ORDER(x->end_ns, y->end_ns) ?:
	       ORDER(x->start_ns, y->start_ns);
}

static bool is_alike(const struct systrace_event *a, const struct systrace_event *b)
{
	return a->op == b->op && a->bytes == b->bytes;
}

static bool systrace_join_is_same(const struct run *a, const struct run *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!is_alike(a->op[i], b->op[i]))
			return false;
	return true;
}

static int64_t systrace_join_apart(const struct systrace_event *a, const struct systrace_event *b, int64_t offset_ns)
{
	return llabs((int64_t)a->end_ns + offset_ns - (int64_t)b->end_ns);
}

/* The one that ended closest among those from place on; both runs go forward together. */
static size_t systrace_join_closest(
	const struct run *run, const struct systrace_event *op, size_t from, int64_t offset_ns)
{
	size_t best = from;

	while (best + 1 < run->count && systrace_join_apart(op, run->op[best + 1], offset_ns) <=
						systrace_join_apart(op, run->op[best], offset_ns))
		best++;
	return best;
}

/* Numbers of those that have a like one closest to them; each is taken once. ret: how far they lie apart, if not NULL.
 */
static size_t systrace_join_match(const struct run *first, const struct run *run, int64_t offset_ns, int64_t *ret)
{
	size_t next = 0, matched = 0, at = 0;

	for (size_t i = 0; i < run->count; i++) {
		struct systrace_event *op = run->op[i];

		op->number = 0;
		if (next >= first->count)
			continue;
		at = systrace_join_closest(first, op, at > next ? at : next, offset_ns);
		if (!is_alike(op, first->op[at]))
			continue;
		op->number = first->op[at]->number;
		next = at + 1;
		if (ret)
			ret[matched] = (int64_t)first->op[at]->end_ns - (int64_t)op->end_ns;
		matched++;
	}
	return matched;
}

static int number_run(const struct run *first, const struct run *run)
{
	int64_t *difference;
	size_t count;

	if (systrace_join_is_same(first, run)) {
		for (size_t i = 0; i < run->count; i++)
			run->op[i]->number = i + 1;
		return 0;
	}
	difference = calloc(run->count + 1, sizeof(*difference));
	if (!difference)
		return -ENOMEM;
	count = systrace_join_match(first, run, 0, difference);
	if (count >= ENOUGH) {
		qsort(difference, count, sizeof(*difference), compare_i64);
		(void)systrace_join_match(first, run, difference[count / 2], NULL);
	}
	free(difference);
	return 0;
}

/* Operations of one group, sorted. */
static int number_group(struct systrace_event **op, size_t count, struct run *run)
{
	size_t runs = 0, first = 0;
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		if (i == 0 || op[i]->process != op[i - 1]->process)
			run[runs++] = (struct run){.op = &op[i]};
		run[runs - 1].count++;
	}
	for (size_t i = 1; i < runs; i++)
		first = run[i].count > run[first].count ? i : first;
	for (size_t i = 0; i < run[first].count; i++)
		run[first].op[i]->number = i + 1;
	for (size_t i = 0; i < runs && r == 0; i++)
		if (i != first)
			r = number_run(&run[first], &run[i]);
	return r;
}

int systrace_join(struct systrace_events *events, size_t processes)
{
	struct systrace_event **op = calloc(events->count + 1, sizeof(struct systrace_event *));
	struct run *run = calloc(processes + 1, sizeof(*run));
	size_t count = 0, begin = 0;
	int r = op && run ? 0 : -ENOMEM;

	for (size_t i = 0; i < events->count && r == 0; i++)
		if (events->event[i].what == SYSTRACE_OP)
			op[count++] = &events->event[i];
	if (count)
		qsort(op, count, sizeof(struct systrace_event *), systrace_join_by_group);
	for (size_t i = 1; i <= count && r == 0; i++) {
		if (i < count && op[i]->comm == op[begin]->comm)
			continue;
		r = number_group(op + begin, i - begin, run);
		begin = i;
	}
	free(op);
	free(run);
	return r;
}
