/* SPDX-License-Identifier: Apache-2.0 */
/* The report's section on memory of devices: which rows it has, in which order, and that no store can harm it. */
#include "tests/unit/report_day.h"

#include <jansson.h>

#define GIB (1LL << 30)

static struct store *open_day(const struct script *script)
{
	struct store *store = NULL;

	assert_int_equal(script_open(script, dir, &store), 0);
	return store;
}

static void close_day(struct store *store)
{
	(void)store_flush(store, UNTIL);
	store_close(store);
}

/* rank: of one node; the instance is the script's. */
static void put_curve(struct store *store, int64_t instance, const char *kind, int64_t device, int64_t allocated)
{
	store_put_memory_curve(store, &(struct row_memory_curve){
					      .rank = field_int(instance - 1),
					      .start_ns = field_time(UNTIL - SCRIPT_HOUR),
					      .kind = field_text(kind),
					      .device = field_int_if(device >= 0, device),
					      .allocated_bytes = field_int(allocated / 2),
					      .allocated_min_bytes = field_int(allocated / 4),
					      .allocated_max_bytes = field_int(allocated),
					      .reserved_bytes = field_int(allocated),
					      .reserved_max_bytes = field_int(2 * allocated),
					      .before_bytes = field_int(0),
					      .allocs = field_int(1),
					      .frees = field_int(0),
					      .alloc_bytes = field_int(1),
					      .instance = field_int(instance),
				      });
}

static void put_failure(struct store *store, int64_t instance)
{
	store_put_memory_failures(store, &(struct row_memory_failures){
						 .rank = field_int(instance - 1),
						 .start_ns = field_time(UNTIL - SCRIPT_HOUR),
						 .kind = field_text("cuda"),
						 .device = field_int(0),
						 .bytes = field_int(GIB),
						 .allocated_bytes = field_int(5 * GIB),
						 .reserved_bytes = field_int(6 * GIB),
						 .thread_id = field_int(1),
						 .instance = field_int(instance),
					 });
}

/* op NULL: the stack of the call. */
static void put_error(struct store *store, int64_t instance, const char *op)
{
	store_put_api_errors(store, &(struct row_api_errors){
					    .rank = field_int(instance - 1),
					    .start_ns = field_time(UNTIL - SCRIPT_HOUR),
					    .op = field_text(op),
					    .result = field_int(1),
					    .thread_id = field_int(1),
					    .instance = field_int(instance),
				    });
}

static void shows(void (*render)(FILE *out, const struct report *report), const struct report *report, const char *part,
	bool wanted)
{
	static char *text;
	static size_t size;
	FILE *out = open_memstream(&text, &size);

	render(out, report);
	assert_int_equal(fclose(out), 0);
	if (!strstr(text, part) == wanted)
		fail_msg("\"%s\" is%s in:\n%s", part, wanted ? " not" : "", text);
	free(text);
}

