/* SPDX-License-Identifier: Apache-2.0 */
/* Stages, steps and operations of ranks, waits and launches, to the aligner. */
#include "daemon/findings/online_internal.h"

#define LONGER_PART 20

struct online_process *online_process(struct online *online, uint32_t slot, int64_t instance)
{
	if (!online || slot >= online->slots || !instance || online->slot[slot].instance != instance)
		return NULL;
	return &online->slot[slot];
}

static void online_on_stage(void *arg, uint32_t slot, int64_t instance, const struct steps_stage *stage)
{
	struct online *online = arg;
	const struct online_process *process = online_process(online, slot, instance);
	struct align_stage told;

	if (!process)
		return;
	told = (struct align_stage){
		.step = stage->step,
		.kind = stage_of_stage(stage->stage).kind,
		.start_ns = stage->start_ns,
		.duration_ns = stage->duration_ns,
		.thread_id = stage->thread_id,
		.depth = stage->depth,
	};
	align_stage(online->align, process->process, &told);
}

/* By as much as makes several of them a reason to see more (GROWTH_LEAST in slow_rank_internal.h). */
static bool is_long(const struct online *online, int process, uint64_t step_ns)
{
	struct align_job_info job;
	uint32_t number, index;

	return align_locate(online->align, process, &number, &index) && align_job_info(online->align, number, &job) &&
	       job.step_ns && step_ns > job.step_ns + job.step_ns / LONGER_PART;
}

static void online_on_step(void *arg, uint32_t slot, int64_t instance, const struct steps_step *step)
{
	struct online *online = arg;
	const struct online_process *process = online_process(online, slot, instance);

	if (!process)
		return;
	if (is_long(online, process->process, step->duration_ns))
		online_samples_closer(online, monotonic_ns());
	align_step(
		online->align, process->process, &(struct align_step){step->step, step->start_ns, step->duration_ns});
}

/* gloo works on the host, and its operations are followed to their end; of the others the host only sees how long it
 * took to queue them, which says nothing of who waits. */
static bool online_feed_times_of(const struct coll_row *op, struct align_op *told)
{
	if (op->device && op->device_start_ns != COLL_UNKNOWN && op->device_duration_ns != COLL_UNKNOWN) {
		told->tier = FRAME_TIER_DEVICE;
		told->start_ns = op->device_start_ns;
		told->duration_ns = op->device_duration_ns;
		return true;
	}
	if (strcmp(op->family, "gloo") != 0 || op->host_duration_ns == COLL_UNKNOWN)
		return false;
	told->tier = FRAME_TIER_HOST;
	told->start_ns = op->host_start_ns;
	told->duration_ns = op->host_duration_ns;
	return true;
}

static void online_on_coll(void *arg, uint32_t slot, int64_t instance, const struct coll_row *op, int64_t step, int32_t member)
{
	struct online *online = arg;
	struct online_process *process = online_process(online, slot, instance);
	struct align_op told = {
		.communicator = op->communicator,
		.seq = op->seq_from == COLL_SEQ_ATTACH ? 0 : op->seq,
		.op = op->op,
		.step = step,
		.bytes = op->bytes == COLL_UNKNOWN ? 0 : op->bytes,
		.peer = op->peer,
		.member = member,
	};
	uint64_t end_ns;

	if (!process)
		return;
	end_ns = op->host_start_ns + (op->host_duration_ns == COLL_UNKNOWN ? 0 : op->host_duration_ns);
	if (end_ns > process->op_ns)
		process->op_ns = end_ns;
	/* What was only recorded into a graph, or refused, was not done. */
	if (op->captured || op->result || !online_feed_times_of(op, &told))
		return;
	align_op(online->align, process->process, &told);
}

static enum comm_kind online_feed_kind_of(const char *word)
{
	for (enum comm_kind kind = 0; word && word[0] && kind < COMM_KIND_MAX; kind++)
		if (streq(word, comm_kind_name(kind)))
			return kind;
	return COMM_KIND_UNCLEAR;
}

static void online_on_communicator(void *arg, uint32_t slot, int64_t instance, const struct coll_communicator *communicator)
{
	struct online *online = arg;
	const struct online_process *process = online_process(online, slot, instance);

	if (!process || !communicator->communicator[0] || communicator->freed)
		return;
	align_comm(online->align, process->process, communicator->communicator, online_feed_kind_of(communicator->kind),
		communicator->members, communicator->members ? (int32_t)communicator->member : -1);
}

const struct rank_steps_observer online_steps_observer = {online_on_stage, online_on_step};
const struct rank_coll_observer online_coll_observer = {online_on_coll, online_on_communicator};

/*
 * Of the step thread only, which is the main thread as long as nothing tells. Goes out with the next sample: waits
 * alone would look like samples of the time that they lasted.
 */
void online_wait(struct online *online, uint32_t slot, int64_t instance, const struct online_wait_info *wait)
{
	struct online_process *process = online_process(online, slot, instance);

	if (!process || wait->thread_id != (process->thread_id ? process->thread_id : process->pid))
		return;
	preemptors_add(&process->preemptors, process->pid, wait->preemptor_pid, wait->preemptor_name, wait->run_delay_ns);
}

void online_launches(struct online *online, uint32_t slot, int64_t instance, uint64_t start_ns,
	uint64_t duration_ns, uint64_t gap_ns)
{
	const struct online_process *process = online_process(online, slot, instance);
	struct align_host host = {
		.start_ns = start_ns,
		.duration_ns = duration_ns,
		.cpu_ns = FRAME_UNKNOWN,
		.run_delay_ns = FRAME_UNKNOWN,
		.throttled_ns = FRAME_UNKNOWN,
		.major_faults = FRAME_UNKNOWN,
		.launch_gap_ns = gap_ns,
		.preemptor_name = "",
	};

	if (!process)
		return;
	align_host(online->align, process->process, &host);
}
