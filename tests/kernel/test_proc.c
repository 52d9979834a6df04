/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and attaches the real programs, starts a prime number of processes and threads and expects exactly the forks,
 * execs and exits of the processes. */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <sys/wait.h>

#include "bpf/proc.h"
#include "daemon/base/util.h"
#include "proc.skel.h"

#include "tests/test.h"

#define CHILDREN 97
#define SLOT 0
#define SKIPPED 77

struct seen {
	unsigned forks, execs, exits, others, wrong;
	uint32_t child; /* of the last fork */
};

static int on_record(void *arg, void *data, size_t size)
{
	const struct rt_proc_event *record = data;
	struct seen *seen = arg;

	if (size < sizeof(*record) || record->event.size_bytes != sizeof(*record) || record->event.time_ns == 0) {
		seen->wrong++;
		return 0;
	}
	if (record->parent_pid != (uint32_t)getpid()) {
		seen->others++;
		return 0;
	}
	if (record->event.kind == RT_KIND_FORK) {
		seen->forks++;
		seen->child = record->child_pid;
		seen->wrong += record->event.pid != (uint32_t)getpid();
		return 0;
	}
	seen->wrong += record->event.kind == RT_KIND_EXEC && seen->child && record->event.pid != seen->child;
	seen->execs += record->event.kind == RT_KIND_EXEC && streq(record->comm, "true");
	seen->exits += record->event.kind == RT_KIND_EXIT && streq(record->comm, "true");
	return 0;
}

static struct proc_bpf *load(bool btf)
{
	struct proc_bpf *skeleton = proc_bpf__open();

	if (!skeleton)
		return NULL;
	bpf_program__set_autoload(skeleton->progs.exec_btf, btf);
	bpf_program__set_autoload(skeleton->progs.exit_btf, btf);
	bpf_program__set_autoload(skeleton->progs.fork_btf, btf);
	bpf_program__set_autoload(skeleton->progs.exec_raw, !btf);
	bpf_program__set_autoload(skeleton->progs.exit_raw, !btf);
	bpf_program__set_autoload(skeleton->progs.fork_raw, !btf);
	bpf_map__set_max_entries(skeleton->maps.events, 1u << 20);
	if (proc_bpf__load(skeleton) < 0 || proc_bpf__attach(skeleton) < 0) {
		proc_bpf__destroy(skeleton);
		return NULL;
	}
	return skeleton;
}

static void *run_thread(void *arg)
{
	return arg;
}

static void run_children(struct ring_buffer *ring)
{
	char *const args[] = {(char *)"/bin/true", NULL};

	for (unsigned i = 0; i < CHILDREN; i++) {
		pthread_t thread;
		int status;
		pid_t pid;

		assert_int_equal(pthread_create(&thread, NULL, run_thread, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		pid = fork();
		if (pid == 0) {
			execv(args[0], args);
			_exit(127);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_true(ring_buffer__consume(ring) >= 0);
	}
}

static void check(bool btf)
{
	struct proc_bpf *skeleton = load(btf);
	uint32_t self = (uint32_t)getpid(), slot = SLOT;
	struct seen seen = {0};
	struct ring_buffer *ring;

	assert_non_null(skeleton);
	ring = ring_buffer__new(bpf_map__fd(skeleton->maps.events), on_record, &seen, NULL);
	assert_non_null(ring);
	run_children(ring);
	assert_int_equal(seen.forks, 0); /* of ranks alone */
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(skeleton->maps.ranks), &self, &slot, BPF_ANY), 0);
	run_children(ring);
	assert_true(ring_buffer__consume(ring) >= 0);
	assert_int_equal(seen.forks, CHILDREN);
	assert_int_equal(seen.execs, 2 * CHILDREN);
	assert_int_equal(seen.exits, 2 * CHILDREN);
	assert_int_equal(seen.wrong, 0);
	ring_buffer__free(ring);
	proc_bpf__destroy(skeleton);
}

TEST(test_btf)
{
	check(true);
}

TEST(test_raw)
{
	check(false);
}

int main(void)
{
	struct proc_bpf *skeleton = load(false);

	if (!skeleton && (errno == EPERM || errno == EACCES)) {
		printf("skipped: not allowed to load BPF programs here\n");
		return SKIPPED;
	}
	proc_bpf__destroy(skeleton);
	return TEST_RUN(NULL, NULL);
}
