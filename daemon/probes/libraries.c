/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the registry of libraries.h: a bounded array of inodes, each with the instances that map it; the scans that were
 * begun, and the files that are being opened (reader_ask_file) and then read (reader_ask_facts).
 */
#include <sys/stat.h>

#include "analyzers/base/array.h"
#include "daemon/base/log_limit.h"
#include "daemon/base/thread.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/quarantine.h"
#include "daemon/probes/reader.h"

#define REFUSED_MAX 256
#define REFUSED_NS (10 * NSEC_PER_SEC) /* a file that could not be opened is left alone for */
#define OPENING_USERS_MAX 64

/* Files that could not be opened, the newest ones. */
struct refusals {
	struct {
		struct library_id id;
		uint64_t until_ns;
	} file[REFUSED_MAX];
	unsigned count;
};

struct scan {
	struct scan *next;
	struct libraries *libraries;
	uint32_t pid, uid;
	int64_t instance;
	uint64_t request, start_ns;
};

/* A file on its way into the registry. */
struct opening {
	struct opening *next;
	struct libraries *libraries;
	uint32_t pid, uid;
	struct mapping mapping; /* owns its path */
	struct mapped_file file;
	uint64_t request;
	size_t users;
	int64_t instance[OPENING_USERS_MAX]; /* those beyond find it with their next scan */
	size_t rows;
	uint16_t row[PROBES_MAX];
};

struct libraries {
	struct libraries_ops ops;
	char proc_root[64];
	size_t patterns;
	char (*pattern)[MAPS_PATTERN_BYTES];
	size_t count;
	struct library *library[LIBRARIES_MAX];
	struct scan *scan;
	struct opening *opening;
	struct refusals refused;
};

static int copy_patterns(struct libraries *libraries)
{
	while (libraries->ops.patterns[libraries->patterns])
		libraries->patterns++;
	libraries->pattern = calloc(libraries->patterns + 1, sizeof(*libraries->pattern));
	for (size_t i = 0; libraries->pattern && i < libraries->patterns; i++)
		(void)copy_text(libraries->pattern[i], MAPS_PATTERN_BYTES, libraries->ops.patterns[i]);
	return libraries->pattern ? 0 : -ENOMEM;
}

struct libraries *libraries_new(const struct libraries_ops *ops, const char *proc_root)
{
	struct libraries *libraries = calloc(1, sizeof(*libraries));

	if (!libraries)
		return NULL;
	libraries->ops = *ops;
	copy_text(libraries->proc_root, sizeof(libraries->proc_root), proc_root);
	if (copy_patterns(libraries) < 0) {
		free(libraries);
		return NULL;
	}
	return libraries;
}

static void library_free(struct library *library)
{
	thread_close(library->fd);
	free(library->user);
	free(library->path);
	free(library);
}

static void libraries_drop(struct libraries *libraries, size_t i)
{
	struct library *library = libraries->library[i];

	libraries->ops.dropped(libraries->ops.arg, library);
	library_free(library);
	libraries->count--;
	libraries->library[i] = libraries->library[libraries->count];
}

static void scan_free(struct scan *scan)
{
	struct scan **link = &scan->libraries->scan;

	while (*link != scan)
		link = &(*link)->next;
	*link = scan->next;
	free(scan);
}

static void opening_free(struct opening *opening)
{
	struct opening **link = &opening->libraries->opening;

	while (*link != opening)
		link = &(*link)->next;
	*link = opening->next;
	thread_close(opening->file.fd);
	free(opening->mapping.path);
	free(opening);
}

struct libraries *libraries_free(struct libraries *libraries)
{
	if (!libraries)
		return NULL;
	while (libraries->scan) {
		worker_cancel(libraries->ops.workers, libraries->scan->request);
		scan_free(libraries->scan);
	}
	while (libraries->opening) {
		worker_cancel(libraries->ops.workers, libraries->opening->request);
		opening_free(libraries->opening);
	}
	while (libraries->count > 0)
		libraries_drop(libraries, libraries->count - 1);
	free(libraries->pattern);
	free(libraries);
	return NULL;
}

unsigned libraries_busy(const struct libraries *libraries)
{
	unsigned count = 0;

	for (const struct opening *opening = libraries->opening; opening; opening = opening->next)
		count++;
	return count;
}

bool library_used_by(const struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i].instance == instance)
			return true;
	return false;
}

