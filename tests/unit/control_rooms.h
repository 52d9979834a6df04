/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rooms that control requests ask (collectors, store, kernel, ranks, steps), for test_control.c only: a few answers
 * that it can tell apart. Weak, so that they give way where a test links a whole room.
 */
#ifndef RANKTRACE_TEST_CONTROL_ROOMS_H
#define RANKTRACE_TEST_CONTROL_ROOMS_H

#include "daemon/collector.h"
#include "daemon/kernel.h"
#include "daemon/steps_room.h"
#include "daemon/store.h"

__attribute__((weak)) int collectors_level(
	struct collectors *collectors, enum level level, bool on, char *report, size_t size)
{
	(void)collectors;
	(void)on;
	snprintf(report, size, "7 probes in 1 library");
	return level == LEVEL_L2 ? -EIO : 0;
}

__attribute__((weak)) bool collectors_status(
	struct collectors *collectors, unsigned i, const struct collector **ret_collector, struct collector_status *ret)
{
	static const struct collector fake = {.name = "call", .summary = "calls", .levels = LEVEL_BIT(LEVEL_L1)};

	(void)collectors;
	if (i > 0)
		return false;
	*ret_collector = &fake;
	ret->events = 4242;
	ret->notes = COLLECTOR_NOTES_MAX + 5; /* a collector that lies */
	for (unsigned n = 0; n < COLLECTOR_NOTES_MAX; n++)
		snprintf(ret->note[n], COLLECTOR_NOTE_BYTES, "note %u", n);
	return true;
}

__attribute__((weak)) uint64_t collectors_refused(const struct collectors *collectors)
{
	(void)collectors;
	return 3;
}

__attribute__((weak)) void store_status(struct store *store, struct store_status *ret)
{
	(void)store;
	ret->rows = 99;
}

__attribute__((weak)) const struct kernel_features *kernel_features(const struct kernel *kernel)
{
	static const struct kernel_features features = {.btf = true, .uprobe_multi = true};

	(void)kernel;
	return &features;
}

__attribute__((weak)) uint64_t kernel_drops(const struct kernel *kernel, unsigned kind)
{
	(void)kernel;
	return kind == RT_KIND_CALL ? 11 : 0;
}

__attribute__((weak)) size_t ranks_count(const struct ranks *ranks, enum rank_role role)
{
	(void)ranks;
	return role == RANK_ROLE_RANK ? 2 : 0;
}

__attribute__((weak)) void ranks_each(
	const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	struct rank rank = {.pid = 77, .env = {.rank = 1, .world_size = 2, .job = "job-x"}};

	(void)ranks;
	/* Long names, and more rows than fit. */
	memset(rank.command, 'c', sizeof(rank.command) - 1);
	memset(rank.env.pod, 'p', sizeof(rank.env.pod) - 1);
	for (unsigned i = 0; i < 600; i++)
		callback(arg, &rank);
}

__attribute__((weak)) bool steps_room_current(struct steps_room *room, const struct rank *rank, struct steps_open *ret)
{
	(void)room;
	(void)rank;
	*ret = (struct steps_open){.step = 30, .stage = "backward", .start_ns = 1};
	return true;
}

#endif
