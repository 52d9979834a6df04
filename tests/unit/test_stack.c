/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks side by side: which are the same, who is alone, and their text in the store. */
#include <stdio.h>
#include <string.h>

#include "analyzers/base/stack.h"

#include "tests/test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PYTHON(function, file, line) \
	{ \
		"python", function, file, line, 0 \
	}
#define NATIVE(function, file) \
	{ \
		"native", function, file, 0, 0 \
	}

static const struct stack_frame burns[] = {
	{"interpreter", "_start", "/usr/bin/python3.11", 0, 0},
	PYTHON("<module>", "/job/gpt.py", 90),
	{"interpreter", "PyObject_Vectorcall", "/usr/bin/python3.11", 0, 0},
	PYTHON("burn", "/job/gpt.py", 54),
};
static const struct stack_frame reduces[] = {
	PYTHON("<module>", "/job/gpt.py", 91),
	PYTHON("all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 1700),
	NATIVE("c10d::Work::wait(std::chrono::duration<long>)", "/usr/lib/libtorch_cpu.so"),
	{"kernel", "futex_do_wait", "", 0, 0},
};
/* The same but for what does not show. */
static const struct stack_frame reduces_too[] = {
	PYTHON("<module>", "/job/gpt.py", 91),
	{"interpreter", "method_vectorcall", "/usr/bin/python3.11", 0, 0},
	PYTHON("all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 1700),
	NATIVE("c10d::Work::wait(std::chrono::duration<long>)", "/usr/lib/libtorch_cpu.so"),
	{"kernel", "do_poll", "", 0, 0},
};
static const struct stack_frame polls[] = {NATIVE("__clone3", "/lib/libc.so.6"), NATIVE("poll", "/lib/libc.so.6")};

#define MAIN(number, frames_of, state_of) \
	{ \
		.rank = (number), .pid = 100u + (number), .thread_id = 100u + (number), .is_rank = true, .main = true, \
		.job = "llama", .name = "python3", .state = (state_of), .wait = "", .frames = COUNT(frames_of), \
		.frame = (frames_of) \
	}

TEST(test_alone)
{
	struct stack_thread threads[] = {MAIN(0, reduces, "S"), MAIN(1, burns, "R"), MAIN(2, reduces_too, "S"),
		MAIN(3, reduces, "S"), MAIN(3, polls, "S")};
	char sentence[STACK_SENTENCE_BYTES];
	struct stack_groups groups;

	threads[4].main = false;
	threads[4].thread_id = 999;
	assert_true(stack_groups_new(threads, COUNT(threads), &groups));
	assert_int_equal(groups.groups, 3);
	assert_true(groups.group[0].alone);
	assert_int_equal(groups.order[groups.group[0].first], 1);
	assert_int_equal(groups.group[1].count, 3);
	assert_false(groups.group[1].alone);
	assert_int_equal(groups.order[groups.group[1].first], 0);
	assert_int_equal(groups.order[groups.group[2].first], 4);
	stack_groups_free(&groups);
	stack_sentence(threads, COUNT(threads), sentence);
	assert_string_equal(sentence, "rank 1 is alone in burn (gpt.py:54) and runs; 3 others are in all_reduce "
				      "(distributed_c10d.py:1700) from <module> (gpt.py:91)");
}

/* Of two ranks that are in different places, the one outside of communication. */
TEST(test_two)
{
	const struct stack_thread threads[] = {MAIN(0, burns, "T"), MAIN(1, reduces, "S")};
	char sentence[STACK_SENTENCE_BYTES];

	stack_sentence(threads, COUNT(threads), sentence);
	assert_non_null(
		strstr(sentence, "rank 0 is alone in burn (gpt.py:54) and is stopped; 1 other is in all_reduce"));
}

/* One that is elsewhere, while the others are together and outside of communication. */
TEST(test_alone_in_communication)
{
	const struct stack_thread threads[] = {MAIN(0, burns, "R"), MAIN(1, burns, "R"), MAIN(2, reduces, "S")};
	struct stack_groups groups;

	assert_true(stack_groups_new(threads, COUNT(threads), &groups));
	assert_true(groups.group[0].alone);
	stack_groups_free(&groups);
}

/* Nobody is alone where all are together, or each is elsewhere, or there is one rank. */
TEST(test_nobody)
{
	const struct stack_thread together[] = {MAIN(0, reduces, "S"), MAIN(1, reduces_too, "S")};
	const struct stack_thread elsewhere[] = {MAIN(0, burns, "R"), MAIN(1, polls, "S")};
	const struct stack_thread one[] = {MAIN(0, burns, "R")};
	const struct {
		const struct stack_thread *thread;
		size_t count;
	} cases[] = {{together, 2}, {elsewhere, 2}, {one, 1}, {one, 0}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char sentence[STACK_SENTENCE_BYTES];
		struct stack_groups groups;

		assert_true(stack_groups_new(cases[i].thread, cases[i].count, &groups));
		for (size_t j = 0; j < groups.groups; j++)
			assert_false(groups.group[j].alone);
		stack_groups_free(&groups);
		stack_sentence(cases[i].thread, cases[i].count, sentence);
		assert_null(strstr(sentence, "alone"));
	}
}

/* Ranks of another job are no company. */
TEST(test_jobs)
{
	struct stack_thread threads[] = {MAIN(0, reduces, "S"), MAIN(1, reduces, "S"), MAIN(0, burns, "R")};
	struct stack_groups groups;

	threads[2].job = "other";
	assert_true(stack_groups_new(threads, COUNT(threads), &groups));
	for (size_t i = 0; i < groups.groups; i++)
		assert_false(groups.group[i].alone);
	stack_groups_free(&groups);
}

TEST(test_text)
{
	static const struct stack_frame all[] = {
		{"interpreter", "_start", "/usr/bin/python3.11", 0, 0},
		PYTHON("Outer.<locals>.<lambda>", "/job (1)/a:b.py", 7),
		NATIVE("gloo::wait(int*, std::function<void (int)>)", "/usr/lib/libgloo.so"),
		{"native", "", "/usr/lib/libx.so", 0, 0x1f},
		{"kernel", "futex_do_wait", "", 0, 0},
	};
	static const struct stack_frame main_of[] = {NATIVE("_start", "/usr/bin/python3.12"),
		NATIVE("__libc_start_main", "/usr/lib/libc.so.6"), {"native", "", "/lib64/libc-2.17.so", 0, 0x1f},
		NATIVE("main", "/usr/bin/python3.12"), {"interpreter", "Py_RunMain", "/lib/libpython3.12.so", 0, 0},
		PYTHON("<module>", "/job/a.py", 1), NATIVE("poll", "/usr/lib/libc.so.6")};
	static const struct stack_frame waiting[] = {
		NATIVE("poll", "/usr/lib/libc.so.6"), {"kernel", "do_poll", "", 0, 0}};
	static const struct stack_frame begun[] = {
		NATIVE("clone3", "/usr/lib/libc.so.6"), {"interpreter", "thread_run", "/usr/bin/python3.11", 0, 0}};
	const struct stack_thread thread = {.frames = COUNT(all), .frame = all};
	struct stack_frame parsed[8];
	char text[1024], cut[40], place[STACK_PLACE_BYTES];

	stack_frames_text(&thread, text, sizeof(text));
	assert_string_equal(stack_frames_place(text, place), "Outer.<locals>.<lambda> (a:b.py:7)");
	assert_string_equal(stack_frames_place("", place), "an unknown place");
	assert_string_equal(text, "python Outer.<locals>.<lambda> (/job (1)/a:b.py:7)\n"
				  "native gloo::wait(int*, std::function<void (int)>) (/usr/lib/libgloo.so)\n"
				  "native /usr/lib/libx.so+0x1f\n"
				  "kernel futex_do_wait");
	assert_int_equal(stack_frames_parse(text, parsed, COUNT(parsed)), 4);
	assert_string_equal(parsed[0].function, "Outer.<locals>.<lambda>");
	assert_string_equal(parsed[0].file, "/job (1)/a:b.py");
	assert_int_equal(parsed[0].line, 7);
	assert_string_equal(parsed[1].function, "gloo::wait(int*, std::function<void (int)>)");
	assert_string_equal(parsed[1].file, "/usr/lib/libgloo.so");
	assert_int_equal(parsed[2].address, 0x1f);
	assert_string_equal(parsed[2].file, "/usr/lib/libx.so");
	assert_string_equal(parsed[3].function, "futex_do_wait");
	/* Nor the frames that start a program or a thread. */
	stack_frames_text(&(struct stack_thread){.frames = COUNT(main_of), .frame = main_of}, text, sizeof(text));
	assert_string_equal(text, "python <module> (/job/a.py:1)\nnative poll (/usr/lib/libc.so.6)");
	stack_frames_text(&(struct stack_thread){.frames = COUNT(waiting), .frame = waiting}, text, sizeof(text));
	assert_string_equal(text, "native poll (/usr/lib/libc.so.6)\nkernel do_poll");
	stack_frames_text(&(struct stack_thread){.frames = COUNT(begun), .frame = begun}, text, sizeof(text));
	assert_string_equal(text, "native clone3 (/usr/lib/libc.so.6)");
	/* Outer frames are left out of what is too short. */
	stack_frames_text(&thread, cut, sizeof(cut));
	assert_string_equal(cut, "kernel futex_do_wait");
}

TEST(test_names)
{
	static const struct {
		const char *function, *text;
	} cases[] = {
		{"std::vector<int, std::allocator<int> >::at(unsigned long)", "std::vector::at (x.so)"},
		{"(anonymous namespace)::f(int)", "(anonymous namespace)::f (x.so)"},
		{"a::(anonymous namespace)::f(int)", "a::(anonymous namespace)::f (x.so)"},
		{"T::operator()(int) const", "T::operator() (x.so)"},
		{"T::operator->() const", "T::operator-> (x.so)"},
		{"f()::{lambda(int)#1}::operator()(int) const", "f (x.so)"},
		{"f<(g)(1)>", "f (x.so)"},
		{"poll", "poll (x.so)"},
		{"f<unclosed", "f (x.so)"},
		{"operator", "operator (x.so)"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct stack_frame frame = NATIVE(cases[i].function, "/lib/x.so");
		char text[64];

		assert_string_equal(stack_frame_text(&frame, false, text, sizeof(text)), cases[i].text);
	}
}

/* What is no text of ours does no harm. */
TEST(test_parse_hostile)
{
	static const char *const texts[] = {"", "\n\n", " ", "python", "python ", "x (", "x )", "native (:)", "k +0x",
		"python f (:99999999999999999999)", "a b (c", "a ((((", "a b)"};
	struct stack_frame parsed[4];

	for (size_t i = 0; i < COUNT(texts); i++) {
		char text[64];
		size_t count;

		snprintf(text, sizeof(text), "%s", texts[i]);
		count = stack_frames_parse(text, parsed, COUNT(parsed));
		assert_true(count <= COUNT(parsed));
		for (size_t j = 0; j < count; j++)
			assert_true(parsed[j].kind && parsed[j].function && parsed[j].file);
	}
}

TEST_MAIN(NULL, NULL)
