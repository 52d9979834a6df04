/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD: a disk that is at fault while the file in DISK_FAULT exists. It says "slow N": each sync takes N seconds;
 * or "readonly": each write to a file fails, as after an error that turns a file system read-only. (A mounted one
 * cannot be made read-only while a file on it is open for writing.)
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static void read_fault(char ret[32])
{
	const char *path = getenv("DISK_FAULT");
	FILE *file = path ? fopen(path, "re") : NULL;

	ret[0] = 0;
	if (!file)
		return;
	if (!fgets(ret, 32, file))
		ret[0] = 0;
	fclose(file);
}

static int is_read_only(void)
{
	char fault[32];

	read_fault(fault);
	if (strncmp(fault, "readonly", 8) != 0)
		return 0;
	errno = EROFS;
	return 1;
}

static int synced(const char *name, int fd)
{
	int (*real)(int fd);
	char fault[32];
	unsigned seconds;

	*(void **)&real = dlsym(RTLD_NEXT, name);
	read_fault(fault);
	seconds = strncmp(fault, "slow ", 5) == 0 ? (unsigned)strtoul(fault + 5, NULL, 10) : 0;
	while (seconds > 0)
		seconds = sleep(seconds);
	return real(fd);
}

EXPORTED int fsync(int fd)
{
	return synced("fsync", fd);
}

EXPORTED int fdatasync(int fd)
{
	return synced("fdatasync", fd);
}

EXPORTED ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	ssize_t (*real)(int fd, const void *data, size_t size, off64_t at);

	*(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
	return is_read_only() ? -1 : real(fd, data, size, at);
}

EXPORTED ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	return pwrite64(fd, data, size, at);
}

EXPORTED int ftruncate64(int fd, off64_t size)
{
	int (*real)(int fd, off64_t size);

	*(void **)&real = dlsym(RTLD_NEXT, "ftruncate64");
	return is_read_only() ? -1 : real(fd, size);
}

EXPORTED int ftruncate(int fd, off_t size)
{
	return ftruncate64(fd, size);
}
