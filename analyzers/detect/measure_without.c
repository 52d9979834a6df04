/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/measure_internal.h"
#include "analyzers/detect/without.h"

static void free_replay(void *replay)
{
	whatif_free(replay);
}

uint64_t measure_whatif(struct measure *measure, const struct frame *frame, const uint32_t *rank,
	const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns)
{
	if (!measure->replay) {
		measure->replay = whatif_new();
		measure->replay_free = free_replay;
	}
	if (!measure->replay) {
		*ret_as_is_ns = 0;
		return 0;
	}
	return whatif_excess(measure->replay, frame, &measure->told, rank, excess_ns, ranks, ret_as_is_ns);
}
