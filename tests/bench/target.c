/* SPDX-License-Identifier: Apache-2.0 */
/* Written in assembly, because a compiler's prologue changes with its version and options. */
#include "tests/bench/target.h"

#define FUNCTION(name, body) \
	__asm__(".text\n.p2align 4\n.globl target_" #name "\n.type target_" #name ", %function\ntarget_" #name \
		":\n" body "\n.size target_" #name ", . - target_" #name "\n")

#ifdef __x86_64__
FUNCTION(landing, "endbr64\n push %rbp\n mov %rsp, %rbp\n lea 1(%rdi), %rax\n pop %rbp\n ret");
FUNCTION(push, "push %rbp\n mov %rsp, %rbp\n lea 1(%rdi), %rax\n pop %rbp\n ret");
FUNCTION(sub, "sub $24, %rsp\n lea 1(%rdi), %rax\n add $24, %rsp\n ret");
FUNCTION(lea, "lea 1(%rdi), %rax\n ret");
FUNCTION(nop, "nop\n lea 1(%rdi), %rax\n ret");
FUNCTION(nop5, ".byte 0x0f, 0x1f, 0x44, 0, 0\n lea 1(%rdi), %rax\n ret");
#elif defined(__aarch64__)
FUNCTION(
	landing, "hint #34\n stp x29, x30, [sp, #-16]!\n mov x29, sp\n add x0, x0, #1\n ldp x29, x30, [sp], #16\n ret");
FUNCTION(push, "stp x29, x30, [sp, #-16]!\n mov x29, sp\n add x0, x0, #1\n ldp x29, x30, [sp], #16\n ret");
FUNCTION(sub, "sub sp, sp, #32\n add x0, x0, #1\n add sp, sp, #32\n ret");
FUNCTION(lea, "add x0, x0, #1\n ret");
FUNCTION(nop, "nop\n add x0, x0, #1\n ret");
FUNCTION(nop5, "nop\n nop\n add x0, x0, #1\n ret");
#else
#error "no target functions for this machine"
#endif
