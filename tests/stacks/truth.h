/* SPDX-License-Identifier: Apache-2.0 */
/* What truth.py's threads say of their own stacks, in a file that both sides map. */
#ifndef RANKTRACE_TESTS_STACKS_TRUTH_H
#define RANKTRACE_TESTS_STACKS_TRUTH_H

#include <stdint.h>

#define TRUTH_SLOTS 16u
#define TRUTH_BYTES (32768u - 32)

#define TRUTH_NONE 0u  /* says nothing now */
#define TRUTH_PATH 1u  /* data: a number for each function that was entered and not left, one byte each */
#define TRUTH_EXACT 2u /* data: the stack as JSON; the thread waits until it was read */

struct truth_slot {
	uint32_t tid; /* 0: unused */
	uint32_t mode;
	uint32_t serial; /* of an exact one */
	uint32_t ack;	 /* the serial that was read */
	uint32_t length; /* of data */
	uint32_t pad[3];
	uint8_t data[TRUTH_BYTES];
};

#endif
