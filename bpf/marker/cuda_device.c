/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stddef.h>

#include "bpf/marker/cuda_device.h"

#define CUDA_LIBRARY "libcuda.so.1"

uint16_t cuda_device(void)
{
	void *library = dlopen(CUDA_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	int (*context_device)(int *) = NULL;
	int device = -1;

	if (!library)
		return 0;
	*(void **)&context_device = dlsym(library, "cuCtxGetDevice");
	/* Fails where the thread has no context. */
	if (!context_device || context_device(&device) != 0 || device < 0 || device >= UINT16_MAX)
		device = -1;
	dlclose(library); /* the process still holds it */
	return (uint16_t)(device + 1);
}
