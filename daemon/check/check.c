/* SPDX-License-Identifier: Apache-2.0 */
/* Preflight checks: see check.h. To add one: a function and a row in the table at the end. */
#include "daemon/check/check.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"
#include "daemon/core/context.h"
#include "daemon/gauges/gauges.h"
#include "daemon/kernel/kernel.h"
#include "daemon/collect/collector.h"
#include "daemon/probes/call_engine.h"
#include "daemon/probes/quarantine.h"
#include "daemon/ranks/ranks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

/* From linux/capability.h; older headers lack the last two. */
enum {
	CAPABILITY_DAC_READ_SEARCH = 2,
	CAPABILITY_SYS_PTRACE = 19,
	CAPABILITY_SYS_ADMIN = 21,
	CAPABILITY_PERFMON = 38,
	CAPABILITY_BPF = 39
};

#define NCCL_CONF "/etc/nccl.conf"
#define NCCL_PLUGIN_KEY "NCCL_PROFILER_PLUGIN="
#define NCCL_PLUGIN RANKTRACE_LIBDIR "/libnccl-profiler-ranktrace.so"
#define DISPUTES_MAX 8u /* ranks that two users claim */
#define DISK_FREE_BYTES_LOW (1ULL << 30)

static struct check_item *check_add(struct check_list *list, const char *topic, enum check_verdict verdict,
	const char *advice, const char *format, ...) _printf_(5, 6);

/* A full list overwrites its last item, which remains valid. */
static struct check_item *check_add(struct check_list *list, const char *topic, enum check_verdict verdict,
	const char *advice, const char *format, ...)
{
	struct check_item *item = &list->item[list->count < CHECK_ITEMS_MAX ? list->count++ : CHECK_ITEMS_MAX - 1];
	va_list args;

	copy_text(item->topic, sizeof(item->topic), topic);
	copy_text(item->advice, sizeof(item->advice), advice);
	item->verdict = verdict;
	item->about_ranks = false;
	va_start(args, format);
	vsnprintf(item->sentence, sizeof(item->sentence), format, args);
	text_clean(item->sentence);
	va_end(args);
	return item;
}

static uint64_t effective_capabilities(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "CapEff:", 7) == 0)
			return strtoull(line + 7, NULL, 16);
	return 0;
}

static bool check_capable(unsigned capability)
{
	return effective_capabilities() >> capability & 1;
}

static const struct kernel_features *features_of(const struct context *context)
{
	return context->kernel ? kernel_features(context->kernel) : NULL;
}

static void check_kernel(const struct context *context, struct check_list *list)
{
	struct utsname name = {0};

	uname(&name);
	if (!features_of(context))
		check_add(list, "kernel", CHECK_LIMITED,
			"run this as root, or query a running daemon with tracectl check",
			"Linux %s on %s; its features are not tested", name.release, name.machine);
	else
		check_add(list, "kernel", CHECK_OK, "", "Linux %s on %s", name.release, name.machine);
}

static void check_btf(const struct context *context, struct check_list *list)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0)
		check_add(list, "btf", CHECK_OK, "", "the kernel provides its types in /sys/kernel/btf/vmlinux");
	else
		check_add(list, "btf", CHECK_MISSING,
			"use a kernel with CONFIG_DEBUG_INFO_BTF; in a container, mount the node's /sys",
			"cannot read /sys/kernel/btf/vmlinux: %s; no probe can be loaded", strerror(errno));
}

static void check_ring(const struct context *context, struct check_list *list)
{
	const struct kernel_features *features = features_of(context);

	if (!features)
		return;
	if (features->ring_buffer)
		check_add(list, "ring buffer", CHECK_OK, "", "the kernel supports BPF ring buffers");
	else
		check_add(list, "ring buffer", CHECK_MISSING, "use Linux 5.8 or later, and give the daemon CAP_BPF",
			"cannot create a BPF ring buffer; nothing can be collected");
}

static void check_scheduler(const struct context *context, struct check_list *list)
{
	const struct kernel_features *features = features_of(context);

	if (!features)
		return;
	if (features->tp_btf)
		check_add(list, "tp_btf", CHECK_OK, "",
			"typed tracepoints (tp_btf) deliver scheduler and process events");
	else
		check_add(list, "tp_btf", CHECK_LIMITED, "give the daemon CAP_PERFMON, or use a kernel with BTF",
			"typed tracepoints do not load; raw tracepoints replace them");
}

