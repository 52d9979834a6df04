/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of what hardware says of itself. */
#include <stdio.h>
#include <string.h>

#include "analyzers/detect/detect.h"

#include "tests/test.h"

#define SECOND 1000000000ULL
#define BEGIN_NS (1000 * SECOND)
#define FOUND_MAX 512

static struct detect *detect;
static struct hardware *node;
static struct finding found[FOUND_MAX]; /* as published last, by id */
static size_t founds, published;
static uint64_t now_ns;

static void on_finding(void *arg, const struct finding *finding)
{
	size_t i = 0;

	published++;
	while (i < founds && found[i].id != finding->id)
		i++;
	assert_true(i < FOUND_MAX);
	found[i] = *finding;
	founds += i == founds;
}

static int rank_new(const char *job, int32_t rank, const char *host, const char *card)
{
	return align_rank_new(detect_align(detect), &(struct align_rank){.job = job,
							    .rank = rank,
							    .world_size = 4,
							    .host = host,
							    .card = card,
							    .start_ns = BEGIN_NS,
							    .uid = 0});
}

/* Ranks 0 and 1 of job "one" use the cards with the device nodes 0 and 3 of node-a; rank 3 uses card 3 of node-b. */
static int setup(void **state)
{
	struct detect_options options;

	detect_options_default(&options);
	detect = detect_new(&options, &(struct detect_sink){.finding = on_finding});
	founds = published = 0;
	now_ns = BEGIN_NS;
	if (!detect || rank_new("one", 0, "node-a", "0") < 0 || rank_new("one", 1, "node-a", "3") < 0 ||
		rank_new("one", 3, "node-b", "3") < 0)
		return -1;
	node = detect_hardware(detect, "node-a");
	hardware_card(node, &(struct hardware_card){"GPU-00001111-2222", "0000:1B:00.0", 0});
	hardware_card(node, &(struct hardware_card){"GPU-33334444-5555", "0000:3B:00.0", 3});
	return 0;
}

static int teardown(void **state)
{
	detect_free(detect);
	return 0;
}

static void wait_s(unsigned s)
{
	now_ns += s * SECOND;
	detect_advance(detect, now_ns);
}

static void gauge(const char *object, const char *name, double value)
{
	hardware_gauge(node, now_ns, object, name, value);
}

static void xid(const char *pci, int64_t number, const char *text)
{
	hardware_message(node, now_ns, "xid", pci, number, text);
}

static const struct finding *only(void)
{
	assert_int_equal(founds, 1);
	assert_int_equal(found[0].kind, FINDING_HARDWARE);
	return &found[0];
}

/* The kernel's two messages, and NVML's answer, are one finding; it ends ten minutes after the card answers again. */
TEST_WITH(a_lost_card, setup, teardown)
{
	const struct finding *f;

	gauge("GPU-33334444-5555", "lost", 0);
	assert_int_equal(founds, 0);
	xid("0000:3b:00", 79, "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.");
	f = only();
	assert_int_equal(f->cause, CAUSE_CARD_LOST);
	assert_int_equal(f->severity, SEVERITY_CRITICAL);
	assert_int_equal(f->state, FINDING_OPEN);
	assert_int_equal(f->rank, 1);
	assert_string_equal(f->job, "one");
	assert_string_equal(f->card, "3");
	assert_string_equal(f->host, "node-a");
	assert_int_equal(f->since_ns, BEGIN_NS);
	assert_string_equal(f->sentence, "card 3 of node-a (rank 1) has fallen off the bus, or needs a reset (Xid 79: "
					 "GPU has fallen off the bus)");
	assert_string_equal(f->evidence[1].name, "card");
	assert_string_equal(f->evidence[1].detail, "GPU-33334444-5555 0000:3B:00.0");
	hardware_message(node, now_ns, "card_lost", "0000:3b:00.0", 0, "NVRM: GPU 0000:3b:00.0: GPU has fallen off");
	for (unsigned s = 0; s < 3600; s++) {
		wait_s(1);
		gauge("GPU-33334444-5555", "lost", 1);
	}
	/* Opened, held by NVML from then on: what only goes on is not published again and again. */
	assert_in_range(published, 2, 4);
	assert_int_equal(only()->state, FINDING_OPEN);
	gauge("GPU-33334444-5555", "lost", 0);
	wait_s(599);
	assert_int_equal(only()->state, FINDING_OPEN);
	wait_s(1);
	f = only();
	assert_int_equal(f->state, FINDING_CLOSED);
	assert_int_equal(f->until_ns, BEGIN_NS + 3600 * SECOND);
	assert_string_equal(f->sentence, "card 3 of node-a (rank 1) had fallen off the bus, or needed a reset (Xid 79: "
					 "GPU has fallen off the bus)");
	/* Another time is another finding. */
	gauge("GPU-33334444-5555", "lost", 1);
	assert_int_equal(founds, 2);
}

