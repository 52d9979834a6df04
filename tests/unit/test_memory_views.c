/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl memory: what its views make of a store, in text and as JSON. */
#include <math.h>
#include <unistd.h>

#include "analyzers/cli/memory_read.h"
#include "tests/unit/store_fixture.h"

#define GIB ((double)(1UL << 30))
#define MIB ((double)(1UL << 20))
#define INSTANCE 7
#define PID 4711
#define SECONDS 100 /* of a curve */

static struct store *store;
static uint64_t base_ns; /* the curves begin here */

static int setup(void **state)
{
	if (store_setup(state) < 0)
		return -1;
	store = open_store();
	base_ns = realtime_ns() / NSEC_PER_SEC * NSEC_PER_SEC - 600 * NSEC_PER_SEC;
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(0),
				       .host = field_text("node7"),
				       .job = field_text("llama"),
				       .pid = field_int(PID),
				       .first_seen_ns = field_time(base_ns),
				       .ended = field_int(0),
				       .card_uuid = field_text("GPU-1"),
				       .instance = field_int(INSTANCE)});
	return 0;
}

static int teardown(void **state)
{
	store_close(store);
	return store_teardown(state);
}

static uint64_t at(double seconds)
{
	return base_ns + (uint64_t)(seconds * 1e9);
}

/* A second of a device of the kind cuda, or with device -1 of cpu. */
static void put_curve(double second, int64_t device, double low, double high, double reserved)
{
	store_put_memory_curve(store, &(struct row_memory_curve){.rank = field_int(0),
					      .start_ns = field_time(at(second)),
					      .step = field_int(1),
					      .kind = field_text(device < 0 ? "cpu" : "cuda"),
					      .device = field_int_if(device >= 0, device),
					      .allocated_bytes = field_int((int64_t)low),
					      .allocated_min_bytes = field_int((int64_t)low),
					      .allocated_max_bytes = field_int((int64_t)high),
					      .reserved_bytes = field_int((int64_t)reserved),
					      .reserved_max_bytes = field_int((int64_t)reserved),
					      .before_bytes = field_int(0),
					      .allocs = field_int(1),
					      .frees = field_int(1),
					      .alloc_bytes = field_int(1),
					      .seen_ns = field_duration_if(false, 0),
					      .instance = field_int(INSTANCE)});
}

static void put_gauge(double second, const char *object, const char *name, double value)
{
	store_put_gauges(store, &(struct row_gauges){.start_ns = field_time(at(second)),
					.duration_ns = field_duration(NSEC_PER_SEC),
					.source = field_text("nvml"),
					.object = field_text(object),
					.name = field_text(name),
					.value = field_real(value),
					.least = field_real_if(false, 0),
					.most = field_real_if(false, 0),
					.unit = field_text("bytes")});
}

/* own 0: the driver gives no figure. */
static void put_card(double second, double used, double own)
{
	put_gauge(second, "GPU-1", "memory_total", 80 * GIB);
	put_gauge(second, "GPU-1", "memory_used", used);
	put_gauge(second, "GPU-1", "memory_free", 80 * GIB - used);
	if (own > 0)
		put_gauge(second, "GPU-1/4711 python", "process_memory", own);
}

/* others: -1: not known. */
static void put_failure(double second, double bytes, double others)
{
	store_put_memory_failures(store, &(struct row_memory_failures){.rank = field_int(0),
						 .start_ns = field_time(at(second)),
						 .step = field_int_if(false, 0),
						 .stage = field_text(NULL),
						 .kind = field_text("cuda"),
						 .device = field_int(0),
						 .bytes = field_int((int64_t)bytes),
						 .allocated_bytes = field_int((int64_t)(10 * GIB)),
						 .reserved_bytes = field_int((int64_t)(11 * GIB)),
						 .card_bytes = field_int((int64_t)(80 * GIB)),
						 .card_free_bytes = field_int((int64_t)(50 * GIB)),
						 .others_bytes = field_int_if(others >= 0, (int64_t)others),
						 .stack = field_int_if(false, 0),
						 .thread_id = field_int(PID),
						 .instance = field_int(INSTANCE)});
}

