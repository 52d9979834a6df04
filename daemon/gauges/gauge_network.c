/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces with a device below them: counters of the node's network namespace (/proc/1/net/dev, as the daemon
 * may be in one of its own), and what /sys has of the link.
 */
#include "daemon/gauges/gauge.h"

#define TEXT_BYTES 65536
#define MIB (1024.0 * 1024)

enum {
	RX_BYTES,
	RX_ERRORS,
	RX_DROPPED,
	TX_BYTES,
	TX_ERRORS,
	TX_DROPPED,
	COUNTERS,
	LINK_CHANGES = COUNTERS,
	SPEED,
	RETRANSMITS,
	NETWORK_MAX
};

static const struct gauge network_gauges[] = {
	[RX_BYTES] = {"received", "bytes/s", GAUGE_RATE, 1, 256 * MIB, "bytes received"},
	[RX_ERRORS] = {"receive_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "packets received with an error"},
	[RX_DROPPED] = {"receive_drops", "1", GAUGE_LOSS_COUNT, 1, 100, "packets received and dropped"},
	[TX_BYTES] = {"sent", "bytes/s", GAUGE_RATE, 1, 256 * MIB, "bytes sent"},
	[TX_ERRORS] = {"send_errors", "1", GAUGE_LOSS_COUNT, 1, 0, "packets not sent for an error"},
	[TX_DROPPED] = {"send_drops", "1", GAUGE_LOSS_COUNT, 1, 100, "packets dropped before they were sent"},
	[LINK_CHANGES] = {"link_changes", "1", GAUGE_COUNT, 1, 0, "times the link went up or down"},
	[SPEED] = {"speed", "bits/s", GAUGE_COUNT, 1e6, 0, "speed of the link"},
	[RETRANSMITS] = {"tcp_retransmits", "1/s", GAUGE_LOSS_RATE, 1, 100, "TCP segments sent again"},
	[NETWORK_MAX] = {0},
};

/* Their columns in /proc/net/dev after the name, from 0. */
static const unsigned columns[COUNTERS] = {
	[RX_BYTES] = 0, [RX_ERRORS] = 2, [RX_DROPPED] = 3, [TX_BYTES] = 8, [TX_ERRORS] = 10, [TX_DROPPED] = 11};

#define COLUMNS 16

struct network {
	char net[128], class[128];
	char text[TEXT_BYTES];
};

static int gauge_network_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct network *network = calloc(1, sizeof(*network));
	char path[160];
	int r;

	if (!network)
		return -ENOMEM;
	snprintf(network->net, sizeof(network->net), "%s/1/net", roots->proc);
	snprintf(network->class, sizeof(network->class), "%s/class/net", roots->sys);
	snprintf(path, sizeof(path), "%s/dev", network->net);
	r = gauge_file(path, network->text, sizeof(network->text));
	if (r < 0) {
		snprintf(why, why_size, "cannot read %s: %s", path, strerror(-r));
		free(network);
		return r == -ENOENT ? -EACCES : r;
	}
	*ret = network;
	return 0;
}

static bool gauge_network_parse(const char *text, double value[COLUMNS])
{
	for (unsigned i = 0; i < COLUMNS; i++) {
		char *end;

		value[i] = strtod(text, &end);
		if (end == text)
			return false;
		text = end;
	}
	return true;
}

static void gauge_network_interface(
	const struct network *network, struct gauge_batch *batch, const char *name, const char *values)
{
	char folder[192], device[224];
	double value[COLUMNS], link;

	snprintf(folder, sizeof(folder), "%s/%s", network->class, name);
	snprintf(device, sizeof(device), "%s/device", folder);
	if (access(device, F_OK) < 0 || !gauge_network_parse(values, value))
		return;
	for (unsigned i = 0; i < COUNTERS; i++)
		gauge_sample(batch, &network_gauges[i], name, value[columns[i]]);
	if (gauge_file_number(folder, "carrier_changes", &link))
		gauge_sample(batch, &network_gauges[LINK_CHANGES], name, link);
	/* -1, or an error, without a link. */
	if (gauge_file_number(folder, "speed", &link) && link > 0)
		gauge_sample(batch, &network_gauges[SPEED], name, link);
}

/* RetransSegs: /proc/net/snmp has a line of names and one of values for each protocol. */
static void gauge_network_retransmits(struct network *network, struct gauge_batch *batch)
{
	char path[160], *names, *values, *saved_names, *saved_values;

	snprintf(path, sizeof(path), "%s/snmp", network->net);
	if (gauge_file(path, network->text, sizeof(network->text)) < 0 || !(names = strstr(network->text, "Tcp: ")) ||
		!(values = strstr(names + 1, "\nTcp: ")))
		return;
	*values++ = 0;
	values[strcspn(values, "\n")] = 0;
	names = strtok_r(names, " ", &saved_names);
	values = strtok_r(values, " ", &saved_values);
	while (names && values && !streq(names, "RetransSegs")) {
		names = strtok_r(NULL, " ", &saved_names);
		values = strtok_r(NULL, " ", &saved_values);
	}
	if (names && values)
		gauge_sample(batch, &network_gauges[RETRANSMITS], "", strtod(values, NULL));
}

static int gauge_network_read(void *state, struct gauge_batch *batch)
{
	struct network *network = state;
	char path[160], *line, *saved;

	snprintf(path, sizeof(path), "%s/dev", network->net);
	if (gauge_file(path, network->text, sizeof(network->text)) < 0)
		return 0;
	for (line = strtok_r(network->text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon = 0;
		gauge_network_interface(network, batch, line + strspn(line, " "), colon + 1);
	}
	gauge_network_retransmits(network, batch);
	return 0;
}

const struct gauge_source gauge_source_network = {
	.name = "network",
	.summary = "network interfaces and their links",
	.gauges = network_gauges,
	.rows_per_second = 2,
	.open = gauge_network_open,
	.group = {{.name = "network", .read = gauge_network_read}},
	.close = free,
};
