/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of mountinfo, and whose file system a file of this process is on. */
#include "daemon/probes/maps.h"

#include <fcntl.h>

#include "tests/test.h"

static void assert_mount(const char *line, unsigned id, uint64_t device, uint64_t server_id)
{
	struct mount mount;
	unsigned found;

	assert_true(mount_parse(line, &found, &mount));
	assert_int_equal(found, id);
	assert_int_equal(mount.device, device);
	assert_int_equal(mount.server_id, server_id);
}

TEST(test_lines)
{
	struct mount mount;
	unsigned id;

	assert_mount("36 35 98:5 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n", 36,
		98ULL << 32 | 5, 0);
	assert_mount("80 31 0:52 / /data rw,nosuid shared:9 - fuse.sshfs a:/b rw,user_id=1000,group_id=1000\n", 80, 52,
		1000);
	assert_mount("81 31 0:53 / /data rw - fuse.juicefs x rw,user_id=0,group_id=0,allow_other\n", 81, 53, 0);
	/* What a user can name is before the options. */
	assert_mount("82 31 0:54 / /a,user_id=0 rw - fuse s,user_id=0 rw,user_id=7,group_id=7\n", 82, 54, 7);
	assert_false(mount_parse("82 31 0:54 / /a rw - fuse s rw,user_id=x\n", &id, &mount));
	assert_false(mount_parse("\n", &id, &mount));
}

TEST(test_files_here)
{
	_cleanup_close_ int root = open("/", O_PATH | O_CLOEXEC), proc = open("/proc/self/stat", O_PATH | O_CLOEXEC);
	struct mount mount;

	assert_int_equal(mount_of_file("/proc", (uint32_t)getpid(), root, &mount), 0);
	assert_int_equal(mount_of_file("/nothing", (uint32_t)getpid(), root, &mount), -ENOENT);
	assert_false(mount_is_user_served("/proc", (uint32_t)getpid(), proc));
	assert_true(mount_is_user_served("/proc", (uint32_t)getpid(), -1));
}

TEST_MAIN(NULL, NULL)
