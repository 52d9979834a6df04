/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: records of calls to rows, communicators that get better known, and who is missing. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/coll/comms.h"
#include "tests/unit/call_sinks_fixture.h"

#define INIT PROBE("comm", "nccl", "CommInitRank", OP_FIELD_COMM, OP_FIELD_IDENTITY, OP_FIELD_MEMBER, OP_FIELD_MEMBERS)
#define FREED PROBE("comm_free", "nccl", "CommDestroy", OP_FIELD_COMM)
#define ALL_REDUCE PROBE("op", "nccl", "AllReduce", OP_FIELD_COUNT, OP_FIELD_DTYPE, OP_FIELD_COMM)
#define FLOAT32 7
#define IDENTITY 0x1234

static struct probe init, freed, all_reduce;

static int setup(void **state)
{
	init = INIT;
	freed = FREED;
	all_reduce = ALL_REDUCE;
	return fixture_setup(state);
}

static void made(const struct rank *rank, uint64_t address, uint64_t time_ns)
{
	call_made(rank, &init,
		&(struct call_made){.start_ns = time_ns,
			.end_ns = time_ns + MS,
			WORDS(address, IDENTITY, (uint64_t)rank->env.rank, 4)});
}

static void reduced(const struct rank *rank, uint64_t address, uint64_t count, uint64_t time_ns)
{
	call_made(rank, &all_reduce,
		&(struct call_made){.start_ns = time_ns, .end_ns = time_ns + MS, WORDS(count, FLOAT32, address)});
}

TEST_WITH(test_rows, setup, fixture_teardown)
{
	made(&ranks_here[1], 0xc0, 10 * MS);
	reduced(&ranks_here[1], 0xc0, 1000, 20 * MS);
	reduced(&ranks_here[1], 0xc0, 2000, 30 * MS);
	notify_rank(&ranks_here[1], RANK_ENDED);
	flush();
	assert_query(
		"select rank, step, communicator, seq, op, dtype, count, bytes, host_duration_ns, device_start_ns, "
		"device_duration_ns, tier, seq_from, peer, group_id, captured, result, family, thread_id, instance "
		"from collectives order by host_start_ns",
		"1|NULL|0000000000001234|1|AllReduce|float32|1000|4000|1000000|NULL|NULL|host|init|NULL|NULL|0|0|nccl|"
		"101|2\n"
		"1|NULL|0000000000001234|2|AllReduce|float32|2000|8000|1000000|NULL|NULL|host|init|NULL|NULL|0|0|nccl|"
		"101|2\n");
	assert_query("select communicator, rank, member, members, family, reason, instance from communicators",
		"0000000000001234|1|1|4|nccl|NULL|2\n");
	/* Both ways to join. */
	assert_query("select count(*) from collectives join communicators using (communicator_key)", "2\n");
	assert_query("select count(*) from collectives join communicators using (instance, communicator)", "2\n");
}

TEST_WITH(test_device_times, setup, fixture_teardown)
{
	struct coll_device device = {.identity = IDENTITY,
		.name = "",
		.seq = 1,
		.op = "AllReduce",
		.count = 1000,
		.host_ns = 20 * MS,
		.start_ns = 25 * MS,
		.stop_ns = 28 * MS,
		.heard_ns = 28 * MS + 5000,
		.member = 0,
		.members = 4,
		.peer = -1};

	made(&ranks_here[0], 0xc0, 10 * MS);
	/* The record that announces device records, so that rows wait for theirs. */
	rank_coll_device(context.ops, &ranks_here[0],
		&(struct coll_device){.identity = IDENTITY,
			.name = "world",
			.op = "",
			.peer = -1,
			.members = 4,
			.host_ns = 11 * MS,
			.start_ns = COLL_UNKNOWN,
			.stop_ns = COLL_UNKNOWN});
	reduced(&ranks_here[0], 0xc0, 1000, 20 * MS);
	rank_coll_device(context.ops, &ranks_here[0], &device);
	notify_rank(&ranks_here[0], RANK_ENDED);
	flush();
	assert_query("select seq, tier, device_duration_ns, device_start_ns - host_start_ns from collectives",
		"1|device|3000000|5000000\n");
	assert_query("select name from communicators", "world\n");
}

