/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the arguments of a call: registers, stack, user memory. Every read is bounded; a failed one yields 0 and
 * RT_CALL_FAULT.
 */
#ifndef RANKTRACE_CALL_READ_BPF_H
#define RANKTRACE_CALL_READ_BPF_H

#include "bpf/probe.bpf.h"
#include "bpf/call.h"

/* Slots of struct pt_regs: return value (rax, x0) and stack pointer. */
#if defined(__TARGET_ARCH_arm64)
#define RESULT_SLOT 0
#define STACK_SLOT 31
#define RETURN_ADDRESS_BYTES 0 /* in a register */
#else
#define RESULT_SLOT 10
#define STACK_SLOT 19
#define RETURN_ADDRESS_BYTES 8
#endif

/* Result of a hit, on the program's stack. */
struct words {
	uint64_t arg[RT_CALL_ARGS_MAX];
	uint64_t last; /* end of the last reader's path: a text starts there */
	uint64_t stack_pointer;
	uint32_t flags; /* RT_CALL_FAULT, RT_CALL_IN_GROUP */
	uint32_t pad0;
};

/* Address of a word of the stack arguments. */
static __always_inline uint64_t stack_argument(uint64_t stack_pointer, uint32_t word)
{
	return stack_pointer + RETURN_ADDRESS_BYTES + word * 8;
}

static __always_inline uint64_t read_word(uint64_t address, uint32_t *flags)
{
	uint64_t value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
		*flags |= RT_CALL_FAULT;
	return value;
}

/*
 * Value of an argument slot. Slots of the calling convention's registers are loaded directly: cheaper than a copy
 * through the kernel.
 */
static __always_inline uint64_t read_slot(void *ctx, uint8_t slot, uint64_t stack_pointer, uint32_t *flags)
{
	uint64_t value = 0;

	switch (slot) {
#if defined(__TARGET_ARCH_arm64)
	case 0:
		return FIXED_SLOT(ctx, 0);
	case 1:
		return FIXED_SLOT(ctx, 1);
	case 2:
		return FIXED_SLOT(ctx, 2);
	case 3:
		return FIXED_SLOT(ctx, 3);
	case 4:
		return FIXED_SLOT(ctx, 4);
	case 5:
		return FIXED_SLOT(ctx, 5);
#else
	case 14:
		return FIXED_SLOT(ctx, 14);
	case 13:
		return FIXED_SLOT(ctx, 13);
	case 12:
		return FIXED_SLOT(ctx, 12);
	case 11:
		return FIXED_SLOT(ctx, 11);
	case 9:
		return FIXED_SLOT(ctx, 9);
	case 8:
		return FIXED_SLOT(ctx, 8);
#endif
	case RT_CALL_SLOT_STACK_BASE:
		return stack_argument(stack_pointer, 0);
	}
	if (slot >= RT_CALL_SLOT_STACK)
		return read_word(stack_argument(stack_pointer, slot - RT_CALL_SLOT_STACK), flags);
	if (slot < 36)
		bpf_probe_read_kernel(&value, sizeof(value), (char *)ctx + slot * 8);
	return value;
}

static __always_inline uint64_t call_read_cut(uint64_t value, uint8_t size_bytes, uint8_t is_signed)
{
	uint32_t shift = 64 - 8 * (uint32_t)size_bytes;

	if (size_bytes == 0 || size_bytes >= 8)
		return value;
	value <<= shift & 63;
	return is_signed ? (uint64_t)((int64_t)value >> (shift & 63)) : value >> (shift & 63);
}

/* Exactly size_bytes at an address: the next page may be unmapped. */
static __always_inline uint64_t read_sized(uint64_t address, const struct rt_call_arg *arg, uint32_t *flags)
{
	uint64_t value = 0;
	uint64_t n = arg->size_bytes; /* 64 bits wide, as in call_hash() */

	asm volatile("" : "+r"(n));
	if (n > sizeof(value))
		n = sizeof(value);
	if (bpf_probe_read_user(&value, n, (void *)address)) {
		*flags |= RT_CALL_FAULT;
		return 0;
	}
	return call_read_cut(value, arg->size_bytes, arg->is_signed);
}

