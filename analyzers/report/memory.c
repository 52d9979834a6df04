/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of devices: what each process reached on each device, then a row of the table for each rank and device. */
#include "analyzers/report/model.h"
#include "analyzers/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"

#define MEMORY_DEVICES_MAX 16 /* of a process: twice as many as the daemon keeps of one */

/* The process's row of the device, added if there is none; NULL: left out. */
static struct report_memory *report_memory_of(
	struct report *report, struct report_rank *rank, const struct report_memory *seen)
{
	size_t devices = 0;

	for (uint32_t at = rank->memory; at; at = report->memory[at - 1].next, devices++) {
		struct report_memory *memory = &report->memory[at - 1];

		if (memory->device == seen->device && strcmp(memory->kind, seen->kind) == 0)
			return memory;
	}
	if (devices == MEMORY_DEVICES_MAX ||
		!array_reserve((void **)&report->memory, &report->memory_capacity, report->memories + 1,
			sizeof(*report->memory), REPORT_MEMORY_MAX)) {
		report_note(report, "memory of too many devices: not all of them are in this report");
		return NULL;
	}
	report->memory[report->memories] = (struct report_memory){
		.job = rank->job,
		.card = rank->card,
		.rank = rank->rank,
		.device = seen->device,
		.leak = REPORT_NONE,
		.next = rank->memory,
	};
	snprintf(report->memory[report->memories].kind, sizeof(seen->kind), "%s", seen->kind);
	rank->memory = (uint32_t)++report->memories;
	return &report->memory[report->memories - 1];
}

void report_memory_add(struct report *report, struct report_rank *rank, const struct report_memory *seen)
{
	struct report_memory *memory = report_memory_of(report, rank, seen);

	if (!memory)
		return;
	memory->failed += seen->failed;
	if (seen->allocated_bytes > memory->allocated_bytes)
		memory->allocated_bytes = seen->allocated_bytes;
	if (seen->reserved_bytes > memory->reserved_bytes)
		memory->reserved_bytes = seen->reserved_bytes;
}

/* Calls name no device: they count on the process's device with the largest peak. */
static void report_memory_count_calls(struct report *report, const struct report_rank *rank)
{
	struct report_memory *largest = NULL;

	for (uint32_t at = rank->memory; at; at = report->memory[at - 1].next) {
		struct report_memory *memory = &report->memory[at - 1];

		if (!largest || memory->allocated_bytes > largest->allocated_bytes)
			largest = memory;
	}
	if (largest)
		largest->calls_failed += rank->calls_failed;
}

static int report_memory_by_key(const void *a, const void *b)
{
	const struct report_memory *x = a, *y = b;

	return ORDER(x->job, y->job) ?: ORDER(x->rank, y->rank) ?: ORDER(x->card, y->card) ?:
	       ORDER(x->device, y->device) ?: strcmp(x->kind, y->kind);
}

/* Processes of one rank on one device, as after a restart, are one row. Blocks of the host's memory have no sum in some
 * versions of PyTorch: such a row is empty. */
static void report_memory_join(struct report *report)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->memories; i++) {
		const struct report_memory *memory = &report->memory[i];
		struct report_memory *last = kept ? &report->memory[kept - 1] : NULL;

		if (!memory->allocated_bytes && !memory->failed)
			continue;
		if (!last || report_memory_by_key(last, memory) != 0) {
			report->memory[kept++] = *memory;
			continue;
		}
		last->failed += memory->failed;
		last->calls_failed += memory->calls_failed;
		if (memory->allocated_bytes > last->allocated_bytes)
			last->allocated_bytes = memory->allocated_bytes;
		if (memory->reserved_bytes > last->reserved_bytes)
			last->reserved_bytes = memory->reserved_bytes;
	}
	report->memories = kept;
}

static const struct finding_evidence *report_memory_evidence(const struct finding *finding, const char *name)
{
	for (size_t i = 0; i < finding->evidences; i++)
		if (strcmp(finding->evidence[i].name, name) == 0)
			return &finding->evidence[i];
	return NULL;
}

