/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the operating system: each to the aligner, and a row of the store every ROW_NS. */
#include <math.h>

#include "analyzers/gauges/card_gauges.h"
#include "daemon/base/job_thread.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/gauges/gauges.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#define ROW_NS (10 * NSEC_PER_SEC)
/*
 * Dense sampling after a step longer than usual and while auto levels are on. Frames wait for samples, so sparse
 * samples delay the verdict. Jobs may have longer steps forever: the budget is a DENSE_SHARE-th of the time, saved up
 * to DENSE_BUDGET_MAX_NS. Auto levels have bounds of their own.
 */
#define DENSE_NS (100 * NSEC_PER_MSEC)
#define DENSE_ROW_NS NSEC_PER_SEC
#define DENSE_FOR_NS (5 * NSEC_PER_SEC)
#define DENSE_SHARE 10
#define DENSE_BUDGET_MAX_NS (60 * NSEC_PER_SEC)
#define CARD_WATTS_MAX 1e5 /* no card takes as much: the sum of a row is no overflow */

static bool online_samples_is_auto_level(const struct online *online)
{
	return online->auto_level.turned_on[LEVEL_L1] || online->auto_level.turned_on[LEVEL_L3];
}

static bool online_samples_is_dense(const struct online *online, uint64_t now_ns)
{
	return now_ns < online->dense_until_ns || online_samples_is_auto_level(online);
}

/* Spends the budget of dense sampling; false if it is used up. */
static bool online_samples_spend(struct online *online, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + DENSE_FOR_NS, more_ns = DENSE_FOR_NS;

	if (now_ns < online->dense_until_ns)
		more_ns = until_ns - online->dense_until_ns;
	online->dense_budget_ns +=
		online->dense_budget_at_ns ? (now_ns - online->dense_budget_at_ns) / DENSE_SHARE : DENSE_BUDGET_MAX_NS;
	if (online->dense_budget_ns > DENSE_BUDGET_MAX_NS)
		online->dense_budget_ns = DENSE_BUDGET_MAX_NS;
	online->dense_budget_at_ns = now_ns;
	if (online->dense_budget_ns < more_ns)
		return false;
	online->dense_budget_ns -= more_ns;
	online->dense_until_ns = until_ns;
	return true;
}

void online_samples_densify(struct online *online, uint64_t now_ns)
{
	if (!online_samples_is_auto_level(online) && !online_samples_spend(online, now_ns))
		return;
	/* At once: the step that just ended waits for this sample. */
	if (online->sample_next_ns > online->sample_last_ns + DENSE_NS)
		online->sample_next_ns = online->sample_last_ns + DENSE_NS;
}

static void online_samples_put_row(struct online *online, struct online_process *process)
{
	const struct host_sample *sum = &process->sum;
	const char state[] = {sum->state, 0};
	const struct row_host_samples row = {
		.rank = field_int(process->rank),
		.start_ns = field_time(store_utc_ns(online->context->store, sum->start_ns)),
		.duration_ns = field_duration(sum->duration_ns),
#define HOST_MEASURE(...)
#define HOST_SAMPLED(id, member, field, ...) .member = field_##field##_if(sum->member != HOST_UNKNOWN, sum->member),
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
		.resident_bytes = field_int_if(sum->resident_bytes != HOST_UNKNOWN, sum->resident_bytes),
		.swapped_bytes = field_int_if(sum->swapped_bytes != HOST_UNKNOWN, sum->swapped_bytes),
		.state = field_text(state),
		.instance = field_int(process->instance),
	};

	store_put_host_samples(online->context->store, &row);
	process->sum = (struct host_sample){0};
}

/* An unknown part makes the sum unknown. */
static void online_samples_add(uint64_t *sum, uint64_t part)
{
	*sum = *sum == HOST_UNKNOWN || part == HOST_UNKNOWN ? HOST_UNKNOWN : *sum + part;
}

