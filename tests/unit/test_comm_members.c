/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of communicators by where their members are in the job: four ranks of one node, or of two. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/coll/comms.h"
#include "tests/unit/call_sinks_fixture.h"

#define INIT PROBE("comm", "nccl", "CommInitRank", OP_FIELD_COMM, OP_FIELD_IDENTITY, OP_FIELD_MEMBER, OP_FIELD_MEMBERS)
#define OP(name) PROBE("op", "nccl", name, OP_FIELD_COUNT, OP_FIELD_DTYPE, OP_FIELD_COMM)
#define FLOAT32 7
#define TENSOR 0xc0
#define DATA 0xd0
#define KINDS "select rank, communicator, kind from communicators order by communicator, rank"

static struct probe init, all_reduce, all_gather, reduce_scatter;
static uint64_t now_ns;

static int setup(void **state)
{
	init = INIT;
	all_reduce = OP("AllReduce");
	all_gather = OP("AllGather");
	reduce_scatter = OP("ReduceScatter");
	now_ns = 10 * MS;
	return fixture_setup(state);
}

static void called(unsigned rank, const struct probe *probe, uint64_t address, uint64_t count)
{
	now_ns += 2 * MS;
	call_made(&ranks_here[rank], probe,
		&(struct call_made){.start_ns = now_ns, .end_ns = now_ns + MS, WORDS(count, FLOAT32, address)});
}

static void made(unsigned rank, uint64_t address, uint64_t identity, uint64_t member, uint64_t members)
{
	now_ns += 2 * MS;
	call_made(&ranks_here[rank], &init,
		&(struct call_made){
			.start_ns = now_ns, .end_ns = now_ns + MS, WORDS(address, identity, member, members)});
}

static void tick_after(uint64_t ns)
{
	now_ns += ns;
	call_sinks_tick(&context, now_ns);
	flush();
}

/* 16 calls. */
static void work(unsigned rank, uint64_t address, bool reduces)
{
	for (int i = 0; i < 4; i++) {
		called(rank, &all_gather, address, 100);
		called(rank, &reduce_scatter, address, 100);
		called(rank, &all_gather, address, 100);
		called(rank, reduces ? &all_reduce : &reduce_scatter, address, 100);
	}
}

static void make_tensor_pairs(void)
{
	for (unsigned i = 0; i < 4; i++)
		made(i, TENSOR, 0x100 + i / 2, i % 2, 2);
}

TEST_WITH(test_pairs, setup, fixture_teardown)
{
	make_tensor_pairs();
	for (unsigned i = 0; i < 4; i++) {
		made(i, DATA, 0x200 + i % 2, i / 2, 2);
		work(i, TENSOR, true);
		work(i, DATA, false);
	}
	flush();
	assert_query("select count(*) from communicators where kind is not null", "0\n");
	tick_after(2 * NSEC_PER_SEC);
	assert_query(KINDS,
		"0|0000000000000100|tensor\n1|0000000000000100|tensor\n2|0000000000000101|tensor\n3|0000000000000101|"
		"tensor\n"
		"0|0000000000000200|data\n2|0000000000000200|data\n1|0000000000000201|data\n3|0000000000000201|data\n");
}

/* The members are known before there is enough to judge by. */
TEST_WITH(test_calls_after, setup, fixture_teardown)
{
	make_tensor_pairs();
	tick_after(2 * NSEC_PER_SEC);
	work(0, TENSOR, true);
	flush();
	assert_query("select rank, kind from communicators where kind is not null", "0|tensor\n");
}

TEST_WITH(test_one_is_not_here, setup, fixture_teardown)
{
	notify_rank(&ranks_here[3], RANK_ENDED);
	for (unsigned i = 0; i < 3; i++) {
		made(i, TENSOR, 0x100 + i / 2, i % 2, 2);
		work(i, TENSOR, true);
	}
	tick_after(2 * NSEC_PER_SEC);
	assert_query(KINDS, "0|0000000000000100|tensor\n1|0000000000000100|tensor\n2|0000000000000101|NULL\n");
	/* It comes. */
	ranks_here[3].instance = 99;
	notify_rank(&ranks_here[3], RANK_ADDED);
	made(3, TENSOR, 0x101, 1, 2);
	tick_after(2 * NSEC_PER_SEC);
	assert_query("select kind from communicators where rank = 2", "tensor\n");
	/* Known members are kept. */
	notify_rank(&ranks_here[3], RANK_ENDED);
	made(0, DATA, 0x200, 0, 2);
	tick_after(2 * NSEC_PER_SEC);
	assert_query("select kind from communicators where rank = 2", "tensor\n");
}

