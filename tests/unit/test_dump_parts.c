/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of dumps: names, words, numbers of operations, the state file, the node's address, rows to records. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/dump/dump_rows.h"
#include "analyzers/dump/dump_state.h"
#include "analyzers/dump/dump_run.h"
#include "tests/test.h"

static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/ranktrace-dump-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static void write_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

TEST(files_have_the_names_that_tools_expect)
{
	struct dump_of of = {.host = "node-7.local", .address = "10.1.2.3", .rank = 12, .pid = 345};
	char name[256];

	setenv("TZ", "UTC", 1);
	of.window_ns = 1763737200ULL * 1000000000ULL; /* 2025-11-21 15:00 */
	assert_int_equal(dump_file_name(DUMP_L0, &of, name, sizeof(name)), 0);
	assert_string_equal(name, "node-7.local--00012--345.timeline");
	assert_int_equal(dump_file_name(DUMP_L1, &of, name, sizeof(name)), 0);
	assert_string_equal(name, "hccl_activity-10.1.2.3-.12.csv");
	assert_int_equal(dump_file_name(DUMP_L2, &of, name, sizeof(name)), 0);
	assert_string_equal(name, "hbm_trace_trace_rank12_345.pb");
	assert_int_equal(dump_file_name(DUMP_L3, &of, name, sizeof(name)), 0);
	assert_string_equal(name, "os_trace_20251121_15_rank_12_345.pb");
	of.host = "../../etc/\n\xff";
	assert_int_equal(dump_file_name(DUMP_L0, &of, name, sizeof(name)), 0);
	assert_null(strchr(name, '/'));
	assert_int_not_equal(name[0], '.');
	assert_int_equal(dump_file_name(DUMP_L0, &of, name, 8), -ENAMETOOLONG);
}

TEST(words_are_those_of_systrace)
{
	char word[64];

	assert_non_null(strstr(dump_stage_name("dataloader", "enumerate(DataLoader)#x"), "dataloader"));
	assert_null(strstr(dump_stage_name("dataloader", "enumerate(DataPipe)#x"), "dataloader")); /* nested: no step */
	assert_string_equal(dump_stage_name("gc", "gc"), "GC");
	assert_string_equal(dump_stage_name("sync", "cudaStreamSynchronize"), "cudaStreamSynchronize");
	assert_string_equal(dump_stage_name("sync", NULL), "sync");
	assert_string_equal(dump_stage_name("my stage", "my stage"), "my stage");
	assert_string_equal(dump_stage_name(NULL, NULL), "unknown");
	assert_int_equal(dump_stage_class("dataloader"), 1);
	assert_int_equal(dump_stage_class("gc"), 5);
	assert_int_equal(dump_stage_class("optimizer"), 0);
	assert_int_equal(dump_stage_class(NULL), 0);
	dump_op_name("AllReduce", word, sizeof(word));
	assert_string_equal(word, "HcclAllreduce");
	dump_op_name("AllGather", word, sizeof(word));
	assert_string_equal(word, "HcclAllGather");
	dump_op_name("Recv", word, sizeof(word));
	assert_string_equal(word, "HcclReceive");
	dump_op_name("a!b,c\n", word, sizeof(word));
	assert_string_equal(word, "Hccla_b_c_");
}

