/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The off-CPU program in the running kernel, in both its forms: what it sees of this process's threads must agree with
 * what the threads did and with the kernel's own count of their context switches. Nothing here depends on how fast the
 * machine is or on what else it runs.
 */
#include <pthread.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/sched.h"
#include "bpf/system.h"
#include "daemon/base/util.h"
#include "sched.skel.h"

#include "tests/test.h"

#define INTERVALS_MAX 8192
#define STACKS_MAX 256
#define THRESHOLD_NS (500 * NSEC_PER_USEC)

static bool use_btf;

struct seen {
	struct sched_bpf *skeleton;
	struct bpf_link *link, *waking_link;
	struct ring_buffer *ring;
	uint32_t intervals;
	struct rt_offcpu_event interval[INTERVALS_MAX];
	uint32_t stacks;
	struct rt_offcpu_stack_event stack[STACKS_MAX];
	uint64_t sum_count;
	uint32_t thread_id; /* 0: every thread but the first */
};

static int on_record(void *arg, void *data, size_t size)
{
	const struct rt_event *event = data;
	struct seen *seen = arg;

	assert_int_equal(event->size_bytes, size);
	assert_int_equal(event->pid, getpid());
	if (event->kind != RT_KIND_OFFCPU_STACK &&
		(seen->thread_id ? event->thread_id != seen->thread_id : event->thread_id == event->pid))
		return 0;
	if (event->kind == RT_KIND_OFFCPU) {
		assert_true(seen->intervals < INTERVALS_MAX);
		assert_int_equal(size, sizeof(struct rt_offcpu_event));
		memcpy(&seen->interval[seen->intervals++], data, size);
	} else if (event->kind == RT_KIND_OFFCPU_STACK) {
		assert_int_equal(size, sizeof(struct rt_offcpu_stack_event));
		assert_true(seen->stacks < STACKS_MAX);
		memcpy(&seen->stack[seen->stacks++], data, size);
	} else {
		assert_int_equal(event->kind, RT_KIND_OFFCPU_SUM);
		assert_int_equal(size, sizeof(struct rt_offcpu_sum_event));
		seen->sum_count += ((const struct rt_offcpu_sum_event *)data)->count;
	}
	return 0;
}

static int load(struct seen *seen, uint32_t threads_max)
{
	struct sched_bpf *s = seen->skeleton = sched_bpf__open();

	if (!s)
		return -errno;
	bpf_program__set_autoload(s->progs.sched_switch_btf, use_btf);
	bpf_program__set_autoload(s->progs.sched_switch_raw, !use_btf);
	bpf_program__set_autoload(s->progs.sched_waking_btf, use_btf);
	bpf_program__set_autoload(s->progs.sched_waking_raw, !use_btf);
	s->rodata->threshold_ns = THRESHOLD_NS;
	bpf_map__set_max_entries(s->maps.offcpu_threads, threads_max);
	bpf_map__set_max_entries(s->maps.events, 4 << 20);
	return sched_bpf__load(s);
}

static struct seen *start(uint32_t threads_max, bool is_rank)
{
	struct seen *seen = calloc(1, sizeof(*seen));
	uint32_t pid = (uint32_t)getpid(), slot = 0;

	assert_non_null(seen);
	assert_int_equal(load(seen, threads_max), 0);
	seen->ring = ring_buffer__new(bpf_map__fd(seen->skeleton->maps.events), on_record, seen, NULL);
	assert_non_null(seen->ring);
	if (is_rank)
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(seen->skeleton->maps.ranks), &pid, &slot, BPF_ANY), 0);
	seen->link = bpf_program__attach(
		use_btf ? seen->skeleton->progs.sched_switch_btf : seen->skeleton->progs.sched_switch_raw);
	assert_non_null(seen->link);
	seen->waking_link = bpf_program__attach(
		use_btf ? seen->skeleton->progs.sched_waking_btf : seen->skeleton->progs.sched_waking_raw);
	assert_non_null(seen->waking_link);
	return seen;
}

static uint64_t drops(const struct seen *seen)
{
	int map = bpf_map__fd(seen->skeleton->maps.drops);
	uint64_t count = 0, sum = 0;

	for (uint32_t kind = 0; kind < RT_KIND_MAX; kind++) {
		assert_int_equal(bpf_map_lookup_elem(map, &kind, &count), 0);
		sum += count;
	}
	return sum;
}

static bool entry_of(const struct seen *seen, uint32_t thread_id, struct rt_offcpu_thread *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(seen->skeleton->maps.offcpu_threads), &thread_id, ret) == 0;
}

