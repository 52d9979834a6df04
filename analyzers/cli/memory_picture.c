/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of what is held, by stack: flame graph, folded text, speedscope and pprof, which are those of profiles, and
 * PyTorch's snapshot, which its page memory_viz opens. Of the newest snapshot of each process and device, but of one that
 * has ended only if no other has taken its rank since.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/replace.h"
#include "analyzers/base/text.h"
#include "analyzers/cli/memory_read.h"
#include "analyzers/cli/profile_run.h"

#define FRAMES_MAX 512
#define PICTURE_SITES_MAX 131072				  /* stacks of all devices */
#define PICTURE_PROBED "native c10::reportMemoryUsageToProfiler(" /* the innermost frame of each stack: it is probed */

struct picture_site {
	const struct memory_pool *pool;
	char *frames; /* "": not known */
	double bytes;
};

struct picture {
	struct cmd_memory *cmd;
	const struct memory_pool *pool; /* that is being read */
	bool allocated;			/* what was ever allocated, in place of what is held */
	struct picture_site *site;
	size_t sites, capacity;
};

enum { PICTURE_FRAMES, PICTURE_SITES, PICTURE_LIVE, PICTURE_ALLOCATED };

/* What allocates is what calls it. */
static void picture_cut_probed(char *frames)
{
	char *last = strrchr(frames, '\n');

	if (last && !strncmp(last + 1, PICTURE_PROBED, sizeof(PICTURE_PROBED) - 1))
		*last = 0;
}

static int picture_on_site(void *arg, sqlite3_stmt *row)
{
	struct picture *picture = arg;
	const char *frames = (const char *)sqlite3_column_text(row, PICTURE_FRAMES);
	double bytes = sqlite3_column_double(row, picture->allocated ? PICTURE_ALLOCATED : PICTURE_LIVE);
	const char *other = cmd_memory_int(row, PICTURE_SITES) > 1 ? "native all others" : "native unknown";
	char *copy;

	/* A store may come from anybody: 2^53 bytes are more than any device has. */
	if (!(bytes >= 1) || bytes > 9007199254740992.0)
		return 0;
	if (!array_reserve((void **)&picture->site, &picture->capacity, picture->sites + 1, sizeof(*picture->site),
		    PICTURE_SITES_MAX))
		return tool_fail(1, "more than %d stacks; choose ranks with --rank", PICTURE_SITES_MAX);
	copy = strdup(frames ? frames : other);
	if (!copy)
		return tool_fail(1, "out of memory");
	picture_cut_probed(copy);
	picture->site[picture->sites++] = (struct picture_site){picture->pool, copy, bytes};
	return 0;
}

static bool picture_is_replaced(const struct cmd_memory *cmd, const struct memory_pool *pool)
{
	for (size_t i = 0; pool->ended && i < cmd->pools; i++)
		if (cmd->pool[i].rank == pool->rank && cmd->pool[i].instance > pool->instance &&
			!strcmp(cmd->pool[i].job.text, pool->job.text))
			return true;
	return false;
}

static int picture_read(struct picture *picture)
{
	struct cmd_memory *cmd = picture->cmd;
	int r = 0;

	for (size_t i = 0; i < cmd->pools && r == 0; i++) {
		struct memory_pool *pool = &cmd->pool[i];

		if (picture_is_replaced(cmd, pool))
			continue;
		picture->pool = pool;
		r = cmd_memory_read_places(cmd, pool, 0, INT64_MAX);
		if (r == 0 && pool->snapshot_ns)
			r = tool_each(cmd->reader,
				sqlite3_mprintf(
					"SELECT (SELECT c.frames FROM call_stacks c WHERE c.id = m.stack LIMIT 1), "
					"m.sites, "
					"m.live_bytes, m.alloc_bytes FROM memory_live m WHERE m.instance = %lld AND "
					"m.start_ns "
					"= %lld AND m.kind = %Q AND coalesce(m.device, -1) = %lld AND m.sampled > 0",
					(long long)pool->instance, (long long)pool->snapshot_ns, pool->kind.text,
					(long long)pool->device),
				picture_on_site, picture);
	}
	return r;
}

/* Formats of profiles. */

