/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host and devices (L2): the events `copy` and `copy_async`, which the kernel sums (bpf/copies.h), to
 * the view `copies`, a row a second; one that failed to `api_errors`.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_COPIES_H
#define RANKTRACE_DAEMON_MEMORY_COPIES_H

#include "daemon/calls/call_sink.h"

struct copies;

int copies_new(struct context *context, struct copies **ret);
struct copies *copies_free(struct copies *copies);

extern const struct call_sink copies_sink;

#endif
