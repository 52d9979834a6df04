/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl status: what is collected, what was lost and why, what is kept, and what it all costs. */
#include "ctl/client.h"
#include "ctl/levels.h"
#include "ctl/out.h"

static json_t *status_lag_json(const Ranktrace__Self *s)
{
	if (!s->loop_lag_known)
		return json_null();
	return json_pack("{s:I, s:I, s:I}", "max_ns", (json_int_t)s->loop_lag_max_ns, "max_ready_ns",
		(json_int_t)s->loop_lag_ready_ns, "last_minute_ns", (json_int_t)s->loop_lag_minute_ns);
}

static json_t *status_dumps_json(const Ranktrace__Dumps *d)
{
	json_t *levels = json_object();

	for (size_t i = 0; i < d->n_levels; i++)
		json_object_set_new(levels, d->levels[i]->level, out_message(d->levels[i]));
	return levels;
}

/* Probes by level, of a collector that serves several. */
static json_t *status_level_probes_json(const Ranktrace__Collector *c)
{
	json_t *all = json_object();

	for (size_t i = 0; i < c->n_levels && i < c->n_level_probes && c->n_levels > 1; i++)
		json_object_set_new(all, c->levels[i], json_integer((json_int_t)c->level_probes[i]));
	return all;
}

/* Lists that are objects by name. */
static json_t *status_json(const Ranktrace__StatusBody *body)
{
	json_t *all = out_message(body), *features = json_object(), *collectors = json_object_get(all, "collectors");

	for (size_t i = 0; i < body->n_features; i++)
		json_object_set_new(features, body->features[i]->name, json_boolean(body->features[i]->present));
	json_object_set_new(all, "features", features);
	json_object_set_new(all, "levels", level_json(body->n_levels, body->levels, NULL));
	for (size_t i = 0; i < body->n_collectors; i++)
		json_object_set_new(
			json_array_get(collectors, i), "level_probes", status_level_probes_json(body->collectors[i]));
	if (body->self)
		json_object_set_new(json_object_get(all, "self"), "loop_lag", status_lag_json(body->self));
	if (body->dumps)
		json_object_set_new(json_object_get(all, "dumps"), "levels", status_dumps_json(body->dumps));
	return all;
}

/* Parts of a line that grows. */
struct status_text {
	char *text;
	size_t size;
	FILE *stream;
};

static FILE *status_text_open(struct status_text *text)
{
	text->stream = open_memstream(&text->text, &text->size);
	if (!text->stream)
		exit(ctl_fail(EXIT_REFUSED, "out of memory"));
	return text->stream;
}

/* Writes it as a line, and ends it. */
static void status_text_line(struct status_text *text, const char *label)
{
	fclose(text->stream);
	out_line(label, "%s", text->text);
	free(text->text);
}

static enum term_colour status_bad_if(uint64_t count)
{
	return count ? TERM_RED : TERM_PLAIN;
}

/* A count that should be 0: "3 dropped". */
static void status_text_loss(FILE *f, const char *before, uint64_t count, const char *what)
{
	enum term_colour colour = status_bad_if(count);
	char text[UNITS_BYTES];

	fprintf(f, "%s%s%s %s%s", before, out_start(colour), units_count(count, text), what, out_end(colour));
}

static void status_print_error(const char *error)
{
	if (*error)
		out_line("", "%serror: %s%s", out_start(TERM_RED), error, out_end(TERM_RED));
}