static int libraries_add_user(struct library *library, int64_t instance, const struct library_id *id)
{
	if (library_used_by(library, instance))
		return 0;
	if (library->users >= LIBRARY_USERS_MAX)
		return -ENOSPC;
	if (!array_reserve((void **)&library->user, &library->capacity, library->users + 1, sizeof(*library->user),
		    LIBRARY_USERS_MAX))
		return -ENOMEM;
	library->user[library->users++] = (struct library_user){instance, *id};
	return 0;
}

static void remove_user(struct library *library, int64_t instance)
{
	for (size_t i = 0; i < library->users; i++)
		if (library->user[i].instance == instance)
			library->user[i--] = library->user[--library->users];
}

static bool is_same_id(const struct library_id *a, const struct library_id *b)
{
	return a->inode == b->inode && a->device == b->device;
}

static bool has_id(const struct library *library, const struct library_id *id)
{
	if (is_same_id(&library->id, id))
		return true;
	for (size_t i = 0; i < library->users; i++)
		if (is_same_id(&library->user[i].id, id))
			return true;
	return false;
}

/* A file that could not be opened lately. */
static bool is_refused(const struct libraries *libraries, const struct library_id *id)
{
	uint64_t now_ns = monotonic_ns();

	for (size_t i = 0; i < REFUSED_MAX; i++)
		if (is_same_id(&libraries->refused.file[i].id, id) && now_ns < libraries->refused.file[i].until_ns)
			return true;
	return false;
}

/* Reports it once, as long as it is remembered. */
static void libraries_refuse(
	struct libraries *libraries, uint32_t pid, uint32_t uid, const struct mapping *mapping, int error)
{
	struct refusals *refused = &libraries->refused;
	uint64_t until_ns = monotonic_ns() + (libraries->ops.workers ? REFUSED_NS : 0);

	for (size_t i = 0; i < REFUSED_MAX; i++) {
		if (!is_same_id(&refused->file[i].id, &mapping->id))
			continue;
		refused->file[i].until_ns = until_ns;
		return;
	}
	refused->file[refused->count % REFUSED_MAX].id = mapping->id;
	refused->file[refused->count++ % REFUSED_MAX].until_ns = until_ns;
	libraries->ops.refused(libraries->ops.arg, pid, uid, mapping->path, error);
}

/*
 * Same file through another overlay, or below one: only the kernel sets a file's change time. Outside overlays, two
 * files are different even if equal (images mounted twice).
 */
static struct library *find_below(struct libraries *libraries, const struct mapped_file *file, const char *base_name)
{
	for (size_t i = 0; i < libraries->count; i++) {
		struct library *library = libraries->library[i];

		if ((file->overlay || library->overlay) && library->inode == file->id.inode &&
			library->size_bytes == file->size_bytes && library->changed.tv_sec == file->changed.tv_sec &&
			library->changed.tv_nsec == file->changed.tv_nsec && streq(library->base_name, base_name))
			return library;
	}
	return NULL;
}

static struct library *libraries_find_known(const struct libraries *libraries, const struct library_id *id)
{
	for (size_t i = 0; i < libraries->count; i++)
		if (has_id(libraries->library[i], id))
			return libraries->library[i];
	return NULL;
}

/* Takes over the opening's descriptor and path. */
static struct library *library_new(struct opening *opening)
{
	struct library *library = calloc(1, sizeof(*library));

	if (!library)
		return NULL;
	*library = (struct library){
		.id = opening->mapping.id,
		.inode = opening->file.id.inode,
		.changed = opening->file.changed,
		.size_bytes = opening->file.size_bytes,
		.overlay = opening->file.overlay,
		.path = TAKE_PTR(opening->mapping.path),
		.fd = TAKE_FD(opening->file.fd),
		.uid = opening->uid,
	};
	library->base_name = strrchr(library->path, '/') + 1;
	return library;
}

static void add_users(struct library *library, const struct opening *opening)
{
	for (size_t i = 0; i < opening->users; i++)
		(void)libraries_add_user(library, opening->instance[i], &opening->mapping.id);
	library->touched = true;
}

/* The opening's end. */
static void opening_end(struct opening *opening)
{
	struct libraries *libraries = opening->libraries;

	opening_free(opening);
	if (!libraries->opening && libraries->ops.settled)
		libraries->ops.settled(libraries->ops.arg);
}

/* Nothing is wrong with the file where its process has ended, or where the queue of the workers is full. */
static void opening_refuse(struct opening *opening, int error)
{
	if (error != -ESRCH && error != -EBUSY)
		libraries_refuse(opening->libraries, opening->pid, opening->uid, &opening->mapping, error);
	opening_end(opening);
}