/* Attached in mid-run: unidentified until the marker library names it. Then it has one row. */
TEST_WITH(test_becomes_known, setup, fixture_teardown)
{
	reduced(&ranks_here[0], 0xc0, 1000, 20 * MS);
	flush();
	assert_query(
		"select communicator, reason is not null, first_seen_ns is not null from communicators", "NULL|1|1\n");
	rank_coll_identify(context.ops, &ranks_here[0], "nccl", 0xc0, IDENTITY, "pg", 0, 4, "memory", "");
	flush();
	assert_query("select communicator, reason, name, source, members from communicators",
		"0000000000001234|NULL|pg|memory|4\n");
	/* What another rank or process says of the same address is no matter. */
	rank_coll_identify(context.ops, &ranks_here[1], "nccl", 0xc0, 0x99, "other", 0, 4, "memory", "");
	flush();
	assert_query("select count(*) from communicators", "1\n");
}

/* The library's memory takes precedence over the init's arguments: one communicator, one row. */
TEST_WITH(test_known_better, setup, fixture_teardown)
{
	struct probe op =
		PROBE("op", "nccl", "AllReduce", OP_FIELD_COUNT, OP_FIELD_DTYPE, OP_FIELD_COMM, OP_FIELD_IDENTITY);

	made(&ranks_here[0], 0xc0, 10 * MS);
	made(&ranks_here[1], 0xc0, 10 * MS);
	call_made(&ranks_here[0], &op,
		&(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(1000, FLOAT32, 0xc0, 0x77)});
	flush();
	assert_query("select rank, communicator, source from communicators order by rank",
		"0|0000000000000077|library\n1|0000000000001234|init\n");
}

/* Two members in one process are of one identity, and when one of them is not, the other keeps its row. */
TEST_WITH(test_two_members_in_one_process, setup, fixture_teardown)
{
	struct probe op =
		PROBE("op", "nccl", "AllReduce", OP_FIELD_COUNT, OP_FIELD_DTYPE, OP_FIELD_COMM, OP_FIELD_IDENTITY);

	made(&ranks_here[0], 0xc0, 10 * MS);
	made(&ranks_here[0], 0xd0, 12 * MS);
	call_made(&ranks_here[0], &op,
		&(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(1000, FLOAT32, 0xd0, 0x77)});
	flush();
	assert_query(
		"select communicator from communicators order by communicator", "0000000000000077\n0000000000001234\n");
}

/* The daemon starts anew: the communicator is found by its identity and keeps its row. */
TEST_WITH(test_one_row_over_restarts, setup, fixture_teardown)
{
	made(&ranks_here[0], 0xc0, 10 * MS);
	call_sinks_level(&context, LEVEL_L1, false);
	flush();
	reduced(&ranks_here[0], 0xc0, 1000, 60 * MS);
	rank_coll_identify(context.ops, &ranks_here[0], "nccl", 0xc0, IDENTITY, "", 0, 4, "memory", "");
	flush();
	assert_query("select communicator, source from communicators", "0000000000001234|memory\n");
	assert_query("select count(*) from communicators where reason is not null", "0\n");
}

TEST_WITH(test_freed, setup, fixture_teardown)
{
	made(&ranks_here[0], 0xc0, 10 * MS);
	call_made(&ranks_here[0], &freed, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0xc0)});
	flush();
	assert_query("select communicator, freed from communicators", "0000000000001234|1\n");
	/* Its address is another's now. */
	call_made(&ranks_here[0], &init,
		&(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, WORDS(0xc0, 0x77, 0, 2)});
	flush();
	assert_query("select communicator, freed, members from communicators order by first_seen_ns",
		"0000000000001234|1|4\n0000000000000077|0|2\n");
}