static const char *status_s(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void status_print_head(const Ranktrace__StatusBody *body)
{
	char text[UNITS_BYTES];
	struct status_text line;
	FILE *f;

	out_below(0, "ranktraced %s on %s, pid %u, up %s", body->version, body->host, body->pid,
		units_duration(body->uptime_ns, text));
	f = status_text_open(&line);
	for (size_t i = 0; i < body->n_features; i++)
		fprintf(f, "%s%s%s", i ? "  " : "", body->features[i]->present ? "" : "no ", body->features[i]->name);
	if (!body->n_features)
		fputs("not known", f);
	status_text_line(&line, "kernel");
	f = status_text_open(&line);
	for (size_t i = 0; i < body->n_levels; i++) {
		const Ranktrace__Level *l = body->levels[i];
		enum term_colour colour = l->on ? TERM_GREEN : TERM_FAINT;

		fprintf(f, "%s%s%s %s%s", i ? "  " : "", out_start(colour), l->level, l->on ? "on" : "off",
			out_end(colour));
		if (l->remaining_ns)
			fprintf(f, " (%s left)", units_duration(l->remaining_ns, text));
		if (l->sampled)
			fprintf(f, " in windows, %.3g %% of the time", 100 * l->coverage);
	}
	status_text_line(&line, "levels");
}

/* What was written last, a line a level. */
static void status_print_dumped(const Ranktrace__Dumps *d)
{
	uint64_t now_ns = out_now_ns();
	char rows[UNITS_BYTES], ago[UNITS_BYTES];

	for (size_t i = 0; i < d->n_levels; i++) {
		const Ranktrace__DumpLevel *l = d->levels[i];

		if (l->written_ns)
			out_line("", "%s: %s rows into %llu file%s, %s ago", l->level, units_count(l->rows, rows),
				(unsigned long long)l->files, status_s(l->files),
				units_duration(now_ns > l->written_ns ? now_ns - l->written_ns : 0, ago));
	}
}

static void status_print_dumps(const Ranktrace__StatusBody *body)
{
	const Ranktrace__Dumps *d = body->dumps;
	char a[UNITS_BYTES], b[UNITS_BYTES], c[UNITS_BYTES];
	struct status_text line;
	FILE *f;

	out_line("dumps", "%s", d->enabled ? d->path : "off: [dump] enabled is no");
	f = status_text_open(&line);
	fprintf(f, "%s in %s file%s; intervals: L0 %.3g min", units_size(d->bytes, a), units_count(d->files, b),
		status_s(d->files), d->l0_minutes);
	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->interval_minutes > 0)
			fprintf(f, ", %s %.3g min", body->levels[i]->level, body->levels[i]->interval_minutes);
	fprintf(f, "; %s of CPU since start%s", units_duration(d->cpu_ns, c), d->running ? "; one runs now" : "");
	status_text_line(&line, "");
	status_print_dumped(d);
	status_print_error(d->reason);
}

#define STATUS_LAG_LONG_NS 1000000000ULL

static void status_print_self(const Ranktrace__StatusBody *body)
{
	const Ranktrace__Self *s = body->self;
	uint64_t cpu_ns = s->cpu_user_ns + s->cpu_system_ns + s->cpu_workers_ns;
	char a[UNITS_BYTES], b[UNITS_BYTES], c[UNITS_BYTES], d[UNITS_BYTES];
	enum term_colour colour = s->loop_lag_minute_ns >= STATUS_LAG_LONG_NS ? TERM_RED : TERM_PLAIN;

	out_line("ranks", "%llu rank%s, %llu other process%s of theirs, %llu launcher%s", (unsigned long long)s->ranks,
		status_s(s->ranks), (unsigned long long)s->children, s->children == 1 ? "" : "es",
		(unsigned long long)s->launchers, status_s(s->launchers));
	out_line("cost", "%s of CPU since start (%.2f %% of a core), %s of it by workers; %s of memory (peak %s)",
		units_duration(cpu_ns, a), body->uptime_ns ? 100.0 * (double)cpu_ns / (double)body->uptime_ns : 0.0,
		units_duration(s->cpu_workers_ns, d), units_size(s->rss_bytes, b), units_size(s->rss_peak_bytes, c));
	if (s->loop_lag_known)
		out_line("", "event loop late by at most %s%s%s in the last minute, %s since start", out_start(colour),
			units_duration(s->loop_lag_minute_ns, a), out_end(colour),
			units_duration(s->loop_lag_max_ns, b));
	if (s->loop_lag_known && s->loop_lag_ready_ns > s->loop_lag_max_ns / 2)
		out_line("", "of the latter %s ready, without a CPU", units_duration(s->loop_lag_ready_ns, a));
}

/* Of the rank that the level costs most. */
static void status_print_level_cost(const Ranktrace__Guard *guard, const char *level, const char *head)
{
	const Ranktrace__RankCost *most = NULL;
	enum term_colour colour;
	char a[UNITS_BYTES];
	size_t ranks = 0;

	for (size_t i = 0; i < guard->n_costs; i++) {
		const Ranktrace__RankCost *cost = guard->costs[i];

		if (strcmp(cost->level, level) != 0)
			continue;
		ranks++;
		if (!most || cost->share > most->share)
			most = cost;
	}
	if (!most)
		return;
	colour = most->share > guard->budget_share ? TERM_YELLOW : TERM_PLAIN;
	out_line(head,
		"%s costs %s%.2g %% of a rank's time%s (%.2g to %.2g): rank %d, %s hits a second, the most of %zu "
		"rank%s",
		level, out_start(colour), 100 * most->share, out_end(colour), 100 * most->share_min,
		100 * most->share_max, most->rank, units_count((uint64_t)(most->hits_per_s + 0.5), a), ranks,
		status_s(ranks));
}

