/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of library files over a made-up /proc: inodes come, are replaced, deleted and shared, and maps lie. */
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "daemon/probes/libraries.h"
#include "daemon/probes/maps.h"
#include "tests/test.h"
#include "tests/unit/fake_proc.h"

#define START 0x7f0000000000ULL

static char proc[512];
static struct libraries *libraries;
static unsigned added, dropped, refused;
static int refusal;
static struct library *last;

static const char *const wanted[] = {"libwanted.so*", NULL};

static void on_added(void *arg, struct library *library)
{
	added++;
	last = library;
}

static void on_dropped(void *arg, struct library *library)
{
	dropped++;
}

static void on_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	assert_non_null(path);
	refusal = error;
	refused++;
}

static void path_in(char *path, size_t size, uint32_t pid, const char *name)
{
	assert_true((size_t)snprintf(path, size, "%s/%u/%s", proc, pid, name) < size);
}

/* A file in the root of a process; returns its inode. */
static unsigned long put_file(uint32_t pid, const char *name, const char *text)
{
	char path[8192], inside[5000];
	struct stat st;
	FILE *f;

	assert_true(snprintf(inside, sizeof(inside), "root%s", name) < (int)sizeof(inside));
	path_in(path, sizeof(path), pid, inside);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void put_process(uint32_t pid)
{
	fake_folder(proc, pid, "");
	fake_folder(proc, pid, "/root");
	fake_folder(proc, pid,
		"/root"
		"/lib"); /* of the process, not ours */
	fake_folder(proc, pid, "/map_files");
}

static int add_line(char *maps, size_t size, unsigned i, unsigned long inode, const char *path)
{
	struct stat st;

	assert_int_equal(stat(proc, &st), 0);
	return snprintf(maps, size, "%llx-%llx r-xp 00001000 %02x:%02x %lu                     %s\n",
		START + i * 0x1000, START + i * 0x1000 + 0x1000, major(st.st_dev), minor(st.st_dev), inode, path);
}

static void put_maps(uint32_t pid, unsigned long inode, const char *path)
{
	char maps[16384];

	add_line(maps, sizeof(maps), 0, inode, path);
	fake_write(proc, pid, "maps", maps, strlen(maps));
}

static int start(void **state)
{
	static const struct libraries_ops ops = {
		.patterns = wanted, .added = on_added, .dropped = on_dropped, .refused = on_refused};

	added = dropped = refused = 0;
	refusal = 0;
	last = NULL;
	fake_new(proc, sizeof(proc));
	put_process(1);
	put_process(2);
	libraries = libraries_new(&ops, proc);
	return !libraries;
}

static int stop(void **state)
{
	libraries = libraries_free(libraries);
	assert_int_equal(added, dropped);
	fake_free(proc);
	return 0;
}

TEST_WITH(test_shared_until_the_last_user_goes, start, stop)
{
	unsigned long inode = put_file(1, "/lib/libwanted.so.1", "one");

	put_maps(1, inode, "/lib/libwanted.so.1");
	put_maps(2, inode, "/lib/libwanted.so.1");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_int_equal(libraries_scan(libraries, 2, 0, 12), 1);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_int_equal(added, 1);
	assert_string_equal(last->base_name, "libwanted.so.1");
	assert_true(library_used_by(last, 11) && library_used_by(last, 12) && !library_used_by(last, 13));
	libraries_forget(libraries, 11);
	assert_int_equal(dropped, 0);
	libraries_forget(libraries, 11);
	libraries_forget(libraries, 12);
	assert_int_equal(dropped, 1);
}

TEST_WITH(test_replaced_under_its_name, start, stop)
{
	unsigned long old = put_file(1, "/lib/libwanted.so", "old"), new;
	char path[1024], from[1024];

	put_maps(1, old, "/lib/libwanted.so");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	new = put_file(1, "/lib/fresh", "new");
	assert_int_not_equal(new, old);
	path_in(path, sizeof(path), 1, "root/lib/libwanted.so");
	path_in(from, sizeof(from), 1, "root/lib/fresh");
	assert_int_equal(rename(from, path), 0);
	put_maps(1, new, "/lib/libwanted.so");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_int_equal(added, 2);
	assert_int_equal(dropped, 1);
}

TEST_WITH(test_unmapped, start, stop)
{
	unsigned long inode = put_file(1, "/lib/libwanted.so", "x"), other = put_file(1, "/lib/libwanted.so.2", "y");
	char maps[1024];

	add_line(maps, sizeof(maps), 0, inode, "/lib/libwanted.so");
	add_line(maps + strlen(maps), sizeof(maps) - strlen(maps), 1, other, "/lib/libwanted.so.2");
	fake_write(proc, 1, "maps", maps, strlen(maps));
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 2);
	put_maps(1, inode, "/lib/libwanted.so");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_int_equal(dropped, 1);
	fake_write(proc, 1, "maps", "", 0); /* it is ending: an event will follow */
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(libraries_scan(libraries, 99, 0, 11), -ENOENT);
}

