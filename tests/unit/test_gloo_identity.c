/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups as several versions of PyTorch lay them out, made by hand in this process's own memory and read like
 * another's. */
#include "daemon/coll/cxx_memory.h"
#include "daemon/coll/identity.h"
#include "tests/test.h"

#include <fcntl.h>
#include <sys/mman.h>

/* A class: type information, then what objects point to. */
struct class
{
	uint64_t info[2];
	uint64_t table[3]; /* offset to top, type information, first function */
};

static uint64_t address_of(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

static uint64_t class_make(struct class *class, const char *name)
{
	class->info[1] = address_of(name);
	class->table[1] = address_of(class->info);
	return address_of(&class->table[2]);
}

enum text_kind { TEXT_NOW, TEXT_BEFORE };

/* The text of a COW string, with its header. */
struct before {
	uint64_t length, capacity;
	int32_t users, pad0;
	char text[256];
};

#define BEFORE_MAX 16
#define STORE_AT 16 /* word of the group that leads to its store, in new versions */

struct world {
	struct class group_class, gloo_class, prefix_class, tcp_class, file_class, hash_class;
	struct before before[BEFORE_MAX];
	size_t befores;
	uint64_t group[64], gloo[2], prefix[2][16], base[16];
	char far[2][256];
};

/* Writes a std::string; returns how many words it took. */
static size_t text_put(struct world *world, enum text_kind kind, uint64_t *word, const char *text, char *far)
{
	size_t length = strlen(text);

	if (kind == TEXT_BEFORE) {
		struct before *before = &world->before[world->befores++];

		assert_true(world->befores <= BEFORE_MAX);
		before->length = length;
		before->capacity = length;
		strcpy(before->text, text);
		word[0] = address_of(before->text);
		return 1;
	}
	word[1] = length;
	if (length < 16) {
		word[0] = address_of(&word[2]);
		memcpy(&word[2], text, length + 1);
	} else {
		strcpy(far, text);
		word[0] = address_of(far);
		word[2] = length;
	}
	return 4;
}

/* counts: words of use counts in every object (2 in 1.13, 1 in 2.6). names: strings of a number and a description. */
static void world_make(struct world *world, enum text_kind kind, size_t counts, bool names)
{
	size_t at = 1 + counts;

	memset(world, 0, sizeof(*world));
	world->group[0] = class_make(&world->group_class, "N4c10d16ProcessGroupGlooE");
	world->group[1] = 3;
	world->group[2] = counts == 2 ? 1 : 0;
	world->group[at] = 1ULL | 4ULL << 32;
	at += 2;
	if (names) {
		at += text_put(world, kind, &world->group[at], "7", NULL);
		at += text_put(world, kind, &world->group[at], "tensor parallel", NULL);
	}
	world->group[at + 4] = address_of(world->gloo);
	world->gloo[0] = class_make(&world->gloo_class, "N4c10d16ProcessGroupGloo9GlooStoreE");
	world->gloo[1] = address_of(world->prefix[0]);
	(void)class_make(&world->prefix_class, "N4c10d11PrefixStoreE");
	for (size_t i = 0; i < 2; i++) {
		uint64_t *word = world->prefix[i];

		word[0] = address_of(&world->prefix_class.table[2]);
		word[1] = 1;
		word[2] = counts == 2 ? 1 : 0;
		word[1 + counts] = 300000;
		at = 2 + counts;
		at += text_put(
			world, kind, &word[at], i ? "default_pg" : "a prefix that is kept far off/", world->far[i]);
		word[at] = i ? address_of(world->base) : address_of(world->prefix[1]);
	}
	world->base[0] = class_make(&world->tcp_class, "N4c10d8TCPStoreE");
	world->base[1] = 2;
	world->base[1 + counts] = 300000;
	at = 2 + counts;
	at += text_put(world, kind, &world->base[at], "10.0.0.1", NULL);
	world->base[at] = 29500;
}

static struct gloo_process self_of(void)
{
	return (struct gloo_process){.pid = (uint32_t)getpid(), .proc_root = "/proc", .boot_id = "boot", .job = "job"};
}

static int snapshot(const struct world *world, struct gloo_group *ret)
{
	const struct gloo_process self = self_of();
	const char *reason = NULL;
	int r = gloo_identity_read(&self, address_of(world->group), ret, &reason);

	assert_non_null(reason);
	assert_int_equal(reason[0] == '\0', r == 0);
	return r;
}

static uint64_t identity_of(const struct world *world)
{
	struct gloo_group group = {0};

	assert_int_equal(snapshot(world, &group), 0);
	assert_true(group.identity);
	assert_int_equal(group.member, 1);
	assert_int_equal(group.members, 4);
	return group.identity;
}

TEST(all_layouts_are_one_group)
{
	struct world world;
	uint64_t first = 0;

	for (unsigned i = 0; i < 8; i++) {
		world_make(&world, i & 1 ? TEXT_BEFORE : TEXT_NOW, i & 2 ? 1 : 2, i & 4);
		if (!first)
			first = identity_of(&world);
		assert_int_equal(identity_of(&world), first);
	}
}

/* NCCL's groups begin like gloo's. */
TEST(names_of_nccl_are_recognised)
{
	static struct world world;
	char name[64] = "before";

	world_make(&world, TEXT_NOW, 1, true);
	assert_int_equal(
		torch_group_nccl_name((uint32_t)getpid(), address_of(world.group), name, sizeof(name)), -ENOENT);
	assert_string_equal(name, "");
	world.group[0] = class_make(&world.group_class, "N4c10d16ProcessGroupNCCLE");
	assert_int_equal(torch_group_nccl_name((uint32_t)getpid(), address_of(world.group), name, sizeof(name)), 0);
	assert_string_equal(name, "tensor parallel");
	assert_int_equal(torch_group_nccl_name((uint32_t)getpid(), 16, name, sizeof(name)), -ENOENT);
	assert_string_equal(name, "");
}

TEST(names_are_recognised)
{
	struct gloo_group group;
	struct world world;

	for (unsigned i = 0; i < 2; i++) {
		world_make(&world, i ? TEXT_BEFORE : TEXT_NOW, 1, true);
		assert_int_equal(snapshot(&world, &group), 0);
		assert_string_equal(group.name, "tensor parallel");
	}
	world_make(&world, TEXT_NOW, 2, false);
	assert_int_equal(snapshot(&world, &group), 0);
	assert_string_equal(group.name, "");
}

TEST(other_groups_differ)
{
	struct world world;
	uint64_t first, other;

	world_make(&world, TEXT_NOW, 1, true);
	first = identity_of(&world);
	world.far[0][2]++; /* a prefix */
	assert_int_not_equal(identity_of(&world), first);
	world.far[0][2]--;
	assert_int_equal(identity_of(&world), first);
	world.base[7]++; /* the port */
	assert_int_not_equal(identity_of(&world), first);
	world.base[7]--;
	memcpy(&world.base[5], "10.0.0.2", 8);
	assert_int_not_equal(identity_of(&world), first);
	memcpy(&world.base[5], "127.0.0.", 8); /* of this host: its network namespace is part of it */
	other = identity_of(&world);
	assert_int_not_equal(other, first);
}

/* The boundary between two prefixes counts. */
TEST(prefixes_do_not_run_together)
{
	struct world one, two;

	world_make(&one, TEXT_BEFORE, 1, false);
	strcpy(one.before[0].text, "ab");
	one.before[0].length = 2;
	strcpy(one.before[1].text, "c");
	one.before[1].length = 1;
	world_make(&two, TEXT_BEFORE, 1, false);
	strcpy(two.before[0].text, "b");
	two.before[0].length = 1;
	strcpy(two.before[1].text, "ca");
	two.before[1].length = 2;
	assert_int_not_equal(identity_of(&one), identity_of(&two));
}

TEST(a_file_is_its_inode)
{
	char path[] = "/tmp/ranktrace-gloo-XXXXXX";
	struct gloo_group group;
	struct world world;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	world_make(&world, TEXT_NOW, 1, false);
	world.base[0] = class_make(&world.file_class, "N4c10d9FileStoreE");
	(void)text_put(&world, TEXT_NOW, &world.base[3], path, world.far[1]);
	strcpy(world.far[0], "default");
	world.prefix[1][3] = address_of(world.far[0]);
	world.prefix[1][4] = strlen("default");
	world.prefix[1][5] = 30;
	world.prefix[0][3] = address_of(world.far[0]);
	world.prefix[0][4] = strlen("default");
	(void)identity_of(&world);
	unlink(path);
	close(fd);
	assert_int_equal(snapshot(&world, &group), -ENOENT);
}

TEST(what_is_not_known_is_not_guessed)
{
	struct gloo_group group = {.identity = 5};
	struct world world;

	world_make(&world, TEXT_NOW, 1, true);
	world.base[0] = class_make(&world.hash_class, "N4c10d9HashStoreE");
	assert_int_equal(snapshot(&world, &group), -ENOTSUP);
	world_make(&world, TEXT_NOW, 1, true);
	world.base[7] = 0; /* no port */
	assert_true(snapshot(&world, &group) < 0);
	world_make(&world, TEXT_NOW, 1, true);
	world.gloo[1] = address_of(world.base); /* no prefix */
	assert_true(snapshot(&world, &group) < 0);
	world_make(&world, TEXT_NOW, 1, true);
	world.group[2] = 4ULL | 4ULL << 32; /* number 4 of 4 */
	assert_true(snapshot(&world, &group) < 0);
	world_make(&world, TEXT_NOW, 1, true);
	world.far[0][3] = '\n';
	assert_true(snapshot(&world, &group) < 0);
	world_make(&world, TEXT_NOW, 1, true);
	world.group[0] = 0;
	assert_int_equal(snapshot(&world, &group), -ENOENT);
	assert_int_equal(group.identity, 5);
}

/* Stores in a ring, pointers to nowhere, an object at the end of what is mapped. */
TEST(hostile_memory_ends)
{
	struct gloo_group group;
	struct world world;
	uint64_t *page;

	world_make(&world, TEXT_NOW, 1, true);
	world.prefix[1][7] = address_of(world.prefix[0]);
	assert_true(snapshot(&world, &group) < 0);
	for (size_t i = 0; i < 64; i++) {
		world_make(&world, TEXT_NOW, 1, true);
		for (size_t at = i; at < 64; at++)
			world.group[at] = 0xffffffff00001000ULL + at * 8;
		assert_int_equal(snapshot(&world, &group) == 0, i > STORE_AT);
		world_make(&world, TEXT_NOW, 1, true);
		for (size_t at = i; at < 64; at++)
			world.group[at] = address_of(&world.group[at]); /* each is its own class */
		assert_int_equal(snapshot(&world, &group) == 0, i > STORE_AT);
	}
	world_make(&world, TEXT_NOW, 1, true);
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(munmap((char *)page + 4096, 4096), 0);
	memcpy(page + 512 - 24, world.group, 24 * sizeof(uint64_t));
	world.group[0] = 0;
	/* Its short texts are where they were, so that it is read to the page's end and still whole. */
	const struct gloo_process self = self_of();
	const char *reason;

	assert_int_equal(gloo_identity_read(&self, address_of(page + 512 - 24), &group, &reason), 0);
	assert_int_equal(gloo_identity_read(&self, address_of(page + 512 - 8), &group, &reason), -ENOENT);
	assert_int_equal(gloo_identity_read(&self, 0, &group, &reason), -ENOENT);
	assert_int_equal(gloo_identity_read(&self, 3, &group, &reason), -ENOENT);
	assert_int_equal(gloo_identity_read(&self, UINT64_MAX - 7, &group, &reason), -ENOENT);
	munmap(page, 4096);
}

TEST(reads_are_budgeted)
{
	struct cxx_memory memory = {.pid = (uint32_t)getpid(), .reads_left = 2};
	uint64_t word = 0;

	assert_int_equal(cxx_read(&memory, address_of(&word), &word, sizeof(word)), 0);
	assert_int_equal(cxx_read(&memory, address_of(&word), &word, sizeof(word)), 0);
	assert_int_equal(cxx_read(&memory, address_of(&word), &word, sizeof(word)), -EDQUOT);
}

TEST_MAIN(NULL, NULL)
