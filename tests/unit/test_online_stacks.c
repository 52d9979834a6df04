/* SPDX-License-Identifier: Apache-2.0 */
/* Which hangs have their stacks taken and kept: one user's, in any number, take no other's place. */
#define TEST_ALONE /* has a file of the daemon within */
#include "daemon/findings/online_stacks.c"

#include "tests/test.h"

static unsigned afforded(struct online_stacks *stacks, uint32_t uid, uint64_t now_ns, unsigned tries)
{
	unsigned count = 0;

	while (tries--)
		count += online_stacks_afford(stacks, uid, now_ns, false);
	return count;
}

TEST(test_budget)
{
	struct online_stacks stacks = {0};
	uint64_t now_ns = 1000 * NSEC_PER_SEC;

	assert_int_equal(afforded(&stacks, 1000, now_ns, 1), 1);
	assert_int_equal(afforded(&stacks, 666, now_ns, 100), ONLINE_STACKS_BURST);
	assert_int_equal(afforded(&stacks, 1000, now_ns, 100), ONLINE_STACKS_BURST - 1);
	now_ns += 3 * ONLINE_STACKS_NS;
	assert_int_equal(afforded(&stacks, 666, now_ns, 100), 3);
	/* Many users: those beyond the table share the budget that is used least. */
	for (uint32_t uid = 1; uid < ONLINE_STACKS_USERS - 1; uid++)
		assert_int_equal(afforded(&stacks, uid, now_ns, 100), ONLINE_STACKS_BURST);
	assert_int_equal(afforded(&stacks, 5000, now_ns, 100), 3);
	assert_int_equal(afforded(&stacks, 5001, now_ns, 100), 0);
}

TEST(test_places)
{
	struct online_stacks stacks = {0};
	uint64_t id = 1;
	int victim;

	victim = online_stacks_place(&stacks);
	stacks.hang[victim].id = id++;
	stacks.hang[victim].last.uid = 1000;
	for (unsigned i = 0; i < 5 * ONLINE_STACKS_MAX; i++) {
		int at = online_stacks_place(&stacks);

		assert_int_not_equal(at, victim);
		stacks.hang[at].id = id++;
		stacks.hang[at].last.uid = 666;
	}
	/* Of one user, the oldest. */
	for (unsigned i = 0; i < ONLINE_STACKS_MAX; i++) {
		int at = online_stacks_place(&stacks);
		uint64_t oldest = UINT64_MAX;

		for (unsigned j = 0; j < ONLINE_STACKS_MAX; j++)
			if (stacks.hang[j].last.uid == 666 && stacks.hang[j].id < oldest)
				oldest = stacks.hang[j].id;
		assert_int_equal(stacks.hang[at].id, oldest);
		stacks.hang[at].id = id++;
	}
}

/* Hang detection has where the main threads of ranks are; one without Python frames shows that at most of
 * communication. */
TEST(test_note)
{
	const struct stack_frame waits[] = {
		{"native", "gloo::transport::tcp::UnboundBuffer::waitSend", "libtorch_cpu.so", 0, 0}};
	const struct stack_frame load = {"python", "load", "train.py", 7, 0};
	const struct stack_thread in = {.pid = 10, .wait = "", .frames = 1, .frame = waits};
	struct stack_thread out = {.pid = 11, .wait = "", .frames = 1, .frame = &load};
	const struct stack_frame waits_kernel[] = {{"kernel", "futex_wait_queue", "", 0, 0}};
	const struct stack_thread none = {.pid = 11, .wait = "", .frames = 1, .frame = waits_kernel};
	struct online_process process[] = {
		{.instance = 1, .pid = 10}, {.instance = 2, .pid = 11}, {.instance = 3, .pid = 12}};
	struct online *online = calloc(1, sizeof(*online) + sizeof(process));

	assert_non_null(online);
	memcpy(online->slot, process, sizeof(process));
	online->slots = online->slots_used = 3;
	online_stacks_note(online, &in, false, 500);
	online_stacks_note(online, &out, false, 600);
	assert_true(online->slot[0].stack_ns == 500 && online->slot[0].stack == STANDING_STACK_COMMUNICATION);
	assert_true(online->slot[1].stack_ns == 600 && online->slot[1].stack == STANDING_STACK_OTHER);
	assert_true(online->slot[2].stack_ns == 0);
	out.wait = "futex wait on 0x7f00";
	online_stacks_note(online, &out, false, 650);
	assert_true(online->slot[1].stack_ns == 650 && online->slot[1].stack == STANDING_STACK_LOCK);
	/* Another thread of it works. */
	online_stacks_note(online, &out, true, 660);
	assert_true(online->slot[1].stack == STANDING_STACK_OTHER);
	online_stacks_note(online, &none, false, 700);
	assert_true(online->slot[1].stack == STANDING_STACK_UNKNOWN);
	free(online);
}

/* What is taken without a finding leaves half for findings. */
TEST(test_spare)
{
	struct online_stacks stacks = {0};
	unsigned count = 0;

	for (unsigned i = 0; i < 20; i++)
		count += online_stacks_afford(&stacks, 7, 1, true);
	assert_int_equal(count, ONLINE_STACKS_BURST / 2 + 1);
	assert_int_equal(afforded(&stacks, 7, 1, 20), ONLINE_STACKS_BURST / 2 - 1);
}

TEST_MAIN(NULL, NULL)
