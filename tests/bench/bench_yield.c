/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_yield PAIRS ROUNDS: what the program of system calls costs a rank with a thread that polls by sched_yield(), as
 * NCCL's that serves the network does: a yield of that thread, and a getppid() of another one beside it. L3 is off; on;
 * and on with yields counted as any call is. Prints one sample a line for table.awk.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "daemon/base/util.h"
#include "daemon/base/syscall_names.h"
#include "syscalls.skel.h"

enum mode { OFF, ON, COUNTED, MODES };

static const char *const mode_name[MODES] = {"L3 off", "L3 on", "yields counted"};

static struct {
	_Atomic bool stop;
	_Atomic uint64_t yields;
} spin;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

/* Two CPUs that it may run on; -ENODEV: there is one. */
static int cpus(int ret[2])
{
	unsigned found = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -errno;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			ret[found++] = cpu;
	return found == 2 ? 0 : -ENODEV;
}

static void *run_spin(void *arg)
{
	pin(*(const int *)arg);
	while (!spin.stop) {
		(void)sched_yield();
		spin.yields++;
	}
	return NULL;
}

static int load(bool counts_yields, struct syscalls_bpf **ret)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	uint32_t pid = (uint32_t)getpid(), slot = 0;
	struct syscalls_bpf *skeleton = *ret = syscalls_bpf__open();
	_cleanup_close_ int sums = -1;
	int r;

	if (!skeleton)
		return -errno;
	syscall_kinds(skeleton->rodata->kinds);
	if (counts_yields)
		skeleton->rodata->kinds[SYS_sched_yield] = RT_SYSCALL_PLAIN;
	r = bpf_map__set_max_entries(skeleton->maps.events, 1 << 20) ?: syscalls_bpf__load(skeleton);
	if (r < 0)
		return r;
	sums = bpf_map_create(
		BPF_MAP_TYPE_ARRAY, "sums", sizeof(slot), sizeof(struct rt_syscall_sums), RT_SYSCALL_SLOTS, &options);
	if (sums < 0)
		return -errno;
	return bpf_map_update_elem(bpf_map__fd(skeleton->maps.syscall_sums), &slot, &sums, BPF_ANY)
		       ?: bpf_map_update_elem(bpf_map__fd(skeleton->maps.ranks), &pid, &slot, BPF_ANY);
}

/* For as long as the calls of this thread take. */
static void sample(enum mode mode, long pair, long rounds)
{
	uint64_t yields = spin.yields, start_ns = monotonic_ns(), duration_ns;

	for (long i = 0; i < rounds; i++)
		(void)getppid();
	duration_ns = monotonic_ns() - start_ns;
	yields = spin.yields - yields;
	if (pair < 0)
		return;
	printf("yield\t%s\tns/yield\t%ld\t%.1f\n", mode_name[mode], pair, (double)duration_ns / (double)(yields + 1));
	printf("call beside yields\t%s\tns/call\t%ld\t%.1f\n", mode_name[mode], pair,
		(double)duration_ns / (double)rounds);
}

static int run(struct syscalls_bpf *skeleton[MODES], long pairs, long rounds)
{
	for (long pair = -1; pair < pairs; pair++) /* the first pass warms up */
		for (int mode = OFF; mode < MODES; mode++) {
			int r = skeleton[mode] ? syscalls_bpf__attach(skeleton[mode]) : 0;

			if (r < 0)
				return r;
			sample((enum mode)mode, pair, rounds);
			if (skeleton[mode])
				syscalls_bpf__detach(skeleton[mode]);
		}
	return 0;
}

int main(int argc, char **argv)
{
	long pairs = argc == 3 ? strtol(argv[1], NULL, 10) : 0, rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct syscalls_bpf *skeleton[MODES] = {NULL};
	pthread_t thread;
	int cpu[2], r;

	if (pairs <= 0 || rounds <= 0) {
		fprintf(stderr, "usage: bench_yield PAIRS ROUNDS\n");
		return 2;
	}
	if (cpus(cpu) < 0) {
		fprintf(stderr, "bench_yield: needs two CPUs\n");
		return 77;
	}
	r = load(false, &skeleton[ON]) ?: load(true, &skeleton[COUNTED]);
	if (r < 0) {
		fprintf(stderr, "bench_yield: BPF is not allowed here\n");
		return 77;
	}
	pin(cpu[0]);
	r = -pthread_create(&thread, NULL, run_spin, &cpu[1]);
	if (r == 0) {
		r = run(skeleton, pairs, rounds);
		spin.stop = true;
		(void)pthread_join(thread, NULL);
	}
	for (int mode = ON; mode < MODES; mode++)
		syscalls_bpf__destroy(skeleton[mode]);
	if (r < 0)
		fprintf(stderr, "bench_yield: %s\n", strerror(-r));
	return r < 0 ? 1 : 0;
}
