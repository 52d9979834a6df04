/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of gloo's process groups. */
#include "daemon/coll/comm_reader.h"
#include "daemon/coll/cxx_memory.h"
#include "daemon/coll/identity.h"

#include <limits.h>
#include <sys/stat.h>

/*
 * ProcessGroupGloo -> GlooStore -> PrefixStore -> ... -> TCPStore or FileStore. Offsets differ between versions and
 * builds of PyTorch, so a pointer is recognized by the class it points to, and a text by being a valid std::string.
 * The first members are stable from 1.13 to 2.14: PrefixStore has its prefix, then its store; TCPStore its address and
 * port; FileStore its path.
 */

#define GLOO_READS_MAX 512
#define GLOO_GROUP_WORDS 64
#define STORE_WORDS 16
#define GLOO_STRING_AT_MAX 8 /* words before a store's first string: class, users, timeout */
#define PREFIXES_MAX 16	     /* nested stores */

#define CLASS_GROUP "N4c10d16ProcessGroupGlooE"
#define CLASS_GLOO_STORE "N4c10d16ProcessGroupGloo9GlooStoreE"
#define CLASS_PREFIX_STORE "N4c10d11PrefixStoreE"

struct prefix {
	size_t parts;
	char part[PREFIXES_MAX][CXX_STRING_BYTES]; /* outermost store first */
};

/* Hashes the NUL too, so that texts cannot run together. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	return fnv1a_bytes(hash, text, strlen(text) + 1);
}

/* Finalizer: FNV's last bytes hardly reach its upper half. */
static uint64_t hash_end(uint64_t hash)
{
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return hash ^ hash >> 33;
}

static bool is_class(struct cxx_memory *memory, uint64_t address, const char *name)
{
	char text[CXX_CLASS_BYTES];

	return cxx_class(memory, address, text) == 0 && strcmp(text, name) == 0;
}

/* First string of a store; *ret_next: the word after it. */
static int gloo_first_string(struct cxx_memory *memory, const struct cxx_object *object, char *ret, size_t *ret_next)
{
	for (size_t at = 1; at < object->words && at <= GLOO_STRING_AT_MAX; at++) {
		size_t words;
		int r = cxx_string(memory, object, at, ret, &words);

		if (r == 0)
			*ret_next = at + words;
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

/*
 * Member number and size are the first fields of the group's base class, after two words of reference counts in old
 * versions and one in new ones. A reference count never reads as a number below a size.
 */
static int gloo_find_member(const struct cxx_object *group, struct gloo_group *ret)
{
	for (size_t at = 2; at <= 3 && at < group->words; at++) {
		uint32_t member = (uint32_t)group->word[at], members = (uint32_t)(group->word[at] >> 32);

		if (members && members <= INT32_MAX && member < members) {
			ret->member = member;
			ret->members = members;
			return 0;
		}
	}
	return -ENOENT;
}

/* A word of the group points to a GlooStore, whose second word points to the group's store. */
static int gloo_find_store(struct cxx_memory *memory, const struct cxx_object *group, uint64_t *ret)
{
	for (size_t at = 2; at < group->words; at++)
		if (is_class(memory, group->word[at], CLASS_GLOO_STORE))
			return cxx_read(memory, group->word[at] + sizeof(uint64_t), ret, sizeof(*ret));
	return -ENOENT;
}

/* Text of one PrefixStore, and the store it wraps. */
static int gloo_unwrap_prefix(struct cxx_memory *memory, uint64_t address, char *ret_text, uint64_t *ret_store)
{
	char class[CXX_CLASS_BYTES];
	struct cxx_object object;
	size_t at = 0;
	int r = cxx_read_object(memory, address, STORE_WORDS, &object);

	if (r == 0)
		r = gloo_first_string(memory, &object, ret_text, &at);
	if (r < 0)
		return r;
	for (; at < object.words; at++)
		if (cxx_class(memory, object.word[at], class) == 0) {
			*ret_store = object.word[at];
			return 0;
		}
	return -ENOENT;
}

/* Unwraps all prefixes down to the base store. */
static int gloo_unwrap_prefixes(struct cxx_memory *memory, uint64_t store, struct prefix *ret, uint64_t *ret_base)
{
	for (ret->parts = 0; is_class(memory, store, CLASS_PREFIX_STORE); ret->parts++) {
		int r = ret->parts == PREFIXES_MAX ? -E2BIG
						   : gloo_unwrap_prefix(memory, store, ret->part[ret->parts], &store);

		if (r < 0)
			return r;
	}
	*ret_base = store;
	return ret->parts ? 0 : -ENOENT;
}

static bool is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
	       strncmp(host, "localhost.", 10) == 0 || strcmp(host, "ip6-localhost") == 0;
}

/* A path of the process, links of /proc/PID/ns included. */
static int gloo_stat(const struct gloo_process *process, const char *format, const char *path, struct stat *ret)
{
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), format, process->proc_root, process->pid, path);

	if (n < 0 || (size_t)n >= sizeof(full))
		return -ENAMETOOLONG;
	return stat(full, ret) < 0 ? -errno : 0;
}

/* The store's file, which its members made. Whether files of other users exist is not revealed. */
static int gloo_stat_own(const struct gloo_process *process, const char *path, struct stat *ret)
{
	struct stat own;
	int r = gloo_stat(process, "%s/%u%s", "", &own);

	if (r == 0)
		r = gloo_stat(process, *path == '/' ? "%s/%u/root%s" : "%s/%u/cwd/%s", path, ret);
	return r == 0 && ret->st_uid != own.st_uid ? -ENOENT : r;
}

