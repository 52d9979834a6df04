/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of traces: what is written is read back by decoders that share nothing with the encoders. */
#include "tests/unit/trace_decode.h"

#include <errno.h>
#include <jansson.h>

#include "analyzers/timeline/timeline_internal.h"
#include "analyzers/timeline/trace.h"

#define T0 1795276219280091899LL

static const struct trace_track process = {
	.kind = TRACE_PROCESS, .id = 1, .name = "rank 0", .where = "", .pid = 4000, .rank = 1};
static const struct trace_track thread = {
	.kind = TRACE_THREAD, .id = 2, .parent = 1, .name = "main", .where = "thread 4000", .pid = 4000, .tid = 4000};
static const struct trace_track counter = {.kind = TRACE_COUNTER,
	.id = 3,
	.parent = 1,
	.name = "memory",
	.where = "",
	.unit = "bytes",
	.pid = 4000,
	.tid = 16777219};

struct file {
	char *text;
	size_t size;
	FILE *out;
	struct trace *trace;
};

static void start(struct file *file, const struct trace_format *format)
{
	struct trace_options options = {.base_ns = T0 - 1000000, .title = "test"};

	file->out = open_memstream(&file->text, &file->size);
	options.out = file->out;
	assert_int_equal(trace_open(format, &options, &file->trace), 0);
	trace_track(file->trace, &process);
	trace_track(file->trace, &thread);
	trace_track(file->trace, &counter);
}

static void stop(struct file *file)
{
	assert_int_equal(trace_finish(file->trace), 0);
	trace_close(file->trace);
	fclose(file->out);
}

static struct decode *decoded(struct file *file)
{
	struct decode *d;

	stop(file);
	d = decode_new(file->text, file->size);
	free(file->text);
	return d;
}

