/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile's program at the scheduler in the running kernel: within a budget, samples of waits stand for as many
 * waits as there were. Random numbers and the machine's speed choose which are read; the bound follows from how many
 * each stands for.
 */
#include <math.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/profile.h"
#include "daemon/base/util.h"
#include "profile.skel.h"

#include "tests/test.h"

#define NAPS 3001
#define SIGMAS 6 /* passed by chance once in 500 million times */

struct seen {
	struct profile_bpf *skeleton;
	struct bpf_link *link;
	struct ring_buffer *ring;
	uint64_t samples;
	double waits, variance; /* that the samples stand for */
	unsigned nanosleeps;	/* stacks of the kernel with such a function */
};

static void take_stack(struct seen *seen, const struct rt_profile_stack_event *stack)
{
	bool found = false;

	for (size_t i = 0; i < RT_PROFILE_KERNEL_MAX; i++) {
		const char *name = stack->kernel[i];

		assert_non_null(memchr(name, 0, RT_PROFILE_KERNEL_BYTES));
		found |= strstr(name, "nanosleep") != NULL;
		if (!seen->nanosleeps && name[0])
			print_message("%s ", name);
	}
	seen->nanosleeps += found;
}

static int on_record(void *arg, void *data, size_t size)
{
	const struct rt_profile_sample_event *sample = data;
	struct seen *seen = arg;
	double thin;

	if (sample->event.kind == RT_KIND_STACK)
		take_stack(seen, data);
	if (sample->event.kind != RT_KIND_SAMPLE)
		return 0;
	assert_int_equal(size, sizeof(*sample));
	assert_true(sample->event.flags & RT_PROFILE_OFF_CPU);
	assert_true(sample->duration_ns > 0);
	assert_int_equal(sample->weight_ns % sample->duration_ns, 0);
	thin = (double)(sample->weight_ns / sample->duration_ns);
	seen->samples++;
	seen->waits += thin;
	seen->variance += thin * (thin - 1);
	return 0;
}

static void start(struct seen *seen)
{
	seen->skeleton = profile_bpf__open();
	assert_non_null(seen->skeleton);
	bpf_program__set_autoload(seen->skeleton->progs.profile_switch_raw, false);
	seen->skeleton->rodata->wait_min_ns = 0;
	bpf_map__set_max_entries(seen->skeleton->maps.events, 4 << 20);
	assert_int_equal(profile_bpf__load(seen->skeleton), 0);
	seen->ring = ring_buffer__new(bpf_map__fd(seen->skeleton->maps.events), on_record, seen, NULL);
	assert_non_null(seen->ring);
}

/* Naps with such a part of the time for stacks; what the program counted. */
static struct rt_profile_process nap(struct seen *seen, uint64_t ppm)
{
	struct rt_profile_process process = {.period_ns = 1, .threads_max = 64, .cpu_ppm = ppm, .waits_ppm = ppm};
	int map = bpf_map__fd(seen->skeleton->maps.profiled);
	uint32_t pid = (uint32_t)getpid();

	seen->samples = 0;
	seen->waits = seen->variance = 0;
	assert_int_equal(bpf_map_update_elem(map, &pid, &process, BPF_ANY), 0);
	seen->link = bpf_program__attach(seen->skeleton->progs.profile_switch_btf);
	assert_non_null(seen->link);
	for (unsigned i = 0; i < NAPS; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
		if (i % 100 == 0)
			assert_true(ring_buffer__consume(seen->ring) >= 0);
	}
	bpf_link__destroy(seen->link);
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	assert_int_equal(bpf_map_lookup_elem(map, &pid, &process), 0);
	assert_int_equal(bpf_map_delete_elem(map, &pid), 0);
	assert_int_equal(process.lost, 0);
	/* A wait whose return the tracepoint does not report has no sample: up to one in a hundred. */
	assert_in_range(seen->samples, process.read * 9 / 10, process.read);
	return process;
}

TEST(test_budget)
{
	struct seen seen = {.samples = 0};
	struct rt_profile_process all, part;
	uint64_t start_ns, ppm;

	start(&seen);
	start_ns = monotonic_ns();
	all = nap(&seen, 1000000);
	/* A quarter of what all of them took. */
	ppm = all.took_ns * 1000000 / 4 / (monotonic_ns() - start_ns) + 1;
	print_message("all the time: %lu of %lu read, for %.0f\n", all.read, all.seen, seen.waits);
	assert_in_range(all.seen, NAPS * 9 / 10, UINT64_MAX);
	assert_int_equal(all.read, all.seen);
	assert_int_equal(seen.waits, seen.samples);
	assert_true(seen.nanosleeps > 0);
	part = nap(&seen, ppm);
	print_message("%lu millionths: %lu of %lu read, for %.0f, deviation %.0f\n", ppm, part.read, part.seen,
		seen.waits, sqrt(seen.variance));
	assert_true(part.seen >= NAPS * 9 / 10 && part.read < part.seen * 3 / 4);
	assert_true(fabs(seen.waits - (double)part.seen) <= SIGMAS * sqrt(seen.variance) + (double)part.seen / 20);
	ring_buffer__free(seen.ring);
	profile_bpf__destroy(seen.skeleton);
}

static const char *cannot_test(void)
{
	char link[64] = "";

	if (geteuid() != 0)
		return "needs root";
	if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0 || !streq(link, "pid:[4026531836]"))
		return "needs the initial PID namespace: the kernel's pids are not ours";
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0 ||
		libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_PERF_EVENT, NULL) != 1)
		return "this kernel loads no such programs for us";
	return NULL;
}

int main(void)
{
	const char *why = cannot_test();

	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	return TEST_RUN(NULL, NULL);
}