static void put_call(double second, const char *op, double bytes, double seconds)
{
	store_put_allocations(store, &(struct row_allocations){.rank = field_int(0),
					     .step = field_int((int64_t)second + 1),
					     .stage = field_text(NULL),
					     .op = field_text(op),
					     .address = field_int(4096),
					     .bytes = field_int((int64_t)bytes),
					     .result = field_int(0),
					     .start_ns = field_time(at(second)),
					     .duration_ns = field_duration((uint64_t)(seconds * 1e9)),
					     .device = field_int_if(false, 0),
					     .stack = field_int_if(false, 0),
					     .thread_id = field_int(PID),
					     .instance = field_int(INSTANCE)});
}

static void put_stack(int64_t id, const char *frames)
{
	store_put_call_stacks(store,
		&(struct row_call_stacks){.id = field_int(id), .frames = field_text(frames), .cut = field_int(0)});
}

/* op NULL: the row of a stack. */
static void put_error(double second, const char *op, int64_t step, int64_t stack)
{
	store_put_api_errors(store, &(struct row_api_errors){.rank = field_int(0),
					    .start_ns = field_time(at(second)),
					    .step = field_int_if(step >= 0, step),
					    .op = field_text(op),
					    .bytes = field_int_if(false, 0),
					    .result = field_int_if(op != NULL, 700),
					    .stack = field_int_if(stack > 0, stack),
					    .thread_id = field_int(PID),
					    .instance = field_int(INSTANCE)});
}

static void put_segment(double second, double bytes)
{
	store_put_memory_segments(store, &(struct row_memory_segments){.rank = field_int(0),
						 .start_ns = field_time(at(second)),
						 .kind = field_text("cuda"),
						 .device = field_int(0),
						 .address = field_int(1 << 30),
						 .bytes = field_int((int64_t)bytes),
						 .used_bytes = field_int((int64_t)bytes),
						 .gap_bytes = field_int(0),
						 .blocks = field_int(1),
						 .expandable = field_int(0),
						 .instance = field_int(INSTANCE)});
}

typedef int (*view_run)(struct cmd_memory *cmd);

static int run_view(view_run view, bool json, json_t **ret)
{
	struct cmd_memory cmd = {.json = json, .since_ns = base_ns, .list = json_array()};
	int r;

	cmd.pool = calloc(MEMORY_POOLS_MAX, sizeof(*cmd.pool));
	cmd.reader = open_reader();
	assert_true(cmd.pool && cmd.list);
	r = cmd_memory_read_curves(&cmd);
	if (r == 0)
		r = cmd_memory_read_cards(&cmd);
	if (r == 0)
		r = view(&cmd);
	for (size_t i = 0; i < cmd.pools; i++)
		free(cmd.pool[i].place);
	free(cmd.pool);
	reader_close(cmd.reader);
	*ret = cmd.list;
	return r;
}

/* Released by the caller. */
static json_t *json_of(view_run view)
{
	json_t *list;

	assert_int_equal(store_flush(store, realtime_ns()), 0);
	assert_int_equal(run_view(view, true, &list), 0);
	return list;
}

static char text[8192];

static const char *text_of(view_run view)
{
	FILE *out = tmpfile();
	int saved = dup(STDOUT_FILENO), r;
	json_t *list;

	assert_int_equal(store_flush(store, realtime_ns()), 0);
	fflush(NULL);
	assert_true(out && saved >= 0 && dup2(fileno(out), STDOUT_FILENO) >= 0);
	r = run_view(view, false, &list);
	fflush(NULL);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(out);
	text[fread(text, 1, sizeof(text) - 1, out)] = 0;
	fclose(out);
	json_decref(list);
	assert_int_equal(r, 0);
	fputs(text, stdout);
	return text;
}

