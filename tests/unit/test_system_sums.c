/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel took from ranks, to rows; and which device a request counts for. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/collect/collect_system.c"
#include "tests/unit/call_sinks_fixture.h"

#define DISK(major, minor) ((major) << RT_SYSTEM_MINOR_BITS | (minor))
#define NOW_NS (1 * NSEC_PER_SEC) /* also just after the start of the machine */

static struct rt_system_sums test_now;

bool kernel_system_sums(const struct kernel *kernel, uint32_t slot, struct rt_system_sums *ret)
{
	*ret = slot == 1 ? test_now : (struct rt_system_sums){0};
	return slot < ARRAY_SIZE(ranks_here);
}

static void request(uint32_t device, bool is_write, uint64_t now_ns, uint64_t took_ns)
{
	struct rt_system_sum *sum = rt_system_block_sum(&test_now, device, is_write, now_ns);

	sum->count++;
	sum->bytes += 4096;
	sum->time_ns += took_ns;
}

TEST(test_places_of_devices)
{
	memset(&test_now, 0, sizeof(test_now));
	for (uint32_t device = 1; device <= RT_SYSTEM_DEVICES; device++) {
		request(DISK(8U, device), true, NOW_NS, 10);
		request(DISK(8U, device), true, NOW_NS + 1, 10);
		request(DISK(8U, device), false, NOW_NS + 1, 10);
	}
	for (uint32_t i = 0; i < RT_SYSTEM_DEVICES; i++) {
		assert_int_equal(test_now.device[i].device, DISK(8U, i + 1));
		assert_int_equal(test_now.device[i].of[0].count, 1);
		assert_int_equal(test_now.device[i].of[1].count, 2);
	}
	/* One too many, and one whose disk is not known. */
	request(DISK(259U, 0), true, NOW_NS + 2, 7);
	request(0, false, NOW_NS + 2, 7);
	assert_int_equal(test_now.of[RT_SYSTEM_BLOCK_WRITE].time_ns, 7);
	assert_int_equal(test_now.of[RT_SYSTEM_BLOCK_READ].time_ns, 7);
	/* It has the place of one that is not used any more. Sums go on from there. */
	for (uint32_t device = 1; device < RT_SYSTEM_DEVICES; device++)
		request(DISK(8U, device), true, NOW_NS + RT_SYSTEM_DEVICE_IDLE_NS, 10);
	request(DISK(259U, 0), true, NOW_NS + RT_SYSTEM_DEVICE_IDLE_NS + 1, 7);
	assert_int_equal(test_now.of[RT_SYSTEM_BLOCK_WRITE].time_ns, 14);
	request(DISK(259U, 0), true, NOW_NS + RT_SYSTEM_DEVICE_IDLE_NS + 2, 7);
	assert_int_equal(test_now.of[RT_SYSTEM_BLOCK_WRITE].time_ns, 14);
	assert_int_equal(test_now.device[RT_SYSTEM_DEVICES - 1].device, DISK(259U, 0));
	assert_int_equal(test_now.device[RT_SYSTEM_DEVICES - 1].of[1].count, 3);
}

static void link_to(const char *folder, const char *number, const char *to)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, number);
	assert_int_equal(symlink(to, path), 0);
}

TEST_WITH(test_sums_become_rows, fixture_setup, fixture_teardown)
{
	static struct rt_system_sums last[ARRAY_SIZE(ranks_here)];
	char folder[] = "/tmp/rt-system-XXXXXX";
	struct system system = {.context = &context, .slots = ARRAY_SIZE(last), .sums = last};
	uint64_t now_ns = monotonic_ns();

	system.devices = mkdtemp(folder);
	assert_non_null(system.devices);
	link_to(folder, "259:1", "../../devices/pci0000:00/nvme/nvme0/nvme0n1");
	link_to(folder, "254:0", "../../devices/virtual/block/dm-0\n");
	memset(&test_now, 0, sizeof(test_now));
	request(DISK(8U, 1), true, now_ns, 1); /* of the rank that had the slot before */
	collect_system_take(&system, 1, NULL, now_ns);
	test_now.of[RT_SYSTEM_RECLAIM] = (struct rt_system_sum){.count = 2, .time_ns = 20};
	test_now.of[RT_SYSTEM_RESET] = (struct rt_system_sum){.count = 1};
	request(DISK(259U, 1), true, now_ns, 300);
	request(DISK(259U, 1), false, now_ns, 30);
	request(DISK(254U, 0), true, now_ns, 400);
	request(DISK(7U, 9), true, now_ns, 5);
	request(DISK(7U, 8), true, now_ns, 6);
	collect_system_take_all(&system, now_ns);
	collect_system_take_all(&system, now_ns + NSEC_PER_SEC); /* nothing since */
	flush();
	assert_query(
		"select rank, cause, device, count, time_ns, bytes, instance from system_sums order by cause, device",
		"1|TCP resets|NULL|1|NULL|NULL|2\n1|block reads|nvme0n1|1|30|4096|2\n1|block writes|NULL|1|6|4096|2\n"
		"1|block writes|7:9|1|5|4096|2\n1|block writes|dm-0 |1|400|4096|2\n1|block "
		"writes|nvme0n1|1|300|4096|2\n"
		"1|reclaim|NULL|2|20|NULL|2\n");
	sh("rm -rf '%s'", folder);
}

/* Names are kept for a round, and of a few. */
TEST(test_names_of_devices)
{
	char folder[] = "/tmp/rt-system-XXXXXX", path[PATH_MAX];
	struct system system = {.names = 0};

	system.devices = mkdtemp(folder);
	assert_non_null(system.devices);
	link_to(folder, "8:16", "../block/sda");
	assert_string_equal(collect_system_name(&system, DISK(8U, 16)).text, "sda");
	snprintf(path, sizeof(path), "%s/8:16", folder);
	unlink(path);
	link_to(folder, "8:16", "../block/sdb");
	assert_string_equal(collect_system_name(&system, DISK(8U, 16)).text, "sda");
	system.names = 0;
	assert_string_equal(collect_system_name(&system, DISK(8U, 16)).text, "sdb");
	for (uint32_t i = 0; i < 3 * SYSTEM_NAMES_MAX; i++) {
		snprintf(path, sizeof(path), "9:%u", i);
		assert_string_equal(collect_system_name(&system, DISK(9U, i)).text, path);
	}
	assert_int_equal(system.names, SYSTEM_NAMES_MAX);
	sh("rm -rf '%s'", folder);
}

TEST_MAIN(NULL, NULL)