/* Deleted, and deleted with another file under the name since: what is opened is the file that is mapped. */
TEST_WITH(test_deleted, start, stop)
{
	unsigned long inode = put_file(2, "/lib/gone", "the mapped one");
	char link[1024], name[64], target[1024], text[32] = "";

	put_file(1, "/lib/libwanted.so", "another one");
	put_maps(1, inode, "/lib/libwanted.so (deleted)");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	assert_int_equal(refused, 1);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	assert_int_equal(refused, 1); /* reported once */
	snprintf(name, sizeof(name), "map_files/%llx-%llx", START, START + 0x1000);
	path_in(link, sizeof(link), 1, name);
	path_in(target, sizeof(target), 2, "root/lib/gone");
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_string_equal(last->base_name, "libwanted.so");
	assert_true(pread(last->fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "the mapped one");
}

TEST_WITH(test_long_path, start, stop)
{
	char name[1024] = "", path[2048], folder[1032];

	for (unsigned i = 0; i < 10; i++) {
		size_t used = strlen(name);

		snprintf(name + used, sizeof(name) - used, "/%060u", i);
		snprintf(folder, sizeof(folder), "root%s", name);
		path_in(path, sizeof(path), 1, folder);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(name + strlen(name), sizeof(name) - strlen(name), "/libwanted.so");
	put_maps(1, put_file(1, name, "x"), name);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
	assert_string_equal(last->base_name, "libwanted.so");
	assert_string_equal(last->path, name);
}

/* What a process may put where its library was: nothing of it is opened, nothing blocks. */
TEST_WITH(test_no_regular_file, start, stop)
{
	static const char *const names[] = {"/lib/libwanted.so.fifo", "/lib/libwanted.so.loop",
		"/lib/libwanted.so.folder", "/lib/libwanted.so.out", "/lib/libwanted.so.none"};
	char path[ARRAY_SIZE(names)][1024], maps[4096] = "";

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		char inside[128];

		snprintf(inside, sizeof(inside), "root%s", names[i]);
		path_in(path[i], sizeof(path[i]), 1, inside);
		add_line(maps + strlen(maps), sizeof(maps) - strlen(maps), i, 1000 + i, names[i]);
	}
	assert_int_equal(mkfifo(path[0], 0600), 0);
	assert_int_equal(symlink("libwanted.so.loop", path[1]), 0);
	assert_int_equal(mkdir(path[2], 0700), 0);
	assert_int_equal(symlink("/proc/self/exe", path[3]), 0); /* there is none in the process's root */
	fake_write(proc, 1, "maps", maps, strlen(maps));
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	assert_int_equal(added, 0);
	assert_int_equal(refused, ARRAY_SIZE(names));
}

TEST_WITH(test_hostile_lines, start, stop)
{
	static const char *const lines[] = {
		"",
		"\n",
		" \n",
		"r-xp\n",
		"1-2 r-x",
		"7f00-7f01 r-xp\n",
		"7f00-7f01 r-xp 0 08:01 5\n",
		"7f00-7f01 r-xp 0 08:01 0 /lib/libwanted.so\n",
		"7f00-7f01 r--p 0 08:01 5 /lib/libwanted.so\n",
		"7f00-7f01 r-xp 0 08:01 5 libwanted.so\n",
		"7f00-7f01 r-xp 0 08:01 5 [vdso]/x\n",
		"7f00-7f01 r-xp 0 08:01 5 anon_inode:/libwanted.so\n",
		"zz-zz r-xp 0 08:01 5 /lib/libwanted.so\n",
		"7f00-7f01 r-xp 0 08:01 99999999999999999999999999 /lib/libother.so\n",
		"7f00-7f01 r-xp 0 08:01 5 /lib/libwanted.so\\012x/other\n",
		"7f00-7f01 r-xp 0 08:01 5 / (deleted)\n",
		"7f00-7f01 r-xp 0 08:01 5 / (deleted) (deleted)",
	};
	char *big;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		fake_write(proc, 1, "maps", lines[i], strlen(lines[i]));
		assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	}
	assert_int_equal(refused, 0);
	big = malloc(100000);
	assert_non_null(big);
	memset(big, 'a', 100000);
	memcpy(big, "7f00-7f01 r-xp 0 08:01 5 /", 26);
	memcpy(big + 100000 - 14, "/libwanted.so\n", 14);
	fake_write(proc, 1, "maps", big, 100000);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	assert_int_equal(refused, 0);
	free(big);
}

