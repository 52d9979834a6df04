/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"

#define STACK_PLACE_FRAMES 256 /* the kernel's side reads 96: 64 of Python and 32 native ones */

static const char *stack_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

bool stack_frame_is_python(const struct stack_frame *frame)
{
	return strcmp(frame->kind, "python") == 0;
}

bool stack_frame_is_c_library(const struct stack_frame *frame)
{
	/* Of glibc before 2.34 two files, and links to them. */
	static const char *const names[] = {"libc.so.", "libc-2.", "libpthread.so.", "libpthread-2."};
	const char *file = stack_base_name(frame->file);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(file, names[i], strlen(names[i])) == 0)
			return strcmp(frame->kind, "native") == 0;
	return false;
}

bool stack_frame_shows(const struct stack_frame *frame)
{
	return strcmp(frame->kind, "interpreter") != 0 && strcmp(frame->kind, "kernel") != 0;
}

/* Behind the bracket that closes the one at p; the end where none does. */
static const char *stack_skip(const char *p, char open, char close)
{
	size_t depth = 0;

	for (; *p; p++) {
		depth += *p == open;
		/* No arrow. */
		if (*p == close && p[-1] != '-' && --depth == 0)
			return p + 1;
	}
	return p;
}

/* Length of an operator's sign. */
static size_t stack_operator(const char *sign)
{
	return strncmp(sign, "()", 2) == 0 ? 2 : strcspn(sign, "(");
}

/* A C++ function without parameters and template arguments: "c10d::Work::wait". */
static void stack_short_name(const char *function, char *ret, size_t size)
{
	static const char space[] = "(anonymous namespace)", operator_[] = "operator";
	size_t used = 0;

	for (const char *p = function; *p && used + 1 < size;) {
		size_t keep = 1;

		if (strncmp(p, space, sizeof(space) - 1) == 0)
			keep = sizeof(space) - 1;
		else if (strncmp(p, operator_, sizeof(operator_) - 1) == 0)
			keep = sizeof(operator_) - 1 + stack_operator(p + sizeof(operator_) - 1);
		else if (*p == '{')
			keep = (size_t)(stack_skip(p, '{', '}') - p);
		else if (*p == '<')
			keep = 0;
		else if (*p == '(')
			break;
		for (size_t i = 0; i < keep && *p && used + 1 < size; i++)
			ret[used++] = *p++;
		if (!keep)
			p = stack_skip(p, '<', '>');
	}
	ret[used] = 0;
}

const char *stack_frame_text(const struct stack_frame *frame, bool full, char *ret, size_t size)
{
	const char *file = full ? frame->file : stack_base_name(frame->file), *function = frame->function;
	char name[256];

	if (!full && !stack_frame_is_python(frame)) {
		stack_short_name(function, name, sizeof(name));
		function = name;
	}
	if (frame->line)
		snprintf(ret, size, "%s (%s:%" PRIu32 ")", function, file, frame->line);
	else if (*function && *file)
		snprintf(ret, size, "%s (%s)", function, file);
	else if (*function)
		snprintf(ret, size, "%s", function);
	else
		snprintf(ret, size, "%s+0x%" PRIx64, *file ? file : "?", frame->address);
	return ret;
}

bool stack_frame_is_library(const struct stack_frame *frame)
{
	return strstr(frame->file, "/site-packages/") || strstr(frame->file, "/dist-packages/") ||
	       strstr(frame->file, "/lib/python") || frame->file[0] == '<';
}

const char *stack_place(const struct stack_thread *thread, char ret[STACK_PLACE_BYTES])
{
	const struct stack_frame *inner = NULL, *own = NULL, *last = NULL;
	char text[STACK_PLACE_BYTES];
	struct text out;

	for (size_t i = thread->frames; i-- > 0 && !own;) {
		const struct stack_frame *frame = &thread->frame[i];

		if (!last && stack_frame_shows(frame) && *frame->function)
			last = frame;
		if (!stack_frame_is_python(frame))
			continue;
		if (!inner)
			inner = frame;
		if (!stack_frame_is_library(frame))
			own = frame;
	}
	text_begin(&out, ret, STACK_PLACE_BYTES);
	inner = inner ? inner : last;
	if (inner)
		text_name(&out, stack_frame_text(inner, false, text, sizeof(text)), 90);
	if (inner && own && own != inner) {
		text_add(&out, " from ");
		text_name(&out, stack_frame_text(own, false, text, sizeof(text)), 80);
	}
	if (!inner)
		text_add(&out, "an unknown place");
	text_end(&out);
	return ret;
}

