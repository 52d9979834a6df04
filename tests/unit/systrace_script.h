/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sysTrace, as it writes them. */
#ifndef TESTS_SYSTRACE_SCRIPT_H
#define TESTS_SYSTRACE_SCRIPT_H

#include "tests/unit/offline_script.h"

#define HEADER \
	"Flag,Id,Kind,Name,SourceKind,Timestamp,msptiObjectId_Ds_DeviceId,msptiObjectId_Ds_StreamId," \
	"msptiObjectId_Pt_ProcessId,msptiObjectId_Pt_ThreadId\n"

static inline FILE *create(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline FILE *create(const char *format, ...)
{
	char name[256], path[PATH_MAX];
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
}

static inline void put_varint(FILE *file, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		putc((int)(value & 0x7f) | 0x80, file);
	putc((int)value, file);
}

static inline void put_number(FILE *file, unsigned field, uint64_t value)
{
	put_varint(file, field << 3);
	put_varint(file, value);
}

static inline void put_bytes(FILE *file, unsigned field, const void *bytes, size_t size)
{
	put_varint(file, field << 3 | 2);
	put_varint(file, size);
	fwrite(bytes, 1, size, file);
}

static inline void put_stage_of(FILE *file, const char *name, uint64_t number, uint64_t start_ns, uint64_t end_ns)
{
	static const char frame[] = "step@train.py:12";
	char *text = NULL;
	size_t size = 0;
	FILE *stage = open_memstream(&text, &size);

	if (number)
		put_number(stage, 1, number);
	put_bytes(stage, 2, name, strlen(name));
	put_number(stage, 3, start_ns / 1000);
	put_number(stage, 4, end_ns / 1000);
	put_bytes(stage, 5, frame, strlen(frame));
	fclose(stage);
	put_bytes(file, 1, text, size);
	free(text);
}

#endif
