/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleanup attributes and small helpers for all modules. Nothing here allocates or logs.
 *
 * Contract of all functions unless a header says otherwise: 0 or a negative errno; out-parameters (ret_*) last,
 * untouched on failure; destructors accept NULL and partial objects and return NULL; closed descriptors are -1.
 */
#ifndef RANKTRACE_DAEMON_BASE_UTIL_H
#define RANKTRACE_DAEMON_BASE_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/clock.h"
#include "analyzers/base/fnv1a.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_USEC 1000ULL

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

/* close(x) as closep(), for _cleanup_(closep). */
#define DEFINE_CLEANUP(type, close) \
	static inline void close##p(type *object) \
	{ \
		if (*object) \
			close(*object); \
	}

/* Takes a pointer (a descriptor) out of a cleanup variable. */
#define TAKE_PTR(p) \
	({ \
		__typeof__(p) *_pp = &(p); \
		__typeof__(p) _v = *_pp; \
		*_pp = NULL; \
		_v; \
	})
#define TAKE_FD(fd) \
	({ \
		int *_fp = &(fd); \
		int _v = *_fp; \
		*_fp = -1; \
		_v; \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns. */
static inline uint64_t monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static inline uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_usec * NSEC_PER_USEC;
}

/* Copies at most size-1 bytes and terminates; false if truncated. */
static inline bool copy_text(char *dst, size_t size, const char *src)
{
	size_t n = 0;

	while (n + 1 < size && src[n]) {
		dst[n] = src[n];
		n++;
	}
	dst[n] = 0;
	return !src[n];
}

/*
 * text_units.c: text copied by probes as UTF-8. CPython keeps a str as units of 1, 2 or 4 bytes, one per code point.
 *
 * Writes at most ret_size - 1 bytes and terminates. unit_bytes: 1, 2 or 4; 0: already UTF-8, copied. An invalid unit
 * (surrogate, above U+10FFFF) becomes U+FFFD. Ends at a NUL, at a partial unit, and before a character that does not
 * fit.
 */
void text_from_units(const void *data, size_t size_bytes, unsigned unit_bytes, char *ret, size_t ret_size);

#endif