static void mark(const struct rank *rank, enum steps_edge edge, const char *stage, uint64_t time_ns)
{
	struct steps_mark mark = {.time_ns = time_ns,
		.thread_id = rank->pid,
		.edge = edge,
		.stage = stage,
		.name = edge == STEPS_BEGIN ? stage : NULL};

	rank_steps_mark(context.steps, rank, &mark);
}

/* The step that was open when it was called, though its row comes much later. */
TEST_WITH(test_step, setup, fixture_teardown)
{
	struct probe op = PROBE("op", "gloo", "AllReduce", OP_FIELD_COUNT, OP_FIELD_COMM, OP_FIELD_WORK);
	struct probe finished = PROBE("finished", "gloo", "", OP_FIELD_WORK);
	struct rank *rank = &ranks_here[2];

	rank->from_start = true;
	for (uint64_t step = 0; step < 3; step++) {
		uint64_t at = (10 + 100 * step) * MS;

		mark(rank, STEPS_BEGIN, "forward", at);
		mark(rank, STEPS_END, "forward", at + 10 * MS);
		mark(rank, STEPS_BEGIN, "backward", at + 20 * MS);
		call_made(rank, &op,
			&(struct call_made){
				.start_ns = at + 30 * MS, .end_ns = at + 31 * MS, WORDS(10, 0xc0, 0x50 + step)});
		mark(rank, STEPS_END, "backward", at + 40 * MS);
		mark(rank, STEPS_BEGIN, "optimizer", at + 50 * MS);
		mark(rank, STEPS_END, "optimizer", at + 60 * MS);
	}
	for (uint64_t step = 0; step < 3; step++)
		call_made(rank, &finished,
			&(struct call_made){.start_ns = 400 * MS, .end_ns = 400 * MS, WORDS(0x50 + step)});
	notify_rank(rank, RANK_ENDED); /* the steps module ends first */
	flush();
	assert_query("select step from collectives order by host_start_ns", "1\n2\n3\n");
}

static const struct coll_snapshot_comm *first(const struct coll_snapshot *snapshot)
{
	assert_true(snapshot->comms > 0);
	return &snapshot->comm[0];
}

static void in_flight(void *reader, rank_coll_in_flight_each each, void *arg)
{
	uint64_t words[RT_CALL_ARGS_MAX] = {4000, FLOAT32, 0xc0};
	struct probe *stage = reader;

	/* Rank 0 has not come back; a process that is no rank is none of ours. */
	each(arg, 100, 100, &all_reduce, 200 * MS, 0, words);
	each(arg, 4711, 4711, &all_reduce, 200 * MS, 0, words);
	each(arg, 101, 101, stage, 200 * MS, 0, words);
}

static struct coll_snapshot *take_snapshot(uint64_t now_ns)
{
	struct coll_snapshot *snapshot = NULL;

	assert_int_equal(coll_snapshot_new(context.ops, now_ns, &snapshot), 0);
	return snapshot;
}

