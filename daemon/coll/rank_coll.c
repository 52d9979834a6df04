/* SPDX-License-Identifier: Apache-2.0 */
/* One analyzer per rank, by slot; turns its output into rows. */
#include "daemon/coll/rank_coll.h"
#include "daemon/calls/call_fields.h"
#include "daemon/coll/comm_reader.h"
#include "daemon/coll/comms.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#include <inttypes.h>

#define STANDINGS_MAX COLL_COMMS_MAX
#define IDLE_NS (500 * NSEC_PER_MSEC)

struct rank_coll_state {
	struct rank_coll *colls;
	struct coll *ops;
	struct rank rank; /* a copy: rows are written after the rank's end, too */
	uint64_t ended_ns;
	struct comm_rows comms;
	bool settling;
	uint64_t limited; /* kernel_limited_calls(), as reported to the analyzer */
};

struct rank_coll {
	struct context *context;
	struct {
		const struct rank_coll_observer *observer; /* NULL: free */
		void *arg;
	} observers[RANK_COLL_OBSERVERS];
	rank_coll_in_flight read;
	void *reader;
	uint64_t rows, groups;
	struct coll_counts ended_counts;
	uint64_t drops; /* kernel drops reported to the analyzers */
	uint64_t idle_next_ns, members_next_ns;
	bool off; /* L1 is off: late records start nothing */
	struct comm_identify identify;
	struct rank_coll_state *ended[RANK_COLL_ENDED];
	size_t slots;
	struct rank_coll_state *slot[];
};

static int64_t rank_coll_utc(const struct rank_coll_state *rank, uint64_t time_ns)
{
	return (int64_t)store_utc_ns(rank->colls->context->store, time_ns);
}

static int64_t rank_coll_step_at(const struct rank_coll_state *rank, uint64_t time_ns)
{
	const struct rank_steps *steps = rank->colls->context->steps;

	return steps ? rank_steps_step(steps, &rank->rank, time_ns) : STEPS_NONE;
}

static void rank_coll_on_row(void *arg, const struct coll_row *op)
{
	struct rank_coll_state *rank = arg;
	int64_t step = rank_coll_step_at(rank, op->host_start_ns);
	const struct row_collectives row = {
		.rank = field_int(rank->rank.env.rank),
		.step = field_int_if(step != STEPS_NONE, step),
		.communicator = field_text_if(op->communicator),
		.seq = field_int_if(op->seq, op->seq),
		.op = field_text(op->op),
		.dtype = field_text_if(op->dtype),
		.count = field_int_if(op->count != COLL_UNKNOWN, op->count),
		.bytes = field_int_if(op->bytes != COLL_UNKNOWN, op->bytes),
		.host_start_ns = field_time(rank_coll_utc(rank, op->host_start_ns)),
		.host_duration_ns = field_duration_if(op->host_duration_ns != COLL_UNKNOWN, op->host_duration_ns),
		.device_start_ns =
			field_time_if(op->device_start_ns != COLL_UNKNOWN, rank_coll_utc(rank, op->device_start_ns)),
		.device_duration_ns = field_duration_if(op->device_duration_ns != COLL_UNKNOWN, op->device_duration_ns),
		.tier = field_text(op->device ? "device" : "host"),
		.seq_from = field_text(coll_seq_from_name(op->seq_from)),
		.peer = field_int_if(op->peer >= 0, op->peer),
		.group_id = field_int_if(op->group, op->group),
		.captured = field_int(op->captured),
		.result = field_int(op->result),
		.family = field_text(op->family),
		.thread_id = field_int_if(op->thread_id, op->thread_id),
		.instance = field_int(rank->rank.instance),
		.communicator_key =
			field_int_if(op->communicator[0], comm_rows_key(rank->rank.instance, op->communicator)),
	};

	rank->colls->rows++;
	store_put_collectives(rank->colls->context->store, &row);
	for (size_t i = 0; i < RANK_COLL_OBSERVERS; i++) {
		const struct rank_coll_observer *observer = rank->colls->observers[i].observer;

		if (observer && observer->row)
			observer->row(rank->colls->observers[i].arg, rank->rank.slot, rank->rank.instance, op, step,
				op->peer < 0 ? -1 : comm_rows_member(&rank->comms, op->communicator));
	}
}