static int hash_tcp(struct cxx_memory *memory, const struct gloo_process *process, const struct cxx_object *store,
	uint64_t *hash, const char **ret_reason)
{
	char host[CXX_STRING_BYTES];
	struct stat namespace;
	uint16_t port;
	size_t at = 0;

	*ret_reason = "the address of its TCPStore cannot be read";
	if (gloo_first_string(memory, store, host, &at) < 0 || !*host || at >= store->words)
		return -ENOENT;
	port = (uint16_t)store->word[at];
	if (!port)
		return -ENOENT;
	*hash = hash_text(hash_text(*hash, "tcp"), host);
	*hash = fnv1a_bytes(*hash, &port, sizeof(port));
	if (!is_loopback(host))
		return 0;
	*ret_reason = "its TCPStore is on this host alone, and the network namespace of the process cannot be read";
	if (gloo_stat(process, "%s/%u/ns/%s", "net", &namespace) < 0)
		return -ENOENT;
	*hash = hash_text(*hash, process->boot_id);
	*hash = fnv1a_bytes(*hash, &namespace.st_ino, sizeof(namespace.st_ino));
	return 0;
}

static int hash_file(struct cxx_memory *memory, const struct gloo_process *process, const struct cxx_object *store,
	uint64_t *hash, const char **ret_reason)
{
	char path[CXX_STRING_BYTES];
	struct stat file;
	size_t at = 0;

	*ret_reason = "the path of its FileStore cannot be read";
	if (gloo_first_string(memory, store, path, &at) < 0 || !*path)
		return -ENOENT;
	*ret_reason = "the file of its FileStore cannot be seen";
	if (gloo_stat_own(process, path, &file) < 0)
		return -ENOENT;
	*hash = hash_text(hash_text(*hash, "file"), path);
	*hash = fnv1a_bytes(*hash, &file.st_ino, sizeof(file.st_ino));
	return 0;
}

/* Stores shared between processes. A HashStore is local to a process; other classes are the program's own. */
static const struct {
	const char *class;
	int (*hash)(struct cxx_memory *memory, const struct gloo_process *process, const struct cxx_object *store,
		uint64_t *hash, const char **ret_reason);
} bases[] = {
	{"N4c10d8TCPStoreE", hash_tcp},
	{"N4c10d9FileStoreE", hash_file},
};

static int hash_base(struct cxx_memory *memory, const struct gloo_process *process, uint64_t address, uint64_t *hash,
	const char **ret_reason)
{
	struct cxx_object store;
	int r = cxx_read_object(memory, address, STORE_WORDS, &store);

	*ret_reason = "its store cannot be read";
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(bases); i++)
		if (is_class(memory, address, bases[i].class))
			return bases[i].hash(memory, process, &store, hash, ret_reason);
	*ret_reason = "its members met at a store that is neither a TCPStore nor a FileStore";
	return -ENOTSUP;
}

int gloo_identity_read(
	const struct gloo_process *process, uint64_t address, struct gloo_group *ret, const char **ret_reason)
{
	struct cxx_memory memory = {.pid = process->pid, .reads_left = GLOO_READS_MAX};
	uint64_t hash = FNV1A_START, store, base;
	struct gloo_group found = {0};
	struct cxx_object group;
	struct prefix prefix;
	int r;

	*ret_reason = "its process group no longer exists";
	if (!is_class(&memory, address, CLASS_GROUP))
		return -ENOENT;
	r = cxx_read_object(&memory, address, GLOO_GROUP_WORDS, &group);
	if (r < 0)
		return r;
	*ret_reason = "its number and size cannot be read";
	r = gloo_find_member(&group, &found);
	if (r < 0)
		return r;
	*ret_reason = "the store by which its members met cannot be read";
	r = gloo_find_store(&memory, &group, &store);
	if (r < 0)
		return r;
	*ret_reason = "the prefix of its store cannot be read";
	r = gloo_unwrap_prefixes(&memory, store, &prefix, &base);
	if (r == 0)
		r = hash_base(&memory, process, base, &hash, ret_reason);
	if (r < 0)
		return r;
	hash = hash_text(hash, process->job);
	for (size_t i = prefix.parts; i > 0; i--)
		hash = hash_text(hash, prefix.part[i - 1]);
	hash = hash_end(hash);
	found.identity = hash ? hash : 1;
	torch_group_name(&memory, &group, found.name, sizeof(found.name));
	*ret = found;
	*ret_reason = "";
	return 0;
}

static void gloo_read_identity(const struct comm_question *question, struct comm_answer *ret)
{
	const struct gloo_process process = {question->pid, "/proc", question->boot_id, question->job};
	struct gloo_group group = {0};
	const char *reason;

	(void)gloo_identity_read(&process, question->address, &group, &reason);
	*ret = (struct comm_answer){group.identity, group.member, group.members, "", ""};
	(void)copy_text(ret->name, sizeof(ret->name), group.name);
	(void)copy_text(ret->reason, sizeof(ret->reason), reason);
}

const struct coll_identifier coll_identifier_gloo = {
	.family = "gloo", .read = {[COMM_READER_IDENTITY] = gloo_read_identity}};