static void stop(struct seen *seen)
{
	ring_buffer__free(seen->ring);
	bpf_link__destroy(seen->waking_link);
	bpf_link__destroy(seen->link);
	sched_bpf__destroy(seen->skeleton);
	free(seen);
}

#define SLEEPS 97
#define NAPS 503

struct worker {
	uint32_t thread_id;
	uint64_t before_ns[SLEEPS], after_ns[SLEEPS];
	unsigned naps;
	int done[2], quit[2]; /* pipes: worker to test at its end; test to worker to exit */
};

/* A host that takes our CPU away can let a sleep's timer run out before the thread gets to switch: then sleep again. */
static uint64_t sleep_off_cpu(long duration_ns)
{
	struct rusage before, after;
	uint64_t start_ns;

	do {
		getrusage(RUSAGE_THREAD, &before);
		start_ns = monotonic_ns();
		nanosleep(&(struct timespec){.tv_nsec = duration_ns}, NULL);
		getrusage(RUSAGE_THREAD, &after);
	} while (after.ru_nvcsw == before.ru_nvcsw);
	return start_ns;
}

static void *sleep_and_nap(void *arg)
{
	struct worker *worker = arg;
	char byte = 0;

	worker->thread_id = (uint32_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "rt-worker");
	for (unsigned i = 0; i < SLEEPS && !worker->naps; i++) {
		worker->before_ns[i] = sleep_off_cpu(3000000);
		worker->after_ns[i] = monotonic_ns();
	}
	for (unsigned i = 0; i < worker->naps; i++)
		sleep_off_cpu(100000);
	if (write(worker->done[1], &byte, 1) != 1 || read(worker->quit[0], &byte, 1) != 1)
		return arg;
	return NULL;
}

static uint64_t context_switches(uint32_t thread_id)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t sum = 0, value;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/self/task/%u/status", thread_id);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &value) == 1 ||
			sscanf(line, "nonvoluntary_ctxt_switches: %lu", &value) == 1)
			sum += value;
	return sum;
}

/* Starts a worker and waits until it is done and blocked; returns how often the kernel says it left the CPU. */
static uint64_t work(struct seen *seen, struct worker *worker, pthread_t *thread)
{
	struct rt_offcpu_thread entry;
	uint64_t switches, again;
	char byte;

	assert_int_equal(pipe(worker->done), 0);
	assert_int_equal(pipe(worker->quit), 0);
	assert_int_equal(pthread_create(thread, NULL, sleep_and_nap, worker), 0);
	assert_int_equal(read(worker->done[0], &byte, 1), 1);
	seen->thread_id = worker->thread_id;
	do {
		switches = context_switches(worker->thread_id);
		usleep(20000);
		assert_true(entry_of(seen, worker->thread_id, &entry));
		again = context_switches(worker->thread_id);
	} while (switches != again || entry.start_ns == 0);
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	seen->sum_count += entry.sum_count; /* still waits in the kernel */
	return switches;
}

static void end_work(struct worker *worker, pthread_t thread)
{
	void *failed;

	assert_int_equal(write(worker->quit[1], "", 1), 1);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	for (int i = 0; i < 2; i++) {
		close(worker->done[i]);
		close(worker->quit[i]);
	}
}

/*
 * Every off-CPU interval is recorded, summed or counted as dropped: the kernel itself does not report
 * every switch to its tracepoint (a few in ten thousand), and the program has to notice that.
 * A sleep may be cut in two by a preemption on its way in, so a sleep counts once, for any number of intervals.
 */
TEST(every_sleep_is_an_interval)
{
	struct seen *seen = start(64, true);
	struct worker worker = {0};
	unsigned slept = 0;
	pthread_t thread;
	uint64_t switches = work(seen, &worker, &thread);

	for (unsigned i = 0; i < SLEEPS; i++)
		for (uint32_t j = 0; j < seen->intervals; j++)
			if (seen->interval[j].start_ns >= worker.before_ns[i] &&
				seen->interval[j].event.time_ns <= worker.after_ns[i]) {
				slept++;
				break;
			}
	assert_true(drops(seen) * 10 <= SLEEPS);
	assert_in_range(slept, SLEEPS - drops(seen), SLEEPS);
	for (uint32_t j = 0; j < seen->intervals; j++) {
		const struct rt_offcpu_event *interval = &seen->interval[j];

		assert_string_equal(interval->thread_name, "rt-worker");
		assert_int_equal(interval->start_ns + interval->duration_ns, interval->event.time_ns);
		assert_true(interval->duration_ns >= THRESHOLD_NS);
		assert_true(interval->run_delay_ns <= interval->duration_ns);
		assert_true(j == 0 || interval->start_ns > interval[-1].event.time_ns);
	}
	/* The last time it left it has not come back yet. */
	assert_int_equal(seen->intervals + seen->sum_count + drops(seen), switches - 1);
	end_work(&worker, thread);
	stop(seen);
}