static void rank_coll_on_group(void *arg, const struct coll_group *group)
{
	struct rank_coll_state *rank = arg;
	int64_t step = rank_coll_step_at(rank, group->start_ns);
	const struct row_collective_groups row = {
		.rank = field_int(rank->rank.env.rank),
		.step = field_int_if(step != STEPS_NONE, step),
		.group_id = field_int(group->group),
		.members = field_int(group->members),
		.bytes = field_int_if(group->bytes != COLL_UNKNOWN, group->bytes),
		.start_ns = field_time(rank_coll_utc(rank, group->start_ns)),
		.duration_ns = field_duration_if(group->duration_ns != COLL_UNKNOWN, group->duration_ns),
		.thread_id = field_int(group->thread_id),
		.instance = field_int(rank->rank.instance),
	};

	rank->colls->groups++;
	store_put_collective_groups(rank->colls->context->store, &row);
}

static void on_communicator(void *arg, const struct coll_communicator *communicator)
{
	struct rank_coll_state *rank = arg;

	comm_rows_note(&rank->comms, communicator);
	for (size_t i = 0; i < RANK_COLL_OBSERVERS; i++) {
		const struct rank_coll_observer *observer = rank->colls->observers[i].observer;

		if (observer && observer->communicator)
			observer->communicator(
				rank->colls->observers[i].arg, rank->rank.slot, rank->rank.instance, communicator);
	}
}

/*
 * After each call of the analyzer: identifies communicators and writes changed rows. The answer may come from within;
 * that does not recurse.
 */
static void rank_coll_settle(struct rank_coll_state *rank)
{
	struct comm_row *comm;

	if (rank->settling)
		return;
	rank->settling = true;
	while ((comm = comm_rows_next(&rank->comms))) {
		if (!comm_identify(&rank->colls->identify, &rank->rank, &rank->comms, comm))
			comm_rows_put(&rank->comms, comm, &rank->rank, rank->colls->context->store);
	}
	rank->settling = false;
}

static void rank_coll_add_counts(struct coll_counts *sum, const struct coll *ops)
{
	struct coll_counts counts;

	coll_counts(ops, &counts);
	sum->lost += counts.lost;
	sum->not_waited += counts.not_waited;
	sum->late += counts.late;
	sum->impossible += counts.impossible;
	sum->comms_forgotten += counts.comms_forgotten;
}

static struct rank_coll_state *rank_coll_state_free(struct rank_coll_state *rank)
{
	if (!rank)
		return NULL;
	coll_free(rank->ops);
	comm_rows_free(&rank->comms);
	free(rank);
	return NULL;
}

/* Flushes what is pending and frees the slot. */
static struct rank_coll_state *rank_coll_take(struct rank_coll *colls, size_t slot)
{
	struct rank_coll_state *rank = colls->slot[slot];

	colls->slot[slot] = NULL;
	coll_end(rank->ops);
	rank_coll_settle(rank);
	rank_coll_add_counts(&colls->ended_counts, rank->ops);
	return rank;
}

static void rank_coll_forget_ended(struct rank_coll *colls, const struct rank *same)
{
	for (size_t i = 0; i < RANK_COLL_ENDED; i++)
		if (colls->ended[i] && (!same || (colls->ended[i]->rank.env.rank == same->env.rank &&
							 colls->ended[i]->rank.uid == same->uid &&
							 streq(colls->ended[i]->rank.env.job, same->env.job))))
			colls->ended[i] = rank_coll_state_free(colls->ended[i]);
}

static struct rank_coll_state *rank_coll_of_rank(struct rank_coll *colls, const struct rank *rank)
{
	struct rank_coll_state *slot;

	if (rank->slot >= colls->slots)
		return NULL;
	slot = colls->slot[rank->slot];
	if (slot && slot->rank.instance == rank->instance)
		return slot;
	if (slot)
		rank_coll_state_free(rank_coll_take(colls, rank->slot));
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return NULL;
	slot->colls = colls;
	slot->rank = *rank;
	slot->ops = coll_new(&(struct coll_sink){
		.row = rank_coll_on_row, .group = rank_coll_on_group, .communicator = on_communicator, .arg = slot});
	if (!slot->ops)
		return rank_coll_state_free(slot);
	colls->slot[rank->slot] = slot;
	return slot;
}

