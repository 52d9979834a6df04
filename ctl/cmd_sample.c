/* SPDX-License-Identifier: Apache-2.0 */
/* tracectl sample: the daemon samples ranks for a while; waits for it, and writes the number of the profile. */
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/units.h"
#include "ctl/client.h"
#include "ctl/out.h"

#define SAMPLE_FOR_NS UINT64_C(10000000000)
#define SAMPLE_FOR_NS_MAX UINT64_C(60000000000)
#define SAMPLE_HZ_MAX 999
#define SAMPLE_ASK_NS 250000000L		/* between two questions how far it is */
#define SAMPLE_STORED_NS 1500000000L		/* the store writes its rows within a second */
#define SAMPLE_OVERDUE_NS UINT64_C(15000000000) /* beyond its end: the daemon does not end it */

static int sample_parse(const struct command *command, Ranktrace__ProfileRequest *ret)
{
	const char *length = command_option(command, "for"), *hz = command_option(command, "hz");
	char *end = NULL;

	ret->for_ns = SAMPLE_FOR_NS;
	if (length &&
		(units_parse_duration(length, &ret->for_ns) < 0 || !ret->for_ns || ret->for_ns > SAMPLE_FOR_NS_MAX))
		return ctl_fail(EXIT_USAGE, "--for takes a length of time (10s; at most 60s), not '%s'", length);
	if (hz) {
		ret->frequency_hz = (uint32_t)strtoul(hz, &end, 10);
		if (*end || strspn(hz, "0123456789") != strlen(hz) || strlen(hz) > 3 || !ret->frequency_hz)
			return ctl_fail(
				EXIT_USAGE, "--hz takes samples a second (1 to %d), not '%s'", SAMPLE_HZ_MAX, hz);
	}
	return EXIT_DONE;
}

static uint64_t sample_count(const Ranktrace__ProfileBody *body)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < body->n_ranks; i++)
		samples += body->ranks[i]->samples;
	return samples;
}

/* A line that the next one replaces; none without a terminal. */
static void sample_show_progress(const Ranktrace__ProfileBody *body)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (body->running)
		fprintf(stderr, "\r\033[Ksampling %zu rank%s, %.0f s left, %" PRIu64 " samples", body->n_ranks,
			body->n_ranks == 1 ? "" : "s", (double)body->remaining_ns / 1e9, sample_count(body));
	else
		fputs("\r\033[K", stderr);
}

static int sample_wait(const struct command *command, uint64_t number, uint64_t left_ns, Ranktrace__Response **response)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__ProfileRequest profile = RANKTRACE__PROFILE_REQUEST__INIT;
	uint64_t waited_ns = 0;
	int code = EXIT_DONE;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_PROFILE;
	request.profile = &profile;
	profile.profile = number;
	while (code == EXIT_DONE && (*response)->profile->running) {
		if (waited_ns > left_ns + SAMPLE_OVERDUE_NS)
			return ctl_fail(EXIT_REFUSED, "profile %" PRIu64 " should have ended; the daemon still samples",
				number);
		(void)nanosleep(&(struct timespec){.tv_nsec = SAMPLE_ASK_NS}, NULL);
		waited_ns += SAMPLE_ASK_NS;
		client_free(*response);
		*response = NULL;
		code = client_ask(command, &request, RANKTRACE__RESPONSE__BODY_PROFILE, response);
		if (code == EXIT_DONE)
			sample_show_progress((*response)->profile);
	}
	if (code == EXIT_DONE)
		(void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = SAMPLE_STORED_NS - 1000000000L}, NULL);
	return code;
}

static int sample_print(const struct command *command, const Ranktrace__ProfileBody *body)
{
	for (size_t i = 0; i < body->n_ranks; i++)
		if (*body->ranks[i]->reason)
			fprintf(stderr, "tracectl sample: rank %" PRId32 ": no Python frames: %s\n",
				body->ranks[i]->rank, body->ranks[i]->reason);
	if (body->left_out)
		fprintf(stderr, "tracectl sample: %" PRIu64 " ranks are more than one profile samples, and left out\n",
			body->left_out);
	if (command->json)
		return out_json(out_message(body));
	printf("profile: %" PRIu64 "\n", body->profile);
	return EXIT_DONE;
}

int cmd_sample(const struct command *command)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__ProfileRequest profile = RANKTRACE__PROFILE_REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	struct ranges ranks;
	int code = sample_parse(command, &profile);

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_PROFILE;
	request.profile = &profile;
	if (code == EXIT_DONE)
		code = client_ask_of_ranks(command, &request, RANKTRACE__RESPONSE__BODY_PROFILE, &ranks, &response);
	if (code == EXIT_DONE)
		code = sample_wait(command, response->profile->profile, profile.for_ns, &response);
	if (code == EXIT_DONE)
		code = sample_print(command, response->profile);
	client_free(response);
	return code;
}
