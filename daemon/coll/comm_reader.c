/* SPDX-License-Identifier: Apache-2.0 */
/* See comm_reader.h. */
#include "daemon/coll/comm_reader.h"

#include <linux/capability.h>

#define MAGIC "COMM"

static const struct worker_kind comm_reader_kind = {
	.name = "communicator reader",
	.program = "worker/reader",
	.processes_max = 2,
	.reused = true,
	.memory_bytes_max = 64 << 20,
	.cpu_s_max = 2,
	.wall_ns_max = NSEC_PER_SEC, /* a communicator is some hundred reads: 1 ms. Operations wait for it for
					COLL_IDENTIFY_NS */
	.reply_bytes_max = sizeof(struct comm_answer),
};

#define COLL_IDENTIFIER(name) extern const struct coll_identifier coll_identifier_##name;
#include "daemon/coll/identifiers.def"
#undef COLL_IDENTIFIER

static const struct coll_identifier *const identifiers[] = {
#define COLL_IDENTIFIER(name) &coll_identifier_##name,
#include "daemon/coll/identifiers.def"
#undef COLL_IDENTIFIER
};

const struct coll_identifier *comm_reader_identifier(const char *family)
{
	for (size_t i = 0; i < ARRAY_SIZE(identifiers); i++)
		if (streq(identifiers[i]->family, family))
			return identifiers[i];
	return NULL;
}

int comm_reader_ask(struct workers *workers, uint32_t owner, struct comm_question *question, worker_done done,
	void *arg, uint64_t *ret_id)
{
	memcpy(question->magic, MAGIC, sizeof(question->magic));
	return worker_ask(workers, &comm_reader_kind, owner, question, sizeof(*question), NULL, 0, done, arg, ret_id);
}

/* Terminated, of printable ASCII. */
static bool comm_reader_is_text(const char *text, size_t size)
{
	size_t length = strnlen(text, size);

	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return length < size;
}

int comm_reader_take(const struct worker_reply *reply, struct comm_answer *ret)
{
	struct comm_answer answer;

	if (reply->end != WORKER_ANSWERED || reply->size_bytes != sizeof(answer))
		return -EBADMSG;
	memcpy(&answer, reply->data, sizeof(answer));
	if (!comm_reader_is_text(answer.name, sizeof(answer.name)) ||
		!comm_reader_is_text(answer.reason, sizeof(answer.reason)) || answer.members > INT32_MAX ||
		(answer.members && answer.member >= answer.members))
		return -EBADMSG;
	*ret = answer;
	return 0;
}

void comm_reader_read(const struct comm_question *question, struct comm_answer *ret)
{
	const struct coll_identifier *identifier = comm_reader_identifier(question->family);

	*ret = (struct comm_answer){0};
	if (identifier && question->op < COMM_READER_OPS && identifier->read[question->op])
		identifier->read[question->op](question, ret);
}

bool comm_reader_is_question(const struct worker_task *task)
{
	return task->size_bytes == sizeof(struct comm_question) && memcmp(task->request, MAGIC, sizeof(MAGIC) - 1) == 0;
}

int comm_reader_serve(const struct worker_task *task)
{
	struct comm_question question;
	struct comm_answer answer;

	memcpy(&question, task->request, sizeof(question));
	question.family[sizeof(question.family) - 1] = 0;
	if (worker_child_keep(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH) < 0)
		return -EPERM;
	comm_reader_read(&question, &answer);
	return worker_child_add(&answer, sizeof(answer), NULL, 0);
}
