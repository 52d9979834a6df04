/* SPDX-License-Identifier: Apache-2.0 */
/* The program that test_native reads: its symbols are in a file of their own, which it names. Waits in read(). */
#include <unistd.h>

static __attribute__((noinline)) void stripped_target_wait(void)
{
	char byte;

	while (read(0, &byte, 1) != 1)
		;
	__asm__ volatile("");
}

int main(void)
{
	stripped_target_wait();
	__asm__ volatile("");
	return 0;
}
