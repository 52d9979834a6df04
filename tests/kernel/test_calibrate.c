/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration in the running kernel: what a hit costs by kind of probe, in the order that it must have. */

#include "daemon/core/context.h"
#include "daemon/guard/guard_internal.h"
#include "daemon/kernel/kernel.h"

#include "tests/test.h"

TEST(kinds_of_probes_cost_what_they_are)
{
	static struct context context;
	struct guard_model model = {0};
	int r;

	config_defaults(&context.config);
	context.config.ring_size_bytes = 1u << 16;
	context.config.ranks_max = 8;
	assert_int_equal(kernel_open(&context, &context.kernel), 0);
	r = guard_calibrate(context.kernel, &model);
	for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++)
		printf("kind %d: %.0f ns warm, %.0f ns cold\n", (int)kind, model.hot_ns[kind], model.cold_ns[kind]);
	printf("found in %.0f ns warm, %.0f ns cold; spread %.2f\n", model.find_hot_ns, model.find_cold_ns,
		model.spread);
	kernel_close(context.kernel);
	if (r == -EOPNOTSUPP)
		skip();
	assert_int_equal(r, 0);
	assert_true(model.hot_ns[RT_COST_EMULATED] > 0);
	assert_true(model.hot_ns[RT_COST_STEPPED] > model.hot_ns[RT_COST_EMULATED]);
	assert_true(model.hot_ns[RT_COST_TRACEPOINT] < model.hot_ns[RT_COST_EMULATED]);
	for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++)
		assert_true(model.cold_ns[kind] >= model.hot_ns[kind]);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("SKIP: needs root to load BPF programs\n");
		return 77;
	}
	return TEST_RUN(NULL, NULL);
}
