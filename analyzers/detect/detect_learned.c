/* SPDX-License-Identifier: Apache-2.0 */
/* What is usual in jobs, from one process to the next that watches them. */
#include "analyzers/detect/detect_internal.h"

json_t *detect_learned(const struct detect *detect)
{
	json_t *ret = json_array(), *learned;
	size_t i;

	json_array_foreach(detect->learned, i, learned) if (ret && !judge_learned_is_old(learned, detect->now_ns))(void)
		json_array_append(ret, learned);
	for (i = 0; ret && i < detect->jobs; i++) {
		const struct detect_job *job = detect->job[i];

		learned = judge_learned(job->judge);
		if (learned && json_object_set_new(learned, "job", judge_learned_text(job->word)) == 0 &&
			json_object_set_new(learned, "world_size", json_integer(job->world_size)) == 0 &&
			json_object_set_new(learned, "uid", json_integer(job->uid)) == 0)
			(void)json_array_append(ret, learned);
		json_decref(learned);
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
	return judge_learned_is_text(json_object_get(learned, "job"), job->word) &&
	       json_integer_value(json_object_get(learned, "world_size")) == job->world_size &&
	       json_integer_value(json_object_get(learned, "uid")) == job->uid;
}

void detect_job_resume(struct detect_job *job, const struct frame *frame, uint64_t now_ns)
{
	json_t *learned;
	size_t i;

	if (judge_has_learned(job->judge))
		return;
	json_array_foreach(job->detect->learned, i, learned)
	{
		struct judge *judge = learned_is_of(learned, job) ? detect_judge_new(job) : NULL;

		if (judge && judge_resume(judge, learned, frame, now_ns) == 0) {
			judge_free(job->judge);
			job->judge = judge;
			job->first_ns = 1; /* it has not just begun */
			(void)json_array_remove(job->detect->learned, i);
			if (job->detect->sink.resumed)
				job->detect->sink.resumed(job->detect->sink.arg, job->word);
			return;
		}
		judge_free(judge);
	}
}
