/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/user.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

const char *user_name(int64_t uid, char buffer[USER_NAME_BYTES])
{
	char entries[4096];
	struct passwd entry, *found = NULL;

	if (uid < 0 || uid >= UINT32_MAX)
		return "-";
	if (getpwuid_r((uid_t)uid, &entry, entries, sizeof(entries), &found) == 0 && found)
		snprintf(buffer, USER_NAME_BYTES, "%s", entry.pw_name);
	else
		snprintf(buffer, USER_NAME_BYTES, "%" PRId64, uid);
	return buffer;
}
