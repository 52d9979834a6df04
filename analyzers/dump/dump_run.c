/* SPDX-License-Identifier: Apache-2.0 */
/* A dump is complete once files, state and names reached the disk in this order (dump_files.h). */
#include "analyzers/dump/dump_run.h"
#include "analyzers/dump/dump_folder.h"
#include "analyzers/dump/dump_rows.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* proc_net(5): route has numbers in host byte order, fib_trie lists "|-- ADDRESS" and below it "/32 host LOCAL" for an
 * address of the node. */

#define LINES_MAX 100000 /* of a file */
#define NETWORKS_MAX 16

struct network {
	uint32_t address, mask; /* in network byte order */
};

struct networks {
	size_t count;
	struct network network[NETWORKS_MAX];
};

static FILE *open_in(const char *net_dir, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", net_dir, name) < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* The networks on the interface of the default route. */
static void default_networks(const char *net_dir, struct networks *ret)
{
	char line[256], by[32] = "", interface[32];
	unsigned destination, mask, metric, best = UINT_MAX;

	*ret = (struct networks){0};
	for (int pass = 0; pass < 2; pass++) {
		FILE *f = open_in(net_dir, "route");

		for (unsigned i = 0; f && i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
			if (sscanf(line, "%31s %x %*x %*x %*d %*d %u %x", interface, &destination, &metric, &mask) != 4)
				continue;
			if (pass == 0 && !destination && !mask && metric < best) {
				memcpy(by, interface, sizeof(by));
				best = metric;
			} else if (pass == 1 && mask && strcmp(interface, by) == 0 && ret->count < NETWORKS_MAX) {
				ret->network[ret->count++] = (struct network){destination, mask};
			}
		}
		if (f)
			fclose(f);
	}
}

static bool node_address_is_in(const struct networks *networks, uint32_t address)
{
	for (size_t i = 0; i < networks->count; i++)
		if ((address & networks->network[i].mask) == networks->network[i].address)
			return true;
	return false;
}

void node_address(const char *net_dir, char ret[NODE_ADDRESS_BYTES])
{
	char line[256], text[NODE_ADDRESS_BYTES], last[NODE_ADDRESS_BYTES] = "";
	struct networks networks;
	FILE *f = open_in(net_dir, "fib_trie");
	struct in_addr address;

	snprintf(ret, NODE_ADDRESS_BYTES, "127.0.0.1");
	default_networks(net_dir, &networks);
	for (unsigned i = 0; f && i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
		bool first = strcmp(ret, "127.0.0.1") == 0;

		if (sscanf(line, " |-- %15[0-9.]", text) == 1)
			memcpy(last, text, sizeof(last));
		if (!strstr(line, "/32 host LOCAL") || strncmp(last, "127.", 4) == 0 ||
			inet_pton(AF_INET, last, &address) != 1)
			continue;
		if (first || node_address_is_in(&networks, address.s_addr))
			memcpy(ret, last, NODE_ADDRESS_BYTES);
		if (node_address_is_in(&networks, address.s_addr))
			break;
	}
	if (f)
		fclose(f);
}

#define ROWS_AT_ONCE 20000 /* then the segment is released, for its WAL checkpoint */
#define LOADS_MAX 1000	   /* of the ranks, a kind */
#define WINDOW_PARTS 8	   /* a level's files are rotated at this part of bytes_max */
#define ATTEMPTS 4	   /* on a full disk, removing an old window each time */
#define FREE_PART 20	   /* of the file system, left free */
#define FREE_BYTES_MAX (1ULL << 30)

struct run {
	const struct dump_options *options;
	struct reader *reader;
	struct dump_state state;
	struct dump_ranks ranks;
	struct dump_stacks stacks; /* loaded once one is wanted */
	struct dump_ids *ids;
	struct dump_files *files;
	struct dump_rows rows;
	struct dump_result *result;
	uint64_t level_rows[DUMP_KIND_MAX], level_bytes[DUMP_KIND_MAX];
	bool changed; /* the state must be saved */
	char address[NODE_ADDRESS_BYTES], host[65];
};

static int dump_run_fail(int r, const char *what, const char *where, char *error, size_t error_size)
{
	snprintf(error, error_size, "%s %s: %s", what, where,
		r == -EPERM ? "a folder of another user, or one that others may write to" : strerror(-r));
	return r;
}

static uint64_t level_bytes_max(const struct run *run)
{
	return run->options->extend ? run->options->bytes_max / WINDOW_PARTS : UINT64_MAX;
}

/* A new window begins with new files. */
static int turn_window(struct run *run, enum dump_kind kind)
{
	const struct dump_options *options = run->options;
	struct dump_level_state *level = &run->state.level[kind];
	uint64_t start_ns = options->now_ns - options->now_ns % options->window_ns;
	bool fits = start_ns <= level->window_ns && level->window_ns <= options->now_ns;
	int r = 0;

	if (fits && dump_folder_present(options->dir, kind) < level_bytes_max(run))
		return 0;
	if (level->window_ns)
		r = dump_folder_rotate(options->dir, kind, level->window_ns);
	if (r < 0)
		return r;
	level->window_ns = fits ? options->now_ns : start_ns;
	run->changed = true;
	if (kind == DUMP_L3)
		run->state.delays = 0; /* sums begin anew with the files */
	return 0;
}

/* Rows of one kind, up to the bytes of a window. */
static int write_kind(struct run *run, enum dump_kind kind, char *error, size_t error_size)
{
	struct dump_level_state *level = &run->state.level[kind];
	struct reader_place place = {level->segment, level->row};
	struct reader_following following = {
		.table = dump_rows_table(kind), .rows_max = ROWS_AT_ONCE, .row = dump_rows_row, .arg = &run->rows};
	struct dump_rows *rows = &run->rows;
	unsigned loads = 0;
	int r;

	if (!level->since_ns || level->since_ns > run->options->now_ns) {
		level->since_ns = run->options->now_ns - run->options->window_ns;
		run->changed = true;
	}
	following.since_ns = run->options->extend ? level->since_ns : run->options->since_ns;
	dump_rows_begin(rows, kind);
	rows->of.window_ns = run->options->extend ? level->window_ns : run->options->now_ns;
	rows->rows = rows->bytes = 0;
	error[0] = 0;
	do {
		r = reader_follow(run->reader, &following, &place, error, error_size);
		if (r == -EAGAIN)
			r = 1; /* load what is not known */
		if (r == 1 && loads++ < LOADS_MAX) {
			dump_ranks_clear(&run->ranks);
			if (dump_ranks_load(run->reader, &run->ranks, error, error_size) < 0)
				r = -EIO;
			if (r == 1 && run->stacks.wanted && !run->stacks.loaded)
				r = dump_stacks_load(run->reader, following.since_ns, &run->stacks, error, error_size) <
						    0
					    ? -EIO
					    : 1;
		}
	} while (r == 1 && rows->bytes < level_bytes_max(run));
	if (r < 0)
		return error[0] ? r : dump_run_fail(r, "cannot write in", run->options->dir, error, error_size);
	run->result->behind |= r == 1;
	run->result->rows += rows->rows;
	run->level_rows[kind] = rows->rows;
	run->level_bytes[kind] = rows->bytes;
	run->changed |= level->segment != place.segment || level->row != place.row;
	level->segment = place.segment;
	level->row = place.row;
	return 0;
}

static void note_wrote(struct run *run)
{
	uint64_t files[DUMP_KIND_MAX] = {0};
	struct dump_file_info info;

	for (size_t i = 0; dump_files_get(run->files, i, &info); i++)
		files[info.kind]++;
	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++)
		if (run->level_rows[kind])
			run->state.level[kind].wrote = (struct dump_wrote){
				run->options->now_ns, files[kind], run->level_rows[kind], run->level_bytes[kind]};
	run->changed |= run->state.reason[0] != 0;
	run->state.reason[0] = 0;
	if (run->result->left_out)
		snprintf(run->state.reason, sizeof(run->state.reason),
			"%llu rows left out: more than %d processes, or oversized records",
			(unsigned long long)run->result->left_out, DUMP_FILES_MAX);
	else if (run->result->behind)
		snprintf(run->state.reason, sizeof(run->state.reason),
			"more rows than one dump may write; the next dump continues");
}