static double number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

#define assert_null_at(object, key) assert_true(json_is_null(json_object_get(object, key)))
#define assert_has(where, part) \
	do { \
		if (!strstr(where, part)) \
			fail_msg("\"%s\" is not in: %s", part, where); \
	} while (0)

/* 10 MiB a second are kept; a step needs 26 GiB beside, and a phase at the begin needed 9 GiB more. */
TEST_WITH(what_a_step_needs_is_not_free, setup, teardown)
{
	json_t *list;

	for (unsigned i = 0; i < SECONDS; i++)
		put_curve(i, 0, 4 * GIB + i * 10 * MIB, (i < 20 ? 39 : 30) * GIB + i * 10 * MIB, 40 * GIB);
	put_card(SECONDS - 10, 70 * GIB, 70 * GIB);
	list = json_of(cmd_memory_leaks);
	assert_int_equal(json_array_size(list), 1);
	/* Free: 10 GiB of the card, and 40 - 31 GiB of the allocator's. */
	assert_float_equal(number_of(json_array_get(list, 0), "runs_out_s"),
		(20 * GIB - (SECONDS - 1) * 10 * MIB) / (10 * MIB), 1);
	json_decref(list);
	assert_has(text_of(cmd_memory_leaks), "10.0 GiB of the card's 80.0 GiB are free");
	assert_has(text, "1 of 1 devices of processes leak");
}

TEST_WITH(what_cannot_be_judged_has_its_reason, setup, teardown)
{
	put_curve(0, 0, GIB, GIB, GIB);
	assert_has(text_of(cmd_memory_leaks),
		"1 cannot be judged: a trend takes 32 seconds, or windows of reports, with changes\n");
}

TEST_WITH(a_process_without_reports_has_no_trend, setup, teardown)
{
	put_call(0, "cudaMalloc", MIB, 0.001);
	text_of(cmd_memory_leaks);
	assert_has(text, "1 cannot be judged: calls of the driver alone are known");
	assert_null(strstr(text, "32 seconds"));
}

TEST_WITH(the_card_is_in_the_head_of_a_pool, setup, teardown)
{
	json_t *list;

	put_curve(0, 0, GIB, GIB, GIB);
	put_curve(0, -1, GIB, GIB, 0);
	put_card(0, 30 * GIB, 10 * GIB);
	list = json_of(cmd_memory_live);
	assert_int_equal(json_array_size(list), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *pool = json_array_get(list, i);

		if (!strcmp(json_string_value(json_object_get(pool, "kind")), "cpu")) {
			assert_null_at(pool, "card_bytes");
			continue;
		}
		assert_float_equal(number_of(pool, "card_bytes"), 80 * GIB, 1);
		assert_float_equal(number_of(pool, "card_free_bytes"), 50 * GIB, 1);
		assert_float_equal(number_of(pool, "others_bytes"), 20 * GIB, 1);
	}
	json_decref(list);
	assert_has(text_of(cmd_memory_live), "  card: 50.0 GiB of 80.0 GiB free, 20.0 GiB held by other processes\n");
}

TEST_WITH(which_of_several_cards_a_device_is_is_not_known, setup, teardown)
{
	json_t *list;

	put_curve(0, 0, GIB, GIB, GIB);
	put_curve(0, 1, GIB, GIB, GIB);
	put_card(0, 30 * GIB, 10 * GIB);
	list = json_of(cmd_memory_live);
	assert_int_equal(json_array_size(list), 2);
	assert_null_at(json_array_get(list, 0), "card_bytes");
	assert_null_at(json_array_get(list, 1), "card_bytes");
	json_decref(list);
	assert_null(strstr(text_of(cmd_memory_live), "card:"));
}

