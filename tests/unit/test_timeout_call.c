/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that does not answer holds nobody but the thread that asks it. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/timeout_call.h"
#include "daemon/base/util.h"

#define SOON_NS (20 * NSEC_PER_MSEC)
#define EVER_NS (60 * NSEC_PER_SEC)

static sem_t server, forgotten; /* a question is answered when `server` is posted */

static int answer_late(void *question)
{
	while (sem_wait(&server) < 0)
		;
	return *(int *)question;
}

static int answer_soon(void *question)
{
	return *(int *)question;
}

static void forget(void *question, int answer)
{
	(void)answer;
	free(question);
	sem_post(&forgotten);
}

static void *new_question(int answer)
{
	int *question = malloc(sizeof(*question));

	assert_non_null(question);
	*question = answer;
	return question;
}

static void an_answer_in_time(void **state)
{
	static const struct timeout_call call = {answer_soon, forget};
	void *question = new_question(-EROFS);

	(void)state;
	assert_int_equal(timeout_call_run(&call, &question, EVER_NS), -EROFS);
	assert_non_null(question); /* the caller's again */
	free(question);
}

static void a_call_that_does_not_return(void **state)
{
	static const struct timeout_call late = {answer_late, forget}, soon = {answer_soon, forget};
	void *abandoned = new_question(0), *question = new_question(7);
	int r;

	(void)state;
	assert_int_equal(sem_init(&server, 0, 0), 0);
	assert_int_equal(sem_init(&forgotten, 0, 0), 0);
	assert_int_equal(timeout_call_run(&late, &abandoned, SOON_NS), -ETIMEDOUT);
	assert_null(abandoned);
	/* One thread waits, not one a call. */
	assert_int_equal(timeout_call_run(&soon, &question, EVER_NS), -EBUSY);
	assert_non_null(question);
	/* The abandoned call returns and frees its question; the next call runs. */
	sem_post(&server);
	while (sem_wait(&forgotten) < 0)
		;
	while ((r = timeout_call_run(&soon, &question, EVER_NS)) == -EBUSY)
		usleep(1000);
	assert_int_equal(r, 7);
	free(question);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_in_time),
		cmocka_unit_test(a_call_that_does_not_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
