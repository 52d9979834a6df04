/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader program as the daemon runs it: libraries of this process become known through workers, as without them; a
 * file system that does not answer, a file beyond the limits and one behind a link stop nobody; answers are checked.
 */
#define TEST_ALONE /* has a file of the daemon within */
#include <elf.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/probes/quarantine.h"
#include "daemon/probes/reader.h"

static bool disk_is_slow;	      /* a file takes too long to read */
static unsigned asks_left = UINT_MAX; /* until the queue is full */
static uint64_t later_ns;	      /* added to the clock of libraries.c */
static worker_done on_time;	      /* of the file that is read */

static void in_too_long(void *arg, struct worker_reply *reply)
{
	reply->end = WORKER_TIMED_OUT;
	on_time(arg, reply);
}

static int slow_worker_ask(struct workers *of, const struct worker_kind *kind, uint32_t owner, const void *request,
	size_t size_bytes, const int *fd, unsigned fds, worker_done done, void *arg, uint64_t *ret_id)
{
	if (!asks_left)
		return -EBUSY;
	asks_left -= asks_left != UINT_MAX;
	on_time = done;
	return worker_ask(of, kind, owner, request, size_bytes, fd, fds,
		disk_is_slow && kind == &reader_facts_kind ? in_too_long : done, arg, ret_id);
}

#define worker_ask slow_worker_ask
#define monotonic_ns() (monotonic_ns() + later_ns)
#include "daemon/probes/libraries.c" /* NOLINT */
#include "tests/test.h"
#undef monotonic_ns
#undef worker_ask

#define ROW(name, symbol) "[probe \"" name "\"]\nlevel=L1\nlibrary=libc.so.6\nsymbol=" symbol "\nedge=span\nstage=x\n"

static struct event_base *base;
static struct workers *workers;
static struct quarantine *quarantine;
static struct probe_table table;
static struct libraries *libraries;
static char folder[64];
static unsigned added, unread, refused, scanned;
static int result, last_error;
static struct facts seen;

static const char *const patterns[] = {"libc.so.6", "libhostile.so*", NULL};

static void on_added(void *arg, struct library *library)
{
	added++;
	unread += library->facts_error < 0;
	last_error = library->facts_error;
	assert_true(fcntl(library->fd, F_GETFL) & O_PATH);
	if (library->facts && !seen.rows) {
		_cleanup_free_ uint8_t *bytes = NULL;
		size_t size;

		assert_int_equal(facts_encode(library->facts, &bytes, &size), 0);
		assert_int_equal(facts_decode(bytes, size, library->size_bytes, table.probe, table.count, &seen), 0);
	}
}

static void on_dropped(void *arg, struct library *library)
{
}

static void on_refused(void *arg, uint32_t pid, uint32_t uid, const char *path, int error)
{
	refused++;
}

static void on_scanned(void *arg, int64_t instance, int r, uint64_t cost_ns)
{
	scanned++;
	result = r;
}

static struct libraries *libraries_here(void)
{
	const struct libraries_ops ops = {.patterns = patterns,
		.added = on_added,
		.dropped = on_dropped,
		.refused = on_refused,
		.scanned = on_scanned,
		.workers = workers,
		.table = &table,
		.quarantine = quarantine};

	return libraries_new(&ops, "/proc");
}

static int start(void **state)
{
	static const char text[] = ROW("sort", "qsort") ROW("none", "no_such_function") ROW("wild",
		"qsort_*") "[probe "
			   "\"hostile\"]\nlevel=L1\nlibrary=libhostile.so*\nsymbol=f\nedge=entry\nevent=comm_free\n"
			   "[probe "
			   "\"usdt\"]\nlevel=L1\nlibrary=libc.so.6\nusdt=libc:setjmp\nedge=entry\nevent=comm_free\n";
	char error[512];

	disk_is_slow = false;
	added = unread = refused = scanned = 0;
	strcpy(folder, "/tmp/ranktrace-reader-XXXXXX");
	base = event_base_new();
	if (!base || !mkdtemp(folder) || workers_new(base, &workers) < 0 || quarantine_open(folder, &quarantine) < 0 ||
		probe_table_parse(&table, "t.conf", text, strlen(text), error, sizeof(error)) < 0)
		return 1;
	libraries = libraries_here();
	return !libraries;
}

static int stop(void **state)
{
	char path[128];

	facts_free(&seen);
	libraries = libraries_free(libraries);
	workers = workers_free(workers);
	quarantine = quarantine_close(quarantine);
	event_base_free(base);
	probe_table_free(&table);
	snprintf(path, sizeof(path), "rm -rf %s", folder);
	return system(path); /* NOLINT: a name of mkdtemp() */
}

static void run_until(const unsigned *count, unsigned least)
{
	while (*count < least)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void scan(void)
{
	unsigned before = scanned;

	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), 0);
	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), -EALREADY);
	run_until(&scanned, before + 1);
	while (libraries_busy(libraries))
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