static unsigned libraries_of_user(const struct libraries *libraries, uint32_t uid)
{
	unsigned count = 0;

	for (size_t i = 0; i < libraries->count; i++)
		count += libraries->library[i]->uid == uid;
	return count;
}

/* Users with libraries, this one included. */
static unsigned libraries_users(const struct libraries *libraries, uint32_t uid)
{
	unsigned users = 1;

	for (size_t i = 0; i < libraries->count; i++) {
		size_t first = 0;

		while (libraries->library[first]->uid != libraries->library[i]->uid)
			first++;
		users += first == i && libraries->library[i]->uid != uid;
	}
	return users;
}

/* A part of the table always remains for a user who has none. */
static bool has_place(const struct libraries *libraries, uint32_t uid)
{
	return libraries->count < LIBRARIES_MAX &&
	       libraries_of_user(libraries, uid) < LIBRARIES_MAX / (libraries_users(libraries, uid) + 1);
}

/* Its ranks have ended meanwhile, or it becomes a library. */
static void opening_add(struct opening *opening, const struct facts *facts, int error)
{
	struct libraries *libraries = opening->libraries;
	struct library *library;

	if (opening->users == 0) {
		opening_end(opening);
		return;
	}
	if (!has_place(libraries, opening->uid)) {
		opening_refuse(opening, -ENOSPC);
		return;
	}
	library = library_new(opening);
	if (!library) {
		opening_refuse(opening, -ENOMEM);
		return;
	}
	add_users(library, opening);
	libraries->library[libraries->count++] = library;
	library->facts = facts;
	library->facts_error = error;
	libraries->ops.added(libraries->ops.arg, library);
	library->facts = NULL;
	opening_end(opening);
}

static void on_facts(void *arg, struct worker_reply *reply)
{
	struct opening *opening = arg;
	struct libraries *libraries = opening->libraries;
	_cleanup_(facts_free) struct facts facts = {0};
	int r = reader_take_facts(
		reply, opening->file.size_bytes, libraries->ops.table, opening->row, opening->rows, &facts);

	if (reply->end == WORKER_UNSTARTED || reply->end == WORKER_BARRED) {
		opening_refuse(opening, -EAGAIN);
		return;
	}
	/* A disk or file server is slow at times; a file that makes its reader compute ends it by cpu_s_max. */
	if (reply->end == WORKER_TIMED_OUT) {
		log_limited(LOG_WARNING, "libraries", opening->uid,
			"%s of process %u is tried again later: reading it %s", opening->mapping.path, opening->pid,
			worker_end_words(reply->end));
		opening_refuse(opening, -ETIMEDOUT);
		return;
	}
	if (reply->end != WORKER_ANSWERED || r == -EFBIG || r == -EBADMSG || r == -ENOMEM) {
		log_limited(LOG_WARNING, "libraries", opening->uid, "%s of process %u is not read again: its reader %s",
			opening->mapping.path, opening->pid,
			reply->end == WORKER_ANSWERED ? "found a damaged or too large file"
						      : worker_end_words(reply->end));
		quarantine_add(libraries->ops.quarantine, &opening->file, opening->uid);
		r = -EUCLEAN;
	}
	opening_add(opening, r == 0 ? &facts : NULL, r);
}

static bool opening_find_rows(struct opening *opening)
{
	const struct probe_table *table = opening->libraries->ops.table;
	const char *base_name = strrchr(opening->mapping.path, '/') + 1;

	for (size_t i = 0; table && i < table->count; i++)
		if (probe_matches_library(&table->probe[i], base_name))
			opening->row[opening->rows++] = (uint16_t)i;
	return opening->rows > 0;
}

static int opening_ask_facts(struct opening *opening)
{
	_cleanup_(wire_free) struct wire_writer question = {0};
	struct libraries *libraries = opening->libraries;

	reader_ask_facts(
		&question, strrchr(opening->mapping.path, '/') + 1, libraries->ops.table, opening->row, opening->rows);
	if (question.failed)
		return -ENOMEM;
	return worker_ask(libraries->ops.workers, &reader_facts_kind, opening->uid, question.data, question.size_bytes,
		&opening->file.fd, 1, on_facts, opening, &opening->request);
}

