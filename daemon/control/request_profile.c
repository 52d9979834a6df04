/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request `profile`: starts to sample ranks, or says how far a profile is. An outsider gets its own ranks, and a
 * part of the time.
 */
#include <inttypes.h>

#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/stacks/profiles.h"

int request_profile_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	const Ranktrace__ProfileRequest *profile = request->profile;

	if (!profile) {
		snprintf(error, REQUEST_ERROR_BYTES, "the request does not say how long to sample");
		return -EINVAL;
	}
	if (!profile->profile && (!profile->for_ns || profile->for_ns > PROFILES_FOR_MAX_NS)) {
		snprintf(error, REQUEST_ERROR_BYTES, "a profile takes at most %llu s",
			PROFILES_FOR_MAX_NS / NSEC_PER_SEC);
		return -EINVAL;
	}
	if (profile->frequency_hz > PROFILES_HZ_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "a profile has at most %u samples a second", PROFILES_HZ_MAX);
		return -EINVAL;
	}
	return request_ranges_valid(request, error);
}

static int request_profile_refuse(const struct context *context, const struct request_selection *selection, int error,
	Ranktrace__Response *response)
{
	struct profile_progress progress;

	if (error == -ENOENT)
		return request_selects_none(selection, context->config.group, "profile them", response);
	if (error == -EBUSY && profiles_progress(context->profiles, 0, &progress) == 0)
		response_say(response, "another profile runs, for %.0f more seconds; one runs at a time",
			(double)progress.remaining_ns / (double)NSEC_PER_SEC + 1);
	else if (error == -EDQUOT)
		response_say(response, "a user may have 60 s of profiles in 5 minutes; try again later");
	else if (error == -EOPNOTSUPP)
		response_say(response, "the kernel refuses to sample: tracectl status says why");
	return error;
}

static void request_profile_rank(Ranktrace__ProfileRank *item, const struct profile_rank_progress *rank)
{
	item->rank = rank->rank;
	item->pid = rank->pid;
	item->job = strdup(rank->job);
	item->instance = rank->instance;
	item->samples = rank->samples;
	item->refused = rank->refused;
	item->lost = rank->lost;
	item->reason = strdup(rank->reason);
}

static int request_profile_fill(const struct profile_progress *progress, const struct request_peer *outsider,
	size_t left_out, Ranktrace__Response *response)
{
	Ranktrace__ProfileBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_PROFILE);

	if (!body)
		return -ENOMEM;
	body->profile = (uint64_t)progress->number;
	body->running = progress->running;
	body->remaining_ns = progress->remaining_ns;
	body->frequency_hz = progress->frequency_hz;
	body->left_out = left_out;
	for (size_t i = 0; i < progress->ranks; i++) {
		Ranktrace__ProfileRank *item;

		if (outsider && progress->rank[i].uid != outsider->uid)
			continue;
		item = REQUEST_ADD(body, ranks);
		if (!item)
			return -ENOMEM;
		request_profile_rank(item, &progress->rank[i]);
	}
	return 0;
}

int request_profile(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	const struct request_peer *peer = control_peer(context->control);
	struct request_selection selection = {.request = request};
	struct profile_wish wish = {
		.wanted = request_selects,
		.arg = &selection,
		.reason = PROFILE_ASKED,
		.urgency = PROFILE_NOW,
		.for_ns = request->profile->for_ns,
		.frequency_hz = request->profile->frequency_hz ? request->profile->frequency_hz : PROFILES_HZ,
	};
	int64_t number = (int64_t)request->profile->profile;
	struct profile_progress progress;
	size_t left_out = 0;
	int r = 0;

	if (!peer || !context->profiles)
		return -ENOTSUP;
	if (!request_peer_is_insider(peer, context->config.group)) {
		selection.outsider = peer;
		wish.limited = true;
		wish.urgency = PROFILE_OF_USER;
		wish.uid = peer->uid;
	}
	if (!number)
		r = profiles_start(context->profiles, &wish, &number, &left_out);
	if (r < 0)
		return request_profile_refuse(context, &selection, r, response);
	r = profiles_progress(context->profiles, number, &progress);
	if (r == -ENOENT)
		response_say(response, "profile %" PRId64 " is none of the last ones", number);
	return r < 0 ? r : request_profile_fill(&progress, selection.outsider, left_out, response);
}
