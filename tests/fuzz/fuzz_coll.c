/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are a script of events, device records and snapshots of calls in flight, for two ranks of small sets of
 * addresses, identities and threads, so that they meet; then a verdict. Every call makes one row at the most, and what
 * waits at the end all goes out; texts are terminated; what is counted is what was fed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/coll/coll_judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	uint64_t now_ns;
};

static uint64_t rows, calls, graphs;

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void on_row(void *arg, const struct coll_row *row)
{
	rows++;
	graphs += row->captured && row->seq == 0 && row->thread_id == 0;
	check(strlen(row->communicator) == 0 || strlen(row->communicator) == 16);
	check(strlen(row->op) < COLL_NAME_BYTES && strlen(row->dtype) < 16 && strlen(row->family) < 8);
	check(row->bytes == COLL_UNKNOWN || row->bytes <= INT64_MAX);
	check(row->count == COLL_UNKNOWN || row->count <= INT64_MAX);
	check(row->seq <= INT64_MAX && row->peer >= -1);
	check(row->device == (row->device_duration_ns != COLL_UNKNOWN));
}

static void on_group(void *arg, const struct coll_group *group)
{
	check(group->members > 1 && group->bytes <= INT64_MAX);
}

static void on_communicator(void *arg, const struct coll_communicator *communicator)
{
	check(!communicator->members || communicator->member < communicator->members);
	check(communicator->communicator[0] ? !communicator->reason[0] : communicator->reason[0]);
	check(strlen(communicator->name) < COLL_NAME_BYTES && communicator->kind);
}

static uint8_t byte(struct input *input)
{
	if (!input->size)
		return 0;
	input->size--;
	return *input->data++;
}

static uint64_t value(struct input *input)
{
	uint8_t first = byte(input);
	uint64_t ret = first & 0x3f;

	if (first & 0x80) {
		for (int i = 0; i < 7; i++)
			ret = ret << 8 | byte(input);
		ret |= (uint64_t)(first & 0x40) << 57;
	}
	return ret;
}

static const char *const families[] = {"nccl", "gloo", "hccl", "", NULL};
static const char *const names[] = {
	"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Send", "Recv", "AlltoAll", ""};

static struct coll_event event(struct input *input, char text[16])
{
	uint8_t kind = byte(input), what = byte(input);
	struct coll_event ret = {.kind = (enum coll_kind)(kind & 15),
		.family = families[(what & 7) % 5],
		.op = names[what >> 3 & 7],
		.thread_id = 1 + (what >> 6),
		.in_group = kind & 16,
		.has_result = kind & 32,
		.result = kind & 64 ? (int8_t)byte(input) : 0,
		.text = text};

	for (int i = 0; i < 15 && kind & 128; i++)
		text[i] = (char)byte(input);
	ret.present = byte(input) | (uint32_t)byte(input) << 8;
	for (unsigned i = 0; i < OP_FIELD_MAX; i++) {
		if (ret.present & 1u << i)
			ret.field[i] = value(input);
	}
	input->now_ns += byte(input) & 7 ? 10 : 40000000000ULL;
	ret.start_ns = input->now_ns - (kind & 3);
	ret.end_ns = what & 4 ? 0 : input->now_ns + 20;
	if (byte(input) == 255)
		ret.start_ns = value(input);
	return ret;
}

static void feed_device(struct input *input, struct coll *ops)
{
	char text[16] = "";
	uint8_t what = byte(input);
	struct coll_device device = {.identity = value(input),
		.name = what & 64 ? text : NULL,
		.seq = value(input),
		.op = names[what & 7],
		.count = value(input),
		.host_ns = what & 8 ? 0 : input->now_ns - (byte(input) & 31),
		.start_ns = what & 16 ? COLL_UNKNOWN : value(input),
		.stop_ns = what & 32 ? COLL_UNKNOWN : value(input),
		.member = byte(input) & 3,
		.members = byte(input) & 3,
		.heard_ns = input->now_ns,
		.device = what & 3,
		.peer = (int8_t)byte(input),
		.captured = what & 128};

	device.open = (byte(input) & 7) == 7;
	for (int i = 0; i < 15 && what & 64; i++)
		text[i] = (char)byte(input);
	coll_feed_device(ops, &device);
}

static void step(struct input *input, struct coll *ops)
{
	char text[16] = "";
	uint8_t what = byte(input);
	struct coll_event next;

	if (what < 150) {
		next = event(input, text);
		calls += next.kind == COLL_OP || next.kind == COLL_P2P;
		coll_feed(ops, &next);
	} else if (what < 210) {
		feed_device(input, ops);
	} else if (what < 220) {
		coll_in_call_begin(ops);
	} else if (what < 235) {
		next = event(input, text);
		coll_in_call(ops, &next);
	} else if (what < 250) {
		coll_identify(ops, families[what % 5], byte(input), byte(input) & 7, "name", byte(input), byte(input),
			"store", what & 1 ? "why" : "");
	} else if (what < 254) {
		input->now_ns += value(input) & 0xfffffffff;
		coll_idle(ops, input->now_ns);
	} else {
		coll_dropped(ops);
	}
}

static void judge(struct coll *const *ops, uint64_t now_ns)
{
	struct coll_judged member[8];
	struct coll_standing standings[4];
	struct coll_verdict verdict;
	size_t n = 0;

	for (int32_t i = 0; i < 2; i++) {
		size_t found = coll_standings(ops[i], standings, 4);

		for (size_t j = 0; j < found; j++)
			member[n++] = (struct coll_judged){.rank = i, .ops = ops[i], .standing = standings[j]};
	}
	coll_judge(member, n, now_ns, 1000, &verdict);
	check(strlen(verdict.sentence) < sizeof(verdict.sentence) && coll_state_name(verdict.state)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct coll_sink sink = {on_row, on_group, on_communicator, NULL};
	struct input input = {data, size, 1000};
	struct coll *ops[2] = {coll_new(&sink), coll_new(&sink)};
	struct coll_counts counts;

	rows = calls = graphs = 0;
	check(ops[0] && ops[1]);
	while (input.size) {
		uint8_t which = byte(&input) & 1;

		step(&input, ops[which]);
		check(rows - graphs <= calls);
	}
	judge(ops, input.now_ns);
	coll_end(ops[0]);
	coll_end(ops[1]);
	check(rows - graphs <= calls);
	coll_counts(ops[0], &counts);
	check(counts.not_waited == 0 || calls > COLL_WAITING_MAX);
	coll_free(ops[0]);
	coll_free(ops[1]);
	return 0;
}
