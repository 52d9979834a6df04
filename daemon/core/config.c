/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table of configuration keys: defaults, limits and what SIGHUP may change. To add a key: a field in config.h, a row
 * here, a paragraph in systemd/ranktrace.conf and in man/ranktrace.conf.5 (tests compare them).
 */
#include <event2/util.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include "analyzers/base/nearest.h"
#include "analyzers/base/units.h"
#include "daemon/core/config.h"
#include "analyzers/base/ini.h"
#include "daemon/base/log.h"

enum key_type {
	KEY_PATH,  /* absolute */
	KEY_TEXT,  /* may be empty */
	KEY_LEVEL, /* of logging */
	KEY_COUNT,
	KEY_SIZE,     /* bytes */
	KEY_POWER2,   /* bytes, a power of two */
	KEY_DURATION, /* nanoseconds */
	KEY_PERCENT,  /* parts per million */
	KEY_SWITCH,   /* 0 or 1 */
	KEY_FOLDER,   /* an absolute path, or off */
	KEY_LISTEN,   /* ADDRESS:PORT or an absolute path, or off */
	KEY_TYPE_MAX
};

/* Default and limits in the operator's notation, parsed by the same reader. */
struct key {
	const char *section;
	const char *name;
	enum key_type type;
	size_t offset;
	size_t size_bytes;
	const char *value;
	const char *min; /* NULL for texts */
	const char *max;
	bool reloadable;
};

#define FIELD(f) offsetof(struct config, f), sizeof(((struct config *)0)->f)

