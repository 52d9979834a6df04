/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: what a slow rank does that its peers do not, over many random jobs, with faults of many kinds and without.
 */
#include "tests/unit/profile_script.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define RUNS 20

/* A fault, and how the first line names it. */
struct kind {
	const char *name, *expected;
	struct script_piece piece[4];
	size_t inflated;
	double inflation;
};

static const struct kind kinds[] = {
	{.name = "a loop in Python",
		.expected = "burn (gpt.py:54)",
		.piece = {ON(
			"forward", 30, MAIN_AT(54) "python forward (/job/gpt.py:40)\npython burn (/job/gpt.py:54)")}},
	{.name = "a loop on several lines",
		.expected = "burn (gpt.py:55)",
		.piece = {ON("forward", 12,
				  MAIN_AT(54) "python forward (/job/gpt.py:40)\npython burn (/job/gpt.py:54)"),
			ON("forward", 18,
				MAIN_AT(54) "python forward (/job/gpt.py:40)\npython burn (/job/gpt.py:55)")}},
	{.name = "a sleep",
		.expected = "nap (gpt.py:70)",
		.piece = {OFF("forward", 30,
			MAIN_AT(54) "python forward (/job/gpt.py:40)\npython nap (/job/gpt.py:70)\n"
				    "native clock_nanosleep (libc.so.6)\nkernel do_nanosleep")}},
	{.name = "an expression in a collate function",
		.expected = "clean (data.py:25)",
		.piece = {ON("dataloader", 30,
			MAIN_AT(50) "python __next__ (" TORCH "utils/data/dataloader.py:630)\n"
				    "python collate (/job/data.py:21)\npython clean (/job/data.py:25)\n"
				    "python sub (/usr/lib/python3.11/re/__init__.py:185)")}},
	{.name = "fsync in a logger",
		.expected = "flush (logger.py:31)",
		.piece = {OFF("", 30,
			MAIN_AT(59) "python log (/job/logger.py:14)\npython flush (/job/logger.py:31)\n"
				    "native fsync (libc.so.6)\nkernel ext4_sync_file")}},
	{.name = "a slow line in the loop itself",
		.expected = "main (train.py:61)",
		.piece = {ON("", 30, MAIN_AT(61))}},
	{.name = "a sleep in the loop itself",
		.expected = "main (train.py:61)",
		.piece = {OFF("", 30, MAIN_AT(61) "native clock_nanosleep (libc.so.6)")}},
	{.name = "a function that takes longer", .expected = "norm (gpt.py:35)", .inflated = 5, .inflation = 5},
	{.name = "a lambda",
		.expected = "<lambda> (aug.py:9)",
		.piece = {ON("dataloader", 30,
			MAIN_AT(50) "python collate (/job/data.py:22)\npython <lambda> (/job/aug.py:9)")}},
	{.name = "a hook of the backward pass, in its thread",
		.expected = "hook (clip.py:5)",
		.piece = {BESIDE("pt_autograd_0", "backward", 30, "python hook (/job/clip.py:5)")}},
	{.name = "a thread that takes the interpreter",
		.expected = "compress (upload.py:44)",
		.piece = {BESIDE("uploader", "", 30,
			"python run (/usr/lib/python3.11/threading.py:975)\npython compress (/job/upload.py:44)\n"
			"native deflate (libz.so.1)")}},
	{.name = "recursion",
		.expected = "walk (tree.py:7)",
		.piece = {ON("forward", 30,
			MAIN_AT(54) "python walk (/job/tree.py:6)\npython walk (/job/tree.py:6)\n"
				    "python walk (/job/tree.py:7)")}},
	{.name = "the model once more",
		.expected = "main (train.py:62)",
		.piece = {ON("forward", 25,
			MAIN_AT(62) "python forward (/job/gpt.py:41)\npython mlp (/job/gpt.py:31)\n"
				    "python linear (" TORCH "nn/functional.py:114)")}},
	{.name = "reading the data slowly",
		.expected = "read (data.py:80)",
		.piece = {OFF("dataloader", 30,
			MAIN_AT(50) "python __next__ (" TORCH "utils/data/dataloader.py:634)\n"
				    "python fetch (" TORCH "utils/data/_utils/fetch.py:51)\n"
				    "python __getitem__ (/job/data.py:34)\npython read (/job/data.py:80)")}},
	{.name = "a wait for the loader's workers, beside one of another kind",
		.expected = "__next__ (dataloader.py:741)",
		.piece = {OFF("dataloader", 30,
				  "python __next__ (" TORCH "utils/data/dataloader.py:741)\n"
				  "python get (/usr/lib/python3.12/queue.py:180)\nnative /usr/lib/libc.so.6+0x98e51"),
			OFF("dataloader", 2,
				"python wait (" TORCH "futures/__init__.py:70)\nnative /usr/lib/libc.so.6+0x98e51")}},
};

