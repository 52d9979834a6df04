/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by hashing where they are needed: no state, so the order of drawing does not matter (splitmix64). */
#ifndef RANKTRACE_SIM_RANDOM_H
#define RANKTRACE_SIM_RANDOM_H

#include <stdint.h>

static inline uint64_t sim_hash(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static inline uint64_t sim_hash2(uint64_t key, uint64_t a, uint64_t b)
{
	return sim_hash(key ^ (a * 0xd6e8feb86659fd93ULL) ^ (b * 0xa0761d6478bd642fULL));
}

/* [0, 1) */
static inline double sim_uniform(uint64_t random)
{
	return (double)(random >> 11) * 0x1p-53;
}

/* Sum of four uniforms, of mean 0 and variance 1: near enough to normal, and never beyond 3.5. */
static inline double sim_normal(uint64_t random)
{
	uint64_t sum = (random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48);

	return ((double)sum / 65535.0 - 2.0) * 1.7320508075688772;
}

#endif
