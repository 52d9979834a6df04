/* SPDX-License-Identifier: Apache-2.0 */
/* The collector table with collectors of the test instead of the real ones: dispatch, refusal, levels, order. */
#define COLLECTORS_DEF "tests/unit/three_collectors.def"
#define TEST_ALONE		      /* has a file of the daemon within */
#include "daemon/collect/collector.c" /* with the collectors below */
#include "tests/test.h"

static char story[1024];
static const char *failing = ""; /* the step of the story that fails */

static _printf_(1, 2) int story_add(const char *format, ...)
{
	size_t n = strlen(story);
	va_list list;

	va_start(list, format);
	vsnprintf(story + n, sizeof(story) - n, format, list);
	va_end(list);
	n = streq(failing, story + n) ? (size_t)-ENODEV : 0;
	strncat(story, " ", sizeof(story) - strlen(story) - 1);
	return (int)n;
}

static void expect_story(const char *text)
{
	assert_string_equal(story, text);
	story[0] = 0;
}

/* ...: further members. */
#define FAKE(NAME, KINDS, LEVELS, ...) \
	static int NAME##_open(struct context *context, void **ret) \
	{ \
		(void)context; \
		*ret = (void *)#NAME; \
		return story_add("open-" #NAME); \
	} \
	static int NAME##_level(void *state, enum level level, bool on, char *report, size_t size) \
	{ \
		assert_string_equal(state, #NAME); \
		snprintf(report, size, #NAME " says %s", on ? "on" : "off"); \
		return story_add(#NAME "-L%d-%s", level, on ? "on" : "off"); \
	} \
	static void NAME##_rank(void *state, const struct rank *rank, enum rank_change change) \
	{ \
		story_add("%s-rank%u-%d", (char *)state, rank->pid, change); \
	} \
	static void NAME##_event(void *state, const struct rt_event *event, size_t size) \
	{ \
		story_add("%s-event%u-%zu", (char *)state, event->kind, size); \
	} \
	static void NAME##_close(void *state) \
	{ \
		story_add("close-%s", (char *)state); \
	} \
	static void NAME##_status(void *state, struct collector_status *ret) \
	{ \
		for (unsigned i = 0; i < COLLECTOR_NOTES_MAX + 3; i++) \
			collector_note(ret, "%s %u", (char *)state, i); \
	} \
	const struct collector collector_##NAME = {.name = #NAME, \
		.levels = LEVELS, \
		.kinds = KINDS, \
		.open = NAME##_open, \
		.level = NAME##_level, \
		.rank = NAME##_rank, \
		.event = NAME##_event, \
		.status = NAME##_status, \
		.close = NAME##_close, \
		__VA_ARGS__};

static int sched_window(void *state, enum level level, bool open, double duty)
{
	return story_add("%s-L%d-%s-%g", (char *)state, level, open ? "open" : "shut", duty);
}

static uint64_t sched_window_end_ns(const void *state, enum level level, uint64_t open_ns)
{
	return level == LEVEL_L1 ? open_ns + 7 : 0;
}

FAKE(proc, 1u << RT_KIND_EXEC | 1u << RT_KIND_EXIT, 0)
FAKE(call, 1u << RT_KIND_CALL, LEVEL_BIT(LEVEL_L0) | LEVEL_BIT(LEVEL_L1))
FAKE(sched, 1u << RT_KIND_OFFCPU, LEVEL_BIT(LEVEL_L1) | LEVEL_BIT(LEVEL_L3), .window = sched_window,
	.window_end_ns = sched_window_end_ns)

static ranks_observer observer;
static void *observer_arg;

int ranks_observe(struct ranks *ranks, ranks_observer callback, void *arg)
{
	observer = callback;
	observer_arg = arg;
	return story_add("observe");
}

struct losses *losses_new(const struct context *context)
{
	return calloc(1, 1);
}

struct losses *losses_free(struct losses *losses)
{
	free(losses);
	return NULL;
}

bool losses_due(const struct losses *losses, uint64_t now_ns)
{
	return now_ns == 1;
}

void losses_write(struct losses *losses, const char *(*source)(void *arg, unsigned kind), void *arg)
{
	story_add("lost-of-%s", source(arg, RT_KIND_CALL));
}

void losses_rank(struct losses *losses, const struct rank *rank)
{
	story_add("lost-of-rank%u", rank->pid);
}

uint64_t losses_of_ranks(const struct losses *losses)
{
	return 0;
}

static struct collectors *opened;

static int setup(void **state)
{
	static struct context context;

	failing = "";
	story[0] = 0;
	return collectors_open(&context, &opened);
}

static int teardown(void **state)
{
	opened = collectors_close(opened);
	return 0;
}

TEST_WITH(opens_and_closes_in_mirrored_order, setup, teardown)
{
	expect_story("open-proc open-call open-sched observe ");
	opened = collectors_close(opened);
	expect_story("lost-of-call close-sched close-call close-proc ");
	assert_null(collectors_close(NULL));
}

TEST_WITH(a_failure_closes_what_was_open, setup, teardown)
{
	struct context context = {0};
	struct collectors *ret = NULL;

	story[0] = 0;
	failing = "open-sched";
	assert_int_equal(collectors_open(&context, &ret), -ENODEV);
	expect_story("open-proc open-call open-sched lost-of-call close-call close-proc ");
	failing = "observe";
	assert_int_equal(collectors_open(&context, &ret), -ENODEV);
	assert_null(ret);
}

TEST_WITH(records_reach_their_collector, setup, teardown)
{
	struct {
		struct rt_event event;
		char payload[16];
	} record = {0};

	story[0] = 0;
	record.event.kind = RT_KIND_CALL;
	record.event.size_bytes = sizeof(record);
	collectors_event(opened, &record, sizeof(record));
	record.event.kind = RT_KIND_EXIT;
	record.event.size_bytes = sizeof(record.event);
	collectors_event(opened, &record, sizeof(record));
	expect_story("call-event1-40 proc-event5-24 ");
	assert_true(collectors_refused(opened) == 0);
}

TEST_WITH(bad_records_are_refused, setup, teardown)
{
	static const struct {
		uint16_t kind;
		uint32_t says_bytes;
		size_t size_bytes;
	} rows[] = {
		{RT_KIND_CALL, sizeof(struct rt_event), sizeof(struct rt_event) - 1},
		{RT_KIND_CALL, sizeof(struct rt_event) - 1, sizeof(struct rt_event)},
		{RT_KIND_CALL, sizeof(struct rt_event) + 1, sizeof(struct rt_event)},
		{RT_KIND_CALL, UINT32_MAX, sizeof(struct rt_event)},
		{RT_KIND_NONE, sizeof(struct rt_event), sizeof(struct rt_event)},
		{RT_KIND_OFFCPU_SUM, sizeof(struct rt_event), sizeof(struct rt_event)}, /* nobody decodes it here */
		{RT_KIND_MAX, sizeof(struct rt_event), sizeof(struct rt_event)},
		{UINT16_MAX, sizeof(struct rt_event), sizeof(struct rt_event)},
		{RT_KIND_CALL, 0, 0},
	};

	story[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rt_event event = {.kind = rows[i].kind, .size_bytes = rows[i].says_bytes};
		void *data = malloc(rows[i].size_bytes ? rows[i].size_bytes : 1);

		memcpy(data, &event, rows[i].size_bytes);
		collectors_event(opened, data, rows[i].size_bytes);
		free(data);
		assert_true(collectors_refused(opened) == i + 1);
	}
	expect_story("");
}

TEST_WITH(levels_reach_those_that_serve_them, setup, teardown)
{
	char report[128];

	story[0] = 0;
	assert_int_equal(collectors_level(opened, LEVEL_L1, true, report, sizeof(report)), 0);
	assert_string_equal(report, "call says on; sched says on");
	assert_int_equal(collectors_level(opened, LEVEL_L0, false, report, sizeof(report)), 0);
	assert_string_equal(report, "call says off");
	expect_story("call-L1-on sched-L1-on call-L0-off ");
	assert_int_equal(collectors_level(opened, LEVEL_L2, true, report, sizeof(report)), 0);
	assert_string_equal(report, "");
	expect_story("");
	assert_int_equal(collectors_level(opened, LEVEL_L1, true, report, 8), 0);
	assert_string_equal(report, "call sa");
}

TEST_WITH(a_level_is_whole_or_off, setup, teardown)
{
	char report[128];

	story[0] = 0;
	failing = "sched-L1-on";
	assert_int_equal(collectors_level(opened, LEVEL_L1, true, report, sizeof(report)), -ENODEV);
	assert_string_equal(report, "sched says on");
	expect_story("call-L1-on sched-L1-on call-L1-off ");
}

TEST_WITH(windows_reach_those_that_serve_the_level, setup, teardown)
{
	story[0] = 0;
	/* By .window where there is one, else as the level. */
	assert_int_equal(collectors_window(opened, LEVEL_L1, true, 0.25), 0);
	expect_story("call-L1-on sched-L1-open-0.25 ");
	assert_int_equal(collectors_window(opened, LEVEL_L1, false, 0.25), 0);
	expect_story("call-L1-off sched-L1-shut-0.25 ");
	assert_int_equal(collectors_window(opened, LEVEL_L0, false, 0.25), 0);
	expect_story("call-L0-off ");
	assert_int_equal(collectors_window(opened, LEVEL_L2, true, 1), 0);
	expect_story("");
	/* The first that fails ends it: the window has not turned. */
	failing = "call-L1-on";
	assert_int_equal(collectors_window(opened, LEVEL_L1, true, 0.25), -ENODEV);
	expect_story("call-L1-on ");
	failing = "";
	assert_int_equal(collectors_window_end_ns(opened, LEVEL_L1, 5), 12);
	assert_int_equal(collectors_window_end_ns(opened, LEVEL_L3, 5), 0);
	assert_int_equal(collectors_window_end_ns(opened, LEVEL_L0, 5), 0);
	assert_int_equal(collectors_window_end_ns(NULL, LEVEL_L1, 5), 0);
}

TEST_WITH(ranks_reach_all, setup, teardown)
{
	const struct rank rank = {.pid = 7};

	story[0] = 0;
	observer(observer_arg, &rank, RANK_ENDED);
	expect_story("proc-rank7-2 call-rank7-2 sched-rank7-2 lost-of-rank7 ");
	collectors_tick(opened, 1);
	expect_story("lost-of-call ");
	collectors_tick(opened, 2);
	expect_story("");
}

TEST_WITH(status_is_bounded, setup, teardown)
{
	static struct collector_status status;
	const struct collector *collector = NULL;

	assert_true(collectors_status(opened, 2, &collector, &status));
	assert_ptr_equal(collector, &collector_sched);
	assert_int_equal(status.notes, COLLECTOR_NOTES_MAX);
	assert_int_equal(status.notes_left_out, 3);
	assert_string_equal(status.note[COLLECTOR_NOTES_MAX - 1], "sched 31");
	assert_false(collectors_status(opened, 3, &collector, &status));
}

TEST_MAIN(NULL, NULL)
