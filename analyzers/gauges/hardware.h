/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of what one node's hardware says of itself: Xids and lost cards in the kernel's log, uncorrectable memory
 * errors, NVLinks, PCIe lanes, network ports. Pure; fed by the daemon as it reads, and by tracectl analyze from the
 * tables gauges, kernel_messages and cards.
 *
 * A gauge is a row of the table in hardware.c, an Xid one of xids.def. What holds (a lost card, a port that is down) is
 * open until it holds no more; what happens (an Xid, an error) until it has not happened for HARDWARE_QUIET_NS. The
 * first value of a counter is where it began. Ranks that use a card are those of the finding.
 */
#ifndef RANKTRACE_GAUGES_HARDWARE_H
#define RANKTRACE_GAUGES_HARDWARE_H

#include "analyzers/finding/finding.h"

#define HARDWARE_THINGS_MAX 256		  /* cards and ports of a node; further ones are left out */
#define HARDWARE_USERS_MAX 64		  /* ranks of one card that are named */
#define HARDWARE_EPISODES_MAX 128	  /* findings that are open at once; further ones are left out */
#define HARDWARE_QUIET_NS 600000000000ULL /* the Xids of one fault come over minutes, and are one finding */
#define HARDWARE_UPDATE_NS 10000000000ULL /* a count that goes on rising is published so often */

/* "" and -1: unknown. */
struct hardware_card {
	char object[72]; /* as in its gauges: UUID */
	char pci[16];
	int minor; /* number of its device node */
};

struct hardware_sink {
	void (*finding)(void *arg, const struct finding *finding);
	/* Fills job, rank, others and card of the ranks that use it now; changes nothing where there are none. */
	void (*users)(void *arg, const char *host, const struct hardware_card *card, struct finding *finding);
	void *arg;
};

struct hardware;

/* next_id: the first free number of a finding, counted up. NULL: out of memory. */
struct hardware *hardware_new(const char *host, const struct hardware_sink *sink, uint64_t *next_id);
struct hardware *hardware_free(struct hardware *hardware);
const char *hardware_host(const struct hardware *hardware);
/* Its driver describes a card. */
void hardware_card(struct hardware *hardware, const struct hardware_card *card);
/* Whether it says anything of a fault. */
bool hardware_is_gauge(const char *name);
/* Other names are ignored. In the order of time for each object. */
void hardware_gauge(struct hardware *hardware, uint64_t time_ns, const char *object, const char *name, double value);
/* A row of kernel_messages; other kinds are ignored. object: PCI address. */
void hardware_message(struct hardware *hardware, uint64_t time_ns, const char *kind, const char *object, int64_t number,
	const char *text);
void hardware_advance(struct hardware *hardware, uint64_t now_ns);
/* Nothing more to read: open findings are published once more as they are. */
void hardware_end(struct hardware *hardware, uint64_t now_ns);
/* Whether a rank that names its card `word` (number of its device node, or the beginning of a UUID) uses this one. */
bool hardware_card_is(const char *object, int minor, const char *word);

#endif
