/* SPDX-License-Identifier: Apache-2.0 */
/* Names of NCCL's communicators, from PyTorch's process groups. */
#include "daemon/coll/comm_reader.h"
#include "daemon/coll/identity.h"

static void nccl_read_name(const struct comm_question *question, struct comm_answer *ret)
{
	(void)torch_group_nccl_name(question->pid, question->address, ret->name, sizeof(ret->name));
}

const struct coll_identifier coll_identifier_nccl = {.family = "nccl", .read = {[COMM_READER_NAME] = nccl_read_name}};

#define NCCL_READS_MAX 64
#define NCCL_GROUP_WORDS 32
#define FIRST_STRING_AT 3 /* after class, reference counts, and two 32-bit numbers */
#define NCCL_STRING_AT_MAX 11
#define CLASS_NCCL "N4c10d16ProcessGroupNCCLE"

void torch_group_name(struct cxx_memory *memory, const struct cxx_object *group, char *ret, size_t size)
{
	char text[CXX_STRING_BYTES];
	size_t words, strings = 0;

	*ret = '\0';
	for (size_t at = FIRST_STRING_AT; at < group->words && at <= NCCL_STRING_AT_MAX && strings < 2;) {
		if (cxx_string(memory, group, at, text, &words) < 0) {
			at++;
			continue;
		}
		at += words;
		strings++;
	}
	if (strings == 2 && !streq(text, "undefined"))
		snprintf(ret, size, "%.*s", (int)size - 1, text);
}

int torch_group_nccl_name(uint32_t pid, uint64_t address, char *ret, size_t size)
{
	struct cxx_memory memory = {.pid = pid, .reads_left = NCCL_READS_MAX};
	char class[CXX_CLASS_BYTES];
	struct cxx_object group;
	int r;

	*ret = '\0';
	if (cxx_class(&memory, address, class) < 0 || !streq(class, CLASS_NCCL))
		return -ENOENT;
	r = cxx_read_object(&memory, address, NCCL_GROUP_WORDS, &group);
	if (r < 0)
		return r;
	torch_group_name(&memory, &group, ret, size);
	return 0;
}