/* Which functions take and which give back: the probe tables say it, and so must the dump. */
TEST(releases_are_those_of_the_probe_tables)
{
	DIR *d = opendir(SOURCE_DIR "/bpf/probes.d");
	struct dirent *entry;
	unsigned seen = 0;

	assert_non_null(d);
	while ((entry = readdir(d))) {
		char path[PATH_MAX], line[512], probe[128] = "", event[32], usual[32] = "", op[128];
		bool defaults = false;
		FILE *f;

		if (!strstr(entry->d_name, "_memory.conf"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR "/bpf/probes.d", entry->d_name);
		f = fopen(path, "re");
		assert_non_null(f);
		event[0] = 0;
		while (fgets(line, sizeof(line), f)) {
			if (strncmp(line, "[defaults]", strlen("[defaults]")) == 0) {
				defaults = true;
				usual[0] = event[0] = 0;
			}
			if (sscanf(line, "[probe \"%127[^\"]\"]", probe) == 1) {
				defaults = false;
				memcpy(event, usual, sizeof(event));
			}
			(void)sscanf(line, "event = %31s", defaults ? usual : event);
			if (sscanf(line, "op = %127s", op) == 1)
				(void)snprintf(probe, sizeof(probe), "%s", op);
			if (line[0] != '\n' || !event[0])
				continue;
			if (dump_is_release(probe) != (strcmp(event, "free") == 0))
				fail_msg("%s: %s is %s", entry->d_name, probe, event);
			seen++;
			event[0] = 0;
		}
		fclose(f);
	}
	closedir(d);
	assert_true(seen > 20);
}

TEST(texts_become_utf8)
{
	char text[16];

	dump_utf8("a\xffz\xc3\xa9", text, sizeof(text));
	assert_string_equal(text, "a?z\xc3\xa9");
	dump_utf8("123456789012345\xc3\xa9", text, sizeof(text)); /* cut before, not within */
	assert_string_equal(text, "123456789012345");
	dump_utf8("12345678901234\xc3\xa9", text, sizeof(text));
	assert_string_equal(text, "12345678901234");
	dump_utf8(NULL, text, sizeof(text));
	assert_string_equal(text, "");
}

TEST(operations_have_one_number_on_all_ranks)
{
	struct dump_ids *ids = dump_ids_new(7);
	struct dump_op_key a = {"c", "AllReduce", 1, -1, true}, b = {"c", "AllReduce", 2, -1, true},
			   lone = {NULL, "AllReduce", 1, -1, false};
	uint64_t first, last = 0;

	assert_non_null(ids);
	first = dump_ids_of(ids, &a, 1);
	assert_int_equal(first, 7);
	assert_int_equal(dump_ids_of(ids, &b, 1), 8);
	assert_int_equal(dump_ids_of(ids, &a, 2), 7);
	assert_int_equal(dump_ids_of(ids, &a, 1), 9); /* the same rank again: another operation */
	assert_int_equal(dump_ids_of(ids, &lone, 1), 10);
	assert_int_equal(dump_ids_of(ids, &lone, 2), 11);
	/* More than are remembered: numbers go on rising, and are never given twice to one member. */
	for (int64_t seq = 3; seq < 3 * DUMP_IDS_MAX; seq++) {
		struct dump_op_key key = {"c", "AllReduce", seq, -1, true};
		uint64_t id = dump_ids_of(ids, &key, 1);

		assert_true(id > last);
		last = id;
		assert_int_equal(dump_ids_of(ids, &key, 3), id);
	}
	assert_int_equal(dump_ids_next(ids), last + 1);
	dump_ids_free(ids);
}

TEST_WITH(state_survives_and_damage_is_passed_over, setup, teardown)
{
	struct dump_state saved = {.run = 3, .next_id = 99, .kept_files = 4, .kept_bytes = 5}, loaded;

	assert_int_equal(dump_state_load(dir, &loaded), 0);
	assert_int_equal(loaded.run, 0);
	assert_int_equal(loaded.next_id, 1);
	saved.level[DUMP_L1] = (struct dump_level_state){7, 8, 9, 10, {11, 12, 13, 14}};
	snprintf(saved.reason, sizeof(saved.reason), "little is left");
	assert_int_equal(dump_delay_add(&saved, 2, 5, 10), 10);
	assert_int_equal(dump_delay_add(&saved, 1, 9, 1), 1);
	assert_int_equal(dump_delay_add(&saved, 2, 5, 10), 20);
	for (int64_t i = 0; i < 1000; i++)
		assert_int_equal(dump_delay_add(&saved, 3, (i * 7919) % 1000, 1), 1);
	assert_int_equal(saved.delays, 1002);
	assert_int_equal(dump_state_save(dir, &saved), 0);
	assert_int_equal(dump_state_load(dir, &loaded), 0);
	assert_int_equal(loaded.run, 3);
	assert_int_equal(loaded.next_id, 99);
	assert_int_equal(loaded.kept_bytes, 5);
	assert_string_equal(loaded.reason, "little is left");
	assert_memory_equal(&loaded.level[DUMP_L1], &saved.level[DUMP_L1], sizeof(saved.level[0]));
	assert_int_equal(loaded.delays, 1002);
	assert_memory_equal(loaded.delay, saved.delay, 1002 * sizeof(*saved.delay));
	dump_state_clear(&loaded);
	assert_int_equal(dump_state_load_summary(dir, &loaded), 0);
	assert_int_equal(loaded.delays, 0);
	assert_int_equal(loaded.level[DUMP_L1].wrote.rows, 13);
	dump_state_clear(&saved);
	write_file("state", "run\nrun x\nplace L9 1 2 3\nplace L1\nplace\nwrote L2 9\n\xff\xff\nid "
			    "99999999999999999999999\nrun 4\ndelay 1 2\n");
	assert_int_equal(dump_state_load(dir, &loaded), 0);
	assert_int_equal(loaded.run, 4);
	assert_int_equal(loaded.delays, 0);
	dump_state_clear(&loaded);
}

TEST_WITH(the_address_is_that_of_the_default_route, setup, teardown)
{
	char address[NODE_ADDRESS_BYTES];

	node_address(dir, address);
	assert_string_equal(address, "127.0.0.1");
	write_file("fib_trie",
		"Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 172.17.0.1\n"
		"        /32 host LOCAL\n     |-- 192.168.4.9\n        /32 host LOCAL\n     |-- 192.168.4.255\n"
		"        /32 link BROADCAST\n");
	node_address(dir, address);
	assert_string_equal(address, "172.17.0.1");
	write_file("route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
			    "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
			    "eth0\t00000000\t0104A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
			    "eth0\t0004A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\nrubbish\n");
	node_address(dir, address);
	assert_string_equal(address, "192.168.4.9");
}

TEST(operations_are_lines_of_csv)
{
	struct dump_op op = {.id = 5,
		.communicator = "ab,cd",
		.op = "AllGather",
		.dtype = "float32",
		.count = 10,
		.host_start_ns = 100,
		.host_duration_ns = 20,
		.device_start_ns = DUMP_UNKNOWN,
		.device_duration_ns = DUMP_UNKNOWN,
		.pid = 1,
		.thread_id = 2,
		.device = 3};
	char text[DUMP_RECORD_BYTES + 1];

	text[dump_encode_op(&op, (uint8_t *)text)] = 0;
	assert_string_equal(text, "2,5,1,comm:HcclAllGather!ab_cd!float32!10,0,100,1,2,1,2\n4,5,1,,0,120,1,2,1,2\n");
	op.device_start_ns = 110;
	op.device_duration_ns = 5;
	text[dump_encode_op(&op, (uint8_t *)text)] = 0;
	assert_string_equal(text, "16,5,1,comm:HcclAllGather!ab_cd!float32!10,0,100,1,2,1,2\n32,5,1,,0,120,1,2,1,2\n"
				  "16,5,1,comm:HcclAllGather!ab_cd!float32!10,1,110,3,0,3,0\n32,5,1,,1,115,3,0,3,0\n");
	op = (struct dump_op){.id = 6,
		.count = DUMP_UNKNOWN,
		.host_start_ns = INT64_MAX,
		.host_duration_ns = INT64_MAX,
		.device_start_ns = DUMP_UNKNOWN};
	text[dump_encode_op(&op, (uint8_t *)text)] = 0; /* an end that no number can hold is not known */
	assert_string_equal(text, "2,6,1,comm:HcclUnknown!unknown!unknown!0,0,9223372036854775807,0,0,0,0\n");
}

TEST(frames_are_innermost_first)
{
	struct dump_frame frame[DUMP_FRAMES_MAX];
	char text[40 * 64] = "";

	assert_int_equal(dump_frames("python <module> (/job/gpt.py:9)\npython burn (/job/gpt.py:54)\nnative "
				     "at::_ops::add::call(at::Tensor const&) (/usr/lib/libtorch_cpu.so)\nnative "
				     "operator/ (/usr/lib/libx.so)\n"
				     "native /usr/lib/libffi.so.8+0x6f7a",
				 frame),
		5);
	assert_string_equal(frame[0].library, "libffi.so.8");
	assert_int_equal(frame[0].address, 0x6f7a);
	assert_string_equal(frame[1].library, "operator| (libx.so)");
	assert_string_equal(frame[2].library, "at::_ops::add::call (libtorch_cpu.so)");
	assert_string_equal(frame[3].library, "burn (gpt.py:54)");
	assert_string_equal(frame[4].library, "<module> (gpt.py:9)");
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(frame[i].address, 0);
	/* More than the format has: the innermost ones. */
	for (unsigned i = 0; i < 40; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%spython f%u (/job/gpt.py:1)",
			i ? "\n" : "", i);
	assert_int_equal(dump_frames(text, frame), DUMP_FRAMES_MAX);
	assert_string_equal(frame[0].library, "f39 (gpt.py:1)");
	assert_string_equal(frame[31].library, "f8 (gpt.py:1)");
	assert_int_equal(dump_frames("", frame), 0);
	assert_int_equal(dump_frames("\nrubbish\n", frame), 0);
}

/* 32 frames of the longest texts. */
TEST(hostile_frames_fit_a_record)
{
	char text[DUMP_FRAMES_MAX * 1024] = "";
	uint8_t record[DUMP_RECORD_BYTES];
	struct dump_memory memory = {"cudaMalloc", "forward", -1, INT64_MAX, INT64_MAX, text};

	for (unsigned i = 0; i < DUMP_FRAMES_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%snative %0500d (/lib/%0300d.so)",
			i ? "\n" : "", 1, 2);
	assert_in_range(dump_encode_memory(&memory, record), DUMP_FRAMES_MAX * 100, DUMP_RECORD_BYTES);
}

TEST(long_and_hostile_texts_fit_a_record)
{
	char text[4 * DUMP_RECORD_BYTES];
	uint8_t record[DUMP_RECORD_BYTES];

	memset(text, 0xc3, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (unsigned i = 0; i < 2; i++) {
		const struct dump_stage stage = {DUMP_UNKNOWN, text, text, INT64_MAX, INT64_MAX};
		const struct dump_op op = {
			.communicator = text, .op = text, .dtype = text, .host_start_ns = -5, .host_duration_ns = -1};
		const struct dump_offcpu offcpu = {-1, -1, INT64_MIN, INT64_MIN, INT64_MAX, UINT64_MAX, text, text};
		size_t sizes[] = {dump_encode_stage(&stage, record), dump_encode_op(&op, record),
			dump_encode_offcpu(&offcpu, record), dump_encode_timeline_head(INT64_MAX, text, record)};

		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
			assert_in_range(sizes[j], 1, DUMP_RECORD_BYTES);
		memset(text, '!', sizeof(text) - 1);
	}
}

TEST_MAIN(NULL, NULL)
