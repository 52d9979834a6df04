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

/* Sets the key; `seen` has the section's earlier keys. shared: of a section [defaults], which not all keys can be
 * in. */
int probe_set_key(struct probe *probe, uint32_t *seen, bool shared, const char *key, const char *value, char *error,
	size_t error_size);
int probe_set_args(struct probe *probe, const char *value, char *error, size_t error_size);
bool probe_has_text(const struct probe *probe);

int probe_refuse(char *error, size_t error_size, const char *format, ...) _printf_(3, 4);
/* Calls back for each blank-separated word; a negative result stops. */
int probe_each_word(const char *text, int (*each)(void *arg, const char *word, size_t bytes), void *arg);

#endif
