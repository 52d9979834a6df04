/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, 64 bits: stable across machines and starts. Starts with FNV1A_START; to continue, pass the previous hash. */
#ifndef RANKTRACE_BASE_FNV1A_H
#define RANKTRACE_BASE_FNV1A_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FNV1A_START 0xcbf29ce484222325ULL

static inline uint64_t fnv1a_bytes(uint64_t hash, const void *data, size_t size_bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < size_bytes; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3ULL;
	return hash;
}

/* Without its terminating zero. */
static inline uint64_t fnv1a_text(uint64_t hash, const char *text)
{
	return fnv1a_bytes(hash, text, strlen(text));
}

#endif