static json_t *json_of(const struct report *report)
{
	static char *text;
	static size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *root;

	render_json(out, report);
	assert_int_equal(fclose(out), 0);
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

static json_t *memory_of(const json_t *root)
{
	return json_object_get(json_object_get(root, "ranktrace"), "memory");
}

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static json_int_t number_of(const json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

static struct finding *leak(struct script *script, int32_t card, uint64_t ago_ns, double hourly, const char *place)
{
	struct finding *f = script_slow(script, FINDING_MEMORY, CAUSE_MEMORY_LEAK, 0, card, ago_ns, SCRIPT_HOUR, 0);

	finding_add(f, "memory_growth", "bytes", GIB, NAN, "cuda:0");
	finding_add(f, "memory_hourly", "bytes", hourly, NAN, NULL);
	finding_add(f, "stack", "1", 1, NAN, place);
	return f;
}

/* Rank 1 leaks, twice; rank 2 has failed requests and calls; rank 3 neither; rank 0 the largest peak. */
static void write_day(void)
{
	struct script script = script_healthy(dir, UNTIL, 1, 5);
	struct store *store;

	leak(&script, 1, 8 * SCRIPT_HOUR, 7 * 1048576.0, "old (gpt.py:1)");
	leak(&script, 1, 4 * SCRIPT_HOUR, 360 * 1048576.0, "keep (gpt.py:63)");
	assert_int_equal(script_write(&script), 0);
	store = open_day(&script);
	put_curve(store, 1, "cuda", 0, 4 * GIB);
	put_curve(store, 1, "cuda", 0, 8 * GIB);
	put_curve(store, 1, "cuda", 0, GIB);
	put_curve(store, 1, "cpu", -1, 0);
	put_curve(store, 2, "cuda", 0, 2 * GIB);
	put_curve(store, 2, "cpu", -1, GIB);
	put_curve(store, 3, "cuda", 0, 3 * GIB);
	put_curve(store, 4, "cuda", 0, GIB);
	put_failure(store, 3);
	put_failure(store, 3);
	put_error(store, 3, "cudaMemcpy");
	put_error(store, 3, NULL);
	put_error(store, 2, "cudaMemcpy");
	put_error(store, 5, "cudaMemcpy"); /* without memory */
	close_day(store);
}

static void check_row(const json_t *row, int rank, const char *device, json_int_t allocated, json_int_t reserved)
{
	assert_int_equal(number_of(row, "rank"), rank);
	assert_string_equal(text_of(row, "device"), device);
	assert_int_equal(number_of(row, "peak_allocated_bytes"), allocated);
	assert_int_equal(number_of(row, "peak_reserved_bytes"), reserved);
	assert_string_equal(text_of(row, "job"), "llama-70b");
	assert_string_equal(text_of(row, "host"), "node000");
}

TEST_WITH(failed_requests_and_leaks_come_first, report_day_setup, store_teardown)
{
	struct report *report;
	const json_t *rows;
	json_t *root;

	write_day();
	report = report_day_read(NULL);
	assert_non_null(strstr(report->headline.title, "leak")); /* not "is slow" */
	root = json_of(report);
	rows = memory_of(root);
	assert_int_equal(json_array_size(rows), 5);
	assert_int_equal(number_of(json_object_get(root, "ranktrace"), "memory_in_all"), 5);
	/* A request that failed says more than the curve, which ends before it. */
	check_row(json_array_get(rows, 0), 2, "cuda:0", 5 * GIB, 6 * GIB);
	assert_int_equal(number_of(json_array_get(rows, 0), "failed_requests"), 2);
	assert_int_equal(number_of(json_array_get(rows, 0), "failed_calls"), 1);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "leak_hourly_bytes")));
	check_row(json_array_get(rows, 1), 1, "cuda:0", 2 * GIB, 4 * GIB);
	assert_string_equal(text_of(json_array_get(rows, 1), "card"), "1");
	assert_string_equal(text_of(json_array_get(rows, 1), "leak_where"), "keep (gpt.py:63)");
	assert_int_equal(number_of(json_array_get(rows, 1), "leak_finding"), 2);
	assert_int_equal(number_of(json_array_get(rows, 1), "failed_calls"), 1);
	check_row(json_array_get(rows, 2), 0, "cuda:0", 8 * GIB, 16 * GIB);
	check_row(json_array_get(rows, 3), 1, "cpu", GIB, 2 * GIB);
	assert_int_equal(number_of(json_array_get(rows, 3), "failed_calls"), 0);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 3), "leak_finding")));
	check_row(json_array_get(rows, 4), 3, "cuda:0", GIB, 2 * GIB);
	json_decref(root);
	shows(render_text, report,
		"\nDevice memory\n"
		"  WHAT                                     DEVICE  PEAK ALLOCATED  PEAK RESERVED  FAILED REQUESTS  "
		"FAILED CALLS  LEAK\n"
		"  card 2 of node000 (rank 2 of llama-70b)  cuda:0           5 GiB          6 GiB                2  "
		"           1  -\n"
		"  card 1 of node000 (rank 1 of llama-70b)  cuda:0           2 GiB          4 GiB                0  "
		"           1  360 MiB an hour, keep (gpt.py:63)\n"
		"  card 0 of node000 (rank 0 of llama-70b)  cuda:0           8 GiB         16 GiB                0  ",
		true);
	shows(render_markdown, report, "\n## Device memory\n\n| WHAT | DEVICE | PEAK ALLOCATED |", true);
	shows(render_html, report,
		"<tr><td class=\"m strong\">card 1 of node000 (rank 1 of llama-70b)</td><td>cuda:0</td>", true);
	shows(render_html, report, "<td>360 MiB an hour, keep (gpt.py:63)</td></tr>", true);
	report_free(report);
	report = report_day_read("3");
	assert_int_equal(report->memories, 1);
	assert_int_equal(report->memory[0].rank, 3);
	report_free(report);
}