static int dump_run_write_all(struct run *run, char *error, size_t error_size)
{
	const struct dump_options *options = run->options;
	int r = dump_files_new(options->dir, run->state.run + 1, options->extend, &run->files);

	if (r < 0)
		return dump_run_fail(r, "cannot write in", options->dir, error, error_size);
	run->ids = dump_ids_new(run->state.next_id);
	if (!run->ids)
		return dump_run_fail(-ENOMEM, "cannot write in", options->dir, error, error_size);
	run->rows = (struct dump_rows){.ranks = &run->ranks,
		.wanted = &options->ranks,
		.files = run->files,
		.ids = run->ids,
		.state = &run->state,
		.stacks = &run->stacks,
		.of = {.host = run->host, .address = run->address}};
	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++) {
		if (!(options->kinds & 1U << kind))
			continue;
		r = write_kind(run, (enum dump_kind)kind, error, error_size);
		if (r < 0)
			return r;
	}
	run->result->left_out = run->rows.left_out;
	run->result->failed = run->rows.failed;
	r = dump_files_sync(run->files);
	return r < 0 ? dump_run_fail(r, "cannot write in", options->dir, error, error_size) : 0;
}

static int dump_run_finish(struct run *run, char *error, size_t error_size)
{
	const struct dump_options *options = run->options;
	struct dump_kept kept = {0};
	int r = 0;

	note_wrote(run);
	if (options->extend && !run->changed)
		return 0; /* no new rows: no writes on an idle node */
	run->state.run++;
	run->state.next_id = dump_ids_next(run->ids);
	if (options->extend)
		r = dump_state_save(options->dir, &run->state);
	if (r == 0)
		r = dump_files_publish(run->files);
	if (r < 0)
		return dump_run_fail(r, "cannot write in", options->dir, error, error_size);
	if (!options->extend)
		return 0;
	/* The dump is complete; wrong counts until the next one are no failure. */
	if (dump_folder_keep(options->dir, options->bytes_max, options->age_max_ns, options->now_ns, &kept) == 0) {
		run->state.kept_files = kept.files;
		run->state.kept_bytes = kept.bytes;
		(void)dump_state_save(options->dir, &run->state);
	}
	return 0;
}