/* Of this thread, up to the last tick. */
static uint64_t time_on_cpus(void)
{
	char path[64];
	uint64_t ran_ns;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%" SCNu64, &ran_ns), 1);
	fclose(file);
	return ran_ns;
}

static uint64_t cpu_clock(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

#define AWAY_NS (200 * NSEC_PER_MSEC)
#define BURN_NS (100 * NSEC_PER_MSEC)

/* As if the thread had left and returned without a hit: it has left before now, and what it runs from now on is no part
 * of that. */
TEST(a_return_without_a_hit_is_when_it_began_to_run)
{
	struct seen *seen = start(64, true);
	struct rt_offcpu_thread thread;
	uint64_t until_ns;
	bool found = false;

	seen->thread_id = (uint32_t)syscall(SYS_gettid);
	sleep_off_cpu(1000000);
	assert_true(entry_of(seen, seen->thread_id, &thread));
	until_ns = cpu_clock() + BURN_NS;
	thread.start_ns = monotonic_ns() - AWAY_NS;
	thread.ran_ns = time_on_cpus();
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(seen->skeleton->maps.offcpu_threads), &seen->thread_id,
				 &thread, BPF_EXIST),
		0);
	while (cpu_clock() < until_ns)
		;
	sleep_off_cpu(1000000);
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	for (uint32_t i = 0; i < seen->intervals; i++) {
		const struct rt_offcpu_event *interval = &seen->interval[i];

		if (interval->start_ns != thread.start_ns)
			continue;
		found = true;
		/* A tick that time_on_cpus() had not seen, at most. */
		assert_in_range(interval->duration_ns, AWAY_NS - 20 * NSEC_PER_MSEC, AWAY_NS + BURN_NS / 2);
		assert_int_equal(interval->previous_pid, 0);
	}
	assert_true(found);
	stop(seen);
}

static bool sleeps(const struct rt_offcpu_stack_event *stack)
{
	for (unsigned i = 0; i < RT_OFFCPU_STACK_MAX; i++)
		if (strstr(stack->name[i], "nanosleep"))
			return true;
	return false;
}

/* Once, however often it is the stack of an interval. */
TEST(a_blocked_thread_has_its_stack)
{
	struct seen *seen = start(64, true);
	unsigned asleep = 0, known = 0, times = 0;

	seen->thread_id = (uint32_t)syscall(SYS_gettid);
	for (unsigned i = 0; i < SLEEPS; i++)
		sleep_off_cpu(2000000);
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	for (uint32_t i = 0; i < seen->intervals; i++) {
		const struct rt_offcpu_event *interval = &seen->interval[i];

		assert_true(interval->waits_on != RT_WAITS_NOTHING || interval->stack == 0);
		known += interval->stack != 0;
		for (uint32_t j = 0; interval->stack && j < seen->stacks; j++)
			asleep += seen->stack[j].stack == interval->stack && sleeps(&seen->stack[j]);
	}
	for (uint32_t j = 0; j < seen->stacks; j++)
		for (uint32_t k = 0; k < seen->stacks; k++)
			times += seen->stack[j].stack == seen->stack[k].stack;
	if (use_btf && libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_snprintf, NULL) == 1) {
		assert_true(asleep >= SLEEPS - drops(seen));
		assert_int_equal(times, seen->stacks);
	} else {
		assert_int_equal(known + seen->stacks, 0);
	}
	stop(seen);
}

#define WAKES 53

struct reader {
	uint32_t thread_id;
	int pipe[2];
};

static void *read_bytes(void *arg)
{
	struct reader *reader = arg;
	char byte;

	reader->thread_id = (uint32_t)syscall(SYS_gettid);
	for (unsigned i = 0; i < WAKES; i++)
		if (read(reader->pipe[0], &byte, 1) != 1)
			return arg;
	return NULL;
}