/* The file is open: it is known, not to be read, or read now. */
static void opening_go_on(struct opening *opening)
{
	struct libraries *libraries = opening->libraries;
	struct library *library = find_below(libraries, &opening->file, strrchr(opening->mapping.path, '/') + 1);
	int r;

	if (library) {
		add_users(library, opening);
		opening_end(opening);
	} else if (!libraries->ops.workers || !opening_find_rows(opening)) {
		opening_add(opening, NULL, 0);
	} else if (quarantine_has(libraries->ops.quarantine, &opening->file)) {
		opening_add(opening, NULL, -EUCLEAN);
	} else if (has_place(libraries, opening->uid)) {
		r = opening_ask_facts(opening);
		if (r < 0)
			opening_refuse(opening, r);
	} else {
		opening_refuse(opening, -ENOSPC);
	}
}

static void on_file(void *arg, struct worker_reply *reply)
{
	struct opening *opening = arg;
	int r = reader_take_file(reply, &opening->file);

	if (reply->end != WORKER_ANSWERED) {
		log_limited(LOG_INFO, "libraries", opening->uid, "%s of process %u is tried again later: opening it %s",
			opening->mapping.path, opening->pid, worker_end_words(reply->end));
		r = -ETIMEDOUT;
	}
	if (r == 0 && opening->file.user_served && !opening->libraries->ops.takes_user_served)
		r = -EREMOTE;
	if (r < 0)
		opening_refuse(opening, r);
	else
		opening_go_on(opening);
}

/* Without workers: opens it for reading. */
static int opening_open_here(struct opening *opening)
{
	int fd, r = mapped_file_open(opening->libraries->proc_root, opening->pid, &opening->mapping, &opening->file);

	if (r < 0)
		return r;
	fd = mapped_file_reopen(opening->file.fd);
	if (fd < 0)
		return fd;
	close(opening->file.fd);
	opening->file.fd = fd;
	return 0;
}

static void opening_start(struct opening *opening)
{
	_cleanup_(wire_free) struct wire_writer question = {0};
	struct libraries *libraries = opening->libraries;
	int r;

	if (!libraries->ops.workers) {
		r = opening_open_here(opening);
		if (r == 0)
			opening_go_on(opening);
	} else {
		reader_ask_file(&question, libraries->proc_root, opening->pid, &opening->mapping);
		r = question.failed ? -ENOMEM
				    : worker_ask(libraries->ops.workers, &reader_maps_kind, opening->uid, question.data,
					      question.size_bytes, NULL, 0, on_file, opening, &opening->request);
	}
	if (r < 0)
		opening_refuse(opening, r);
}

bool libraries_busy_for(const struct libraries *libraries, int64_t instance)
{
	for (const struct opening *opening = libraries->opening; opening; opening = opening->next)
		for (size_t i = 0; i < opening->users; i++)
			if (opening->instance[i] == instance)
				return true;
	return false;
}

/* Joins the ranks that wait for the file. */
static bool join_opening(struct libraries *libraries, const struct library_id *id, int64_t instance)
{
	for (struct opening *opening = libraries->opening; opening; opening = opening->next) {
		if (!is_same_id(&opening->mapping.id, id))
			continue;
		for (size_t i = 0; i < opening->users; i++)
			if (opening->instance[i] == instance)
				return true;
		if (opening->users < OPENING_USERS_MAX)
			opening->instance[opening->users++] = instance;
		return true;
	}
	return false;
}

/* One user's files, of which none may ever be read, do not keep others waiting. */
static bool may_open(const struct libraries *libraries, uint32_t uid)
{
	unsigned own = 0;

	for (const struct opening *opening = libraries->opening; opening; opening = opening->next)
		own += opening->uid == uid;
	return own < LIBRARIES_OPENINGS_USER_MAX && libraries_busy(libraries) < LIBRARIES_OPENINGS_MAX;
}

/* A file of a scan. Takes the mapping's path if it opens it. */
static void libraries_use(struct libraries *libraries, const struct scan *scan, struct mapping *mapping)
{
	struct library *library = libraries_find_known(libraries, &mapping->id);
	struct opening *opening;

	if (library) {
		if (libraries_add_user(library, scan->instance, &mapping->id) == 0)
			library->touched = true;
		return;
	}
	if (join_opening(libraries, &mapping->id, scan->instance) || is_refused(libraries, &mapping->id))
		return;
	opening = may_open(libraries, scan->uid) ? calloc(1, sizeof(*opening)) : NULL;
	if (!opening)
		return;
	*opening = (struct opening){.next = libraries->opening,
		.libraries = libraries,
		.pid = scan->pid,
		.uid = scan->uid,
		.mapping = *mapping,
		.file.fd = -1,
		.users = 1,
		.instance = {scan->instance}};
	mapping->path = NULL;
	libraries->opening = opening;
	opening_start(opening);
}