static bool report_memory_is_of(
	const struct report *report, const struct report_memory *memory, const struct report_finding *finding)
{
	const struct finding_evidence *growth = report_memory_evidence(&finding->is, "memory_growth");
	char device[WORDS_BYTES];

	return memory->job == finding->job && memory->rank == finding->is.rank &&
	       (memory->card == REPORT_NONE || finding->node == REPORT_NONE ||
		       report->card[memory->card].node == finding->node) &&
	       growth && strcmp(growth->detail, words_memory_device(memory, device)) == 0;
}

/* The newest one counts. */
static void report_memory_take_leak(struct report *report, uint32_t index)
{
	const struct report_finding *finding = &report->finding[index];

	for (size_t i = 0; i < report->memories; i++) {
		struct report_memory *memory = &report->memory[i];

		if (report_memory_is_of(report, memory, finding) &&
			(memory->leak == REPORT_NONE ||
				report->finding[memory->leak].is.since_ns < finding->is.since_ns))
			memory->leak = index;
	}
}

double report_memory_hourly(const struct report *report, const struct report_memory *memory)
{
	const struct finding_evidence *hourly =
		memory->leak == REPORT_NONE
			? NULL
			: report_memory_evidence(&report->finding[memory->leak].is, "memory_hourly");

	return hourly && isfinite(hourly->value) ? hourly->value : NAN;
}

const char *report_memory_place(const struct report *report, const struct report_memory *memory)
{
	const struct finding_evidence *place =
		memory->leak == REPORT_NONE ? NULL : report_memory_evidence(&report->finding[memory->leak].is, "stack");

	return place ? place->detail : "";
}

static bool report_memory_is_bad(const struct report_memory *memory)
{
	return memory->failed || memory->leak != REPORT_NONE;
}

static int report_memory_by_weight(const void *a, const void *b, void *arg)
{
	const struct report_memory *x = a, *y = b;
	double grows = fmax(report_memory_hourly(arg, x), 0), others = fmax(report_memory_hourly(arg, y), 0);

	return ORDER(report_memory_is_bad(y), report_memory_is_bad(x)) ?: ORDER(y->failed, x->failed) ?:
	       ORDER(others, grows) ?: ORDER(y->calls_failed, x->calls_failed) ?:
	       ORDER(y->allocated_bytes, x->allocated_bytes) ?: report_memory_by_key(x, y);
}

void report_memory_make(struct report *report)
{
	if (!report->memories)
		return;
	for (size_t i = 0; i < report->ranks; i++)
		report_memory_count_calls(report, &report->rank[i]);
	qsort(report->memory, report->memories, sizeof(*report->memory), report_memory_by_key);
	report_memory_join(report);
	for (uint32_t i = 0; i < report->findings; i++)
		if (report->finding[i].is.cause == CAUSE_MEMORY_LEAK)
			report_memory_take_leak(report, i);
	qsort_r(report->memory, report->memories, sizeof(*report->memory), report_memory_by_weight, report);
	for (size_t i = 0; i < report->memories; i++)
		report->memories_bad += report_memory_is_bad(&report->memory[i]);
}

const char *words_memory_device(const struct report_memory *memory, char *buffer)
{
	if (memory->device >= 0)
		snprintf(buffer, WORDS_BYTES, "%s:%" PRId32, memory->kind, memory->device);
	else
		snprintf(buffer, WORDS_BYTES, "%s", memory->kind);
	return buffer;
}

const char *words_memory_bytes(uint64_t bytes, char *buffer)
{
	return words_value(bytes ? (double)bytes : NAN, "bytes", buffer);
}

const char *words_memory_leak(const struct report *report, const struct report_memory *memory, char *buffer)
{
	double hourly = report_memory_hourly(report, memory);
	const char *place = report_memory_place(report, memory);
	char bytes[WORDS_BYTES];

	buffer[0] = 0;
	if (memory->leak != REPORT_NONE)
		snprintf(buffer, WORDS_BYTES, "%.40s an hour%s%.*s", words_value(hourly, "bytes", bytes),
			*place ? ", " : "", (int)STACK_PLACE_BYTES, place);
	return buffer;
}