static void check_uprobes(const struct context *context, struct check_list *list)
{
	const struct kernel_features *features = features_of(context);

	if (!features)
		return;
	if (features->uprobe_multi)
		check_add(list, "uprobes", CHECK_OK, "", "uprobe_multi: one link per library, without CAP_SYS_ADMIN");
	else if (features->perf_uprobe)
		check_add(list, "uprobes", CHECK_LIMITED,
			"use Linux 6.6 or later: uprobe_multi attaches faster and needs fewer capabilities",
			"library probes attach through perf, one at a time");
	else
		check_add(list, "uprobes", CHECK_MISSING,
			"use Linux 6.6 or later, or add CAP_SYS_ADMIN to CapabilityBoundingSet= and "
			"AmbientCapabilities= with the drop-in old-kernel.conf, see ranktraced(8)",
			"neither uprobe_multi nor perf uprobes work%s; L0, L1 and L2 record nothing",
			check_capable(CAPABILITY_SYS_ADMIN) ? "" : " without CAP_SYS_ADMIN");
	if (features->uprobe_multi || features->perf_cookie)
		check_add(list, "cookies", CHECK_OK, "", "one program serves all probes (BPF cookies)");
	else if (features->perf_uprobe)
		check_add(list, "cookies", CHECK_LIMITED,
			"use Linux 5.15 or later: with BPF cookies one program serves all probes",
			"no BPF cookies: each probe needs its own program, at most %d", CALL_ENGINE_FIXED_MAX);
}

static void check_sampling(const struct context *context, struct check_list *list)
{
	const struct kernel_features *features = features_of(context);
	char level[16] = "unknown";
	_cleanup_fclose_ FILE *f = NULL;

	if (!features)
		return;
	if (features->sampling) {
		check_add(list, "sampling", CHECK_OK, "", "perf events sample the threads of ranks for profiles");
		return;
	}
	f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	if (f && fgets(level, sizeof(level), f))
		level[strcspn(level, "\n")] = 0;
	check_add(list, "sampling", CHECK_LIMITED,
		"set kernel.perf_event_paranoid to 2 with sysctl: at 3, Debian's and Ubuntu's kernels ask for "
		"CAP_SYS_ADMIN; or give the daemon CAP_PERFMON",
		"the kernel refuses to sample (kernel.perf_event_paranoid is %s): no profiles", level);
}

/* Maps of the size of the ring, which is most of them. */
static void check_locked_memory(const struct context *context, struct check_list *list)
{
	uint64_t bytes = context->config.ring_size_bytes, limit;

	if (kernel_is_memlocked(bytes, &limit))
		check_add(list, "locked memory", CHECK_MISSING, KERNEL_MEMLOCK_ADVICE,
			"the limit on locked memory, %" PRIu64
			" KiB, is too small for BPF maps, which need more than %" PRIu64
			" KiB: nothing can be collected",
			limit >> 10, bytes >> 10);
}

static void check_pid_namespace(const struct context *context, struct check_list *list)
{
	const struct kernel_features *features = features_of(context);

	if (!features)
		return;
	if (features->host_pids)
		check_add(list, "pid namespace", CHECK_OK, "",
			"the node's initial one: ranks in containers are found too");
	else
		check_add(list, "pid namespace", CHECK_MISSING, KERNEL_NO_HOST_PIDS_ADVICE, "%s", KERNEL_NO_HOST_PIDS);
}

static void check_capabilities(const struct context *context, struct check_list *list)
{
	static const struct {
		unsigned number;
		const char *name, *whatif;
		enum check_verdict verdict;
	} wanted[] = {
		{CAPABILITY_BPF, "CAP_BPF", "no probe can be loaded", CHECK_MISSING},
		{CAPABILITY_PERFMON, "CAP_PERFMON", "no probe can be attached", CHECK_MISSING},
		{CAPABILITY_SYS_PTRACE, "CAP_SYS_PTRACE",
			"cannot read environment and libraries of other users' processes, so their ranks are not found",
			CHECK_LIMITED},
		{CAPABILITY_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH",
			"cannot open libraries in other users' folders and containers, so their probes are not "
			"attached",
			CHECK_LIMITED},
	};
	bool admin = check_capable(CAPABILITY_SYS_ADMIN);

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		/* CAP_SYS_ADMIN still implies the first two, which Linux 5.8 split off. */
		bool implied = admin && wanted[i].number >= CAPABILITY_PERFMON;

		if (check_capable(wanted[i].number) || implied)
			check_add(list, wanted[i].name, CHECK_OK, "", "held");
		else
			check_add(list, wanted[i].name, wanted[i].verdict,
				"run as root, or add it to CapabilityBoundingSet= and AmbientCapabilities= of the unit",
				"not held: %s", wanted[i].whatif);
	}
}

