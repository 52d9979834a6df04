/* SPDX-License-Identifier: Apache-2.0 */
/* Which file system a file of a process is on, and who serves it: maps.h. */
#include "daemon/probes/maps.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MOUNTINFO_BYTES_MAX (4u << 20)
#define USER_NAMESPACE_INITIAL 0xeffffffdU /* inode; include/linux/proc_ns.h: PROC_USER_INIT_INO */

bool mount_parse(const char *line, unsigned *ret_id, struct mount *ret)
{
	unsigned id, major_number, minor_number;
	unsigned long server_id = 0;
	const char *options;

	if (sscanf(line, "%u %*u %u:%u", &id, &major_number, &minor_number) != 3)
		return false;
	/* After the separator: type, source, options of the file system. Blanks within them are escaped. */
	options = strstr(line, " - ");
	options = options ? strrchr(options, ' ') : NULL;
	options = options ? strstr(options, ",user_id=") : NULL;
	if (options && sscanf(options, ",user_id=%lu", &server_id) != 1)
		return false;
	*ret_id = id;
	*ret = (struct mount){(uint64_t)major_number << 32 | minor_number, server_id};
	return true;
}

/* A descriptor's mount, from /proc/self/fdinfo. */
static int mount_number(int fd, unsigned *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[128];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "mnt_id: %u", ret) == 1)
			return 0;
	return -ENOENT;
}

int mount_of_file(const char *proc_root, uint32_t pid, int fd, struct mount *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0, total = 0;
	unsigned number, id;
	char path[192];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u/mountinfo", proc_root, pid);
	f = mount_number(fd, &number) < 0 ? NULL : fopen(path, "re");
	while (f && total < MOUNTINFO_BYTES_MAX && (n = getline(&line, &size, f)) > 0) {
		struct mount mount;

		total += (size_t)n;
		if (!mount_parse(line, &id, &mount) || id != number)
			continue;
		*ret = mount;
		return 0;
	}
	return -ENOENT;
}

/* Whoever is root in the namespace may mount in it: the node's root, or a user in a namespace of his own. */
static bool mount_is_of_root(const char *proc_root, uint32_t pid)
{
	_cleanup_close_ int mounts_fd = -1, users_fd = -1;
	struct stat st;
	char path[192];

	snprintf(path, sizeof(path), "%s/%u/ns/mnt", proc_root, pid);
	mounts_fd = open(path, O_RDONLY | O_CLOEXEC);
	users_fd = mounts_fd < 0 ? -1 : ioctl(mounts_fd, NS_GET_USERNS);
	return users_fd >= 0 && fstat(users_fd, &st) == 0 && st.st_ino == USER_NAMESPACE_INITIAL;
}

bool mount_is_user_served(const char *proc_root, uint32_t pid, int fd)
{
	struct mount mount;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	if (fs.f_type != FUSE_SUPER_MAGIC && fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return false;
	return mount_of_file(proc_root, pid, fd, &mount) < 0 || mount.server_id != 0 ||
	       !mount_is_of_root(proc_root, pid);
}