static __always_inline uint64_t bytewise_hash(const int8_t *bytes, uint32_t n, bool is_signed)
{
	uint64_t result = 5381;

#pragma clang loop unroll(disable)
	for (uint32_t i = 0; i < RT_CALL_HASH_MAX; i++) {
		if (i >= n)
			break;
		result = result * 33 ^ (is_signed ? (uint64_t)(int64_t)bytes[i] : (uint64_t)(uint8_t)bytes[i]);
	}
	return result;
}

/* Bytes past n are zero. */
static __always_inline uint64_t wordwise_hash(const uint64_t *words, uint32_t n)
{
	uint64_t a = 1 ^ (uint64_t)n, b = 1;

#pragma clang loop unroll(disable)
	for (uint32_t i = 0; i < RT_CALL_HASH_MAX / 8; i++) {
		if (i * 8 >= n)
			break;
		a += b;
		b ^= a;
		a = (a ^ a >> 31) * 0x9de62bbc8cef3ce3ULL;
		b = (b ^ b >> 32) * 0x485cd6311b599e79ULL;
		a += words[i];
	}
	a = (a ^ a >> 31) * 0xbac3bd562846de6bULL + b;
	return (a ^ a >> 32) * 0x995a187a14e7b445ULL;
}

/*
 * 0: cannot be read. n is 64 bits wide: the verifier learns nothing from comparing a narrower copy. Not static: the
 * verifier checks a global function once, a static one at each call, here for each argument.
 */
__attribute__((noinline)) uint64_t call_hash(uint64_t address, uint64_t n, uint32_t is_digest, uint32_t is_signed)
{
	uint64_t words[RT_CALL_HASH_MAX / 8] = {};

	asm volatile("" : "+r"(n));
	if (n > sizeof(words))
		n = sizeof(words);
	if (bpf_probe_read_user(words, n, (void *)address))
		return 0;
	return is_digest ? wordwise_hash(words, n) : bytewise_hash((const int8_t *)words, n, is_signed);
}

/* End of a reader's path; without path, the register's value. */
static __always_inline uint64_t call_read_follow(void *ctx, const struct rt_call_arg *arg, struct words *w)
{
	uint64_t value = read_slot(ctx, arg->reg, w->stack_pointer, &w->flags);

	value += (int64_t)arg->offset[0];
	if (arg->hops > 0)
		value = read_word(value, &w->flags) + (int64_t)arg->offset[1];
	if (arg->hops > 1)
		value = read_word(value, &w->flags) + (int64_t)arg->offset[2];
	return value;
}

static __always_inline uint64_t read_arg(void *ctx, const struct rt_call_arg *arg, struct words *w)
{
	uint64_t value;

	if (arg->read == RT_READ_CONST)
		return call_read_cut((uint64_t)(int64_t)arg->offset[0], arg->size_bytes, arg->is_signed);
	value = call_read_follow(ctx, arg, w);
	if (arg->read == RT_READ_REG || arg->read == RT_READ_FRAME)
		return call_read_cut(value, arg->size_bytes, arg->is_signed);
	if (arg->read == RT_READ_DEREF)
		return read_sized(value, arg, &w->flags);
	if (arg->read == RT_READ_HASH || arg->read == RT_READ_DIGEST) {
		value = call_hash(value, arg->size_bytes, arg->read == RT_READ_DIGEST, arg->is_signed);
		if (!value)
			w->flags |= RT_CALL_FAULT;
		return value;
	}
	w->last = value; /* text, or read at the return */
	return value;
}

/* Texts yield their address: see read_last_text(). */
static __noinline int read_args(void *ctx, const struct rt_call_spec *spec, struct words *w)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < RT_CALL_ARGS_MAX; i++) {
		if (i >= spec->args)
			break;
		w->arg[i] = read_arg(ctx, &spec->arg[i], w);
	}
	return 0;
}

#endif