/* Of a chrooted process maps name files from our root, and its links are its own. */
TEST_WITH(test_chrooted, start, stop)
{
	char jail[1024], link[1024], name[2048];
	unsigned long inode = put_file(2, "/lib/libwanted.so", "x");

	fake_folder(proc, 3, "");
	path_in(jail, sizeof(jail), 2, "root");
	path_in(link, sizeof(link), 3, "root");
	assert_int_equal(symlink(jail, link), 0);
	snprintf(name, sizeof(name), "%s/lib/libwanted.so", jail);
	put_maps(3, inode, name);
	assert_int_equal(libraries_scan(libraries, 3, 0, 13), 1);
	path_in(link, sizeof(link), 2, "root/absolute");
	assert_int_equal(symlink("/lib", link), 0);
	put_maps(3, inode, "/absolute/libwanted.so");
	assert_int_equal(libraries_scan(libraries, 3, 0, 13), 1);
	libraries_forget(libraries, 13);
	assert_int_equal(libraries_scan(libraries, 3, 0, 13), 1);
	assert_int_equal(refused, 0);
}

/* A newline in a name is written \012 by the kernel: found through map_files only. */
TEST_WITH(test_newline_in_a_name, start, stop)
{
	char link[1024], name[64], target[1024];
	unsigned long inode = put_file(1, "/lib/a\nlibwanted.so", "x");

	put_maps(1, inode, "/lib/a\\012b/libwanted.so");
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 0);
	snprintf(name, sizeof(name), "map_files/%llx-%llx", START, START + 0x1000);
	path_in(link, sizeof(link), 1, name);
	path_in(target, sizeof(target), 1, "root/lib/a\nlibwanted.so");
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(libraries_scan(libraries, 1, 0, 11), 1);
}

/* The process belongs to this user. */
/*
 * Of one process, and of one user. Alone he may have half of the table; a second user then a third of it, and more of
 * the first are refused.
 */
TEST_WITH(test_too_many, start, stop)
{
	static const unsigned files[] = {MAPS_FILES_MAX + 3, MAPS_FILES_MAX, 5};
	static const uint32_t uid_of[] = {1001, 1002, 1001};
	static const int used_of[] = {LIBRARIES_MAX / 2, LIBRARIES_MAX / 3, 0};
	size_t size = (MAPS_FILES_MAX + 8) * 160;
	char *maps = calloc(1, size);

	assert_non_null(maps);
	assert_int_equal(LIBRARIES_MAX, 2 * MAPS_FILES_MAX);
	put_process(3);
	for (uint32_t pid = 1; pid <= 3; pid++) {
		size_t used = 0;

		for (unsigned i = 0; i < files[pid - 1]; i++) {
			char name[64];

			snprintf(name, sizeof(name), "/lib/libwanted.so.%u.%u", pid, i);
			used += (size_t)add_line(maps + used, size - used, i, put_file(pid, name, ""), name);
		}
		fake_write(proc, pid, "maps", maps, used);
		assert_int_equal(libraries_scan(libraries, pid, uid_of[pid - 1], pid), used_of[pid - 1]);
	}
	assert_int_equal(refused, MAPS_FILES_MAX - LIBRARIES_MAX / 3 + 5);
	assert_int_equal(refusal, -ENOSPC);
	free(maps);
}

TEST_MAIN(NULL, NULL)
