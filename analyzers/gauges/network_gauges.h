/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node's network lost while a finding says that it is slow: pure. Fed with the gauges of packets that were
 * lost, sent again or held back (struct gauge.is_loss), asked about findings.
 *
 * A gauge is shown beside a finding where its rate, since the finding began, is at least NETWORK_GAUGES_LEAST and
 * NETWORK_GAUGES_GROWTH times what it was before; of more, the one that grew most when this was seen first.
 */
#ifndef RANKTRACE_GAUGES_NETWORK_GAUGES_H
#define RANKTRACE_GAUGES_NETWORK_GAUGES_H

#include "analyzers/finding/finding.h"

#define NETWORK_GAUGES_MAX 512 /* objects' gauges; further ones are left out */
/* What is before: so long that it has some slots, so short that mostly the same job ran. */
#define NETWORK_GAUGES_BEFORE_NS 60000000000ULL
/* A second. A lost packet costs TCP 0.2 s or more: one in ten seconds is less of a step than any finding has. */
#define NETWORK_GAUGES_LEAST 0.1
#define NETWORK_GAUGES_GROWTH 2.0

struct network_gauges;

struct network_gauges *network_gauges_new(void);
struct network_gauges *network_gauges_free(struct network_gauges *network);
/*
 * object: interface or port; "" of the node. what: static text, as "packets received with an error"; a gauge is an
 * object and a text. is_rate: value is a rate a second since the last sample; else a counter, whose decrease is a new
 * begin.
 */
void network_gauges_sample(struct network_gauges *network, uint64_t time_ns, const char *object, const char *what,
	bool is_rate, double value);
/* Adds the evidence "network", a second, and writes the sentence anew, where a gauge grew and the network is the
 * finding's cause, or all ranks of a slow job wait for something. network may be NULL. */
bool network_gauges_explain(struct network_gauges *network, uint64_t now_ns, struct finding *finding);

#endif
