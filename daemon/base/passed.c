/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/passed.h"

#include <systemd/sd-daemon.h>
#include "daemon/base/util.h"

int passed_sockets(const char *name, int *ret_fd)
{
	char **names = NULL;
	int count = sd_listen_fds_with_names(0, &names), found = 0;

	for (int i = 0; i < count; i++) {
		const char *its = names && names[i] ? names[i] : "";

		if (name ? streq(its, name) : !streq(its, PASSED_METRICS)) {
			if (!found++)
				*ret_fd = SD_LISTEN_FDS_START + i;
		}
		if (names)
			free(names[i]);
	}
	free(names);
	return count < 0 ? count : found;
}

void passed_end(void)
{
	(void)sd_listen_fds(1);
}
