/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/measure_alike.h"

/* `ranks` ranks from the first on, at this distance. */
static bool is_group(int32_t first, int64_t distance, size_t ranks, uint32_t world_size)
{
	return world_size % ((uint64_t)distance * ranks) == 0 && first / distance % (int64_t)ranks == 0;
}

bool measure_alike_grouped(const int32_t *rank, size_t ranks, uint32_t world_size)
{
	bool even = true;

	for (size_t i = 0; i < ranks; i++) {
		for (size_t j = i + 1; j < ranks; j++) {
			int64_t distance = (int64_t)rank[j] - rank[i];

			if (rank[i] < 0 || distance < 1 || is_group(rank[i], distance, 2, world_size))
				return true;
			even &= j != i + 1 || distance == (int64_t)rank[1] - rank[0];
		}
	}
	return ranks > 2 && even && is_group(rank[0], (int64_t)rank[1] - rank[0], ranks, world_size);
}
