/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks stand by their stages (L0): what tracectl ops says while L1, which sees operations, is off. */
#ifndef RANKTRACE_OPS_STAGES_H
#define RANKTRACE_OPS_STAGES_H

#include "ctl/out.h"
#include "ctl/client.h"

#define OPS_STAGES_MAX 64 /* groups of one answer; ranks beyond are in the last one */

/* Ranks of a job that are in the same stage of the same name, in the same state. */
struct ops_stage {
	const Ranktrace__Rank *first;
	size_t ranks;
	uint64_t least_ns, most_ns;  /* how long they have been in it */
	char list[96];		     /* "0,2-5"; cut at the end with "..." */
	int32_t run_first, run_last; /* of the list, not yet in it */
};

/* Those of the list, longest first. Yields how many. ret points into the answer. */
size_t ops_stages_group(
	const Ranktrace__RanksBody *body, const struct ranges *list, struct ops_stage ret[OPS_STAGES_MAX]);
void ops_stages_print(const Ranktrace__RanksBody *body, const struct ranges *list);
json_t *ops_stages_json(const Ranktrace__RanksBody *body, const struct ranges *list);

#endif