/* The rank needs too much: what it has in flight is lost. */
static void rank_coll_shed(void *arg, uint32_t number)
{
	struct rank_coll *colls = arg;

	if (number < colls->slots)
		colls->slot[number] = rank_coll_state_free(colls->slot[number]);
}

static size_t rank_coll_bytes(const struct rank_coll_state *slot)
{
	return coll_memory_bytes(slot->ops) + slot->comms.capacity * sizeof(*slot->comms.comm);
}

static void rank_coll_account(const struct rank_coll_state *slot)
{
	rank_budget_set(slot->colls->context->budget, RANK_BUDGET_COLL, &slot->rank, rank_coll_bytes(slot));
}

static unsigned rank_coll_ended_of(const struct rank_coll *colls, uint32_t uid)
{
	unsigned count = 0;

	for (size_t i = 0; i < RANK_COLL_ENDED; i++)
		count += colls->ended[i] && colls->ended[i]->rank.uid == uid;
	return count;
}

/* The oldest ended rank of the user with the most of them; RANK_COLL_ENDED if there is none. */
static size_t rank_coll_ended_excess(const struct rank_coll *colls)
{
	size_t excess = RANK_COLL_ENDED;
	unsigned most = 0;

	for (size_t i = 0; i < RANK_COLL_ENDED; i++) {
		const struct rank_coll_state *slot = colls->ended[i];
		unsigned count = slot ? rank_coll_ended_of(colls, slot->rank.uid) : 0;

		if (!slot || count < most || (count == most && slot->ended_ns > colls->ended[excess]->ended_ns))
			continue;
		most = count;
		excess = i;
	}
	return excess;
}

/* Keeps an ended rank within the bounds. */
static void rank_coll_keep_ended(struct rank_coll *colls, struct rank_coll_state *slot)
{
	size_t bytes = rank_coll_bytes(slot), count = 1, at = 0;

	for (size_t i = 0; i < RANK_COLL_ENDED; i++)
		if (colls->ended[i]) {
			bytes += rank_coll_bytes(colls->ended[i]);
			count++;
		}
	while (count > 1 && (count > RANK_COLL_ENDED || bytes > (size_t)LIMIT_ENDED_STATE_MIB << 20)) {
		at = rank_coll_ended_excess(colls);
		bytes -= rank_coll_bytes(colls->ended[at]);
		colls->ended[at] = rank_coll_state_free(colls->ended[at]);
		count--;
	}
	for (at = 0; colls->ended[at]; at++)
		;
	colls->ended[at] = slot;
}

static void rank_coll_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct rank_coll *colls = arg;
	struct rank_coll_state *slot = rank->slot < colls->slots ? colls->slot[rank->slot] : NULL;

	if (change == RANK_ADDED && rank->role == RANK_ROLE_RANK)
		rank_coll_forget_ended(colls, rank);
	if (!slot || slot->rank.instance != rank->instance)
		return;
	if (change != RANK_ENDED && rank->role == RANK_ROLE_RANK) {
		slot->rank = *rank;
		slot->comms.changed = true; /* the job may have changed */
		return;
	}
	slot = rank_coll_take(colls, rank->slot);
	if (change != RANK_ENDED) {
		rank_coll_state_free(slot);
		return;
	}
	slot->ended_ns = monotonic_ns();
	rank_coll_keep_ended(colls, slot);
}

/* Without a name there is nothing to say. */
static void rank_coll_on_identified(void *arg, const struct comm_asked *asked, const struct comm_answer *answer)
{
	struct rank_coll *colls = arg;
	struct rank_coll_state *slot = asked->slot < colls->slots ? colls->slot[asked->slot] : NULL;
	const struct comm_row *comm;

	if (!slot || slot->rank.instance != asked->instance || (asked->for_name && !answer->name[0]))
		return;
	comm = comm_rows_find(&slot->comms, asked->family, asked->address);
	if (!comm || comm->since_ns != asked->since_ns)
		return;
	if (asked->again_ns)
		comm_rows_defer(&slot->comms, asked->family, asked->address, asked->again_ns);
	rank_coll_identify(colls, &slot->rank, asked->family, asked->address, answer->identity, answer->name,
		answer->member, answer->members, asked->for_name ? "" : "memory", answer->reason);
}

