/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IPv4 address by which sysTrace's files tell nodes apart: the node's own on the network of its default route, else
 * the first that is not of the loopback, else 127.0.0.1. Read from /proc/1/net, because the daemon's unit has a network
 * of its own and no sockets but Unix ones.
 */
#ifndef RANKTRACE_NODE_ADDRESS_H
#define RANKTRACE_NODE_ADDRESS_H

#define NODE_ADDRESS_BYTES 16

/* net_dir: "/proc/1/net", or another of the same shape. */
void node_address(const char *net_dir, char ret[NODE_ADDRESS_BYTES]);

#endif
