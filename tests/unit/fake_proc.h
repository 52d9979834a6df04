/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up /proc in a temporary folder, for tests of what reads the real one. */
#ifndef RANKTRACE_TESTS_FAKE_PROC_H
#define RANKTRACE_TESTS_FAKE_PROC_H

#include <assert.h>
#include <ftw.h>
#include <sys/stat.h>

#include "daemon/base/util.h"

#define FAKE_TORCH "7f0000000000-7f0000001000 r-xp 00000000 08:01 42 /opt/torch/lib/libtorch_cpu.so\n"
#define FAKE_PLAIN "7f0000000000-7f0000001000 r-xp 00000000 08:01 43 /lib/libc.so.6\n"

struct fake_process {
	uint32_t pid, parent_pid, uid, swapped_kib;
	unsigned long long start_ticks;
	char state;	  /* 0: S */
	const char *comm; /* NULL: python3 */
	unsigned major_faults;
	const char *exe;     /* NULL: /usr/bin/python3 */
	const char *command; /* with NULs; NULL: python3 train.py */
	size_t command_size;
	const char *environ; /* with NULs */
	size_t environ_size;
	const char *maps;   /* NULL: plain */
	const char *cgroup; /* NULL: / */
	const char *children;
};

#define FAKE_TEXT(field, text) .field = (text), .field##_size = sizeof(text)

static inline void fake_write(const char *root, uint32_t pid, const char *name, const void *data, size_t size)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u/%s", root, pid, name);
	file = fopen(path, "w");
	assert(file);
	assert(fwrite(data, 1, size, file) == size);
	assert(fclose(file) == 0);
}

static inline void fake_folder(const char *root, uint32_t pid, const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%u%s", root, pid, name);
	assert(mkdir(path, 0700) == 0 || errno == EEXIST);
}

/* Makes or changes a process. */
static inline void fake_put(const char *root, const struct fake_process *p)
{
	char stat[1024], path[64], task[32], exe[512];
	const char *maps = p->maps ? p->maps : FAKE_PLAIN, *cgroup = p->cgroup ? p->cgroup : "0::/\n";
	static const char command[] = "python3\0train.py";

	fake_folder(root, p->pid, "");
	fake_folder(root, p->pid, "/task");
	snprintf(task, sizeof(task), "/task/%u", p->pid);
	fake_folder(root, p->pid, task);
	snprintf(stat, sizeof(stat), "%u (%s) %c %u 1 1 0 -1 4194560 1 0 %u 0 1 2 0 0 20 0 1 0 %llu 1 1 1\n", p->pid,
		p->comm ? p->comm : "python3", p->state ? p->state : 'S', p->parent_pid, p->major_faults,
		p->start_ticks);
	fake_write(root, p->pid, "stat", stat, strlen(stat));
	snprintf(stat, sizeof(stat),
		"Name:\tpython3\nState:\t%c (x)\nPid:\t%u\nPPid:\t%u\nUid:\t%u\t%u\t%u\t%u\nVmRSS:\t     120 "
		"kB\nVmSwap:\t      %u kB\n",
		p->state ? p->state : 'S', p->pid, p->parent_pid, p->uid, p->uid, p->uid, p->uid, p->swapped_kib);
	fake_write(root, p->pid, "status", stat, strlen(stat));
	fake_write(root, p->pid, "cmdline", p->command ? p->command : command,
		p->command ? p->command_size : sizeof(command));
	fake_write(root, p->pid, "environ", p->environ ? p->environ : "", p->environ ? p->environ_size : 0);
	fake_write(root, p->pid, "maps", maps, strlen(maps));
	fake_write(root, p->pid, "cgroup", cgroup, strlen(cgroup));
	snprintf(path, sizeof(path), "task/%u/children", p->pid);
	fake_write(root, p->pid, path, p->children ? p->children : "", p->children ? strlen(p->children) : 0);
	snprintf(exe, sizeof(exe), "%s/%u/exe", root, p->pid);
	(void)unlink(exe);
	assert(symlink(p->exe ? p->exe : "/usr/bin/python3", exe) == 0);
}

#define FAKE_PUT(root, p, parent, start, ...) \
	fake_put(root, &(struct fake_process){.pid = (p), .parent_pid = (parent), .start_ticks = (start), __VA_ARGS__})

static inline int fake_remove_one(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
	return remove(path);
}

static inline void fake_remove(const char *root, uint32_t pid)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%u", root, pid);
	assert(nftw(path, fake_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static inline void fake_new(char *root, size_t size)
{
	const char *folder = getenv("TMPDIR");

	snprintf(root, size, "%s/ranktrace-proc-XXXXXX", folder ? folder : "/tmp");
	assert(mkdtemp(root));
}

static inline void fake_free(const char *root)
{
	assert(nftw(root, fake_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

#endif
