/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixture of CUDA's libraries: with DRIVER the driver's cuLaunchKernel, else the runtime's cudaLaunchKernel, which
 * calls the driver's (with ALONE: nothing).
 */
#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT int cuLaunchKernel(unsigned kernel);
EXPORT int cudaLaunchKernel(unsigned kernel);

#if defined(DRIVER) || defined(ALONE)
static volatile unsigned launched;
#endif

#ifdef DRIVER
int cuLaunchKernel(unsigned kernel)
{
	launched += kernel;
	return 0;
}
#elif defined(ALONE)
int cudaLaunchKernel(unsigned kernel)
{
	launched += kernel;
	return 0;
}
#else
int cudaLaunchKernel(unsigned kernel)
{
	return cuLaunchKernel(kernel) ? 1 : 0; /* the ?: prevents a tail call */
}
#endif
