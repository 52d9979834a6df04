/* SPDX-License-Identifier: Apache-2.0 */
/* An operation of a rank as numbers, as a step keeps it. */
#ifndef RANKTRACE_DETECT_FRAMER_RECORD_H
#define RANKTRACE_DETECT_FRAMER_RECORD_H

#include "analyzers/detect/framer.h"

#define ALIGN_NAMES_MAX 1024			      /* names of operations */
#define ALIGN_COMMS_MAX 65536			      /* communicators a job */
#define ALIGN_DURATION_MAX ((UINT64_C(1) << 48) - 1) /* three days; longer ones are taken for that long */
#define ALIGN_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* Small, as all of a step are written and read again: 32 bytes. */
struct align_record {
	uint64_t start_ns;
	uint64_t duration_comm; /* duration in ns << 16 | index of the communicator */
	uint64_t bytes_what;	/* bytes << 16 | point to point << 13 | tier << 11 | number of the name */
	uint32_t seq;		/* of more than 32 bits: folded */
	uint32_t sides;		/* of point to point: which two */
};
_Static_assert(
	ALIGN_COMMS_MAX <= 1 << 16 && ALIGN_NAMES_MAX < 1 << 11 && FRAME_TIER_MAX <= 1 << 2, "a record's bits");

static inline uint64_t align_record_duration(const struct align_record *record)
{
	return record->duration_comm >> 16;
}

static inline uint32_t align_record_comm(const struct align_record *record)
{
	return (uint16_t)record->duration_comm;
}

static inline uint64_t align_record_bytes(const struct align_record *record)
{
	return record->bytes_what >> 16;
}

static inline uint16_t align_record_op(const struct align_record *record)
{
	return record->bytes_what & ((1 << 11) - 1);
}

static inline uint8_t align_record_tier(const struct align_record *record)
{
	return record->bytes_what >> 11 & 3;
}

static inline bool align_record_p2p(const struct align_record *record)
{
	return record->bytes_what >> 13 & 1;
}

/* What of bytes_what is not bytes. */
static inline uint16_t align_what(uint32_t op, enum frame_tier tier, bool p2p)
{
	return (uint16_t)((uint32_t)p2p << 13 | (uint32_t)tier << 11 | op);
}

static inline uint16_t align_what_op(uint16_t what)
{
	return what & ((1 << 11) - 1);
}

static inline uint8_t align_what_tier(uint16_t what)
{
	return what >> 11 & 3;
}

static inline bool align_what_p2p(uint16_t what)
{
	return what >> 13 & 1;
}

/* Both sides in one word: one word of two for each pair of numbers below 65536, and almost surely for others. */
static inline uint32_t align_sides(int32_t member, int32_t peer, bool receive)
{
	uint32_t sender = (uint32_t)(receive ? peer : member), receiver = (uint32_t)(receive ? member : peer);

	return (sender << 16 | sender >> 16) ^ receiver;
}

#endif