static void online_samples_add_up(struct online_process *process, const struct host_sample *sample)
{
	struct host_sample *sum = &process->sum;

	if (!sum->duration_ns)
		sum->start_ns = sample->start_ns;
	sum->duration_ns += sample->duration_ns;
	for (int h = 0; h < HOST_MEASURE_MAX; h++)
		online_samples_add(&sum->measure[h], sample->measure[h]);
	sum->resident_bytes = sample->resident_bytes;
	/* The most: what is read back within a row has taken its time. HOST_UNKNOWN is more than any. */
	sum->swapped_bytes = sample->swapped_bytes > sum->swapped_bytes ? sample->swapped_bytes : sum->swapped_bytes;
	sum->state = sample->state;
}

/* Run delay: the kernel's count, or the waits seen by L3. The preemptor needs L3. */
static void online_samples_feed(struct online *online, struct online_process *process, const struct host_sample *sample)
{
	bool on = online->context->levels.on[LEVEL_L3];
	const struct preemptor *preemptor = preemptors_most(&process->preemptors);
	struct align_host host = {
		.start_ns = sample->start_ns,
		.duration_ns = sample->duration_ns,
		.preemptor_pid = preemptor ? preemptor->pid : 0,
		.preemptor_ns = preemptor ? preemptor->ns : 0,
		.preemptor_name = preemptor ? preemptor->name : "",
	};

	memcpy(host.measure, sample->measure, sizeof(host.measure));
	host.stopped_ns = align_host_stopped(sample->state, sample->duration_ns);
	host.launch_gap_ns = FRAME_UNKNOWN;
	if (on && host.run_delay_ns == FRAME_UNKNOWN)
		host.run_delay_ns = process->preemptors.waited_ns;
	align_host(online->align, process->process, &host);
}

struct host_read {
	struct host_sampler *sampler; /* the process's, lent */
	uint32_t thread_id, slot;
	int64_t instance;
	uint64_t major_faults;
	int result; /* of host_sampler_take(); negative: the process is gone */
	struct host_sample sample;
};

/* Files of all ranks, read by a thread: they wait for locks of the kernel that any user can hold for long. */
struct online_reads {
	struct thread_job job;	     /* first */
	uint64_t now_ns, ordered_ns; /* the same moment, as the caller and as the clock has it */
	uint64_t wait_ns;	     /* what is read within it is as of that moment */
	struct host_files files;
	size_t count;
	struct host_read read[];
};

static void online_reads_run(struct thread_job *job)
{
	struct online_reads *reads = (struct online_reads *)job;

	for (struct host_read *read = reads->read; read < reads->read + reads->count; read++) {
		struct host_usage usage;
		uint64_t late_ns;

		read->result = host_usage_read(read->sampler, read->major_faults, &usage);
		late_ns = monotonic_ns() - reads->ordered_ns;
		if (read->result == 0)
			read->result = host_sampler_take(read->sampler, &reads->files, read->thread_id, &usage,
				reads->now_ns + (late_ns > reads->wait_ns ? late_ns : 0), &read->sample);
	}
}

static void online_reads_free(struct thread_job *job)
{
	struct online_reads *reads = (struct online_reads *)job;

	for (size_t i = 0; i < reads->count; i++)
		host_sampler_free(reads->read[i].sampler);
	free(reads);
}

static void online_reads_add(struct online *online, struct online_reads *reads, struct online_process *process)
{
	struct rank_steps_progress progress = {0};
	const struct ranks *ranks = online->context->ranks;
	const struct rank *rank = ranks ? ranks_by_pid(ranks, process->pid) : NULL;

	if (!process->sampler &&
		host_sampler_new(online->proc_root, online->cgroup_root, process->pid, &process->sampler) < 0)
		return;
	if (rank_steps_progress(online->context->steps, process->slot, process->instance, &progress))
		process->thread_id = progress.thread_id;
	reads->read[reads->count++] = (struct host_read){
		.sampler = process->sampler,
		.thread_id = process->thread_id,
		.slot = process->slot,
		.instance = process->instance,
		.major_faults = rank ? rank->major_faults : HOST_UNKNOWN,
	};
	process->sampler = NULL;
}

