/* SPDX-License-Identifier: Apache-2.0 */
/* What other rooms see, to the framer. */
#include "daemon/findings_internal.h"

#define LONGER_PART 20

struct findings_process *findings_process(struct findings_room *online, uint32_t slot, int64_t instance)
{
	if (!online || slot >= online->slots || !instance || online->slot[slot].instance != instance)
		return NULL;
	return &online->slot[slot];
}

void findings_room_stage(struct findings_room *online, uint32_t slot, int64_t instance, const struct steps_stage *stage)
{
	const struct findings_process *process = findings_process(online, slot, instance);
	struct framer_stage told;

	if (!process)
		return;
	told = (struct framer_stage){
		.step = stage->step,
		.kind = stage_of_stage(stage->stage).kind,
		.start_ns = stage->start_ns,
		.duration_ns = stage->duration_ns,
		.thread_id = stage->thread_id,
		.depth = stage->depth,
	};
	framer_stage(online->framer, process->process, &told);
}

/* By as much as makes several of them a reason to see more (GROWTH_LEAST in slow_rank_growth.h). */
static bool is_long(const struct findings_room *online, int process, uint64_t step_ns)
{
	struct framer_job job;
	uint32_t number, index;

	return framer_where(online->framer, process, &number, &index) && framer_job(online->framer, number, &job) &&
	       job.step_ns && step_ns > job.step_ns + job.step_ns / LONGER_PART;
}

void findings_room_step(struct findings_room *online, uint32_t slot, int64_t instance, const struct steps_step *step)
{
	const struct findings_process *process = findings_process(online, slot, instance);

	if (!process)
		return;
	if (is_long(online, process->process, step->duration_ns))
		findings_samples_closer(online, monotonic_ns());
	framer_step(
		online->framer, process->process, &(struct framer_step){step->step, step->start_ns, step->duration_ns});
}

/* gloo works on the host, and its operations are followed to their end; of the others the host only sees how long it
 * took to queue them, which says nothing of who waits. */
static bool online_feed_times_of(const struct ops_row *op, struct framer_op *told)
{
	if (op->device && op->device_start_ns != OPS_UNKNOWN && op->device_duration_ns != OPS_UNKNOWN) {
		told->tier = FRAME_TIER_DEVICE;
		told->start_ns = op->device_start_ns;
		told->duration_ns = op->device_duration_ns;
		return true;
	}
	if (strcmp(op->family, "gloo") != 0 || op->host_duration_ns == OPS_UNKNOWN)
		return false;
	told->tier = FRAME_TIER_HOST;
	told->start_ns = op->host_start_ns;
	told->duration_ns = op->host_duration_ns;
	return true;
}

void findings_room_op(struct findings_room *online, uint32_t slot, int64_t instance, const struct ops_row *op,
	int64_t step, int32_t member)
{
	struct findings_process *process = findings_process(online, slot, instance);
	struct framer_op told = {
		.communicator = op->communicator,
		.seq = op->seq_from == OPS_SEQ_ATTACH ? 0 : op->seq,
		.op = op->op,
		.step = step,
		.bytes = op->bytes == OPS_UNKNOWN ? 0 : op->bytes,
		.peer = op->peer,
		.member = member,
	};
	uint64_t end_ns;

	if (!process)
		return;
	end_ns = op->host_start_ns + (op->host_duration_ns == OPS_UNKNOWN ? 0 : op->host_duration_ns);
	if (end_ns > process->op_ns)
		process->op_ns = end_ns;
	/* What was only recorded into a graph, or refused, was not done. */
	if (op->captured || op->result || !online_feed_times_of(op, &told))
		return;
	framer_op(online->framer, process->process, &told);
}

static enum comm_kind online_feed_kind_of(const char *word)
{
	for (enum comm_kind kind = 0; word && word[0] && kind < COMM_KIND_MAX; kind++)
		if (streq(word, comm_kind_name(kind)))
			return kind;
	return COMM_KIND_UNCLEAR;
}

void findings_room_communicator(
	struct findings_room *online, uint32_t slot, int64_t instance, const struct ops_communicator *communicator)
{
	const struct findings_process *process = findings_process(online, slot, instance);

	if (!process || !communicator->communicator[0] || communicator->freed)
		return;
	framer_comm(online->framer, process->process, communicator->communicator, online_feed_kind_of(communicator->kind),
		communicator->members, communicator->members ? (int32_t)communicator->member : -1);
}

/*
 * Of the step thread only, which is the main thread as long as nothing tells. Goes out with the next sample: waits
 * alone would look like samples of the time that they lasted.
 */
void findings_room_wait(struct findings_room *online, uint32_t slot, int64_t instance, const struct findings_wait *wait)
{
	struct findings_process *process = findings_process(online, slot, instance);

	if (!process || wait->thread_id != (process->thread_id ? process->thread_id : process->pid))
		return;
	hogs_add(&process->hogs, process->pid, wait->hog_pid, wait->hog_name, wait->run_delay_ns);
}

void findings_room_launches(struct findings_room *online, uint32_t slot, int64_t instance, uint64_t start_ns,
	uint64_t duration_ns, uint64_t gap_ns)
{
	const struct findings_process *process = findings_process(online, slot, instance);
	struct framer_host host = {
		.start_ns = start_ns,
		.duration_ns = duration_ns,
		.cpu_ns = FRAME_UNKNOWN,
		.run_delay_ns = FRAME_UNKNOWN,
		.throttled_ns = FRAME_UNKNOWN,
		.major_faults = FRAME_UNKNOWN,
		.launch_gap_ns = gap_ns,
		.hog_name = "",
	};

	if (!process)
		return;
	framer_host(online->framer, process->process, &host);
}