static void check_state(const struct context *context, struct check_list *list)
{
	const char *path = context->config.state_dir;
	char parent[PATH_MAX];
	struct statvfs fs;
	uint64_t free_bytes;

	copy_text(parent, sizeof(parent), path);
	/* A folder that does not exist is created under its nearest ancestor. */
	while (access(parent, F_OK) < 0 && errno == ENOENT && strrchr(parent, '/') > parent)
		*strrchr(parent, '/') = 0;
	if (access(parent, W_OK | X_OK) < 0) {
		check_add(list, "state folder", CHECK_MISSING,
			errno == EROFS ? "add it to ReadWritePaths= of the unit, see state_dir in ranktrace.conf(5)"
				       : "choose another folder with state_dir or --state-dir",
			"cannot write to %s: %s", parent, strerror(errno));
		return;
	}
	if (statvfs(parent, &fs) < 0) {
		check_add(list, "state folder", CHECK_LIMITED, "", "cannot determine the free space of %s: %s", parent,
			strerror(errno));
		return;
	}
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (free_bytes < DISK_FREE_BYTES_LOW || free_bytes < context->config.events_size_bytes_max)
		check_add(list, "state folder", CHECK_LIMITED,
			"free disk space, or lower events_size_max in ranktrace.conf",
			"%s has %llu MiB free, but the store may grow to %llu MiB; the oldest data is removed when the "
			"disk is full",
			path, (unsigned long long)(free_bytes >> 20),
			(unsigned long long)(context->config.events_size_bytes_max >> 20));
	else
		check_add(list, "state folder", CHECK_OK, "", "%s is writable and has %llu MiB free", path,
			(unsigned long long)(free_bytes >> 20));
}

/* True if NCCL's configuration loads our plugin into every NCCL process of the node. */
static bool nccl_conf_names_us(void)
{
	_cleanup_fclose_ FILE *f = fopen(NCCL_CONF, "re");
	char line[1024];
	bool named = false;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, NCCL_PLUGIN_KEY, strlen(NCCL_PLUGIN_KEY)) == 0)
			named |= strstr(line, "ranktrace") != NULL;
	return named;
}

static void check_device_times(const struct context *context, struct check_list *list)
{
	bool named = nccl_conf_names_us();

	if (access(NCCL_PLUGIN, R_OK) < 0)
		check_add(list, "device times", CHECK_LIMITED,
			named ? "install the package ranktrace-nccl, or set the library's full path in " NCCL_CONF
			      : "install the package ranktrace-nccl if jobs here use NCCL",
			"%s does not exist; NCCL operations have only host times", NCCL_PLUGIN);
	else if (named)
		check_add(list, "device times", CHECK_OK, "",
			"every new NCCL process loads the marker library (" NCCL_CONF ")");
	else
		check_add(list, "device times", CHECK_LIMITED,
			"add the line " NCCL_PLUGIN_KEY "ranktrace to " NCCL_CONF ", or to a job's environment",
			"the marker library is installed, but " NCCL_CONF
			" does not name it; NCCL operations have device "
			"times only in jobs that load it themselves");
}

static void check_ranks(const struct context *context, struct check_list *list)
{
	size_t count;

	if (!context->ranks)
		return;
	count = ranks_count(context->ranks, RANK_ROLE_RANK);
	if (count)
		check_add(list, "ranks", CHECK_OK, "", "%zu training rank%s on this node (tracectl ranks shows more)",
			count, count == 1 ? "" : "s");
	else
		check_add(list, "ranks", CHECK_OK, "",
			"no training rank on this node; libraries are checked when a rank runs");
}

static void add_suspect(void *arg, uint32_t uid, uint64_t count, const char *why)
{
	struct check_list *list = arg;

	check_add(list, "suspects", CHECK_LIMITED, "ask the user; findings of his jobs turn no level on",
		"user %" PRIu32 ": %s (%" PRIu64 " time%s)", uid, why, count, count == 1 ? "" : "s")
		->about_ranks = true;
}

struct disputes {
	const struct ranks *ranks;
	struct check_list *list;
	unsigned count;
};