int rank_coll_new(struct context *context, struct rank_coll **ret)
{
	size_t slots = context->config.ranks_max;
	struct rank_coll *colls = calloc(1, sizeof(*colls) + slots * sizeof(colls->slot[0]));
	int r;

	if (!colls)
		return -ENOMEM;
	colls->context = context;
	colls->slots = slots;
	colls->identify = (struct comm_identify){context, rank_coll_on_identified, colls, NULL};
	r = ranks_observe(context->ranks, rank_coll_on_rank, colls);
	if (r < 0) {
		free(colls);
		return r;
	}
	rank_budget_part(context->budget, RANK_BUDGET_COLL, rank_coll_shed, colls);
	*ret = colls;
	return 0;
}

static void rank_coll_end_all(struct rank_coll *colls)
{
	for (size_t i = 0; i < colls->slots; i++)
		if (colls->slot[i])
			rank_coll_state_free(rank_coll_take(colls, i));
	rank_coll_forget_ended(colls, NULL);
}

int rank_coll_observe(struct rank_coll *colls, const struct rank_coll_observer *observer, void *arg)
{
	for (size_t i = 0; i < RANK_COLL_OBSERVERS; i++)
		if (colls->observers[i].arg == arg)
			colls->observers[i].observer = NULL;
	for (size_t i = 0; observer && i < RANK_COLL_OBSERVERS; i++) {
		if (colls->observers[i].observer)
			continue;
		colls->observers[i].observer = observer;
		colls->observers[i].arg = arg;
		return 0;
	}
	return observer ? -ENOSPC : 0;
}

const char *rank_coll_kind(const struct rank_coll *colls, uint32_t slot, int64_t instance, const char *communicator)
{
	const struct rank_coll_state *rank = slot < colls->slots ? colls->slot[slot] : NULL;

	return rank && rank->rank.instance == instance && communicator[0] ? comm_rows_kind(&rank->comms, communicator)
									  : "";
}

struct rank_coll *rank_coll_free(struct rank_coll *colls)
{
	if (!colls)
		return NULL;
	comm_identify_cancel(&colls->identify);
	rank_coll_end_all(colls);
	free(colls);
	return NULL;
}

void rank_coll_device(struct rank_coll *colls, const struct rank *rank, const struct coll_device *device)
{
	bool takes = !colls->off && rank_budget_admits(colls->context->budget, rank);
	struct rank_coll_state *slot = takes ? rank_coll_of_rank(colls, rank) : NULL;

	if (!slot)
		return;
	coll_feed_device(slot->ops, device);
	rank_coll_settle(slot);
	rank_coll_account(slot);
}

void rank_coll_identify(struct rank_coll *colls, const struct rank *rank, const char *family, uint64_t address,
	uint64_t identity, const char *name, uint32_t member, uint32_t members, const char *source, const char *reason)
{
	struct rank_coll_state *slot = rank->slot < colls->slots ? colls->slot[rank->slot] : NULL;

	if (!slot || slot->rank.instance != rank->instance)
		return;
	coll_identify(slot->ops, family, address, identity, name, member, members, source, reason);
	rank_coll_settle(slot);
}

static bool rank_coll_takes(const char *event)
{
	return coll_kind_parse(event) != COLL_NONE;
}

static struct coll_event rank_coll_event(
	const struct probe *probe, const uint64_t *words, uint32_t flags, bool returned)
{
	struct coll_event event = {
		.kind = coll_kind_parse(probe->event),
		.family = probe->family,
		.op = probe->op,
		.in_group = flags & RT_CALL_IN_GROUP,
		.text = "",
	};
	struct call_fields fields;

	call_fields(probe, words, flags, returned, &fields);
	event.present = fields.present;
	memcpy(event.field, fields.field, sizeof(event.field));
	return event;
}