static struct script script_of(const struct kind *kind, unsigned run)
{
	struct script s = {.draw = 1000 * run + 7,
		.steps = 50,
		.hz = 49,
		.jitter = 0.1,
		.slow = (int)(run % SCRIPT_RANKS),
		.wait = run % 2};

	for (size_t i = 0; kind && i < COUNT(kind->piece) && kind->piece[i].frames; i++)
		s.fault[s.faults++] = kind->piece[i];
	if (kind) {
		s.inflated = kind->inflated;
		s.inflation = kind->inflation;
	} else {
		s.slow = -1;
	}
	return s;
}

/* Whether the first row names it. */
static bool names(const struct kind *kind, unsigned run)
{
	struct script s = script_of(kind, run);
	struct profile_diff diff;
	char place[STACK_PLACE_BYTES] = "nothing", sentence[PROFILE_SENTENCE_BYTES];
	bool found;

	script_make(&s);
	assert_int_equal(profile_compare(s.profile, &(struct profile_comparison){.rank = s.slow}, &diff), 0);
	if (diff.rows && diff.row[0].sure)
		(void)stack_frame_text(diff.row[0].frame, false, place, sizeof(place));
	found = strcmp(place, kind->expected) == 0;
	if (run == 0 || !found)
		print_message("%s: %s\n", kind->name, profile_sentence(&diff, sentence));
	profile_diff_free(&diff);
	profile_free(s.profile);
	return found;
}

TEST(test_kinds)
{
	unsigned found = 0;

	for (size_t i = 0; i < COUNT(kinds); i++)
		for (unsigned run = 0; run < RUNS; run++)
			found += names(&kinds[i], run);
	print_message("the first line names %u of %zu faults\n", found, COUNT(kinds) * RUNS);
	assert_in_range(found, COUNT(kinds) * RUNS * 95 / 100, COUNT(kinds) * RUNS);
}

TEST(test_clean)
{
	unsigned named = 0;

	for (unsigned run = 0; run < 200; run++) {
		struct script s = script_of(NULL, run);
		struct profile_diff diff;
		char sentence[PROFILE_SENTENCE_BYTES];

		s.jitter = 0.3;
		script_make(&s);
		assert_int_equal(
			profile_compare(s.profile, &(struct profile_comparison){.rank = run % SCRIPT_RANKS}, &diff), 0);
		if (*profile_sentence(&diff, sentence)) {
			print_message("clean %u: %s\n", run, sentence);
			named++;
		}
		profile_diff_free(&diff);
		profile_free(s.profile);
	}
	assert_int_equal(named, 0);
}

/* A peer of a slow rank waits; what it waits for is not its own work. With two ranks nobody else is there to compare.
 */
