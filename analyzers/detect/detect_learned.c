/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual in jobs, from one process to the next that watches them. */
#include "analyzers/detect/detect_internal.h"

#include <string.h>

json_t *detect_learned(const struct detect *detect)
{
	json_t *ret = detect->learned ? json_copy(detect->learned) : json_array();

	for (size_t i = 0; ret && i < detect->jobs; i++) {
		const struct detect_job *job = detect->job[i];
		json_t *learned = judge_learned(job->judge);

		if (!learned)
			continue;
		if (json_object_set_new(learned, "job", json_string(job->word)) < 0 || json_object_set_new(learned, "world_size", json_integer(job->world_size)) < 0 ||
			json_object_set_new(learned, "uid", json_integer(job->uid)) < 0 || json_array_append(ret, learned) < 0) {
			json_decref(ret);
			ret = NULL;
		}
		json_decref(learned);
	}
	if (ret && json_array_size(ret) == 0) {
		json_decref(ret);
		ret = NULL;
	}
	return ret;
}

void detect_resume(struct detect *detect, json_t *learned)
{
	json_decref(detect->learned);
	detect->learned = json_is_array(learned) ? json_copy(learned) : NULL;
}

static bool learned_is_of(const json_t *learned, const struct detect_job *job)
{
	const char *word = json_string_value(json_object_get(learned, "job"));

	return word && strcmp(word, job->word) == 0 && json_integer_value(json_object_get(learned, "world_size")) == job->world_size &&
	       json_integer_value(json_object_get(learned, "uid")) == job->uid;
}

void detect_job_resume(struct detect_job *job, const struct frame *frame, uint64_t now_ns)
{
	json_t *learned;
	size_t i;

	json_array_foreach (job->detect->learned, i, learned) {
		struct judge *judge = learned_is_of(learned, job) ? detect_judge_new(job) : NULL;

		if (judge && judge_resume(judge, learned, frame, now_ns) == 0) {
			judge_free(job->judge);
			job->judge = judge;
			(void)json_array_remove(job->detect->learned, i);
			return;
		}
		judge_free(judge);
	}
}
