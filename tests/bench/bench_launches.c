/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_launches PAIRS SECONDS LIBRARY: what counting launches costs the process that launches. A child that is a rank
 * calls a function 20,000 times a second between pieces of work, in steps of 60 calls, for SECONDS a phase; the phases
 * off, sampled (a window of 50 ms in every second, as the daemon does by default, by its own worker) and always (one
 * window as long as the phase) take turns in one process. Prints how much of a step passes in its calls, by the clock
 * around each call, so that what else happens on the machine has little part in it; the CPU time of a step; and the
 * longest step, which is what putting probes on and off may hold up. Phases below 2 s have as many windows, shorter. A
 * phase whose window saw no launch is left out. Exit 77 where no uprobe can be attached.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/collect/launch.h"
#include "daemon/probes/elf_file.h"
#include "daemon/probes/prologue.h"
#include "tests/bench/target.h"

#define CALLS_A_STEP 60
#define STEP_NS (3 * NSEC_PER_MSEC)
#define WINDOWS 2 /* a sampled phase */

struct phase {
	double calls_ns, cpu_ns, longest_ns;
	uint64_t steps;
};

enum { CASE_OFF, CASE_SAMPLED, CASE_ALWAYS, CASE_AGAIN, CASES };
static const char *const cases[CASES] = {"off", "sampled", "always", "off, again"};

