/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/coll/cxx_memory.h"

#include <fcntl.h>

#define PAGE_BYTES 4096u
#define ADDRESS_MIN 0x10000u	 /* nothing is mapped below */
#define ADDRESS_MAX (1ULL << 56) /* no user memory above, on any known machine */
#define LOCAL_LENGTH_MAX 15	 /* bytes stored within the string object */

static bool is_pointer(uint64_t value)
{
	return value >= ADDRESS_MIN && value < ADDRESS_MAX;
}

int cxx_read(struct cxx_memory *memory, uint64_t address, void *ret, size_t size_bytes)
{
	_cleanup_close_ int fd = -1;
	char path[32];
	ssize_t n;

	if (!is_pointer(address))
		return -EFAULT;
	if (!memory->reads_left)
		return -EDQUOT;
	memory->reads_left--;
	/* Through /proc, which has our pids; system calls take those of the caller's namespace. */
	snprintf(path, sizeof(path), "/proc/%u/mem", memory->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = pread(fd, ret, size_bytes, (off_t)address);
	if (n < 0)
		return errno == EIO ? -EFAULT : -errno;
	if (n == 0)
		return -ESRCH; /* ended after open() */
	return (size_t)n == size_bytes ? 0 : -EFAULT;
}

int cxx_read_object(struct cxx_memory *memory, uint64_t address, size_t words, struct cxx_object *ret)
{
	size_t page_words = (PAGE_BYTES - address % PAGE_BYTES) / sizeof(uint64_t);
	int r;

	if (address % sizeof(uint64_t))
		return -EFAULT;
	if (words > CXX_WORDS_MAX)
		words = CXX_WORDS_MAX;
	ret->address = address;
	ret->words = words;
	r = cxx_read(memory, address, ret->word, words * sizeof(uint64_t));
	if (r != -EFAULT || page_words >= words)
		return r;
	ret->words = page_words;
	return cxx_read(memory, address, ret->word, page_words * sizeof(uint64_t));
}

/* Text of known length plus NUL; -ENOENT: too long, not printable, or unterminated. */
static int cxx_memory_read_text(
	struct cxx_memory *memory, uint64_t address, uint64_t length, char ret[static CXX_STRING_BYTES])
{
	int r;

	if (length >= CXX_STRING_BYTES)
		return -ENOENT;
	r = cxx_read(memory, address, ret, length + 1);
	if (r < 0)
		return r == -EFAULT ? -ENOENT : r;
	if (ret[length])
		return -ENOENT;
	for (size_t i = 0; i < length; i++)
		if (ret[i] < ' ' || ret[i] > '~')
			return -ENOENT;
	return 0;
}

int cxx_class(struct cxx_memory *memory, uint64_t address, char ret[static CXX_CLASS_BYTES])
{
	uint64_t table, info, name;
	char text[CXX_CLASS_BYTES];
	size_t capacity, length;
	int r;

	if (address % sizeof(uint64_t))
		return -ENOENT;
	/* The word before the vtable points to the type information; its second word to the name. */
	r = cxx_read(memory, address, &table, sizeof(table));
	if (r == 0)
		r = cxx_read(memory, table - sizeof(info), &info, sizeof(info));
	if (r == 0)
		r = cxx_read(memory, info + sizeof(name), &name, sizeof(name));
	if (r < 0)
		return r == -EFAULT ? -ENOENT : r;
	capacity = PAGE_BYTES - name % PAGE_BYTES;
	r = cxx_read(memory, name, text, sizeof(text));
	if (r == -EFAULT && capacity < sizeof(text))
		r = cxx_read(memory, name, text, capacity);
	else
		capacity = sizeof(text);
	if (r < 0)
		return r == -EFAULT ? -ENOENT : r;
	length = strnlen(text, capacity);
	if (!length || length == capacity)
		return -ENOENT;
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return -ENOENT;
	memcpy(ret, text, length + 1);
	return 0;
}

/* C++11 ABI: {address, length, capacity or the text itself}. */
static int cxx_string_current(struct cxx_memory *memory, const struct cxx_object *object, size_t at, char *ret)
{
	uint64_t text, length;

	if (at + 4 > object->words)
		return -ENOENT;
	text = object->word[at];
	length = object->word[at + 1];
	if (text == object->address + (at + 2) * sizeof(uint64_t)) {
		if (length > LOCAL_LENGTH_MAX)
			return -ENOENT;
	} else if (object->word[at + 2] < length || object->word[at + 2] <= LOCAL_LENGTH_MAX ||
		   object->word[at + 2] >= ADDRESS_MAX) {
		return -ENOENT;
	}
	return cxx_memory_read_text(memory, text, length, ret);
}

/* ABI before C++11: a pointer to the text, preceded by {length, capacity, users}. */
static int cxx_string_old(struct cxx_memory *memory, const struct cxx_object *object, size_t at, char *ret)
{
	struct {
		uint64_t length, capacity;
		int32_t users, pad0;
	} head;
	int r;

	if (!is_pointer(object->word[at]) || object->word[at] % sizeof(uint64_t))
		return -ENOENT;
	r = cxx_read(memory, object->word[at] - sizeof(head), &head, sizeof(head));
	if (r < 0)
		return r == -EFAULT ? -ENOENT : r;
	if (head.length > head.capacity || head.capacity >= ADDRESS_MAX || head.users < -1)
		return -ENOENT;
	return cxx_memory_read_text(memory, object->word[at], head.length, ret);
}

int cxx_string(struct cxx_memory *memory, const struct cxx_object *object, size_t at, char ret[static CXX_STRING_BYTES],
	size_t *ret_words)
{
	char text[CXX_STRING_BYTES];
	size_t words = 4;
	int r;

	if (at >= object->words)
		return -ENOENT;
	r = cxx_string_current(memory, object, at, text);
	if (r == -ENOENT) {
		words = 1;
		r = cxx_string_old(memory, object, at, text);
	}
	if (r < 0)
		return r;
	memcpy(ret, text, strlen(text) + 1);
	*ret_words = words;
	return 0;
}
