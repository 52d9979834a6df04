/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that cannot be read now are retried. */
#include "daemon/coll/comms.h"

#include "tests/test.h"

static struct comm_rows comms;

static void note(uint64_t address, const char *communicator)
{
	comm_rows_note(
		&comms, &(struct coll_communicator){
				.family = "gloo", .address = address, .since_ns = 5, .communicator = communicator});
}

static struct comm_row *asked(void)
{
	struct comm_row *comm = comm_rows_next(&comms);

	assert_non_null(comm);
	comm->asked = true;
	comm->dirty = false;
	comms.dirty--;
	return comm;
}

TEST(test_later)
{
	note(0x10, "");
	note(0x20, "");
	assert_int_equal(asked()->address, 0x10);
	assert_int_equal(asked()->address, 0x20);
	comm_rows_defer(&comms, "gloo", 0x20, 1000);
	comm_rows_defer(&comms, "gloo", 0x20, 2000);
	comm_rows_defer(&comms, "gloo", 0x30, 1000); /* nobody knows it */
	comm_rows_defer(&comms, "nccl", 0x10, 1000);
	comm_rows_retry(&comms, 1999);
	assert_null(comm_rows_next(&comms));
	comm_rows_retry(&comms, 2000);
	assert_non_null(comm_rows_next(&comms));
	assert_int_equal(comm_rows_next(&comms)->address, 0x20);
	assert_false(comm_rows_next(&comms)->asked);
	(void)asked();
	comm_rows_retry(&comms, 3000); /* once */
	assert_null(comm_rows_next(&comms));
	note(0x20, "00000000000000ab");
	(void)asked();
	comm_rows_defer(&comms, "gloo", 0x20, 4000); /* it is known by now */
	comm_rows_retry(&comms, 5000);
	assert_null(comm_rows_next(&comms));
	comm_rows_free(&comms);
}

TEST_MAIN(NULL, NULL)