/* The child's CPU is the last one, the worker has the others. */
static void pin(void)
{
	cpu_set_t set, one;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static volatile unsigned sink;

/* Returns the time in the calls. Not inlined, so that the work that was calibrated is the work that is done. */
static __attribute__((noinline)) uint64_t step(unsigned work)
{
	uint64_t calls_ns = 0;
	long sum = 0;

	for (int call = 0; call < CALLS_A_STEP; call++) {
		uint64_t start_ns = monotonic_ns();

		sum = target_push(sum);
		calls_ns += monotonic_ns() - start_ns;
		for (unsigned i = 0; i < work; i++)
			sink += i;
	}
	return calls_ns;
}

/* So much work between two calls that a step takes STEP_NS here. */
static unsigned calibrate(void)
{
	const unsigned work = 10000;
	uint64_t best_ns = UINT64_MAX;

	for (int round = 0; round < 50; round++) {
		uint64_t start_ns = monotonic_ns(), took_ns;

		(void)step(work);
		took_ns = monotonic_ns() - start_ns;
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	return (unsigned)(work * STEP_NS / (best_ns + 1)) + 1;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static struct phase measure(unsigned work, uint64_t length_ns)
{
	uint64_t start_ns = monotonic_ns(), start_cpu_ns = cpu_ns(), now_ns = start_ns;
	struct phase phase = {0};

	while (now_ns - start_ns < length_ns) {
		uint64_t before_ns = now_ns;

		phase.calls_ns += (double)step(work);
		now_ns = monotonic_ns();
		phase.steps++;
		if ((double)(now_ns - before_ns) > phase.longest_ns)
			phase.longest_ns = (double)(now_ns - before_ns);
	}
	phase.cpu_ns = (double)(cpu_ns() - start_cpu_ns) / (double)phase.steps;
	phase.calls_ns /= (double)phase.steps;
	return phase;
}

static void be_rank(int in, int out, uint64_t length_ns)
{
	unsigned work;
	char c;

	pin();
	work = calibrate();
	while (read(in, &c, 1) == 1) {
		struct phase phase = measure(work, length_ns);

		if (write(out, &phase, sizeof(phase)) != sizeof(phase))
			break;
	}
	_exit(0);
}

struct bench {
	struct context context;
	struct launch_window *window;
	struct launch_worker *worker;
	struct launch_target target;
	int in, out; /* of the child */
	pid_t child;
	uint64_t length_ns;
};

/* Where the daemon would put it: on the first instruction that the kernel emulates. */
static int find_site(struct bench *bench, const char *path)
{
	struct prologue_need need = {0};
	struct prologue_choice choice = {0};
	uint8_t code[PROLOGUE_BYTES_MAX];
	struct elf_symbol symbol;
	struct elf_file *file;
	int r;

	bench->target.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (bench->target.fd < 0)
		return -errno;
	r = elf_file_open(bench->target.fd, &file);
	if (r < 0)
		return r;
	r = elf_file_find(file, "target_push", &symbol);
	if (r == 0)
		r = elf_file_bytes(file, symbol.file_offset, code, sizeof(code));
	if (r > 0)
		prologue_choose(elf_file_machine(file), code, (size_t)r, &need, &choice);
	bench->target.count = 1;
	bench->target.offset[0] = symbol.file_offset + choice.offset_bytes;
	elf_file_close(file);
	return r < 0 ? r : 0;
}

static int start_child(struct bench *bench)
{
	int to[2], from[2];

	if (pipe(to) < 0 || pipe(from) < 0)
		return -errno;
	bench->child = fork();
	if (bench->child < 0)
		return -errno;
	if (bench->child == 0) {
		close(to[1]);
		be_rank(to[0], from[1], bench->length_ns);
	}
	close(to[0]);
	close(from[1]);
	bench->out = to[1];
	bench->in = from[0];
	return kernel_rank_add(bench->context.kernel, (uint32_t)bench->child, 0);
}

static uint64_t run_window(struct bench *bench, uint64_t at_ns, uint64_t length_ns)
{
	struct launch_order *order = calloc(1, sizeof(*order));
	struct launch_result result = {0};
	uint64_t seen = 0;

	if (!order)
		return 0;
	order->at_ns = at_ns;
	order->length_ns = length_ns;
	order->targets = 1;
	order->target[0] = bench->target;
	order->target[0].fd = dup(bench->target.fd);
	if (launch_worker_order(bench->worker, order) < 0) {
		launch_order_free(order);
		return 0;
	}
	while (!launch_worker_take(bench->worker, &result))
		usleep(1000);
	for (size_t i = 0; i < result.threads; i++)
		seen += result.thread[i].api[0].count;
	free(result.thread);
	return seen;
}

/* Whether the phase is what it says. */
static bool run_case(struct bench *bench, int number, struct phase *ret)
{
	uint64_t start_ns = monotonic_ns(), period_ns = bench->length_ns / WINDOWS;
	bool seen = true;

	if (write(bench->out, "g", 1) != 1)
		return false;
	if (number == CASE_ALWAYS)
		seen = run_window(bench, start_ns, bench->length_ns) > 0;
	for (unsigned i = 0; number == CASE_SAMPLED && i < WINDOWS; i++)
		seen &= run_window(bench, start_ns + period_ns * i + period_ns / 3, period_ns / 20) > 0;
	return read(bench->in, ret, sizeof(*ret)) == sizeof(*ret) && seen;
}

static void run_pairs(struct bench *bench, unsigned pairs)
{
	struct phase phase;

	(void)run_case(bench, CASE_OFF, &phase); /* warm */
	for (unsigned pair = 0; pair < pairs; pair++) {
		for (int number = 0; number < CASES; number++) {
			if (!run_case(bench, number, &phase)) {
				fprintf(stderr, "bench_launches: %s saw no launch, leaving this sample out\n",
					cases[number]);
				continue;
			}
			printf("launches, time in calls\t%s\tus/step\t%u\t%.2f\n", cases[number], pair,
				phase.calls_ns / 1e3);
			printf("launches, CPU of a step\t%s\tus/step\t%u\t%.2f\n", cases[number], pair,
				phase.cpu_ns / 1e3);
			printf("launches, longest step\t%s\tus\t%u\t%.1f\n", cases[number], pair,
				phase.longest_ns / 1e3);
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	struct bench bench = {.context.config = {.ring_size_bytes = 64u << 10, .ranks_max = 16}};
	unsigned pairs = argc == 4 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	double seconds = argc == 4 ? strtod(argv[2], NULL) : 0;
	int r;

	if (pairs == 0 || !(seconds > 0) || seconds > 600) {
		fprintf(stderr, "usage: bench_launches PAIRS SECONDS LIBRARY\n");
		return 2;
	}
	bench.length_ns = (uint64_t)(seconds * 1e9);
	if (geteuid() != 0 || kernel_open(&bench.context, &bench.context.kernel) < 0)
		return 77;
	if (launch_window_open(bench.context.kernel, &bench.window) < 0)
		return 77;
	r = find_site(&bench, argv[3]);
	if (r == 0)
		r = start_child(&bench);
	if (r == 0)
		r = launch_worker_start(bench.window, &bench.worker);
	if (r < 0) {
		fprintf(stderr, "bench_launches: cannot start: %s\n", strerror(-r));
		return 1;
	}
	run_pairs(&bench, pairs);
	if (!launch_worker_stop(bench.worker, NSEC_PER_SEC))
		return 1;
	launch_worker_free(bench.worker);
	launch_window_close(bench.window);
	close(bench.out);
	waitpid(bench.child, NULL, 0);
	kernel_close(bench.context.kernel);
	return 0;
}
