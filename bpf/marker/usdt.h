/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One USDT probe of four arguments, without a systemtap dependency: a nop, and a note of type 3 and owner "stapsdt"
 * with its location (address, base, semaphore, then provider, name and operands as texts).
 *
 * Operands are the first four argument registers of the calling convention, so that the BPF program reads them like a
 * function's; the note describes them for other tracers.
 */
#ifndef RANKTRACE_MARKER_USDT_H
#define RANKTRACE_MARKER_USDT_H

#include <stdint.h>

#define MARKER_NOTE_(nop, operands) \
	"990: " nop "\n" \
	".pushsection .note.stapsdt, \"\", \"note\"\n" \
	".balign 4\n" \
	".4byte 992f - 991f, 994f - 993f, 3\n" \
	"991: .asciz \"stapsdt\"\n" \
	"992: .balign 4\n" \
	"993: .8byte 990b, _.stapsdt.base, 0\n" \
	".asciz \"ranktrace\"\n" \
	".asciz \"batch\"\n" \
	".asciz \"" operands "\"\n" \
	"994: .balign 4\n" \
	".popsection\n" \
	".ifndef _.stapsdt.base\n" \
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
	".weak _.stapsdt.base\n" \
	".hidden _.stapsdt.base\n" \
	"_.stapsdt.base: .space 1\n" \
	".size _.stapsdt.base, 1\n" \
	".popsection\n" \
	".endif\n"

#ifdef MARKER_PROBE_IN_TEST
void marker_probe(const void *records, uint32_t count, uint32_t record_bytes, uint32_t version); /* the test's */
#else
static inline void marker_probe(const void *records, uint32_t count, uint32_t record_bytes, uint32_t version)
{
#if defined(__x86_64__)
	/* Five bytes: newer kernels replace such a nop by a call, cheaper than a trap. */
	__asm__ volatile(MARKER_NOTE_(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "8@%%rdi 4@%%esi 4@%%edx 4@%%ecx")
			 :
			 : "D"(records), "S"(count), "d"(record_bytes), "c"(version)
			 : "memory");
#elif defined(__aarch64__)
	register const void *x0 __asm__("x0") = records;
	register uint64_t x1 __asm__("x1") = count;
	register uint64_t x2 __asm__("x2") = record_bytes;
	register uint64_t x3 __asm__("x3") = version;

	__asm__ volatile(MARKER_NOTE_("nop", "8@x0 4@x1 4@x2 4@x3") : : "r"(x0), "r"(x1), "r"(x2), "r"(x3) : "memory");
#else
#error "registers of this machine are not known here"
#endif
}
#endif

#endif
