/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl status: what is collected, what was lost and why, what is kept, and what it all costs. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

static json_t *json_u64(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *texts_json(size_t count, char *const *texts)
{
	json_t *all = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(all, out_json_text(texts[i]));
	return all;
}

/* Probes by level, of a collector that serves several. */
static json_t *level_probes_json(const Ranktrace__Collector *c)
{
	json_t *all = json_object();

	for (size_t i = 0; i < c->n_levels && i < c->n_level_probes && c->n_levels > 1; i++)
		json_object_set_new(all, c->levels[i], json_u64(c->level_probes[i]));
	return all;
}

static json_t *operations_json(const Ranktrace__Operations *o)
{
	if (!o)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rows", json_u64(o->rows), "groups",
		json_u64(o->groups), "communicators", json_u64(o->communicators), "lost", json_u64(o->lost),
		"not_waited", json_u64(o->not_waited), "late", json_u64(o->late), "communicators_forgotten",
		json_u64(o->forgotten), "allocations", json_u64(o->allocations), "allocations_live",
		json_u64(o->allocations_live), "allocations_not_followed", json_u64(o->allocations_not_followed));
}

static json_t *findings_json(const Ranktrace__Findings *f)
{
	if (!f)
		return json_null();
	return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "enabled", (int)f->enabled, "suspected",
		json_u64(f->suspected), "open", json_u64(f->open), "closed", json_u64(f->closed), "dropped",
		json_u64(f->dropped), "frames", json_u64(f->frames), "ranks_left_out", json_u64(f->ranks_left_out),
		"raises", json_u64(f->raises), "samples", json_u64(f->samples));
}

static json_t *dumps_json(const Ranktrace__Dumps *d)
{
	json_t *levels;

	if (!d)
		return json_null();
	levels = json_object();
	for (size_t i = 0; i < d->n_levels; i++) {
		const Ranktrace__DumpLevel *l = d->levels[i];

		json_object_set_new(levels, l->level,
			json_pack("{s:o, s:o, s:o, s:o}", "written_ns", json_u64(l->written_ns), "files",
				json_u64(l->files), "rows", json_u64(l->rows), "bytes", json_u64(l->bytes)));
	}
	return json_pack("{s:b, s:o, s:o, s:o, s:o, s:b, s:o, s:f, s:o}", "enabled", (int)d->enabled, "path",
		out_json_text(d->path), "files", json_u64(d->files), "bytes", json_u64(d->bytes), "levels", levels,
		"running", (int)d->running, "cpu_ns", json_u64(d->cpu_ns), "l0_minutes", d->l0_minutes, "trouble",
		out_json_optional(d->trouble));
}

static json_t *collectors_json(const Ranktrace__StatusBody *body)
{
	json_t *all = json_array();

	for (size_t i = 0; i < body->n_collectors; i++) {
		const Ranktrace__Collector *c = body->collectors[i];

		json_array_append_new(all,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", out_json_text(c->name),
				"summary", out_json_text(c->summary), "levels", texts_json(c->n_levels, c->levels),
				"probes_attached", json_u64(c->probes_attached), "level_probes", level_probes_json(c),
				"libraries", json_u64(c->libraries), "events", json_u64(c->events), "drops",
				json_u64(c->drops), "notes", texts_json(c->n_notes, c->notes), "notes_left_out",
				json_u64(c->notes_left_out)));
	}
	return all;
}

static json_t *store_drops_json(const Ranktrace__Store *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->n_drops; i++)
		json_array_append_new(
			all, json_pack("{s:o, s:o, s:o}", "table", out_json_text(s->drops[i]->table), "reason",
				     out_json_text(s->drops[i]->reason), "rows", json_u64(s->drops[i]->rows)));
	return all;
}