/* The same facts as from reading the file here. */
TEST_WITH(test_facts_of_this_process, start, stop)
{
	_cleanup_(facts_free) struct facts here = {0};
	_cleanup_close_ int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);

	assert_int_equal(libraries_scan(libraries, (uint32_t)getpid(), 0, 1), 0);
	run_until(&scanned, 1);
	assert_true(libraries_busy_for(libraries, 1));
	assert_false(libraries_busy_for(libraries, 2));
	while (libraries_busy_for(libraries, 1))
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(added, 1);
	assert_int_equal(unread + refused, 0);
	scan();
	assert_int_equal(result, 1);
	assert_int_equal(added, 1);
	if (fd < 0)
		skip();
	assert_int_equal(facts_find(fd, "libc.so.6", table.probe, table.count, &here), 0);
	assert_int_equal(seen.sites, here.sites);
	assert_true(here.row[0].found && !here.row[1].found && here.sites > 0);
	for (size_t i = 0; i < here.sites; i++) {
		assert_int_equal(seen.site[i].row, here.site[i].row);
		assert_int_equal(seen.site[i].function_offset, here.site[i].function_offset);
		assert_int_equal(seen.site[i].entry_delta, here.site[i].entry_delta);
		assert_int_equal(seen.site[i].returns, here.site[i].returns);
		assert_int_equal(seen.site[i].operands, here.site[i].operands);
	}
}

static void *map_file(const char *path, const void *data, size_t size, off_t length)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	void *mapped;

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, size, 0), size);
	assert_int_equal(ftruncate(fd, length), 0);
	mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(mapped != MAP_FAILED);
	return mapped;
}

/* A header that says four million sections, in a sparse file: known from then on, also by the next daemon. */
TEST_WITH(test_quarantined, start, stop)
{
	static const Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr)};
	struct {
		Elf64_Ehdr header;
		Elf64_Shdr first;
	} file = {header, {.sh_size = 4 << 20}};
	char path[128], list[128];
	struct stat st;
	void *mapped;

	snprintf(path, sizeof(path), "%s/libhostile.so", folder);
	mapped = map_file(path, &file, sizeof(file), 64 + (64LL << 22));
	scan();
	assert_int_equal(added, 2);
	assert_int_equal(unread, 1);
	assert_int_equal(quarantine_count(quarantine), 1);
	/* Written by a thread. */
	snprintf(list, sizeof(list), "%s/%s", folder, QUARANTINE_FILE);
	while (stat(list, &st) < 0 || st.st_size == 0)
		usleep(1000);
	libraries_free(libraries);
	quarantine_close(quarantine);
	assert_int_equal(quarantine_open(folder, &quarantine), 0);
	assert_int_equal(quarantine_count(quarantine), 1);
	libraries = libraries_here();
	assert_non_null(libraries);
	added = unread = 0;
	scan();
	assert_int_equal(added, 2);
	assert_int_equal(unread, 1);
	munmap(mapped, 4096);
}

/* A cold disk: the file is tried again, for a process that has mapped it all the time, and is in no list. */
TEST_WITH(test_slow_file, start, stop)
{
	disk_is_slow = true;
	scan();
	assert_int_equal(added, 0);
	assert_int_equal(refused, 1);
	disk_is_slow = false;
	scan(); /* too early */
	assert_int_equal(added, 0);
	later_ns = 11 * NSEC_PER_SEC;
	scan();
	later_ns = 0;
	assert_int_equal(added, 1);
	assert_int_equal(unread, 0);
	assert_int_equal(refused, 1);
	assert_int_equal(quarantine_count(quarantine), 0);
}

/* At the daemon's start its queue is full of processes that are examined: the next scan opens the file. */
TEST_WITH(test_full_queue, start, stop)
{
	for (asks_left = 1; asks_left <= 2; asks_left++) { /* the maps; and the file, but not its facts */
		unsigned left = asks_left;

		scan();
		assert_int_equal(added + refused, 0);
		asks_left = left;
	}
	asks_left = UINT_MAX;
	scan();
	assert_int_equal(added, 1);
	assert_int_equal(refused, 0);
}

/* In the place of the mapped file is a link to another one. */
TEST_WITH(test_another_file, start, stop)
{
	struct mapped_file file;
	struct mapping mapping;
	char path[128], other[128];
	struct stat st;
	void *mapped;

	mapping = (struct mapping){.path = path};
	snprintf(path, sizeof(path), "%s/libhostile.so.1", folder);
	snprintf(other, sizeof(other), "%s/private", folder);
	mapped = map_file(path, "x", 1, 4096);
	munmap(map_file(other, "secret", 6, 4096), 4096);
	assert_int_equal(stat(path, &st), 0);
	mapping.id = (struct library_id){(uint64_t)major(st.st_dev) << 32 | minor(st.st_dev), st.st_ino};
	/* A range that is no mapping: only the path is left. */
	assert_int_equal(mapped_file_open("/proc", (uint32_t)getpid(), &mapping, &file), 0);
	close(file.fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(mapped_file_open("/proc", (uint32_t)getpid(), &mapping, &file), -ESTALE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mapped_file_open("/proc", (uint32_t)getpid(), &mapping, &file), -ESTALE);
	munmap(mapped, 4096);
}

TEST_WITH(test_bad_answers, start, stop)
{
	static const uint16_t rows[] = {0, 1};
	struct worker_reply reply = {.end = WORKER_ANSWERED};
	struct mapped_file file;
	struct facts facts;
	struct maps maps;
	uint8_t bytes[64] = {0};

	for (reply.size_bytes = 0; reply.size_bytes < sizeof(bytes); reply.size_bytes++) {
		reply.data = bytes;
		assert_int_equal(reader_take_file(&reply, &file), -EBADMSG);
		assert_int_equal(reader_take_facts(&reply, 4096, &table, rows, 2, &facts), -EBADMSG);
		if (reply.size_bytes != 8) /* no error, no mapping */
			assert_int_equal(reader_take_maps(&reply, &maps), -EBADMSG);
	}
}

int main(void)
{
	setenv("RANKTRACE_LIBEXEC", READER_FOLDER, 1);
	return TEST_RUN(NULL, NULL);
}
