/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any answers of the fleet's store of metrics, one a line, in two pieces, in the order of the queries, JSON or not: the
 * table keeps its limits and its texts are printable, and what is judged on it names ranks and nodes that it has.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/fleet/fleet_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answers {
	const char *at;
	size_t left;
};

static int answer(struct answers *answers, const struct fleet_request *request, char *error, size_t size)
{
	static struct fleet_stream stream;
	const char *end = memchr(answers->at, '\n', answers->left);
	size_t length = end ? (size_t)(end - answers->at) : answers->left, half = length / 2;
	json_t *envelope;
	int r;

	assert(request->query[0]);
	fleet_stream_begin(&stream, request->sample, request->arg);
	r = fleet_stream_feed(&stream, answers->at, half);
	r = r < 0 ? r : fleet_stream_feed(&stream, answers->at + half, length - half);
	answers->left -= length + (end != NULL);
	answers->at += length + (end != NULL);
	envelope = r < 0 ? NULL : fleet_stream_end(&stream);
	if (r == 0 && !envelope)
		r = -EPROTO;
	json_decref(envelope);
	if (r == -EPROTO)
		snprintf(error, size, "no answer");
	return r;
}

static int answer_all(
	void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size)
{
	int r = 0;

	assert(count > 0 && time_s >= 0);
	for (size_t i = 0; i < count && r == 0; i++)
		r = answer(arg, &request[i], error, size);
	return r;
}

static void assert_printable(const char *text)
{
	for (; *text; text++)
		assert((unsigned char)*text >= ' ' && *text != 127);
}

static void judge(const struct fleet *fleet, uint32_t job)
{
	struct fleet_verdict verdict[FLEET_VERDICTS_MAX];
	struct fleet_part part = fleet_ranks_of(fleet, job);
	char sentence[640];
	size_t count = 0;

	assert(part.first + part.count <= fleet->ranks);
	if (fleet_judge(fleet, job, verdict, &count) < 0)
		return;
	assert(count <= FLEET_VERDICTS_MAX);
	for (size_t i = 0; i < count; i++) {
		assert(verdict[i].kind < FLEET_KIND_MAX && verdict[i].job == job);
		for (size_t j = 0; j < verdict[i].nodes && j < FLEET_NODES_SHOWN; j++)
			assert(verdict[i].node[j] < fleet->nodes);
		fleet_sentence(fleet, &verdict[i], sentence, sizeof(sentence));
		assert(sentence[0]);
		assert_printable(sentence);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fleet_read_options options = {.since_s = 3600};
	struct answers answers = {(const char *)data, size};
	struct fleet fleet = {.ranks = 0};
	char error[512] = "";

	if (fleet_read(&options, answer_all, &answers, &fleet, error, sizeof(error)) < 0)
		assert(error[0]);
	assert(fleet.ranks <= FLEET_RANKS_MAX && fleet.nodes <= FLEET_NODES_MAX && fleet.jobs <= FLEET_JOBS_MAX &&
		fleet.operations <= FLEET_OPERATIONS_MAX && fleet.findings <= FLEET_FINDINGS_MAX);
	for (size_t i = 0; i < fleet.ranks; i++) {
		assert(fleet.rank[i].job < fleet.jobs && fleet.rank[i].node < fleet.nodes && fleet.rank[i].rank >= 0);
		assert_printable(fleet.rank[i].card);
	}
	for (size_t i = 0; i < fleet.findings; i++) {
		assert(fleet.finding[i].node < fleet.nodes);
		assert_printable(fleet.finding[i].sentence);
	}
	for (uint32_t job = 0; job < fleet.jobs && job < 16; job++)
		judge(&fleet, job);
	fleet_free(&fleet);
	return 0;
}
