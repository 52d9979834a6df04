/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store with profiles, for the programs that draw them: make_profile_store FOLDER SECONDS. Before that time (seconds
 * since the epoch): profile 1 without a fault, profile 2 with a rank that burns, profile 3 with 10,000 different
 * stacks, some of 200 frames.
 */
#include "tests/unit/profile_store.h"

#include <sys/stat.h>

#define STACKS 10000
#define FRAMES 200

/* A tree of calls: the digits of a number choose the way. */
static void make_stack(unsigned number, char *ret, size_t size)
{
	unsigned frames = number % 100 ? 8 + number % 17 : FRAMES;
	size_t used = 0;

	for (unsigned i = 0, rest = number; i < frames; i++, rest /= 3)
		used += (size_t)snprintf(ret + used, size - used, "%s%s level_%u_%u (/job/%s_%u.py:%u)",
			used ? "\n" : "", i % 7 == 6 ? "native" : "python", i, i < 12 ? rest % 3 : number % 5,
			i % 5 ? "model" : "layers", i % 3, 10 + i);
}

static void put_many(struct store *store, int64_t start_ns)
{
	static char frames[FRAMES * 64];
	struct script s = {.arg = store, .number = 3};

	for (unsigned i = 0; i < STACKS; i++) {
		struct profile_sample sample = {.rank = i % 4,
			.thread_id = 100 + i % 4,
			.thread_name = "python3",
			.start_ns = start_ns + (int64_t)i * MS,
			.duration_ns = 20 * MS,
			.weight_ns = 20 * MS,
			.main = true,
			.off_cpu = i % 9 == 0};

		make_stack(i, frames, sizeof(frames));
		sample.stack = (int64_t)fnv1a_text(FNV1A_START, frames);
		put_sample(&s, frames, &sample);
	}
	put_profile_rows(store, 3, start_ns);
}

int main(int argc, char **argv)
{
	struct store_options options = {.state_dir = argc == 3 ? argv[1] : "",
		.segment_ns = 3600 * UINT64_C(1000000000),
		.events_size_bytes_max = 1UL << 30,
		.events_age_ns_max = 240 * 3600 * UINT64_C(1000000000),
		.summary_age_ns_max = 240 * 3600 * UINT64_C(1000000000)};
	int64_t end_ns = argc == 3 ? strtoll(argv[2], NULL, 10) * 1000 * MS : 0;
	struct store *store = NULL;

	if (argc != 3 || (mkdir(argv[1], 0755) < 0 && errno != EEXIST) || store_open(&options, &store) < 0) {
		fprintf(stderr, "usage: make_profile_store FOLDER SECONDS\n");
		return 1;
	}
	put_profile(store, 1, end_ns - 300000 * MS, NULL);
	put_profile(store, 2, end_ns - 200000 * MS, &burn);
	put_many(store, end_ns - 100000 * MS);
	/* store_close() waits for a disk, or a busy machine, for a limited time. */
	if (store_flush(store, realtime_ns()) < 0)
		return 1;
	store_close(store);
	return 0;
}