static void rank_coll_feed(struct context *context, const struct rank *rank, const struct call_record *record)
{
	const struct rt_call_event *call = record->event;
	bool takes = context->ops && rank_budget_admits(context->budget, rank);
	struct rank_coll_state *slot = takes ? rank_coll_of_rank(context->ops, rank) : NULL;
	struct coll_event event;

	if (!slot)
		return;
	event = rank_coll_event(record->probe, call->arg, call->event.flags, call->event.flags & RT_CALL_END);
	event.start_ns = call->start_ns;
	event.end_ns = call->event.flags & RT_CALL_END ? call->event.time_ns : 0;
	event.thread_id = call->event.thread_id;
	event.stack_pointer = call->stack_pointer;
	event.has_result = call->event.flags & RT_CALL_RESULT;
	event.result = event.has_result ? call_result(call) : 0;
	event.text = record->text;
	coll_feed(slot->ops, &event);
	rank_coll_settle(slot);
	rank_coll_account(slot);
}

static void rank_coll_level(struct context *context, enum level level, bool on)
{
	if (level != LEVEL_L1 || !context->ops)
		return;
	context->ops->off = !on;
	if (!on)
		rank_coll_end_all(context->ops);
}

/* Dropped records may be calls of any rank; those beyond the limits of a rank are its own. */
static void rank_coll_feed_drops(struct rank_coll *colls)
{
	uint64_t drops = colls->context->kernel ? kernel_drops(colls->context->kernel, RT_KIND_CALL) : 0;

	for (size_t i = 0; i < colls->slots; i++) {
		struct rank_coll_state *slot = colls->slot[i];
		uint64_t limited =
			slot && colls->context->kernel ? kernel_limited_calls(colls->context->kernel, (uint32_t)i) : 0;

		if (!slot || (drops == colls->drops && limited == slot->limited))
			continue;
		slot->limited = limited;
		coll_dropped(slot->ops);
	}
	colls->drops = drops;
}

/* Changes made here are written by the settle that follows in the tick. */
static void rank_coll_publish_members(struct rank_coll *colls, uint64_t now_ns)
{
	_cleanup_free_ struct comm_members_rank *ranks = NULL;
	size_t count = 0;

	if (now_ns < colls->members_next_ns)
		return;
	colls->members_next_ns = now_ns + COMM_MEMBERS_NS;
	ranks = calloc(colls->slots, sizeof(*ranks));
	for (size_t i = 0; ranks && i < colls->slots; i++)
		if (colls->slot[i])
			ranks[count++] = (struct comm_members_rank){
				&colls->slot[i]->rank, &colls->slot[i]->comms, colls->slot[i]->ops};
	comm_members_publish(ranks, count);
}

static void rank_coll_tick(struct context *context, uint64_t now_ns)
{
	struct rank_coll *colls = context->ops;

	if (!colls || now_ns < colls->idle_next_ns)
		return;
	colls->idle_next_ns = now_ns + IDLE_NS;
	rank_coll_feed_drops(colls);
	rank_coll_publish_members(colls, now_ns);
	for (size_t i = 0; i < RANK_COLL_ENDED; i++)
		if (colls->ended[i] && now_ns > colls->ended[i]->ended_ns + RANK_COLL_ENDED_NS)
			colls->ended[i] = rank_coll_state_free(colls->ended[i]);
	for (size_t i = 0; i < colls->slots; i++) {
		if (!colls->slot[i])
			continue;
		coll_idle(colls->slot[i]->ops, now_ns);
		comm_rows_retry(&colls->slot[i]->comms, now_ns);
		rank_coll_settle(colls->slot[i]);
		rank_coll_account(colls->slot[i]);
	}
}

void rank_coll_set_in_flight(struct rank_coll *colls, rank_coll_in_flight read, void *reader)
{
	colls->read = read;
	colls->reader = reader;
}

struct refresh {
	struct rank_coll *colls;
	struct rank_coll_call *ret;
	size_t max, count;
};

static void rank_coll_on_in_flight(void *arg, uint32_t pid, uint32_t thread_id, const struct probe *probe,
	uint64_t start_ns, uint32_t flags, const uint64_t *words)
{
	struct refresh *refresh = arg;
	const struct rank *rank = ranks_by_pid(refresh->colls->context->ranks, pid);
	/* The kernel lists calls of an ended rank until its sweep: no state is created for them. */
	bool takes = rank && !rank->ended && rank_coll_takes(probe->event) &&
		     rank_budget_admits(refresh->colls->context->budget, rank);
	struct rank_coll_state *slot = takes ? rank_coll_of_rank(refresh->colls, rank) : NULL;
	uint64_t drained_ns = refresh->colls->context->drained_ns;
	struct coll_event event;

	if (!slot)
		return;
	event = rank_coll_event(probe, words, flags, false);
	event.start_ns = start_ns;
	event.thread_id = thread_id;
	/* Of a newer call an earlier one may not have been read yet, whose number it would have. */
	if (!drained_ns || start_ns < drained_ns)
		coll_in_call(slot->ops, &event);
	rank_coll_settle(slot);
	if (refresh->count < refresh->max)
		refresh->ret[refresh->count++] =
			(struct rank_coll_call){rank->env.rank, pid, thread_id, probe, start_ns, rank->uid};
}

