/* SPDX-License-Identifier: Apache-2.0 */
/* Cards of ranks by their open device nodes: contents of the links, the result, and when they are read. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <fcntl.h>

#include "daemon/ranks/ranks_internal.h"
#include "tests/unit/ranks_fixture.h"

static void fd_path(char *path, size_t size, uint32_t pid, unsigned fd)
{
	snprintf(path, size, "%s/%u/fd/%u", t.root, pid, fd);
}

static void open_node(uint32_t pid, unsigned fd, const char *target)
{
	char path[256];

	fake_folder(t.root, pid, "/fd");
	fd_path(path, sizeof(path), pid, fd);
	(void)unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static void close_node(uint32_t pid, unsigned fd)
{
	char path[256];

	fd_path(path, sizeof(path), pid, fd);
	assert_int_equal(unlink(path), 0);
}

static void open_all(uint32_t pid, unsigned first, unsigned count)
{
	char target[64];

	for (unsigned i = 0; i < count; i++) {
		snprintf(target, sizeof(target), "/dev/nvidia%u", first + i);
		open_node(pid, 10 + i, target);
	}
}

/* What a process with one link has open; the card's number, -1 for none, -2 for ROCm. */
static int card_of_link(const char *target)
{
	struct rank_card_nodes nodes;
	char card[16];

	open_node(500, 3, target);
	assert_int_equal(rank_card_read(t.root, 500, &nodes), 0);
	assert_false(nodes.rocm);
	return rank_card_pick(&nodes, -1, -1, card, sizeof(card)) ? atoi(card) : -1;
}

TEST_WITH(test_names, setup, teardown)
{
	static const char *const foreign[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia",
		"/dev/davinci_manager", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia1 (deleted)", "/dev/nvidia1x",
		"/dev/nvidia-1", "/dev/nvidia+1", "/dev/nvidia 1", "/dev/nvidia01", "/dev/nvidia00", "/dev/nvidia256",
		"/dev/nvidia4294967297", "/dev/nvidia18446744073709551617",
		"/dev/nvidia99999999999999999999999999999999999999999999999999", "/dev/nvidia1\n",
		"/dev/nvidia1/../nvidia2", "/tmp/dev/nvidia1", "/dev/Nvidia1", "dev/nvidia1", "socket:[1]",
		"anon_inode:[eventpoll]", "/dev/nvidia\xd9\xa1", "/dev/nvidia1\x01", "/dev/nvme0", "/", "/dev/kfd",
		"/dev/dri/renderD128", "/dev/dri/card1"};

	PUT(500, 1, 100, TORCH);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (card_of_link(foreign[i]) != -1)
			fail_msg("%s is taken for a card", foreign[i]);
	assert_int_equal(card_of_link("/dev/nvidia0"), 0);
	assert_int_equal(card_of_link("/dev/nvidia3"), 3);
	assert_int_equal(card_of_link("/dev/nvidia255"), 255);
	assert_int_equal(card_of_link("/dev/davinci12"), 12);
}

TEST_WITH(test_hostile_folder, setup, teardown)
{
	static char longest[1025];
	struct rank_card_nodes nodes = {.rocm = true};

	/* No folder, no process: nothing was read, nothing is said. */
	PUT(500, 1, 100, TORCH);
	assert_int_equal(rank_card_read(t.root, 500, &nodes), -ENOENT);
	assert_int_equal(rank_card_read(t.root, 501, &nodes), -ENOENT);
	assert_true(nodes.rocm);
	/* A file where the folder should be; folders and files where links should be. */
	fake_write(t.root, 500, "fd", "x", 1);
	assert_int_equal(rank_card_read(t.root, 500, &nodes), -ENOTDIR);
	PUT(502, 1, 100, TORCH);
	fake_folder(t.root, 502, "/fd");
	fake_folder(t.root, 502, "/fd/4");
	fake_write(t.root, 502, "fd/5", "/dev/nvidia1", 12);
	memset(longest, '/', sizeof(longest) - 1);
	memcpy(longest, "/dev/nvidia2", 12);
	open_node(502, 6, longest);
	/* As long as the buffer. */
	longest[64] = 0;
	open_node(502, 7, longest);
	open_node(502, 8, "/dev/nvidia5");
	assert_int_equal(rank_card_read(t.root, 502, &nodes), 0);
	assert_true(nodes.open[0] == UINT64_C(1) << 5 && !nodes.open[1] && !nodes.open[2] && !nodes.open[3]);
	assert_false(nodes.rocm);
}

