/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranktraced: command line, order in which subsystems open and close, reload of the configuration. Exit status: 0
 * stopped on request, 1 cannot start or work (with a message), 2 wrong usage.
 */
#include <getopt.h>
#include <sys/resource.h>
#include "daemon/memory/allocs.h"
#include "daemon/memory/copies.h"
#include "daemon/check/check.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/control/control.h"
#include "daemon/dump/dumps.h"
#include "daemon/findings/online.h"
#include "daemon/gauges/gauges.h"
#include "daemon/guard/guard.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/daemon.h"
#include "daemon/probes/quarantine.h"
#include "daemon/coll/rank_coll.h"
#include "daemon/control/request.h"
#include "daemon/metrics/metrics.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/stacks/profiles.h"
#include "daemon/stacks/stacks.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"
#include "daemon/worker/worker.h"

enum { EXIT_USAGE = 2 };

struct daemon {
	struct context context;
	struct start_options options;
	struct loop *loop;
};

static void warn_group(const struct config *config)
{
	if (request_group_missing(config->group))
		log_warning("config", "group '%s' does not exist; only root may change levels", config->group);
}

static void main_reload(void *arg)
{
	struct daemon *d = arg;
	char error[512], ignored[512];
	struct config fresh;

	if (start_config(&d->options, &fresh, error, sizeof(error)) < 0) {
		log_error("config", "%s; keeping the running configuration", error);
		return;
	}
	config_reload(&d->context.config, &fresh, ignored, sizeof(ignored));
	log_set_level(d->context.config.log_level);
	warn_group(&d->context.config);
	if (ignored[0])
		log_warning("config", "configuration reloaded; waiting for a restart: %s", ignored);
	else
		log_notice("config", "configuration reloaded");
}

#define MAIN_FILES 4096 /* descriptors of a busy daemon: links of probes, clients, workers */

/* In a process with threads, an open() that makes the table of descriptors larger waits for all CPUs (RCU): 0.1 s under
 * load. */
static void main_reserve_files(void)
{
	struct rlimit limit;
	int fd = getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= MAIN_FILES ? -1
										      : dup2(STDERR_FILENO, MAIN_FILES);

	if (fd >= 0)
		close(fd);
}

static int open_loop(struct daemon *d)
{
	main_reserve_files();
	return loop_open(&d->context, main_reload, d, &d->loop);
}

static void close_loop(struct daemon *d)
{
	d->loop = loop_close(d->loop);
}

static int open_workers(struct daemon *d)
{
	return workers_new(d->context.base, &d->context.workers);
}

static void close_workers(struct daemon *d)
{
	d->context.workers = workers_free(d->context.workers);
}

static int open_quarantine(struct daemon *d)
{
	return quarantine_open(d->context.config.state_dir, &d->context.quarantine);
}

static void close_quarantine(struct daemon *d)
{
	d->context.quarantine = quarantine_close(d->context.quarantine);
}

static int main_open_store(struct daemon *d)
{
	return start_store(&d->context.config, &d->context.store);
}

static void close_store(struct daemon *d)
{
	d->context.store = store_close(d->context.store);
}

/* A module without more to open than its handle, context.FIELD. */
#define MAIN_MODULE(field, module_open, module_close) \
	static int open_##field(struct daemon *d) \
	{ \
		return module_open(&d->context, &d->context.field); \
	} \
	static void close_##field(struct daemon *d) \
	{ \
		d->context.field = module_close(d->context.field); \
	}

MAIN_MODULE(kernel, kernel_open, kernel_close)
static int main_budget_new(struct context *context, struct rank_budget **ret)
{
	return rank_budget_new(context, 0, ret);
}

