/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few ranks that are longer in forward by about as much: may some of them be a group of which all wait for one? Pure.
 * For detect/measure_stages.c.
 *
 * Tensors and shards are spread over groups that are laid out as a grid: of ranks at equal distances, in blocks of as
 * many, the first of which begins with rank 0. All of a group wait for its slow one, for about as long. So ranks of
 * which no two, and not all, are a whole group of any grid of the job's size are slow each by itself.
 */
#ifndef RANKTRACE_DETECT_MEASURE_ALIKE_H
#define RANKTRACE_DETECT_MEASURE_ALIKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEASURE_ALIKE_MAX 3

/* Global numbers, in rising order. True where they make no sense, too. */
bool measure_alike_grouped(const int32_t *rank, size_t ranks, uint32_t world_size);

#endif
