/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators read by the reader program as the daemon runs it: the name of a process group in this process's memory;
 * a reader that does not answer holds nobody, and is asked again; its answers are checked.
 */
#include "daemon/coll/comm_reader.h"
#include "daemon/coll/comms.h"
#include "daemon/core/context.h"
#include "tests/test.h"

#include <event2/event.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static struct context context;
static struct comm_identify identify;
static struct comm_rows rows;
static struct comm_asked asked;
static struct comm_answer answer;
static unsigned answers;
static char folder[64];

/* As the Itanium ABI has it: an object's first word leads to its class, whose second word leads to its name. */
static uint64_t info[2], table[3], group[32];

static void on_answered(void *arg, const struct comm_asked *which, const struct comm_answer *what)
{
	asked = *which;
	answer = *what;
	answers++;
}

static void put_string(size_t word, const char *text)
{
	group[word] = (uintptr_t)&group[word + 2];
	group[word + 1] = strlen(text);
	memcpy(&group[word + 2], text, strlen(text) + 1);
}

static int start(void **state)
{
	static const char class[] = "N4c10d16ProcessGroupNCCLE";

	info[1] = (uintptr_t) class;
	table[1] = (uintptr_t)info;
	group[0] = (uintptr_t)&table[2];
	put_string(3, "7");
	put_string(7, "tensor");
	answers = 0;
	strcpy(folder, "/tmp/ranktrace-reader-XXXXXX");
	context.base = event_base_new();
	identify = (struct comm_identify){&context, on_answered, NULL, NULL};
	rows = (struct comm_rows){0};
	comm_rows_note(&rows, &(struct coll_communicator){.family = "nccl",
				      .address = 0xc0,
				      .since_ns = 1,
				      .communicator = "",
				      .process_group = (uintptr_t)group});
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return !mkdtemp(folder) || workers_new(context.base, &context.workers) < 0;
}

static int stop(void **state)
{
	char command[128];

	comm_identify_cancel(&identify);
	context.workers = workers_free(context.workers);
	event_base_free(context.base);
	comm_rows_free(&rows);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command); /* NOLINT: a name of mkdtemp() */
}

static void ask(void)
{
	const struct rank rank = {.pid = (uint32_t)getpid(), .instance = 5, .slot = 3};
	struct comm_row *comm = comm_rows_next(&rows);
	uint64_t before_ns = monotonic_ns();

	assert_non_null(comm);
	assert_true(comm_identify(&identify, &rank, &rows, comm));
	assert_false(comm_identify(&identify, &rank, &rows, comm));
	assert_true(monotonic_ns() - before_ns < NSEC_PER_SEC / 2);
	assert_int_equal(answers, 0);
	while (!answers)
		assert_int_equal(event_base_loop(context.base, EVLOOP_ONCE), 0);
	assert_int_equal(asked.slot, 3);
	assert_int_equal(asked.instance, 5);
	assert_int_equal(asked.address, 0xc0);
	assert_true(asked.for_name);
}

TEST_WITH(test_name, start, stop)
{
	setenv("RANKTRACE_LIBEXEC", READER_FOLDER, 1);
	ask();
	assert_string_equal(answer.name, "tensor");
	assert_int_equal(asked.again_ns, 0);
}

/* As where the memory is a page of a file server that does not answer. */
TEST_WITH(test_silent_reader, start, stop)
{
	char path[128];
	FILE *program;

	snprintf(path, sizeof(path), "%s/worker", folder);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/worker/reader", folder);
	program = fopen(path, "we");
	assert_non_null(program);
	fputs("#!/bin/sh\nexec sleep 60\n", program);
	assert_int_equal(fchmod(fileno(program), 0755), 0);
	fclose(program);
	setenv("RANKTRACE_LIBEXEC", folder, 1);
	ask();
	assert_true(asked.again_ns > monotonic_ns());
	assert_string_equal(answer.name, "");
	assert_non_null(strstr(answer.reason, "took too long"));
}

TEST_WITH(test_cancelled, start, stop)
{
	const struct rank rank = {.pid = (uint32_t)getpid()};

	setenv("RANKTRACE_LIBEXEC", READER_FOLDER, 1);
	assert_true(comm_identify(&identify, &rank, &rows, comm_rows_next(&rows)));
	comm_identify_cancel(&identify);
	for (unsigned i = 0; i < 50; i++) {
		assert_true(event_base_loop(context.base, EVLOOP_NONBLOCK) >= 0);
		usleep(1000);
	}
	assert_int_equal(answers, 0);
}

TEST(test_bad_answers)
{
	struct comm_answer good = {.identity = 1, .member = 1, .members = 2, .name = "x"}, bad, taken;
	struct worker_reply reply = {.end = WORKER_ANSWERED, .data = (const void *)&bad, .size_bytes = sizeof(bad)};

	bad = good;
	assert_int_equal(comm_reader_take(&reply, &taken), 0);
	assert_string_equal(taken.name, "x");
	memset(bad.name, 'x', sizeof(bad.name));
	assert_int_equal(comm_reader_take(&reply, &taken), -EBADMSG);
	bad = good;
	bad.reason[0] = '\033';
	assert_int_equal(comm_reader_take(&reply, &taken), -EBADMSG);
	bad = good;
	bad.member = 2;
	assert_int_equal(comm_reader_take(&reply, &taken), -EBADMSG);
	bad = good;
	reply.size_bytes--;
	assert_int_equal(comm_reader_take(&reply, &taken), -EBADMSG);
	reply = (struct worker_reply){.end = WORKER_TIMED_OUT};
	assert_int_equal(comm_reader_take(&reply, &taken), -EBADMSG);
}

TEST_MAIN(NULL, NULL)
