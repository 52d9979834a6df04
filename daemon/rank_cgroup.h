/* SPDX-License-Identifier: Apache-2.0 */
/* Which container and pod a process is in, from the text of its /proc/PID/cgroup: pure parsing, no I/O. */
#ifndef RANKTRACE_RANK_CGROUP_H
#define RANKTRACE_RANK_CGROUP_H

#include "daemon/util.h"

struct rank_cgroup {
	char path[256];	    /* of the hierarchy that says most, cut; "" if none */
	char container[65]; /* 64 hexadecimal digits, "" if none */
	char pod_uid[37];   /* with dashes, "" if none */
};

void rank_cgroup_parse(const char *text, struct rank_cgroup *ret);

#endif
