/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of one node and of several to the detectors: what is found is what the daemon finds of the same events. */
#include "analyzers/offline/clocks.h"
#include "analyzers/offline/merge.h"
#include "analyzers/offline/store_feed.h"
#include "tests/unit/offline_script.h"

#define FEEDS_MAX 4

static unsigned warned_of;

static void on_warning(void *arg, const char *sentence)
{
	assert_true(sentence[0]);
	warned_of++;
}

static struct clocks_store clocks[FEEDS_MAX];

/* Names of stores below dir, ended by NULL. */
static void compare(const char *const *names)
{
	static char path[FEEDS_MAX][PATH_MAX];
	size_t count = 0;

	for (; names[count]; count++) {
		snprintf(path[count], sizeof(path[count]), "%s/%s", dir, names[count]);
		clocks[count] = (struct clocks_store){.path = path[count]};
	}
	assert_int_equal(clocks_compare(clocks, count), 0);
}

static void analyze(const char *const *names, const struct store_feed_options *all_of, struct off_found *found)
{
	const struct merge_options merging = {.warning = on_warning};
	struct store_feed *feed[FEEDS_MAX] = {NULL};
	struct source source[FEEDS_MAX];
	struct detect *detect = off_detect(found);
	char error[512] = "", path[PATH_MAX];
	uint64_t end_ns;
	size_t count = 0, failed;
	struct store_feed_options how = *all_of;

	compare(names);
	for (; names[count]; count++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[count]);
		how.offset_ns = clocks[count].offset_ns;
		if (store_feed_open(path, &how, &feed[count], error, sizeof(error)) < 0)
			fail_msg("%s", error);
		source[count] = (struct source){&store_feed_source, feed[count]};
	}
	assert_int_equal(merge_run(source, count, detect, &merging, &end_ns, &failed), 0);
	assert_int_equal(failed, 0);
	for (size_t i = 0; i < count; i++)
		store_feed_close(feed[i]);
	detect_free(detect);
}

static const struct store_feed_options all = {.warning = on_warning};

static void assert_same(const struct off_found *a, const struct off_found *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct finding *x = &a->finding[i], *y = &b->finding[i];

		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->cause, y->cause);
		assert_int_equal(x->activity, y->activity);
		assert_int_equal(x->side, y->side);
		assert_int_equal(x->severity, y->severity);
		assert_int_equal(x->state, y->state);
		assert_int_equal(x->rank, y->rank);
		assert_int_equal(x->tier, y->tier);
		assert_int_equal(x->since_step, y->since_step);
		assert_int_equal(x->since_ns, y->since_ns);
		assert_int_equal(x->noticed_ns, y->noticed_ns);
		assert_int_equal(x->until_ns, y->until_ns);
		assert_true(x->cost_card_hours == y->cost_card_hours && x->slowdown == y->slowdown);
		assert_string_equal(x->sentence, y->sentence);
	}
}

/* The same events online, and through a store. */
static void parity(bool ops)
{
	static struct off_found online, offline;
	struct detect *detect;

	off_make("job", ops, false);
	detect = off_detect(&online);
	off_online(detect);
	detect_free(detect);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	analyze((const char *const[]){"node-a", NULL}, &all, &offline);
	assert_non_null(off_only(&online, FINDING_SLOW_RANK));
	assert_int_equal(off_only(&online, FINDING_SLOW_RANK)->rank, OFF_SLOW);
	assert_int_equal(off_only(&online, FINDING_SLOW_RANK)->cause, CAUSE_DATALOADER);
	assert_same(&online, &offline);
}

TEST_WITH(test_parity_stages, store_setup, store_teardown)
{
	parity(false);
}

TEST_WITH(test_parity_ops, store_setup, store_teardown)
{
	parity(true);
}

TEST_WITH(test_healthy, store_setup, store_teardown)
{
	static struct off_found found;

	off_make("job", true, true);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	analyze((const char *const[]){"node-a", NULL}, &all, &found);
	assert_int_equal(found.count, 0);
}

/* Two jobs without a name, begun together, on one node. Only the first one has a slow rank. */
static void side_by_side(int64_t launcher_pid, int64_t port)
{
	static struct off_found found;
	const struct finding *slow;

	for (int job = 0; job < 2; job++) {
		off_make("", false, job == 1);
		off.jobs = 2;
		off.number = job;
		off.launcher_pid = launcher_pid + (port ? 0 : job);
		off.port = port ? port + job : 0;
		off_write("node-a", 0, OFF_RANKS - 1, 0);
	}
	analyze((const char *const[]){"node-a", NULL}, &all, &found);
	slow = off_only(&found, FINDING_SLOW_RANK);
	assert_non_null(slow);
	assert_int_equal(slow->rank, OFF_SLOW);
	assert_int_equal(slow->activity, ACTIVITY_DATALOADER);
}