MAIN_MODULE(budget, main_budget_new, rank_budget_free)
MAIN_MODULE(steps, rank_steps_new, rank_steps_free)
MAIN_MODULE(ops, rank_coll_new, rank_coll_free)
MAIN_MODULE(findings, online_new, online_free)
MAIN_MODULE(allocs, allocs_new, allocs_free)
MAIN_MODULE(copies, copies_new, copies_free)
MAIN_MODULE(gauges, gauges_new, gauges_free)
MAIN_MODULE(ranks, ranks_new, ranks_free)
MAIN_MODULE(stacks, stacks_new, stacks_free)
MAIN_MODULE(profiles, profiles_new, profiles_free)
MAIN_MODULE(guard, guard_new, guard_free)
MAIN_MODULE(dumps, dumps_new, dumps_free)
MAIN_MODULE(metrics, metrics_new, metrics_free)
MAIN_MODULE(control, control_open, control_close)

static void main_deliver(void *arg, const void *data, size_t size_bytes)
{
	collectors_event(arg, data, size_bytes);
}

static int open_collectors(struct daemon *d)
{
	int r = collectors_open(&d->context, &d->context.collectors);

	if (r >= 0)
		kernel_deliver(d->context.kernel, main_deliver, d->context.collectors);
	return r;
}

static void close_collectors(struct daemon *d)
{
	kernel_deliver(d->context.kernel, NULL, NULL);
	d->context.levels.apply = NULL;
	d->context.levels.window = NULL;
	d->context.collectors = collectors_close(d->context.collectors);
}

static int open_levels(struct daemon *d)
{
	start_levels(&d->context);
	return ranks_scan(d->context.ranks); /* after the levels: their probes then attach to every rank */
}

/* Opened from the top, closed from the bottom. */
static const struct subsystem {
	const char *name;
	int (*open)(struct daemon *d);
	void (*close)(struct daemon *d); /* may be NULL */
	bool logs;			 /* logs the reason of a failure itself */
} subsystems[] = {
	{"loop", open_loop, close_loop, true},
	{"workers", open_workers, close_workers, false},
	{"store", main_open_store, close_store, true},
	{"quarantine", open_quarantine, close_quarantine, false},
	{"kernel", open_kernel, close_kernel, false},
	{"gauges", open_gauges, close_gauges, false},
	{"ranks", open_ranks, close_ranks, false},
	{"budget", open_budget, close_budget, false}, /* is notified of a rank's end before its state is given up */
	{"stacks", open_stacks, close_stacks, false},
	{"profiles", open_profiles, close_profiles, false},
	{"steps", open_steps, close_steps, false},
	{"operations", open_ops, close_ops, false},
	{"findings", open_findings, close_findings,
		false}, /* is notified of a rank's end after its last steps and operations are fed */
	{"allocations", open_allocs, close_allocs, false},
	{"copies", open_copies, close_copies, false},
	{"collectors", open_collectors, close_collectors, true},
	{"levels", open_levels, NULL, false},
	{"guard", open_guard, close_guard, false},
	{"dumps", open_dumps, close_dumps, false},
	{"metrics", open_metrics, close_metrics, true},
	{"control", open_control, close_control, true},
};

