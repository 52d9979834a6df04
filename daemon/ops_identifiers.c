/* SPDX-License-Identifier: Apache-2.0 */
/* Who finds out identities that are in no call: the rows of ops_identifiers.def. */
#include "daemon/ops_room.h"
#include "daemon/util.h"

#define OPS_IDENTIFIER(name) extern const struct ops_identifier ops_identifier_##name;
#include "daemon/ops_identifiers.def"
#undef OPS_IDENTIFIER

static const struct ops_identifier *const identifiers[] = {
#define OPS_IDENTIFIER(name) &ops_identifier_##name,
#include "daemon/ops_identifiers.def"
#undef OPS_IDENTIFIER
	NULL,
};

const struct ops_identifier *ops_identifier_of(const char *family)
{
	for (size_t i = 0; identifiers[i]; i++)
		if (streq(identifiers[i]->family, family))
			return identifiers[i];
	return NULL;
}
