/* SPDX-License-Identifier: Apache-2.0 */
/* A profiled rank: its stacks, their names by the worker `stack`, and the rows of its samples. */
#include <errno.h>
#include <signal.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/base/stack.h"
#include "analyzers/profile/profile.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/store/store.h"
#include "daemon/worker/worker.h"

#define NAME_INTERVAL_NS (250 * NSEC_PER_MSEC) /* the first; most stacks are new then, and code of `exec` still lives */
#define NAME_INTERVAL_MAX_NS (4 * NSEC_PER_SEC)
#define BUCKETS 1024u

/* A layout takes 10 ms; names of 256 stacks 100 ms, the symbols of libtorch from disk seconds. */
static const struct worker_kind profile_worker = {
	.name = "profile",
	.program = "worker/stack",
	.processes_max = 2,
	.memory_bytes_max = 2ULL << 30,
	.cpu_s_max = 10,
	.wall_ns_max = 10 * NSEC_PER_SEC,
	.reply_bytes_max = REPLY_STACKS_MAX * (REPLY_STACK_BYTES_MAX + sizeof(struct reply_stack)),
};

enum profile_stack_state { STACK_WAITS, STACK_NAMED, STACK_REFUSED };

struct profile_stack {
	struct hash_node node;	/* by the kernel's hash */
	struct hash_node named; /* by id, if its text is the first of this id: stacks may differ in instructions only */
	struct list_link link;	/* in waiting or asking */
	enum profile_stack_state state;
	int64_t id;
	struct rt_profile_stack_event *event; /* NULL once named */
	char *place;			      /* NULL: none, or not kept */
};

/* A code object as the kernel found it. */
struct profile_code {
	struct hash_node node;
	struct list_link link;
	uint64_t asked;			    /* number of the newest request that has it */
	struct rt_profile_code_event event; /* last: as much as it has */
};

/* A sample whose stack has no name yet. */
struct profile_held {
	struct list_link link;
	const struct profile_stack *stack;
	struct rt_profile_sample_event event;
};

static void profile_rank_put(
	struct profile_rank *profile, const struct rt_profile_sample_event *sample, const struct profile_stack *stack)
{
	struct store *store = profile->context->store;
	bool named = stack && stack->state == STACK_NAMED;
	char name[RT_COMM_SIZE];

	copy_text(name, sizeof(name), sample->thread_name);
	store_put_samples(store,
		&(struct row_samples){
			.start_ns = field_time(store_utc_ns(store, sample->start_ns)),
			.rank = field_int(profile->rank),
			.profile = field_int(profile->profile),
			.thread_id = field_int(sample->event.thread_id),
			.thread_name = field_text(name),
			.main = field_int(sample->event.thread_id == profile->asked.pid),
			.kind = field_text(sample->event.flags & RT_PROFILE_OFF_CPU ? "off_cpu" : "on_cpu"),
			.duration_ns = field_duration_if(sample->event.flags & RT_PROFILE_OFF_CPU, sample->duration_ns),
			.weight_ns = field_duration(sample->weight_ns),
			.stack = field_int_if(named, named ? stack->id : 0),
			.instance = field_int(profile->instance),
		});
	profile->rows++;
	profile->refused += !named;
}

static struct profile_stack *profile_rank_find(const struct profile_rank *profile, uint64_t hash)
{
	struct hash_node *node = hash_table_find(&profile->stacks, hash);

	return node ? CONTAINER_OF(node, struct profile_stack, node) : NULL;
}

bool profile_rank_id(const struct profile_rank *profile, uint64_t hash, int64_t *ret)
{
	const struct profile_stack *stack = profile_rank_find(profile, hash);

	if (!stack || stack->state != STACK_NAMED)
		return false;
	*ret = stack->id;
	return true;
}

bool profile_rank_waits(const struct profile_rank *profile, uint64_t hash)
{
	const struct profile_stack *stack = profile_rank_find(profile, hash);

	return stack && stack->state == STACK_WAITS;
}

const char *profile_rank_place(const struct profile_rank *profile, uint64_t hash)
{
	const struct profile_stack *stack = profile_rank_find(profile, hash);

	return stack && stack->place ? stack->place : "";
}

static void profile_rank_keep_place(struct profile_rank *profile, struct profile_stack *stack, const char *frames)
{
	char place[STACK_PLACE_BYTES];

	stack->place = strdup(stack_frames_place(frames, place));
	if (stack->place)
		profile->stack_bytes += strlen(stack->place) + 1;
}