/* Sources by what they cost, and groups that are read less often than they might: "nvml 4.6 (links every 46 s)". */
static void status_print_gauges(const Ranktrace__StatusBody *body)
{
	struct status_text line;
	double cpus = 0;
	FILE *f;

	for (size_t i = 0; i < body->n_gauges; i++)
		cpus += body->gauges[i]->cpus;
	if (!body->n_gauges)
		return;
	f = status_text_open(&line);
	fprintf(f, "gauges: %.2f ms of CPU a second", 1e3 * cpus);
	for (size_t i = 0; i < body->n_gauges; i++) {
		const Ranktrace__GaugeSource *source = body->gauges[i];
		const char *before = " (";

		fprintf(f, "%s%s %.2f", i ? ", " : ": ", source->name, 1e3 * source->cpus);
		for (size_t g = 0; g < source->n_groups; g++) {
			if (!source->groups[g]->slow)
				continue;
			fprintf(f, "%s%s every %.0f s", before, source->groups[g]->name, source->groups[g]->interval_s);
			before = ", ";
		}
		fputs(strcmp(before, ", ") == 0 ? ")" : "", f);
	}
	status_text_line(&line, "");
}

static void status_print_guard(const Ranktrace__StatusBody *body)
{
	const Ranktrace__Guard *guard = body->guard;
	bool over = guard->cpus > guard->budget_cpus;
	char a[UNITS_BYTES];

	if (guard->cpus_known)
		out_line("", "%s%.2f %% of a core in the last minute%s%s", out_start(over ? TERM_YELLOW : TERM_PLAIN),
			100 * guard->cpus, over ? ", more than the budget" : "",
			out_end(over ? TERM_YELLOW : TERM_PLAIN));
	status_print_gauges(body);
	out_line("budget", "%.3g %% of a rank's time, %.3g %% of a core, %s of memory", 100 * guard->budget_share,
		100 * guard->budget_cpus, units_size(guard->budget_bytes, a));
	for (size_t i = 0; i < body->n_levels; i++)
		status_print_level_cost(guard, body->levels[i]->level, "");
	if (*guard->reason)
		out_line("", "what a hit costs cannot be measured here (%s)", guard->reason);
}

/* Nothing while there is nothing: L1 and L2 are off. */
static void status_print_operations(const Ranktrace__Operations *o)
{
	char a[UNITS_BYTES], b[UNITS_BYTES];
	struct status_text line;
	FILE *f;

	if (o->rows || o->communicators) {
		f = status_text_open(&line);
		fprintf(f, "%s rows, %s communicators", units_count(o->rows, a), units_count(o->communicators, b));
		status_text_loss(f, "; ", o->lost, "not paired or matched");
		fprintf(f, ", %s written early, ", units_count(o->not_waited, a));
		fprintf(f, "%s device times too late for their row", units_count(o->late, a));
		if (o->impossible)
			status_text_loss(f, ", ", o->impossible, "impossible device times");
		status_text_line(&line, "ops");
	}
	if (o->allocations) {
		f = status_text_open(&line);
		fprintf(f, "%s rows, %s live", units_count(o->allocations, a), units_count(o->allocations_live, b));
		status_text_loss(f, ", ", o->allocations_not_followed, "not followed");
		status_text_line(&line, "memory");
	}
}

/* "+154.2 us": of clocks, so microseconds as long as they can be read. */
static const char *status_offset(int64_t ns, bool known, char text[UNITS_BYTES])
{
	double size = ns < 0 ? -(double)ns : (double)ns;

	if (!known)
		snprintf(text, UNITS_BYTES, "unknown");
	else if (size < 1e7)
		snprintf(text, UNITS_BYTES, "%+.1f us", (double)ns / 1e3);
	else if (size < 1e10)
		snprintf(text, UNITS_BYTES, "%+.1f ms", (double)ns / 1e6);
	else
		snprintf(text, UNITS_BYTES, "%+.1f s", (double)ns / 1e9);
	return text;
}

