/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places for items of several users, where there are fewer than items: whoever needs less than an equal part gets all
 * that he needs, and the others have equal parts of the rest. Items are counted first, then taken.
 */
#ifndef RANKTRACE_DAEMON_BASE_FAIR_H
#define RANKTRACE_DAEMON_BASE_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAIR_USERS_MAX 64 /* users beyond share the part of the last one */

struct fair {
	size_t users;
	struct {
		uint32_t uid;
		size_t count, taken;
	} user[FAIR_USERS_MAX];
	size_t part; /* that a user may take */
};

void fair_count(struct fair *fair, uint32_t uid, size_t items);
/* All items are counted. */
void fair_share(struct fair *fair, size_t places);
/* Takes places for so many items; false: his user has fewer left, and nothing is taken. */
bool fair_take(struct fair *fair, uint32_t uid, size_t items);

#endif
