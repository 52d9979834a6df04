/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Python frames of the current thread, walked in its memory. What does not fit is refused, never guessed: a thread
 * state must be in its interpreter's list and name the thread, a frame's code must be a code object, and the frames of
 * the innermost call of the eval loop must end where its caller's begin.
 *
 * Functions are global, so that the verifier goes over each once; their state is in the map `profile_scratch`, one
 * entry a program: the one that samples interrupts no other, because the scheduler's runs with interrupts disabled.
 * Probes may interrupt each other, so that memory.bpf.c takes an entry for itself.
 */
#ifndef RANKTRACE_PROFILE_PYTHON_BPF_H
#define RANKTRACE_PROFILE_PYTHON_BPF_H

#include "bpf/probe.bpf.h"
#include "bpf/profile.h"

#define STATES_MAX 128 /* thread states passed in search of a thread's */
#define WALK_MAX 128   /* frames passed: those recorded, and further ones up to a proof */

enum profile_walk { WALK_GOES_ON = 0, WALK_ENDS = 1, WALK_REFUSED = 2 };

struct profile_scratch {
	struct rt_profile_stack_event record;
	struct rt_profile_python python;
	uint64_t pthread;			/* of the current thread; 0: unknown */
	uint64_t kernel[RT_PROFILE_KERNEL_MAX]; /* addresses; 0: of a sample on a CPU */
	/* The search for the thread's state. */
	uint64_t interp, state, found, found_interp;
	/* The walk. */
	uint64_t at, below;
	uint32_t bounded;
	uint32_t pad0;
	union {
		uint8_t frame[RT_PROFILE_FRAME_BYTES];
		uint64_t frame_word[RT_PROFILE_FRAME_BYTES / 8];
	};
	union {
		uint64_t code_word[RT_PROFILE_CODE_BYTES / 8];
		uint64_t thread_word[RT_PROFILE_THREAD_BYTES / 8];
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, uint32_t);
	__type(value, struct profile_scratch);
} profile_scratch SEC(".maps");

static __always_inline struct profile_scratch *find_scratch(uint32_t program)
{
	return bpf_map_lookup_elem(&profile_scratch, &program);
}

static __always_inline bool read_user_word(uint64_t *ret, uint64_t address)
{
	return bpf_probe_read_user(ret, sizeof(*ret), (void *)address) == 0;
}

static __always_inline uint64_t frame_word(const struct profile_scratch *s, uint32_t offset)
{
	return s->frame_word[offset / 8 & (RT_PROFILE_FRAME_BYTES / 8 - 1)];
}

static __always_inline uint64_t code_word(const struct profile_scratch *s, uint32_t offset)
{
	return s->code_word[offset / 8 & (RT_PROFILE_CODE_BYTES / 8 - 1)];
}

static __always_inline bool read_thread(struct profile_scratch *s, uint64_t state)
{
	uint32_t size = s->python.thread_bytes;

	return size <= RT_PROFILE_THREAD_BYTES && bpf_probe_read_user(s->thread_word, size, (void *)state) == 0;
}

/* One thread state of the search, or the step to the next interpreter. The newest of the first interpreter wins. */
__attribute__((noinline)) int profile_search_step(uint32_t program)
{
	struct profile_scratch *s = find_scratch(program);

	if (!s)
		return WALK_REFUSED;
	if (!s->state) {
		/* The list of interpreters begins with the newest one and ends with the first. */
		if (!read_user_word(&s->interp, s->interp ? s->interp + s->python.interp_next : s->python.interps))
			return WALK_REFUSED;
		if (!s->interp)
			return WALK_ENDS;
		return read_user_word(&s->state, s->interp + s->python.interp_threads) ? WALK_GOES_ON : WALK_REFUSED;
	}
	if (!read_thread(s, s->state) || code_word(s, s->python.thread_interp) != s->interp)
		return WALK_REFUSED;
	if (code_word(s, s->python.thread_pthread) == s->pthread) {
		s->found = s->state;
		s->found_interp = s->interp;
		s->state = 0;
		return WALK_GOES_ON;
	}
	s->state = code_word(s, s->python.thread_next);
	return WALK_GOES_ON;
}