/* A card that nobody uses, and one that its driver never described. */
TEST_WITH(cards_without_ranks, setup, teardown)
{
	hardware_card(node, &(struct hardware_card){"GPU-77778888-9999", "0000:5e:00.0", 7});
	xid("0000:5e:00", 31, "NVRM: Xid (PCI:0000:5e:00): 31, MMU fault");
	assert_string_equal(found[0].sentence, "card 7 of node-a reports Xid 31 (GPU memory page fault)");
	assert_int_equal(found[0].rank, -1);
	assert_string_equal(found[0].job, "");
	xid("0001:90:00", 31, "");
	assert_string_equal(found[1].sentence, "card 0001:90:00 of node-a reports Xid 31 (GPU memory page fault)");
}

/* By the catalogue's immediate action. Each error is a finding of its own, memory's are one. */
TEST_WITH(xids, setup, teardown)
{
	static const struct {
		int64_t number;
		enum finding_severity severity;
		enum finding_cause cause;
		size_t founds;
	} expected[] = {
		{43, SEVERITY_INFO, CAUSE_CARD_ERROR, 1},
		{13, SEVERITY_WARNING, CAUSE_CARD_ERROR, 2},
		{119, SEVERITY_CRITICAL, CAUSE_CARD_ERROR, 3},
		{119, SEVERITY_CRITICAL, CAUSE_CARD_ERROR, 3},
		{9999, SEVERITY_WARNING, CAUSE_CARD_ERROR, 4},
		{63, SEVERITY_INFO, CAUSE_CARD_MEMORY, 5},
		{94, SEVERITY_WARNING, CAUSE_CARD_MEMORY, 5},
		{48, SEVERITY_CRITICAL, CAUSE_CARD_MEMORY, 5},
		{63, SEVERITY_CRITICAL, CAUSE_CARD_MEMORY, 5},
		{74, SEVERITY_CRITICAL, CAUSE_CARD_NVLINK, 6},
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		size_t at = expected[i].founds - 1;

		xid("0000:1b:00", expected[i].number, "");
		assert_int_equal(founds, expected[i].founds);
		assert_int_equal(found[at].severity, expected[i].severity);
		assert_int_equal(found[at].cause, expected[i].cause);
	}
	assert_string_equal(found[3].sentence, "card 0 of node-a (rank 0) reports Xid 9999");
	assert_string_equal(found[4].sentence,
		"card 0 of node-a (rank 0) reports errors of its memory (Xid 48: double bit ECC error)");
	wait_s(10);
	assert_true(found[4].evidence[0].value == 4);
	/* Of the newer links' numbers the message says how grave. */
	xid("0000:3b:00", 149, "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 02");
	assert_int_equal(found[6].severity, SEVERITY_WARNING);
	xid("0000:3b:00", 149, "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 02");
	assert_int_equal(found[6].severity, SEVERITY_CRITICAL);
	assert_int_equal(founds, 7);
	/* What cannot be. */
	xid("0000:3b:00", 0, "");
	xid("", 79, "");
	hardware_message(node, now_ns, "oom_kill", "python", 4711, "");
	assert_int_equal(founds, 7);
}

TEST_WITH(memory, setup, teardown)
{
	gauge("GPU-00001111-2222", "ecc_uncorrected", 5);
	gauge("GPU-00001111-2222", "rows_remap_pending", 0);
	wait_s(1);
	gauge("GPU-00001111-2222", "ecc_uncorrected", 2); /* the driver was loaded anew */
	gauge("GPU-00001111-2222", "rows_remap_pending", 1);
	assert_int_equal(only()->severity, SEVERITY_NOTICE);
	assert_string_equal(only()->sentence,
		"card 0 of node-a (rank 0) reports errors of its memory (a row is replaced at the next reset)");
	wait_s(1);
	gauge("GPU-00001111-2222", "ecc_uncorrected", 4);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
	assert_string_equal(
		only()->sentence, "card 0 of node-a (rank 0) reports errors of its memory (not corrected by ECC)");
	assert_true(only()->evidence[0].value == 3);
	/* It is pending until the reset. */
	wait_s(1000);
	assert_int_equal(only()->state, FINDING_OPEN);
	gauge("GPU-00001111-2222", "rows_remap_pending", 0);
	wait_s(600);
	assert_int_equal(only()->state, FINDING_CLOSED);
}

TEST_WITH(links_of_a_card, setup, teardown)
{
	gauge("GPU-00001111-2222", "nvlinks_up", 18);
	gauge("GPU-00001111-2222", "pcie_width", 16);
	gauge("GPU-00001111-2222", "nvlink_recoveries", 0);
	gauge("GPU-00001111-2222", "nvlinks_up", 17);
	assert_int_equal(found[0].severity, SEVERITY_CRITICAL);
	assert_int_equal(found[0].cause, CAUSE_CARD_NVLINK);
	assert_string_equal(found[0].sentence,
		"card 0 of node-a (rank 0) reports errors of its NVLinks (fewer links are up than 18 before)");
	gauge("GPU-00001111-2222", "pcie_width", 8);
	assert_int_equal(found[1].cause, CAUSE_CARD_PCIE);
	assert_int_equal(found[1].severity, SEVERITY_WARNING);
	assert_string_equal(found[1].sentence, "card 0 of node-a (rank 0) has 8 PCIe lanes (16 before)");
	gauge("GPU-33334444-5555", "nvlink_recoveries", 7); /* from before */
	gauge("GPU-33334444-5555", "nvlink_recoveries", 8);
	assert_int_equal(found[2].severity, SEVERITY_WARNING);
	assert_string_equal(found[2].sentence, "card 3 of node-a (rank 1) reports errors of its NVLinks (recoveries)");
	gauge("npu0/0", "health", 1);
	assert_int_equal(founds, 3);
	gauge("npu0/0", "health", 2);
	assert_string_equal(found[3].sentence,
		"card npu0/0 of node-a reports an alarm of grade 2 (of 3; 2 is important, 3 critical)");
}

