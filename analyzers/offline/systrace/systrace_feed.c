/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sysTrace to records. See systrace_feed.h. */
#include "analyzers/offline/systrace/systrace_feed.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzers/base/array.h"
#include "analyzers/offline/systrace/systrace_files.h"
#include "analyzers/offline/systrace/systrace_internal.h"

#define DEPTH 5 /* FOLDER/NODE/old/WINDOW/timeline/FILE */
#define PROCESSES_MAX 16384

struct file {
	char *path;
	struct systrace_name name;
};

struct files {
	size_t count, capacity;
	struct file *file;
};

/* What is being read. */
struct reading {
	struct systrace_feed *feed;
	const struct systrace_name *name;
	uint32_t process; /* of a timeline */
	uint64_t first_ns, last_ns;
	/* Of operations: processes that had this rank. */
	size_t candidates, candidates_capacity;
	uint32_t *candidate;
};

static void systrace_feed_warn(const struct systrace_feed *feed, const char *path, const char *what)
{
	char sentence[PATH_MAX + 256];

	snprintf(sentence, sizeof(sentence), "%s %s", path, what);
	if (feed->options.warning)
		feed->options.warning(feed->options.arg, sentence);
}

static int add_file(struct files *files, const char *path, const struct systrace_name *name)
{
	if (files->count == SYSTRACE_FILES_MAX)
		return 0;
	if (!array_reserve((void **)&files->file, &files->capacity, files->count + 1, sizeof(*files->file),
		    SYSTRACE_FILES_MAX))
		return -ENOMEM;
	files->file[files->count] = (struct file){strdup(path), *name};
	return files->file[files->count++].path ? 0 : -ENOMEM;
}

static int find_files(struct files *files, const char *folder, unsigned depth)
{
	const struct dirent *entry;
	DIR *dir = opendir(folder);
	int r = 0;

	if (!dir)
		return depth == DEPTH ? -errno : 0;
	while (r == 0 && (entry = readdir(dir))) {
		struct systrace_name name;
		struct stat stat_of;
		char *path = NULL;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) {
			r = -ENOMEM;
			break;
		}
		if (stat(path, &stat_of) == 0) {
			if (S_ISDIR(stat_of.st_mode) && depth > 1)
				r = find_files(files, path, depth - 1);
			else if (S_ISREG(stat_of.st_mode) && systrace_name_parse(entry->d_name, &name))
				r = add_file(files, path, &name);
		}
		free(path);
	}
	closedir(dir);
	return r;
}

/* Timelines first: they define the processes. */
static int by_kind(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return x->name.is_csv != y->name.is_csv ? (int)x->name.is_csv - (int)y->name.is_csv : strcmp(x->path, y->path);
}