/* Is the state that the thread had before still its state? The list must lead to it. */
__attribute__((noinline)) int profile_is_state(uint32_t program)
{
	struct profile_scratch *s = find_scratch(program);
	uint64_t previous, link;

	if (!s || !s->found || !read_thread(s, s->found))
		return 0;
	if (code_word(s, s->python.thread_pthread) != s->pthread ||
		code_word(s, s->python.thread_interp) != s->found_interp)
		return 0;
	previous = code_word(s, s->python.thread_prev);
	link = previous ? previous + s->python.thread_next : s->found_interp + s->python.interp_threads;
	return read_user_word(&link, link) && link == s->found;
}

/* The innermost frame of the thread whose state was just read: walk state. */
static __always_inline int begin_walk(struct profile_scratch *s)
{
	uint64_t record = code_word(s, s->python.thread_frame);

	s->bounded = 0;
	s->at = record;
	if (!s->python.cframe)
		return WALK_GOES_ON;
	if (!read_user_word(&s->at, record + s->python.cframe_frame) ||
		!read_user_word(&record, record + s->python.cframe_previous))
		return WALK_REFUSED;
	if (!record) /* the first record is of no call */
		return s->at ? WALK_REFUSED : WALK_ENDS;
	s->bounded = 1;
	return read_user_word(&s->below, record + s->python.cframe_frame) ? WALK_GOES_ON : WALK_REFUSED;
}

/* The code object of a frame, checked, into *frame. */
static __always_inline bool read_code_object(struct profile_scratch *s, struct rt_profile_frame *frame)
{
	uint32_t size = s->python.code_bytes, at = s->python.code_first_line;
	uint64_t hash;

	if (size > RT_PROFILE_CODE_BYTES || bpf_probe_read_user(s->code_word, size, (void *)frame->code) ||
		code_word(s, RT_PROFILE_TYPE_AT) != s->python.code_type ||
		!read_user_word(&hash, code_word(s, s->python.code_name) + RT_PROFILE_HASH_AT))
		return false;
	frame->print = rt_profile_print(code_word(s, s->python.code_name), hash, code_word(s, s->python.code_file),
		code_word(s, s->python.code_lines), (uint32_t)(code_word(s, at) >> (at & 4) * 8));
	return true;
}

__attribute__((noinline)) int profile_walk_step(uint32_t program)
{
	struct profile_scratch *s = find_scratch(program);
	struct rt_profile_frame frame = {};
	uint32_t size, owner = 0, entry = 1;
	bool shim;

	if (!s)
		return WALK_REFUSED;
	if (!s->at)
		return s->bounded ? WALK_REFUSED : WALK_ENDS;
	size = s->python.frame_bytes;
	if (size > RT_PROFILE_FRAME_BYTES || bpf_probe_read_user(s->frame, size, (void *)s->at))
		return WALK_REFUSED;
	if (s->python.frame_owner) {
		owner = s->frame[s->python.frame_owner & (RT_PROFILE_FRAME_BYTES - 1)];
		entry = s->python.frame_entry ? s->frame[s->python.frame_entry & (RT_PROFILE_FRAME_BYTES - 1)] : 0;
	}
	shim = owner >= RT_PROFILE_OWNER_SHIM;
	s->at = frame_word(s, s->python.frame_previous);
	if (s->bounded && (shim || entry)) {
		if (s->at != s->below)
			return WALK_REFUSED;
		s->bounded = 0;
	}
	if (shim) {
		/* The frame inside of it is the one that the eval loop was called for. */
		if (s->record.frames && s->record.frames <= RT_PROFILE_FRAMES_MAX)
			s->record.frame[(s->record.frames - 1) & (RT_PROFILE_FRAMES_MAX - 1)].flags |= RT_PROFILE_ENTRY;
		return WALK_GOES_ON;
	}
	if (s->record.frames >= RT_PROFILE_FRAMES_MAX) {
		s->record.state |= RT_PROFILE_CUT;
		return s->bounded ? WALK_GOES_ON : WALK_ENDS;
	}
	frame.code = frame_word(s, s->python.frame_code) & ~RT_PROFILE_TAG_MASK;
	frame.instruction = frame_word(s, s->python.frame_instruction);
	if (entry)
		frame.flags |= RT_PROFILE_ENTRY;
	if (!s->python.has_complete || owner == RT_PROFILE_OWNER_GENERATOR)
		frame.flags |= RT_PROFILE_COMPLETE;
	if (!read_code_object(s, &frame))
		return WALK_REFUSED;
	s->record.frame[s->record.frames & (RT_PROFILE_FRAMES_MAX - 1)] = frame;
	s->record.frames++;
	return WALK_GOES_ON;
}