/* A line for each device that has done an operation. */
static void status_print_clocks(const Ranktrace__StatusBody *body)
{
	char a[UNITS_BYTES], b[UNITS_BYTES], c[UNITS_BYTES];

	for (size_t i = 0; i < body->n_device_clocks; i++) {
		const Ranktrace__DeviceClock *d = body->device_clocks[i];
		struct status_text line;
		FILE *f = status_text_open(&line);

		fprintf(f, "rank %d", d->rank);
		if (d->device >= 0)
			fprintf(f, ", device %d", d->device);
		fprintf(f, ": %s to UTC (%s to %s), drift %+.1f ppm (%+.1f to %+.1f)",
			status_offset(d->offset_ns, true, a), status_offset(d->offset_min_ns, d->offset_min_known, b),
			status_offset(d->offset_max_ns, d->offset_max_known, c), d->drift_ppm, d->drift_min_ppm,
			d->drift_max_ppm);
		if (d->steps)
			fprintf(f, "; %s step%s of a clock noticed", units_count(d->steps, a), status_s(d->steps));
		status_text_line(&line, i ? "" : "clocks");
	}
}

static void status_print_findings(const Ranktrace__Findings *f)
{
	char a[UNITS_BYTES], b[UNITS_BYTES], c[UNITS_BYTES], d[UNITS_BYTES];
	enum term_colour colour = f->open ? TERM_YELLOW : TERM_PLAIN;

	if (!f->enabled) {
		out_line("findings", "off: [findings] enabled is no");
		return;
	}
	out_line("findings", "%s%s open%s, %s suspected, %s closed since start; %s steps judged", out_start(colour),
		units_count(f->open, a), out_end(colour), units_count(f->suspected, b), units_count(f->closed, c),
		units_count(f->frames, d));
	if (f->ranks_left_out)
		out_line("", "%s ranks are not judged: their steps cannot be matched with those of others",
			units_count(f->ranks_left_out, a));
}

static void status_print_raised(const Ranktrace__StatusBody *body)
{
	char lasting[UNITS_BYTES];

	for (size_t i = 0; i < body->n_levels; i++)
		if (body->levels[i]->raised)
			out_line("", "%s was turned on by the daemon, for %s more", body->levels[i]->level,
				units_duration(body->levels[i]->remaining_ns, lasting));
}

static void status_print_store(const Ranktrace__Store *s)
{
	char a[UNITS_BYTES], b[UNITS_BYTES];
	struct status_text line;
	FILE *f;

	out_line("store", "%s", s->path);
	f = status_text_open(&line);
	fprintf(f, "%s in %llu segment%s", units_size(s->size_bytes, a), (unsigned long long)s->segments,
		status_s(s->segments));
	if (s->oldest_ns && s->newest_ns >= s->oldest_ns)
		fprintf(f, ", %s from the oldest to the newest row", units_duration(s->newest_ns - s->oldest_ns, b));
	status_text_line(&line, "");
	f = status_text_open(&line);
	fprintf(f, "%s rows written since start, %s waiting", units_count(s->rows, a), units_count(s->rows_pending, b));
	status_text_loss(f, ", ", s->rows_dropped, "dropped");
	status_text_line(&line, "");
	for (size_t i = 0; i < s->n_drops; i++)
		out_line("", "- table %s: %s dropped (%s)", s->drops[i]->table, units_count(s->drops[i]->rows, a),
			s->drops[i]->reason);
	if (s->segments_removed || s->segments_corrupt) {
		f = status_text_open(&line);
		fprintf(f, "%s segments removed for size or age", units_count(s->segments_removed, a));
		status_text_loss(f, ", ", s->segments_corrupt, "set aside as corrupt");
		status_text_line(&line, "");
	}
	status_print_error(s->reason);
}

/* "probes: 12 of L0, 30 of L1": which level they are of, where several are on. */
static void status_add_level_probes(struct term_table *table, const Ranktrace__Collector *c)
{
	struct status_text text;
	size_t on = 0, shown = 0;
	FILE *f;

	for (size_t i = 0; i < c->n_level_probes; i++)
		on += c->level_probes[i] > 0;
	if (on < 2)
		return;
	f = status_text_open(&text);
	for (size_t i = 0; i < c->n_level_probes && i < c->n_levels; i++)
		if (c->level_probes[i])
			fprintf(f, "%s %llu of %s", shown++ ? "," : "", (unsigned long long)c->level_probes[i],
				c->levels[i]);
	fclose(f);
	term_table_line(table, "- probes:%s", text.text);
	free(text.text);
}