/* The process of a timeline; a file that goes on with another's is of the same. 0 or negative errno. */
static int process_get(struct systrace_feed *feed, const struct systrace_process *wanted, uint32_t *ret)
{
	for (size_t i = 0; i < feed->processes; i++) {
		const struct systrace_process *process = &feed->process[i];

		if (process->rank == wanted->rank && process->pid == wanted->pid &&
			strcmp(process->host, wanted->host) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	}
	if (feed->processes == PROCESSES_MAX)
		return -ENOSPC;
	if (!array_reserve((void **)&feed->process, &feed->processes_capacity, feed->processes + 1,
		    sizeof(*feed->process), PROCESSES_MAX))
		return -ENOMEM;
	feed->process[feed->processes] = *wanted;
	*ret = (uint32_t)feed->processes++;
	return 0;
}

static int add_candidate(struct reading *reading, uint32_t process)
{
	if (!array_reserve((void **)&reading->candidate, &reading->candidates_capacity, reading->candidates + 1,
		    sizeof(*reading->candidate), PROCESSES_MAX))
		return -ENOMEM;
	reading->candidate[reading->candidates++] = process;
	return 0;
}

static bool in_range(const struct systrace_feed *feed, uint64_t start_ns)
{
	const struct systrace_options *options = &feed->options;

	return start_ns >= options->since_ns && (!options->until_ns || start_ns < options->until_ns);
}

static void systrace_feed_extend(struct systrace_process *process, uint64_t start_ns, uint64_t end_ns)
{
	if (!process->first_ns || start_ns < process->first_ns)
		process->first_ns = start_ns;
	if (end_ns > process->last_ns)
		process->last_ns = end_ns;
}

static int systrace_feed_add(struct systrace_feed *feed, const struct systrace_event *event)
{
	systrace_feed_extend(&feed->process[event->process], event->start_ns, event->end_ns);
	return systrace_events_add(&feed->events, event);
}

static int systrace_feed_on_stage(void *arg, const struct systrace_stage *stage)
{
	struct reading *reading = arg;
	const struct systrace_word word = systrace_word_of(stage->name);
	const struct systrace_event event = {
		.start_ns = stage->start_ns,
		.end_ns = stage->end_ns,
		.number = stage->number < UINT32_MAX ? stage->number : 0,
		.process = reading->process,
		.what = SYSTRACE_STAGE,
		.kind = (uint8_t)word.kind,
		.op = word.rank,
		.opens = word.opens,
		.closes = word.closes,
	};

	return in_range(reading->feed, stage->start_ns) ? systrace_feed_add(reading->feed, &event) : 0;
}

/* Without what libraries put before it; words of theirs that are another's elsewhere. */
static const char *coll_op_word(const char *op)
{
	if (strncmp(op, "Hccl", 4) == 0 || strncmp(op, "hccl", 4) == 0 || strncmp(op, "nccl", 4) == 0)
		op += 4;
	return strcmp(op, "Allreduce") == 0 ? "AllReduce" : *op ? op : "unknown";
}

/* "HcclSend", "HcclReceive", "HcclBatchSendRecv", "ncclRecv". */
static bool is_transfer(const char *op)
{
	return strcasestr(op, "send") || strcasestr(op, "recv") || strcasestr(op, "receive");
}

static void add_transfer(struct systrace_feed *feed, struct systrace_process *process, const struct systrace_op *op)
{
	feed->counts.ops++;
	feed->counts.coll_not_joined++;
	systrace_feed_extend(process, op->start_ns, op->end_ns);
	if (!process->transfers++ || op->start_ns < process->transfers_first_ns)
		process->transfers_first_ns = op->start_ns;
	if (op->end_ns > process->transfers_last_ns)
		process->transfers_last_ns = op->end_ns;
}

/* Of the processes that had this rank, the one of that pid, else the one that lived then, or the last one. NULL: there
 * is none. */
static const struct systrace_process *find_process(const struct reading *reading, uint32_t pid, uint64_t time_ns)
{
	const struct systrace_process *last = NULL, *then = NULL;

	for (size_t i = 0; i < reading->candidates; i++) {
		const struct systrace_process *process = &reading->feed->process[reading->candidate[i]];

		if (pid && process->pid == pid)
			return process;
		if (!then && time_ns >= process->first_ns && time_ns <= process->last_ns)
			then = process;
		if (!last || process->last_ns > last->last_ns)
			last = process;
	}
	return then ? then : last;
}

/* -ENOENT: it is of a job that nobody asked for, as jobs on a node have such a file together. */
static int process_of_op(struct reading *reading, const struct systrace_op *op, uint32_t *ret)
{
	const struct systrace_process *process = find_process(reading, op->pid, op->start_ns);
	struct systrace_process unknown = {.rank = (int32_t)reading->name->rank, .number = -1};
	int r;

	if (op->pid && reading->feed->options.job && (!process || process->pid != op->pid))
		return -ENOENT;
	if (process) {
		*ret = (uint32_t)(process - reading->feed->process);
		return 0;
	}
	snprintf(unknown.host, sizeof(unknown.host), "%s", reading->name->host);
	r = process_get(reading->feed, &unknown, ret);
	return r < 0 ? r : add_candidate(reading, *ret);
}

static int number_of(struct text_pool *names, const char *name, uint16_t *ret)
{
	uint32_t number = text_pool_number(names, name);

	*ret = (uint16_t)number;
	return number && number <= SYSTRACE_NAMES_MAX ? 0 : -ENOSPC;
}

static int systrace_feed_on_op(void *arg, const struct systrace_op *op)
{
	struct reading *reading = arg;
	struct systrace_feed *feed = reading->feed;
	struct systrace_event event = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.bytes = op->bytes,
		.what = SYSTRACE_OP,
		.is_host = op->is_host,
	};
	int r;

	if (!in_range(feed, op->start_ns))
		return 0;
	r = process_of_op(reading, op, &event.process);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && is_transfer(op->op)) {
		add_transfer(feed, &feed->process[event.process], op);
		return 0;
	}
	if (r == 0)
		r = number_of(feed->ops, coll_op_word(op->op), &event.op);
	if (r == 0)
		r = number_of(feed->groups, op->group, &event.comm);
	if (r == -ENOSPC) {
		feed->events.left_out++;
		return 0;
	}
	return r < 0 ? r : systrace_feed_add(feed, &event);
}

/* The rank and the job may stand at the end of the file: then they are taken over from what was assumed. */
static int read_timeline(struct reading *reading, FILE *file, struct systrace_said *said)
{
	const struct systrace_sink sink = {.stage = systrace_feed_on_stage, .arg = reading};
	const struct systrace_name *name = reading->name;
	struct systrace_process process = {
		.rank = (int32_t)(name->rank < 0 ? 0 : name->rank), .pid = name->pid, .number = -1};
	struct systrace_said before;
	int r;

	snprintf(process.host, sizeof(process.host), "%s", name->host);
	/* Read twice: whose it is comes first. */
	r = systrace_timeline_read(file, &(struct systrace_sink){.arg = reading}, &before);
	if (r == 0 && before.rank > 0)
		process.rank = (int32_t)before.rank;
	snprintf(process.job, sizeof(process.job), "%s", before.job);
	if (r == 0 && reading->feed->options.job && strcmp(reading->feed->options.job, process.job) != 0) {
		*said = before;
		return 0;
	}
	if (r == 0)
		r = process_get(reading->feed, &process, &reading->process);
	rewind(file);
	return r < 0 ? r : systrace_timeline_read(file, &sink, said);
}

