/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the program libexec/ranktrace/worker/reader, which reads what ranks control: their maps, the files they
 * map. The daemon's side makes a question and takes the answer, which is hostile: the author of the file may control
 * the program.
 */
#ifndef RANKTRACE_DAEMON_PROBES_READER_H
#define RANKTRACE_DAEMON_PROBES_READER_H

#include "daemon/probes/facts.h"
#include "daemon/probes/maps.h"
#include "daemon/worker/wire.h"
#include "daemon/worker/worker.h"

/* Maps of processes, and opening the files: processes that are reused. */
extern const struct worker_kind reader_maps_kind;
/* Facts: a process for each file. */
extern const struct worker_kind reader_facts_kind;

/* Questions. They are freed by the caller, and failed where memory is out. */
void reader_ask_maps(struct wire_writer *ret, const char *proc_root, uint32_t pid,
	const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns);
void reader_ask_file(struct wire_writer *ret, const char *proc_root, uint32_t pid, const struct mapping *mapping);
/* Its descriptor is that of reader_take_file(). rows: numbers of the rows asked for, in the table. */
void reader_ask_facts(struct wire_writer *ret, const char *base_name, const struct probe_table *table,
	const uint16_t *rows, size_t count);

/* Answers: what was found, or the error of maps_read(), mapped_file_open(), facts_find(); -EBADMSG: no valid answer. */
int reader_take_maps(const struct worker_reply *reply, struct maps *ret);
/* Takes the descriptor out of the reply. */
int reader_take_file(struct worker_reply *reply, struct mapped_file *ret);
/* By row of the table. */
int reader_take_facts(const struct worker_reply *reply, uint64_t file_bytes, const struct probe_table *table,
	const uint16_t *rows, size_t count, struct facts *ret);

/* The program: answers one question. */
int reader_serve(const struct worker_task *task);

#endif
