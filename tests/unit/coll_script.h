/* SPDX-License-Identifier: Apache-2.0 */
/* Events for the tests of analyzers/coll/coll.h, one line each, and what the tracker reported for them. */
#ifndef RANKTRACE_TESTS_OPS_SCRIPT_H
#define RANKTRACE_TESTS_OPS_SCRIPT_H

#include "analyzers/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

#define ROWS_MAX 20000
#define SECOND 1000000000ULL

struct seen_row {
	struct coll_row row;
	char communicator[20], op[COLL_NAME_BYTES], dtype[16];
};

struct seen_comm {
	struct coll_communicator row;
	char communicator[20], name[COLL_NAME_BYTES], parent[20], source[16], reason[96], kind[16];
};

static struct seen_row rows[ROWS_MAX];
static struct seen_comm comms[ROWS_MAX];
static struct coll_group groups[ROWS_MAX];
static size_t n_rows, n_comms, n_groups;
static struct coll *ops;
static uint64_t now;

static inline void on_row(void *arg, const struct coll_row *row)
{
	struct seen_row *seen = &rows[n_rows++];

	assert_ptr_equal(arg, rows);
	assert_true(n_rows < ROWS_MAX);
	seen->row = *row;
	snprintf(seen->communicator, sizeof(seen->communicator), "%s", row->communicator);
	snprintf(seen->op, sizeof(seen->op), "%s", row->op);
	snprintf(seen->dtype, sizeof(seen->dtype), "%s", row->dtype);
}

static inline void on_group(void *arg, const struct coll_group *group)
{
	groups[n_groups++] = *group;
	assert_true(n_groups < ROWS_MAX);
}

static inline void on_communicator(void *arg, const struct coll_communicator *row)
{
	struct seen_comm *seen = &comms[n_comms++];

	assert_true(n_comms < ROWS_MAX);
	seen->row = *row;
	snprintf(seen->communicator, sizeof(seen->communicator), "%s", row->communicator);
	snprintf(seen->name, sizeof(seen->name), "%s", row->name);
	snprintf(seen->parent, sizeof(seen->parent), "%s", row->parent);
	snprintf(seen->source, sizeof(seen->source), "%s", row->source);
	snprintf(seen->reason, sizeof(seen->reason), "%s", row->reason);
	snprintf(seen->kind, sizeof(seen->kind), "%s", row->kind);
}

static inline struct coll *new_ops(void)
{
	const struct coll_sink sink = {on_row, on_group, on_communicator, rows};
	struct coll *ret = coll_new(&sink);

	assert_non_null(ret);
	return ret;
}

static inline void start(void)
{
	coll_free(ops);
	ops = new_ops();
	n_rows = n_comms = n_groups = 0;
	now = 1000;
}

static inline int done(void **state)
{
	ops = coll_free(ops);
	assert_null(coll_free(NULL));
	return 0;
}

/* Advances past the wait for a first device record or a number, so that rows go out. Leaves `now` unchanged. */
static inline void wait_in_vain(void)
{
	static uint64_t passed_ns;

	passed_ns += COLL_NUMBER_NS + SECOND;
	coll_idle(ops, now + passed_ns);
}

static inline void set(struct coll_event *event, enum coll_field field, uint64_t value)
{
	event->present |= 1u << field;
	event->field[field] = value;
}

/* A call of 10 ns on the thread 1; `now` is its end then. */
static inline struct coll_event call(const char *family, const char *op, uint64_t comm, uint64_t identity)
{
	struct coll_event event = {.kind = strcmp(op, "Send") == 0 || strcmp(op, "Recv") == 0 ? COLL_P2P : COLL_OP,
		.family = family,
		.op = op,
		.start_ns = now,
		.end_ns = now + 10,
		.thread_id = 1,
		.text = ""};

	now += 10;
	set(&event, OP_FIELD_COMM, comm);
	if (identity)
		set(&event, OP_FIELD_IDENTITY, identity);
	return event;
}

static inline struct coll_event sized(struct coll_event event, uint64_t count, uint64_t dtype)
{
	set(&event, OP_FIELD_COUNT, count);
	set(&event, OP_FIELD_DTYPE, dtype);
	return event;
}

static inline struct coll_event with(struct coll_event event, enum coll_field field, uint64_t value)
{
	set(&event, field, value);
	return event;
}

static inline struct coll_event of_kind(struct coll_event event, enum coll_kind kind)
{
	event.kind = kind;
	return event;
}

static inline struct coll_event grouped(struct coll_event event)
{
	event.in_group = true;
	return event;
}

static inline struct coll_event on_thread(struct coll_event event, uint32_t thread)
{
	event.thread_id = thread;
	return event;
}

static inline void feed(struct coll_event event)
{
	coll_feed(ops, &event);
}

static inline void init(const char *family, uint64_t comm, uint64_t identity, uint32_t member, uint32_t members)
{
	struct coll_event event = of_kind(call(family, "", comm, identity), COLL_COMM);

	set(&event, OP_FIELD_MEMBER, member);
	set(&event, OP_FIELD_MEMBERS, members);
	feed(event);
}

static inline struct coll_event all_reduce(uint64_t count)
{
	return sized(call("nccl", "AllReduce", 0xa0, 0xabc), count, 7);
}

/* The rank is known as one that has no marker library: rows do not wait to see whether a device record comes. */
static inline void start_without_marker(void)
{
	start();
	feed(sized(call("nccl", "AllReduce", 0xdead, 0xdead), 1, 7));
	wait_in_vain();
	feed(of_kind(call("nccl", "", 0xdead, 0), COLL_COMM_FREE));
	assert_int_equal(n_rows, 1);
	n_rows = n_comms = 0;
	now = 1000;
}

/* A device record of the call that ended last, 100 ns long. */
static inline struct coll_device record(const char *op, uint64_t seq, uint64_t count)
{
	return (struct coll_device){.identity = 0xabc,
		.name = "",
		.seq = seq,
		.op = op,
		.count = count,
		.host_ns = now - 5,
		.start_ns = now + 50,
		.stop_ns = now + 150,
		.heard_ns = now + 150,
		.member = 0,
		.members = 2,
		.peer = -1};
}

static inline void feed_device(struct coll_device device)
{
	coll_feed_device(ops, &device);
}

static inline struct coll_counts counts(void)
{
	struct coll_counts ret;

	coll_counts(ops, &ret);
	return ret;
}

static inline struct coll_standing standing(size_t i)
{
	static struct coll_standing all[COLL_COMMS_MAX];
	size_t n = coll_standings(ops, all, COLL_COMMS_MAX);

	assert_in_range(i, 0, n - 1);
	return all[i];
}

#endif
