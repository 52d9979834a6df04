/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of InfiniBand and RoCE cards: /sys/class/infiniband/CARD/ports/N. counters/ is the standard's, hw_counters/ the
 * driver's (RoCE's congestion and retransmission).
 */
#include "daemon/gauges/gauge.h"

#define MIB (1024.0 * 1024)
#define CARDS_MAX 64
#define PORTS_MAX 8

static const struct gauge infiniband_gauges[] = {
	/* Counted in words of four bytes. */
	{"received", "bytes/s", GAUGE_RATE, 4, 1024 * MIB, "bytes received"},
	{"sent", "bytes/s", GAUGE_RATE, 4, 1024 * MIB, "bytes sent"},
	{"symbol_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "errors on the line"},
	{"receive_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "packets received with an error"},
	{"send_discards", "1", GAUGE_LOSS_COUNT, 1, 0, "packets not sent"},
	{"link_recoveries", "1", GAUGE_LOSS_COUNT, 1, 0, "times the link recovered from an error"},
	{"link_downed", "1", GAUGE_COUNT, 1, 0, "times the link went down"},
	{"integrity_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "errors on the link beyond its threshold"},
	{"send_wait", "ticks/s", GAUGE_RATE, 1, 1e8, "ticks in which data waited for credits: congestion"},
	{"congestion_notices", "1/s", GAUGE_LOSS_RATE, 1, 1000,
		"RoCE: packets answered with a congestion notification"},
	{"congestion_handled", "1/s", GAUGE_LOSS_RATE, 1, 1000, "RoCE: congestion notifications that slowed this port"},
	{"ack_timeouts", "1", GAUGE_LOSS_COUNT, 1, 0, "sends repeated after no acknowledgement came"},
	{"sequence_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "packets sent again after the other side asked"},
	{"out_of_sequence", "1", GAUGE_COUNT, 1, 0, "packets received out of order"},
	{"adaptive_retransmits", "1", GAUGE_LOSS_COUNT, 1, 0, "retransmissions by the card's own timer"},
	{"checksum_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "RoCE: packets received with a wrong checksum"},
	{"active", "1", GAUGE_COUNT, 1, 0, "1: the port is up"},
	{0},
};

static const char *const places[] = {
	"counters/port_rcv_data",
	"counters/port_xmit_data",
	"counters/symbol_error",
	"counters/port_rcv_errors",
	"counters/port_xmit_discards",
	"counters/link_error_recovery",
	"counters/link_downed",
	"counters/local_link_integrity_errors",
	"counters/port_xmit_wait",
	"hw_counters/np_cnp_sent",
	"hw_counters/rp_cnp_handled",
	"hw_counters/local_ack_timeout_err",
	"hw_counters/packet_seq_err",
	"hw_counters/out_of_sequence",
	"hw_counters/roce_adp_retrans",
	"hw_counters/rx_icrc_encapsulated",
};
/* And `state`, "4: ACTIVE", which is no count. */
#define ACTIVE ARRAY_SIZE(places)
#define STATE_ACTIVE 4 /* enum ib_port_state */
#define STATE_ACTIVE_DEFER 5
_Static_assert(ACTIVE + 2 == ARRAY_SIZE(infiniband_gauges), "a place for each gauge");

struct infiniband {
	char folder[128];
};

static int gauge_infiniband_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct infiniband *infiniband = calloc(1, sizeof(*infiniband));

	if (!infiniband)
		return -ENOMEM;
	snprintf(infiniband->folder, sizeof(infiniband->folder), "%s/class/infiniband", roots->sys);
	if (access(infiniband->folder, R_OK | X_OK) < 0) {
		int r = -errno;

		snprintf(why, why_size, "cannot read %s: %s", infiniband->folder, strerror(-r));
		free(infiniband);
		return r;
	}
	*ret = infiniband;
	return 0;
}

static void gauge_infiniband_port(struct gauge_batch *batch, const char *ports, const char *card, const char *port)
{
	char folder[224], object[GAUGE_OBJECT_BYTES];
	double value;

	snprintf(folder, sizeof(folder), "%.140s/%.16s", ports, port);
	snprintf(object, sizeof(object), "%.40s/%.16s", card, port);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (gauge_file_number(folder, places[i], &value))
			gauge_sample(batch, &infiniband_gauges[i], object, value);
	if (gauge_file_number(folder, "state", &value))
		gauge_sample(batch, &infiniband_gauges[ACTIVE], object,
			value >= STATE_ACTIVE && value <= STATE_ACTIVE_DEFER);
}

static int gauge_infiniband_read(void *state, struct gauge_batch *batch)
{
	const struct infiniband *infiniband = state;
	_cleanup_closedir_ DIR *cards = opendir(infiniband->folder);
	struct dirent *card, *port;

	for (unsigned i = 0; cards && i < CARDS_MAX && (card = readdir(cards));) {
		_cleanup_closedir_ DIR *ports = NULL;
		char path[224];

		if (card->d_name[0] == '.')
			continue;
		i++;
		snprintf(path, sizeof(path), "%s/%.64s/ports", infiniband->folder, card->d_name);
		ports = opendir(path);
		for (unsigned n = 0; ports && n < PORTS_MAX && (port = readdir(ports));) {
			if (port->d_name[0] == '.')
				continue;
			n++;
			gauge_infiniband_port(batch, path, card->d_name, port->d_name);
		}
	}
	return 0;
}

const struct gauge_source gauge_source_infiniband = {
	.name = "infiniband",
	.summary = "ports of InfiniBand and RoCE cards",
	.gauges = infiniband_gauges,
	.rows_per_second = 2,
	.open = gauge_infiniband_open,
	.group = {{.name = "infiniband", .read = gauge_infiniband_read}},
	.close = free,
};
