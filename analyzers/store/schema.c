/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the store as data. See schema.h for what derives from them. Names and columns are public: once shipped
 * they stay.
 */
#include "analyzers/store/schema.h"

#include <string.h>

#define INSTANCE \
	{ \
		"instance", SCHEMA_INT, "number of the process identity (boot, pid, start time)", false \
	}

/* clang-format off */
const struct schema_table schema_tables[TABLE_MAX] = {
	[TABLE_RANKS] = {"ranks", "training ranks seen on this node, one row a process", TIER_SUMMARY, SCHEMA_STATE, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"world_size", SCHEMA_INT, "ranks of the job", false},
		{"local_rank", SCHEMA_INT, "rank within the node", false},
		{"job", SCHEMA_TEXT, "job or run id, where given", false},
		{"host", SCHEMA_TEXT, "name of the node", false},
		{"pid", SCHEMA_INT, "process id in the initial namespace", false},
		{"start_time_ns", SCHEMA_TIME, "process start", false},
		{"exe", SCHEMA_TEXT, "program", false},
		{"command", SCHEMA_TEXT, "arguments, cut", false},
		{"cgroup", SCHEMA_TEXT, "control group", false},
		{"container", SCHEMA_TEXT, "container id", false},
		{"pod", SCHEMA_TEXT, "Kubernetes pod", false},
		{"card", SCHEMA_TEXT, "accelerator: as the environment names it, else by the device nodes that the rank has open", false},
		{"source", SCHEMA_TEXT, "what gave the rank its number: torchrun, slurm, ...", false},
		{"first_seen_ns", SCHEMA_TIME, "first seen, ns since the epoch", false},
		{"last_seen_ns", SCHEMA_TIME, "last seen, ns since the epoch", false},
		{"ended", SCHEMA_INT, "1 if the process has ended", false},
		{"instance", SCHEMA_INT, "number of the process identity (boot, pid, start time)", true},
	}},
	[TABLE_STEPS] = {"steps", "training steps", TIER_SUMMARY, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "number of the step, from 1", false},
		{"start_ns", SCHEMA_TIME, "start, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "length in ns, host time", false},
		{"kind", SCHEMA_TEXT, "train, inference or backward (closed by backward alone)", false},
		INSTANCE,
	}},
	[TABLE_STAGES] = {"stages", "parts of steps: dataloader, forward, backward, ...", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that it belongs to, NULL if none", false},
		{"stage", SCHEMA_TEXT, "kind of stage", false},
		{"name", SCHEMA_TEXT, "as the framework or the user marked it", false},
		{"start_ns", SCHEMA_TIME, "start, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "length in ns, host time", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		{"depth", SCHEMA_INT, "open stages around it on its thread", false},
		INSTANCE,
	}},
	[TABLE_IN_FLIGHT] = {"in_flight", "what had begun and not ended at the last flush", TIER_EVENTS, SCHEMA_NOW, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that it belongs to, NULL if none", false},
		{"stage", SCHEMA_TEXT, "kind of stage", false},
		{"name", SCHEMA_TEXT, "as the framework or the user marked it", false},
		{"start_ns", SCHEMA_TIME, "start, ns since the epoch", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		{"depth", SCHEMA_INT, "open stages around it on its thread", false},
		INSTANCE,
	}},
	[TABLE_CUT_STAGES] = {"cut_stages", "stages that had begun and not ended when their rank ended, or was watched no longer", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that it belongs to, NULL if none", false},
		{"stage", SCHEMA_TEXT, "kind of stage", false},
		{"name", SCHEMA_TEXT, "as the framework or the user marked it", false},
		{"start_ns", SCHEMA_TIME, "start, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "length in ns until it was cut off", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		{"depth", SCHEMA_INT, "open stages around it on its thread", false},
		INSTANCE,
	}},
	[TABLE_OFFCPU] = {"offcpu", "times off the CPU above the threshold", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		{"thread_name", SCHEMA_TEXT, "its name", false},
		{"start_ns", SCHEMA_TIME, "when it left the CPU, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "time off the CPU in ns", false},
		{"run_delay_ns", SCHEMA_DURATION, "part of it in which it was ready to run, ns", false},
		{"next_pid", SCHEMA_INT, "process that took the CPU when it left; 0 is idle", false},
		{"next_name", SCHEMA_TEXT, "its name", false},
		{"previous_pid", SCHEMA_INT, "process that had the CPU before it came back: it kept a runnable thread waiting; 0 is idle", false},
		{"previous_name", SCHEMA_TEXT, "its name", false},
		INSTANCE,
	}},
	[TABLE_OFFCPU_SUM] = {"offcpu_sums", "times off the CPU below the threshold, summed", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		{"thread_name", SCHEMA_TEXT, "its name", false},
		{"start_ns", SCHEMA_TIME, "start of the interval, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "time off the CPU in it, ns", false},
		{"run_delay_ns", SCHEMA_DURATION, "part of it in which it was ready to run, ns", false},
		{"count", SCHEMA_INT, "times that it left the CPU", false},
		INSTANCE,
	}},
	[TABLE_LAUNCHES] = {"launches", "launches of kernels on the device, counted in sampled windows: a row a thread and API, and one with count 0 for a rank that launched nothing",
			    TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that was open when the window began, NULL if none", false},
		{"start_ns", SCHEMA_TIME, "start of the window, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "length of the window in ns; count / duration_ns is the rate", false},
		{"thread_id", SCHEMA_INT, "thread, NULL with count 0", false},
		{"api", SCHEMA_TEXT, "function called, NULL with count 0", false},
		{"count", SCHEMA_INT, "launches in the window", false},
		{"longest_gap_ns", SCHEMA_DURATION, "longest time in the window without any launch by the thread, that a launch through this API ended; time cut off by the window's start or end counts with its part in the window, so gaps as long as the window are at least that long", false},
		INSTANCE,
	}},
	[TABLE_DROPS] = {"drops", "what was lost, where and why", TIER_SUMMARY, SCHEMA_LOG, {
		{"start_ns", SCHEMA_TIME, "since when, ns since the epoch", false},
		{"source", SCHEMA_TEXT, "who lost it", false},
		{"reason", SCHEMA_TEXT, "why", false},
		{"count", SCHEMA_INT, "how many", false},
	}},
	[TABLE_CLOCK] = {"clock", "CLOCK_MONOTONIC and UTC at once: at each segment's start and each step of the clock",
			 TIER_EVENTS, SCHEMA_LOG, {
		{"monotonic_ns", SCHEMA_INT, "CLOCK_MONOTONIC in ns", false},
		{"utc_ns", SCHEMA_TIME, "ns since the epoch", false},
	}},
	[TABLE_COLLECTIVES] = {"collectives", "collective and point-to-point operations, one row an operation and rank", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that was open when it was called, NULL if none", false},
		{"communicator", SCHEMA_TEXT, "identity, equal on all members; NULL if not known: see communicators.trouble", false},
		{"seq", SCHEMA_INT, "number on its communicator, from 1; of point-to-point calls on (communicator, sender, receiver)", false},
		{"op", SCHEMA_TEXT, "AllReduce, AllGather, Send, ...", false},
		{"dtype", SCHEMA_TEXT, "data type, NULL if not known", false},
		{"count", SCHEMA_INT, "elements, as the call gives them", false},
		{"bytes", SCHEMA_INT, "bytes of this rank's part", false},
		{"host_start_ns", SCHEMA_TIME, "when the host called it, ns since the epoch", false},
		{"host_duration_ns", SCHEMA_DURATION, "until the call returned, or what it began was complete, ns; NULL if not known", false},
		{"device_start_ns", SCHEMA_TIME, "start on the device, ns since the epoch; NULL without a marker library", false},
		{"device_duration_ns", SCHEMA_DURATION, "length on the device, ns", false},
		{"tier", SCHEMA_TEXT, "device where its device times are known, else host", false},
		{"seq_from", SCHEMA_TEXT, "what numbered it: init, library, marker, group; attach: counted from the first call seen, not to be joined", false},
		{"peer", SCHEMA_INT, "other side of a point-to-point call, in the communicator's numbers; NULL of a collective", false},
		{"group_id", SCHEMA_INT, "group of calls of this rank that it was in, NULL if none", false},
		{"captured", SCHEMA_INT, "1 if recorded into a device graph", false},
		{"result", SCHEMA_INT, "what the call returned; 0 is success, NULL where it was not seen", false},
		{"family", SCHEMA_TEXT, "library: nccl, rccl, hccl, gloo", false},
		{"thread_id", SCHEMA_INT, "thread that called it", false},
		INSTANCE,
		{"communicator_key", SCHEMA_INT, "row of communicators, NULL if its communicator is not known", false},
	}},
	[TABLE_COMMUNICATORS] = {"communicators", "communicators (process groups), one row a member of this node", TIER_EVENTS, SCHEMA_STATE, {
		{"communicator", SCHEMA_TEXT, "identity, equal on all members; NULL if not known", false},
		{"rank", SCHEMA_INT, "global rank", false},
		{"member", SCHEMA_INT, "number of this rank in it, NULL if not known", false},
		{"members", SCHEMA_INT, "its size, NULL if not known", false},
		{"family", SCHEMA_TEXT, "library: nccl, rccl, hccl, gloo", false},
		{"name", SCHEMA_TEXT, "as the framework names it, NULL if it has none", false},
		{"kind", SCHEMA_TEXT, "what it is for: data, tensor, pipeline, expert, ...; NULL if nothing tells", false},
		{"parent", SCHEMA_TEXT, "communicator that it was split from, NULL if none", false},
		{"color", SCHEMA_INT, "colour of the split, NULL if none", false},
		{"source", SCHEMA_TEXT, "what told its identity: library, init, marker, ...", false},
		{"trouble", SCHEMA_TEXT, "why its identity is not known, NULL if it is", false},
		{"first_seen_ns", SCHEMA_TIME, "init, or the first call seen, ns since the epoch", false},
		{"freed", SCHEMA_INT, "1 if it is gone", false},
		INSTANCE,
		{"communicator_key", SCHEMA_INT, "number of this row", true},
	}},
	[TABLE_COLLECTIVE_GROUPS] = {"collective_groups", "operations that were called together, in one group", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that was open when it was opened, NULL if none", false},
		{"group_id", SCHEMA_INT, "number of the group, of this rank", false},
		{"members", SCHEMA_INT, "operations in it", false},
		{"bytes", SCHEMA_INT, "their bytes together", false},
		{"start_ns", SCHEMA_TIME, "when it was opened, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "until the call that closed it returned, ns", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		INSTANCE,
	}},
	[TABLE_ALLOCATIONS] = {"allocations", "device memory taken and given back", TIER_EVENTS, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"step", SCHEMA_INT, "step that was open when it was called, NULL if none", false},
		{"stage", SCHEMA_TEXT, "innermost stage open on its thread (else on the step's), NULL if none", false},
		{"op", SCHEMA_TEXT, "function: cudaMalloc, cudaFree, ...", false},
		{"address", SCHEMA_INT, "address or handle; NULL where none was given", false},
		{"bytes", SCHEMA_INT, "asked for, or given back; NULL where not known", false},
		{"result", SCHEMA_INT, "what the function returned; 0 is success, NULL where it was not seen", false},
		{"start_ns", SCHEMA_TIME, "when it was called, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "until it returned, ns; NULL if not known", false},
		{"device", SCHEMA_INT, "number of the device, NULL where the call does not tell", false},
		{"thread_id", SCHEMA_INT, "thread", false},
		INSTANCE,
	}},
	[TABLE_FINDINGS] = {"findings", "what is slow or stands still, why, and what it costs: one row a finding, as it was told last", TIER_SUMMARY, SCHEMA_STATE, {
		{"kind", SCHEMA_TEXT, "slow_rank, slow_communication, slow_job, hang, mismatch, imbalance", false},
		{"cause", SCHEMA_TEXT, "compute, preemption, dataloader, ...; unknown", false},
		{"state", SCHEMA_TEXT, "suspected; open: confirmed and still so; closed; dropped: suspected and not confirmed", false},
		{"severity", SCHEMA_TEXT, "info, warning, critical", false},
		{"confidence", SCHEMA_REAL, "0 to 1", false},
		{"tier", SCHEMA_TEXT, "what it was seen from: stages, host, device", false},
		{"job", SCHEMA_TEXT, "job or run id, where given", false},
		{"rank", SCHEMA_INT, "global rank, NULL if it is of no single one", false},
		{"host", SCHEMA_TEXT, "name of the node, NULL if of no single one", false},
		{"card", SCHEMA_TEXT, "accelerator of the rank, where known", false},
		{"communicator", SCHEMA_TEXT, "of slow communication and of mismatches", false},
		{"since_step", SCHEMA_INT, "step from which it is so, NULL if not known", false},
		{"until_step", SCHEMA_INT, "last step of it, NULL while it is so", false},
		{"since_ns", SCHEMA_TIME, "since when it is so, ns since the epoch", false},
		{"noticed_ns", SCHEMA_TIME, "when it was confirmed, ns since the epoch; NULL if it was not", false},
		{"until_ns", SCHEMA_TIME, "until when it was so, NULL while it is", false},
		{"slowdown", SCHEMA_REAL, "step time with it, divided by step time without; NULL of a hang", false},
		{"cost_card_hours", SCHEMA_REAL, "lost so far, by all cards of the job together", false},
		{"others", SCHEMA_TEXT, "further ranks that it concerns: 3-7,12", false},
		{"evidence", SCHEMA_TEXT, "what was measured and compared, as JSON: [{name, unit, value, peers, detail}]", false},
		{"sentence", SCHEMA_TEXT, "for people", false},
		{"finding", SCHEMA_INT, "number of the finding on this node", true},
	}},
	[TABLE_HOST_SAMPLES] = {"host_samples", "what the operating system gave and took from a rank, sampled", TIER_SUMMARY, SCHEMA_LOG, {
		{"rank", SCHEMA_INT, "global rank", false},
		{"start_ns", SCHEMA_TIME, "start of the sample, ns since the epoch", false},
		{"duration_ns", SCHEMA_DURATION, "its length in ns", false},
		{"cpu_ns", SCHEMA_DURATION, "CPU time of the process in it, ns", false},
		{"run_delay_ns", SCHEMA_DURATION, "time in which its step thread was ready and had no CPU, ns", false},
		{"throttled_ns", SCHEMA_DURATION, "time in which cpu.max held its control group back, ns", false},
		{"major_faults", SCHEMA_INT, "page faults that read from a disk", false},
		{"resident_bytes", SCHEMA_INT, "memory of the process at its end", false},
		{"state", SCHEMA_TEXT, "of the process at its end: R, S, D, T, t, Z", false},
		INSTANCE,
	}},
};
/* clang-format on */

size_t schema_columns(const struct schema_table *table)
{
	size_t n = 0;

	while (n < SCHEMA_COLUMNS_MAX && table->columns[n].name)
		n++;
	return n;
}

int schema_column_find(const struct schema_table *table, const char *name)
{
	for (size_t i = 0; i < schema_columns(table); i++)
		if (strcmp(table->columns[i].name, name) == 0)
			return (int)i;
	return -1;
}

int schema_key(const struct schema_table *table)
{
	for (size_t i = 0; i < schema_columns(table); i++)
		if (table->columns[i].key)
			return (int)i;
	return -1;
}

bool schema_in_tier(const struct schema_table *table, enum schema_tier tier)
{
	return table->kind == SCHEMA_STATE || table->tier == tier;
}
