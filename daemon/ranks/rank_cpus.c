/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ranks/ranks_internal.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>

#define CPU_LIST_BYTES 4096 /* sysfs ends a list at a page */

int rank_cpus_parse(const char *list, cpu_set_t *ret)
{
	CPU_ZERO(ret);
	while (isdigit((unsigned char)*list)) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-' && isdigit((unsigned char)end[1]))
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= CPU_SETSIZE)
			return -ERANGE;
		for (; first <= last; first++)
			CPU_SET(first, ret);
		list = *end == ',' ? end + 1 : end;
	}
	return *list == '\n' || !*list ? 0 : -EINVAL;
}

/* CPUs that the kernel calls local to the device. */
static int rank_cpus_near(const char *devices, const char *pci, cpu_set_t *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], list[CPU_LIST_BYTES];

	if (!*pci || pci[strspn(pci, "0123456789abcdefABCDEF:.")])
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/%s/local_cpulist", devices, pci);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	return fgets(list, sizeof(list), f) ? rank_cpus_parse(list, ret) : -ENODATA;
}

void rank_cpus_read(const char *devices, uint32_t pid, const char *pci, struct rank_cpus *ret)
{
	cpu_set_t usable, near;

	*ret = (struct rank_cpus){0};
	if (sched_getaffinity((pid_t)pid, sizeof(usable), &usable) < 0)
		return;
	ret->usable = (unsigned)CPU_COUNT(&usable);
	if (rank_cpus_near(devices, pci, &near) < 0)
		return;
	CPU_AND(&usable, &usable, &near);
	ret->near = (unsigned)CPU_COUNT(&usable);
	ret->near_known = CPU_COUNT(&near) > 0;
}

bool rank_cpus_are_far(const struct rank_cpus *cpus)
{
	return cpus->near_known && !cpus->near;
}
