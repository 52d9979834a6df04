/* SPDX-License-Identifier: Apache-2.0 */
/* See quarantine.h. The file has one line a file: device inode seconds nanoseconds uid 0. */
#include "daemon/probes/quarantine.h"
#include "analyzers/base/replace.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct quarantined {
	struct library_id id;
	int64_t changed_s, changed_ns;
	uint32_t uid;
};

struct quarantine {
	char state_dir[PATH_MAX];
	bool dirty; /* not written yet */
	size_t count;
	struct quarantined file[QUARANTINE_MAX]; /* oldest first */
};

static bool is_same_file(const struct quarantined *a, const struct mapped_file *b)
{
	return a->id.device == b->id.device && a->id.inode == b->id.inode && a->changed_s == b->changed.tv_sec &&
	       a->changed_ns == b->changed.tv_nsec;
}

static void quarantine_read(struct quarantine *quarantine, FILE *f)
{
	char line[160];

	while (quarantine->count < QUARANTINE_MAX && fgets(line, sizeof(line), f)) {
		struct quarantined file;
		unsigned long device, inode;
		long s, ns;
		int end = 0;

		/* Another last number: a file that was slow, by a daemon before. */
		if (sscanf(line, "%lu %lu %ld %ld %u 0\n%n", &device, &inode, &s, &ns, &file.uid, &end) != 5 || !end)
			continue;
		file.id = (struct library_id){device, inode};
		file.changed_s = s;
		file.changed_ns = ns;
		quarantine->file[quarantine->count++] = file;
	}
}

int quarantine_open(const char *state_dir, struct quarantine **ret)
{
	struct quarantine *quarantine = calloc(1, sizeof(*quarantine));
	char path[PATH_MAX + sizeof(QUARANTINE_FILE) + 1];
	_cleanup_fclose_ FILE *f = NULL;
	int fd;

	if (!quarantine)
		return -ENOMEM;
	(void)copy_text(quarantine->state_dir, sizeof(quarantine->state_dir), state_dir);
	snprintf(path, sizeof(path), "%s/%s", state_dir, QUARANTINE_FILE);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (f)
		quarantine_read(quarantine, f);
	else
		closep(&fd);
	*ret = quarantine;
	return 0;
}

bool quarantine_has(const struct quarantine *quarantine, const struct mapped_file *file)
{
	for (size_t i = 0; quarantine && i < quarantine->count; i++)
		if (is_same_file(&quarantine->file[i], file))
			return true;
	return false;
}

static void quarantine_write(FILE *f, const void *arg)
{
	const struct quarantine *quarantine = arg;

	for (size_t i = 0; i < quarantine->count; i++) {
		const struct quarantined *file = &quarantine->file[i];

		fprintf(f, "%lu %lu %ld %ld %u 0\n", (unsigned long)file->id.device, (unsigned long)file->id.inode,
			(long)file->changed_s, (long)file->changed_ns, file->uid);
	}
}

static atomic_bool is_writing;

static void *quarantine_work(void *arg)
{
	struct quarantine *copy = arg;
	int r = replace_file(copy->state_dir, QUARANTINE_FILE, quarantine_write, copy);

	if (r < 0)
		log_warning("quarantine", "cannot write %s/%s: %s", copy->state_dir, QUARANTINE_FILE, strerror(-r));
	free(copy);
	atomic_store(&is_writing, false);
	return NULL;
}

/* By a thread: a slow disk does not stop the loop. What comes while it writes is written with the next file. */
static void quarantine_save(struct quarantine *quarantine)
{
	struct quarantine *copy;

	if (!quarantine->dirty || atomic_exchange(&is_writing, true))
		return;
	copy = malloc(sizeof(*copy));
	if (copy)
		*copy = *quarantine;
	if (!copy || thread_run(quarantine_work, copy) < 0) {
		free(copy);
		atomic_store(&is_writing, false);
		return;
	}
	quarantine->dirty = false;
}

static size_t count_of(const struct quarantine *quarantine, uint32_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < quarantine->count; i++)
		count += quarantine->file[i].uid == uid;
	return count;
}

static void quarantine_remove(struct quarantine *quarantine, size_t i)
{
	memmove(&quarantine->file[i], &quarantine->file[i + 1],
		(--quarantine->count - i) * sizeof(quarantine->file[0]));
}

/* Makes space: one user's many files do not displace another's. */
static void quarantine_make_space(struct quarantine *quarantine)
{
	size_t most = 0, oldest = 0;

	for (size_t i = 0; i < quarantine->count; i++) {
		size_t count = count_of(quarantine, quarantine->file[i].uid);

		if (count > most) {
			most = count;
			oldest = i;
		}
	}
	quarantine_remove(quarantine, oldest);
}

void quarantine_add(struct quarantine *quarantine, const struct mapped_file *file, uint32_t uid)
{
	if (!quarantine || quarantine_has(quarantine, file))
		return;
	if (quarantine->count == QUARANTINE_MAX)
		quarantine_make_space(quarantine);
	quarantine->file[quarantine->count++] = (struct quarantined){
		.id = file->id, .changed_s = file->changed.tv_sec, .changed_ns = file->changed.tv_nsec, .uid = uid};
	quarantine->dirty = true;
	quarantine_save(quarantine);
}

struct quarantine *quarantine_close(struct quarantine *quarantine)
{
	if (quarantine)
		quarantine_save(quarantine);
	free(quarantine);
	return NULL;
}

unsigned quarantine_count(const struct quarantine *quarantine)
{
	return quarantine ? (unsigned)quarantine->count : 0;
}
