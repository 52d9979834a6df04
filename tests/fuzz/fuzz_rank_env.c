/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a process's environment, command and cgroup: what comes out must hold its promises. */
#undef NDEBUG
#include <assert.h>

#include "daemon/base/procfs.h"
#include "daemon/ranks/ranks_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pair(int32_t number, int32_t count)
{
	assert(number >= -1 && number < RANK_ENV_NUMBER_MAX && count <= RANK_ENV_NUMBER_MAX);
	assert(count == -1 || count > 0);
	assert(number < 0 || count < 0 || number < count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = NULL;
	struct rank_cgroup cgroup;
	struct rank_env env;
	char joined[256];

	/* The daemon reads no more. */
	size = size < PROCFS_ENVIRON_BYTES_MAX ? size : PROCFS_ENVIRON_BYTES_MAX;
	text = malloc(size + 1);
	if (!text)
		return 0;
	/* A buffer of exactly this size, so that a read past it shows. */
	memcpy(text, data, size);
	text[size] = 0;
	rank_env_parse((const char *)data, size, &env);
	assert((env.rank >= 0) == (env.source[0] != 0));
	check_pair(env.rank, env.world_size);
	check_pair(env.local_rank, env.local_world_size);
	assert(strnlen(env.card, sizeof(env.card)) < sizeof(env.card));
	(void)rank_command_is_launcher((const char *)data, size);
	rank_command_join((const char *)data, size, joined, sizeof(joined));
	rank_cgroup_parse(text, &cgroup);
	assert(strlen(cgroup.container) == 0 || strlen(cgroup.container) == 64);
	return 0;
}
