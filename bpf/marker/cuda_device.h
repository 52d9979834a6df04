/* SPDX-License-Identifier: Apache-2.0 */
/* The device that the calling thread uses, where the process has CUDA's driver library loaded. */
#ifndef RANKTRACE_MARKER_CUDA_DEVICE_H
#define RANKTRACE_MARKER_CUDA_DEVICE_H

#include <stdint.h>

/* Its number in the process, from 1; 0: unknown. Loads nothing and makes no context. */
uint16_t cuda_device(void);

#endif