static void online_reads_order(struct online *online, uint64_t now_ns)
{
	struct online_reads *reads = calloc(1, sizeof(*reads) + online->slots_used * sizeof(reads->read[0]));

	if (!reads)
		return;
	reads->job = (struct thread_job){.run = online_reads_run, .free = online_reads_free};
	reads->now_ns = now_ns;
	reads->ordered_ns = monotonic_ns();
	reads->wait_ns = online->wait_ns;
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance)
			online_reads_add(online, reads, &online->slot[i]);
	online->reads = reads;
	job_thread_order(online->reader, &reads->job);
}

static uint64_t online_samples_energy(
	const struct online *online, const struct online_process *process, uint64_t duration_ns, uint64_t now_ns)
{
	const struct ranks *ranks = online->context->ranks;
	const struct rank *rank = ranks ? ranks_by_pid(ranks, process->pid) : NULL, *other;
	double watts = rank ? card_gauges_power(gauges_cards(online->context->gauges), rank->env.card, now_ns) : NAN;

	if (!(watts >= 0 && watts < CARD_WATTS_MAX))
		return HOST_UNKNOWN;
	/* Of a card that ranks share nobody knows whose power it is. */
	for (size_t i = 0; i < online->slots_used; i++) {
		if (!online->slot[i].instance || &online->slot[i] == process)
			continue;
		other = ranks_by_pid(ranks, online->slot[i].pid);
		if (other && streq(other->env.card, rank->env.card))
			return HOST_UNKNOWN;
	}
	return (uint64_t)(watts * (double)duration_ns * 1e-6);
}

static void online_samples_use(
	struct online *online, struct online_process *process, struct host_read *read, uint64_t now_ns)
{
	struct host_sample *sample = &read->sample;

	sample->card_energy_mj = online_samples_energy(online, process, sample->duration_ns, now_ns);
	process->newest = *sample;
	if (read->result > 0) {
		online->counts.samples++;
		online_samples_feed(online, process, sample);
	}
	process->preemptors = (struct preemptors){0};
	if (read->result == 0)
		return;
	online_samples_add_up(process, sample);
	if (online->observer && online->observer->sample)
		online->observer->sample(online->observer_arg, process->slot, process->instance,
			&(struct online_sample_info){
				.duration_ns = sample->duration_ns,
				.cpu_ns = sample->cpu_ns,
				.run_delay_ns = sample->run_delay_ns,
				.throttled_ns = sample->throttled_ns,
				.major_faults = sample->major_faults,
				.resident_bytes = sample->resident_bytes,
				.swapped_bytes = sample->swapped_bytes,
			});
	if (process->sum.duration_ns >= (online_samples_is_dense(online, now_ns) ? DENSE_ROW_NS : ROW_NS))
		online_samples_put_row(online, process);
}

/* Uses what the thread has read. False: it still reads. */
static bool online_reads_end(struct online *online, uint64_t wait_ns, uint64_t now_ns)
{
	struct online_reads *reads = online->reads;

	if (!reads)
		return true;
	if (!job_thread_wait(online->reader, &reads->job, wait_ns))
		return false;
	for (struct host_read *read = reads->read; read < reads->read + reads->count; read++) {
		struct online_process *process = online_process(online, read->slot, read->instance);

		if (!process)
			continue; /* it has ended meanwhile */
		process->sampler = read->sampler;
		read->sampler = NULL;
		if (read->result >= 0)
			online_samples_use(online, process, read, now_ns);
	}
	online->reads = NULL;
	online_reads_free(&reads->job);
	return true;
}

void online_samples_take(struct online *online, uint64_t now_ns)
{
	if (!online_reads_end(online, 0, now_ns) || now_ns < online->sample_next_ns)
		return;
	online->sample_last_ns = now_ns;
	online->sample_next_ns =
		now_ns +
		(online_samples_is_dense(online, now_ns) ? DENSE_NS : online->context->config.findings_sample_ns);
	online_reads_order(online, now_ns);
	(void)online_reads_end(online, online->wait_ns, now_ns);
}

void online_samples_forget(struct online *online)
{
	if (online->reads)
		job_thread_forget(online->reader, &online->reads->job);
	online->reads = NULL;
}

void online_samples_end(struct online *online, struct online_process *process)
{
	if (process->sum.duration_ns)
		online_samples_put_row(online, process);
	process->sampler = host_sampler_free(process->sampler);
}