/* Reported once, for the user with the lower number. */
static void add_dispute(void *arg, const struct rank *rank)
{
	struct disputes *disputes = arg;
	uint32_t other;

	if (!ranks_disputed(disputes->ranks, rank, &other) || rank->uid > other || disputes->count++ >= DISPUTES_MAX)
		return;
	check_add(disputes->list, "suspects", CHECK_LIMITED, "tracectl ranks shows both; they are judged as two jobs",
		"users %" PRIu32 " and %" PRIu32 " both run a rank %" PRId32 " of job %s", rank->uid, other,
		rank->env.rank, rank->env.job)
		->about_ranks = true;
}

static void check_suspects(const struct context *context, struct check_list *list)
{
	struct disputes disputes = {context->ranks, list, 0};

	if (!context->ranks)
		return;
	ranks_suspects_each(context->ranks, add_suspect, list);
	ranks_each(context->ranks, add_dispute, &disputes);
}

/* A level that is on and has ranks but no probe records nothing. */
static void check_quarantine(const struct context *context, struct check_list *list)
{
	unsigned count = quarantine_count(context->quarantine);

	if (count)
		check_add(list, "libraries", CHECK_LIMITED, "",
			"%u library file%s of ranks %s not read: damaged, or larger than libraries are; %s functions "
			"are not traced",
			count, count == 1 ? "" : "s", count == 1 ? "is" : "are", count == 1 ? "its" : "their");
}

static void add_collector(const struct context *context, enum level level, struct check_list *list,
	const struct collector *collector, const struct collector_status *status)
{
	bool on = context->levels.on[level], shared = status->levels_shared & LEVEL_BIT(level);
	bool blind = on && !shared && status->probes_attached == 0 && context->ranks &&
		     ranks_count(context->ranks, RANK_ROLE_RANK);

	if (status->levels_empty & LEVEL_BIT(level))
		check_add(list, level_name(level), CHECK_LIMITED,
			"add rows to a table in probes.d, or keep the level off",
			"%s: no probe table has a row of this level; it collects nothing", collector->name);
	else if (!on && status->lacks)
		check_add(list, level_name(level), CHECK_LIMITED, "",
			"%s: %s; off now; this kernel lacks %s: what these show is not recorded", collector->name,
			collector->summary, status->lacks);
	else if (!on)
		check_add(
			list, level_name(level), CHECK_OK, "", "%s: %s; off now", collector->name, collector->summary);
	else if (shared)
		check_add(list, level_name(level), status->notes ? CHECK_LIMITED : CHECK_OK, "",
			"%s: %s; its probes are among those of call", collector->name, collector->summary);
	else
		check_add(list, level_name(level), blind || status->notes ? CHECK_LIMITED : CHECK_OK,
			blind ? "see the notes below and the tables in probes.d" : "",
			"%s: %s; %llu probe%s attached now", collector->name, collector->summary,
			(unsigned long long)status->probes_attached, status->probes_attached == 1 ? "" : "s");
}

static enum level first_on(const struct context *context, const struct collector *collector)
{
	enum level level = 0;

	while (level < LEVEL_MAX && !(collector->levels & LEVEL_BIT(level) && context->levels.on[level]))
		level++;
	return level;
}

/* Status of the collectors that serve the level. */
static bool level_from_collectors(
	const struct context *context, enum level level, struct check_list *list, struct collector_status *status)
{
	const struct collector *collector;
	bool served = false;

	for (unsigned i = 0; collectors_status(context->collectors, i, &collector, status); i++) {
		if (collector->levels & LEVEL_BIT(level)) {
			served = true;
			add_collector(context, level, list, collector, status);
			/* Notes are per collector: print them once, under its first level that is on. */
			for (unsigned n = 0;
				level == first_on(context, collector) && n < status->notes && n < COLLECTOR_NOTES_MAX;
				n++)
				check_add(list, level_name(level), CHECK_LIMITED, "", "%s: %s", collector->name,
					status->note[n])
					->about_ranks = true;
		}
		memset(status, 0, sizeof(*status));
	}
	return served;
}

static void check_levels(const struct context *context, struct check_list *list)
{
	_cleanup_free_ struct collector_status *status = calloc(1, sizeof(*status));
	const struct kernel_features *features = features_of(context);
	bool probes = !features || features->uprobe_multi || features->perf_uprobe;

	for (enum level l = 0; status && l < LEVEL_MAX; l++) {
		bool served = context->collectors && level_from_collectors(context, l, list, status);

		if (context->collectors && !served)
			check_add(
				list, level_name(l), CHECK_LIMITED, "", "no collector of this build serves this level");
		else if (!context->collectors && l != LEVEL_L3 && !probes)
			check_add(list, level_name(l), CHECK_MISSING, "see uprobes above", "needs library probes");
		else if (!context->collectors)
			check_add(list, level_name(l), CHECK_OK, "",
				"depends on the libraries of the ranks; query a running daemon");
	}
}