static int picture_feed(const struct picture *picture, struct profile *profile, struct flame_source *source)
{
	int r = 0;

	for (size_t i = 0; i < picture->sites && r == 0; i++) {
		const struct picture_site *site = &picture->site[i];
		const struct memory_pool *pool = site->pool;
		struct flame_rank *rank = source->ranks ? &source->rank[source->ranks - 1] : NULL;
		struct memory_text device = cmd_memory_device(pool);

		if (!rank || rank->instance != pool->instance) {
			rank = &source->rank[source->ranks++];
			*rank = (struct flame_rank){
				.rank = pool->rank, .id = pool->rank, .instance = pool->instance, .read_share = 1};
			snprintf(rank->job, sizeof(rank->job), "%.63s", pool->job.text);
			snprintf(rank->host, sizeof(rank->host), "%.63s", pool->host.text);
		}
		source->start_ns = source->end_ns = pool->snapshot_ns;
		r = profile_add_stack(profile, (int64_t)i + 1, site->frames, 0);
		if (r == 0)
			r = profile_add_sample(profile, &(struct profile_sample){.rank = pool->rank,
								.thread_id = pool->device + 2,
								.thread_name = device.text,
								.start_ns = pool->snapshot_ns,
								.main = true,
								.weight_ns = llround(site->bytes) * FLAME_BYTE,
								.stack = (int64_t)i + 1});
	}
	return r;
}

static int picture_draw(const struct picture *picture, const struct flame_format *format, const char *output)
{
	struct flame_source source = {.rank = calloc(picture->sites + 1, sizeof(*source.rank))};
	struct profile *profile = profile_new();
	const struct flame_view view = {.profile = profile,
		.source = &source,
		.memory = picture->allocated ? "Memory of devices that was allocated, by stack"
					     : "Memory of devices that is held, by stack"};
	int r = profile && source.rank ? picture_feed(picture, profile, &source) : -ENOMEM;

	r = r < 0 ? tool_fail(1, "cannot draw: %s", strerror(-r)) : profile_run_write(&view, format, output);
	profile_free(profile);
	free(source.rank);
	return r;
}

/* PyTorch's snapshot: a pickle of protocol 2, of dictionaries, lists, texts and integers. */

static void pickle_int(FILE *out, int64_t value)
{
	fputs("\x8a\x08", out);
	for (unsigned i = 0; i < 8; i++)
		fputc((int)((uint64_t)value >> 8 * i & 0xff), out);
}

static void pickle_text(FILE *out, const char *value)
{
	size_t length = strlen(value);

	fputc('X', out);
	for (unsigned i = 0; i < 4; i++)
		fputc((int)(length >> 8 * i & 0xff), out);
	fputs(value, out);
}

static void pickle_item_int(FILE *out, const char *key, int64_t value)
{
	pickle_text(out, key);
	pickle_int(out, value);
	fputc('s', out);
}

static void pickle_item_text(FILE *out, const char *key, const char *value)
{
	pickle_text(out, key);
	pickle_text(out, value);
	fputc('s', out);
}

/* Frames of PyTorch are innermost first. */
static void pickle_frames(FILE *out, const char *frames)
{
	struct stack_frame frame[FRAMES_MAX];
	char *text = strdup(frames), name[STACK_PLACE_BYTES];
	size_t count = text ? stack_frames_parse(text, frame, FRAMES_MAX) : 0;

	pickle_text(out, "frames");
	fputc(']', out);
	for (size_t i = count; i-- > 0;) {
		fputc('}', out);
		stack_frame_text(&frame[i], false, name, sizeof(name));
		pickle_item_text(out, "name", text_clean(*frame[i].function ? (char *)frame[i].function : name));
		pickle_item_text(out, "filename", text_clean((char *)frame[i].file));
		pickle_item_int(out, "line", frame[i].line);
		fputc('a', out);
	}
	fputc('s', out);
	free(text);
}

/* The blocks of a line follow each other as one; the addresses are made up, since blocks are sampled. */
static void pickle_block(FILE *out, int64_t address, int64_t bytes, const char *frames)
{
	fputc('}', out);
	pickle_item_int(out, "address", address);
	pickle_item_int(out, "size", bytes);
	pickle_item_int(out, "requested_size", bytes);
	pickle_item_text(out, "state", frames ? "active_allocated" : "inactive");
	pickle_frames(out, frames ? frames : "");
	fputc('a', out);
}