static const struct key keys[] = {
	{"daemon", "state_dir", KEY_PATH, FIELD(state_dir), RANKTRACE_STATEDIR, NULL, NULL, false},
	{"daemon", "socket", KEY_PATH, FIELD(socket), RANKTRACE_SOCKET, NULL, NULL, false},
	{"daemon", "group", KEY_TEXT, FIELD(group), "ranktrace", NULL, NULL, true},
	{"daemon", "probes_dir", KEY_PATH, FIELD(probes_dir), RANKTRACE_SYSCONFDIR "/probes.d", NULL, NULL, false},
	{"daemon", "probes_base_dir", KEY_PATH, FIELD(probes_base_dir), RANKTRACE_DATADIR "/probes.d", NULL, NULL,
		false},
	{"daemon", "log_level", KEY_LEVEL, FIELD(log_level), "info", NULL, NULL, true},
	{"daemon", "nice", KEY_COUNT, FIELD(nice), "10", "0", "19", false},
	{"ring", "size", KEY_POWER2, FIELD(ring_size_bytes), "16M", "64K", "1G", false},
	{"ranks", "max", KEY_COUNT, FIELD(ranks_max), "1024", "1", "65536", false},
	{"ranks", "scan_interval", KEY_DURATION, FIELD(scan_interval_ns), "2m", "100ms", "10m", true},
	{"ranks", "user_filesystems", KEY_SWITCH, FIELD(user_filesystems), "no", "no", "yes", false},
	{"sched", "offcpu_threshold", KEY_DURATION, FIELD(offcpu_threshold_ns), "1ms", "1us", "10s", false},
	{"launches", "window", KEY_DURATION, FIELD(launches_window_ns), "50ms", "1ms", "1s", true},
	{"launches", "period", KEY_DURATION, FIELD(launches_period_ns), "1s", "500ms", "10m", true},
	{"budget", "rank_percent", KEY_PERCENT, FIELD(budget_rank_ppm), "0.5", "0.01", "100", true},
	{"budget", "cpu_percent", KEY_PERCENT, FIELD(budget_cpu_ppm), "1", "0.1", "1000", true},
	{"budget", "sample_l0", KEY_SWITCH, FIELD(budget_samples_l0), "no", "no", "yes", true},
	{"budget", "memory", KEY_SIZE, FIELD(budget_memory_bytes), "128M", "32M", "1T", true},
	{"memory", "sample", KEY_POWER2, FIELD(memory_sample_bytes), "1M", "1K", "1G", false},
	{"findings", "enabled", KEY_SWITCH, FIELD(findings_enabled), "yes", "no", "yes", false},
	{"findings", "sample", KEY_DURATION, FIELD(findings_sample_ns), "1s", "500ms", "1m", true},
	{"findings", "slow_percent", KEY_COUNT, FIELD(findings_slow_percent), "5", "1", "1000", false},
	{"findings", "gain_percent", KEY_COUNT, FIELD(findings_gain_percent), "3", "1", "100", false},
	{"findings", "job_percent", KEY_COUNT, FIELD(findings_job_percent), "10", "1", "1000", false},
	{"findings", "notice_percent", KEY_COUNT, FIELD(findings_notice_percent), "5", "1", "1000", false},
	{"findings", "notice_after", KEY_DURATION, FIELD(findings_notice_ns), "10s", "1s", "1d", false},
	{"findings", "warning_percent", KEY_COUNT, FIELD(findings_warning_percent), "10", "1", "1000", false},
	{"findings", "warning_after", KEY_DURATION, FIELD(findings_warning_ns), "30s", "1s", "1d", false},
	{"findings", "critical_percent", KEY_COUNT, FIELD(findings_critical_percent), "50", "1", "1000", false},
	{"findings", "critical_after", KEY_DURATION, FIELD(findings_critical_ns), "1m", "1s", "1d", false},
	{"findings", "hang_after", KEY_DURATION, FIELD(findings_hang_ns), "30s", "5s", "1d", false},
	{"findings", "hang_busy_after", KEY_DURATION, FIELD(findings_hang_busy_ns), "10m", "5s", "7d", false},
	{"findings", "raise", KEY_SWITCH, FIELD(online_auto_level), "yes", "no", "yes", true},
	{"findings", "raise_for", KEY_DURATION, FIELD(online_auto_level_for_ns), "1m", "5s", "1h", true},
	{"findings", "raise_pause", KEY_DURATION, FIELD(online_auto_level_pause_ns), "5m", "0s", "7d", true},
	{"findings", "raise_percent", KEY_COUNT, FIELD(online_auto_level_percent), "10", "1", "100", true},
	{"findings", "profile", KEY_SWITCH, FIELD(findings_profile), "yes", "no", "yes", true},
	{"profiles", "interval", KEY_DURATION, FIELD(profiles_interval_ns), "1h", "0s", "7d", true},
	{"profiles", "budget_percent", KEY_COUNT, FIELD(profiles_budget_percent), "1", "1", "100", true},
	{"metrics", "listen", KEY_LISTEN, FIELD(metrics_listen), "off", NULL, NULL, false},
	{"metrics", "textfile", KEY_FOLDER, FIELD(metrics_textfile), "off", NULL, NULL, false},
	{"fleet", "url", KEY_TEXT, FIELD(fleet_url), "off", NULL, NULL, true},
	{"fleet", "token_file", KEY_FOLDER, FIELD(fleet_token_file), "off", NULL, NULL, true},
	{"fleet", "certificate", KEY_FOLDER, FIELD(fleet_certificate), "off", NULL, NULL, true},
	{"fleet", "key", KEY_FOLDER, FIELD(fleet_key), "off", NULL, NULL, true},
	{"fleet", "authority", KEY_FOLDER, FIELD(fleet_authority), "off", NULL, NULL, true},
	{"dump", "enabled", KEY_SWITCH, FIELD(dump_enabled), "yes", "no", "yes", true},
	{"dump", "l0_interval", KEY_DURATION, FIELD(dump_l0_interval_ns), "5m", "1s", "7d", true},
	{"dump", "window", KEY_DURATION, FIELD(dump_window_ns), "1h", "10s", "7d", true},
	{"dump", "size_max", KEY_SIZE, FIELD(dump_size_bytes_max), "1G", "1M", "64T", true},
	{"dump", "age_max", KEY_DURATION, FIELD(dump_age_ns_max), "2d", "1m", "3650d", true},
	{"store", "segment", KEY_DURATION, FIELD(segment_ns), "1h", "10s", "1d", false},
	{"store", "events_size_max", KEY_SIZE, FIELD(events_size_bytes_max), "4G", "16M", "64T", false},
	{"store", "events_age_max", KEY_DURATION, FIELD(events_age_ns_max), "2d", "1m", "3650d", false},
	{"store", "summary_age_max", KEY_DURATION, FIELD(summary_age_ns_max), "28d", "1m", "3650d", false},
	{"store", "flush_interval", KEY_DURATION, FIELD(flush_interval_ns), "1s", "100ms", "1m", false},
};

int config_log_level(const char *text, int *ret)
{
	for (size_t i = 0; i < LOG_LEVEL_NAMES; i++) {
		if (!streq(text, log_level_names[i]))
			continue;
		*ret = (int)i;
		return 0;
	}
	return -EINVAL;
}

