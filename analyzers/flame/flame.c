/* SPDX-License-Identifier: Apache-2.0 */
/* The formats. To add one: its function, and its row. */
#include <string.h>

#include "analyzers/flame/flame.h"

static const struct flame_format flame_formats[] = {
	{"html", ".html", flame_write_html, false},
	{"folded", ".folded", flame_write_folded, false},
	{"speedscope", ".speedscope.json", flame_write_speedscope, false},
	{"pprof", ".pb.gz", flame_write_pprof, true},
};
const struct flame_format *flame_format_find(const char *name, const char *output)
{
	size_t length = output ? strlen(output) : 0;

	for (size_t i = 0; i < sizeof(flame_formats) / sizeof(flame_formats[0]); i++) {
		const struct flame_format *format = &flame_formats[i];
		size_t suffix = strlen(format->suffix);

		if (name ? strcmp(name, format->name) == 0
			 : length > suffix && strcmp(output + length - suffix, format->suffix) == 0)
			return format;
	}
	return name ? NULL : &flame_formats[0];
}
