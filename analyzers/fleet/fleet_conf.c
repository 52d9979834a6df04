/* SPDX-License-Identifier: Apache-2.0 */
/* The section [fleet] of ranktrace.conf. */
#include "analyzers/fleet/fleet_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/ini.h"

#define FLEET_CONF RANKTRACE_SYSCONFDIR "/ranktrace.conf"
#define FLEET_CONF_VALUE_BYTES 4096

enum fleet_conf_key { CONF_URL, CONF_TOKEN_FILE, CONF_CERTIFICATE, CONF_KEY, CONF_AUTHORITY, CONF_MAX };

static const char *const fleet_conf_keys[CONF_MAX] = {"url", "token_file", "certificate", "key", "authority"};

struct fleet_conf {
	char value[CONF_MAX][FLEET_CONF_VALUE_BYTES]; /* "": none */
};

/* The other sections are the daemon's. */
static int fleet_conf_on_line(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	struct fleet_conf *conf = arg;

	if (!line->key || strcmp(line->section, "fleet") != 0)
		return 0;
	for (size_t i = 0; i < CONF_MAX; i++) {
		if (strcmp(line->key, fleet_conf_keys[i]) != 0)
			continue;
		snprintf(conf->value[i], sizeof(conf->value[i]), "%s",
			strcmp(line->value, "off") == 0 ? "" : line->value);
		return 0;
	}
	snprintf(error, error_size, "unknown key '%.60s' in [fleet]", line->key);
	return -EINVAL;
}

static const char *fleet_conf_value(const struct fleet_conf *conf, enum fleet_conf_key key)
{
	return conf->value[key][0] ? conf->value[key] : NULL;
}

int fleet_conf_open(const char *url, const char *path, struct fleet_api **ret, char *error, size_t size)
{
	struct fleet_conf conf = {0};
	char why[INI_ERROR_BYTES] = "";
	int r = ini_parse_file(path ? path : FLEET_CONF, fleet_conf_on_line, &conf, why);
	const struct fleet_api_options options = {
		.url = url ? url : fleet_conf_value(&conf, CONF_URL),
		.token_file = fleet_conf_value(&conf, CONF_TOKEN_FILE),
		.certificate = fleet_conf_value(&conf, CONF_CERTIFICATE),
		.key = fleet_conf_value(&conf, CONF_KEY),
		.authority = fleet_conf_value(&conf, CONF_AUTHORITY),
		.bytes_max = FLEET_API_BYTES_MAX,
		.ms_max = FLEET_API_MS_MAX,
	};

	/* Without the usual file, the command line may say all. */
	if (r < 0 && (path || r != -ENOENT)) {
		snprintf(error, size, "%s", why);
		return -EBADMSG;
	}
	if (!options.url) {
		snprintf(error, size, "no store is named: --url URL, or url in [fleet] of %s", FLEET_CONF);
		return -EINVAL;
	}
	return fleet_api_open(&options, ret, error, size);
}