TEST(a_waker_is_named)
{
	struct seen *seen = start(64, true);
	unsigned woken = 0, named = 0;
	struct reader reader;
	void *failed;
	pthread_t thread;
	pid_t waker;

	assert_int_equal(pipe(reader.pipe), 0);
	assert_int_equal(pthread_create(&thread, NULL, read_bytes, &reader), 0);
	waker = fork();
	assert_true(waker >= 0);
	if (waker == 0) {
		prctl(PR_SET_NAME, "rt-waker");
		for (unsigned i = 0; i < WAKES; i++) {
			usleep(3000);
			if (write(reader.pipe[1], "", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(waitpid(waker, NULL, 0), waker);
	seen->thread_id = reader.thread_id;
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	for (uint32_t i = 0; i < seen->intervals; i++) {
		const struct rt_offcpu_event *interval = &seen->interval[i];

		woken += interval->waker != RT_WAKER_UNKNOWN;
		if (interval->waker != RT_WAKER_TASK || interval->waker_pid != (uint32_t)waker)
			continue;
		assert_string_equal(interval->waker_name, "rt-waker");
		named++;
	}
	/* It may also wait for what the process shares. */
	assert_true(2 * named > woken);
	close(reader.pipe[0]);
	close(reader.pipe[1]);
	stop(seen);
}

#define PAGES 1009
#define MOVES 41

static uint64_t counted(const struct seen *seen, enum rt_system_cause cause)
{
	struct rt_system_sums sums;
	uint32_t slot = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(seen->skeleton->maps.system_sums), &slot, &sums), 0);
	return sums.of[cause].count;
}

static uint64_t minor_faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (uint64_t)usage.ru_minflt;
}

TEST(minor_faults_are_counted)
{
	struct seen *seen = start(64, true);
	size_t bytes = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	uint64_t before = minor_faults(), first;
	char *memory;

	sleep_off_cpu(1000000);
	first = counted(seen, RT_SYSTEM_MINOR_FAULT);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	(void)madvise(memory, bytes, MADV_NOHUGEPAGE);
	memset(memory, 1, bytes);
	sleep_off_cpu(1000000);
	assert_in_range(counted(seen, RT_SYSTEM_MINOR_FAULT) - first, PAGES, minor_faults() - before);
	assert_int_equal(munmap(memory, bytes), 0);
	stop(seen);
}

TEST(moves_to_other_cpus_are_counted)
{
	struct seen *seen = start(64, true);
	cpu_set_t all, one;
	unsigned cpu = 0;
	uint64_t first;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	sleep_off_cpu(1000000);
	first = counted(seen, RT_SYSTEM_MIGRATION);
	if (CPU_COUNT(&all) < 2)
		skip();
	for (unsigned i = 0; i < MOVES; i++) {
		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, &all) || cpu == (unsigned)sched_getcpu());
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	}
	sleep_off_cpu(1000000);
	assert_int_equal(counted(seen, RT_SYSTEM_MIGRATION) - first, MOVES);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	stop(seen);
}

/* As if the thread had left a CPU of another node before: there may be one node alone. */
TEST(moves_to_other_nodes_are_counted)
{
	struct seen *seen = start(64, true);
	uint32_t thread_id = (uint32_t)syscall(SYS_gettid);
	struct rt_offcpu_thread thread;

	sleep_off_cpu(1000000);
	assert_true(entry_of(seen, thread_id, &thread));
	thread.node += 7;
	assert_int_equal(counted(seen, RT_SYSTEM_NODE), 0);
	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(seen->skeleton->maps.offcpu_threads), &thread_id, &thread, BPF_EXIST),
		0);
	sleep_off_cpu(1000000);
	sleep_off_cpu(1000000);
	assert_int_equal(counted(seen, RT_SYSTEM_NODE), 1);
	stop(seen);
}

TEST(short_intervals_are_summed)
{
	struct seen *seen = start(64, true);
	struct worker worker = {.naps = NAPS};
	pthread_t thread;
	uint64_t switches = work(seen, &worker, &thread);

	assert_true(drops(seen) * 10 <= NAPS);
	assert_true(seen->intervals + seen->sum_count + drops(seen) >= NAPS);
	assert_int_equal(seen->intervals + seen->sum_count + drops(seen), switches - 1);
	assert_true(seen->sum_count > 0);
	end_work(&worker, thread);
	stop(seen);
}

static void pin_to_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

static void *burn(void *arg)
{
	struct timespec t;

	*(uint32_t *)arg = (uint32_t)syscall(SYS_gettid);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_sec == 0 && t.tv_nsec < 300000000);
	return NULL;
}

static pid_t start_preemptor(void)
{
	pid_t parent = getpid(), preemptor = fork();

	assert_true(preemptor >= 0);
	if (preemptor == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "rt-cpu");
		while (getppid() == parent)
			;
		_exit(0);
	}
	return preemptor;
}