static json_t *store_json(const Ranktrace__Store *s)
{
	if (!s)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "path", out_json_text(s->path),
		"segments", json_u64(s->segments), "size_bytes", json_u64(s->size_bytes), "oldest_ns",
		json_u64(s->oldest_ns), "newest_ns", json_u64(s->newest_ns), "rows", json_u64(s->rows), "rows_dropped",
		json_u64(s->rows_dropped), "rows_pending", json_u64(s->rows_pending), "segments_removed",
		json_u64(s->segments_removed), "segments_corrupt", json_u64(s->segments_corrupt), "trouble",
		out_json_optional(s->trouble), "drops", store_drops_json(s));
}

static json_t *self_json(const Ranktrace__Self *s)
{
	if (!s)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_user_ns", json_u64(s->cpu_user_ns),
		"cpu_system_ns", json_u64(s->cpu_system_ns), "rss_bytes", json_u64(s->rss_bytes), "rss_peak_bytes",
		json_u64(s->rss_peak_bytes), "ranks", json_u64(s->ranks), "children", json_u64(s->children),
		"launchers", json_u64(s->launchers));
}

static json_t *status_json(const Ranktrace__StatusBody *body)
{
	json_t *features = json_object();

	for (size_t i = 0; i < body->n_features; i++)
		json_object_set_new(features, body->features[i]->name, json_boolean(body->features[i]->present));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
		out_json_text(body->version), "pid", json_u64(body->pid), "uptime_ns", json_u64(body->uptime_ns),
		"host", out_json_text(body->host), "features", features, "levels",
		levels_json(body->n_levels, body->levels, NULL), "collectors", collectors_json(body), "ring_drops",
		json_u64(body->ring_drops), "records_refused", json_u64(body->records_refused), "store",
		store_json(body->store), "self", self_json(body->self), "operations", operations_json(body->operations),
		"findings", findings_json(body->findings), "dumps", dumps_json(body->dumps));
}

static void print_head(const Ranktrace__StatusBody *body)
{
	char *version = out_clean(body->version), *host = out_clean(body->host), text[OUT_BYTES];

	printf("ranktraced %s on %s, pid %u, up %s\n", version, host, body->pid, out_duration(body->uptime_ns, text));
	free(version);
	free(host);
	printf("%-8s", "kernel");
	for (size_t i = 0; i < body->n_features; i++)
		printf("  %s%s", body->features[i]->present ? "" : "no ", body->features[i]->name);
	printf("%s\n%-8s", body->n_features ? "" : "  not known", "levels");
	for (size_t i = 0; i < body->n_levels; i++) {
		const Ranktrace__Level *l = body->levels[i];

		printf("  %s %s", l->level, l->on ? "on" : "off");
		if (l->remaining_ns)
			printf(" (%s left)", out_duration(l->remaining_ns, text));
	}
	putchar('\n');
}

/* "L1 2 files 1.2k rows 3 min ago", what was written last. */
static void print_dumped(const Ranktrace__Dumps *d)
{
	uint64_t now_ns = out_now_ns();
	char rows[OUT_BYTES], ago[OUT_BYTES];

	for (size_t i = 0; i < d->n_levels; i++) {
		const Ranktrace__DumpLevel *l = d->levels[i];

		if (l->written_ns)
			printf("%-8s  %s: %s rows into %llu file%s, %s ago\n", "", l->level, out_count(l->rows, rows),
				(unsigned long long)l->files, l->files == 1 ? "" : "s",
				out_duration(now_ns > l->written_ns ? now_ns - l->written_ns : 0, ago));
	}
}

static void print_dumps(const Ranktrace__StatusBody *body)
{
	const Ranktrace__Dumps *d = body->dumps;
	char *path = out_clean(d->path), *trouble = out_clean(d->trouble);
	char a[OUT_BYTES], b[OUT_BYTES], c[OUT_BYTES];

	if (!d->enabled)
		printf("%-8s  off: [dump] enabled is no\n", "dumps");
	else
		printf("%-8s  %s\n", "dumps", path);
	printf("%-8s  %s in %s file%s; intervals: L0 %.3g min", "", out_size(d->bytes, a), out_count(d->files, b),
		d->files == 1 ? "" : "s", d->l0_minutes);
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->interval_minutes > 0)
			printf(", %s %.3g min", body->levels[i]->level, body->levels[i]->interval_minutes);
	printf("; %s of CPU since start%s\n", out_duration(d->cpu_ns, c), d->running ? "; one runs now" : "");
	print_dumped(d);
	if (*trouble)
		printf("%-8s  trouble: %s\n", "", trouble);
	free(path);
	free(trouble);
}