/* Times of the host are read only where there are no others. */
static int read_csv(struct reading *reading, FILE *file, struct systrace_said *said)
{
	struct systrace_sink sink = {.op = systrace_feed_on_op, .arg = reading};
	int r = 0;

	for (size_t i = 0; i < reading->feed->processes && r == 0; i++)
		if (reading->feed->process[i].rank == (int32_t)reading->name->rank)
			r = add_candidate(reading, (uint32_t)i);
	if (r == 0)
		r = systrace_csv_read(file, &sink, said);
	if (r < 0 || said->records || !said->host_ops)
		return r;
	rewind(file);
	sink.host_ops = true;
	return systrace_csv_read(file, &sink, said);
}

static const char *systrace_feed_why(int error)
{
	return error == -EBADMSG  ? "is no file of sysTrace, or damaged: the rest is left out"
	       : error == -ENOSPC ? "is left out: more than 16384 processes"
				  : "cannot be read: the rest is left out";
}

static int systrace_feed_read_file(struct systrace_feed *feed, const struct file *one)
{
	struct reading reading = {.feed = feed, .name = &one->name};
	struct systrace_said said = {.rank = -1};
	FILE *file = fopen(one->path, "re");
	int r;

	if (!file)
		r = -errno;
	else if (one->name.is_csv && one->name.rank < 0)
		r = -EINVAL;
	else
		r = one->name.is_csv ? read_csv(&reading, file, &said) : read_timeline(&reading, file, &said);
	if (file)
		fclose(file);
	free(reading.candidate);
	feed->counts.files++;
	feed->counts.records += said.records;
	feed->counts.dropped += said.dropped;
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		feed->counts.files_failed++;
		systrace_feed_warn(
			feed, one->path, r == -EINVAL ? "is left out: no rank is known for it" : systrace_feed_why(r));
	} else if (said.cut) {
		systrace_feed_warn(feed, one->path, "ends within a record: it is being written, or damaged");
	}
	return 0;
}

static int systrace_feed_read_all(struct systrace_feed *feed, const struct files *files)
{
	int r = 0;

	for (size_t i = 0; i < files->count && r == 0; i++) {
		r = systrace_feed_read_file(feed, &files->file[i]);
		if (feed->options.progress)
			feed->options.progress(feed->options.arg, i + 1, feed->counts.records);
	}
	if (r == 0)
		r = systrace_emit_prepare(feed);
	if (r == 0)
		systrace_pipeline_mark(feed);
	return r;
}

static void files_free(struct files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->file[i].path);
	free(files->file);
}

int systrace_feed_open(const char *folder, const struct systrace_options *options, struct systrace_feed **ret,
	char *error, size_t error_size)
{
	struct systrace_feed *feed = calloc(1, sizeof(*feed));
	struct files files = {0};
	int r = feed ? find_files(&files, folder, DEPTH) : -ENOMEM;
	bool none = r == 0 && !files.count;

	if (none)
		r = -ENOENT;
	if (r == 0) {
		qsort(files.file, files.count, sizeof(*files.file), by_kind);
		feed->options = *options;
		feed->ops = text_pool_new();
		feed->groups = text_pool_new();
		r = !feed->ops || !feed->groups ? -ENOMEM : systrace_feed_read_all(feed, &files);
	}
	if (none)
		snprintf(error, error_size,
			"no files of sysTrace in %s (HOST--RANK--PID.timeline, hccl_activity-ADDRESS-.RANK.csv)",
			folder);
	else if (r < 0)
		snprintf(error, error_size, "cannot read %s: %s", folder, strerror(-r));
	files_free(&files);
	if (r < 0) {
		systrace_feed_close(feed);
		return r;
	}
	*ret = feed;
	return 0;
}

struct systrace_feed *systrace_feed_close(struct systrace_feed *feed)
{
	if (!feed)
		return NULL;
	text_pool_free(feed->ops);
	text_pool_free(feed->groups);
	free(feed->events.event);
	free(feed->process);
	free(feed);
	return NULL;
}

void systrace_feed_counts(const struct systrace_feed *feed, struct systrace_counts *ret)
{
	*ret = feed->counts;
	ret->left_out = feed->events.left_out;
	for (size_t i = 0; i < feed->processes; i++) {
		const struct systrace_process *process = &feed->process[i];

		if (!process->first_ns)
			continue;
		ret->ranks_refused += process->is_pipeline;
		if (process->is_pipeline)
			continue;
		ret->ranks++;
		if (!ret->first_ns || process->first_ns < ret->first_ns)
			ret->first_ns = process->first_ns;
		if (process->last_ns > ret->last_ns)
			ret->last_ns = process->last_ns;
	}
}