TEST(a_preemptor_is_named)
{
	uint64_t taken = 0, given_back = 0, duration_ns = 0, run_delay_ns = 0;
	uint32_t thread_id = 0;
	cpu_set_t all;
	struct seen *seen;
	pthread_t thread;
	pid_t preemptor;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	pin_to_this_cpu();
	preemptor = start_preemptor();
	seen = start(64, true);
	assert_int_equal(pthread_create(&thread, NULL, burn, &thread_id), 0);
	pthread_join(thread, NULL);
	kill(preemptor, SIGKILL);
	assert_int_equal(waitpid(preemptor, NULL, 0), preemptor);
	seen->thread_id = thread_id;
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	for (uint32_t i = 0; i < seen->intervals; i++) {
		const struct rt_offcpu_event *interval = &seen->interval[i];

		duration_ns += interval->duration_ns;
		run_delay_ns += interval->run_delay_ns;
		if (interval->next_pid == (uint32_t)preemptor && streq(interval->next_name, "rt-cpu") &&
			interval->run_delay_ns > 0)
			taken++;
		if (interval->previous_pid == (uint32_t)preemptor && streq(interval->previous_name, "rt-cpu"))
			given_back++;
	}
	assert_true(taken > 0);
	assert_true(given_back > 0);
	/* It never slept, so all of its time off the CPU was waiting (two clocks: not to the nanosecond). */
	assert_true(run_delay_ns > duration_ns - duration_ns / 50);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	stop(seen);
}

static void *nap_once(void *arg)
{
	*(uint32_t *)arg = (uint32_t)syscall(SYS_gettid);
	sleep_off_cpu(100000);
	return NULL;
}

#define SHORT_LIVES 211

TEST(ended_threads_leave_nothing)
{
	struct seen *seen = start(64, true); /* fewer than there are threads */
	struct rt_offcpu_thread entry;
	uint32_t thread_id;
	pthread_t thread;

	for (unsigned i = 0; i < SHORT_LIVES; i++) {
		assert_int_equal(pthread_create(&thread, NULL, nap_once, &thread_id), 0);
		pthread_join(thread, NULL);
		/* It is joined a moment before its last switch. */
		for (unsigned wait = 0; wait < 5000 && entry_of(seen, thread_id, &entry); wait++)
			usleep(1000);
		assert_false(entry_of(seen, thread_id, &entry));
	}
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	assert_true(seen->intervals + seen->sum_count + drops(seen) >= SHORT_LIVES);
	assert_true(drops(seen) * 10 <= SHORT_LIVES);
	stop(seen);
}

TEST(a_full_map_is_counted)
{
	struct seen *seen = start(1, true);
	struct rt_offcpu_thread entry;
	uint32_t thread_id;
	pthread_t thread;

	usleep(1000); /* the only entry is this thread's */
	assert_true(entry_of(seen, (uint32_t)getpid(), &entry));
	for (unsigned i = 0; i < 13; i++) {
		assert_int_equal(pthread_create(&thread, NULL, nap_once, &thread_id), 0);
		pthread_join(thread, NULL);
	}
	assert_true(ring_buffer__consume(seen->ring) >= 0);
	assert_int_equal(seen->intervals + seen->sum_count, 0);
	assert_true(drops(seen) >= 13);
	stop(seen);
}

TEST(others_are_not_seen)
{
	struct seen *seen = start(64, false);
	uint32_t key;

	for (unsigned i = 0; i < 13; i++)
		usleep(2000);
	assert_int_equal(ring_buffer__consume(seen->ring), 0);
	assert_int_equal(bpf_map_get_next_key(bpf_map__fd(seen->skeleton->maps.offcpu_threads), NULL, &key), -ENOENT);
	stop(seen);
}

/* Says why nothing can be tested here, or returns NULL. */
static const char *cannot_test(void)
{
	struct seen seen = {0};
	char link[64] = "";
	int r;

	if (geteuid() != 0)
		return "needs root";
	if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0 || !streq(link, "pid:[4026531836]"))
		return "needs the initial PID namespace: the kernel's pids are not ours";
	r = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "probe", 0, 0, 4096, NULL);
	if (r < 0)
		return r == -EPERM ? "BPF is not allowed here" : "no BPF ring buffer here";
	close(r);
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return "this kernel has no BTF";
	use_btf = true;
	r = load(&seen, 64);
	sched_bpf__destroy(seen.skeleton);
	return r == -EPERM ? "BPF programs are not allowed here" : NULL;
}

int main(void)
{
	const char *why = cannot_test();
	int failed = 0;

	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	for (int i = 0; i < 2; i++) {
		use_btf = i == 0;
		printf("attaching to the %s\n", use_btf ? "BTF tracepoint" : "raw tracepoint");
		failed += TEST_RUN(NULL, NULL);
	}
	return failed ? 1 : 0;
}