TEST_WITH(test_side_by_side, store_setup, store_teardown)
{
	side_by_side(77, 29500);
}

TEST_WITH(test_side_by_side_launchers, store_setup, store_teardown)
{
	side_by_side(77, 0);
}

static void put_gauge(struct store *store, uint64_t start_ns, const char *object, const char *name, double value)
{
	store_put_gauges(store, &(struct row_gauges){.start_ns = field_time((int64_t)start_ns),
					.duration_ns = field_duration(NSEC_PER_SEC),
					.source = field_text("test"),
					.object = field_text(object),
					.name = field_text(name),
					.value = field_real(value),
					.unit = field_text("1")});
}

/* What hardware said of itself, in the tables of the daemon. */
TEST_WITH(test_hardware, store_setup, store_teardown)
{
	static struct off_found found;
	struct store *store;

	off_make("job", false, true);
	store = off_store("node-a");
	store_put_cards(store, &(struct row_cards){.object = field_text("GPU-00001111"),
				       .pci = field_text("0000:3b:00.0"),
				       .minor = field_int(1),
				       .card_key = field_int(1)});
	put_gauge(store, off.begin_ns + 20 * NSEC_PER_SEC, "eth0", "link_changes", 4);
	put_gauge(store, off.begin_ns + 20 * NSEC_PER_SEC, "cpu0", "busy", 0.5);
	put_gauge(store, off.begin_ns + 21 * NSEC_PER_SEC, "eth0", "link_changes", 6);
	store_put_kernel_messages(
		store, &(struct row_kernel_messages){
			       .start_ns = field_time((int64_t)off.begin_ns + 30 * (int64_t)NSEC_PER_SEC),
			       .kind = field_text("xid"),
			       .object = field_text("0000:3b:00"),
			       .number = field_int(31),
			       .message = field_text("NVRM: Xid (PCI:0000:3b:00): 31, pid=1")});
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_close(store);
	off_write("node-a", 0, OFF_RANKS - 1, 0);
	analyze((const char *const[]){"node-a", NULL}, &all, &found);
	assert_int_equal(found.count, 2);
	assert_string_equal(found.finding[0].sentence, "network port eth0 of node-a loses its link (once)");
	assert_int_equal(found.finding[0].since_ns, off.begin_ns + 21 * NSEC_PER_SEC);
	assert_string_equal(
		found.finding[1].sentence, "card 1 of node-a (ranks 1,3) reports Xid 31 (GPU memory page fault)");
	assert_int_equal(found.finding[1].since_ns, off.begin_ns + 30 * NSEC_PER_SEC);
}

static void nodes(int64_t skew_ns, bool ops)
{
	static struct off_found found;
	const struct finding *slow;

	off_make("job", ops, false);
	off_write("node-a", 0, 1, 0);
	off_write("node-b", 2, 3, skew_ns);
	analyze((const char *const[]){"node-a", "node-b", NULL}, &all, &found);
	slow = off_only(&found, FINDING_SLOW_RANK);
	assert_non_null(slow);
	assert_int_equal(slow->rank, OFF_SLOW);
	assert_int_equal(slow->cause, CAUSE_DATALOADER);
	assert_string_equal(slow->host, "node-b");
	assert_true(
		llabs(clocks[1].offset_ns + (llabs(skew_ns) < CLOCKS_APART_NS ? 0 : skew_ns)) < 20 * (int64_t)OFF_MS);
	assert_int_equal(slow->activity, ACTIVITY_DATALOADER);
	assert_int_equal(slow->severity, SEVERITY_WARNING);
	assert_in_range(slow->since_step, OFF_FROM - 9, OFF_FROM + 5); /* the tick of a second that it began in */
}

TEST_WITH(test_nodes, store_setup, store_teardown)
{
	nodes(0, true);
}

TEST_WITH(test_nodes_skew, store_setup, store_teardown)
{
	nodes(700000000, true);
}

TEST_WITH(test_nodes_stages, store_setup, store_teardown)
{
	nodes(-300000000, false);
}

TEST_WITH(test_nodes_far, store_setup, store_teardown)
{
	nodes(7200LL * 1000000000, true);
}

TEST_WITH(test_nodes_far_stages, store_setup, store_teardown)
{
	nodes(-100LL * 1000000000, false);
}

TEST_MAIN(NULL, NULL)
