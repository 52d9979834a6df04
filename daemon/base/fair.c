/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/fair.h"

static size_t fair_find(struct fair *fair, uint32_t uid)
{
	size_t i = 0;

	while (i < fair->users && fair->user[i].uid != uid)
		i++;
	if (i == FAIR_USERS_MAX)
		return i - 1;
	if (i == fair->users)
		fair->user[fair->users++].uid = uid;
	return i;
}

void fair_count(struct fair *fair, uint32_t uid, size_t items)
{
	fair->user[fair_find(fair, uid)].count += items;
}

/* Users who need less than an equal part leave the others more, who may then need less, too. */
void fair_share(struct fair *fair, size_t places)
{
	size_t part = 0, left, users;

	do {
		fair->part = part;
		left = places;
		users = 0;
		for (size_t i = 0; i < fair->users; i++)
			if (fair->user[i].count <= part)
				left -= fair->user[i].count;
			else
				users++;
		part = users ? left / users : part;
	} while (part > fair->part);
}

bool fair_take(struct fair *fair, uint32_t uid, size_t items)
{
	size_t i = fair_find(fair, uid);

	if (items > fair->part || fair->user[i].taken > fair->part - items)
		return false;
	fair->user[i].taken += items;
	return true;
}