TEST_WITH(test_many_descriptors, setup, teardown)
{
	struct rank_card_nodes nodes;
	unsigned read = 0;

	PUT(500, 1, 100, TORCH);
	/* Of each number as many: what is read is at most the bound, in any order of the folder. */
	for (unsigned fd = 0; fd < RANK_CARD_FDS_MAX + RANK_CARD_NUMBERS; fd++) {
		char target[64];

		snprintf(target, sizeof(target), fd < RANK_CARD_NUMBERS ? "/dev/nvidia%u" : "socket:[%u]", fd);
		open_node(500, fd, target);
	}
	assert_int_equal(rank_card_read(t.root, 500, &nodes), 0);
	for (size_t i = 0; i < ARRAY_SIZE(nodes.open); i++)
		read += (unsigned)__builtin_popcountll(nodes.open[i]);
	assert_true(read < RANK_CARD_NUMBERS);
}

static void check_pick(uint64_t open, int32_t local_rank, int32_t local_world_size, const char *expected)
{
	const struct rank_card_nodes nodes = {.open = {open}};
	char card[16] = "none";

	assert_int_equal(rank_card_pick(&nodes, local_rank, local_world_size, card, sizeof(card)), *expected != 0);
	assert_string_equal(card, *expected ? expected : "none");
}

TEST_WITH(test_pick, setup, teardown)
{
	struct rank_card_nodes nodes = {.rocm = true};
	char card[16];

	check_pick(0, 3, 8, "");
	/* The only one, whatever the local rank. */
	check_pick(1 << 5, 3, 8, "5");
	check_pick(1 << 5, -1, -1, "5");
	check_pick(1 << 0, 0, 1, "0");
	/* All of the node, or all that its container has. */
	check_pick(0xff, 3, 8, "3");
	check_pick(0xff, 3, -1, "3");
	check_pick(0xff, 0, 2, "0");
	check_pick(0xf0, 1, 4, "5");
	check_pick(0xff, -1, -1, "");
	/* Its own and a peer's: fewer than there are ranks. */
	check_pick(0x0a, 1, 4, "1");
	check_pick(0x09, 3, 4, "3");
	/* Nonsense of launchers. */
	check_pick(0x09, 1000000, -1, "1000000");
	check_pick(0x09, 5, 2, "5");
	check_pick(0x09, 0, 1000000, "0");
	/* ROCm numbers its nodes otherwise. */
	assert_true(rank_card_pick(&nodes, 2, 8, card, sizeof(card)));
	assert_string_equal(card, "2");
	assert_false(rank_card_pick(&nodes, -1, -1, card, sizeof(card)));
	nodes = (struct rank_card_nodes){.open = {0, 0, 0, UINT64_C(1) << 63}};
	assert_true(rank_card_pick(&nodes, 2, 8, card, sizeof(card)));
	assert_string_equal(card, "255");
}

static const char *card_of(uint32_t pid)
{
	const struct rank *rank = ranks_by_pid(t.ranks, pid);

	assert_non_null(rank);
	return rank->env.card;
}

static void begin(void)
{
	assert_int_equal(ranks_scan(t.ranks), 0);
	t.now_ns = monotonic_ns();
}

TEST_WITH(test_found_later, setup, teardown)
{
	unsigned rows;

	PUT(101, 1, 200, TORCH, ENV("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=3\0LOCAL_WORLD_SIZE=8"));
	begin();
	pass(20 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "");
	assert_int_equal(t.changed, 0);
	/* Nodes open one by one, over seconds: the first is not the card. */
	for (unsigned i = 1; i <= 8; i++) {
		open_all(101, 0, i);
		pass(3 * NSEC_PER_SEC);
	}
	pass(NSEC_PER_SEC);
	rows = t.rows;
	assert_true(t.changed <= 1);
	pass(5 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "3");
	assert_int_equal(t.changed, 1);
	assert_true(t.rows >= rows);
	assert_string_equal(t.row_card, "3");
	assert_int_equal(t.row_rank, 3);
	/* It is not searched again. */
	for (unsigned i = 0; i < 8; i++)
		close_node(101, 10 + i);
	open_node(101, 10, "/dev/nvidia6");
	pass(200 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "3");
	assert_int_equal(t.changed, 1);
}

