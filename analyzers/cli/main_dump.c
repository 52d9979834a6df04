/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/dump, which is `tracectl dump`: what the store holds, in the files that tools made for sysTrace
 * read. With
 * --extend it is what the daemon runs at each interval: it goes on with the files of STATE_DIR/dump, at the
 * lowest priority. Exit codes: 0 done, 1 the store or the disk failed, 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jansson.h>

#include "analyzers/dump/dump_run.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"

#define SINCE "10m"
#define FOLDER "ranktrace-dump"
#define IOPRIO_IDLE (3 << 13) /* class idle, of the process itself */
#define SECONDS_MAX (3650ULL * 86400)

static const char usage[] =
	"usage: tracectl dump [--since TIME] [--rank LIST] [--level LEVELS] [-o DIR] [--json] [--state-dir DIR]\n"
	"Writes the store as files of sysTrace, one per process of a rank and level: timeline/ (L0), mspti/ (L1),\n"
	"hbm_trace/ (L2) and osprobe/ (L3) in DIR. Existing files of the same name are replaced.\n"
	"  --since TIME     rows since then: 30m, 12h, 7d ago, or a date and time (" SINCE ")\n"
	"  --rank LIST      only these ranks: 0,3-7\n"
	"  --level LEVELS   only these levels: L0,L1 (all)\n"
	"  -o, --output DIR  write to DIR (" FOLDER ")\n"
	"  --json           list the files as an array of objects\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n"
	"Options that the daemon uses:\n"
	"    --extend       extend the files in dump/ of the state folder\n"
	"    --window S     seconds after which new files begin (3600)\n"
	"    --size-max B   maximum size of all files in bytes (1 GiB)\n"
	"    --age-max S    maximum age of files in seconds (2 days)\n";

struct dump {
	struct dump_options options;
	char dir[PATH_MAX];
	bool json;
};

/* The job's CPU and disk come first; and what the daemon may do, this needs not. Each is an offer that may be refused.
 */
static void cmd_dump_give_way(void)
{
	const struct sched_param none = {0};

	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)sched_setscheduler(0, SCHED_BATCH, &none);
	(void)syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static json_t *cmd_dump_file_json(const struct dump_file_info *info)
{
	return json_pack("{s:s, s:I, s:s, s:I, s:I}", "level", dump_kind_name(info->kind), "rank",
		(json_int_t)info->rank, "path", info->path, "rows", (json_int_t)info->rows, "bytes",
		(json_int_t)info->bytes);
}

static void cmd_dump_show(const struct dump *dump, const struct dump_result *result)
{
	json_t *all = dump->json ? json_array() : NULL;
	struct dump_file_info info;
	size_t i;

	if (!dump->json && result->rows)
		printf("%-5s %6s %12s %14s  %s\n", "LEVEL", "RANK", "ROWS", "BYTES", "FILE");
	for (i = 0; dump_files_get(result->files, i, &info); i++) {
		if (dump->json)
			json_array_append_new(all, cmd_dump_file_json(&info));
		else
			printf("%-5s %6" PRId64 " %12" PRIu64 " %14" PRIu64 "  %s\n", dump_kind_name(info.kind),
				info.rank, info.rows, info.bytes, info.path);
	}
	if (dump->json) {
		(void)tool_print(all, JSON_INDENT(2));
	} else if (i == 0) {
		printf("nothing to write: the store has no such rows in that time\n");
	}
	if (result->failed && !dump->json)
		printf("%" PRIu64 " allocations failed, or have no address; sysTrace's files have no place for them\n",
			result->failed);
	if (result->left_out)
		fprintf(stderr, "%s: warning: %" PRIu64 " rows were left out\n", tool_name(), result->left_out);
}

static int cmd_dump_run(struct dump *dump)
{
	struct dump_options *options = &dump->options;
	struct dump_result result;
	char error[PATH_MAX + 256] = "";
	int status;

	umask(027);
	if (options->extend) {
		if ((size_t)snprintf(dump->dir, sizeof(dump->dir), "%s/dump", options->state_dir) >= sizeof(dump->dir))
			return tool_fail(1, "the name of the state folder is too long");
		options->dir = dump->dir;
		cmd_dump_give_way();
	}
	if (dump_run(options, &result, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	if (!options->extend)
		cmd_dump_show(dump, &result);
	status = tool_written();
	dump_files_free(result.files);
	return status;
}

/* "L0,L2" */
static int cmd_dump_set_levels(void *arg, const char *value)
{
	unsigned *kinds = arg;
	const char *list = value;
	char word[8];

	*kinds = 0;
	do {
		size_t n = strcspn(list, ",");
		enum dump_kind kind = DUMP_KIND_MAX;

		if (n < sizeof(word)) {
			memcpy(word, list, n);
			word[n] = 0;
			kind = dump_kind_parse(word);
		}
		if (kind == DUMP_KIND_MAX)
			return 1 + tool_fail(2, "--level takes levels as in L0,L2, not '%s'", value);
		*kinds |= 1U << kind;
		list += n;
	} while (*list++ == ',');
	return 0;
}

static int cmd_dump_set_number(const char *text, uint64_t max, uint64_t factor, uint64_t *ret)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n == 0 || n > max)
		return 1 + tool_fail(2, "--window, --size-max and --age-max take a number above 0, not '%s'", text);
	*ret = n * factor;
	return 0;
}

static int cmd_dump_set_seconds(void *arg, const char *value)
{
	return cmd_dump_set_number(value, SECONDS_MAX, 1000000000ULL, arg);
}

static int cmd_dump_set_bytes(void *arg, const char *value)
{
	return cmd_dump_set_number(value, UINT64_MAX / 2, 1, arg);
}

/* 0: go on; else the exit code plus one. */
static int cmd_dump_parse(int argc, char **argv, struct dump *dump)
{
	struct dump_options *o = &dump->options;
	const struct tool_option options[] = {
		{"state-dir", .text = &o->state_dir},
		{"since", .time_ns = &o->since_ns},
		{"rank", .ranks = &o->ranks},
		{"level", .call = cmd_dump_set_levels, .arg = &o->kinds},
		{"output", 'o', .text = &o->dir},
		{"window", .call = cmd_dump_set_seconds, .arg = &o->window_ns},
		{"size-max", .call = cmd_dump_set_bytes, .arg = &o->bytes_max},
		{"age-max", .call = cmd_dump_set_seconds, .arg = &o->age_max_ns},
		{"json", .flag = &dump->json},
		{"extend", .flag = &o->extend},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	if (!*o->dir)
		return 1 + tool_fail(2, "--output takes a folder");
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	static struct dump dump = {.options = {
					   .dir = FOLDER,
					   .kinds = (1U << DUMP_KIND_MAX) - 1,
					   .window_ns = 3600ULL * 1000000000,
					   .bytes_max = 1ULL << 30,
					   .age_max_ns = 2ULL * 86400 * 1000000000,
					   .warning = tool_warn,
				   }};
	int r;

	tool_begin("dump", argv);
	dump.options.now_ns = tool_now_ns();
	(void)tool_since(SINCE, dump.options.now_ns, &dump.options.since_ns);
	r = cmd_dump_parse(argc, argv, &dump);
	if (r)
		return r - 1;
	r = tool_state_dir(dump.options.state_dir, &dump.options.state_dir);
	return r ? r : cmd_dump_run(&dump);
}