static json_t *parsed(struct file *file)
{
	json_error_t error;
	json_t *json;

	stop(file);
	json = json_loadb(file->text, file->size, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s: %.300s", error.text, file->text);
	free(file->text);
	return json;
}

static void put(struct file *file, const char *name, int64_t start_ns, int64_t end_ns)
{
	struct trace_event event = {
		.track = &thread, .category = "stage", .name = name, .start_ns = start_ns, .end_ns = end_ns};

	trace_event(file->trace, &event);
}

TEST(test_wire)
{
	static struct proto_writer w;
	static const uint8_t expected[] = {0x08, 0x96, 0x01, 0x12, 0x03, 'a', 'b', 'c', 0x1a, 0x82, 0x80, 0x80, 0x00,
		0x20, 0x07, 0x29, 1, 0, 0, 0, 0, 0, 0, 0};
	const uint8_t *p = w.data;
	struct decode_field field;
	size_t at;

	proto_reset(&w);
	proto_uint(&w, 1, 150);
	proto_text(&w, 2, "abc");
	at = proto_begin(&w, 3);
	proto_uint(&w, 4, 7);
	proto_end(&w, at);
	proto_fixed64(&w, 5, 1);
	assert_int_equal(w.size, sizeof(expected));
	assert_memory_equal(w.data, expected, sizeof(expected));
	assert_false(w.failed);

	proto_reset(&w);
	proto_int(&w, 1, -2);
	assert_int_equal(w.size, 11);
	assert_true(decode_next(&p, w.data + w.size, &field));
	assert_true((int64_t)field.value == -2);
	proto_reset(&w);
	proto_uint(&w, 1, UINT64_MAX);
	proto_double(&w, 2, -0.5);
	p = w.data;
	assert_true(decode_next(&p, w.data + w.size, &field) && field.value == UINT64_MAX);
	assert_true(decode_next(&p, w.data + w.size, &field) && field.value == 0xbfe0000000000000ULL);
}

TEST(test_wire_is_bounded)
{
	static struct proto_writer w;
	static char text[PROTO_BYTES_MAX];

	memset(text, 'x', sizeof(text) - 1);
	proto_reset(&w);
	proto_text(&w, 1, text);
	assert_true(w.failed);
	proto_uint(&w, 1, 1);
	proto_end(&w, proto_begin(&w, 2));
	assert_true(w.failed && w.size <= PROTO_BYTES_MAX);
	proto_reset(&w);
	for (size_t i = 0; i < PROTO_BYTES_MAX; i++)
		proto_fixed64(&w, 1, i);
	assert_true(w.failed && w.size <= PROTO_BYTES_MAX);
}

TEST(test_lanes)
{
	struct lanes nest = {.nest = true}, flat = {0};

	assert_int_equal(lanes_place(&nest, 0, 100), 0);
	assert_int_equal(lanes_place(&nest, 10, 50), 0);  /* within */
	assert_int_equal(lanes_place(&nest, 40, 60), 1);  /* crosses */
	assert_int_equal(lanes_place(&nest, 50, 100), 0); /* after, and to the end of the one around it */
	assert_int_equal(lanes_place(&nest, 100, 100), 0);
	assert_int_equal(lanes_place(&nest, 100, INT64_MAX), 0); /* never ends */
	assert_int_equal(lanes_place(&nest, 200, 300), 0);
	assert_int_equal(lanes_place(&nest, 250, INT64_MAX), 1);
	lanes_clear(&nest);
	assert_int_equal(lanes_place(&flat, 0, 100), 0);
	assert_int_equal(lanes_place(&flat, 10, 50), 1);
	assert_int_equal(lanes_place(&flat, 50, 60), 1);
	assert_int_equal(lanes_place(&flat, 100, 120), 0);
	for (int i = 2; i < LANES_MAX; i++)
		assert_int_equal(lanes_place(&flat, 110, 119), i == 2 ? 1 : i - 1);
	assert_int_equal(lanes_place(&flat, 110, 119), LANES_MAX - 1);
	assert_int_equal(lanes_place(&flat, 110, 119), -ENOSPC);
	assert_int_equal(lanes_place(&flat, 119, 130), 1);
	lanes_clear(&flat);
}

TEST(test_perfetto)
{
	struct trace_event event = {.track = &thread,
		.category = "collective",
		.name = "AllReduce",
		.start_ns = T0 + 10,
		.end_ns = T0 + 20,
		.flows = 2,
		.flow = {77, UINT64_MAX},
		.args = 3,
		.arg = {{.name = "seq", .type = TRACE_INT, .integer = -5},
			{.name = "share", .type = TRACE_REAL, .real = 0.25},
			{.name = "dtype", .type = TRACE_TEXT, .text = "float16"}}};
	const struct decode_event *got;
	struct file file;
	struct decode *d;

	start(&file, &trace_perfetto);
	put(&file, "forward", T0, T0 + 100);
	trace_event(file.trace, &event);
	put(&file, "backward", T0 + 100, TRACE_OPEN);
	event = (struct trace_event){.track = &thread,
		.category = "lost",
		.name = "ring",
		.start_ns = T0 + 5,
		.end_ns = T0 + 5,
		.instant = true};
	trace_event(file.trace, &event);
	trace_counter(file.trace, &counter, T0 + 1, 1e12);
	trace_counter(file.trace, &counter, T0 + 2, -1.5);
	d = decoded(&file);
	assert_int_equal(d->tracks, 3);
	assert_string_equal(d->track[0].name, "rank 0");
	assert_int_equal(d->track[1].tid, 4000);
	assert_int_equal(d->track[1].parent, 1);
	assert_true(d->track[2].counter);
	got = decode_named(d, "AllReduce");
	assert_int_equal(got->time_ns, T0 + 10);
	assert_int_equal(got->end_ns, T0 + 20);
	assert_string_equal(got->category, "collective");
	assert_string_equal(got->arg, "seq=-5;share=0.25;dtype=float16;");
	assert_true(got->flows == 2 && got->flow[0] == 77 && got->flow[1] == UINT64_MAX);
	assert_int_equal(decode_named(d, "forward")->end_ns, T0 + 100);
	assert_true(decode_named(d, "backward")->end_ns == UINT64_MAX);
	assert_int_equal(decode_count(d, DECODE_INSTANT, "lost"), 1);
	assert_int_equal(decode_count(d, DECODE_COUNTER, NULL), 2);
	assert_true(d->event[1].value == 1e12 && d->event[2].value == -1.5);
	decode_free(d);
}

/* More texts than are remembered: the reader gets a reset, and all names are right. */
TEST(test_interning_starts_again)
{
	enum { NAMES = 17384 /* 1000 more than are remembered */ };
	struct file file;
	struct decode *d;
	char name[64];

	start(&file, &trace_perfetto);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "stage %d", i);
		put(&file, name, T0 + 10 * i, T0 + 10 * i + 5);
	}
	d = decoded(&file);
	assert_int_equal(d->cleared, 2);
	assert_int_equal(d->events, 2 * NAMES);
	for (size_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "stage %zu", i);
		assert_string_equal(d->event[2 * i].name, name);
		assert_int_equal(d->event[2 * i].end_ns, T0 + 10 * i + 5);
	}
	decode_free(d);
}