/* What an evicted entry of the kernel's map sends again is known. Beyond the bounds it is not kept: its samples are
 * lost. */
void profile_rank_stack(struct profile_rank *profile, const struct rt_profile_stack_event *event)
{
	struct profile_stack *stack;

	if (profile_rank_find(profile, event->stack) || profile->stack_count >= LIMIT_PROFILE_STACKS ||
		profile->waiting_count >= LIMIT_PROFILE_STACKS_WAITING)
		return;
	stack = calloc(1, sizeof(*stack));
	if (stack)
		stack->event = malloc(event->event.size_bytes);
	if (!stack || !stack->event) {
		free(stack);
		return;
	}
	memcpy(stack->event, event, event->event.size_bytes);
	hash_table_put(&profile->stacks, &stack->node, event->stack);
	list_add_tail(&profile->waiting, &stack->link);
	profile->stack_count++;
	profile->stack_bytes += sizeof(*stack) + event->event.size_bytes;
	profile->waiting_count++;
}

/* Lets the oldest go until so many bytes are left. */
static void profile_rank_drop_codes(struct profile_rank *profile, size_t bytes)
{
	while (profile->code_bytes > bytes) {
		struct profile_code *code = CONTAINER_OF(profile->code_order.next, struct profile_code, link);

		profile->code_bytes -= code->event.event.size_bytes;
		list_unlink(&code->node.link);
		list_unlink(&code->link);
		free(code);
	}
}

static struct profile_code *profile_rank_find_code(const struct profile_rank *profile, uint64_t address, uint32_t print)
{
	LIST_EACH (link, hash_table_bucket(&profile->codes, address)) {
		struct profile_code *code = CONTAINER_OF(link, struct profile_code, node.link);

		if (code->event.address[0] == address && code->event.print == print)
			return code;
	}
	return NULL;
}

void profile_rank_code(struct profile_rank *profile, const struct rt_profile_code_event *event)
{
	struct profile_code *code;

	if (profile_rank_find_code(profile, event->address[0], event->print))
		return;
	profile_rank_drop_codes(profile, LIMIT_PROFILE_CODES_KIB * 1024 - event->event.size_bytes);
	code = calloc(1, offsetof(struct profile_code, event) + event->event.size_bytes);
	if (!code)
		return;
	memcpy(&code->event, event, event->event.size_bytes);
	hash_table_put(&profile->codes, &code->node, event->address[0]);
	list_add_tail(&profile->code_order, &code->link);
	profile->code_bytes += event->event.size_bytes;
}

void profile_rank_sample(struct profile_rank *profile, const struct rt_profile_sample_event *sample)
{
	struct profile_stack *stack = sample->stack ? profile_rank_find(profile, sample->stack) : NULL;
	struct profile_held *held;

	if (!sample->stack || (stack && stack->state != STACK_WAITS)) {
		profile_rank_put(profile, sample, stack);
		return;
	}
	held = stack && profile->held_count < LIMIT_PROFILE_SAMPLES ? malloc(sizeof(*held)) : NULL;
	if (!held) {
		profile->lost++;
		return;
	}
	*held = (struct profile_held){.stack = stack, .event = *sample};
	list_add_tail(&profile->held, &held->link);
	profile->held_count++;
}

/* Rows of the samples whose stacks have an answer. */
static void profile_rank_release(struct profile_rank *profile)
{
	LIST_EACH (link, &profile->held) {
		struct profile_held *held = CONTAINER_OF(link, struct profile_held, link);

		if (held->stack->state == STACK_WAITS)
			continue;
		profile_rank_put(profile, &held->event, held->stack);
		list_unlink(&held->link);
		profile->held_count--;
		free(held);
	}
}

static void profile_rank_answer(
	struct profile_rank *profile, struct profile_stack *stack, const char *frames, bool native_cut)
{
	uint8_t cut =
		(stack->event->state & RT_PROFILE_CUT ? PROFILE_CUT_PYTHON : 0) | (native_cut ? PROFILE_CUT_NATIVE : 0);

