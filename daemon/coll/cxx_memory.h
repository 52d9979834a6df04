/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of C++ libraries in another process's memory (Itanium ABI, both std::string ABIs of libstdc++). The first
 * word of an object with virtual functions leads to its class's type information and mangled name, so no symbol, load
 * address or library file is needed.
 *
 * The process is not stopped and not trusted: memory may change, hold anything, or be unmapped. Reads are budgeted per
 * object, texts bounded.
 */
#ifndef RANKTRACE_DAEMON_COLL_CXX_MEMORY_H
#define RANKTRACE_DAEMON_COLL_CXX_MEMORY_H

#include "daemon/base/util.h"

#define CXX_WORDS_MAX 96     /* per object */
#define CXX_STRING_BYTES 512 /* per text, NUL included */
#define CXX_CLASS_BYTES 128  /* mangled class names; longer ones are unknown */

struct cxx_memory {
	uint32_t pid;
	unsigned reads_left;
};

/* A copy of an object's first words. */
struct cxx_object {
	uint64_t address;
	size_t words;
	uint64_t word[CXX_WORDS_MAX];
};

/* -EFAULT: not mapped. -EDQUOT: budget used up. -ESRCH, -EPERM: from the kernel. */
int cxx_read(struct cxx_memory *memory, uint64_t address, void *ret, size_t size_bytes);
/* Reads at most `words`, fewer if the page ends sooner. */
int cxx_read_object(struct cxx_memory *memory, uint64_t address, size_t words, struct cxx_object *ret);
/* E.g. "N4c10d11PrefixStoreE". -ENOENT: not an object with virtual functions. */
int cxx_class(struct cxx_memory *memory, uint64_t address, char ret[static CXX_CLASS_BYTES]);
/*
 * std::string at word `at` of the object. *ret_words: its size in words (4; 1 in the ABI before C++11). -ENOENT:
 * invalid, or not printable ASCII.
 */
int cxx_string(struct cxx_memory *memory, const struct cxx_object *object, size_t at, char ret[static CXX_STRING_BYTES],
	size_t *ret_words);

#endif
