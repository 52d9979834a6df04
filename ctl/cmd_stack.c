/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl stack: where every thread of every rank is; equal stacks once, the rank that is alone first. */
#include "analyzers/base/stack.h"
#include "ctl/client.h"
#include "ctl/out.h"

/* JSON. */

static json_t *stack_frame_json(const Ranktrace__StackFrame *f)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "kind", out_json_text(f->kind), "function",
		out_json_optional(f->function), "file", out_json_optional(f->file), "line",
		f->line ? json_integer(f->line) : json_null(), "address",
		f->address ? out_json_u64(f->address) : json_null());
}

static json_t *stack_thread_json(const Ranktrace__StackProcess *p, const Ranktrace__StackThread *t)
{
	json_t *frames = json_array();

	for (size_t i = 0; i < t->n_frames; i++)
		if (t->frames[i] < p->n_frames)
			json_array_append_new(frames, stack_frame_json(p->frames[t->frames[i]]));
	return json_pack("{s:I, s:o, s:b, s:o, s:o, s:b, s:o, s:o, s:I, s:o}", "thread_id", (json_int_t)t->thread_id,
		"name", out_json_text(t->name), "main", (int)t->main, "state", out_json_text(t->state), "wait",
		out_json_optional(t->wait), "has_gil", (int)t->has_gil, "native_reason",
		out_json_optional(t->native_reason), "python_reason", out_json_optional(t->python_reason), "omitted",
		(json_int_t)t->omitted, "frames", frames);
}

static json_t *stack_process_json(const Ranktrace__StackProcess *p)
{
	json_t *threads = json_array();

	for (size_t i = 0; i < p->n_threads; i++)
		json_array_append_new(threads, stack_thread_json(p, p->threads[i]));
	return json_pack("{s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:I}", "rank", (int)p->rank, "job",
		out_json_optional(p->job), "pid", (json_int_t)p->pid, "role", out_json_text(p->role), "parent_pid",
		p->parent_pid ? json_integer(p->parent_pid) : json_null(), "command", out_json_text(p->command),
		"python", out_json_optional(p->python), "python_reason", out_json_optional(p->python_reason), "reason",
		out_json_optional(p->reason), "took_ns", (json_int_t)p->took_ns, "threads", threads, "threads_left_out",
		(json_int_t)p->threads_left_out);
}

/* The answer as what analyzers/base/stack.h compares. */

struct stack_view {
	struct stack_thread *thread;
	const Ranktrace__StackProcess **process; /* of each thread */
	const Ranktrace__StackThread **message;
	struct stack_frame *frame; /* of all */
	size_t count;
	char **clean; /* texts, for free() */
	size_t cleans, frames;
};