TEST_WITH(nothing_is_shown_without_memory, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct report *report;
	struct store *store;
	json_t *root;

	assert_int_equal(script_write(&script), 0);
	store = open_day(&script);
	put_error(store, 1, "cudaMemcpy");
	put_curve(store, 2, "cpu", -1, 0);
	put_curve(store, 77, "cuda", 0, GIB); /* of no rank */
	close_day(store);
	report = report_day_read(NULL);
	root = json_of(report);
	assert_int_equal(json_array_size(memory_of(root)), 0);
	json_decref(root);
	shows(render_html, report, "Device memory", false);
	shows(render_text, report, "Device memory", false);
	report_free(report);
}

/* A healthy fleet is one line of text; and a rank's processes on one device are one row. */
TEST_WITH(memory_of_a_healthy_fleet_is_on_its_page, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 2);
	struct report *report;
	struct store *store;

	assert_int_equal(script_write(&script), 0);
	store = open_day(&script);
	put_curve(store, 1, "cuda", 0, GIB);
	/* The same rank and card in another process. */
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(0),
				       .world_size = field_int(2),
				       .local_rank = field_int(0),
				       .job = field_text("llama-70b"),
				       .host = field_text("node000"),
				       .pid = field_int(4000),
				       .start_time_ns = field_time(UNTIL - 2 * SCRIPT_HOUR),
				       .card = field_text("0"),
				       .first_seen_ns = field_time(UNTIL - 2 * SCRIPT_HOUR),
				       .last_seen_ns = field_time(UNTIL - SCRIPT_HOUR),
				       .ended = field_int(1),
				       .instance = field_int(50)});
	put_curve(store, 50, "cuda", 0, 3 * GIB);
	close_day(store);
	report = report_day_read(NULL);
	assert_int_equal(report->memories, 1);
	assert_int_equal(report->memory[0].allocated_bytes, 3 * GIB);
	shows(render_text, report, "Device memory", false);
	shows(render_html, report, "<h2>Device memory</h2>", true);
	report_free(report);
}

TEST_WITH(rows_of_memory_are_bounded, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 4);
	struct report *report;
	struct store *store;

	leak(&script, 1, 4 * SCRIPT_HOUR, 360 * 1048576.0, "keep (gpt.py:63)");
	assert_int_equal(script_write(&script), 0);
	store = open_day(&script);
	/* More devices than a process has, and names of them that are none. */
	for (int64_t device = 0; device < 40; device++)
		for (int64_t instance = 1; instance <= 4; instance++)
			put_curve(store, instance, "cuda", device, GIB + device);
	put_curve(store, 4, "<script>\x1b[2J\xff and more than fits", INT64_MAX, -GIB);
	put_curve(store, 4, "<b>\x1b[2J", INT64_MAX, 9 * GIB);
	close_day(store);
	report = report_day_read(NULL);
	assert_int_equal(report->memories, 4 * 16);
	assert_int_equal(report->memories_bad, 1);
	shows(render_text, report, "  and 54 more: tracectl report --json\n", true);
	shows(render_html, report, "and 44 more: tracectl report --json", true);
	shows(render_text, report, "memory of too many devices: not all of them are in this report", true);
	report_free(report);
}

TEST_WITH(names_of_devices_are_cleaned, report_day_setup, store_teardown)
{
	struct script script = script_healthy(dir, UNTIL, 1, 1);
	struct report *report;
	struct store *store;

	leak(&script, 0, 4 * SCRIPT_HOUR, INFINITY, "<i>\x1b[2J");
	assert_int_equal(script_write(&script), 0);
	store = open_day(&script);
	put_curve(store, 1, "cuda", 0, INT64_MAX / 2);
	put_curve(store, 1, "<b>\x1b[2J", INT64_MAX, 9 * GIB);
	put_curve(store, 1, "<script>alert(1)</script>", -1, GIB);
	close_day(store);
	report = report_day_read(NULL);
	assert_int_equal(report->memories, 3);
	shows(render_text, report, "\x1b", false);
	shows(render_text, report, "  <b>?[2J ", true);
	shows(render_html, report, "<td>&lt;b&gt;?[2J</td>", true);
	shows(render_html, report, "<script", false);
	shows(render_html, report, "<i>?", false);
	json_decref(json_of(report));
	report_free(report);
}

TEST_MAIN(NULL, NULL)
