/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps: of the kernel, and of what is none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/base/proc_maps.h"

#include "tests/test.h"

static bool parse(const char *text, struct proc_map *ret)
{
	static char line[256];

	(void)snprintf(line, sizeof(line), "%s", text);
	return proc_map_parse(line, ret);
}

TEST(fields)
{
	struct proc_map map;

	assert_true(parse("7f0000001000-7f00000a2000 r-xp 00028000 103:02 4063255      /usr/a b/libc.so.6\n", &map));
	assert_true(map.start == 0x7f0000001000 && map.end == 0x7f00000a2000 && map.offset == 0x28000);
	assert_true(map.device_major == 0x103 && map.device_minor == 2 && map.inode == 4063255);
	assert_true(map.readable && map.executable && !map.deleted);
	assert_string_equal(map.path, "/usr/a b/libc.so.6");
	assert_true(parse("1000-2000 ---p 00000000 00:00 0 \n", &map));
	assert_true(!map.readable && !map.executable && map.inode == 0);
	assert_string_equal(map.path, "");
	assert_true(parse("1000-2000 rw-p 00000000 00:00 0", &map));
	assert_true(parse("1000-2000 rw-p 00000000 00:00 0    [heap]\n", &map));
	assert_string_equal(map.path, "[heap]");
	assert_true(parse("1000-2000 r--p 00000000 08:01 7    /tmp/x (deleted)\n", &map));
	assert_true(map.deleted);
	assert_string_equal(map.path, "/tmp/x");
	/* The name of a file that exists. */
	assert_true(parse("1000-2000 r--p 00000000 08:01 7    /tmp/(deleted)\n", &map));
	assert_false(map.deleted);
	/* A range of the kernel's own addresses. */
	assert_true(parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", &map));
	assert_true(map.end == 0xffffffffff601000);
}

TEST(refused)
{
	static const char *const lines[] = {"", "\n", "garbage", "1000-2000", "1000-2000 r-xp",
		"1000 2000 r-xp 0 08:01 7 /x", "2000-1000 r-xp 0 08:01 7 /x", "1000-2000 rxp 0 08:01 7 /x",
		"1000-2000 r-xp 0 0801 7 /x", "1000-2000 r-xp 0 08:01 x /x", "-1-2000 r-xp 0 08:01 7 /x",
		" 1000-2000 r-xp 0 08:01 7 /x"};
	struct proc_map map;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (parse(lines[i], &map))
			fail_msg("accepted: '%s'", lines[i]);
}

static bool count(void *arg, const struct proc_map *map)
{
	unsigned *left = arg;

	return --*left > 0;
}

TEST(each)
{
	char root[] = "/tmp/proc_maps.XXXXXX", path[64];
	unsigned left = UINT32_MAX;
	FILE *file;

	assert_int_equal(proc_maps_each("/proc", (uint32_t)getpid(), count, &left), 0);
	assert_true(left < UINT32_MAX - 10);
	left = 3;
	assert_int_equal(proc_maps_each("/proc", (uint32_t)getpid(), count, &left), 0);
	assert_int_equal(left, 0);
	assert_non_null(mkdtemp(root));
	assert_int_equal(proc_maps_each(root, 7, count, &left), -ENOENT);
	(void)snprintf(path, sizeof(path), "%s/7", root);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/7/maps", root);
	file = fopen(path, "w");
	assert_non_null(file);
	for (size_t i = 0; i <= PROC_MAPS_BYTES_MAX / 32; i++)
		assert_int_equal(fputs("1000-2000 r-xp 00000000 08:01 7\n", file) < 0, 0);
	assert_int_equal(fclose(file), 0);
	left = UINT32_MAX;
	assert_int_equal(proc_maps_each(root, 7, count, &left), -EFBIG);
	assert_int_equal(UINT32_MAX - left, PROC_MAPS_BYTES_MAX / 32);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/7", root);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(root), 0);
}

TEST_MAIN(NULL, NULL)