/* Finds the thread's state; *known is where it was before, 0 at first. */
static __always_inline int find_state(struct profile_scratch *s, uint32_t program, uint64_t known[2])
{
	int r = WALK_GOES_ON;

	s->found = known[0];
	s->found_interp = known[1];
	if (profile_is_state(program))
		return WALK_GOES_ON;
	s->found = 0;
	s->interp = 0;
	s->state = 0;
	for (int i = 0; i < STATES_MAX && r == WALK_GOES_ON; i++)
		r = profile_search_step(program);
	if (r != WALK_ENDS)
		return WALK_REFUSED;
	known[0] = s->found;
	known[1] = s->found_interp;
	if (!s->found)
		return WALK_ENDS;
	return profile_is_state(program) ? WALK_GOES_ON : WALK_REFUSED;
}

/* Records the Python frames of the current thread; false: refused. None is right for a thread that runs no Python. */
static __always_inline bool read_python(struct profile_scratch *s, uint32_t program, uint64_t known[2])
{
	int r = find_state(s, program, known);

	if (r == WALK_GOES_ON)
		r = begin_walk(s);
	for (int i = 0; i < WALK_MAX && r == WALK_GOES_ON; i++)
		r = profile_walk_step(program);
	return r == WALK_ENDS;
}

/* The current thread's thread pointer; 0: unknown on this machine, or of an arm64's thread that has never left its
 * CPU. */
static __always_inline uint64_t own_thread_pointer(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (bpf_core_field_exists(((struct thread_struct *)0)->fsbase))
		return BPF_CORE_READ(task, thread.fsbase);
	if (bpf_core_field_exists(((struct thread_struct *)0)->uw.tp_value))
		return BPF_CORE_READ(task, thread.uw.tp_value);
	return 0;
}

/* An empty stack of the current thread. */
static __always_inline void profile_begin(struct profile_scratch *s, const struct rt_profile_python *python)
{
	uint64_t pointer = own_thread_pointer();

	__builtin_memcpy(&s->python, python, sizeof(s->python));
	s->record.frames = 0;
	s->record.natives = 0;
	s->record.state = 0;
	s->record.stack = 0;
	s->pthread = pointer ? pointer - python->pthread_below : 0;
}

__attribute__((noinline)) int profile_hash(uint32_t program)
{
	struct profile_scratch *s = find_scratch(program);
	uint64_t hash = 1;

	if (!s)
		return 0;
	for (uint32_t i = 0; i < RT_PROFILE_KERNEL_MAX; i++)
		hash = rt_profile_mix(hash, s->kernel[i]);
	for (uint32_t i = 0; i < RT_PROFILE_NATIVE_MAX; i++) {
		if (i >= s->record.natives)
			break;
		hash = rt_profile_mix(hash, s->record.native[i]);
	}
	for (uint32_t i = 0; i < RT_PROFILE_FRAMES_MAX; i++) {
		const struct rt_profile_frame *frame = &s->record.frame[i];

		if (i >= s->record.frames)
			break;
		hash = rt_profile_mix(hash, frame->code);
		hash = rt_profile_mix(hash, frame->instruction);
		hash = rt_profile_mix(hash, (uint64_t)frame->print << 32 | frame->flags);
	}
	s->record.stack = rt_profile_mix(hash, s->record.state) | 1;
	return 0;
}

static __always_inline uint32_t record_bytes(const struct rt_profile_stack_event *record)
{
	uint32_t frames = record->frames;

	if (frames > RT_PROFILE_FRAMES_MAX)
		frames = RT_PROFILE_FRAMES_MAX;
	return __builtin_offsetof(struct rt_profile_stack_event, frame) + frames * sizeof(struct rt_profile_frame);
}

#endif
