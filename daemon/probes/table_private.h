/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What table.c and table_args.c share. A setter reads one key's value into a row; on failure it leaves a sentence
 * fragment.
 */
#ifndef RANKTRACE_DAEMON_PROBES_TABLE_PRIVATE_H
#define RANKTRACE_DAEMON_PROBES_TABLE_PRIVATE_H

#include "daemon/probes/table.h"

#define PROBE_SET_VARIANTS 16

typedef int (*probe_setter)(struct probe *probe, const char *value, char *error, size_t error_size);

/* Places of these keys in table_keys.c, as bits of seen. */
#define PROBE_KEY_LEVEL (1u << 0)
#define PROBE_KEY_EDGE (1u << 1)

/* Sets what key names; seen tells which keys the row has had. */
int probe_set_key(
	struct probe *probe, uint32_t *seen, const char *key, const char *value, char *error, size_t error_size);
int probe_set_args(struct probe *probe, const char *value, char *error, size_t error_size);
bool probe_has_text(const struct probe *probe);

int probe_refuse(char *error, size_t error_size, const char *format, ...) _printf_(3, 4);
/* Calls back for each word between blanks; a negative result ends it. */
int probe_each_word(const char *text, int (*each)(void *arg, const char *word, size_t bytes), void *arg);

#endif