/* After the request failed, memory leaks, and a neighbour takes most of the card. */
TEST_WITH(a_failed_request_is_judged_as_of_its_time, setup, teardown)
{
	json_t *list;
	const json_t *failure;

	for (unsigned i = 0; i < 2 * SECONDS; i++)
		put_curve(i, 0, 10 * GIB + (i > SECONDS ? (i - SECONDS) * GIB : 0), 200 * GIB, 11 * GIB);
	put_failure(SECONDS, 60 * GIB, 7 * GIB);
	put_card(SECONDS + 10, 75 * GIB, 5 * GIB);
	list = json_of(cmd_memory_oom);
	failure = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(failure, "cause")), "capacity");
	assert_float_equal(number_of(failure, "card_free_bytes"), 50 * GIB, 1);
	assert_float_equal(number_of(failure, "others_bytes"), 7 * GIB, 1);
	assert_null_at(failure, "step");
	json_decref(list);
	assert_has(text_of(cmd_memory_oom),
		"the card has 80.0 GiB, other processes hold 7.0 GiB of it, 50.0 GiB are free");
	assert_null(strstr(text, ", step "));
}

TEST_WITH(a_leak_until_it_failed_is_its_cause, setup, teardown)
{
	json_t *list;

	for (unsigned i = 0; i < 2 * SECONDS; i++)
		put_curve(i, 0, i < SECONDS ? 5 * GIB + i * 50 * MIB : GIB, 11 * GIB, 11 * GIB);
	put_failure(SECONDS, 60 * GIB, -1);
	list = json_of(cmd_memory_oom);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "cause")), "leak");
	assert_null_at(json_array_get(list, 0), "others_bytes");
	json_decref(list);
	assert_has(text_of(cmd_memory_oom), "the card has 80.0 GiB, 50.0 GiB are free");
}

/* Two lines wait; each call fails once an error lasts. The row of a stack is up to 5 us off. */
TEST_WITH(calls_that_fail_are_shown_by_line_and_first_call, setup, teardown)
{
	static const char *const places[] = {"loss (a.py:3)", "load (b.py:9)"};
	json_t *list;

	put_stack(1, "python main (/job/a.py:1)\npython loss (/job/a.py:3)");
	put_stack(2, "python main (/job/a.py:1)\npython load (/job/b.py:9)");
	for (unsigned i = 0; i < 6; i++) {
		put_error(10 + i, "cudaStreamSynchronize", 5 + i, 0);
		put_error(10 + i + (i % 2 ? 4e-6 : -4e-6), NULL, -1, 1 + i % 2);
	}
	/* Its stack was not read, and it is of no step. */
	put_error(20, "cudaDeviceSynchronize", -1, 0);
	list = json_of(cmd_memory_errors);
	assert_int_equal(json_array_size(list), 3);
	for (unsigned i = 0; i < 2; i++) {
		const json_t *call = json_array_get(list, i);

		assert_string_equal(json_string_value(json_object_get(call, "where")), places[i]);
		assert_int_equal(json_integer_value(json_object_get(call, "step")), 5 + i);
		assert_int_equal(json_integer_value(json_object_get(call, "time_ns")), at(10 + i));
		assert_int_equal(json_integer_value(json_object_get(call, "count")), 3);
		assert_null_at(call, "bytes");
	}
	assert_null_at(json_array_get(list, 2), "step");
	json_decref(list);
	assert_has(text_of(cmd_memory_errors), ", step 5: loss (a.py:3): cudaStreamSynchronize returned "
					       "cudaErrorIllegalAddress (700), the first of 3 times\n");
	assert_has(text, ": cudaDeviceSynchronize returned");
	assert_null(strstr(text, "step 0"));
}

static const char *advice_of(json_t **list)
{
	*list = json_of(cmd_memory_fragmentation);
	assert_int_equal(json_array_size(*list), 1);
	return json_string_value(json_object_get(json_array_get(*list, 0), "advice"));
}