TEST_WITH(test_the_only_one, setup, teardown)
{
	PUT(101, 1, 200, TORCH, ENV("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=3\0LOCAL_WORLD_SIZE=8"));
	open_node(101, 4, "/dev/nvidiactl");
	open_node(101, 5, "/dev/nvidia-uvm");
	open_node(101, 6, "/dev/nvidia5");
	open_node(101, 7, "/dev/nvidia5");
	begin();
	pass(4 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "");
	pass(4 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "5");
	assert_int_equal(t.changed, 1);
	assert_string_equal(t.row_card, "5");
}

TEST_WITH(test_rocm, setup, teardown)
{
	PUT(101, 1, 200, TORCH, ENV("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=1"));
	open_node(101, 4, "/dev/kfd");
	begin();
	pass(10 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "");
	open_node(101, 5, "/dev/dri/renderD128");
	open_node(101, 6, "/dev/dri/renderD129");
	pass(10 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "1");
}

/* Known ranks are not probed; ranks without a card have none. */
TEST_WITH(test_environment_first, setup, teardown)
{
	PUT(101, 1, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0CUDA_VISIBLE_DEVICES=7,6"));
	PUT(102, 1, 200, TORCH);
	PUT(103, 1, 200, .exe = "/usr/bin/nvidia-smi");
	open_node(101, 6, "/dev/nvidia5");
	open_all(102, 0, 8);
	open_node(103, 6, "/dev/nvidia5");
	begin();
	pass(200 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "7");
	assert_string_equal(card_of(102), "");
	assert_int_equal(t.changed, 0);
}

/* A list in the environment names no card where the machine has none. */
TEST_WITH(test_no_accelerator, setup, teardown)
{
	char path[256];
	FILE *file;

	PUT(101, 1, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0CUDA_VISIBLE_DEVICES=7,6"));
	PUT(102, 1, 200, TORCH, ENV("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=1\0CUDA_VISIBLE_DEVICES=7,6"));
	for (uint32_t pid = 101; pid <= 102; pid++) {
		fake_folder(t.root, pid, "/root");
		fake_folder(t.root, pid,
			"/root"
			"/dev");
		snprintf(path, sizeof(path),
			"%s/%u/root"
			"/dev/%s",
			t.root, pid, pid == 101 ? "null" : "nvidiactl");
		file = fopen(path, "w");
		assert_non_null(file);
		fclose(file);
	}
	begin();
	assert_string_equal(card_of(101), "");
	assert_string_equal(card_of(102), "6");
}

/* After two minutes once a minute: what opens then is found all the same. */
TEST_WITH(test_late, setup, teardown)
{
	PUT(101, 1, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0"));
	begin();
	pass(125 * NSEC_PER_SEC);
	open_node(101, 6, "/dev/nvidia5");
	pass(50 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "");
	pass(130 * NSEC_PER_SEC);
	assert_string_equal(card_of(101), "5");
}

/* Ranks with thousands of descriptors and no card do not keep the last one from its turn, within the bound. */
TEST_WITH(test_turns, setup, teardown)
{
	for (uint32_t pid = 101; pid <= 104; pid++) {
		PUT(pid, 1, 200, TORCH);
		for (unsigned fd = 0; fd < 4000 && pid < 104; fd++)
			open_node(pid, fd, "socket:[1]");
	}
	begin();
	assert_int_equal(ranks_by_pid(t.ranks, 104)->slot, 3);
	pass(3 * NSEC_PER_SEC);
	open_node(104, 5, "/dev/nvidia2");
	pass(12 * NSEC_PER_SEC);
	assert_string_equal(card_of(104), "2");
	assert_int_equal(t.changed, 1);
}

TEST_MAIN(NULL, NULL)