TEST(test_peer_of_slow)
{
	const int64_t slow = 1;
	char sentence[PROFILE_SENTENCE_BYTES];

	for (unsigned run = 0; run < 40; run++) {
		struct script s = script_of(&kinds[0], run);
		struct profile_diff diff;

		s.slow = (int)slow;
		script_make(&s);
		assert_int_equal(
			profile_compare(s.profile,
				&(struct profile_comparison){.rank = 0, .peers = &slow, .peers_count = 1}, &diff),
			0);
		assert_string_equal(profile_sentence(&diff, sentence), "");
		assert_true(diff.waits_ns > diff.peers_waits_ns + 20e6);
		profile_diff_free(&diff);
		assert_int_equal(
			profile_compare(s.profile,
				&(struct profile_comparison){.rank = slow, .peers = (int64_t[]){0}, .peers_count = 1},
				&diff),
			0);
		assert_non_null(strstr(profile_sentence(&diff, sentence), "burn (gpt.py:54), its peer 0"));
		profile_diff_free(&diff);
		profile_free(s.profile);
	}
}

/* A slow host: all functions take longer, and none is named. */
TEST(test_alike)
{
	char sentence[PROFILE_SENTENCE_BYTES];
	unsigned alike = 0;

	for (unsigned run = 0; run < 40; run++) {
		struct script s = script_of(&kinds[0], run);
		struct profile_diff diff;

		s.faults = 0;
		s.factor = 1.6;
		script_make(&s);
		assert_int_equal(profile_compare(s.profile, &(struct profile_comparison){.rank = s.slow}, &diff), 0);
		assert_null(strstr(profile_sentence(&diff, sentence), "spends"));
		alike += strstr(sentence, "in all functions alike") != NULL;
		profile_diff_free(&diff);
		profile_free(s.profile);
	}
	assert_in_range(alike, 36, 40);
}

/* Steps that are not known, or too few: seconds are compared. */
TEST(test_seconds)
{
	struct script s = script_of(&kinds[0], 3);
	char sentence[PROFILE_SENTENCE_BYTES];
	struct profile_diff diff;

	s.stepless = true;
	script_make(&s);
	assert_int_equal(profile_compare(s.profile, &(struct profile_comparison){.rank = s.slow}, &diff), 0);
	assert_true(diff.seconds);
	assert_non_null(
		strstr(profile_sentence(&diff, sentence), " ms of each second in burn (gpt.py:54), its peers 0"));
	/* 30 of some 197 ms. */
	assert_in_range((int)(diff.row[0].total_ns / 1e6), 110, 200);
	profile_diff_free(&diff);
	profile_free(s.profile);
}

/* What the slow rank does outside of all stages, its peers do not wait for there: they take as long in another line of
 * the same function. */
TEST(test_stage)
{
	struct script s = {.draw = 5,
		.steps = 50,
		.hz = 97,
		.jitter = 0.1,
		.slow = 1,
		.faults = 1,
		.fault = {ON("", 30, MAIN_AT(61) "native memset (libc.so.6)")}};
	const struct profile_comparison of = {.rank = 1, .stage = ""}, none = {.rank = 1, .stage = "checkpoint"};
	struct profile_diff diff;
	char place[STACK_PLACE_BYTES];

	script_make(&s);
	assert_int_equal(profile_compare(s.profile, &of, &diff), 0);
	assert_true(diff.rows > 0 && diff.row[0].sure);
	assert_string_equal(stack_frame_text(diff.row[0].frame, false, place, sizeof(place)), "main (train.py:61)");
	assert_in_range((int)(diff.row[0].total_ns / 1e6), 28, 36);
	assert_true(diff.own_ns < 40 * 1e6); /* of a step of 200 ms */
	profile_diff_free(&diff);
	assert_int_equal(profile_compare(s.profile, &none, &diff), -ENODATA);
	profile_free(s.profile);
}