/* Not twice the same number, no other job's, no process that holds two members, no other size. */
TEST_WITH(test_what_does_not_fit, setup, fixture_teardown)
{
	made(0, TENSOR, 0x100, 0, 2);
	made(1, TENSOR, 0x100, 0, 2);
	made(0, DATA, 0x200, 0, 2);
	made(0, DATA + 16, 0x200, 1, 2);
	made(2, TENSOR, 0x300, 0, 2);
	made(3, TENSOR, 0x300, 1, 3);
	made(1, DATA, 0x400, 0, 2);
	made(2, DATA, 0x400, 1, 2);
	snprintf(ranks_here[2].env.job, sizeof(ranks_here[2].env.job), "another");
	notify_rank(&ranks_here[2], RANK_CHANGED);
	for (unsigned i = 0; i < 4; i++)
		work(i, TENSOR, true);
	for (unsigned i = 0; i < 3; i++)
		work(i, DATA, true);
	work(0, DATA + 16, true);
	tick_after(2 * NSEC_PER_SEC);
	assert_query("select count(*) from communicators where kind is not null", "0\n");
	/* Its job turns out to be the same. */
	snprintf(ranks_here[2].env.job, sizeof(ranks_here[2].env.job), "j");
	notify_rank(&ranks_here[2], RANK_CHANGED);
	tick_after(2 * NSEC_PER_SEC);
	assert_query(KINDS, "0|0000000000000100|NULL\n1|0000000000000100|NULL\n0|0000000000000200|NULL\n"
			    "2|0000000000000300|NULL\n3|0000000000000300|NULL\n"
			    "1|0000000000000400|tensor\n2|0000000000000400|tensor\n");
}

/* The job is of two nodes, and this one sees one rank of two: all ranks are all ranks. */
TEST_WITH(test_all_of_the_job, setup, fixture_teardown)
{
	for (unsigned i = 0; i < 4; i++) {
		ranks_here[i].env.world_size = 8;
		ranks_here[i].env.local_world_size = i < 3 ? 4 : 8;
		notify_rank(&ranks_here[i], RANK_CHANGED);
	}
	made(1, DATA, 0x200, 1, 8);
	made(3, DATA, 0x300, 3, 8); /* of one node: tensor or data */
	work(1, DATA, false);
	work(3, DATA, false);
	tick_after(2 * NSEC_PER_SEC);
	assert_query(KINDS, "1|0000000000000200|data\n3|0000000000000300|NULL\n");
}

/* At most once a second. */
TEST_WITH(test_seldom, setup, fixture_teardown)
{
	tick_after(2 * NSEC_PER_SEC);
	make_tensor_pairs();
	work(0, TENSOR, true);
	tick_after(600 * MS);
	assert_query("select count(*) from communicators where kind is not null", "0\n");
	tick_after(600 * MS);
	assert_query("select rank, kind from communicators where kind is not null", "0|tensor\n");
}

/* Nested inits report the same communicator twice. */
TEST_WITH(test_init_in_init, setup, fixture_teardown)
{
	for (unsigned i = 0; i < 2; i++) {
		made(i, TENSOR, 0x100, i, 2);
		call_made(&ranks_here[i], &init,
			&(struct call_made){
				.start_ns = now_ns - MS, .end_ns = now_ns + MS, WORDS(TENSOR, 0x100, i, 2)});
		work(i, TENSOR, true);
	}
	tick_after(2 * NSEC_PER_SEC);
	assert_query(KINDS, "0|0000000000000100|tensor\n1|0000000000000100|tensor\n");
}

TEST_MAIN(NULL, NULL)