const char *stack_doing(const struct stack_thread *thread, char *ret, size_t size)
{
	static const struct {
		char state;
		const char *words;
	} words[] = {{'R', "runs"}, {'T', "is stopped"}, {'t', "is stopped by a debugger"}, {'Z', "has ended"},
		{'X', "has ended"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].state == thread->state[0]) {
			snprintf(ret, size, "%s", words[i].words);
			return ret;
		}
	snprintf(ret, size, "waits%s%s%s", thread->state[0] == 'D' ? " uninterruptibly" : "", *thread->wait ? ": " : "",
		thread->wait);
	return ret;
}

bool stack_communicates(const struct stack_thread *thread)
{
	static const char *const functions[] = {"c10d::", "ProcessGroup", "gloo::", "nccl", "rccl", "Hccl", "hccl"};

	for (size_t i = 0; i < thread->frames; i++) {
		const struct stack_frame *frame = &thread->frame[i];

		if (stack_frame_is_python(frame) && strstr(frame->file, "/torch/distributed/"))
			return true;
		for (size_t j = 0; !stack_frame_is_python(frame) && j < sizeof(functions) / sizeof(functions[0]); j++)
			if (strstr(frame->function, functions[j]))
				return true;
	}
	return false;
}

bool stack_waits_for_lock(const struct stack_thread *thread)
{
	static const char lock[] = "futex wait on ";

	return strncmp(thread->wait, lock, sizeof(lock) - 1) == 0;
}

/* Order and groups. */

/* Main threads of ranks, then threads of Python, then others; ranks before their children. */
static unsigned stack_class(const struct stack_thread *thread)
{
	bool python = false;

	for (size_t i = 0; i < thread->frames && !python; i++)
		python = stack_frame_is_python(&thread->frame[i]);
	return (thread->main ? 0 : python ? 1 : 2) + (thread->is_rank ? 0 : 3);
}

static int stack_compare_frame(const struct stack_frame *a, const struct stack_frame *b)
{
	return strcmp(a->function, b->function) ?: strcmp(a->file, b->file) ?: strcmp(a->kind, b->kind) ?:
	       ORDER(a->line, b->line) ?: ORDER(a->address, b->address);
}

/* The next frame inwards that shows, from i on; frames where there is none. */
static size_t stack_next(const struct stack_thread *thread, size_t i)
{
	while (i < thread->frames && !stack_frame_shows(&thread->frame[i]))
		i++;
	return i;
}

static int stack_compare(const struct stack_thread *a, const struct stack_thread *b)
{
	unsigned class_a = stack_class(a), class_b = stack_class(b);
	size_t i = stack_next(a, 0), j = stack_next(b, 0);
	int r = ORDER(class_a, class_b) ?: strcmp(a->job, b->job);

	while (!r && i < a->frames && j < b->frames) {
		r = stack_compare_frame(&a->frame[i], &b->frame[j]);
		i = stack_next(a, i + 1);
		j = stack_next(b, j + 1);
	}
	return r ? r : (i < a->frames) - (j < b->frames);
}

static int stack_order(const void *a, const void *b, void *arg)
{
	const struct stack_thread *threads = arg, *x = &threads[*(const size_t *)a], *y = &threads[*(const size_t *)b];

	return stack_compare(x, y) ?: ORDER(x->rank, y->rank) ?: ORDER(x->thread_id, y->thread_id);
}

struct stack_ordering {
	const struct stack_thread *threads;
	const size_t *order;
};

static int stack_order_groups(const void *a, const void *b, void *arg)
{
	const struct stack_ordering *all = arg;
	const struct stack_group *x = a, *y = b;
	const struct stack_thread *first_x = &all->threads[all->order[x->first]],
				  *first_y = &all->threads[all->order[y->first]];
	unsigned class_x = stack_class(first_x), class_y = stack_class(first_y);

	return ORDER(class_x, class_y) ?: ORDER(y->alone, x->alone) ?: ORDER(x->count, y->count) ?: ORDER(x->first, y->first);
}

static bool stack_is_main(const struct stack_thread *thread)
{
	return thread->main && thread->is_rank;
}

/*
 * The lone rank of a job: the only one outside of communication while all others are in it, or the only group of one
 * while others are together.
 */
