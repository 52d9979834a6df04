/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request means something: version, number, levels, values. Asks no other room, so that a fuzzer can have it
 * alone; what passes here may be given to a handler.
 */
#include "daemon/core/levels.h"
#include "daemon/control/request.h"
#include "proto/frame.h"

static int check_set(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	enum level level;

	if (request->n_set == 0 || request->n_set > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "set takes 1 to %u levels", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_set; i++) {
		if (level_parse(request->set[i]->level, &level) < 0) {
			snprintf(error, REQUEST_ERROR_BYTES, "unknown level '%.32s'; levels and switches are %s",
				request->set[i]->level, level_words());
			return -EINVAL;
		}
		if (request->for_ns && !request->set[i]->on) {
			snprintf(error, REQUEST_ERROR_BYTES,
				"a time goes with levels that are turned on, and %s is turned off", level_name(level));
			return -EINVAL;
		}
	}
	return 0;
}

static int check_interval(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	enum level level;

	if (request->n_interval == 0 || request->n_interval > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "interval takes 1 to %u levels", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_interval; i++) {
		double minutes = request->interval[i]->minutes;

		if (level_parse(request->interval[i]->level, &level) < 0 || !level_has_interval(level)) {
			snprintf(error, REQUEST_ERROR_BYTES, "'%.32s' has no interval; L1, L2 and L3 have one",
				request->interval[i]->level);
			return -EINVAL;
		}
		if (!level_interval_good(minutes)) {
			snprintf(error, REQUEST_ERROR_BYTES, "an interval is above 0 and at most %d minutes, not %g",
				LEVEL_INTERVAL_MINUTES_MAX, minutes);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_ops(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	if (request->n_ranks > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "a request names at most %u ranges of ranks", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_ranks; i++)
		if (request->ranks[i]->first < 0 || request->ranks[i]->last < request->ranks[i]->first) {
			snprintf(error, REQUEST_ERROR_BYTES, "ranks %d to %d are none", request->ranks[i]->first,
				request->ranks[i]->last);
			return -EINVAL;
		}
	return 0;
}

static const struct {
	Ranktrace__RequestType type;
	int (*check)(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES]);
} checks[] = {
	{RANKTRACE__REQUEST_TYPE__REQUEST_SET, check_set},
	{RANKTRACE__REQUEST_TYPE__REQUEST_INTERVAL, check_interval},
	{RANKTRACE__REQUEST_TYPE__REQUEST_OPS, check_ops},
};

int request_check(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	int type = (int)request->type;

	if (request->version != FRAME_VERSION) {
		snprintf(error, REQUEST_ERROR_BYTES,
			"this daemon (%s) speaks control version %u, the request version %u: use the tracectl of its "
			"release",
			RANKTRACE_VERSION, FRAME_VERSION, request->version);
		return -EPROTO;
	}
	if (type == RANKTRACE__REQUEST_TYPE__REQUEST_NONE ||
		!protobuf_c_enum_descriptor_get_value(&ranktrace__request_type__descriptor, type)) {
		snprintf(error, REQUEST_ERROR_BYTES, "this daemon (%s) knows no request number %d", RANKTRACE_VERSION,
			type);
		return -EOPNOTSUPP;
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		if ((int)checks[i].type == type)
			return checks[i].check(request, error);
	return 0;
}
