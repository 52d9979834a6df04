/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/tool/tool_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "analyzers/tool/tool.h"

json_t *tool_object(const char *key, ...)
{
	json_t *ret = json_object();
	va_list args;

	va_start(args, key);
	for (; key; key = va_arg(args, const char *))
		json_object_set_new(ret, key, va_arg(args, json_t *));
	va_end(args);
	return ret;
}

json_t *tool_text(const char *text)
{
	json_t *json = *text ? json_string(text) : NULL;

	return json ? json : json_null();
}

json_t *tool_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *tool_count(uint64_t count)
{
	return json_integer((json_int_t)count);
}

json_t *tool_some(uint64_t count)
{
	return count ? tool_count(count) : json_null();
}

json_t *tool_known(int64_t number)
{
	return number >= 0 ? json_integer(number) : json_null();
}

int tool_print(json_t *json, size_t flags)
{
	if (!json)
		return tool_fail(1, "out of memory");
	json_dumpf(json, stdout, flags);
	putchar('\n');
	json_decref(json);
	return 0;
}
