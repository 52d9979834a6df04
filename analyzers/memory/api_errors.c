/* SPDX-License-Identifier: Apache-2.0 */
/* See memory.h. */
#include "analyzers/memory/memory.h"

#include <string.h>

enum api_family { API_CUDA_RUNTIME, API_CUDA_DRIVER, API_HIP, API_ASCEND, API_FAMILY_MAX };

/* A function belongs to the first family whose prefix it has. */
static const struct {
	const char *prefix;
	enum api_family family;
} api_prefixes[] = {{"cuda", API_CUDA_RUNTIME}, {"cu", API_CUDA_DRIVER}, {"hip", API_HIP}, {"acl", API_ASCEND}};

static const struct {
	enum api_family family;
	int64_t number;
	const char *name;
} api_errors[] = {
#define API_ERROR(family, number, name) {API_##family, number, #name},
#include "analyzers/memory/api_errors.def"
#undef API_ERROR
};

const char *memory_error_name(const char *function, int64_t result)
{
	enum api_family family = API_FAMILY_MAX;

	for (size_t i = 0; i < sizeof(api_prefixes) / sizeof(api_prefixes[0]) && family == API_FAMILY_MAX; i++)
		if (!strncmp(function, api_prefixes[i].prefix, strlen(api_prefixes[i].prefix)))
			family = api_prefixes[i].family;
	for (size_t i = 0; i < sizeof(api_errors) / sizeof(api_errors[0]); i++)
		if (api_errors[i].family == family && api_errors[i].number == result)
			return api_errors[i].name;
	return "";
}