/* Without a daemon nothing has opened them. */
static void check_gauges(const struct context *context, struct check_list *list)
{
	struct gauges_status status;

	for (unsigned i = 0; gauges_status(context->gauges, i, &status); i++) {
		const char *name = status.source->name, *summary = status.source->summary;

		switch (status.state) {
		case GAUGES_READ:
			check_add(list, "gauges", CHECK_OK, "", "%s: %s; %zu gauge%s", name, summary, status.count,
				status.count == 1 ? "" : "s");
			break;
		case GAUGES_ABSENT:
			check_add(list, "gauges", CHECK_OK, "", "%s: none on this machine (%s)", name, summary);
			break;
		case GAUGES_REFUSED:
			check_add(list, "gauges", CHECK_LIMITED,
				"under systemd use the drop-in cards.conf, see ranktraced(8)", "%s: %s", name,
				status.why);
			break;
		case GAUGES_OPENING:
		case GAUGES_SILENT:
			check_add(list, "gauges", CHECK_LIMITED, "", "%s: no answer%s", name,
				status.state == GAUGES_SILENT ? " for more than 10 s; its driver hangs" : " yet");
			break;
		}
	}
}

static void (*const checks[])(const struct context *context, struct check_list *list) = {
	check_kernel,
	check_btf,
	check_ring,
	check_scheduler,
	check_uprobes,
	check_sampling,
	check_locked_memory,
	check_pid_namespace,
	check_capabilities,
	check_state,
	check_device_times,
	check_ranks,
	check_suspects, /* before the notes of libraries, of which a user can cause as many as the list takes */
	check_quarantine,
	check_levels,
	check_gauges,
};

void check_run(const struct context *context, struct check_list *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		checks[i](context, ret);
}

/* The preflight on paper (`ranktraced --check`, before any daemon runs). */

static const char *const verdict_names[CHECK_VERDICT_MAX] = {
	[CHECK_OK] = "ok",
	[CHECK_LIMITED] = "limited",
	[CHECK_MISSING] = "missing",
};

/* Sentences may quote file names, so anything may be in them: what is not printable ASCII becomes '?'. */
static void print_json_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', f);
		fputc(*text >= ' ' && *text < 0x7f ? *text : '?', f);
	}
	fputc('"', f);
}

static void print_json(FILE *f, const struct check_list *list)
{
	fputs("[\n", f);
	for (unsigned i = 0; i < list->count; i++) {
		const struct check_item *item = &list->item[i];

		fputs("  {\"topic\": ", f);
		print_json_text(f, item->topic);
		fprintf(f, ", \"verdict\": \"%s\", \"sentence\": ", verdict_names[item->verdict]);
		print_json_text(f, item->sentence);
		fputs(", \"advice\": ", f);
		print_json_text(f, item->advice);
		fputs(i + 1 < list->count ? "},\n" : "}\n", f);
	}
	fputs("]\n", f);
}

static void print_table(FILE *f, const struct check_list *list)
{
	static const enum term_colour colours[CHECK_VERDICT_MAX] = {TERM_GREEN, TERM_YELLOW, TERM_RED};
	static const struct term_column columns[] = {
		{.name = ""}, {.name = ""}, {.name = "", .min = 40, .wraps = true}};
	struct term_table *table = term_table_new(columns, ARRAY_SIZE(columns));

	for (unsigned i = 0; i < list->count; i++) {
		const struct check_item *item = &list->item[i];

		term_table_cell(table, colours[item->verdict], "%s", verdict_names[item->verdict]);
		term_table_cell(table, TERM_PLAIN, "%s", item->topic);
		term_table_cell(table, TERM_PLAIN, "%s", item->sentence);
		if (item->advice[0])
			term_table_line(table, "-> %s", item->advice);
	}
	term_table_print(table, f, 0);
	term_table_free(table);
}

int check_print(FILE *f, const struct context *context, bool json)
{
	_cleanup_free_ struct check_list *list = calloc(1, sizeof(*list));
	int missing = 0;

	if (!list)
		return -ENOMEM;
	check_run(context, list);
	(json ? print_json : print_table)(f, list);
	for (unsigned i = 0; i < list->count; i++)
		missing += list->item[i].verdict == CHECK_MISSING;
	return fflush(f) == 0 ? missing : -errno;
}
