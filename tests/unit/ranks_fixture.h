/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks module over a made-up /proc; the store and the kernel's filter are stand-ins that count. Included once,
 * by a test of the module.
 */
#ifndef RANKTRACE_TESTS_RANKS_FIXTURE_H
#define RANKTRACE_TESTS_RANKS_FIXTURE_H

#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/ranks/ranks_internal.h"
#include "daemon/store/store.h"
#include "tests/test.h"
#include "tests/unit/fake_proc.h"

#define RANKS_MAX 64

static struct {
	char root[128];
	struct context context;
	struct ranks *ranks;
	uint64_t now_ns;
	unsigned added, changed, ended, warnings;
	struct {
		uint32_t pid;
		uint64_t start_time_ns;
	} instance[8192];
	int64_t instances;
	uint32_t filter[RANKS_MAX]; /* pid by slot */
	int64_t row_rank, row_ended, row_instance;
	char row_card[64]; /* "" for none */
	unsigned rows;
} t;

/* Stand-ins for other modules. */
__attribute__((weak)) void log_message(
	int level, const char *component, const char *file, int line, const char *func, const char *format, ...)
{
	(void)component, (void)file, (void)line, (void)func, (void)format;
	t.warnings += level <= LOG_WARNING;
}

__attribute__((weak)) int store_instance(
	struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret)
{
	(void)store, (void)boot_id;
	for (int64_t i = 0; i < t.instances; i++)
		if (t.instance[i].pid == pid && t.instance[i].start_time_ns == start_time_ns) {
			*ret = i + 1;
			return 0;
		}
	t.instance[t.instances].pid = pid;
	t.instance[t.instances].start_time_ns = start_time_ns;
	*ret = ++t.instances;
	return 0;
}

__attribute__((weak)) void store_put_values(struct store *store, enum schema_id table, const struct store_value *values)
{
	const struct row_ranks *row = (const struct row_ranks *)(const void *)values;

	assert_int_equal(table, TABLE_RANKS);
	t.row_rank = row->rank.value.type == STORE_NULL ? -1 : row->rank.value.integer;
	assert_true(copy_text(
		t.row_card, sizeof(t.row_card), row->card.value.type == STORE_NULL ? "" : row->card.value.text));
	t.row_ended = row->ended.value.integer;
	t.row_instance = row->instance.value.integer;
	t.rows++;
}

__attribute__((weak)) int kernel_rank_add(struct kernel *kernel, uint32_t pid, uint32_t slot)
{
	assert_in_range(slot, 0, RANKS_MAX - 1);
	assert_int_equal(t.filter[slot], 0);
	t.filter[slot] = pid;
	return 0;
}

__attribute__((weak)) int kernel_rank_remove(struct kernel *kernel, uint32_t pid)
{
	for (size_t i = 0; i < RANKS_MAX; i++)
		if (t.filter[i] == pid) {
			t.filter[i] = 0;
			return 0;
		}
	return -ENOENT;
}

/* Limits, of no kernel here: t.context.kernel is NULL. */
__attribute__((weak)) uint32_t kernel_pool(const struct kernel *kernel, unsigned number)
{
	(void)kernel, (void)number;
	return 0;
}

__attribute__((weak)) void kernel_limit(struct kernel *kernel, uint32_t entry, const struct kernel_limits *limits)
{
	(void)kernel, (void)entry, (void)limits;
}

__attribute__((weak)) void kernel_unlimit(struct kernel *kernel, uint32_t entry)
{
	(void)kernel, (void)entry;
}

__attribute__((weak)) uint64_t kernel_ring_bytes(const struct kernel *kernel)
{
	return 0;
}

static inline void observe(void *arg, const struct rank *rank, enum rank_change change)
{
	/* A rank that ends or turns into something else still has its slot while observers run. */
	if (rank->role == RANK_ROLE_RANK)
		assert_ptr_equal(ranks_by_slot(t.ranks, rank->slot), rank);
	t.added += change == RANK_ADDED;
	t.changed += change == RANK_CHANGED;
	t.ended += change == RANK_ENDED;
}

static inline int setup(void **state)
{
	memset(&t, 0, sizeof(t));
	fake_new(t.root, sizeof(t.root));
	t.context.config.ranks_max = RANKS_MAX;
	(void)copy_text(t.context.host, sizeof(t.context.host), "node");
	(void)copy_text(t.context.boot_id, sizeof(t.context.boot_id), "boot");
	assert_int_equal(ranks_new(&t.context, &t.ranks), 0);
	ranks_set_proc_root(t.ranks, t.root);
	assert_int_equal(ranks_observe(t.ranks, observe, NULL), 0);
	t.now_ns = monotonic_ns();
	return 0;
}

static inline int teardown(void **state)
{
	t.ranks = ranks_free(t.ranks);
	fake_free(t.root);
	return 0;
}

#define PUT(...) FAKE_PUT(t.root, __VA_ARGS__)
#define ENV(text) FAKE_TEXT(environ, text)
#define TORCH .maps = FAKE_TORCH

/* Lets time pass, tick by tick, from the clock's on: what an event is due at is by the clock. */
static inline void pass(uint64_t ns)
{
	uint64_t real_ns = monotonic_ns();

	t.now_ns = real_ns > t.now_ns ? real_ns : t.now_ns;
	for (uint64_t end_ns = t.now_ns + ns; t.now_ns < end_ns;) {
		t.now_ns += 100 * NSEC_PER_MSEC;
		ranks_tick(t.ranks, t.now_ns);
	}
}

#endif
