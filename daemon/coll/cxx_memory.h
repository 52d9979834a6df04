/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of C++ libraries in the memory of another process (Itanium ABI, both of libstdc++'s strings). An object of a class
 * with virtual functions says of which class it is: its first word leads to the class's type information, and that to the
 * mangled name. So nothing here needs a symbol, a load address or a library's file.
 *
 * The process is not stopped and owes us nothing: what is read may change meanwhile, lie, or be unmapped. Every object has
 * a budget of reads, every text a limit.
 */
#ifndef RANKTRACE_DAEMON_COLL_CXX_MEMORY_H
#define RANKTRACE_DAEMON_COLL_CXX_MEMORY_H

#include "daemon/base/util.h"

#define CXX_WORDS_MAX 96     /* of one object */
#define CXX_STRING_BYTES 512 /* of one text, its end included */
#define CXX_CLASS_BYTES 128  /* of a mangled class name; longer ones are not told */

struct cxx_memory {
	uint32_t pid;
	unsigned reads_left;
};

/* The first words of an object, as they were. */
struct cxx_object {
	uint64_t address;
	size_t words;
	uint64_t word[CXX_WORDS_MAX];
};

/* -EFAULT: not mapped; -EDQUOT: the budget is used up; -ESRCH, -EPERM as the kernel says. */
int cxx_read(struct cxx_memory *memory, uint64_t address, void *ret, size_t size_bytes);
/* At most `words` of it: fewer where its page ends sooner. */
int cxx_read_object(struct cxx_memory *memory, uint64_t address, size_t words, struct cxx_object *ret);
/* "N4c10d11PrefixStoreE". -ENOENT: no object of a class that has virtual functions. */
int cxx_class(struct cxx_memory *memory, uint64_t address, char ret[static CXX_CLASS_BYTES]);
/* The std::string that is at word `at` of the object. *ret_words is how many it takes there (4, or 1 before C++11's ABI).
 * -ENOENT: none that is valid, or not of printable ASCII. */
int cxx_string(struct cxx_memory *memory, const struct cxx_object *object, size_t at, char ret[static CXX_STRING_BYTES],
	       size_t *ret_words);

#endif
