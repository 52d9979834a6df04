/* SPDX-License-Identifier: Apache-2.0 */
/* The name tables: every form that PyTorch writes, and names that only resemble them. */
#include "analyzers/steps/stage_names.h"

#include "tests/test.h"

TEST(names_of_pytorch_have_their_stage)
{
	static const struct {
		const char *name;
		enum stage_kind kind;
		bool once;
	} rows[] = {
		{"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", STAGE_DATALOADER, true},
		{"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", STAGE_DATALOADER, true},
		{"enumerate(DataPipe)#MapperIterDataPipe(...)", STAGE_DATALOADER, false},
		{"Optimizer.step#SGD.step", STAGE_OPTIMIZER, true},
		{"Optimizer.step#", STAGE_OPTIMIZER, true},
		{"Optimizer.zero_grad#AdamW.zero_grad", STAGE_ZERO_GRAD, true},
		{"DistributedDataParallel.forward", STAGE_FORWARD, true},
		{"FullyShardedDataParallel.forward", STAGE_FORWARD, false},
		{"forward", STAGE_FORWARD, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(stage_of_name(rows[i].name).kind, rows[i].kind);
		assert_int_equal(stage_of_name(rows[i].name).once, rows[i].once);
	}
}

TEST(other_names_are_the_users)
{
	static const char *const rows[] = {"", "mine", "backward", "optimizer", "Optimizer.step",
		"Optimizer.stepping#X", "enumerate(DataLoader)", "FSDP::pre_forward",
		"FullyShardedDataParallel.forward2", "forward_pass", "## Call CompiledFxGraph abc ##",
		"DistributedDataParallel.forwards", "\x01\xff\n"};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(stage_of_name(rows[i]).kind, STAGE_USER);
}

TEST(stages_are_found_by_their_text)
{
	assert_null(stage_text(STAGE_USER));
	for (unsigned int i = STAGE_USER + 1; i < STAGE_KIND_MAX; i++) {
		assert_non_null(stage_text((enum stage_kind)i));
		assert_int_equal(stage_of_stage(stage_text((enum stage_kind)i)).kind, i);
	}
	assert_int_equal(stage_of_stage("compile").kind, STAGE_USER);
	assert_int_equal(stage_of_stage("").kind, STAGE_USER);
}

TEST(nesting_follows_how_training_works)
{
	assert_true(stage_may_hold(STAGE_OPTIMIZER, STAGE_BACKWARD)); /* LBFGS */
	assert_true(stage_may_hold(STAGE_BACKWARD, STAGE_BACKWARD));  /* reentrant checkpointing */
	assert_true(stage_may_hold(STAGE_BACKWARD, STAGE_FORWARD));   /* recomputation */
	assert_true(stage_may_hold(STAGE_DATALOADER, STAGE_GC));
	assert_false(stage_may_hold(STAGE_OPTIMIZER, STAGE_DATALOADER));
	assert_false(stage_may_hold(STAGE_DATALOADER, STAGE_BACKWARD));
	assert_false(stage_may_hold(STAGE_ZERO_GRAD, STAGE_OPTIMIZER));
	assert_false(stage_may_hold(STAGE_GC, STAGE_GC));
	for (unsigned int i = 0; i < STAGE_KIND_MAX; i++) {
		assert_true(stage_may_hold(STAGE_USER, (enum stage_kind)i));
		assert_int_equal(stage_is_loop((enum stage_kind)i), stage_rank((enum stage_kind)i) > 0);
	}
}

TEST_MAIN(NULL, NULL)
