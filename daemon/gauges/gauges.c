/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauges.h"

#include <math.h>

#include "analyzers/gauges/card_gauges.h"
#include "analyzers/gauges/network_gauges.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/gauges/gauge_cards.h"
#include "daemon/gauges/gauges_internal.h"
#include "daemon/store/store.h"

#define SILENT_NS (10 * NSEC_PER_SEC) /* a source that is read but gives nothing for so long is reported */
#define END_WAIT_NS (NSEC_PER_SEC / 2)

#define GAUGE_SOURCE(name) extern const struct gauge_source gauge_source_##name;
#include "daemon/gauges/sources.def"
#undef GAUGE_SOURCE

const struct gauge_source *const gauge_sources[] = {
#define GAUGE_SOURCE(name) &gauge_source_##name,
#include "daemon/gauges/sources.def"
#undef GAUGE_SOURCE
};

#define SOURCES ARRAY_SIZE(gauge_sources)
const unsigned gauge_sources_count = SOURCES;
_Static_assert(SOURCES <= GAUGE_THREAD_SOURCES, "sources of one thread");

struct gauges_source {
	struct gauges *gauges;
	const struct gauge_source *source;
	struct gauge_thread *thread; /* that reads it; the last source of it frees it */
	size_t place;		     /* in the thread */
	struct gauge_series_set *series;
	bool silent;   /* reported */
	unsigned slow; /* bits of groups, reported */
};

struct gauges {
	struct context *context;
	struct card_gauges *card_gauges;
	struct network_gauges *network_gauges;
	const struct gauges_observer *observer; /* NULL: none */
	void *observer_arg;
	struct gauge_cards known;
	struct gauge_thread *shared;
	int64_t cards;
	double level; /* of CPUs, that a group may take: gauge_pace_level() */
	struct gauges_source source[SOURCES];
};

static const struct gauge_roots default_roots = {
	.proc = "/proc",
	.sys = "/sys",
	.kernel_log = "/dev/kmsg",
	.nvml = "libnvidia-ml.so.1",
	.dcmi = "libdcmi.so",
};

static void gauges_put_row(void *arg, const struct gauge_row *row)
{
	const struct gauges_source *source = arg;
	struct store *store = source->gauges->context->store;
	bool varies = row->least < row->most;

	store_put_gauges(store, &(struct row_gauges){
					.start_ns = field_time(store_utc_ns(store, row->start_ns)),
					.duration_ns = field_duration(row->duration_ns),
					.source = field_text(source->source->name),
					.object = field_text_if(row->object),
					.name = field_text(row->gauge->name),
					.value = field_real(row->value),
					.least = field_real_if(varies, row->least),
					.most = field_real_if(varies, row->most),
					.unit = field_text(row->gauge->unit),
				});
}

static void gauges_on_sample(void *arg, uint64_t time_ns, const struct gauge *gauge, const char *object, double value)
{
	const struct gauges *gauges = ((const struct gauges_source *)arg)->gauges;

	card_gauges_sample(gauges->card_gauges, time_ns, object, gauge->name, value);
	if (gauge_is_loss(gauge))
		network_gauges_sample(
			gauges->network_gauges, time_ns, object, gauge->help, gauge_is_rate(gauge), value);
	if (gauges->observer)
		gauges->observer->sample(gauges->observer_arg, time_ns, object, gauge->name, value);
}

static void gauges_put_messages(const struct gauges_source *source, const struct gauge_batch *batch)
{
	const struct gauges *gauges = source->gauges;
	struct store *store = gauges->context->store;

	for (size_t i = 0; i < batch->texts; i++) {
		const struct gauge_text *text = &batch->text[i];

		if (gauges->observer)
			gauges->observer->message(gauges->observer_arg, batch->time_ns,
				&(struct gauges_message){text->kind, text->object, text->text, text->number});
		store_put_kernel_messages(store, &(struct row_kernel_messages){
							 .start_ns = field_time(store_utc_ns(store, batch->time_ns)),
							 .kind = field_text(text->kind),
							 .object = field_text_if(text->object),
							 .number = field_int_if(text->number, text->number),
							 .message = field_text(text->text),
						 });
	}
}

static void gauges_take_card(struct gauges *gauges, const struct gauge_card *card)
{
	card_gauges_card(gauges->card_gauges, card->object, card->minor);
	if (gauges->known.count < GAUGE_CARDS_MAX)
		gauges->known.card[gauges->known.count++] = *card;
	if (gauges->observer)
		gauges->observer->card(gauges->observer_arg, card);
}