static void stack_find_alone(const struct stack_thread *threads, struct stack_groups *groups, const char *job)
{
	size_t ones = 0, outside = 0, mains = 0, most = 0;
	struct stack_group *one = NULL, *out = NULL;

	for (size_t i = 0; i < groups->groups; i++) {
		struct stack_group *group = &groups->group[i];
		const struct stack_thread *first = &threads[groups->order[group->first]];

		if (!stack_is_main(first) || strcmp(first->job, job) != 0)
			continue;
		mains += group->count;
		most = group->count > most ? group->count : most;
		if (group->count == 1) {
			ones++;
			one = group;
		}
		if (!stack_communicates(first)) {
			outside += group->count;
			out = group;
		}
	}
	if (mains < 2)
		return;
	if (outside == 1)
		out->alone = true;
	else if (ones == 1 && most > 1)
		one->alone = true;
}

bool stack_groups_new(const struct stack_thread *threads, size_t count, struct stack_groups *ret)
{
	struct stack_groups groups = {.threads = count};

	groups.order = calloc(count + 1, sizeof(*groups.order));
	groups.group = calloc(count + 1, sizeof(*groups.group));
	if (!groups.order || !groups.group) {
		stack_groups_free(&groups);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		groups.order[i] = i;
	qsort_r(groups.order, count, sizeof(*groups.order), stack_order, (void *)threads);
	for (size_t i = 0; i < count; i++) {
		bool same = i > 0 && stack_compare(&threads[groups.order[i - 1]], &threads[groups.order[i]]) == 0;

		if (same)
			groups.group[groups.groups - 1].count++;
		else
			groups.group[groups.groups++] = (struct stack_group){.first = i, .count = 1};
	}
	for (size_t i = 0; i < groups.groups; i++) {
		const struct stack_thread *first = &threads[groups.order[groups.group[i].first]];
		const struct stack_thread *before = i ? &threads[groups.order[groups.group[i - 1].first]] : NULL;

		if (stack_is_main(first) && (!before || strcmp(before->job, first->job) != 0))
			stack_find_alone(threads, &groups, first->job);
	}
	qsort_r(groups.group, groups.groups, sizeof(*groups.group), stack_order_groups,
		&(struct stack_ordering){threads, groups.order});
	*ret = groups;
	return true;
}

void stack_groups_free(struct stack_groups *groups)
{
	free(groups->order);
	free(groups->group);
	*groups = (struct stack_groups){0};
}

/* "rank 3", "ranks 0, 2", "3 others". */
static void stack_add_who(struct text *out, const struct stack_thread *threads, const struct stack_groups *groups,
	const struct stack_group *group)
{
	if (group->count > 4) {
		text_add(out, "%zu ranks", group->count);
		return;
	}
	text_add(out, "rank%s", group->count > 1 ? "s" : "");
	for (size_t i = 0; i < group->count; i++)
		text_add(out, "%s %" PRId32, i ? "," : "", threads[groups->order[group->first + i]].rank);
}

static void stack_add_group(struct text *out, const struct stack_thread *threads, const struct stack_groups *groups,
	const struct stack_group *group, bool others)
{
	const struct stack_thread *first = &threads[groups->order[group->first]];
	char place[STACK_PLACE_BYTES], doing[96];

	if (others)
		text_add(out, "%zu other%s", group->count, group->count > 1 ? "s" : "");
	else
		stack_add_who(out, threads, groups, group);
	text_add(out, " %s%s %s", group->count > 1 ? "are" : "is", group->alone ? " alone in" : " in",
		stack_place(first, place));
	if (group->alone)
		text_add(out, " and %s", stack_doing(first, doing, sizeof(doing)));
}

void stack_sentence(const struct stack_thread *threads, size_t count, char ret[STACK_SENTENCE_BYTES])
{
	struct stack_groups groups;
	size_t shown = 0, mains = 0, left = 0;
	bool alone = false;
	struct text out;

	ret[0] = 0;
	if (!stack_groups_new(threads, count, &groups))
		return;
	while (mains < groups.groups && stack_is_main(&threads[groups.order[groups.group[mains].first]]))
		mains++;
	text_begin(&out, ret, STACK_SENTENCE_BYTES);
	for (size_t i = 0; i < mains; i++) {
		/* The lone one, then the largest first. */
		const struct stack_group *group =
			&groups.group[groups.group[0].alone ? (i ? mains - i : 0) : mains - 1 - i];

		if (shown == 3) {
			left += group->count;
			continue;
		}
		text_add(&out, "%s", shown++ ? "; " : "");
		stack_add_group(&out, threads, &groups, group, alone && mains == 2);
		alone |= group->alone;
	}
	if (left)
		text_add(&out, "; %zu more elsewhere", left);
	text_end(&out);
	stack_groups_free(&groups);
}

/* The text of the store. */

static bool stack_frame_is_named(const struct stack_thread *thread, size_t i, const char *function)
{
	return i < thread->frames && !stack_frame_is_python(&thread->frame[i]) &&
	       strcmp(thread->frame[i].function, function) == 0;
}

/* How many of the outermost frames only start the program or the thread, so far as others are left to show. */
static size_t stack_frames_start(const struct stack_thread *thread)
{
	size_t start = stack_frame_is_named(thread, 0, "_start"), i;

	while (start < thread->frames && stack_frame_is_c_library(&thread->frame[start]))
		start++;
	start += start > 0 && stack_frame_is_named(thread, start, "main");
	for (i = start; i < thread->frames && !stack_frame_shows(&thread->frame[i]); i++)
		;
	return i < thread->frames ? start : 0;
}

void stack_frames_text(const struct stack_thread *thread, char *ret, size_t size)
{
	size_t used = 0, first = thread->frames, start = stack_frames_start(thread);
	char text[1400];

	ret[0] = 0;
	/* Inwards as many as fit. */
	while (first > start) {
		const struct stack_frame *frame = &thread->frame[first - 1];

		if (strcmp(frame->kind, "interpreter") != 0)
			used += strlen(frame->kind) + strlen(stack_frame_text(frame, true, text, sizeof(text))) + 2;
		if (used >= size)
			break;
		first--;
	}
	used = 0;
	for (size_t i = first; i < thread->frames; i++) {
		const struct stack_frame *frame = &thread->frame[i];

		if (strcmp(frame->kind, "interpreter") != 0)
			used += (size_t)snprintf(ret + used, size - used, "%s%s %s", used ? "\n" : "", frame->kind,
				stack_frame_text(frame, true, text, sizeof(text)));
	}
}

/* The bracket before the file. Paths may hold " (", too, and so may native functions; Python's functions do not. */
static char *stack_parse_bracket(char *text, bool python)
{
	char *found = NULL;

	for (char *at = text; *at && !(python && found); at++)
		if (at[0] == ' ' && at[1] == '(')
			found = at;
	return found;
}

/* Splits "burn (/job/gpt.py:54)", "epoll_wait (/lib/libc.so.6)" or "/lib/libx.so+0x1f". */
static void stack_parse_place(char *text, struct stack_frame *ret)
{
	char *open = stack_parse_bracket(text, strcmp(ret->kind, "python") == 0), *colon, *plus;
	size_t length = strlen(text);

	if (open && text[length - 1] == ')') {
		text[length - 1] = 0;
		*open = 0;
		ret->function = text;
		ret->file = open + 2;
		colon = strrchr(open + 2, ':');
		if (colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")]) {
			*colon = 0;
			ret->line = (uint32_t)strtoul(colon + 1, NULL, 10);
		}
		return;
	}
	plus = strstr(text, "+0x");
	if (plus) {
		ret->address = strtoull(plus + 1, NULL, 16);
		*plus = 0;
		ret->file = text;
		return;
	}
	ret->function = text;
}

size_t stack_frames_parse(char *text, struct stack_frame *ret, size_t max)
{
	size_t count = 0;

	while (text && *text && count < max) {
		char *next = strchr(text, '\n'), *blank;

		if (next)
			*next++ = 0;
		blank = strchr(text, ' ');
		if (blank) {
			*blank = 0;
			ret[count] = (struct stack_frame){.kind = text, .function = "", .file = ""};
			stack_parse_place(blank + 1, &ret[count++]);
		}
		text = next;
	}
	return count;
}

const char *stack_frames_place(const char *text, char ret[STACK_PLACE_BYTES])
{
	struct stack_frame *frame = calloc(STACK_PLACE_FRAMES, sizeof(*frame));
	char *copy = strdup(text);
	struct stack_thread thread = {.frame = frame};

	if (frame && copy)
		thread.frames = stack_frames_parse(copy, frame, STACK_PLACE_FRAMES);
	stack_place(&thread, ret);
	free(frame);
	free(copy);
	return ret;
}