TEST(test_figures)
{
	struct script s = script_of(&kinds[0], 5);
	struct profile_diff diff;

	s.hz = 999;
	script_make(&s);
	assert_int_equal(profile_compare(s.profile, &(struct profile_comparison){.rank = s.slow}, &diff), 0);
	assert_int_equal(diff.peers, 3);
	assert_in_range(diff.steps, 48, 50);
	assert_in_range((int)(diff.row[0].total_ns / 1e4), 2850, 3150);
	assert_in_range((int)(diff.row[0].self_ns / 1e4), 2850, 3150);
	assert_true(diff.row[0].peers_total_ns == 0);
	assert_string_equal(diff.row[0].caller->function, "forward");
	assert_in_range((int)((diff.own_ns - diff.peers_own_ns) / 1e6), 27, 33);
	profile_diff_free(&diff);
	assert_int_equal(profile_compare(s.profile, &(struct profile_comparison){.rank = 9}, &diff), -ENOENT);
	assert_int_equal(
		profile_compare(s.profile,
			&(struct profile_comparison){.rank = 1, .peers = (int64_t[]){7}, .peers_count = 1}, &diff),
		-ENOENT);
	profile_free(s.profile);
}

/* Folding. */

struct folds {
	size_t rows;
	uint64_t samples, weight_ns;
	char text[4096];
};

static int fold(void *arg, const struct profile_folded *folded)
{
	struct folds *folds = arg;
	size_t used = strlen(folds->text);

	snprintf(folds->text + used, sizeof(folds->text) - used, "%" PRId64 " %s%s %zu %" PRIu64 "\n", folded->rank,
		folded->stage, folded->off_cpu ? " off" : "", folded->frames, folded->weight_ns);
	folds->rows++;
	folds->samples += folded->samples;
	folds->weight_ns += folded->weight_ns;
	return 0;
}

static struct profile *folding_profile(void)
{
	static const char *const frames[] = {"python a (/a.py:1)\npython b (/a.py:2)", "python a (/a.py:1)",
		"python a (/a.py:1)\npython b (/a.py:2)"};
	struct profile *profile = profile_new();

	assert_non_null(profile);
	for (int64_t i = 0; i < 3; i++)
		assert_int_equal(profile_add_stack(profile, 10 + i, frames[i], 0), 0);
	assert_int_equal(profile_add_stage(profile, 1, 5, "forward", 100, 50), 0);
	assert_int_equal(profile_add_stage(profile, 1, 5, "inner", 120, 10), 0);
	for (int64_t i = 0; i < 12; i++) {
		struct profile_sample sample = {.rank = i % 2,
			.thread_id = 5,
			.thread_name = "t",
			.start_ns = 100 + 5 * i,
			.duration_ns = 10,
			.weight_ns = 10,
			.stack = 10 + i % 3,
			.main = true,
			.off_cpu = i >= 10};

		assert_int_equal(profile_add_sample(profile, &sample), 0);
	}
	return profile;
}

TEST(test_fold)
{
	struct profile *profile = folding_profile();
	struct folds folds = {0};

	assert_int_equal(profile_fold(profile, &(struct profile_folding){.cpu = 0}, fold, &folds), 0);
	/* Stacks 10 and 12 have equal frames. */
	assert_string_equal(folds.text, "-1  1 40\n-1  2 80\n");
	folds = (struct folds){0};
	assert_int_equal(profile_fold(profile,
				 &(struct profile_folding){.ranks = (int64_t[]){1},
					 .ranks_count = 1,
					 .cpu = PROFILE_ON_CPU,
					 .by_rank = true,
					 .by_stage = true},
				 fold, &folds),
		0);
	/* At 105, 115, 125, 135, 145. */
	assert_string_equal(folds.text, "1 forward 1 20\n1 forward 2 20\n1 inner 2 10\n");
	folds = (struct folds){0};
	assert_int_equal(profile_fold(profile, &(struct profile_folding){.by_cpu = true}, fold, &folds), 0);
	assert_int_equal(folds.samples, 12);
	assert_int_equal(folds.rows, 4);
	profile_free(profile);
}