static void print_self(const Ranktrace__StatusBody *body)
{
	const Ranktrace__Self *s = body->self;
	uint64_t cpu_ns = s->cpu_user_ns + s->cpu_system_ns;
	char a[OUT_BYTES], b[OUT_BYTES], c[OUT_BYTES];

	printf("%-8s  %llu rank%s, %llu other process%s of theirs, %llu launcher%s\n", "ranks",
		(unsigned long long)s->ranks, s->ranks == 1 ? "" : "s", (unsigned long long)s->children,
		s->children == 1 ? "" : "es", (unsigned long long)s->launchers, s->launchers == 1 ? "" : "s");
	printf("%-8s  %s of CPU since start (%.2f %% of a core), %s of memory (peak %s)\n", "cost",
		out_duration(cpu_ns, a), body->uptime_ns ? 100.0 * (double)cpu_ns / (double)body->uptime_ns : 0.0,
		out_size(s->rss_bytes, b), out_size(s->rss_peak_bytes, c));
}

/* Nothing while there is nothing: L1 and L2 are off. */
static void print_operations(const Ranktrace__Operations *o)
{
	char a[OUT_BYTES], b[OUT_BYTES], c[OUT_BYTES], d[OUT_BYTES];

	if (o->rows || o->communicators)
		printf("%-8s  %s rows, %s communicators; %s late, %s lost, %s not waited for\n", "ops",
			out_count(o->rows, a), out_count(o->communicators, b), out_count(o->late, c),
			out_count(o->lost, d), out_count(o->not_waited, (char[OUT_BYTES]){0}));
	if (o->allocations)
		printf("%-8s  %s rows, %s live, %s not followed\n", "memory", out_count(o->allocations, a),
			out_count(o->allocations_live, b), out_count(o->allocations_not_followed, c));
}

static void print_findings(const Ranktrace__Findings *f)
{
	char a[OUT_BYTES], b[OUT_BYTES], c[OUT_BYTES];

	if (!f->enabled) {
		printf("%-8s  off: [findings] enabled is no\n", "findings");
		return;
	}
	printf("%-8s  %s open, %s suspected, %s closed since start; %s steps judged\n", "findings",
		out_count(f->open, a), out_count(f->suspected, b), out_count(f->closed, c),
		out_count(f->frames, (char[OUT_BYTES]){0}));
	if (f->ranks_left_out)
		printf("%-8s  %s ranks are left out: nothing tells which steps of others theirs belong to\n", "",
			out_count(f->ranks_left_out, a));
}

static void print_raised(const Ranktrace__StatusBody *body)
{
	char lasting[OUT_BYTES];

	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->raised)
			printf("%-8s  %s is on because of a finding, for %s more\n", "", body->levels[i]->level,
				out_duration(body->levels[i]->remaining_ns, lasting));
}

/* "L0 12, L1 30 probes": which level they are of, where several are on. */
static void print_level_probes(const Ranktrace__Collector *c)
{
	size_t on = 0, shown = 0;

	for (size_t i = 0; i < c->n_level_probes; i++)
		on += c->level_probes[i] > 0;
	if (on < 2)
		return;
	printf("%-9s - probes:", "");
	for (size_t i = 0; i < c->n_level_probes && i < c->n_levels; i++)
		if (c->level_probes[i])
			printf("%s %llu of %s", shown++ ? "," : "", (unsigned long long)c->level_probes[i],
				c->levels[i]);
	putchar('\n');
}

