/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/dump/dump_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyzers/base/utf8.h"

static const struct {
	const char *name, *folder;
} kinds[DUMP_KIND_MAX] = {
	[DUMP_L0] = {"L0", "timeline"},
	[DUMP_L1] = {"L1", "mspti"},
	[DUMP_L2] = {"L2", "hbm_trace"},
	[DUMP_L3] = {"L3", "osprobe"},
};

const char *dump_kind_name(enum dump_kind kind)
{
	return kinds[kind].name;
}

enum dump_kind dump_kind_parse(const char *text)
{
	unsigned kind = 0;

	while (kind < DUMP_KIND_MAX && strcmp(kinds[kind].name, text) != 0)
		kind++;
	return (enum dump_kind)kind;
}

const char *dump_kind_folder(enum dump_kind kind)
{
	return kinds[kind].folder;
}

/* Safe part of a file name: no slash, no leading dot, no control character. */
static void path_word(const char *text, char *ret, size_t size)
{
	size_t n = 0;

	for (; text && *text && n + 1 < size; text++) {
		unsigned char c = (unsigned char)*text;
		bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
			    c == '_' || (c == '.' && n);

		ret[n++] = fits ? (char)c : '_';
	}
	ret[n] = 0;
	if (n == 0)
		snprintf(ret, size, "unknown");
}

int dump_file_name(enum dump_kind kind, const struct dump_of *of, char *ret, size_t size)
{
	char host[128], address[64], hour[16] = "00000000_00";
	time_t seconds = (time_t)(of->window_ns / 1000000000ULL);
	long long rank = of->rank, pid = of->pid;
	struct tm tm;
	int n = -1;

	path_word(of->host, host, sizeof(host));
	path_word(of->address, address, sizeof(address));
	if (localtime_r(&seconds, &tm))
		(void)strftime(hour, sizeof(hour), "%Y%m%d_%H", &tm);
	switch (kind) {
	case DUMP_L0: /* readers find rank 0 by its five digits */
		n = snprintf(ret, size, "%s--%05lld--%lld.timeline", host, rank < 0 ? 0 : rank, pid);
		break;
	case DUMP_L1: /* readers take the node between the first two '-', the rank between the last two '.' */
		for (char *p = address; *p; p++)
			if (*p == '-')
				*p = '_';
		n = snprintf(ret, size, "hccl_activity-%s-.%lld.csv", address, rank);
		break;
	case DUMP_L2:
		n = snprintf(ret, size, "hbm_trace_trace_rank%lld_%lld.pb", rank, pid);
		break;
	case DUMP_L3:
		n = snprintf(ret, size, "os_trace_%s_rank_%lld_%lld.pb", hour, rank, pid);
		break;
	case DUMP_KIND_MAX:
		break;
	}
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* Readers take a name with "dataloader" as the start of a step; "GC" has a track of its own. */
static const struct {
	const char *stage, *mark, *name;
	unsigned class;
} stages[] = {
	/* Pipes nest in loaders and in each other; the loader is the outermost. */
	{"dataloader", "enumerate(DataPipe)#", "torch.utils.data@IterDataPipe@__next__", 1},
	{"dataloader", "", "torch.utils.data.dataloader@_BaseDataLoaderIter@__next__", 1},
	{"forward", "", "forward", 2},
	{"backward", "", "torch@autograd@backward", 3},
	{"sync", "", NULL, 4}, /* as marked: cudaStreamSynchronize */
	{"gc", "", "GC", 5},
};

const char *dump_stage_name(const char *stage, const char *name)
{
	for (size_t i = 0; stage && i < sizeof(stages) / sizeof(stages[0]); i++)
		if (strcmp(stages[i].stage, stage) == 0 &&
			strncmp(name ? name : "", stages[i].mark, strlen(stages[i].mark)) == 0)
			return stages[i].name ? stages[i].name : name && *name ? name : stage;
	return stage && *stage ? stage : "unknown";
}

unsigned dump_stage_class(const char *stage)
{
	for (size_t i = 0; stage && i < sizeof(stages) / sizeof(stages[0]); i++)
		if (strcmp(stages[i].stage, stage) == 0)
			return stages[i].class;
	return 0;
}

bool dump_is_release(const char *op)
{
	return op && (strstr(op, "Free") || strstr(op, "Release"));
}

/* failslow derives a communicator's kind from these words, with this spelling. */
static const struct {
	const char *op, *name;
} ops[] = {{"AllReduce", "HcclAllreduce"}, {"Recv", "HcclReceive"}};

void dump_op_name(const char *op, char *ret, size_t size)
{
	char word[64];

	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].op, op) == 0) {
			snprintf(ret, size, "%s", ops[i].name);
			return;
		}
	}
	dump_field(op, word, sizeof(word));
	snprintf(ret, size, "Hccl%s", word[0] ? word : "Unknown");
}

void dump_utf8(const char *text, char *ret, size_t size)
{
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	size_t n = 0, left = strlen((const char *)p);

	while (left) {
		size_t length = utf8_character(p, left), step = length ? length : 1;

		if (n + step >= size)
			break;
		if (length)
			memcpy(ret + n, p, length);
		else
			ret[n] = '?';
		n += step;
		p += step;
		left -= step;
	}
	ret[n] = 0;
}

void dump_field(const char *text, char *ret, size_t size)
{
	dump_utf8(text, ret, size);
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr(",!\"'", *p))
			*p = '_';
}
