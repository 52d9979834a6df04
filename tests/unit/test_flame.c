/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of a store: read, compared with peers and with the past, and written in every format. */
#include "tests/unit/store_fixture.h"
#include "tests/unit/profile_store.h"

#include <zlib.h>

#include "analyzers/base/text.h"
#include "analyzers/flame/flame_words.h"

static void fill(void)
{
	struct store *store = open_store();

	put_profile(store, 3, SCRIPT_START_NS, NULL);
	put_profile(store, 4, SCRIPT_START_NS + INT64_C(100000) * MS, &burn);
	assert_int_equal(store_flush(store, realtime_ns()), 0); /* a close waits for 5 s */
	store_close(store);
}

struct loaded {
	struct profile *profile;
	struct flame_source source, past;
	struct profile_diff diff;
	struct flame_view view;
};

static void load(struct loaded *l, const struct flame_choice *choice, bool past)
{
	struct reader *reader = open_reader();
	struct flame_choice before = {.ranks = choice->ranks};
	char error[512] = "";
	int64_t peer = SLOW + FLAME_PAST;

	*l = (struct loaded){.profile = profile_new()};
	assert_non_null(l->profile);
	if (flame_read(reader, choice, false, l->profile, &l->source, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	before.before_ns = l->source.start_ns;
	if (past && flame_read(reader, &before, true, l->profile, &l->past, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	if (choice->peers || past)
		assert_int_equal(
			profile_compare(l->profile,
				&(struct profile_comparison){.rank = SLOW, .peers = &peer, .peers_count = past},
				&l->diff),
			0);
	l->diff.past = past;
	l->view = (struct flame_view){.profile = l->profile,
		.source = &l->source,
		.past = past ? &l->past : NULL,
		.diff = choice->peers || past ? &l->diff : NULL};
	reader_close(reader);
}

static void unload(struct loaded *l)
{
	profile_diff_free(&l->diff);
	flame_source_free(&l->source);
	flame_source_free(&l->past);
	profile_free(l->profile);
}

static const struct ranges only_slow = {.count = 1, .range = {{SLOW, SLOW}}};

TEST_WITH(test_read, store_setup, store_teardown)
{
	struct loaded l;
	char words[FLAME_WORDS_BYTES];
	struct profile_totals totals;

	fill();
	load(&l, &(struct flame_choice){.number = 0}, false);
	assert_int_equal(l.source.number, 4);
	assert_int_equal(l.source.ranks, SCRIPT_RANKS);
	assert_string_equal(l.source.rank[3].host, "node1");
	assert_string_equal(flame_words_ranks(&l.source, words), "ranks 0-3");
	assert_non_null(strstr(flame_words_counts(&l.view, words),
		", 3 refused, of a rank 12 % of stacks read within the budget, which stand for all"));
	unload(&l);
	load(&l, &(struct flame_choice){.number = 3, .ranks = only_slow}, false);
	assert_int_equal(l.source.number, 3);
	assert_int_equal(l.source.ranks, 1);
	profile_totals(l.profile, &totals);
	assert_int_equal(totals.samples, query_int("SELECT count(*) FROM samples WHERE profile = 3 AND rank = 1"));
	assert_int_equal(totals.unknown, 0);
	unload(&l);
}

TEST_WITH(test_refused, store_setup, store_teardown)
{
	static const struct {
		struct flame_choice choice;
		const char *sentence;
	} cases[] = {
		{{.number = 9}, "the store has no profile 9 of these ranks"},
		{{.ranks = {.count = 1, .range = {{7, 7}}}},
			"none of the 8 stored profiles of ranks is of these ranks, at that time"},
		{{.job = "other"},
			"none of the 8 stored profiles of ranks is of this job and these ranks, at that time"},
	};
	struct profile *profile = profile_new();
	struct flame_source source;
	struct reader *reader;
	char error[512] = "";

	store_close(open_store());
	reader = open_reader();
	assert_int_equal(
		flame_read(reader, &(struct flame_choice){.number = 0}, false, profile, &source, error, sizeof(error)),
		-ENOENT);
	assert_string_equal(error, "the store has no profile; tracectl profile takes one");
	reader_close(reader);
	fill();
	reader = open_reader();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			flame_read(reader, &cases[i].choice, false, profile, &source, error, sizeof(error)), -ENOENT);
		assert_string_equal(error, cases[i].sentence);
	}
	reader_close(reader);
	profile_free(profile);
}

TEST_WITH(test_compare, store_setup, store_teardown)
{
	char sentence[PROFILE_SENTENCE_BYTES];
	struct loaded l;

	fill();
	load(&l, &(struct flame_choice){.ranks = only_slow, .peers = true}, false);
	assert_int_equal(l.diff.peers, 3);
	assert_false(l.diff.seconds);
	assert_non_null(strstr(profile_sentence(&l.diff, sentence), "burn (<gpt>&\"x\".py:54), its peers 0"));
	unload(&l);
	/* Before the fault. */
	load(&l, &(struct flame_choice){.number = 3, .ranks = only_slow, .peers = true}, false);
	assert_string_equal(profile_sentence(&l.diff, sentence), "");
	unload(&l);
	load(&l, &(struct flame_choice){.ranks = only_slow}, true);
	assert_int_equal(l.past.number, 3);
	assert_non_null(strstr(profile_sentence(&l.diff, sentence), "burn (<gpt>&\"x\".py:54), before 0"));
	unload(&l);
}

/* What a format writes, for free(). */
static char *written(const struct flame_view *view, const char *name, size_t *ret_size)
{
	char path[PATH_MAX], *text;
	FILE *file;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/out", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(flame_format_find(name, NULL)->write(view, file), 0);
	assert_int_equal(fclose(file), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	text = calloc(1, 8U << 20);
	assert_non_null(text);
	size = fread(text, 1, (8U << 20) - 1, file);
	fclose(file);
	assert_true(size > 100);
	if (ret_size)
		*ret_size = size;
	return text;
}

TEST_WITH(test_folded, store_setup, store_teardown)
{
	struct loaded l;
	char *text;

	fill();
	load(&l, &(struct flame_choice){.ranks = only_slow}, false);
	text = written(&l.view, "folded", NULL);
	assert_non_null(strstr(
		text, "<module> (train.py:120);main (train.py:54);forward (gpt.py:40);burn (<gpt>&\"x\".py:54) "));
	free(text);
	l.view.cpu = PROFILE_OFF_CPU;
	text = written(&l.view, "folded", NULL);
	assert_null(strstr(text, "burn"));
	free(text);
	unload(&l);
}

TEST_WITH(test_speedscope, store_setup, store_teardown)
{
	struct loaded l;
	json_error_t at;
	json_t *all, *profiles, *one;
	uint64_t sum = 0;
	char *text;
	size_t i, j, frames;

	fill();
	load(&l, &(struct flame_choice){.number = 4}, false);
	text = written(&l.view, "speedscope", NULL);
	all = json_loads(text, 0, &at);
	if (!all)
		fail_msg("%s in line %d", at.text, at.line);
	frames = json_array_size(json_object_get(json_object_get(all, "shared"), "frames"));
	profiles = json_object_get(all, "profiles");
	assert_int_equal(json_array_size(profiles), 2 * SCRIPT_RANKS);
	json_array_foreach(profiles, i, one)
	{
		json_t *samples = json_object_get(one, "samples"), *weights = json_object_get(one, "weights"), *sample,
		       *number;
		json_int_t total = 0;

		assert_int_equal(json_array_size(samples), json_array_size(weights));
		json_array_foreach(weights, j, number) total += json_integer_value(number);
		assert_int_equal(total, json_integer_value(json_object_get(one, "endValue")));
		sum += (uint64_t)total;
		json_array_foreach(samples, j, sample)
		{
			size_t k;

			assert_true(json_array_size(sample) > 0);
			json_array_foreach(sample, k, number)
				assert_in_range(json_integer_value(number), 0, frames - 1);
		}
	}
	assert_int_equal(sum, query_int("SELECT sum(weight_ns) FROM samples WHERE profile = 4"));
	json_decref(all);
	free(text);
	unload(&l);
}

static uint64_t varint(const uint8_t **p)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		value |= (uint64_t)(**p & 127) << shift;
		if (!(*(*p)++ & 128))
			return value;
	}
}

/* Top-level fields of pprof's profile: how many of each, and the ns of all samples. */
TEST_WITH(test_pprof, store_setup, store_teardown)
{
	struct loaded l;
	char path[PATH_MAX];
	uint8_t *bytes = calloc(1, 8U << 20);
	const uint8_t *p = bytes, *end;
	uint64_t count[16] = {0}, sum_ns = 0;
	gzFile file;
	int size;

	assert_non_null(bytes);
	fill();
	load(&l, &(struct flame_choice){.number = 4}, false);
	free(written(&l.view, "pprof", NULL));
	snprintf(path, sizeof(path), "%s/out", dir);
	file = gzopen(path, "rb");
	assert_non_null(file);
	size = gzread(file, bytes, (8U << 20) - 1);
	gzclose(file);
	assert_true(size > 100);
	end = bytes + size;
	while (p < end) {
		uint64_t tag = varint(&p), value = varint(&p);

		assert_in_range(tag >> 3, 1, 12);
		count[tag >> 3]++;
		if ((tag & 7) == 2) {
			const uint8_t *inner = p, *inner_end = p + value;
			unsigned values = 0;

			while (tag >> 3 == 2 && inner < inner_end) {
				uint64_t field = varint(&inner), number = varint(&inner);

				if ((field & 7) == 2)
					inner += number;
				else if (field >> 3 == 2 && values++ == 1)
					sum_ns += number;
			}
			p += value;
		}
	}
	assert_int_equal(sum_ns, query_int("SELECT sum(weight_ns) FROM samples WHERE profile = 4"));
	assert_int_equal(count[1], 2);
	assert_int_equal(count[4], count[5]);
	assert_true(count[6] > 2 * count[5]);
	unload(&l);
	free(bytes);
}

TEST_WITH(test_html, store_setup, store_teardown)
{
	struct loaded l;
	char *text, *data, *data_end;
	json_error_t at;
	json_t *all;

	fill();
	load(&l, &(struct flame_choice){.ranks = only_slow, .peers = true}, false);
	text = written(&l.view, "html", NULL);
	assert_non_null(strstr(text, "rank 1 spends "));
	assert_non_null(strstr(text, "burn (&lt;gpt&gt;&amp;&quot;x&quot;.py:54), its peers 0</h1>"));
	assert_null(strstr(text, "/job/<gpt>"));
	assert_null(strstr(text, "http:"));
	assert_null(strstr(text, "https:"));
	data = strstr(text, "id=\"data\">") + strlen("id=\"data\">");
	data_end = strstr(data, "</script>");
	all = json_loadb(data, (size_t)(data_end - data), 0, &at);
	if (!all)
		fail_msg("%s in line %d", at.text, at.line);
	assert_int_equal(json_array_size(json_object_get(all, "ranks")), SCRIPT_RANKS);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(json_object_get(all, "ranks"), 0), "rank")), SLOW);
	json_decref(all);
	free(text);
	unload(&l);
}

TEST_WITH(test_diff_shown, store_setup, store_teardown)
{
	struct loaded l;
	json_t *object;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	fill();
	load(&l, &(struct flame_choice){.ranks = only_slow, .peers = true}, false);
	flame_diff_table(&l.view, out);
	fclose(out);
	assert_non_null(strstr(text, "burn (<gpt>&\"x\".py:54)"));
	assert_non_null(strstr(text, "PEERS"));
	object = flame_diff_json(&l.view);
	assert_non_null(object);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(json_object_get(object, "functions"), 0), "function")),
		"burn");
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(object, "functions"), 0), "sure")));
	json_decref(object);
	free(text);
	unload(&l);
}

TEST(test_format)
{
	assert_string_equal(flame_format_find(NULL, NULL)->name, "html");
	assert_string_equal(flame_format_find(NULL, "a.pb.gz")->name, "pprof");
	assert_string_equal(flame_format_find(NULL, ".folded")->name, "html");
	assert_string_equal(flame_format_find("folded", "a.html")->name, "folded");
	assert_null(flame_format_find("svg", "a.html"));
}

TEST_MAIN(NULL, NULL)
