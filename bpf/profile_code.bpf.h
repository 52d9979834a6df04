/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of code objects, of the stack that was just read: the thread runs them, so that none is freed meanwhile. In
 * the memory of the process they may be by the time that the daemon asks for their names.
 */
#ifndef RANKTRACE_PROFILE_CODE_BPF_H
#define RANKTRACE_PROFILE_CODE_BPF_H

#include "bpf/profile_python.bpf.h"

#ifndef CODE_KIND /* the includer's */
#define CODE_KIND RT_KIND_CODE
#define CODE_LINES_OPTIONAL false /* the process's memory has them */
#endif

#define CODE_TEXT_WIDTH_SHIFT 2 /* of the state of a str: 3 bits, the bytes of a character */
#define CODE_TEXT_LENGTH_MAX 512
#define CODE_HEAD_BYTES 40

struct code_key {
	uint64_t code;
	uint32_t print;
	uint32_t pid;
};

/* Those that were sent, or do not fit. Evicting an entry sends its record once more. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct code_key);
	__type(value, uint32_t);
} profile_codes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, uint32_t);
	__type(value, struct rt_profile_code_event);
} profile_code_scratch SEC(".maps");

/* A str, to its last character; bytes, 0: it does not fit, or cannot be read. */
static __always_inline uint32_t read_code_text(void *to, uint32_t most, uint64_t address, uint32_t head_bytes)
{
	uint64_t head[CODE_HEAD_BYTES / 8];
	uint64_t length, bytes;

	if (bpf_probe_read_user(head, sizeof(head), (void *)address))
		return 0;
	length = head[RT_PROFILE_SIZE_AT / 8];
	if (length > CODE_TEXT_LENGTH_MAX)
		return 0;
	bytes = head_bytes + length * (head[RT_PROFILE_STATE_AT / 8] >> CODE_TEXT_WIDTH_SHIFT & 7);
	return bytes <= most && bpf_probe_read_user(to, bytes, (void *)address) == 0 ? bytes : 0;
}

/* A bytes; its end is rounded up within its block. */
static __always_inline bool read_code_lines(struct rt_profile_code_event *event, uint64_t address)
{
	uint64_t size;

	if (!read_user_word(&size, address + RT_PROFILE_SIZE_AT) || size > sizeof(event->lines) - RT_PROFILE_BYTES_AT)
		return false;
	size = (size + RT_PROFILE_BYTES_AT + 7) & ~7ULL;
	event->bytes[4] = size;
	return size <= sizeof(event->lines) && bpf_probe_read_user(event->lines, size, (void *)address) == 0;
}

static __always_inline bool read_code_record(struct profile_scratch *s, struct rt_profile_code_event *event)
{
	uint32_t size = s->python.code_bytes;

	if (size > RT_PROFILE_CODE_BYTES || bpf_probe_read_user(s->code_word, size, (void *)event->address[0]))
		return false;
	__builtin_memcpy(event->object, s->code_word, sizeof(event->object));
	event->bytes[0] = size;
	event->address[1] = s->python.code_instructions ? code_word(s, s->python.code_instructions) : 0;
	event->bytes[1] = event->address[1] ? sizeof(event->instructions) : 0;
	event->address[2] = code_word(s, s->python.code_name);
	event->address[3] = code_word(s, s->python.code_file);
	event->address[4] = code_word(s, s->python.code_lines);
	if (event->address[1] &&
		bpf_probe_read_user(event->instructions, sizeof(event->instructions), (void *)event->address[1]))
		return false;
	event->bytes[2] = read_code_text(event->name, sizeof(event->name), event->address[2], s->python.text_head);
	event->bytes[3] = read_code_text(event->file, sizeof(event->file), event->address[3], s->python.text_head);
	if (!event->bytes[2] || !event->bytes[3])
		return false;
	if (read_code_lines(event, event->address[4]))
		return true;
	event->bytes[4] = RT_PROFILE_BYTES_AT;
	return CODE_LINES_OPTIONAL &&
	       bpf_probe_read_user(event->lines, RT_PROFILE_BYTES_AT, (void *)event->address[4]) == 0;
}

/* False: it cannot be sent now. */
static __always_inline bool send_code_record(
	struct rt_quota *quota, struct rt_profile_code_event *event, uint32_t pid, uint32_t thread_id)
{
	uint32_t lines_bytes = event->bytes[4];

	if (lines_bytes > sizeof(event->lines))
		return true;
	return send_rank_event(quota, &event->event, sizeof(*event), CODE_KIND,
		__builtin_offsetof(struct rt_profile_code_event, lines) + lines_bytes, pid, thread_id);
}

/* Sends the record of a frame's code object, once. */
__attribute__((noinline)) int profile_code_step(uint32_t program, uint32_t frame)
{
	struct profile_scratch *s = find_scratch(program);
	struct rt_profile_code_event *event = bpf_map_lookup_elem(&profile_code_scratch, &program);
	uint64_t id = bpf_get_current_pid_tgid();
	struct code_key key = {.pid = id >> 32};
	uint32_t one = 1, *slot;

	if (!s || !event)
		return 0;
	key.code = s->record.frame[frame & (RT_PROFILE_FRAMES_MAX - 1)].code;
	key.print = s->record.frame[frame & (RT_PROFILE_FRAMES_MAX - 1)].print;
	if (bpf_map_lookup_elem(&profile_codes, &key))
		return 0;
	event->address[0] = key.code;
	event->print = key.print;
	slot = bpf_map_lookup_elem(&ranks, &key.pid);
	if (!read_code_record(s, event) ||
		send_code_record(slot ? find_quota(*slot) : NULL, event, key.pid, (uint32_t)id))
		bpf_map_update_elem(&profile_codes, &key, &one, BPF_ANY);
	return 0;
}

/* Of the stack in the scratch, in the context of its thread. */
static __always_inline void send_codes(const struct profile_scratch *s, uint32_t program)
{
	for (uint32_t i = 0; i < RT_PROFILE_FRAMES_MAX; i++) {
		if (i >= s->record.frames)
			break;
		profile_code_step(program, i);
	}
}

#endif