static void gauges_put_cards(struct gauges *gauges, const struct gauge_batch *batch)
{
	struct store *store = gauges->context->store;

	for (size_t i = 0; i < batch->cards; i++) {
		const struct gauge_card *card = &batch->card[i];

		gauges_take_card(gauges, card);
		store_put_cards(store, &(struct row_cards){
					       .object = field_text(card->object),
					       .pci = field_text_if(card->pci),
					       .serial = field_text_if(card->serial),
					       .name = field_text_if(card->name),
					       .minor = field_int_if(card->minor >= 0, card->minor),
					       .card_key = field_int(++gauges->cards),
				       });
	}
}

static void gauges_take(struct gauges *gauges, struct gauge_thread *thread)
{
	struct gauge_batch *batch;

	while ((batch = gauge_thread_take(thread))) {
		struct gauges_source *source = &gauges->source[batch->source];

		gauge_series_set_feed(source->series, batch);
		gauges_put_messages(source, batch);
		gauges_put_cards(gauges, batch);
		gauge_batch_free(batch);
	}
}

/* A source that hangs: what it said last holds no longer. */
static void gauges_check_silence(struct gauges_source *source, uint64_t now_ns)
{
	struct gauge_opened opened;
	bool silent;

	gauge_thread_opened(source->thread, source->place, &opened);
	silent = opened.result >= 0 && opened.busy_ns && now_ns >= opened.busy_ns + SILENT_NS;
	if (silent == source->silent)
		return;
	source->silent = silent;
	if (!silent) {
		log_notice("gauges", "%s answers again", source->source->name);
		return;
	}
	gauge_series_set_end(source->series);
	log_warning("gauges", "%s has not answered for %u s; trying on", source->source->name,
		(unsigned)(SILENT_NS / NSEC_PER_SEC));
}

/* The groups that are read. */
static size_t gauges_groups(const struct gauges_source *source, struct gauge_opened *opened)
{
	size_t groups = 0;

	gauge_thread_opened(source->thread, source->place, opened);
	while (opened->opened && opened->result >= 0 && groups < GAUGE_GROUPS_MAX && source->source->group[groups].read)
		groups++;
	return groups;
}

/* Once a group: what costs nearly too much would be in the log again and again. */
static void gauges_say_pace(struct gauges_source *source, double level)
{
	struct gauge_opened opened;
	size_t groups = gauges_groups(source, &opened);

	for (size_t g = 0; g < groups; g++) {
		const struct gauge_group *group = &source->source->group[g];

		if (source->slow >> g & 1 || !gauge_pace_is_slow(&opened.pace[g], group, level))
			continue;
		source->slow |= 1U << g;
		log_notice("gauges",
			"group %s of %s is read every %.0f s now: a reading takes %.1f ms (cpu_percent in "
			"ranktrace.conf)",
			group->name, source->source->name,
			(double)gauge_pace_interval_ns(&opened.pace[g], group, level) / 1e9,
			(double)opened.pace[g].cost_ns / 1e6);
	}
}

/* The level for all threads, by what their groups cost. */
static void gauges_set_level(struct gauges *gauges)
{
	double share = (double)gauges->context->config.budget_cpu_ppm * 1e-6 * GAUGES_SHARE, urgent = 0;
	double need[SOURCES * GAUGE_GROUPS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < SOURCES; i++) {
		struct gauge_opened opened;
		size_t groups = gauges_groups(&gauges->source[i], &opened);

		for (size_t g = 0; g < groups; g++) {
			const struct gauge_group *group = &gauges->source[i].source->group[g];

			if (group->is_urgent)
				urgent += gauge_pace_need(&opened.pace[g], group);
			else
				need[count++] = gauge_pace_need(&opened.pace[g], group);
		}
	}
	gauges->level = gauge_pace_level(share, urgent, need, count);
	for (size_t i = 0; i < SOURCES; i++)
		gauge_thread_level(gauges->source[i].thread, gauges->level);
}

void gauges_tick(struct gauges *gauges, uint64_t now_ns)
{
	if (!gauges)
		return;
	for (size_t i = 0; i < SOURCES; i++) {
		struct gauges_source *source = &gauges->source[i];

		if (source->place == 0)
			gauges_take(gauges, source->thread);
	}
	gauges_set_level(gauges);
	for (size_t i = 0; i < SOURCES; i++) {
		gauges_check_silence(&gauges->source[i], now_ns);
		gauges_say_pace(&gauges->source[i], gauges->level);
	}
}

DEFINE_CLEANUP(struct gauges *, gauges_free)

static int gauges_start(struct gauges *gauges, const struct gauge_roots *roots)
{
	unsigned shared[SOURCES];
	size_t count = 0;
	int r;

	for (unsigned i = 0; i < SOURCES; i++) {
		struct gauges_source *source = &gauges->source[i];

		source->place = source->source->blocks ? 0 : count;
		if (!source->source->blocks)
			shared[count++] = i;
		else if ((r = gauge_thread_new(roots, &i, 1, GAUGES_MAX, &source->thread)) < 0)
			return r;
	}
	r = gauge_thread_new(roots, shared, count, GAUGES_MAX, &gauges->shared);
	for (size_t i = 0; r >= 0 && i < count; i++)
		gauges->source[shared[i]].thread = gauges->shared;
	return r;
}

