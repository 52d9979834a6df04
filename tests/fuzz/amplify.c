/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small inputs that stand for large ones, so that a fuzz target also meets sizes: tables of a million entries, files
 * that are mostly holes, environments of megabytes. Linked to every target, in front of its function (CMakeLists.txt
 * renames that).
 *
 * An input that begins with MAGIC is a list of parts: 'R', a count (4 bytes, little endian), a length (2 bytes) and so
 * many bytes, which are repeated; or 'Z' and a count of zeros (4 bytes). What it stands for ends at FUZZ_AMPLIFY_MAX
 * bytes (from the environment, default AMPLIFIED_BYTES_MAX). Any other input is given as it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC "\177AMP"
#define AMPLIFIED_BYTES_MAX (1u << 20) /* of a short run, which is to see many inputs */

int fuzz_one_input(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t number(const uint8_t *data, size_t bytes)
{
	uint32_t value = 0;

	for (size_t i = bytes; i-- > 0;)
		value = value << 8 | data[i];
	return value;
}

/* Writes what the parts stand for; returns its size. Zeros are what `to` holds already. */
static size_t amplify(const uint8_t *data, size_t size, uint8_t *to, size_t max)
{
	size_t used = 0;

	while (size >= 5 && used < max) {
		size_t count = number(data + 1, 4), length;

		if (*data == 'Z') {
			used += count < max - used ? count : max - used;
			data += 5;
			size -= 5;
			continue;
		}
		if (*data != 'R' || size < 7)
			break;
		length = number(data + 5, 2);
		data += 7;
		size -= 7;
		length = length < size ? length : size;
		for (size_t i = 0; length && i < count && length <= max - used; i++) {
			memcpy(to + used, data, length);
			used += length;
		}
		data += length;
		size -= length;
	}
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *limit = getenv("FUZZ_AMPLIFY_MAX");
	size_t max = limit ? strtoul(limit, NULL, 10) : AMPLIFIED_BYTES_MAX;
	uint8_t *large;
	int r;

	if (size < 4 || memcmp(data, MAGIC, 4) != 0)
		return fuzz_one_input(data, size);
	/* Not of the heap, whose limit is for the target. */
	large = mmap(NULL, max ? max : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (large == MAP_FAILED)
		return 0;
	r = fuzz_one_input(large, amplify(data + 4, size - 4, large, max));
	munmap(large, max ? max : 1);
	return r;
}
