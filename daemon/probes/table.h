/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe tables: the meaning of functions of libraries. bpf/probes.d/README has their format; files are read with ini.h.
 * Limits: PROBES_MAX rows, RT_CALL_ARGS_MAX readers, PROBE_PATTERNS_MAX patterns, PROBE_ACCESSORS_MAX accessors each.
 */
#ifndef RANKTRACE_DAEMON_PROBES_TABLE_H
#define RANKTRACE_DAEMON_PROBES_TABLE_H

#include "analyzers/coll/coll.h"
#include "bpf/call.h"
#include "daemon/core/level.h"
#include "daemon/base/util.h"

#define PROBES_MAX 512
#define PROBE_PATTERNS_MAX 4
#define PROBE_NAME_BYTES 64
#define PROBE_PATTERN_BYTES 512 /* mangled names are long */
#define PROBE_ACCESSORS_MAX 4
#define PROBE_ACCESSOR_BYTES 192

struct probe {
	char name[PROBE_NAME_BYTES];
	char file[64]; /* base name of its table */
	unsigned line;
	enum level level;
	char library[PROBE_PATTERNS_MAX][128];
	unsigned libraries;
	char symbol[PROBE_PATTERNS_MAX][PROBE_PATTERN_BYTES];
	unsigned symbols;
	char usdt_provider[32]; /* "" if the row has symbols */
	char usdt_name[32];
	enum rt_edge edge;
	char stage[32]; /* "" if taken from the text */
	char event[32]; /* "" for stage marks and group opens */
	char family[8];
	char op[32];
	enum coll_field field[RT_CALL_ARGS_MAX]; /* name of arg[i]; OP_FIELD_MAX: none, also of those past the last */
	char accessor[PROBE_ACCESSORS_MAX][PROBE_ACCESSOR_BYTES];
	bool accessor_is_part[PROBE_ACCESSORS_MAX];
	unsigned accessors;
	uint8_t accessor_of[RT_CALL_ARGS_MAX]; /* accessor of arg[i], from 1; 0: none */
	bool optional;			       /* not reported if no library has it */
	bool foreign;			       /* for another machine; never in a table */
	char set[32];			       /* "" if none */
	uint8_t variant;		       /* of the set, from 1 */
	bool symbols_all;		       /* probe every match, not only the first pattern's */
	bool at_return;			       /* edge end is sent at the return */
	bool return_probe;		       /* return caught by a uretprobe, not at return instructions */
	char help[128];
	uint8_t usdt_operand[RT_CALL_ARGS_MAX]; /* operand number of arg[i], from 1; 0: spec.arg[i] is complete */
	/* complete but for USDT operands and accessors; RT_CALL_RESULT in flags keeps the return value */
	struct rt_call_spec spec;
};

struct probe_table {
	struct probe *probe;
	size_t count;
};

/*
 * Adds the rows of one text, or of every *.conf of a folder in name order (none if the folder is missing). A row
 * replaces an earlier one of its name, at that index. On failure the table is unchanged.
 */
int probe_table_parse(struct probe_table *table, const char *path, const char *text, size_t size_bytes, char *error,
	size_t error_size);
int probe_table_load_dir(struct probe_table *table, const char *dir, char *error, size_t error_size);
void probe_table_free(struct probe_table *table);
/* Removes rows of levels outside these LEVEL_BIT()s: other collectors attach them. */
void probe_table_keep_levels(struct probe_table *table, uint32_t levels);
/* Tables of several folders in order, reduced to these levels. */
int probe_table_load_dirs(struct probe_table *table, const char *const *dirs, size_t count, uint32_t levels,
	char *error, size_t error_size);

/*
 * Rows to use for libraries mapped together: found[i] says whether row i's library and its symbol or USDT probe are
 * among them. Pure. ret_use has table->count elements.
 */
void probe_table_choose(const struct probe_table *table, const bool *found, bool *ret_use);

/*
 * Distinct library patterns of all rows, matched against every mapping of every rank. ret has space for count *
 * PROBE_PATTERNS_MAX; returns the number.
 */
size_t probe_table_libraries(const struct probe_table *table, const char **ret);
bool probe_matches_library(const struct probe *probe, const char *base_name);
/* Its marks alone count steps (analyzers/steps/steps.h, "Sampling"): attached while its level is sampled, in and
 * between windows. */
bool probe_is_boundary(const struct probe *probe);

#endif
