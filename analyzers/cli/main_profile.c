/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/profile, which is `tracectl profile`: has the daemon take a profile, by `tracectl sample`, unless
 * --profile or --since names a stored one, and draws it. Exit codes: 0 done; 1 the store or the file failed, or there
 * is no such profile; 2 usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzers/cli/profile_run.h"
#include "analyzers/flame/flame_words.h"
#include "analyzers/tool/tool_rows.h"

static const char usage[] =
	"usage: tracectl profile [--rank LIST] [--for LENGTH] [--hz N] [-o FILE] [--format FORMAT] [--cpu WHICH]\n"
	"                        [--profile N | --since TIME] [--job JOB] [--state-dir DIR]\n"
	"Samples the threads of ranks, and writes where their time goes, on and off the CPU.\n"
	"  --rank LIST      only these ranks: 0,3-7\n"
	"  --for LENGTH     length of the profile, at most 60s (10s)\n"
	"  --hz N           samples per second and CPU, at most 999 (49)\n"
	"  -o, --output FILE  write to FILE; - is standard output (profile-N.html, or the suffix of the format)\n"
	"  --format FORMAT  html (a flame graph), folded, speedscope or pprof (that of the suffix of FILE, else html)\n"
	"  --cpu WHICH      on (time on a CPU), off (time off the CPU) or both (both)\n"
	"  --profile N      write profile N of the store instead of a new one\n"
	"  --since TIME     write the newest profile since then: 30m, 12h ago, or a date and time\n"
	"  --job JOB        only this job\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

struct run {
	const char *state_dir, *output, *format_name, *cpu_name;
	struct flame_choice choice;
	uint64_t since_ns;
	const struct flame_format *format;
	enum profile_cpu cpu;
	const char *rank_text, *for_text, *hz_text; /* for tracectl sample */
};

static int cmd_profile_cpu(const char *name, enum profile_cpu *ret)
{
	static const struct {
		const char *name;
		enum profile_cpu cpu;
	} words[] = {{"on", PROFILE_ON_CPU}, {"off", PROFILE_OFF_CPU}, {"both", PROFILE_BOTH}};

	*ret = PROFILE_BOTH;
	for (size_t i = 0; name && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(name, words[i].name) == 0) {
			*ret = words[i].cpu;
			return 0;
		}
	return name ? 1 + tool_fail(2, "--cpu takes on, off or both, not '%s'", name) : 0;
}

static int cmd_profile_ranks(void *arg, const char *value)
{
	struct run *run = arg;

	run->rank_text = value;
	return ranges_parse(value, &run->choice.ranks) < 0
		       ? 1 + tool_fail(2, "--rank takes ranks as in 0,3-7, not '%s'", value)
		       : 0;
}

/* 0: go on; else the exit code plus one. */
static int cmd_profile_parse(int argc, char **argv, struct run *run)
{
	const struct tool_option options[] = {
		{"output", 'o', .text = &run->output},
		{"format", .text = &run->format_name},
		{"cpu", .text = &run->cpu_name},
		{"profile", .call = profile_run_number, .arg = &run->choice.number},
		{"since", .time_ns = &run->since_ns},
		{"rank", .call = cmd_profile_ranks, .arg = run},
		{"for", .text = &run->for_text},
		{"hz", .text = &run->hz_text},
		{"job", .text = &run->choice.job},
		{"state-dir", .text = &run->state_dir},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r == 0)
		r = tool_options_end(argc, argv);
	if (r == 0)
		r = cmd_profile_cpu(run->cpu_name, &run->cpu);
	if (r)
		return r;
	run->format = flame_format_find(run->format_name, run->output);
	if (!run->format)
		return 1 + tool_fail(2, "--format takes html, folded, speedscope or pprof, not '%s'", run->format_name);
	run->choice.since_ns = (int64_t)run->since_ns;
	if ((run->choice.number || run->since_ns) && (run->for_text || run->hz_text))
		return 1 + tool_fail(2, "--for and --hz need a new profile, --profile and --since a stored one");
	return 0;
}

/* Runs tracectl sample, which shows how far it is; its answer is JSON on the end. Does not return. */
static void cmd_profile_exec_sample(const struct run *run, int end)
{
	const char *program = getenv("RANKTRACE_TRACECTL");
	const char *argument[12] = {"tracectl", "sample", "--json"};
	size_t count = 3;
	const struct {
		const char *name, *value;
	} options[] = {{"--rank", run->rank_text}, {"--job", run->choice.job}, {"--for", run->for_text},
		{"--hz", run->hz_text}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].value) {
			argument[count++] = options[i].name;
			argument[count++] = options[i].value;
		}
	if (dup2(end, STDOUT_FILENO) >= 0 && setenv("RANKTRACE_VERB", "profile", 1) == 0)
		execvp(program && *program ? program : argument[0], (char *const *)argument);
	_exit(127);
}

/* Takes a profile. 0 with its number; else the exit code: the sentence is on stderr. */
static int cmd_profile_sample(const struct run *run, int64_t *ret)
{
	int ends[2], status = 0;
	json_t *answer = NULL;
	FILE *from = NULL;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) == 0) {
		pid = fork();
		if (pid == 0)
			cmd_profile_exec_sample(run, ends[1]);
		close(ends[1]);
		from = fdopen(ends[0], "r");
	}
	if (from) {
		answer = json_loadf(from, 0, NULL);
		fclose(from);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret = json_integer_value(json_object_get(answer, "profile"));
	json_decref(answer);
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 127)
		return WEXITSTATUS(status);
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && *ret > 0
		       ? 0
		       : tool_fail(1, "cannot run tracectl sample, which takes a profile");
}

static int cmd_profile_write(const struct run *run, const struct flame_view *view)
{
	char name[64], words[FLAME_WORDS_BYTES];
	struct profile_totals totals;
	int code;

	profile_totals(view->profile, &totals);
	if (!totals.samples)
		return tool_fail(1, "profile %lld has no samples whose stacks are stored: %s",
			(long long)view->source->number, flame_words_counts(view, words));
	snprintf(name, sizeof(name), "profile-%lld%s", (long long)view->source->number, run->format->suffix);
	code = profile_run_write(view, run->format, run->output ? run->output : name);
	if (code == 0 && (!run->output || strcmp(run->output, "-") != 0))
		fprintf(stderr, "%s: %s: %s\n", tool_name(), run->output ? run->output : name,
			flame_words_counts(view, words));
	return code;
}

int main(int argc, char **argv)
{
	struct run run = {.state_dir = NULL};
	struct profile *profile = profile_new();
	struct flame_source source = {.ranks = 0};
	struct flame_view view = {.profile = profile, .source = &source};
	struct reader *reader = NULL;
	char error[1024] = "out of memory";
	int r, code;

	tool_begin("profile", argv);
	r = cmd_profile_parse(argc, argv, &run);
	if (r) {
		profile_free(profile);
		return r - 1;
	}
	view.cpu = run.cpu;
	code = profile ? 0 : tool_fail(1, "out of memory");
	if (code == 0 && !run.choice.number && !run.since_ns)
		code = cmd_profile_sample(&run, &run.choice.number);
	if (code == 0)
		code = tool_open(&run.state_dir, true, &reader);
	if (code == 0 && flame_read(reader, &run.choice, false, profile, &source, error, sizeof(error)) < 0)
		code = tool_fail(1, "%s", error);
	if (code == 0)
		code = cmd_profile_write(&run, &view);
	flame_source_free(&source);
	profile_free(profile);
	if (reader)
		reader_close(reader);
	return code;
}
