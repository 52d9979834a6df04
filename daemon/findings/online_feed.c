/* SPDX-License-Identifier: Apache-2.0 */
/* Events of ranks to the aligner: stages, steps, operations, waits, launches. */
#include "daemon/findings/online_internal.h"

#define GROWTH_PART 20

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
	struct align_stage event;

	if (!process)
		return;
	event = (struct align_stage){
		.step = stage->step,
		.kind = stage_of_stage(stage->stage).kind,
		.start_ns = stage->start_ns,
		.duration_ns = stage->duration_ns,
		.thread_id = stage->thread_id,
		.depth = stage->depth,
	};
	align_stage(online->align, process->process, &event);
}

/* Longer by the least growth that counts as a suspicion (GROWTH_LEAST in slow_rank_internal.h). */
static bool online_feed_is_long(const struct online *online, int process, uint64_t step_ns)
{
	struct align_job_info job;
	uint32_t number, index;

	return align_locate(online->align, process, &number, &index) && align_job_info(online->align, number, &job) &&
	       job.step_ns && step_ns > job.step_ns + job.step_ns / GROWTH_PART;
}

static void online_on_step(void *arg, uint32_t slot, int64_t instance, const struct steps_step *step)
{
	struct online *online = arg;
	const struct online_process *process = online_process(online, slot, instance);

	if (!process)
		return;
	if (online_feed_is_long(online, process->process, step->duration_ns))
		online_samples_densify(online, monotonic_ns());
	align_step(online->align, process->process,
		&(struct align_step){step->step, step->start_ns, step->duration_ns, step->unsplit});
}

/*
 * gloo works on the host: its calls last to completion. For others the host sees only the time to queue them, which
 * does not show who waits.
 */
static bool online_feed_times(const struct coll_row *op, struct align_op *ret)
{
	if (op->device && op->device_start_ns != COLL_UNKNOWN && op->device_duration_ns != COLL_UNKNOWN) {
		ret->tier = FRAME_TIER_DEVICE;
		ret->start_ns = op->device_start_ns;
		ret->duration_ns = op->device_duration_ns;
		return true;
	}
	if (strcmp(op->family, "gloo") != 0 || op->host_duration_ns == COLL_UNKNOWN)
		return false;
	ret->tier = FRAME_TIER_HOST;
	ret->start_ns = op->host_start_ns;
	ret->duration_ns = op->host_duration_ns;
	return true;
}

static int64_t online_feed_lead(const struct coll_row *op)
{
	if (!op->device || op->device_start_ns == COLL_UNKNOWN || op->host_duration_ns == COLL_UNKNOWN)
		return ALIGN_LEAD_UNKNOWN;
	return (int64_t)(op->device_start_ns - op->host_start_ns - op->host_duration_ns);
}

static void online_on_coll(
	void *arg, uint32_t slot, int64_t instance, const struct coll_row *op, int64_t step, int32_t member)
{
	struct online *online = arg;
	struct online_process *process = online_process(online, slot, instance);
	struct align_op event = {
		.communicator = op->communicator,
		.seq = op->seq_from == COLL_SEQ_ATTACH && op->peer < 0 ? 0 : op->seq,
		.op = op->op,
		.step = step,
		.bytes = op->bytes == COLL_UNKNOWN ? 0 : op->bytes,
		.lead_ns = online_feed_lead(op),
		.peer = op->peer,
		.member = member,
		.counted = op->seq_from == COLL_SEQ_ATTACH,
	};
	uint64_t end_ns;

	if (!process)
		return;
	end_ns = op->host_start_ns + (op->host_duration_ns == COLL_UNKNOWN ? 0 : op->host_duration_ns);
	if (end_ns > process->op_ns)
		process->op_ns = end_ns;
	/* A captured or refused operation was not executed. */
	if (op->captured || op->result || !online_feed_times(op, &event))
		return;
	align_op(online->align, process->process, &event);
}

static enum comm_kind online_feed_kind_of(const char *word)
{
	for (enum comm_kind kind = 0; word && word[0] && kind < COMM_KIND_MAX; kind++)
		if (streq(word, comm_kind_name(kind)))
			return kind;
	return COMM_KIND_UNCLEAR;
}

static void online_on_communicator(
	void *arg, uint32_t slot, int64_t instance, const struct coll_communicator *communicator)
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
 * Of the step thread only: the main thread until it is known. Sent with the next sample, because a wait alone would
 * read as a sample of its own duration.
 */
void online_wait(struct online *online, uint32_t slot, int64_t instance, const struct online_wait_info *wait)
{
	struct online_process *process = online_process(online, slot, instance);

	if (!process || wait->thread_id != (process->thread_id ? process->thread_id : process->pid))
		return;
	preemptors_add(
		&process->preemptors, process->pid, wait->preemptor_pid, wait->preemptor_name, wait->run_delay_ns);
}

void online_launches(struct online *online, uint32_t slot, int64_t instance, uint64_t start_ns, uint64_t duration_ns,
	uint64_t gap_ns)
{
	const struct online_process *process = online_process(online, slot, instance);
	struct align_host host = align_host_unknown(start_ns, duration_ns);

	if (!process)
		return;
	host.launch_gap_ns = gap_ns;
	align_host(online->align, process->process, &host);
}