static const char *const hostile[] = {"\"},{\"ph\":\"X", "\\", "a\nb\tc\x1b[31m", "\xff\xfe", "\xc3", "\xed\xa0\x80",
	"\xc2\x85", "\xe6\xa2\xaf\xe5\xba\xa6", "", "</script>", "\x7f"};

TEST(test_hostile_texts)
{
	static char longest[100000];
	struct file file;
	struct decode *d;
	json_t *json;

	memset(longest, '"', sizeof(longest) - 1);
	for (int chrome = 0; chrome < 2; chrome++) {
		struct trace_event event = {.track = &thread, .start_ns = T0, .end_ns = T0 + 1, .args = 2};

		start(&file, chrome ? &trace_chrome : &trace_perfetto);
		for (size_t i = 0; i <= sizeof(hostile) / sizeof(hostile[0]); i++) {
			const char *text = i < sizeof(hostile) / sizeof(hostile[0]) ? hostile[i] : longest;
			struct trace_track named = process;

			named.name = text;
			trace_track(file.trace, &named);
			event.name = event.category = text;
			event.arg[0] = (struct trace_arg){.name = text, .type = TRACE_TEXT, .text = text};
			event.arg[1] = (struct trace_arg){.name = "n", .type = TRACE_TEXT, .text = longest};
			trace_event(file.trace, &event);
		}
		if (chrome) {
			json = parsed(&file);
			assert_true(json_array_size(json_object_get(json, "traceEvents")) > 20);
			json_decref(json);
		} else {
			d = decoded(&file);
			assert_non_null(decode_named(d, "a?b?c?[31m"));
			assert_non_null(decode_named(d, "??"));
			assert_non_null(decode_named(d, "\xe6\xa2\xaf\xe5\xba\xa6"));
			decode_free(d);
		}
	}
}

static const json_t *phase_of(const json_t *json, const char *phase, size_t n)
{
	const json_t *event;
	size_t i;

	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0 && n-- == 0)
			return event;
	}
	return NULL;
}

static double number(const json_t *event, const char *name)
{
	return json_number_value(json_object_get(event, name));
}

TEST(test_chrome)
{
	struct trace_event event = {.track = &thread,
		.category = "collective",
		.name = "AllReduce",
		.start_ns = T0 + 1234567,
		.end_ns = T0 + 1234567 + 1001,
		.args = 2,
		.arg = {{.name = "seq", .type = TRACE_INT, .integer = INT64_MIN},
			{.name = "share", .type = TRACE_REAL, .real = 1.0 / 0.0}}};
	struct file file;
	json_t *json;

	start(&file, &trace_chrome);
	trace_event(file.trace, &event);
	put(&file, "open", T0, TRACE_OPEN);
	put(&file, "before", T0 - 1000001, T0);
	event.instant = true;
	trace_event(file.trace, &event);
	trace_counter(file.trace, &counter, T0, 5e9);
	trace_counter(file.trace, &counter, T0, 0.0 / 0.0);
	trace_arrow(file.trace, &(struct trace_end){1, 2, T0}, &(struct trace_end){3, 4, T0 + 1});
	json = parsed(&file);
	assert_true(number(phase_of(json, "X", 0), "ts") == 2234.567);
	assert_true(number(phase_of(json, "X", 0), "dur") == 1.001);
	assert_true(json_integer_value(json_object_get(json_object_get(phase_of(json, "X", 0), "args"), "seq")) ==
		    INT64_MIN);
	assert_true(json_is_null(json_object_get(json_object_get(phase_of(json, "X", 0), "args"), "share")));
	assert_true(number(phase_of(json, "X", 1), "ts") == -0.001);
	assert_non_null(phase_of(json, "B", 0));
	assert_non_null(phase_of(json, "i", 0));
	assert_true(number(json_object_get(phase_of(json, "C", 0), "args"), "bytes") == 5e9);
	assert_null(phase_of(json, "C", 1));
	assert_true(number(phase_of(json, "s", 0), "id") == number(phase_of(json, "f", 0), "id"));
	assert_true(number(phase_of(json, "f", 0), "tid") == 4);
	assert_string_equal(json_string_value(json_object_get(json_object_get(json, "otherData"), "base_ns")),
		"1795276219279091899");
	json_decref(json);
}

TEST(test_full_disk)
{
	struct trace_options options = {.base_ns = T0, .title = "test", .out = fopen("/dev/full", "w")};
	struct trace *trace;

	assert_non_null(options.out);
	assert_int_equal(trace_open(&trace_perfetto, &options, &trace), 0);
	trace_track(trace, &process);
	assert_int_equal(trace_finish(trace), -ENOSPC);
	trace_close(trace);
	fclose(options.out);
}

TEST_MAIN(NULL, NULL)
