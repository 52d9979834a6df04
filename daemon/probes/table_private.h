/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by table.c, table_keys.c and table_args.c. A setter parses one key's value into a row; on failure it writes a
 * sentence fragment.
 */
#ifndef RANKTRACE_DAEMON_PROBES_TABLE_PRIVATE_H
#define RANKTRACE_DAEMON_PROBES_TABLE_PRIVATE_H

#include "daemon/probes/table.h"

#define PROBE_SET_VARIANTS 16

typedef int (*probe_setter)(struct probe *probe, const char *value, char *error, size_t error_size);

/* Bits of these keys in `seen`. */
#define PROBE_KEY_LEVEL (1u << 0)
#define PROBE_KEY_EDGE (1u << 1)

/* Sets the key; `seen` has the row's earlier keys. */
int probe_set_key(
	struct probe *probe, uint32_t *seen, const char *key, const char *value, char *error, size_t error_size);
int probe_set_args(struct probe *probe, const char *value, char *error, size_t error_size);
bool probe_has_text(const struct probe *probe);

int probe_refuse(char *error, size_t error_size, const char *format, ...) _printf_(3, 4);
/* Calls back for each blank-separated word; a negative result stops. */
int probe_each_word(const char *text, int (*each)(void *arg, const char *word, size_t bytes), void *arg);

#endif
