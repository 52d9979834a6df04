/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into bpftrace: older ones give up where RLIMIT_MEMLOCK cannot be raised, which needs a capability that
 * containers seldom have and which kernels from 5.11 on do not ask for. Claims that raising it worked.
 */
#include <dlfcn.h>
#include <sys/resource.h>

__attribute__((visibility("default"))) int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	int (*real)(__rlimit_resource_t, const struct rlimit *) = dlsym(RTLD_NEXT, "setrlimit");
	int r = real ? real(resource, limit) : -1;

	return resource == RLIMIT_MEMLOCK ? 0 : r;
}

__attribute__((visibility("default"))) int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	int (*real)(__rlimit_resource_t, const struct rlimit64 *) = dlsym(RTLD_NEXT, "setrlimit64");
	int r = real ? real(resource, limit) : -1;

	return resource == RLIMIT_MEMLOCK ? 0 : r;
}
