/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/failslow.h"


#include <math.h>
#include <string.h>

#define NORMAL 1.4826
#define SIGMA_MIN 0.1 /* of the median */
#define RATIO 1.5
#define Z 5
#define OF_STEP 0.05

static bool is_slow(struct checkpoints *checkpoints, double excess_ns, double step_ns)
{
	double value[CHECKPOINTS_REFERENCE], median, sigma;

	if (checkpoints->count < CHECKPOINTS_NEEDED)
		return false;
	memcpy(value, checkpoints->excess_ns, checkpoints->count * sizeof(*value));
	checkpoints->median_ns = median = failslow_median(value, checkpoints->count);
	for (size_t i = 0; i < checkpoints->count; i++)
		value[i] = fabs(value[i] - median);
	sigma = fmax(SIGMA_MIN * median, NORMAL * failslow_median(value, checkpoints->count));
	return excess_ns > RATIO * median && excess_ns - median > Z * sigma && excess_ns - median > OF_STEP * step_ns;
}

void checkpoints_feed(
	struct checkpoints *checkpoints, uint64_t step, uint64_t time_ns, double excess_ns, double step_ns)
{
	if (checkpoints->any && step > checkpoints->last_step && step - checkpoints->last_step > checkpoints->distance)
		checkpoints->distance = step - checkpoints->last_step;
	checkpoints->any = true;
	checkpoints->last_step = step;
	checkpoints->last_ns = excess_ns;
	if (!is_slow(checkpoints, excess_ns, step_ns)) {
		checkpoints->slow = 0;
		checkpoints->excess_ns[checkpoints->next] = excess_ns;
		checkpoints->next = (checkpoints->next + 1) % CHECKPOINTS_REFERENCE;
		if (checkpoints->count < CHECKPOINTS_REFERENCE)
			checkpoints->count++;
		return;
	}
	if (checkpoints->slow++ == 0) {
		checkpoints->onset_step = step;
		checkpoints->onset_ns = time_ns;
	}
}

void checkpoints_pass(struct checkpoints *checkpoints, uint64_t step)
{
	uint64_t gone = step > checkpoints->last_step ? step - checkpoints->last_step : 0;

	if (checkpoints->slow > 0 && (gone > 2 * checkpoints->distance || step < checkpoints->last_step))
		checkpoints->slow = 0;
}
