/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map of memory over time: the segments of each allocator, as they were at each snapshot, with the requests that
 * failed. A page that loads nothing: analyzers/flame/map.js draws it.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "analyzers/base/replace.h"
#include "analyzers/cli/memory_read.h"

#define MAP_MAX 240 /* snapshots of a device, two hours of them, and failed requests: the newest ones */

extern const char flame_page_css[];
extern const char flame_map_js[];

struct memory_map {
	json_t *snapshots, *failures;
	json_t *segments; /* of the snapshot being read, owned by it */
	int64_t start_ns;
};

static int map_on_segment(void *arg, sqlite3_stmt *row)
{
	struct memory_map *map = arg;
	char address[20];

	if (!map->segments || cmd_memory_int(row, SEGMENT_START) != map->start_ns) {
		map->start_ns = cmd_memory_int(row, SEGMENT_START);
		map->segments = json_array();
		json_array_append_new(map->snapshots,
			json_pack("{s:I, s:o}", "ns", (json_int_t)map->start_ns, "segments", map->segments));
	}
	snprintf(address, sizeof(address), "0x%" PRIx64, (uint64_t)cmd_memory_int(row, SEGMENT_ADDRESS));
	json_array_append_new(map->segments,
		json_pack("[s, I, I, I, I]", address, (json_int_t)cmd_memory_int(row, SEGMENT_BYTES),
			(json_int_t)cmd_memory_int(row, SEGMENT_USED), (json_int_t)cmd_memory_int(row, SEGMENT_GAP),
			(json_int_t)cmd_memory_int(row, SEGMENT_BLOCKS)));
	return 0;
}

static int map_on_failure(void *arg, sqlite3_stmt *row)
{
	struct memory_map *map = arg;

	json_array_append_new(map->failures, json_pack("{s:I, s:I}", "ns", (json_int_t)cmd_memory_int(row, 0), "bytes",
						     (json_int_t)cmd_memory_int(row, 1)));
	return 0;
}

/* What is drawn, and what the page says of it. */
struct map_page {
	json_t *data, *pools; /* pools: in data */
	bool is_cut;	      /* older rows are left out */
};

/* One more than may be was read. oldest: its place. */
static bool map_cut(json_t *list, size_t oldest)
{
	return json_array_size(list) > MAP_MAX && json_array_remove(list, oldest) == 0;
}

static int map_read(struct cmd_memory *cmd, const struct memory_pool *pool, struct map_page *page)
{
	struct memory_map map = {.snapshots = json_array(), .failures = json_array()};
	char name[512], rest[192];
	int r;

	snprintf(rest, sizeof(rest),
		"AND start_ns IN (SELECT DISTINCT start_ns FROM memory_segments WHERE instance = %" PRId64
		" ORDER BY start_ns DESC LIMIT %d) ORDER BY start_ns",
		pool->instance, MAP_MAX + 1);
	r = cmd_memory_each_of(cmd, pool, MEMORY_SEGMENT_COLUMNS, "memory_segments", rest, map_on_segment, &map);
	snprintf(rest, sizeof(rest), "ORDER BY start_ns DESC LIMIT %d", MAP_MAX + 1);
	if (r == 0)
		r = cmd_memory_each_of(cmd, pool, "start_ns, bytes", "memory_failures", rest, map_on_failure, &map);
	page->is_cut |= map_cut(map.snapshots, 0);
	page->is_cut |= map_cut(map.failures, MAP_MAX);
	snprintf(name, sizeof(name), "rank %" PRId64 ", %s (%s, pid %" PRId64 ")", pool->rank,
		cmd_memory_device(pool).text, pool->host.text, pool->pid);
	if (r == 0 && json_array_size(map.snapshots))
		json_array_append_new(page->pools, json_pack("{s:s, s:O, s:O}", "name", name, "snapshots",
							   map.snapshots, "failures", map.failures));
	json_decref(map.snapshots);
	json_decref(map.failures);
	return r;
}

/* Within a script element: no text may end it. */
static int map_put(const char *buffer, size_t size, void *arg)
{
	for (size_t i = 0; i < size; i++)
		if (buffer[i] == '<' ? fputs("\\u003c", arg) < 0 : fputc(buffer[i], arg) == EOF)
			return -1;
	return 0;
}

static int map_write(const void *arg, FILE *out)
{
	const struct map_page *page = arg;

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
	      "content=\"width=device-width, initial-scale=1\"><title>Memory of devices over time</title>\n<style>\n",
		out);
	fputs(flame_page_css, out);
	fputs("#map { width: 100%; height: min(70vh, 900px); display: block; cursor: crosshair }\n"
	      "#tip { position: fixed; z-index: 2; max-width: 22rem; padding: .3rem .6rem; background: var(--bg); "
	      "border: 1px solid "
	      "var(--line); border-radius: .3rem; font-size: .86rem; pointer-events: none }\n</style></head><body>\n"
	      "<h1>Memory of devices over time</h1>\n<section class=\"box\"><div class=\"bar\"><label>Device <select "
	      "id=\"pool\"></select></label> <label>Find <input id=\"search\" placeholder=\"an address, &gt;20M, "
	      "&lt;2M\"></label> "
	      "<span id=\"found\" class=\"mute\" role=\"status\"></span></div>\n<canvas id=\"map\" role=\"img\" "
	      "aria-label=\"Segments by "
	      "time; the table below has the newest ones\"></canvas><div id=\"tip\" hidden></div>\n<p class=\"small "
	      "mute\">Each row is a "
	      "segment that the process has from the driver, as high as it is large; the darker, the more of it is in "
	      "blocks that "
	      "are followed. Vertical marks are requests that failed. A click or the wheel zooms in, <kbd>Esc</kbd> "
	      "out; arrow keys "
	      "move; <kbd>/</kbd> searches.</p>",
		out);
	if (page->is_cut)
		fprintf(out,
			"<p class=\"small mute\">Of each device the newest %d snapshots and failed requests are "
			"shown; older ones are left out.</p>",
			MAP_MAX);
	fputs("</section>\n<section class=\"box\"><h2>Newest segments, those with most "
	      "free memory "
	      "first</h2><div class=\"wide\"><table><thead><tr><th class=\"n\">Address</th><th "
	      "class=\"n\">Size</th><th "
	      "class=\"n\">In blocks</th><th class=\"n\">Free</th><th class=\"n\">Largest piece</th><th "
	      "class=\"n\">Blocks</th></tr></thead><tbody id=\"segments\"></tbody></table></div></section>\n"
	      "<script id=\"data\" type=\"application/json\">",
		out);
	if (json_dump_callback(page->data, map_put, out, JSON_COMPACT) < 0)
		return replace_written(out) ?: -EIO;
	fprintf(out,
		"</script>\n<footer>Made by ranktrace " RANKTRACE_VERSION
		".</footer>\n<script>\n%s</script></body></html>\n",
		flame_map_js);
	return replace_written(out);
}

int cmd_memory_map(struct cmd_memory *cmd, const char *output)
{
	struct map_page page = {.pools = json_array()};
	int r;

	page.data = json_pack("{s:o}", "pools", page.pools);
	r = page.data ? 0 : tool_fail(1, "out of memory");

	for (size_t i = 0; r == 0 && i < cmd->pools; i++)
		r = map_read(cmd, &cmd->pool[i], &page);
	if (r == 0 && !json_array_size(page.pools))
		r = tool_fail(
			1, "the store has no segments of allocators since then; was L2 on when they were allocated?");
	if (r == 0)
		r = tool_save("a page", output, false, map_write, &page);
	json_decref(page.data);
	return r;
}