static int config_read_text(const char *text, const struct key *key, void *field)
{
	if (strlen(text) >= key->size_bytes)
		return -EINVAL;
	return copy_text(field, key->size_bytes, text) ? 0 : -EINVAL;
}

static int read_path(const char *text, const struct key *key, void *field)
{
	return text[0] == '/' ? config_read_text(text, key, field) : -EINVAL;
}

static int read_folder(const char *text, const struct key *key, void *field)
{
	return streq(text, "off") ? config_read_text("", key, field) : read_path(text, key, field);
}

/* The address is an IP address: a name would have to be looked up. */
static int read_listen(const char *text, const struct key *key, void *field)
{
	struct sockaddr_storage address;
	int length = sizeof(address);

	if (streq(text, "off"))
		return config_read_text("", key, field);
	if (text[0] == '/')
		return strlen(text) < sizeof(((struct sockaddr_un *)NULL)->sun_path)
			       ? config_read_text(text, key, field)
			       : -EINVAL;
	if (evutil_parse_sockaddr_port(text, (struct sockaddr *)&address, &length) < 0)
		return -EINVAL;
	if (address.ss_family == AF_INET6 ? !((struct sockaddr_in6 *)&address)->sin6_port
					  : !((struct sockaddr_in *)&address)->sin_port)
		return -EINVAL;
	return config_read_text(text, key, field);
}

static int read_level(const char *text, const struct key *key, void *field)
{
	return config_log_level(text, field);
}

static int read_count(const char *text, uint64_t *ret)
{
	return ini_u64(text, 0, UINT64_MAX, ret);
}

static int read_switch(const char *text, uint64_t *ret)
{
	bool on;
	int r = ini_bool(text, &on);

	if (r == 0)
		*ret = on;
	return r;
}

static int read_power2(const char *text, uint64_t *ret)
{
	uint64_t value;

	if (ini_size_bytes(text, &value) < 0 || !value || (value & (value - 1)))
		return -EINVAL;
	*ret = value;
	return 0;
}

/* "0.5": 5,000 parts per million. */
static int read_percent(const char *text, uint64_t *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= 1e6))
		return -EINVAL;
	*ret = (uint64_t)(value * 1e4 + 0.5);
	return 0;
}

static const struct {
	const char *expected;
	int (*text)(const char *text, const struct key *key, void *field);
	int (*number)(const char *text, uint64_t *ret); /* result is checked against the key's limits */
} types[] = {
	[KEY_PATH] = {.expected = "an absolute path", .text = read_path},
	[KEY_TEXT] = {.expected = "a text", .text = config_read_text},
	[KEY_LEVEL] = {.expected = "emergency, alert, critical, error, warning, notice, info or debug",
		.text = read_level},
	[KEY_COUNT] = {.expected = "a number", .number = read_count},
	[KEY_SIZE] = {.expected = "a size in bytes or with K, M, G or T", .number = ini_size_bytes},
	[KEY_POWER2] = {.expected = "a power of two in bytes or with K, M or G", .number = read_power2},
	[KEY_PERCENT] = {.expected = "a percentage", .number = read_percent},
	[KEY_DURATION] = {.expected = "a duration with ns, us, ms, s, m, h or d", .number = units_parse_duration},
	[KEY_FOLDER] = {.expected = "an absolute path or off", .text = read_folder},
	[KEY_LISTEN] = {.expected = "ADDRESS:PORT, the path of a socket, or off", .text = read_listen},
	[KEY_SWITCH] = {.expected = "yes or no", .number = read_switch},
};
_Static_assert(ARRAY_SIZE(types) == KEY_TYPE_MAX, "a reader a type");

static int set_key(struct config *config, const struct key *key, const char *text)
{
	void *field = (char *)config + key->offset;
	uint64_t value, min, max;

	if (types[key->type].text)
		return types[key->type].text(text, key, field);
	if (types[key->type].number(text, &value) < 0 || types[key->type].number(key->min, &min) < 0 ||
		types[key->type].number(key->max, &max) < 0)
		return -EINVAL;
	if (value < min || value > max)
		return -EINVAL;
	memcpy(field, &value, sizeof(value));
	return 0;
}

void config_defaults(struct config *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		/* A default refused by its own reader is a bug; the test of the shipped file finds it. */
		int r = set_key(config, &keys[i], keys[i].value);

		(void)r;
	}
}