/* Discards a dump, for another attempt. */
static int take_back(struct run *run)
{
	run->files = dump_files_free(run->files);
	run->ids = dump_ids_free(run->ids);
	dump_state_clear(&run->state);
	run->result->rows = run->result->left_out = run->result->failed = 0;
	run->result->behind = false;
	return dump_state_load(run->options->dir, &run->state);
}

static bool dump_run_has_space(const char *dir)
{
	struct statvfs fs;
	uint64_t keep_free, available;

	if (statvfs(dir, &fs) < 0)
		return true; /* the write will fail */
	keep_free = (uint64_t)fs.f_blocks * fs.f_frsize / FREE_PART;
	available = (uint64_t)fs.f_bavail * fs.f_frsize;
	return available > (keep_free < FREE_BYTES_MAX ? keep_free : FREE_BYTES_MAX);
}

static int dump_run_make_space(const char *dir, char *error, size_t error_size)
{
	while (!dump_run_has_space(dir)) {
		if (dump_folder_remove_oldest(dir))
			continue;
		snprintf(error, error_size, "nothing written: the disk of %s is nearly full", dir);
		return -ENOSPC;
	}
	return 0;
}

static int begin_extending(struct run *run, char *error, size_t error_size)
{
	const char *dir = run->options->dir;
	struct dump_kept kept;
	int r = dump_folder_lock(dir);

	if (r < 0)
		return r == -EBUSY ? (snprintf(error, error_size, "another dump runs in %s", dir), r)
				   : dump_run_fail(r, "cannot use", dir, error, error_size);
	r = dump_state_load(dir, &run->state);
	if (r == 0)
		r = dump_files_recover(dir, run->state.run);
	if (r < 0)
		return dump_run_fail(r, "cannot use", dir, error, error_size);
	(void)dump_folder_keep(dir, run->options->bytes_max, run->options->age_max_ns, run->options->now_ns, &kept);
	return dump_run_make_space(dir, error, error_size);
}

static int turn_windows(struct run *run, char *error, size_t error_size)
{
	for (unsigned kind = 0; run->options->extend && kind < DUMP_KIND_MAX; kind++) {
		int r = run->options->kinds & 1U << kind ? turn_window(run, (enum dump_kind)kind) : 0;

		if (r < 0)
			return dump_run_fail(r, "cannot rotate the files in", run->options->dir, error, error_size);
	}
	return 0;
}

static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

/* Leaves the error of a failed dump for the daemon; earlier files are kept. */
static void dump_run_save_reason(struct run *run, const char *sentence)
{
	if (take_back(run) < 0)
		return;
	dump_utf8(sentence, run->state.reason, sizeof(run->state.reason));
	(void)dump_state_save(run->options->dir, &run->state);
}

static int dump_store(struct run *run, char *error, size_t error_size)
{
	const struct reader_options how = {.warning = run->options->warning};
	int r = reader_open(run->options->state_dir, &how, &run->reader, error, error_size);

	if (r == 0)
		r = dump_ranks_load(run->reader, &run->ranks, error, error_size);
	for (unsigned i = 0; r == 0; i++) {
		r = turn_windows(run, error, error_size);
		if (r == 0)
			r = dump_run_write_all(run, error, error_size);
		if (!is_full(r) || i + 1 == ATTEMPTS || !run->options->extend ||
			!dump_folder_remove_oldest(run->options->dir))
			break;
		r = take_back(run);
	}
	return r < 0 ? r : dump_run_finish(run, error, error_size);
}

int dump_run(const struct dump_options *options, struct dump_result *ret, char *error, size_t error_size)
{
	struct run run = {.options = options, .state = {.next_id = 1}, .result = ret};
	int r = 0;

	*ret = (struct dump_result){0};
	node_address("/proc/1/net", run.address);
	if (gethostname(run.host, sizeof(run.host)) < 0)
		snprintf(run.host, sizeof(run.host), "localhost");
	run.host[sizeof(run.host) - 1] = 0;
	if (options->extend)
		r = begin_extending(&run, error, error_size);
	if (r == 0)
		r = dump_store(&run, error, error_size);
	if (r < 0 && options->extend && r != -EBUSY)
		dump_run_save_reason(&run, error);
	ret->files = r == 0 ? run.files : dump_files_free(run.files);
	dump_ids_free(run.ids);
	dump_ranks_clear(&run.ranks);
	dump_stacks_clear(&run.stacks);
	dump_state_clear(&run.state);
	reader_close(run.reader);
	return r;
}