size_t rank_coll_refresh(struct rank_coll *colls, struct rank_coll_call *ret, size_t max)
{
	struct refresh refresh = {colls, ret, ret ? max : 0, 0};

	for (size_t i = 0; i < colls->slots; i++)
		if (colls->slot[i])
			coll_in_call_begin(colls->slot[i]->ops);
	if (colls->read)
		colls->read(colls->reader, rank_coll_on_in_flight, &refresh);
	return refresh.count;
}

static void rank_coll_each_of(const struct rank_coll *colls, const struct rank_coll_state *rank,
	struct coll_standing *standing, void (*callback)(void *arg, const struct rank_coll_standing *standing),
	void *arg)
{
	const struct rank *live = rank->ended_ns ? NULL : ranks_by_pid(colls->context->ranks, rank->rank.pid);
	size_t count = coll_standings(rank->ops, standing, STANDINGS_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct comm_row *comm = comm_rows_find(&rank->comms, standing[i].family, standing[i].address);
		const struct rank_coll_standing row = {
			.rank = rank->rank.env.rank,
			.pid = rank->rank.pid,
			.job = rank->rank.env.job,
			.uid = rank->rank.uid,
			.ended_ns = rank->ended_ns,
			.stopped = live && (live->state == 'T' || live->state == 't'),
			.ops = rank->ops,
			.standing = &standing[i],
			.kind = comm ? comm->kind : "",
			.reason = comm && !standing[i].communicator[0] ? comm->reason : "",
		};

		callback(arg, &row);
	}
}

void rank_coll_each(
	struct rank_coll *colls, void (*callback)(void *arg, const struct rank_coll_standing *standing), void *arg)
{
	_cleanup_free_ struct coll_standing *standing = calloc(STANDINGS_MAX, sizeof(*standing));

	if (!standing)
		return;
	for (size_t i = 0; i < colls->slots; i++)
		if (colls->slot[i])
			rank_coll_each_of(colls, colls->slot[i], standing, callback, arg);
	for (size_t i = 0; i < RANK_COLL_ENDED; i++)
		if (colls->ended[i])
			rank_coll_each_of(colls, colls->ended[i], standing, callback, arg);
}

void rank_coll_clocks(struct rank_coll *colls,
	void (*callback)(void *arg, const struct rank *rank, const struct coll_clock *clock), void *arg)
{
	for (size_t i = 0; i < colls->slots; i++) {
		struct coll_clock clock[COLL_DEVICES_MAX];
		size_t count = colls->slot[i] ? coll_clocks(colls->slot[i]->ops, clock, ARRAY_SIZE(clock)) : 0;

		for (size_t k = 0; k < count; k++)
			callback(arg, &colls->slot[i]->rank, &clock[k]);
	}
}

void rank_coll_counts(const struct rank_coll *colls, struct rank_coll_counts *ret)
{
	struct coll_counts sum = colls->ended_counts;

	*ret = (struct rank_coll_counts){.rows = colls->rows, .groups = colls->groups};
	for (size_t i = 0; i < colls->slots; i++) {
		if (!colls->slot[i])
			continue;
		rank_coll_add_counts(&sum, colls->slot[i]->ops);
		ret->communicators += colls->slot[i]->comms.count;
	}
	ret->lost = sum.lost;
	ret->not_waited = sum.not_waited;
	ret->late = sum.late;
	ret->impossible = sum.impossible;
	ret->forgotten = sum.comms_forgotten;
}

const struct call_sink rank_coll_sink = {
	.takes = rank_coll_takes, .feed = rank_coll_feed, .level = rank_coll_level, .tick = rank_coll_tick};
