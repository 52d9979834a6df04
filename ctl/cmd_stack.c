/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl stack: where every thread of every rank is; equal stacks once, the rank that is alone first. */
#include "analyzers/base/stack.h"
#include "ctl/client.h"
#include "ctl/out.h"

/* JSON. */

/* Frames of threads are numbers of those of their process. */
static json_t *stack_json(const Ranktrace__StackBody *body)
{
	json_t *all = out_message(body), *processes = json_object_get(all, "processes");

	for (size_t i = 0; i < body->n_processes; i++) {
		const Ranktrace__StackProcess *p = body->processes[i];
		json_t *threads = json_object_get(json_array_get(processes, i), "threads");

		for (size_t j = 0; j < p->n_threads; j++) {
			const Ranktrace__StackThread *t = p->threads[j];
			json_t *frames = json_array();

			for (size_t k = 0; k < t->n_frames; k++)
				if (t->frames[k] < p->n_frames)
					json_array_append_new(frames, out_message(p->frames[t->frames[k]]));
			json_object_set_new(json_array_get(threads, j), "frames", frames);
		}
	}
	return all;
}

/* The answer as what analyzers/base/stack.h compares. */

struct stack_view {
	struct stack_thread *thread;
	const Ranktrace__StackProcess **process; /* of each thread */
	const Ranktrace__StackThread **message;
	struct stack_frame *frame; /* of all */
	size_t count, frames;
};

static void *stack_array(size_t count, size_t size)
{
	void *array = calloc(count + 1, size);

	if (!array)
		exit(ctl_fail(EXIT_REFUSED, "out of memory"));
	return array;
}

static void stack_view_thread(struct stack_view *view, const Ranktrace__StackProcess *p,
	const Ranktrace__StackThread *t, const struct stack_frame *known)
{
	struct stack_thread *thread = &view->thread[view->count];
	struct stack_frame *frame = &view->frame[view->frames];

	*thread = (struct stack_thread){.rank = p->rank,
		.pid = p->pid,
		.thread_id = t->thread_id,
		.is_rank = strcmp(p->role, "rank") == 0,
		.main = t->main,
		.has_gil = t->has_gil,
		.job = p->job,
		.name = t->name,
		.state = t->state,
		.wait = t->wait,
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

	for (size_t i = 0; i < p->n_frames; i++) {
		const Ranktrace__StackFrame *f = p->frames[i];

		known[i] = (struct stack_frame){f->kind, f->function, f->file, f->line, f->address};
	}
	for (size_t i = 0; i < p->n_threads; i++)
		stack_view_thread(view, p, p->threads[i], known);
	free(known);
}

static void stack_view_make(const Ranktrace__StackBody *body, struct stack_view *ret)
{
	size_t threads = 0, frames = 0;

	for (size_t i = 0; i < body->n_processes; i++) {
		const Ranktrace__StackProcess *p = body->processes[i];

		threads += p->n_threads;
		for (size_t j = 0; j < p->n_threads; j++)
			frames += p->threads[j]->n_frames;
	}
	*ret = (struct stack_view){
		.thread = stack_array(threads, sizeof(*ret->thread)),
		.process = stack_array(threads, sizeof(*ret->process)),
		.message = stack_array(threads, sizeof(*ret->message)),
		.frame = stack_array(frames, sizeof(*ret->frame)),
	};
	for (size_t i = 0; i < body->n_processes; i++)
		stack_view_process(ret, body->processes[i]);
}

/* Ranks have the same numbers in each: then their job is named. */
static bool stack_view_has_jobs(const struct stack_view *view)
{
	for (size_t i = 1; i < view->count; i++)
		if (strcmp(view->thread[i].job, view->thread[0].job) != 0)
			return true;
	return false;
}

static void stack_view_free(struct stack_view *view)
{
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
	bool gil = false, jobs = stack_view_has_jobs(view) && first->job[0];
	char ranks[96], who[160], doing[256];

	for (size_t i = 0; i < group->count; i++)
		gil |= view->thread[groups->order[group->first + i]].has_gil;
	stack_ranks_text(view, groups, group, ranks, sizeof(ranks));
	if (group->count == 1)
		snprintf(who, sizeof(who), "%s%sthread %u (%s)", part, first->main ? "main " : "", first->thread_id,
			first->name);
	else
		snprintf(who, sizeof(who), "%s%zu %sthreads (%s%s)", part, group->count, first->main ? "main " : "",
			first->name, strcmp(first->name, last->name) == 0 ? "" : ", ...");
	out_below(0, "%srank%s %s%s%s%s%s: %s, %s%s", out_start(group->alone ? TERM_RED : TERM_PLAIN),
		first->rank == last->rank ? "" : "s", ranks, jobs ? " of " : "", jobs ? first->job : "",
		group->alone ? " is alone" : "", out_end(group->alone ? TERM_RED : TERM_PLAIN), who,
		stack_doing(first, doing, sizeof(doing)), gil ? ", holds the GIL" : "");
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
		const char *reason = *p->reason ? p->reason : p->python_reason;
		bool is_rank = strcmp(p->role, "rank") == 0;

		if (*reason && (*p->reason || is_rank))
			out_below(0, "rank %d, process %u%s: %s%s", p->rank, p->pid, is_rank ? "" : " (a child)",
				*p->reason ? "no stack: " : "no Python frames: ", reason);
		if (p->threads_left_out)
			out_below(0, "rank %d, process %u: %llu threads are left out", p->rank, p->pid,
				(unsigned long long)p->threads_left_out);
	}
	if (body->left_out)
		out_below(0, "%llu processes are left out: --rank chooses some", (unsigned long long)body->left_out);
}

/* One sentence a job, where it has several ranks. */
static void stack_print_sentences(const struct stack_view *view)
{
	char sentence[STACK_SENTENCE_BYTES];
	bool jobs = stack_view_has_jobs(view);
	size_t i = 0;

	while (i < view->count) {
		size_t first = i;
		bool several = false;

		for (; i < view->count && strcmp(view->thread[i].job, view->thread[first].job) == 0; i++)
			several |= view->thread[i].rank != view->thread[first].rank;
		stack_sentence(view->thread + first, i - first, sentence);
		if (several && *sentence)
			out_below(0, "%s%s%s%s\n", sentence, jobs ? " (job " : "", jobs ? view->thread[first].job : "",
				jobs ? ")" : "");
	}
}

static int stack_print(const Ranktrace__StackBody *body)
{
	struct stack_groups groups;
	struct stack_view view;

	stack_view_make(body, &view);
	if (!stack_groups_new(view.thread, view.count, &groups))
		return ctl_fail(EXIT_REFUSED, "out of memory");
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
	int code = client_get_of_ranks(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_STACK, RANKTRACE__RESPONSE__BODY_STACK, &ranks, &response);

	if (code == EXIT_DONE)
		code = command->json ? out_json(stack_json(response->stack)) : stack_print(response->stack);
	if (code == EXIT_DONE && stack_is_empty(response->stack))
		code = EXIT_REFUSED;
	client_free(response);
	return code;
}
