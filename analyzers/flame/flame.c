/* SPDX-License-Identifier: Apache-2.0 */
/* The formats. To add one: its function, and its row. */
#include "analyzers/flame/flame.h"

const struct flame_format flame_formats[] = {
	{"html", ".html", flame_write_html, false},
	{"folded", ".folded", flame_write_folded, false},
	{"speedscope", ".speedscope.json", flame_write_speedscope, false},
	{"pprof", ".pb.gz", flame_write_pprof, true},
};
const size_t flame_formats_count = sizeof(flame_formats) / sizeof(flame_formats[0]);
