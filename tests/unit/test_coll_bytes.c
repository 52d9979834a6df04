/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of calls, and what groups are for. */
#include <string.h>

#include "analyzers/coll/comm_kind.h"
#include "analyzers/coll/coll.h"
#include "analyzers/coll/coll_bytes.h"
#include "tests/test.h"

TEST(bytes_as_the_profiler_counts_them)
{
	static const struct {
		const char *family, *op;
		uint64_t count, dtype;
		uint32_t members;
		uint64_t bytes;
		const char *name;
	} cases[] = {
		{"nccl", "AllReduce", 100, 7, 8, 400, "float32"},
		{"nccl", "allreduce", 100, 9, 0, 200, "bfloat16"},
		{"nccl", "AllGather", 100, 6, 8, 200, "float16"},
		{"nccl", "ReduceScatter", 100, 7, 8, 3200, "float32"},
		{"nccl", "ReduceScatter", 100, 7, 0, COLL_UNKNOWN, "float32"},
		{"rccl", "AlltoAll", 100, 10, 8, 800, "float8_e4m3"},
		{"hccl", "ReduceScatter", 100, 3, 8, 1600, "float16"},
		{"hccl", "AllReduce", 100, 4, 8, 400, "float32"},
		{"hccl", "Send", 100, 11, 8, 200, "bfloat16"},
		{"hccl", "AllReduce", 100, 13, 8, COLL_UNKNOWN, ""},
		{"gloo", "ReduceScatter", 100, 6, 8, 400, "float32"},
		{"gloo", "AllReduce", 100, 15, 8, 200, "bfloat16"},
		{"gloo", "AllReduce", 100, 4, 8, 800, "int64"},
		{"gloo", "Broadcast", 0, 11, 8, 0, "bool"},
		{"nccl", "AllReduce", 100, 12, 8, COLL_UNKNOWN, ""},
		{"mpi", "AllReduce", 100, 7, 8, COLL_UNKNOWN, ""},
		{"nccl", "AllReduce", UINT64_MAX / 8, 7, 8, INT64_MAX - 3, "float32"},
		{"nccl", "AllReduce", (uint64_t)INT64_MAX / 4 + 1, 7, 8, COLL_UNKNOWN, "float32"},
		{"nccl", "AlltoAll", INT64_MAX / 8, 8, 2, COLL_UNKNOWN, "float64"},
		{"nccl", "AllReduce", COLL_UNKNOWN, 7, 8, COLL_UNKNOWN, "float32"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct coll_family *family = coll_family(cases[i].family);
		const struct coll_dtype *dtype = coll_dtype(family, cases[i].dtype);

		assert_string_equal(dtype ? dtype->name : "", cases[i].name);
		assert_int_equal(
			coll_bytes(family, coll_operation(cases[i].op), cases[i].count, dtype, cases[i].members),
			cases[i].bytes);
	}
	assert_null(coll_dtype(coll_family("nccl"), UINT64_MAX));
	assert_string_equal(coll_family(NULL)->name, "");
}

TEST(names_say_what_a_group_is_for)
{
	static const struct {
		const char *name, *kind;
	} cases[] = {
		{"DATA_PARALLEL_GROUP", "data"},
		{"DATA_PARALLEL_GROUP_WITH_CP", "data"},
		{"EXPERT_DATA_PARALLEL_GROUP", "data"},
		{"mesh_dp", "data"},
		{"mesh_dp_shard_cp", "data"},
		{"tp", "tensor"},
		{"mesh_TP", "tensor"},
		{"TENSOR_MODEL_PARALLEL_GROUP", "tensor"},
		{"EXPERT_TENSOR_PARALLEL_GROUP", "tensor"},
		{"PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"},
		{"EXPERT_MODEL_PARALLEL_GROUP", "expert"},
		{"ep", "expert"},
		{"CONTEXT_PARALLEL_GROUP", "context"},
		{"TENSOR_AND_DATA_PARALLEL_GROUP", ""},
		{"MODEL_PARALLEL_GROUP", ""},
		{"default_pg", ""},
		{"http", ""},
		{"update", ""},
		{"tpx", ""},
		{"undefined", ""},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(comm_kind_name(comm_kind_of_name(cases[i].name)), cases[i].kind);
	assert_string_equal(comm_kind_name((enum comm_kind)77), "");
}

static const char *kind_of(const struct comm_evidence *evidence)
{
	return comm_kind_name(comm_kind_of(evidence));
}

static void add(struct comm_evidence *evidence, const char *op, uint64_t count, int32_t peer, int times)
{
	for (int i = 0; i < times; i++)
		comm_mix_add(&evidence->mix, op, count, peer);
}

TEST(operations_say_what_a_group_is_for)
{
	static const int32_t follow[] = {4, 5, 6, 7}, apart[] = {0, 4, 8, 12};
	struct comm_evidence e = {.name = "", .members = 4};

	add(&e, "AllReduce", 100, -1, 7);
	add(&e, "Broadcast", 5, -1, 100);
	assert_string_equal(kind_of(&e), ""); /* too few */
	add(&e, "AllReduce", 100, -1, 7);
	assert_string_equal(kind_of(&e), ""); /* one size: tensor parallel as well */
	add(&e, "AllReduce", 200, -1, 1);
	add(&e, "AllReduce", 1, -1, 1);
	assert_string_equal(kind_of(&e), "");
	add(&e, "AllReduce", 300, -1, 1);
	assert_string_equal(kind_of(&e), "data");
	add(&e, "ReduceScatter", 1, -1, 1);
	add(&e, "AllGather", 1, -1, 1);
	assert_string_equal(kind_of(&e), ""); /* the ranks are not known */
	e.place = comm_place_of(follow, 4, 16, 8);
	assert_string_equal(kind_of(&e), "tensor");
	e.place = comm_place_of(apart, 4, 16, 8);
	assert_string_equal(kind_of(&e), "data");
	e.name = "pp";
	assert_string_equal(kind_of(&e), "pipeline");

	e = (struct comm_evidence){.name = "", .members = 4, .place = comm_place_world(4, 4)};
	add(&e, "ReduceScatter", 1, -1, 10);
	add(&e, "AllGather", 1, -1, 10);
	assert_string_equal(kind_of(&e), "");
	e.place = comm_place_world(4, 2);
	assert_string_equal(kind_of(&e), "data");
	e.place = comm_place_of(follow, 4, 8, 2);
	assert_string_equal(kind_of(&e), "");
	add(&e, "AllReduce", COMM_KIND_FLAGS, -1, 20);
	assert_string_equal(kind_of(&e), ""); /* norms */
	add(&e, "AllReduce", 100, -1, 1);
	assert_string_equal(kind_of(&e), "tensor");
	e.members = 8;
	assert_string_equal(kind_of(&e), ""); /* another's position */

	e = (struct comm_evidence){.name = "", .members = 4, .place = comm_place_of(apart, 4, 16, 8)};
	add(&e, "AllReduce", 100, -1, 20);
	add(&e, "AllReduce", 1, -1, 20);
	assert_string_equal(kind_of(&e), ""); /* the ends of pipelines */
	add(&e, "AllReduce", 200, -1, 1);
	assert_string_equal(kind_of(&e), "data");

	e = (struct comm_evidence){.name = "", .members = 2};
	add(&e, "Send", 1, 1, 10);
	add(&e, "Recv", 1, 1, 10);
	assert_string_equal(kind_of(&e), "pipeline");
	e.members = 8;
	add(&e, "Send", 1, 2, 1);
	add(&e, "Send", 1, 3, 1);
	assert_string_equal(kind_of(&e), "");
	add(&e, "Send", 1, 4, 1);
	add(&e, "Send", 1, 5, 1);
	assert_string_equal(kind_of(&e), "expert");

	e = (struct comm_evidence){.name = "", .members = 8};
	add(&e, "AlltoAllV", 1, -1, 10);
	assert_string_equal(kind_of(&e), "expert");
	add(&e, "AllReduce", 1, -1, 20);
	assert_string_equal(kind_of(&e), "");
}

TEST(positions_of_ranks)
{
	static const struct {
		int32_t rank[4];
		uint32_t members, world;
		bool known, follow;
	} cases[] = {
		{{4, 5, 6, 7}, 4, 8, true, true},
		{{0, 1, 2, 4}, 4, 8, true, false},
		{{0, 4}, 2, 5, true, false},
		{{0, 4}, 2, 4, false, false}, /* the job has no such rank */
		{{0, 1, 1, 2}, 4, 8, false, false},
		{{1, 0}, 2, 8, false, false},
		{{-1, 0}, 2, 8, false, false},
		{{0}, 1, 8, false, false},
		{{0}, 0, 8, false, false},
		{{0, 1}, 2, 0, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct comm_place place = comm_place_of(cases[i].rank, cases[i].members, cases[i].world, 4);

		assert_int_equal(place.members, cases[i].known ? cases[i].members : 0);
		assert_int_equal(place.follow, cases[i].follow);
	}
	assert_int_equal(comm_place_world(1, 1).members, 0);
	assert_int_equal(comm_place_world(0, 0).members, 0);
}

TEST_MAIN(NULL, NULL)