static int64_t picture_segment_bytes(const struct picture *picture, const struct memory_pool *pool)
{
	int64_t sum = 0;

	for (size_t i = 0; i < picture->sites; i++)
		sum += picture->site[i].pool == pool ? llround(picture->site[i].bytes) : 0;
	return sum;
}

static void pickle_segment(FILE *out, const struct picture *picture, const struct memory_pool *pool, int64_t device)
{
	int64_t held = picture_segment_bytes(picture, pool), total = (int64_t)fmax(pool->reserved, (double)held);
	int64_t address = (device + 1) << 44;

	fputc('}', out);
	pickle_item_int(out, "device", device);
	pickle_item_int(out, "address", address);
	pickle_item_int(out, "total_size", total);
	pickle_item_int(out, "allocated_size", held);
	pickle_item_int(out, "active_size", held);
	pickle_item_int(out, "requested_size", held);
	pickle_item_int(out, "stream", 0);
	pickle_item_text(out, "segment_type", "large");
	pickle_frames(out, "");
	pickle_text(out, "blocks");
	fputc(']', out);
	for (size_t i = 0; i < picture->sites; i++)
		if (picture->site[i].pool == pool) {
			pickle_block(out, address, llround(picture->site[i].bytes), picture->site[i].frames);
			address += llround(picture->site[i].bytes);
		}
	if (total > held)
		pickle_block(out, address, total - held, NULL);
	fputs("sa", out);
}

/* A device of each process is one of the snapshot, in their order: ranks of several nodes have the same numbers. */
static int picture_pickle(const void *arg, FILE *out)
{
	const struct picture *picture = arg;
	int64_t devices = 0;

	fputs("\x80\x02}", out);
	pickle_text(out, "segments");
	fputc(']', out);
	for (size_t i = 0; i < picture->cmd->pools; i++)
		if (picture_segment_bytes(picture, &picture->cmd->pool[i]) > 0)
			pickle_segment(out, picture, &picture->cmd->pool[i], devices++);
	fputc('s', out);
	pickle_text(out, "device_traces");
	fputc(']', out);
	for (int64_t i = 0; i < devices; i++)
		fputs("]a", out);
	fputs("s.", out);
	return replace_written(out);
}

#define PICTURE_SNAPSHOT "snapshot"
#define PICTURE_SUFFIX ".pickle"
#define PICTURE_MAP "map"

/* NULL: PyTorch's snapshot. False: there is no such format. */
static bool cmd_memory_find_format(const char *name, const char *output, const struct flame_format **ret)
{
	size_t length = output ? strlen(output) : 0;

	*ret = NULL;
	if (name ? !strcmp(name, PICTURE_SNAPSHOT)
		 : length > strlen(PICTURE_SUFFIX) && !strcmp(output + length - strlen(PICTURE_SUFFIX), PICTURE_SUFFIX))
		return true;
	*ret = flame_format_find(name, output);
	return *ret;
}

bool cmd_memory_has_format(const char *format_name, const char *output)
{
	const struct flame_format *format;

	return (format_name && !strcmp(format_name, PICTURE_MAP)) ||
	       cmd_memory_find_format(format_name, output, &format);
}

int cmd_memory_picture(struct cmd_memory *cmd, const char *format_name, const char *output, bool allocated)
{
	struct picture picture = {.cmd = cmd, .allocated = allocated};
	const struct flame_format *format;
	int r;

	if (format_name && !strcmp(format_name, PICTURE_MAP))
		return cmd_memory_map(cmd, output);
	if (!cmd_memory_find_format(format_name, output, &format))
		return 2; /* an error of usage */
	r = picture_read(&picture);
	if (r == 0 && !picture.sites)
		r = tool_fail(1, "the store has no memory of devices since then; was L2 on?");
	if (r == 0)
		r = format ? picture_draw(&picture, format, output)
			   : tool_save("a snapshot", output, false, picture_pickle, &picture);
	for (size_t i = 0; i < picture.sites; i++)
		free(picture.site[i].frames);
	free(picture.site);
	return r;
}