static void status_add_collector(struct term_table *table, const Ranktrace__Collector *c)
{
	char a[UNITS_BYTES];
	struct status_text levels;
	FILE *f = status_text_open(&levels);

	for (size_t i = 0; i < c->n_levels; i++)
		fprintf(f, "%s%s", i ? "," : "", c->levels[i]);
	if (!c->n_levels)
		fputs("always", f);
	fclose(f);
	term_table_cell(table, TERM_PLAIN, "%s", c->name);
	term_table_cell(table, TERM_PLAIN, "%s", levels.text);
	free(levels.text);
	term_table_cell(table, TERM_PLAIN, "%llu", (unsigned long long)c->probes_attached);
	term_table_cell(table, TERM_PLAIN, "%llu", (unsigned long long)c->libraries);
	term_table_cell(table, TERM_PLAIN, "%s", units_count(c->events, a));
	term_table_cell(table, status_bad_if(c->drops), "%s", units_count(c->drops, a));
	term_table_cell(table, TERM_PLAIN, "%s", c->summary);
	status_add_level_probes(table, c);
	if (c->attaching)
		term_table_line(table, "- not all probes are attached yet");
	for (size_t i = 0; i < c->n_notes; i++)
		term_table_line(table, "- %s", c->notes[i]);
	if (c->notes_left_out)
		term_table_line(table, "- and %s more notes", units_count(c->notes_left_out, a));
}

static void status_print_collectors(const Ranktrace__StatusBody *body)
{
	static const struct term_column columns[] = {
		{.name = "COLLECTOR"},
		{.name = "LEVELS", .min = 6},
		{.name = "PROBES", .right = true},
		{.name = "LIBS", .right = true},
		{.name = "EVENTS", .right = true},
		{.name = "DROPS", .right = true},
		{.name = "SEES", .min = 32, .wraps = true},
	};
	struct term_table *table = term_table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < body->n_collectors; i++)
		status_add_collector(table, body->collectors[i]);
	putchar('\n');
	term_table_print(table, stdout, 0);
	term_table_free(table);
}

#define NEAR_PERCENT 80

/* Only those that are near or exceeded. */
static void status_print_limits(const Ranktrace__StatusBody *body)
{
	char a[UNITS_BYTES], b[UNITS_BYTES], c[UNITS_BYTES];
	const char *head = "limits";

	for (size_t i = 0; i < body->n_limits; i++) {
		const Ranktrace__Limit *l = body->limits[i];
		bool near = l->max && l->used >= l->max / 100.0 * NEAR_PERCENT;
		struct status_text line;
		FILE *f;

		if (!near && !l->exceeded)
			continue;
		f = status_text_open(&line);
		fprintf(f, "%s", l->name);
		if (l->max)
			fprintf(f, ": %s of %s %s (%.0f %%)", units_count(l->used, a), units_count(l->max, b), l->unit,
				100.0 * (double)l->used / (double)l->max);
		if (l->exceeded)
			fprintf(f, "%s%s refused", l->max ? "; " : ": ", units_count(l->exceeded, c));
		status_text_line(&line, head);
		head = "";
	}
}

static void status_print(const Ranktrace__StatusBody *body)
{
	struct status_text line;
	FILE *f;

	status_print_head(body);
	status_print_raised(body);
	if (body->self)
		status_print_self(body);
	if (body->guard)
		status_print_guard(body);
	if (body->store)
		status_print_store(body->store);
	if (body->operations)
		status_print_operations(body->operations);
	status_print_limits(body);
	status_print_clocks(body);
	if (body->findings)
		status_print_findings(body->findings);
	if (body->dumps)
		status_print_dumps(body);
	f = status_text_open(&line);
	status_text_loss(f, "", body->ring_drops,
		body->ring_drops == 1 ? "record lost in the kernel" : "records lost in the kernel");
	status_text_loss(f, ", ", body->records_limited, "beyond a rank's part");
	status_text_loss(f, ", ", body->records_refused, "refused as malformed");
	status_text_line(&line, "drops");
	status_print_collectors(body);
}

int cmd_status(const struct command *command)
{
	Ranktrace__Response *response = NULL;
	int code = client_get(
		command, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS, RANKTRACE__RESPONSE__BODY_STATUS, &response);

	if (code == EXIT_DONE && command->json)
		code = out_json(status_json(response->status));
	else if (code == EXIT_DONE)
		status_print(response->status);
	client_free(response);
	return code;
}
