/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/lag.h"

#include <stddef.h>

static struct {
	const char *what;
	uint64_t took_ns;
} works[LAG_WORK_NAMES_MAX];
static unsigned works_count;

void lag_work_add(const char *what, uint64_t took_ns)
{
	unsigned i = 0;

	while (i < works_count && works[i].what != what)
		i++;
	if (i == LAG_WORK_NAMES_MAX)
		return;
	if (i == works_count) {
		works[works_count++].what = what;
		works[i].took_ns = 0;
	}
	works[i].took_ns += took_ns;
}

const char *lag_work_take(uint64_t *ret_took_ns)
{
	const char *most = NULL;
	uint64_t took_ns = 0;

	for (unsigned i = 0; i < works_count; i++)
		if (works[i].took_ns > took_ns) {
			most = works[i].what;
			took_ns = works[i].took_ns;
		}
	works_count = 0;
	*ret_took_ns = took_ns;
	return most;
}
