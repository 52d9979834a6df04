/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function returns. A return probe (uretprobe) puts a trampoline in place of the return address, and the C++
 * unwinder does not know the way through it: an exception that passes a function with a return probe ends the process
 * (seen: "terminate called after throwing ..."). So a function that exceptions may pass is probed on its return
 * instructions instead, found by disassembling it from its first byte to its last with capstone. A function left by an
 * exception reaches none of them: its end is missing, which readers must expect.
 */
#ifndef RANKTRACE_PROBES_RETURNS_H
#define RANKTRACE_PROBES_RETURNS_H

#include "daemon/probes/elf_file.h"

#define RETURNS_MAX 32
#define RETURNS_FUNCTION_BYTES_MAX (64u << 10)

/*
 * Offsets of the return instructions from the function's first byte, rising. Returns how many, at most max; -ENOENT where
 * there is none (the function ends in jumps), -EILSEQ where a byte is no instruction (then nothing of it is safe to
 * probe), -E2BIG where there are more than max or the function is too long.
 */
int returns_find(enum elf_machine machine, const uint8_t *code, size_t size_bytes, uint32_t *ret, size_t max);

#endif
