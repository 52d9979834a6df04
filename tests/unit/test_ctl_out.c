/* SPDX-License-Identifier: Apache-2.0 */
/* Times and messages as tracectl shows them. */
#include "ctl/out.h"

#include "tests/test.h"

TEST(test_for)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, ""}, {999, ""}, {1000, " for 1 us"}, {1250000000, " for 1.25 s"}, {UINT64_MAX, NULL}};
	char buffer[UNITS_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text = out_for(cases[i].ns, buffer);

		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
	}
}

/* Every word of every row is a field of its message: out_message() ends the program where one is none. */
static void walk(const ProtobufCMessageDescriptor *of, unsigned depth, unsigned *rows)
{
	void *message = malloc(of->sizeof_message);
	json_t *json;

	assert_non_null(message);
	of->message_init(message);
	json = out_message(message);
	*rows += json_object_size(json) > 0;
	json_decref(json);
	free(message);
	for (unsigned i = 0; i < of->n_fields && depth < 6; i++)
		if (of->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			walk(of->fields[i].descriptor, depth + 1, rows);
}

TEST(test_rows)
{
	unsigned rows = 0;

	walk(&ranktrace__response__descriptor, 0, &rows);
	assert_true(rows >= 28);
}

static void assert_shown(const void *message, const char *expected)
{
	json_t *json = out_message(message);
	char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6) | JSON_ENCODE_ANY);

	assert_string_equal(text, expected);
	free(text);
	json_decref(json);
}

/* Kinds of fields and what is shown as null. */
TEST(test_messages)
{
	Ranktrace__DeviceClock clock = RANKTRACE__DEVICE_CLOCK__INIT;
	Ranktrace__OpsMember member = RANKTRACE__OPS_MEMBER__INIT;
	Ranktrace__CheckItem item = RANKTRACE__CHECK_ITEM__INIT;
	Ranktrace__Collector collector = RANKTRACE__COLLECTOR__INIT;
	Ranktrace__Store store = RANKTRACE__STORE__INIT;
	Ranktrace__StoreDrop drop = RANKTRACE__STORE_DROP__INIT, *drops[] = {&drop, &drop};
	uint64_t probes[] = {UINT32_MAX + 1ULL, 2};
	char *levels[] = {(char[]){"L0"}, (char[]){"L1"}};

	clock.rank = -1;
	clock.device = -1;
	clock.offset_ns = -5;
	clock.offset_max_ns = -7;
	clock.offset_max_known = true;
	clock.drift_ppm = -0.5;
	assert_shown(&clock,
		"{\"rank\":-1,\"pid\":0,\"job\":\"\",\"card\":null,\"device\":null,\"offset_ns\":-5,\"offset_min_ns\":"
		"null,"
		"\"offset_max_ns\":-7,\"drift_ppm\":-0.5,\"drift_min_ppm\":0.0,\"drift_max_ppm\":0.0,\"steps\":0,"
		"\"drift_changes\":0,\"bounds\":0,\"ago_ns\":0}");
	member.address = 0xffffffff00000000;
	member.differs = true;
	assert_shown(&member,
		"{\"rank\":0,\"pid\":0,\"member\":0,\"entered\":null,\"completed\":null,\"completion_known\":false,"
		"\"in_call_ns\":null,\"seq_from\":\"\",\"missing\":false,\"differs\":true,\"behind\":0,"
		"\"ended_ago_ns\":null,\"address\":\"0xffffffff00000000\"}");
	item.verdict = RANKTRACE__VERDICT__VERDICT_LIMITED;
	assert_shown(&item, "{\"topic\":\"\",\"verdict\":\"limited\",\"sentence\":\"\",\"advice\":\"\"}");
	item.verdict = (Ranktrace__Verdict)77;
	assert_shown(&item, "{\"topic\":\"\",\"verdict\":\"unknown\",\"sentence\":\"\",\"advice\":\"\"}");
	collector.n_levels = collector.n_level_probes = 2;
	collector.levels = levels;
	collector.level_probes = probes;
	assert_shown(&collector, "{\"name\":\"\",\"summary\":\"\",\"levels\":[\"L0\",\"L1\"],\"probes_attached\":0,"
				 "\"level_probes\":[4294967296,2],\"attaching\":false,\"libraries\":0,\"events\":0,"
				 "\"drops\":0,\"notes\":[],"
				 "\"notes_left_out\":0}");
	drop.table = (char[]){"steps"};
	store.n_drops = 2;
	store.drops = drops;
	assert_shown(&store,
		"{\"path\":\"\",\"segments\":0,\"size_bytes\":0,\"oldest_ns\":0,\"newest_ns\":0,\"rows\":0,"
		"\"rows_dropped\":0,\"rows_pending\":0,\"segments_removed\":0,\"segments_corrupt\":0,\"reason\":null,"
		"\"drops\":[{\"table\":\"steps\",\"reason\":\"\",\"rows\":0},{\"table\":\"steps\",\"reason\":\"\","
		"\"rows\":0}]}");
	assert_shown(NULL, "null");
}

TEST_MAIN(NULL, NULL)
