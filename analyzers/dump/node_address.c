/* SPDX-License-Identifier: Apache-2.0 */
/* See node_address.h. proc_net(5): route has numbers of the machine's byte order, fib_trie lists "|-- ADDRESS" and
 * below it
 * "/32 host LOCAL" for an address of the node's own. */
#include "analyzers/dump/node_address.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX 100000 /* of a node with very many routes */
#define NETWORKS_MAX 16

struct network {
	uint32_t address, mask; /* of the network's byte order */
};

struct networks {
	size_t count;
	struct network network[NETWORKS_MAX];
};

static FILE *open_in(const char *net_dir, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", net_dir, name) < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* The networks on the interface of the default route. */
static void default_networks(const char *net_dir, struct networks *ret)
{
	char line[256], by[32] = "", interface[32];
	unsigned destination, mask, metric, best = UINT_MAX;

	*ret = (struct networks){0};
	for (int pass = 0; pass < 2; pass++) {
		FILE *f = open_in(net_dir, "route");

		for (unsigned i = 0; f && i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
			if (sscanf(line, "%31s %x %*x %*x %*d %*d %u %x", interface, &destination, &metric, &mask) != 4)
				continue;
			if (pass == 0 && !destination && !mask && metric < best) {
				memcpy(by, interface, sizeof(by));
				best = metric;
			} else if (pass == 1 && mask && strcmp(interface, by) == 0 && ret->count < NETWORKS_MAX) {
				ret->network[ret->count++] = (struct network){destination, mask};
			}
		}
		if (f)
			fclose(f);
	}
}

static bool node_address_is_in(const struct networks *networks, uint32_t address)
{
	for (size_t i = 0; i < networks->count; i++)
		if ((address & networks->network[i].mask) == networks->network[i].address)
			return true;
	return false;
}

void node_address(const char *net_dir, char ret[NODE_ADDRESS_BYTES])
{
	char line[256], text[NODE_ADDRESS_BYTES], last[NODE_ADDRESS_BYTES] = "";
	struct networks networks;
	FILE *f = open_in(net_dir, "fib_trie");
	struct in_addr address;

	snprintf(ret, NODE_ADDRESS_BYTES, "127.0.0.1");
	default_networks(net_dir, &networks);
	for (unsigned i = 0; f && i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
		bool first = strcmp(ret, "127.0.0.1") == 0;

		if (sscanf(line, " |-- %15[0-9.]", text) == 1)
			memcpy(last, text, sizeof(last));
		if (!strstr(line, "/32 host LOCAL") || strncmp(last, "127.", 4) == 0 ||
			inet_pton(AF_INET, last, &address) != 1)
			continue;
		if (first || node_address_is_in(&networks, address.s_addr))
			memcpy(ret, last, NODE_ADDRESS_BYTES);
		if (node_address_is_in(&networks, address.s_addr))
			break;
	}
	if (f)
		fclose(f);
}