/* Rank 0 is in a call that never returns, and so sends no record: rank 1 is missing. */
TEST_WITH(test_who_is_missing, setup, fixture_teardown)
{
	struct probe stage = {.name = "sync"};
	struct coll_snapshot *snapshot;

	for (unsigned i = 0; i < 2; i++) {
		made(&ranks_here[i], 0xc0, 10 * MS);
		reduced(&ranks_here[i], 0xc0, 1000, 20 * MS);
	}
	snapshot = take_snapshot(201 * MS);
	assert_int_equal(first(snapshot)->verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(snapshot->calls, 0);
	coll_snapshot_free(snapshot);
	rank_coll_set_in_flight(context.ops, in_flight, &stage);
	snapshot = take_snapshot(201 * MS); /* within the patience */
	assert_int_equal(first(snapshot)->verdict.state, COLL_STATE_RUNNING);
	coll_snapshot_free(snapshot);
	/* The ring may hold a call that ended between its last reading and the begin of this one. */
	context.drained_ns = 199 * MS;
	snapshot = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
	assert_int_equal(first(snapshot)->verdict.state, COLL_STATE_RUNNING);
	assert_int_equal(snapshot->calls, 1);
	coll_snapshot_free(snapshot);
	context.drained_ns = 201 * MS;
	snapshot = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
	assert_int_equal(snapshot->comms, 1);
	assert_int_equal(first(snapshot)->verdict.state, COLL_STATE_MISSING);
	assert_int_equal(first(snapshot)->verdict.seq, 2);
	assert_int_equal(first(snapshot)->members, 2);
	assert_non_null(strstr(first(snapshot)->sentence, "rank 1"));
	assert_int_equal(snapshot->member[0].judged.rank, 1); /* the missing one first */
	assert_true(snapshot->member[0].judged.missing);
	assert_int_equal(snapshot->member[1].judged.standing.entered.seq, 2);
	assert_int_equal(snapshot->member[1].judged.standing.in_call_ns, 200 * MS);
	assert_int_equal(snapshot->calls, 1);
	assert_int_equal(snapshot->call[0].pid, 100);
	coll_snapshot_free(snapshot);
	context.drained_ns = 0;
}

/* A rank that is gone is named, until another replaces it. */
TEST_WITH(test_who_has_ended, setup, fixture_teardown)
{
	struct probe stage = {.name = "sync"};
	struct coll_snapshot *snapshot;

	for (unsigned i = 0; i < 2; i++) {
		made(&ranks_here[i], 0xc0, 10 * MS);
		reduced(&ranks_here[i], 0xc0, 1000, 20 * MS);
	}
	notify_rank(&ranks_here[1], RANK_ENDED);
	rank_coll_set_in_flight(context.ops, in_flight, &stage);
	snapshot = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
	assert_int_equal(first(snapshot)->verdict.state, COLL_STATE_MISSING);
	assert_non_null(strstr(first(snapshot)->sentence, "has ended"));
	coll_snapshot_free(snapshot);
	ranks_here[1].instance = 99;
	notify_rank(&ranks_here[1], RANK_ADDED);
	snapshot = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
	assert_int_equal(first(snapshot)->members, 1);
	coll_snapshot_free(snapshot);
	/* Communicators without live members are not reported. */
	notify_rank(&ranks_here[0], RANK_ENDED);
	snapshot = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
	assert_int_equal(snapshot->comms, 0);
	coll_snapshot_free(snapshot);
}

static struct coll_snapshot *snapshot_at_end;

static void on_rank_end(void *arg, const struct rank *rank, enum rank_change change)
{
	if (change == RANK_ENDED)
		snapshot_at_end = take_snapshot(200 * MS + 5 * NSEC_PER_SEC);
}

/* A rank that dies in a call is still in the kernel's list of calls while observers handle its end. */
TEST_WITH(test_ended_in_a_call, setup, fixture_teardown)
{
	struct probe stage = {.name = "sync"};
	const struct coll_snapshot_comm *comm;

	for (unsigned i = 0; i < 2; i++) {
		made(&ranks_here[i], 0xc0, 10 * MS);
		reduced(&ranks_here[i], 0xc0, 1000, 20 * MS);
	}
	rank_coll_set_in_flight(context.ops, in_flight, &stage);
	assert_int_equal(ranks_observe(NULL, on_rank_end, NULL), 0);
	notify_rank(&ranks_here[0], RANK_ENDED);
	assert_int_equal(snapshot_at_end->comms, 1);
	comm = first(snapshot_at_end);
	assert_int_equal(comm->members, 2);
	for (size_t i = 0; i < 2; i++)
		assert_true((snapshot_at_end->member[comm->first + i].judged.pid == 100) ==
			    (snapshot_at_end->member[comm->first + i].ended_ns != 0));
	coll_snapshot_free(snapshot_at_end);
}

TEST_WITH(test_unknown_is_not_judged, setup, fixture_teardown)
{
	struct coll_snapshot *snapshot;

	reduced(&ranks_here[0], 0xc0, 1000, 20 * MS);
	reduced(&ranks_here[1], 0xc0, 1000, 20 * MS);
	reduced(&ranks_here[1], 0xc0, 1000, 30 * MS);
	snapshot = take_snapshot(60 * NSEC_PER_SEC);
	assert_int_equal(snapshot->comms, 2);
	assert_int_equal(snapshot->comm[0].verdict.state, COLL_STATE_RUNNING);
	assert_non_null(strstr(snapshot->comm[0].sentence, "not identified"));
	coll_snapshot_free(snapshot);
}

/* A device record that is on its way when the level goes off begins nothing. */
TEST_WITH(test_off_is_off, setup, fixture_teardown)
{
	const struct coll_device device = {.identity = IDENTITY,
		.name = "",
		.seq = 1,
		.op = "AllReduce",
		.count = 1000,
		.host_ns = 20 * MS,
		.start_ns = 25 * MS,
		.stop_ns = 28 * MS,
		.heard_ns = 28 * MS + 5000,
		.members = 4,
		.peer = -1};
	struct rank_coll_counts counts;

	made(&ranks_here[0], 0xc0, 10 * MS);
	call_sinks_level(&context, LEVEL_L2, false); /* another one's business */
	rank_coll_counts(context.ops, &counts);
	assert_int_equal(counts.communicators, 1);
	call_sinks_level(&context, LEVEL_L1, false);
	rank_coll_device(context.ops, &ranks_here[0], &device);
	rank_coll_counts(context.ops, &counts);
	assert_int_equal(counts.communicators, 0);
	call_sinks_level(&context, LEVEL_L1, true);
	made(&ranks_here[0], 0xc0, 50 * MS);
	rank_coll_counts(context.ops, &counts);
	assert_int_equal(counts.communicators, 1);
}

/* Communicators come and go, more than are followed at a time; each has its row. */
TEST_WITH(test_many_communicators, setup, fixture_teardown)
{
	for (uint64_t i = 0; i < 3000; i++)
		call_made(&ranks_here[0], &init,
			&(struct call_made){.start_ns = (10 + i) * MS,
				.end_ns = (11 + i) * MS,
				WORDS(0x1000 + i * 16, 0x5000 + i, 0, 2)});
	for (uint64_t i = 0; i < 3000; i++)
		call_made(&ranks_here[0], &freed,
			&(struct call_made){
				.start_ns = (5000 + i) * MS, .end_ns = (5001 + i) * MS, WORDS(0x1000 + i * 16)});
	flush();
	assert_query("select count(*), count(distinct communicator), sum(reason is not null) from communicators",
		"3000|3000|0\n");
	assert_true(query_int("select sum(freed) from communicators") >= COLL_COMMS_MAX);
}

/* Records that the kernel lost were perhaps calls: what is counted from here on may not be joined. */
TEST_WITH(test_lost_records, setup, fixture_teardown)
{
	made(&ranks_here[0], 0xc0, 10 * MS);
	reduced(&ranks_here[0], 0xc0, 1000, 20 * MS);
	kernel_lost = 3;
	call_sinks_tick(&context, 25 * MS);
	reduced(&ranks_here[0], 0xc0, 1000, 30 * MS);
	notify_rank(&ranks_here[0], RANK_ENDED);
	flush();
	assert_query("select seq_from from collectives order by host_start_ns", "init\nattach\n");
}

TEST_WITH(test_counts_outlive_ranks, setup, fixture_teardown)
{
	struct rank_coll_counts counts;

	made(&ranks_here[0], 0xc0, 10 * MS);
	reduced(&ranks_here[0], 0xc0, 1000, 20 * MS);
	rank_coll_counts(context.ops, &counts);
	assert_int_equal(counts.communicators, 1);
	notify_rank(&ranks_here[0], RANK_ENDED);
	rank_coll_counts(context.ops, &counts);
	assert_int_equal(counts.rows, 1);
	assert_int_equal(counts.communicators, 0);
}

TEST_MAIN(NULL, NULL)
