/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_switch PAIRS ROUNDS: what the off-CPU program costs a context switch. Two processes on one CPU hand a byte to
 * and fro, with the program detached, attached while neither is a rank, and attached while both are. Prints one sample
 * a line for table.awk.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bpf/event.h"
#include "daemon/base/util.h"
#include "sched.skel.h"

enum mode { OFF, ON_OTHER, ON_RANK, MODES };

static const char *const mode_name[MODES] = {"L3 off", "L3 on, no rank", "L3 on, rank"};

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static bool pass(int from, int to)
{
	char byte;

	return read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1;
}

/* The pair waits for a byte on go[0] and answers on there[1] after so many rounds. */
struct pair {
	pid_t ping, pong;
	int go[2], there[2];
};

static pid_t child(void (*run)(struct pair *pair, int to[2], int fro[2], long rounds), struct pair *pair, int to[2],
	int fro[2], long rounds)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin();
		run(pair, to, fro, rounds);
		_exit(0);
	}
	return pid;
}

static void run_pong(struct pair *pair, int to[2], int fro[2], long rounds)
{
	while (pass(to[0], fro[1]))
		;
}

static void run_ping(struct pair *pair, int to[2], int fro[2], long rounds)
{
	char byte;

	while (read(pair->go[0], &byte, 1) == 1) {
		uint64_t start_ns = monotonic_ns(), duration_ns;

		for (long i = 0; i < rounds; i++)
			if (write(to[1], &byte, 1) != 1 || read(fro[0], &byte, 1) != 1)
				return;
		duration_ns = monotonic_ns() - start_ns;
		if (write(pair->there[1], &duration_ns, sizeof(duration_ns)) != sizeof(duration_ns))
			return;
	}
}

static int start_pair(struct pair *pair, long rounds)
{
	int to[2], fro[2];

	if (pipe(to) < 0 || pipe(fro) < 0 || pipe(pair->go) < 0 || pipe(pair->there) < 0)
		return -errno;
	pair->pong = child(run_pong, pair, to, fro, rounds);
	pair->ping = child(run_ping, pair, to, fro, rounds);
	return pair->ping < 0 || pair->pong < 0 ? -errno : 0;
}

static int sample(struct pair *pair, struct sched_bpf *skeleton, enum mode mode, uint64_t *ret_ns)
{
	uint32_t pids[] = {(uint32_t)pair->ping, (uint32_t)pair->pong}, slot = 0;
	int ranks = bpf_map__fd(skeleton->maps.ranks), r = 0;
	struct bpf_link *link = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		if (mode == ON_RANK)
			(void)bpf_map_update_elem(ranks, &pids[i], &slot, BPF_ANY);
		else
			(void)bpf_map_delete_elem(ranks, &pids[i]);
	if (mode != OFF) {
		link = bpf_program__attach(skeleton->progs.sched_switch_btf);
		if (!link)
			return -errno;
	}
	if (write(pair->go[1], "", 1) != 1 || read(pair->there[0], ret_ns, sizeof(*ret_ns)) != sizeof(*ret_ns))
		r = -EIO;
	bpf_link__destroy(link);
	return r;
}

static struct sched_bpf *load(void)
{
	struct sched_bpf *skeleton = sched_bpf__open();

	if (!skeleton)
		return NULL;
	bpf_program__set_autoload(skeleton->progs.sched_switch_raw, false);
	bpf_map__set_max_entries(skeleton->maps.events, 1 << 20);
	if (sched_bpf__load(skeleton) == 0)
		return skeleton;
	sched_bpf__destroy(skeleton);
	return NULL;
}

int main(int argc, char **argv)
{
	long pairs = argc == 3 ? strtol(argv[1], NULL, 10) : 0, rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct sched_bpf *skeleton;
	struct pair pair = {0};
	uint64_t duration_ns;
	int r = 0;

	if (pairs <= 0 || rounds <= 0) {
		fprintf(stderr, "usage: bench_switch PAIRS ROUNDS\n");
		return 2;
	}
	skeleton = load();
	if (!skeleton) {
		fprintf(stderr, "bench_switch: BPF is not allowed here\n");
		return 77;
	}
	r = start_pair(&pair, rounds);
	for (long i = -1; r == 0 && i < pairs; i++) /* the first pass warms up */
		for (int mode = OFF; r == 0 && mode < MODES; mode++) {
			r = sample(&pair, skeleton, (enum mode)mode, &duration_ns);
			if (r == 0 && i >= 0)
				printf("switch\t%s\tns/switch\t%ld\t%.1f\n", mode_name[mode], i,
					(double)duration_ns / (double)(2 * rounds));
		}
	for (int i = 0; i < 2 && r == 0; i++) {
		kill(i ? pair.ping : pair.pong, SIGKILL);
		waitpid(i ? pair.ping : pair.pong, NULL, 0);
	}
	sched_bpf__destroy(skeleton);
	if (r < 0)
		fprintf(stderr, "bench_switch: %s\n", strerror(-r));
	return r < 0 ? 1 : 0;
}