static const char *stack_clean(struct stack_view *view, const char *text)
{
	char *copy = out_clean(text);

	for (char *p = copy; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	view->clean[view->cleans++] = copy;
	return copy;
}

static void *stack_array(size_t count, size_t size)
{
	void *array = calloc(count + 1, size);

	if (!array)
		exit(fail(EXIT_REFUSED, "out of memory"));
	return array;
}

static void stack_view_thread(struct stack_view *view, const Ranktrace__StackProcess *p, const Ranktrace__StackThread *t,
	const struct stack_frame *known, const char *job)
{
	struct stack_thread *thread = &view->thread[view->count];
	struct stack_frame *frame = &view->frame[view->frames];

	*thread = (struct stack_thread){.rank = p->rank,
		.pid = p->pid,
		.thread_id = t->thread_id,
		.is_rank = strcmp(p->role, "rank") == 0,
		.main = t->main,
		.has_gil = t->has_gil,
		.job = job,
		.name = stack_clean(view, t->name),
		.state = stack_clean(view, t->state),
		.wait = stack_clean(view, t->wait),
		.frame = frame};
	for (size_t i = 0; i < t->n_frames; i++)
		if (t->frames[i] < p->n_frames)
			frame[thread->frames++] = known[t->frames[i]];
	view->frames += thread->frames;
	view->process[view->count] = p;
	view->message[view->count++] = t;
}

static void stack_view_process(struct stack_view *view, const Ranktrace__StackProcess *p)
{
	struct stack_frame *known = stack_array(p->n_frames, sizeof(*known));
	const char *job = stack_clean(view, p->job);

	for (size_t i = 0; i < p->n_frames; i++) {
		const Ranktrace__StackFrame *f = p->frames[i];

		known[i] = (struct stack_frame){stack_clean(view, f->kind), stack_clean(view, f->function),
			stack_clean(view, f->file), f->line, f->address};
	}
	for (size_t i = 0; i < p->n_threads; i++)
		stack_view_thread(view, p, p->threads[i], known, job);
	free(known);
}

static void stack_view_make(const Ranktrace__StackBody *body, struct stack_view *ret)
{
	size_t threads = 0, frames = 0, texts = 0;

	for (size_t i = 0; i < body->n_processes; i++) {
		const Ranktrace__StackProcess *p = body->processes[i];

		threads += p->n_threads;
		texts += 1 + 3 * p->n_frames + 3 * p->n_threads;
		for (size_t j = 0; j < p->n_threads; j++)
			frames += p->threads[j]->n_frames;
	}
	*ret = (struct stack_view){
		.thread = stack_array(threads, sizeof(*ret->thread)),
		.process = stack_array(threads, sizeof(*ret->process)),
		.message = stack_array(threads, sizeof(*ret->message)),
		.frame = stack_array(frames, sizeof(*ret->frame)),
		.clean = stack_array(texts, sizeof(*ret->clean)),
	};
	for (size_t i = 0; i < body->n_processes; i++)
		stack_view_process(ret, body->processes[i]);
}

static void stack_view_free(struct stack_view *view)
{
	for (size_t i = 0; i < view->cleans; i++)
		free(view->clean[i]);
	free(view->clean);
	free(view->thread);
	free(view->process);
	free(view->message);
	free(view->frame);
}

/* Text. */

/* "0,2-5" of the ranks of a group, which ascend. */
static void stack_ranks_text(const struct stack_view *view, const struct stack_groups *groups,
	const struct stack_group *group, char *ret, size_t size)
{
	size_t used = 0, i = 0;

	ret[0] = 0;
	while (i < group->count && used + 32 < size) {
		int32_t first = view->thread[groups->order[group->first + i]].rank, last = first;

		for (; i < group->count; i++) {
			int32_t next = view->thread[groups->order[group->first + i]].rank;

			if (next != last && next != last + 1)
				break;
			last = next;
		}
		used += (size_t)snprintf(ret + used, size - used, "%s%d", used ? "," : "", first);
		if (last > first)
			used += (size_t)snprintf(ret + used, size - used, "-%d", last);
	}
	if (i < group->count)
		snprintf(ret + used, size - used, ",...");
}

/* "rank 1 is alone: main thread 4711, runs, holds the GIL"; "ranks 0,2-3: main threads, ..." */
static void stack_print_head(
	const struct stack_view *view, const struct stack_groups *groups, const struct stack_group *group)
{
	const struct stack_thread *first = &view->thread[groups->order[group->first]];
	const struct stack_thread *last = &view->thread[groups->order[group->first + group->count - 1]];
	const char *part = first->is_rank ? "" : first->main ? "child, " : "thread of a child, ";
	char ranks[96], who[160], doing[256];
	bool gil = false;

	for (size_t i = 0; i < group->count; i++)
		gil |= view->thread[groups->order[group->first + i]].has_gil;
	stack_ranks_text(view, groups, group, ranks, sizeof(ranks));
	if (group->count == 1)
		snprintf(who, sizeof(who), "%s%sthread %u (%s)", part, first->main ? "main " : "", first->thread_id, first->name);
	else
		snprintf(who, sizeof(who), "%s%zu %sthreads (%s%s)", part, group->count, first->main ? "main " : "",
			first->name, strcmp(first->name, last->name) == 0 ? "" : ", ...");
	out_below(0, "%srank%s %s%s%s: %s, %s%s", out_start(group->alone ? TERM_RED : TERM_PLAIN),
		first->rank == last->rank ? "" : "s", ranks, group->alone ? " is alone" : "",
		out_end(group->alone ? TERM_RED : TERM_PLAIN), who, stack_doing(first, doing, sizeof(doing)),
		gil ? ", holds the GIL" : "");
}

static void stack_print_frames(const struct stack_thread *thread, const Ranktrace__StackThread *message)
{
	char text[1400];

	if (message->omitted)
		printf("    (%llu outer Python frames are left out)\n", (unsigned long long)message->omitted);
	for (size_t i = 0; i < thread->frames; i++) {
		const struct stack_frame *frame = &thread->frame[i];
		bool python = strcmp(frame->kind, "python") == 0;
		enum term_colour colour = python ? TERM_PLAIN : TERM_FAINT;

		if (stack_frame_shows(frame))
			out_below(4, "%s%s%s", out_start(colour), stack_frame_text(frame, python, text, sizeof(text)),
				out_end(colour));
	}
	if (*message->python_reason)
		out_below(4, "(no Python frames: %s)", message->python_reason);
	/* Where Python's frames are known, missing native ones around them are of little use. */
	if (*message->native_reason && !thread->frames)
		out_below(4, "(no frames: %s)", message->native_reason);
}

static void stack_print_reasons(const Ranktrace__StackBody *body)
{
	for (size_t i = 0; i < body->n_processes; i++) {
		const Ranktrace__StackProcess *p = body->processes[i];
		const char *what = *p->reason ? p->reason : p->python_reason;
		char *text = out_clean(what), *role = out_clean(p->role);

		if (*text && (*p->reason || strcmp(role, "rank") == 0))
			out_below(0, "rank %d, process %u%s: %s%s", p->rank, p->pid, strcmp(role, "rank") == 0 ? "" : " (a child)",
				*p->reason ? "no stack: " : "no Python frames: ", text);
		if (p->threads_left_out)
			out_below(0, "rank %d, process %u: %llu threads are left out", p->rank, p->pid,
				(unsigned long long)p->threads_left_out);
		free(text);
		free(role);
	}
	if (body->left_out)
		out_below(0, "%llu processes are left out: --rank chooses some", (unsigned long long)body->left_out);
}

/* One sentence a job, where it has several ranks. */
static void stack_print_sentences(const struct stack_view *view)
{
	char sentence[STACK_SENTENCE_BYTES];
	size_t i = 0;

	while (i < view->count) {
		size_t first = i;
		bool several = false;

		for (; i < view->count && strcmp(view->thread[i].job, view->thread[first].job) == 0; i++)
			several |= view->thread[i].rank != view->thread[first].rank;
		stack_sentence(view->thread + first, i - first, sentence);
		if (several && *sentence)
			out_below(0, "%s\n", sentence);
	}
}

static int stack_print(const Ranktrace__StackBody *body)
{
	struct stack_groups groups;
	struct stack_view view;

	stack_view_make(body, &view);
	if (!stack_groups_new(view.thread, view.count, &groups))
		return fail(EXIT_REFUSED, "out of memory");
	stack_print_sentences(&view);
	for (size_t i = 0; i < groups.groups; i++) {
		size_t first = groups.order[groups.group[i].first];

		if (i)
			putchar('\n');
		stack_print_head(&view, &groups, &groups.group[i]);
		stack_print_frames(&view.thread[first], view.message[first]);
	}
	if (groups.groups)
		puts("\nThe innermost frame is the last one.");
	stack_print_reasons(body);
	stack_groups_free(&groups);
	stack_view_free(&view);
	return EXIT_DONE;
}

/* Some rank was asked for, and of none there is a thread. */
static bool stack_is_empty(const Ranktrace__StackBody *body)
{
	for (size_t i = 0; i < body->n_processes; i++)
		if (body->processes[i]->n_threads)
			return false;
	return true;
}

int cmd_stack(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = client_get_of_ranks(command, RANKTRACE__REQUEST_TYPE__REQUEST_STACK, RANKTRACE__RESPONSE__BODY_STACK,
		&ranks, &response);

	if (code == EXIT_DONE && command->json) {
		json_t *processes = json_array();

		for (size_t i = 0; i < response->stack->n_processes; i++)
			json_array_append_new(processes, stack_process_json(response->stack->processes[i]));
		code = out_json(json_pack("{s:o, s:I}", "processes", processes, "left_out",
			(json_int_t)response->stack->left_out));
	} else if (code == EXIT_DONE) {
		code = stack_print(response->stack);
	}
	if (code == EXIT_DONE && stack_is_empty(response->stack))
		code = EXIT_REFUSED;
	client_free(response);
	return code;
}
