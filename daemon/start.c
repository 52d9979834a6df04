/* SPDX-License-Identifier: Apache-2.0 */
/* Runs once, before the loop; start_config() also at each reload. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "daemon/collect/collector.h"
#include "daemon/base/log.h"
#include "daemon/daemon.h"
#include "daemon/probes/table.h"
#include "daemon/store/store.h"

#define CONFIG_FILE RANKTRACE_SYSCONFDIR "/ranktrace.conf"

int start_options_check(const struct start_options *options, char *error, size_t error_size)
{
	int level;

	if (options->log_level && config_log_level(options->log_level, &level) < 0) {
		snprintf(error, error_size,
			"unknown log level '%.40s': use emergency, alert, critical, error, warning, notice, "
			"info or debug",
			options->log_level);
		return -EINVAL;
	}
	return 0;
}

static int set_path(const char *option, const char *path, char *ret, size_t size, char *error, size_t error_size)
{
	_cleanup_free_ char *folder = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
	int n = folder && path[0] ? snprintf(NULL, 0, "%s%s%s", folder, folder[0] ? "/" : "", path) : -1;

	if (n < 0 || (size_t)n >= size) {
		snprintf(error, error_size, "%s takes a path of 1 to %zu bytes", option, size - 1);
		return -EINVAL;
	}
	snprintf(ret, size, "%s%s%s", folder, folder[0] ? "/" : "", path);
	return 0;
}

/* Probe tables beside the program: for build folders and relocated prefixes. */
static void find_probes(struct config *config)
{
	static const char *const places[] = {"probes.d", "../share/ranktrace/probes.d"};
	char folder[PATH_MAX], path[PATH_MAX + 64];
	struct config defaults;
	ssize_t n;
	char *slash;

	config_defaults(&defaults);
	if (!streq(config->probes_base_dir, defaults.probes_base_dir) || access(config->probes_base_dir, F_OK) == 0)
		return;
	n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	if (n <= 0)
		return;
	folder[n] = 0;
	slash = strrchr(folder, '/');
	if (!slash)
		return;
	*slash = 0;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, places[i]);
		if (strlen(path) >= sizeof(config->probes_base_dir) || access(path, F_OK) < 0)
			continue;
		copy_text(config->probes_base_dir, sizeof(config->probes_base_dir), path);
		return;
	}
}

int start_config(const struct start_options *options, struct config *ret, char *error, size_t error_size)
{
	struct config config;
	int r;

	config_defaults(&config);
	if (options->config || access(CONFIG_FILE, F_OK) == 0) {
		r = config_load(options->config ? options->config : CONFIG_FILE, &config, error, error_size);
		if (r < 0)
			return r;
	}
	if (options->state_dir) {
		r = set_path("--state-dir", options->state_dir, config.state_dir, sizeof(config.state_dir), error,
			error_size);
		if (r < 0)
			return r;
	}
	if (options->socket) {
		r = set_path("--socket", options->socket, config.socket, sizeof(config.socket), error, error_size);
		if (r < 0)
			return r;
	}
	if (options->log_level)
		config_log_level(options->log_level, &config.log_level);
	find_probes(&config);
	*ret = config;
	return 0;
}

int start_probes_check(const struct config *config, char *error, size_t error_size)
{
	_cleanup_(probe_table_free) struct probe_table table = {0};
	const char *dirs[] = {config->probes_base_dir, config->probes_dir};

	int r = probe_table_load_dirs(&table, dirs, ARRAY_SIZE(dirs), UINT32_MAX, error, error_size);

	if (r == 0 && table.count == 0) {
		snprintf(error, error_size, "no probe in the tables of %s and %s: no function would be traced", dirs[0],
			dirs[1]);
		return -ENOENT;
	}
	if (r == 0)
		printf("configuration and probe tables are valid: %zu probes in %s and %s\n", table.count, dirs[0],
			dirs[1]);
	return r;
}

/* The first line of a small file; "" if unreadable. */
static void start_read_line(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;

	text[n > 0 ? n : 0] = 0;
	text[strcspn(text, "\n")] = 0;
}

void start_identity(struct context *context)
{
	context->started_ns = monotonic_ns();
	start_read_line("/proc/sys/kernel/random/boot_id", context->boot_id, sizeof(context->boot_id));
	if (gethostname(context->host, sizeof(context->host)) < 0)
		copy_text(context->host, sizeof(context->host), "localhost");
	context->host[sizeof(context->host) - 1] = 0;
}

/* Pid that holds a lock on the file, from the kernel's list; 0 if unknown (another PID namespace). */
static unsigned lock_owner(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/locks", "re");
	char line[256];
	struct stat st;

	if (!f || stat(path, &st) < 0)
		return 0;
	/* Bounded against an endless file; machines have few locks. */
	for (unsigned i = 0; i < 100000 && fgets(line, sizeof(line), f); i++) {
		unsigned long long inode;
		unsigned pid, major_number, minor_number;

		if (sscanf(line, "%*u: FLOCK %*s %*s %u %x:%x:%llu", &pid, &major_number, &minor_number, &inode) != 4)
			continue;
		if (makedev(major_number, minor_number) == st.st_dev && inode == st.st_ino)
			return pid;
	}
	return 0;
}

int start_store(const struct config *config, struct store **ret)
{
	const struct store_options options = {
		.state_dir = config->state_dir,
		.segment_ns = config->segment_ns,
		.events_size_bytes_max = config->events_size_bytes_max,
		.events_age_ns_max = config->events_age_ns_max,
		.summary_age_ns_max = config->summary_age_ns_max,
	};
	char path[PATH_MAX + 16], owner[32] = "";
	int r = store_open(&options, ret);
	unsigned pid;

	if (r == -EROFS) {
		log_error("store",
			"cannot open the store in %s: %s; under systemd a folder other than %s needs ReadWritePaths= "
			"in a drop-in of ranktraced.service (state_dir in ranktrace.conf(5))",
			config->state_dir, strerror(-r), RANKTRACE_STATEDIR);
		return r;
	}
	if (r == -EPERM) /* the store has said why */
		return r;
	if (r != -EBUSY)
		return r < 0 ? log_error_errno("store", r, "cannot open the store in %s", config->state_dir) : r;
	snprintf(path, sizeof(path), "%s/lock", config->state_dir);
	pid = lock_owner(path);
	if (pid)
		snprintf(owner, sizeof(owner), " (pid %u)", pid);
	log_error("store", "another ranktraced uses %s%s; stop it or choose --state-dir", config->state_dir, owner);
	return r;
}

void start_levels(struct context *context)
{
	struct levels *levels = &context->levels;
	char report[1024];

	levels_defaults(levels);
	/* Logs what it ignores; defaults apply then. */
	(void)levels_load(levels, context->config.state_dir);
	levels->apply = collectors_level;
	levels->window = collectors_window;
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		if (!levels->on[l])
			continue;
		if (collectors_level(context->collectors, l, true, report, sizeof(report)) < 0) {
			levels->on[l] = false;
			log_error("levels", "cannot turn %s on: %s", level_name(l), report);
		} else {
			log_info("levels", "%s on: %s", level_name(l),
				report[0] ? report : "no collector serves it here");
		}
	}
}