/* Drops what the instance no longer maps. */
static void drop_untouched(struct libraries *libraries, int64_t instance)
{
	for (size_t i = libraries->count; i-- > 0;) {
		if (libraries->library[i]->touched)
			continue;
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			libraries_drop(libraries, i);
	}
}

static int libraries_apply(struct libraries *libraries, const struct scan *scan, struct maps *maps)
{
	size_t used = 0;

	for (size_t i = 0; i < libraries->count; i++)
		libraries->library[i]->touched = false;
	for (size_t i = 0; i < maps->count; i++)
		libraries_use(libraries, scan, &maps->mapping[i]);
	for (size_t i = 0; i < libraries->count; i++)
		used += libraries->library[i]->touched;
	/* An ending process has no maps: its exit event follows. */
	if (maps->count > 0)
		drop_untouched(libraries, scan->instance);
	return (int)used;
}

static void on_maps(void *arg, struct worker_reply *reply)
{
	_cleanup_(maps_free) struct maps maps = {0};
	struct scan *scan = arg;
	struct libraries *libraries = scan->libraries;
	int64_t instance = scan->instance;
	uint64_t start_ns = monotonic_ns();
	int r = reader_take_maps(reply, &maps);

	if (reply->end != WORKER_ANSWERED)
		r = -ETIMEDOUT;
	if (r == 0)
		r = libraries_apply(libraries, scan, &maps);
	scan_free(scan);
	if (libraries->ops.scanned)
		libraries->ops.scanned(libraries->ops.arg, instance, r, reply->took_ns + monotonic_ns() - start_ns);
}

static int scan_here(struct libraries *libraries, const struct scan *scan)
{
	_cleanup_(maps_free) struct maps maps = {0};
	int r = maps_read(libraries->proc_root, scan->pid, (const char(*)[MAPS_PATTERN_BYTES])libraries->pattern,
		libraries->patterns, &maps);

	return r < 0 ? r : libraries_apply(libraries, scan, &maps);
}

int libraries_scan(struct libraries *libraries, uint32_t pid, uint32_t uid, int64_t instance)
{
	_cleanup_(wire_free) struct wire_writer question = {0};
	struct scan *scan;
	int r;

	if (!libraries->ops.workers)
		return scan_here(libraries,
			&(struct scan){.libraries = libraries, .pid = pid, .uid = uid, .instance = instance});
	for (scan = libraries->scan; scan; scan = scan->next)
		if (scan->instance == instance)
			return -EALREADY;
	scan = calloc(1, sizeof(*scan));
	if (!scan)
		return -ENOMEM;
	*scan = (struct scan){
		.next = libraries->scan, .libraries = libraries, .pid = pid, .uid = uid, .instance = instance};
	libraries->scan = scan;
	reader_ask_maps(&question, libraries->proc_root, pid, (const char(*)[MAPS_PATTERN_BYTES])libraries->pattern,
		libraries->patterns);
	r = question.failed ? -ENOMEM
			    : worker_ask(libraries->ops.workers, &reader_maps_kind, uid, question.data,
				      question.size_bytes, NULL, 0, on_maps, scan, &scan->request);
	if (r < 0)
		scan_free(scan);
	return r;
}

static void opening_forget(struct opening *opening, int64_t instance)
{
	for (size_t i = 0; i < opening->users; i++)
		if (opening->instance[i] == instance)
			opening->instance[i--] = opening->instance[--opening->users];
}

void libraries_forget(struct libraries *libraries, int64_t instance)
{
	for (struct scan *scan = libraries->scan, *next; scan; scan = next) {
		next = scan->next;
		if (scan->instance != instance)
			continue;
		worker_cancel(libraries->ops.workers, scan->request);
		scan_free(scan);
	}
	for (struct opening *opening = libraries->opening; opening; opening = opening->next)
		opening_forget(opening, instance);
	for (size_t i = libraries->count; i-- > 0;) {
		remove_user(libraries->library[i], instance);
		if (libraries->library[i]->users == 0)
			libraries_drop(libraries, i);
	}
}

void libraries_each(struct libraries *libraries, void (*callback)(void *arg, struct library *library), void *arg)
{
	for (size_t i = 0; i < libraries->count; i++)
		callback(arg, libraries->library[i]);
}