TEST_WITH(segments_from_before_are_no_good_news, setup, teardown)
{
	json_t *list;

	put_curve(0, 0, 10 * GIB, 20 * GIB, 40 * GIB);
	assert_has(text_of(cmd_memory_fragmentation), "  advice    not known: L2 was off when");
	/* A small part of them is known, then most. */
	put_curve(1, 0, 10 * GIB, 20 * GIB, 40 * GIB);
	put_segment(1, 10 * GIB);
	assert_has(advice_of(&list), "not known");
	json_decref(list);
	put_segment(2, 30 * GIB);
	assert_string_equal(advice_of(&list), "");
	json_decref(list);
}

TEST_WITH(what_the_peak_needs_is_not_in_pieces, setup, teardown)
{
	put_curve(0, 0, 10 * GIB, 39 * GIB, 40 * GIB);
	assert_has(text_of(cmd_memory_fragmentation), "  advice    none\n");
}

static double calls_share(json_t **list)
{
	*list = json_of(cmd_memory_fragmentation);
	return number_of(json_array_get(*list, 0), "calls_share");
}

TEST_WITH(calls_of_a_pool_that_fills_cost_nothing, setup, teardown)
{
	json_t *list;

	put_curve(0, 0, GIB, 39 * GIB, 40 * GIB);
	for (unsigned i = 0; i < SECONDS / 2; i++)
		put_call(i, "cudaMalloc", 100 * MIB, 0.1);
	put_curve(SECONDS, 0, GIB, 39 * GIB, 40 * GIB);
	/* At its end, all is given back. */
	put_call(SECONDS - 1, "cudaFree", SECONDS / 2 * 100 * MIB, 0.1);
	assert_true(calls_share(&list) < 0.01);
	assert_true(number_of(json_array_get(list, 0), "calls") > SECONDS / 4);
	json_decref(list);
}

TEST_WITH(calls_that_take_again_what_was_given_back_cost, setup, teardown)
{
	json_t *list;

	put_curve(0, 0, GIB, 39 * GIB, 40 * GIB);
	for (unsigned i = 0; i < SECONDS; i++) {
		put_call(i, "cudaMalloc", 100 * MIB, 0.03);
		put_call(i + 0.5, "cudaFree", 100 * MIB, 0.02);
		put_call(i + 0.7, "cudaFreeHost", 100 * MIB, 0.2);
	}
	put_curve(SECONDS, 0, GIB, 39 * GIB, 40 * GIB);
	assert_float_equal(calls_share(&list), 0.05, 0.002);
	json_decref(list);
	assert_has(text_of(cmd_memory_fragmentation), "to give it back and take it again has 4.9 % of the time\n");
}

static char page[PATH_MAX];

static int draw_map(struct cmd_memory *cmd)
{
	return cmd_memory_map(cmd, page);
}

/* Lines of the page with this text. */
static unsigned page_lines(const char *word)
{
	char command[2 * PATH_MAX], line[32] = "";
	FILE *out;

	snprintf(command, sizeof(command), "grep -o '%s' '%s' | wc -l", word, page);
	out = popen(command, "r");
	assert_non_null(out);
	assert_non_null(fgets(line, sizeof(line), out));
	pclose(out);
	return (unsigned)strtoul(line, NULL, 10);
}

TEST_WITH(a_map_without_its_oldest_snapshots_says_so, setup, teardown)
{
	snprintf(page, sizeof(page), "%s/map.html", dir);
	put_curve(0, 0, GIB, GIB, GIB);
	for (unsigned i = 0; i < 240; i++)
		put_segment(i, GIB);
	json_decref(json_of(draw_map));
	assert_int_equal(page_lines("\"segments\":"), 240);
	assert_int_equal(page_lines("older ones are left out"), 0);
	put_segment(240, GIB);
	json_decref(json_of(draw_map));
	assert_int_equal(page_lines("\"segments\":"), 240);
	assert_int_equal(page_lines("older ones are left out"), 1);
}

TEST_MAIN(NULL, NULL)
