/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of specifications: shared, kept for late records, taken from the one unused longest. */
#include "daemon/probes/call_engine.h"

#include "tests/test.h"

static struct probe probes[4];
static const struct rt_call_spec plain = {.edge = RT_EDGE_SPAN}, other = {.edge = RT_EDGE_SPAN, .args = 1};

static uint32_t take(
	struct specs *specs, const struct probe *probe, const struct rt_call_spec *spec, uint64_t now_ns, bool fresh)
{
	uint32_t id = UINT32_MAX;
	bool is_fresh = !fresh;

	assert_int_equal(specs_take(specs, probe, spec, now_ns, &id, &is_fresh), 0);
	assert_int_equal(is_fresh, fresh);
	return id;
}

TEST(test_shared)
{
	struct specs specs = {.limit = 4};
	uint32_t a = take(&specs, &probes[0], &plain, 10, true);

	assert_int_equal(take(&specs, &probes[0], &plain, 20, false), a);
	assert_int_not_equal(take(&specs, &probes[0], &other, 20, true), a); /* the same row, read otherwise */
	assert_int_not_equal(take(&specs, &probes[1], &plain, 20, true), a);
	assert_ptr_equal(specs_probe(&specs, a, 10), &probes[0]);
	assert_null(specs_probe(&specs, a, 9));
	assert_null(specs_probe(&specs, 3, 100));
	assert_null(specs_probe(&specs, 4, 100));
	assert_null(specs_probe(&specs, UINT32_MAX, 100));
}

TEST(test_late_records)
{
	struct specs specs = {.limit = 2};
	uint32_t a = take(&specs, &probes[0], &plain, 10, true), b = take(&specs, &probes[1], &plain, 10, true), c;
	bool fresh;

	specs_drop(&specs, b, 30);
	specs_drop(&specs, a, 31);
	assert_ptr_equal(specs_probe(&specs, b, 29), &probes[1]); /* a record that waited in the ring */
	assert_int_equal(take(&specs, &probes[1], &plain, 40, false), b);
	specs_drop(&specs, b, 41);
	c = take(&specs, &probes[2], &plain, 50, true);
	assert_int_equal(c, a); /* unused longest */
	assert_null(specs_probe(&specs, c, 49));
	assert_ptr_equal(specs_probe(&specs, c, 50), &probes[2]);
	assert_int_equal(take(&specs, &probes[1], &plain, 60, false), b);
	assert_int_equal(specs_take(&specs, &probes[3], &plain, 61, &c, &fresh), -ENOSPC);
	specs_drop(&specs, b, 62);
	specs_drop(&specs, b, 63); /* one too many does nothing */
	assert_int_equal(take(&specs, &probes[3], &plain, 70, true), b);
}

TEST(test_none)
{
	struct specs specs = {.limit = 0};
	uint32_t id;
	bool fresh;

	assert_int_equal(specs_take(&specs, &probes[0], &plain, 1, &id, &fresh), -ENOSPC);
}

TEST_MAIN(NULL, NULL)