static int main_run(struct daemon *d)
{
	size_t opened;
	int r = 0;

	kernel_keep_memory(true);
	for (opened = 0; opened < ARRAY_SIZE(subsystems); opened++) {
		r = subsystems[opened].open(d);
		if (r >= 0)
			continue;
		if (!subsystems[opened].logs)
			log_error_errno("main", r, "cannot start %s", subsystems[opened].name);
		break;
	}
	kernel_keep_memory(false);
	if (r >= 0)
		r = loop_run(d->loop);
	while (opened-- > 0)
		if (subsystems[opened].close)
			subsystems[opened].close(d);
	if (r >= 0)
		log_notice("main", "stopped");
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Preflight without a daemon: a kernel that does not open is reported by the check. */
static int main_check(struct daemon *d)
{
	int missing;

	log_set_level(LOG_ERR);
	if (kernel_open(&d->context, &d->context.kernel) < 0)
		d->context.kernel = NULL;
	missing = check_print(stdout, &d->context, d->options.json);
	d->context.kernel = kernel_close(d->context.kernel);
	return missing ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void main_usage(FILE *f)
{
	fputs("usage: ranktraced [OPTION]...\n"
	      "Finds the training ranks of this machine, traces them and stores the records.\n"
	      "\n"
	      "  --config F      read F instead of " RANKTRACE_SYSCONFDIR "/ranktrace.conf\n"
	      "  --state-dir D   keep the store and saved levels in D\n"
	      "  --socket S      serve tracectl on S\n"
	      "  --log-level L   emergency .. debug\n"
	      "  --foreground    no effect: ranktraced never forks\n"
	      "  --check         report what each level can observe on this machine, and exit\n"
	      "  --json          with --check: as JSON\n"
	      "  --check-config  check the configuration and the probe tables, and exit\n"
	      "  --version, --help\n"
	      "\n"
	      "See ranktraced(8) and ranktrace.conf(5).\n",
		f);
}

enum { OPTION_STATE = 256, OPTION_SOCKET, OPTION_CONFIG, OPTION_LEVEL, OPTION_FLAG };

/* 0: continue; otherwise exit with ret_status. */
static int main_parse(int argc, char **argv, struct start_options *options, int *ret_status)
{
	int check = 0, check_config = 0, json = 0, help = 0, version = 0, foreground = 0, c;
	const struct option table[] = {
		{"state-dir", required_argument, NULL, OPTION_STATE},
		{"socket", required_argument, NULL, OPTION_SOCKET},
		{"config", required_argument, NULL, OPTION_CONFIG},
		{"log-level", required_argument, NULL, OPTION_LEVEL},
		{"foreground", no_argument, &foreground, 1},
		{"check", no_argument, &check, 1},
		{"check-config", no_argument, &check_config, 1},
		{"json", no_argument, &json, 1},
		{"help", no_argument, &help, 1},
		{"version", no_argument, &version, 1},
		{0},
	};
	const char **texts[] = {&options->state_dir, &options->socket, &options->config, &options->log_level};

	*ret_status = EXIT_USAGE;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		if (c == '?' || c == ':') {
			fprintf(stderr, "ranktraced: %s '%s'; see ranktraced --help\n",
				c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
			return 1;
		}
		if (c >= OPTION_STATE && c < OPTION_FLAG)
			*texts[c - OPTION_STATE] = optarg;
	}
	options->check = check;
	options->check_config = check_config;
	options->json = json;
	if (optind < argc || (json && !check)) {
		fprintf(stderr, "ranktraced: unexpected '%s'; see ranktraced --help\n",
			optind < argc ? argv[optind] : "--json");
		return 1;
	}
	*ret_status = EXIT_SUCCESS;
	if (help)
		main_usage(stdout);
	else if (version)
		puts("ranktraced " RANKTRACE_VERSION);
	return help || version;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	char error[512];
	int status;

	if (main_parse(argc, argv, &d.options, &status))
		return status;
	log_open(LOG_INFO);
	if (start_options_check(&d.options, error, sizeof(error)) < 0) {
		log_error("main", "%s", error);
		return EXIT_USAGE;
	}
	if (start_config(&d.options, &d.context.config, error, sizeof(error)) < 0 ||
		(d.options.check_config && start_probes_check(&d.context.config, error, sizeof(error)) < 0)) {
		log_error("config", "%s", error);
		return EXIT_FAILURE;
	}
	if (!d.options.check_config)
		log_set_level(d.context.config.log_level);
	if (!d.options.check)
		warn_group(&d.context.config);
	if (d.options.check_config)
		return EXIT_SUCCESS;
	start_identity(&d.context);
	if (setpriority(PRIO_PROCESS, 0, (int)d.context.config.nice) < 0)
		log_warning("main", "cannot set nice %lu: %s; keeping the current priority",
			(unsigned long)d.context.config.nice, strerror(errno));
	return d.options.check ? main_check(&d) : main_run(&d);
}