struct loading {
	struct config config;
	unsigned line[ARRAY_SIZE(keys)]; /* where each key was set, 0 if not */
};

/* The closest known word to a misspelled one; NULL if none is close. section NULL: among sections. */
static const char *config_guess(const char *section, const char *word)
{
	struct nearest nearest = NEAREST(word);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!section || streq(keys[i].section, section))
			nearest_try(&nearest, section ? keys[i].name : keys[i].section);
	return nearest.found;
}

static bool section_exists(const char *section)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (streq(keys[i].section, section))
			return true;
	return false;
}

static int check_section(const struct ini_line *line, char *error, size_t error_size)
{
	const char *meant;

	if (!section_exists(line->section)) {
		meant = config_guess(NULL, line->section);
		snprintf(error, error_size, "unknown section [%.40s]%s%s%s", line->section,
			meant ? "; did you mean [" : "", meant ? meant : "", meant ? "]?" : "");
		return -EINVAL;
	}
	if (line->name[0]) {
		snprintf(error, error_size, "section [%s] takes no name", line->section);
		return -EINVAL;
	}
	return 0;
}

static int refuse_value(const struct key *key, const char *value, char *error, size_t error_size)
{
	const char *expected = types[key->type].expected;

	if (key->min && key->type != KEY_SWITCH)
		snprintf(error, error_size, "bad value '%.60s' for '%s' in [%s]: expected %s, from %s to %s", value,
			key->name, key->section, expected, key->min, key->max);
	else if (key->type == KEY_LEVEL || key->type == KEY_SWITCH)
		snprintf(error, error_size, "bad value '%.60s' for '%s' in [%s]: expected %s", value, key->name,
			key->section, expected);
	else
		snprintf(error, error_size, "bad value '%.60s' for '%s' in [%s]: expected %s of at most %zu bytes",
			value, key->name, key->section, expected, key->size_bytes - 1);
	return -EINVAL;
}

static int config_load_line(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	struct loading *loading = arg;
	const char *meant;

	if (!line->key)
		return check_section(line, error, error_size);
	if (!line->section[0]) {
		snprintf(error, error_size, "key '%.60s' precedes the first [section]", line->key);
		return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!streq(keys[i].section, line->section) || !streq(keys[i].name, line->key))
			continue;
		if (loading->line[i]) {
			snprintf(error, error_size, "key '%s' in [%s] is already set in line %u", line->key,
				line->section, loading->line[i]);
			return -EEXIST;
		}
		loading->line[i] = line->line;
		if (set_key(&loading->config, &keys[i], line->value) < 0)
			return refuse_value(&keys[i], line->value, error, error_size);
		return 0;
	}
	meant = config_guess(line->section, line->key);
	snprintf(error, error_size, "unknown key '%.60s' in [%s]%s%s%s", line->key, line->section,
		meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
	return -EINVAL;
}

int config_load(const char *path, struct config *config, char *error, size_t error_size)
{
	_cleanup_free_ struct loading *loading = calloc(1, sizeof(*loading));
	char sentence[INI_ERROR_BYTES] = "";
	int r;

	if (!loading) {
		snprintf(error, error_size, "%s: out of memory", path);
		return -ENOMEM;
	}
	config_defaults(&loading->config);
	r = ini_parse_file(path, config_load_line, loading, sentence);
	if (r < 0) {
		copy_text(error, error_size, sentence);
		return r;
	}
	*config = loading->config;
	return 0;
}

static bool config_same(const struct key *key, const void *a, const void *b)
{
	if (types[key->type].text && key->type != KEY_LEVEL)
		return streq(a, b);
	return memcmp(a, b, key->size_bytes) == 0;
}

void config_reload(struct config *running, const struct config *fresh, char *ignored, size_t ignored_size)
{
	size_t used = 0;

	if (ignored_size)
		ignored[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct key *key = &keys[i];
		char *to = (char *)running + key->offset;
		const char *from = (const char *)fresh + key->offset;
		int n;

		if (config_same(key, to, from))
			continue;
		if (key->reloadable) {
			memcpy(to, from, key->size_bytes);
			continue;
		}
		if (used >= ignored_size)
			continue;
		n = snprintf(
			ignored + used, ignored_size - used, "%s[%s] %s", used ? ", " : "", key->section, key->name);
		used += n > 0 ? (size_t)n : 0;
	}
}