/* Once may be maintenance. */
TEST_WITH(a_port_that_flaps, setup, teardown)
{
	gauge("eth0", "link_changes", 1);
	gauge("eth0", "link_changes", 3);
	assert_int_equal(only()->severity, SEVERITY_NOTICE);
	assert_int_equal(only()->side, FINDING_SIDE_UNKNOWN);
	assert_string_equal(only()->sentence, "network port eth0 of node-a loses its link (once)");
	wait_s(30);
	gauge("eth0", "link_changes", 4);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	assert_string_equal(only()->sentence, "network port eth0 of node-a loses its link (2 times)");
	gauge("mlx5_0/1", "link_downed", 0);
	gauge("mlx5_0/1", "active", 1);
	gauge("mlx5_0/1", "link_downed", 1);
	gauge("mlx5_0/1", "active", 0);
	assert_int_equal(found[1].severity, SEVERITY_CRITICAL);
	assert_string_equal(found[1].sentence, "network port mlx5_0/1 of node-a loses its link (down now)");
	wait_s(20);
	gauge("mlx5_0/1", "active", 1);
	wait_s(20);
	assert_string_equal(found[1].sentence, "network port mlx5_0/1 of node-a loses its link (once)");
	wait_s(600);
	assert_string_equal(found[1].sentence, "network port mlx5_0/1 of node-a lost its link (once)");
	assert_string_equal(found[0].sentence, "network port eth0 of node-a lost its link (2 times)");
	assert_string_equal(found[1].card, "mlx5_0/1");
}

/* A storm is published every ten seconds. */
TEST_WITH(a_storm, setup, teardown)
{
	for (unsigned s = 0; s < 100; s++) {
		for (unsigned i = 0; i < 100; i++)
			xid("0000:3b:00", 13, "");
		wait_s(1);
	}
	wait_s(10);
	assert_in_range(published, 10, 12);
	assert_true(only()->evidence[0].value == 13);
}

/* Two ranks of one card; a card that its rank names by UUID; a rank that has ended leaves its name. */
TEST_WITH(users, setup, teardown)
{
	int process = rank_new("two", 2, "node-a", "GPU-aaaabbbb-cccc-dddd-eeee-ffff00001111");

	assert_true(rank_new("one", 2, "node-a", "3") >= 0);
	xid("0000:3b:00", 31, "");
	assert_int_equal(found[0].rank, -1);
	assert_string_equal(found[0].others, "1,2");
	assert_string_equal(found[0].sentence, "card 3 of node-a (ranks 1,2) reports Xid 31 (GPU memory page fault)");
	hardware_card(node, &(struct hardware_card){"GPU-aaaabbbb-cccc-dddd-eeee-ffff00001111", "0000:99:00.0", 5});
	xid("0000:99:00", 13, "");
	assert_int_equal(found[1].rank, 2);
	assert_string_equal(found[1].job, "two");
	align_rank_end(detect_align(detect), process, now_ns);
	wait_s(700);
	assert_int_equal(found[1].state, FINDING_CLOSED);
	assert_int_equal(found[1].rank, 2);
	/* Of another node's card of that number. */
	hardware_card(detect_hardware(detect, "node-b"), &(struct hardware_card){"GPU-other", "0000:3b:00.0", 3});
	hardware_message(detect_hardware(detect, "node-b"), now_ns, "xid", "0000:3b:00", 31, "");
	assert_int_equal(found[2].rank, 3);
	assert_string_equal(found[2].host, "node-b");
}

/* Names of things come from outside. */
TEST_WITH(bounds, setup, teardown)
{
	char object[32];

	for (unsigned i = 0; i < 2 * HARDWARE_THINGS_MAX; i++) {
		snprintf(object, sizeof(object), "eth%u", i);
		gauge(object, "link_changes", 0);
		gauge(object, "link_changes", 2);
	}
	assert_int_equal(founds, HARDWARE_EPISODES_MAX);
	wait_s(700);
	for (size_t i = 0; i < founds; i++)
		assert_int_equal(found[i].state, FINDING_CLOSED);
	for (int64_t number = 1000; number < 1000 + 2 * HARDWARE_EPISODES_MAX; number++)
		xid("0000:3b:00", number, "");
	assert_int_equal(founds, 2 * HARDWARE_EPISODES_MAX);
	detect_end(detect);
}

TEST_MAIN(NULL, NULL)