int gauges_new_at(struct context *context, const struct gauge_roots *given, struct gauges **ret)
{
	_cleanup_(gauges_freep) struct gauges *gauges = calloc(1, sizeof(*gauges));
	struct gauge_roots roots = {
		.proc = given->proc ? given->proc : default_roots.proc,
		.sys = given->sys ? given->sys : default_roots.sys,
		.kernel_log = given->kernel_log ? given->kernel_log : default_roots.kernel_log,
		.nvml = given->nvml ? given->nvml : default_roots.nvml,
		.dcmi = given->dcmi ? given->dcmi : default_roots.dcmi,
	};
	int r;

	if (!gauges)
		return -ENOMEM;
	gauges->context = context;
	gauges->level = INFINITY; /* costs are not known yet */
	gauges->card_gauges = card_gauges_new();
	gauges->network_gauges = network_gauges_new();
	if (!gauges->card_gauges || !gauges->network_gauges)
		return -ENOMEM;
	for (size_t i = 0; i < SOURCES; i++) {
		struct gauges_source *source = &gauges->source[i];

		source->gauges = gauges;
		source->source = gauge_sources[i];
		source->series = gauge_series_set_new(source->source->rows_per_second, GAUGES_MAX,
			&(struct gauge_sink){gauges_put_row, gauges_on_sample, source});
		if (!source->series)
			return -ENOMEM;
	}
	r = gauges_start(gauges, &roots);
	if (r < 0)
		return r;
	context->cards = &gauges->known;
	*ret = TAKE_PTR(gauges);
	return 0;
}

int gauges_new(struct context *context, struct gauges **ret)
{
	return gauges_new_at(context, &default_roots, ret);
}

struct gauges *gauges_free(struct gauges *gauges)
{
	if (!gauges)
		return NULL;
	for (size_t i = 0; i < SOURCES; i++) {
		if (gauges->source[i].source && gauges->source[i].source->blocks)
			gauge_thread_free(gauges->source[i].thread, END_WAIT_NS);
		gauge_series_set_free(gauges->source[i].series);
	}
	gauge_thread_free(gauges->shared, END_WAIT_NS);
	card_gauges_free(gauges->card_gauges);
	network_gauges_free(gauges->network_gauges);
	if (gauges->context)
		gauges->context->cards = NULL;
	free(gauges);
	return NULL;
}

void gauges_observe(struct gauges *gauges, const struct gauges_observer *observer, void *arg)
{
	if (!gauges)
		return;
	gauges->observer = observer;
	gauges->observer_arg = arg;
}

void gauges_each(const struct gauges *gauges, gauges_newest newest, void *arg)
{
	for (size_t i = 0; gauges && i < SOURCES; i++)
		gauge_series_set_each(gauges->source[i].series, gauges->source[i].source, newest, arg);
}

struct card_gauges *gauges_cards(const struct gauges *gauges)
{
	return gauges ? gauges->card_gauges : NULL;
}

struct network_gauges *gauges_network(const struct gauges *gauges)
{
	return gauges ? gauges->network_gauges : NULL;
}

static void gauges_group_status(
	const struct gauge_group *group, const struct gauge_pace *pace, double level, struct gauges_status *status)
{
	struct gauges_group_status *ret = &status->group[status->groups++];

	ret->name = group->name;
	ret->interval_ns = gauge_pace_interval_ns(pace, group, level);
	ret->slow = gauge_pace_is_slow(pace, group, level);
	ret->cpus =
		(double)pace->cpu_ns / (double)(pace->took_ns > ret->interval_ns ? pace->took_ns : ret->interval_ns);
	status->cpus += ret->cpus;
}

bool gauges_status(const struct gauges *gauges, unsigned index, struct gauges_status *ret)
{
	const struct gauges_source *source;
	struct gauge_opened opened;
	size_t groups;

	if (!gauges || index >= SOURCES)
		return false;
	source = &gauges->source[index];
	groups = gauges_groups(source, &opened);
	*ret = (struct gauges_status){
		.source = source->source,
		.count = gauge_series_set_count(source->series),
		.rows = gauge_series_set_rows(source->series),
		.left_out = gauge_series_set_left_out(source->series),
		.state = source->silent		    ? GAUGES_SILENT
			 : !opened.opened	    ? GAUGES_OPENING
			 : opened.result == -ENOENT ? GAUGES_ABSENT
			 : opened.result < 0	    ? GAUGES_REFUSED
						    : GAUGES_READ,
	};
	for (size_t g = 0; g < groups; g++)
		gauges_group_status(&source->source->group[g], &opened.pace[g], gauges->level, ret);
	(void)copy_text(ret->why, sizeof(ret->why), opened.why);
	return true;
}