	stack->state = frames && *frames ? STACK_NAMED : STACK_REFUSED;
	if (stack->state == STACK_NAMED) {
		stack->id = (int64_t)fnv1a_bytes(fnv1a_bytes(FNV1A_START, frames, strlen(frames)), &cut, sizeof(cut));
	}
	if (stack->state == STACK_NAMED && !hash_table_find(&profile->named, (uint64_t)stack->id)) {
		hash_table_put(&profile->named, &stack->named, (uint64_t)stack->id);
		store_put_call_stacks(profile->context->store,
			&(struct row_call_stacks){
				.id = field_int(stack->id), .frames = field_text(frames), .cut = field_int(cut)});
	}
	if (profile->keeps_places && stack->state == STACK_NAMED)
		profile_rank_keep_place(profile, stack, frames);
	if (profile->on_named && stack->state == STACK_NAMED)
		profile->on_named(profile->on_named_arg, stack->event->stack, frames);
	list_unlink(&stack->link);
	profile->stack_bytes -= stack->event->event.size_bytes;
	free(stack->event);
	stack->event = NULL;
	profile->waiting_count--;
}

static void profile_rank_refuse_all(struct profile_rank *profile, struct list_link *stacks)
{
	LIST_EACH (link, stacks)
		profile_rank_answer(profile, CONTAINER_OF(link, struct profile_stack, link), NULL, false);
}

/* The process has ended before its worker could read it: what is asked for is named from recorded code objects, with
 * the layout that is known. */
static bool profile_rank_outlives(struct profile_rank *profile, const struct worker_reply *reply)
{
	if (reply->end == WORKER_ANSWERED || profile->asked_recorded || !profile->laid_out ||
		(!profile->recorded && (kill((pid_t)profile->asked.pid, 0) == 0 || errno != ESRCH)))
		return false;
	profile->recorded = true;
	LIST_EACH (link, &profile->asking) {
		list_unlink(link);
		list_add_tail(&profile->waiting, link);
	}
	return true;
}

static void profile_rank_on_names(void *arg, struct worker_reply *reply)
{
	struct profile_rank *profile = arg;
	const uint8_t *data = reply->data;
	size_t size_bytes = reply->size_bytes;
	struct reply_stack head;
	char *text;

	profile->request = 0;
	if (profile_rank_outlives(profile, reply))
		return;
	while (reply->end == WORKER_ANSWERED && reply_next_stack(&data, &size_bytes, &head, &text) > 0) {
		struct profile_stack *stack = profile_rank_find(profile, head.stack);

		/* Of those that were asked for, in their order. */
		if (stack && stack->state == STACK_WAITS && profile->asking.next == &stack->link)
			profile_rank_answer(profile, stack, text, head.flags & REPLY_STACK_NATIVE_CUT);
		free(text);
	}
	if (reply->end != WORKER_ANSWERED && !profile->recorded) /* it is gone meanwhile */
		log_warning("profiles", "rank %d: the worker that names its stacks %s; they are refused", profile->rank,
			worker_end_words(reply->end));
	profile_rank_refuse_all(profile, &profile->asking);
	profile_rank_release(profile);
}

/* Bytes of the codes of this stack that are not in the request yet; with `to`, which has place for them, they are put
 * in. */
static size_t profile_rank_pack_codes(
	struct profile_rank *profile, const struct rt_profile_stack_event *event, uint64_t number, uint8_t *to)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < event->frames; i++) {
		struct profile_code *code =
			profile_rank_find_code(profile, event->frame[i].code, event->frame[i].print);

		if (!code || code->asked == number)
			continue;
		code->asked = number;
		if (to)
			memcpy(to + bytes, &code->event, code->event.event.size_bytes);
		bytes += code->event.event.size_bytes;
	}
	return bytes;
}

/* The request into memory of its own; stacks go from `waiting` to `asking`. *ret_size 0: none is wanted. */
static uint8_t *profile_rank_pack(struct profile_rank *profile, size_t *ret_size)
{
	struct reply_request head = {.what = profile->recorded ? REPLY_ENDED : REPLY_NAMES};
	const void *process = profile->recorded ? (const void *)&profile->layout : &profile->asked;
	size_t process_bytes = profile->recorded ? sizeof(profile->layout) : sizeof(profile->asked);
	size_t size = sizeof(head) + process_bytes;
	uint64_t first = ++profile->request_number, second = ++profile->request_number;
	uint8_t *data;

	*ret_size = 0;
	profile->asked_recorded = profile->recorded;
	LIST_EACH (link, &profile->waiting) {
		struct profile_stack *stack = CONTAINER_OF(link, struct profile_stack, link);

		if (head.count == REPLY_STACKS_MAX)
			break;
		head.count++;
		size += stack->event->event.size_bytes + profile_rank_pack_codes(profile, stack->event, first, NULL);
		list_unlink(&stack->link);
		list_add_tail(&profile->asking, &stack->link);
	}
	data = head.count ? malloc(size) : NULL;
	if (!data)
		return NULL;
	*ret_size = sizeof(head) + process_bytes;
	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), process, process_bytes);
	LIST_EACH (link, &profile->asking) {
		const struct rt_profile_stack_event *event = CONTAINER_OF(link, struct profile_stack, link)->event;

		memcpy(data + *ret_size, event, event->event.size_bytes);
		*ret_size += event->event.size_bytes;
	}
	LIST_EACH (link, &profile->asking)
		*ret_size += profile_rank_pack_codes(
			profile, CONTAINER_OF(link, struct profile_stack, link)->event, second, data + *ret_size);
	return data;
}