static void print_store(const Ranktrace__Store *s)
{
	char *path = out_clean(s->path), *trouble = out_clean(s->trouble);
	char a[OUT_BYTES], b[OUT_BYTES], c[OUT_BYTES];

	printf("%-8s  %s\n%-8s  %s in %llu segment%s", "store", path, "", out_size(s->size_bytes, a),
		(unsigned long long)s->segments, s->segments == 1 ? "" : "s");
	if (s->oldest_ns && s->newest_ns >= s->oldest_ns)
		printf(", %s from the oldest to the newest row", out_duration(s->newest_ns - s->oldest_ns, b));
	printf("\n%-8s  %s rows written since start, %s waiting, %s dropped\n", "", out_count(s->rows, a),
		out_count(s->rows_pending, b), out_count(s->rows_dropped, c));
	for (size_t i = 0; i < s->n_drops; i++) {
		char *table = out_clean(s->drops[i]->table), *reason = out_clean(s->drops[i]->reason);

		printf("%-8s  - table %s: %s dropped (%s)\n", "", table, out_count(s->drops[i]->rows, a), reason);
		free(table);
		free(reason);
	}
	if (s->segments_removed || s->segments_corrupt)
		printf("%-8s  %s segments removed for room or age, %s set aside as corrupt\n", "",
			out_count(s->segments_removed, a), out_count(s->segments_corrupt, b));
	if (*trouble)
		printf("%-8s  trouble: %s\n", "", trouble);
	free(path);
	free(trouble);
}

static void print_collector(const Ranktrace__Collector *c)
{
	char *name = out_clean(c->name), *summary = out_clean(c->summary), levels[OUT_BYTES] = "always";
	char a[OUT_BYTES], b[OUT_BYTES], d[OUT_BYTES];

	for (size_t i = 0, at = 0; i < c->n_levels && at < sizeof(levels); i++)
		at += (size_t)snprintf(levels + at, sizeof(levels) - at, "%s%s", i ? "," : "", c->levels[i]);
	printf("%-9s %-11s %6llu %4llu %12s %7s  %s\n", out_cut(name, 9), out_cut(levels, 11),
		(unsigned long long)c->probes_attached, (unsigned long long)c->libraries, out_count(c->events, a),
		out_count(c->drops, b), out_cut(summary, 60));
	print_level_probes(c);
	for (size_t i = 0; i < c->n_notes; i++) {
		char *note = out_clean(c->notes[i]);

		printf("%-9s - %s\n", "", note);
		free(note);
	}
	if (c->notes_left_out)
		printf("%-9s - and %s notes more\n", "", out_count(c->notes_left_out, d));
	free(name);
	free(summary);
}

static void print_status(const Ranktrace__StatusBody *body)
{
	char a[OUT_BYTES], b[OUT_BYTES];

	print_head(body);
	print_raised(body);
	if (body->self)
		print_self(body);
	if (body->store)
		print_store(body->store);
	if (body->operations)
		print_operations(body->operations);
	if (body->findings)
		print_findings(body->findings);
	if (body->dumps)
		print_dumps(body);
	printf("%-8s  %s record%s lost in the kernel, %s refused as malformed\n", "drops",
		out_count(body->ring_drops, a), body->ring_drops == 1 ? "" : "s", out_count(body->records_refused, b));
	printf("\n%-9s %-11s %6s %4s %12s %7s  %s\n", "COLLECTOR", "LEVELS", "PROBES", "LIBS", "EVENTS", "DROPS",
		"SEES");
	for (size_t i = 0; i < body->n_collectors; i++)
		print_collector(body->collectors[i]);
}

int cmd_status(const struct options *options, int argc, char **argv)
{
	Ranktrace__Response *response;
	int code;

	if (argc)
		return fail_argument("status", argv[0]);
	code = client_get(
		options, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS, RANKTRACE__RESPONSE__BODY_STATUS, &response);
	if (code != EXIT_DONE)
		return code;
	if (options->json)
		code = out_json(status_json(response->status));
	else
		print_status(response->status);
	client_free(response);
	return code;
}