/* Waits of which one of two was read count twice, in the step in which they were. */
TEST(test_thinned)
{
	enum { MSEC = 1000000, STEPS = 20 };
	struct profile *profile = profile_new();
	struct profile_diff diff;
	char place[STACK_PLACE_BYTES];

	assert_non_null(profile);
	assert_int_equal(profile_add_stack(profile, 1, "python main (/job/a.py:1)\npython nap (/job/a.py:9)", 0), 0);
	assert_int_equal(profile_add_stack(profile, 2, "python main (/job/a.py:2)", 0), 0);
	for (int64_t i = 0; i < 2 * STEPS; i++) {
		int64_t rank = i % 2, start_ns = 1000 + i / 2 * 100 * MSEC;
		struct profile_sample work = {.rank = rank,
			.thread_name = "",
			.main = true,
			.start_ns = start_ns,
			.weight_ns = 50 * MSEC,
			.stack = 2};
		struct profile_sample wait = {.rank = rank,
			.thread_name = "",
			.main = true,
			.start_ns = start_ns + 60 * MSEC,
			.duration_ns = 30 * MSEC,
			.weight_ns = 60 * MSEC,
			.stack = 1,
			.off_cpu = true};

		assert_int_equal(profile_add_step(profile, rank, start_ns, 100 * MSEC), 0);
		assert_int_equal(profile_add_sample(profile, &work), 0);
		if (rank == 1 && i / 2 % 2)
			assert_int_equal(profile_add_sample(profile, &wait), 0);
	}
	assert_int_equal(profile_compare(profile, &(struct profile_comparison){.rank = 1}, &diff), 0);
	assert_true(diff.rows > 0);
	assert_string_equal(stack_frame_text(diff.row[0].frame, false, place, sizeof(place)), "nap (a.py:9)");
	assert_in_range(diff.row[0].total_ns, 28 * MSEC, 32 * MSEC);
	assert_in_range(diff.own_ns, 78 * MSEC, 82 * MSEC);
	profile_diff_free(&diff);
	profile_free(profile);
}

/* Whatever a rank's user makes its frames be. */
TEST(test_hostile)
{
	struct profile *profile = profile_new();
	struct profile_sample sample = {
		.thread_name = "", .stack = 1, .duration_ns = INT64_MAX, .start_ns = INT64_MAX - 5, .off_cpu = true};
	struct profile_totals totals;
	struct profile_diff diff;
	char *deep = malloc(2000 * 20 + 1), sentence[PROFILE_SENTENCE_BYTES];

	assert_non_null(profile);
	assert_non_null(deep);
	deep[0] = 0;
	for (int i = 0; i < 2000; i++)
		strcat(deep, "python f (/a.py:1)\n");
	assert_int_equal(profile_add_stack(profile, 1, "", 0), 0);
	assert_int_equal(profile_add_stack(profile, 2, "\n\n ( : \nx\npython", 0), 0);
	assert_int_equal(profile_add_stack(profile, 3, deep, PROFILE_CUT_PYTHON | PROFILE_CUT_NATIVE), 0);
	assert_int_equal(profile_add_step(profile, 0, INT64_MAX - 1, 5), 0);
	assert_int_equal(profile_add_step(profile, 0, -5, 10), 0);
	assert_int_equal(profile_add_stage(profile, 0, 1, "", 5, -1), 0);
	assert_int_equal(profile_add_sample(profile, &sample), 0); /* its end overflows */
	sample.start_ns = 5;
	sample.weight_ns = 7;
	sample.duration_ns = 7;
	for (sample.stack = 0; sample.stack < 4; sample.stack++)
		for (sample.rank = 0; sample.rank < 2; sample.rank++)
			assert_int_equal(profile_add_sample(profile, &sample), 0);
	profile_totals(profile, &totals);
	assert_int_equal(totals.samples, 6);
	assert_int_equal(totals.unknown, 3);
	assert_int_equal(totals.cut, 2);
	assert_int_equal(totals.native_cut, 2);
	assert_int_equal(profile_compare(profile, &(struct profile_comparison){.rank = 0}, &diff), 0);
	assert_string_equal(profile_sentence(&diff, sentence), "");
	profile_diff_free(&diff);
	profile_free(profile);
	free(deep);
}

TEST_MAIN(NULL, NULL)