size_t profile_rank_bytes(const struct profile_rank *profile)
{
	return profile->stack_bytes + profile->code_bytes;
}

bool profile_rank_name(struct profile_rank *profile, uint64_t now_ns, bool at_once)
{
	_cleanup_free_ uint8_t *request = NULL;
	size_t size_bytes;

	if (profile->request)
		return false;
	if (!at_once && now_ns < profile->name_at_ns && profile->waiting_count < REPLY_STACKS_MAX)
		return false;
	request = profile_rank_pack(profile, &size_bytes);
	profile->name_at_ns = now_ns + profile->name_interval_ns;
	if (profile->name_interval_ns < NAME_INTERVAL_MAX_NS)
		profile->name_interval_ns *= 2;
	if (request && worker_ask(profile->context->workers, &profile_worker, profile->uid, request, size_bytes, NULL,
			       0, profile_rank_on_names, profile, &profile->request) == 0)
		return false;
	if (list_empty(&profile->asking))
		return true;
	profile_rank_refuse_all(profile, &profile->asking);
	profile_rank_release(profile);
	return false;
}

void profile_rank_give_up(struct profile_rank *profile)
{
	if (profile->request)
		worker_cancel(profile->context->workers, profile->request);
	profile->request = 0;
	profile_rank_refuse_all(profile, &profile->asking);
	profile_rank_refuse_all(profile, &profile->waiting);
	profile_rank_release(profile);
}

static void profile_rank_on_layout(void *arg, struct worker_reply *reply)
{
	struct profile_rank *profile = arg;

	profile->request = 0;
	profile->laid_out = true;
	if (reply->end != WORKER_ANSWERED)
		snprintf(profile->layout.reason, sizeof(profile->layout.reason), "the worker that reads it %s",
			worker_end_words(reply->end));
	else if (reply_layout_read(reply->data, reply->size_bytes, &profile->layout) < 0)
		snprintf(profile->layout.reason, sizeof(profile->layout.reason),
			"the answer of the worker that reads it is broken");
}

int profile_rank_init(struct profile_rank *profile)
{
	list_reset(&profile->waiting);
	list_reset(&profile->asking);
	list_reset(&profile->held);
	list_reset(&profile->code_order);
	profile->name_interval_ns = NAME_INTERVAL_NS;
	profile->used = true;
	if (hash_table_init(&profile->stacks, BUCKETS) < 0 || hash_table_init(&profile->named, BUCKETS) < 0 ||
		hash_table_init(&profile->codes, BUCKETS) < 0)
		return -ENOMEM;
	return 0;
}

int profile_rank_begin(struct profile_rank *profile)
{
	struct {
		struct reply_request head;
		struct reply_pid pid;
	} request = {{REPLY_LAYOUT, 1}, profile->asked};
	int r = profile_rank_init(profile);

	if (r < 0)
		return r;
	return worker_ask(profile->context->workers, &profile_worker, profile->uid, &request, sizeof(request), NULL, 0,
		profile_rank_on_layout, profile, &profile->request);
}

void profile_rank_free(struct profile_rank *profile)
{
	if (!profile->used)
		return;
	profile_rank_give_up(profile);
	for (size_t i = 0; profile->stacks.bucket && i <= profile->stacks.mask; i++)
		LIST_EACH (link, &profile->stacks.bucket[i]) {
			struct profile_stack *stack = CONTAINER_OF(link, struct profile_stack, node.link);

			free(stack->place);
			free(stack);
		}
	profile_rank_drop_codes(profile, 0);
	free(profile->codes.bucket);
	free(profile->stacks.bucket);
	free(profile->named.bucket);
	*profile = (struct profile_rank){0};
}
