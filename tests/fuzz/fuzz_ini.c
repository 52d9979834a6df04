/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text file and, where they begin with a key's value, as each kind of value. */
#include "analyzers/base/units.h"
#include "analyzers/base/ini.h"
#include "daemon/base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* Reads every byte that the parser hands out, and holds it to what the header promises. */
static int on_line(void *arg, const struct ini_line *line, char *error, size_t error_size)
{
	uint64_t number;
	bool truth;

	if (!line->section || !line->name || !line->path || !line->line || !line->key != !line->value)
		abort();
	if (strlen(line->section) + strlen(line->name) > INI_LINE_BYTES_MAX)
		abort();
	if (!line->key)
		return 0;
	if (!line->key[0] || strlen(line->key) + strlen(line->value) >= INI_LINE_BYTES_MAX)
		abort();
	ini_bool(line->value, &truth);
	ini_size_bytes(line->value, &number);
	units_parse_duration(line->value, &number);
	if (ini_u64(line->value, 10, 1000, &number) == 0 && (number < 10 || number > 1000))
		abort();
	if (line->key[0] == 'x') {
		snprintf(error, error_size, "refused '%s'", line->key);
		return -EINVAL;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	char error[INI_ERROR_BYTES] = "";
	int r = ini_parse("fuzz", (const char *)data, size_bytes, on_line, NULL, error);

	if (r > 0 || (r < 0 && strncmp(error, "fuzz:", 5) != 0) || strlen(error) >= sizeof(error))
		abort();
	return 0;
}
