/* SPDX-License-Identifier: Apache-2.0 */
/* Whose request is handled next: a user with many clients makes nobody else wait for all of them. */
#define TEST_ALONE /* has a file of the daemon within */
#include "daemon/control/control.c"

#include "tests/test.h"

#define CLIENTS 24

static struct control control;
static struct client clients[CLIENTS];

static int setup(void **state)
{
	memset(&control, 0, sizeof(control));
	memset(clients, 0, sizeof(clients));
	LIST_INIT(&control.clients);
	for (size_t i = 0; i < CLIENTS; i++)
		LIST_INSERT_HEAD(&control.clients, &clients[i], link);
	return 0;
}

static void asks(size_t from, size_t to, uid_t uid)
{
	for (size_t i = from; i < to; i++) {
		clients[i].peer.uid = uid;
		clients[i].asks = true;
	}
}

/* As control_client_serve(), without an answer. */
static uid_t serve_next(void)
{
	struct client *next = control_next(&control);

	assert_non_null(next);
	next->asks = false;
	control.served[control.serves++ % SERVED_USERS] = next->peer.uid;
	return next->peer.uid;
}

TEST_WITH(test_users_in_turn, setup, NULL)
{
	assert_null(control_next(&control));
	asks(0, 16, 666);
	asks(16, 18, 1000);
	asks(18, 19, 0);
	/* The oldest connection first; then who was not served yet. */
	assert_int_equal(serve_next(), 666);
	assert_int_equal(serve_next(), 1000);
	assert_int_equal(serve_next(), 0);
	assert_int_equal(serve_next(), 666);
	assert_int_equal(serve_next(), 1000);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(serve_next(), 666);
	/* Who comes back waits for one request at most, also after many. */
	asks(0, 16, 666);
	asks(18, 19, 0);
	assert_int_equal(serve_next(), 0);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(serve_next(), 666);
	asks(0, 1, 666);
	asks(16, 17, 1000);
	assert_int_equal(serve_next(), 1000);
	assert_int_equal(serve_next(), 666);
	assert_null(control_next(&control));
}

TEST_MAIN(NULL, NULL)
