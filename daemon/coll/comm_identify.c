/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a worker for the identity and the name of communicators. */
#include "daemon/coll/comm_reader.h"
#include "daemon/coll/comms.h"
#include "daemon/core/context.h"

#define AGAIN_NS (2 * NSEC_PER_SEC)

struct comm_asking {
	struct comm_asking *next;
	struct comm_identify *owner;
	struct comm_asked asked;
	uint64_t request;
};

void comm_identify_cancel(struct comm_identify *identify)
{
	struct comm_asking *asking;

	while ((asking = identify->asking)) {
		identify->asking = asking->next;
		worker_cancel(identify->context->workers, asking->request);
		free(asking);
	}
}

static void comm_asking_remove(struct comm_asking *asking)
{
	struct comm_asking **link = &asking->owner->asking;

	while (*link != asking)
		link = &(*link)->next;
	*link = asking->next;
	free(asking);
}

static void comm_identify_on_answer(void *arg, struct worker_reply *reply)
{
	struct comm_asking *asking = arg;
	struct comm_identify *identify = asking->owner;
	struct comm_asked asked = asking->asked;
	struct comm_answer answer;

	comm_asking_remove(asking);
	if (comm_reader_take(reply, &answer) < 0) {
		answer = (struct comm_answer){0};
		asked.again_ns = monotonic_ns() + AGAIN_NS;
		snprintf(answer.reason, sizeof(answer.reason),
			"it cannot be read now: reading the memory of its process %s",
			reply->end == WORKER_ANSWERED ? "failed" : worker_end_words(reply->end));
	}
	identify->answered(identify->arg, &asked, &answer);
}

static int comm_identify_start(
	struct comm_identify *identify, uint32_t uid, struct comm_question *question, const struct comm_asked *asked)
{
	struct comm_asking *asking = calloc(1, sizeof(*asking));
	int r;

	if (!asking)
		return -ENOMEM;
	*asking = (struct comm_asking){identify->asking, identify, *asked, 0};
	r = comm_reader_ask(
		identify->context->workers, uid, question, comm_identify_on_answer, asking, &asking->request);
	if (r < 0) {
		free(asking);
		return r;
	}
	identify->asking = asking;
	return 0;
}

static void comm_identify_ask(struct comm_identify *identify, const struct rank *rank, struct comm_rows *comms,
	const struct comm_row *comm, enum comm_reader_op op, uint64_t address)
{
	const struct comm_asked asked = {
		.slot = rank->slot,
		.instance = rank->instance,
		.family = comm_reader_identifier(comm->family)->family,
		.address = comm->address,
		.since_ns = comm->since_ns,
		.for_name = op == COMM_READER_NAME,
	};
	struct comm_question question = {.op = op, .pid = rank->pid, .address = address};
	struct comm_answer answer;

	(void)copy_text(question.family, sizeof(question.family), asked.family);
	(void)copy_text(question.boot_id, sizeof(question.boot_id), rank->boot_id);
	(void)copy_text(question.job, sizeof(question.job), rank->env.job);
	if (!identify->context->workers) {
		comm_reader_read(&question, &answer);
		identify->answered(identify->arg, &asked, &answer);
	} else if (comm_identify_start(identify, rank->uid, &question, &asked) < 0) {
		comm_rows_defer(comms, asked.family, asked.address, monotonic_ns() + AGAIN_NS);
	}
}

bool comm_identify(
	struct comm_identify *identify, const struct rank *rank, struct comm_rows *comms, struct comm_row *comm)
{
	const struct coll_identifier *identifier = comm_reader_identifier(comm->family);

	if (!identifier || comm->freed)
		return false;
	if (identifier->read[COMM_READER_IDENTITY] && !comm->communicator[0] && !comm->asked) {
		comm->asked = true;
		comm_identify_ask(identify, rank, comms, comm, COMM_READER_IDENTITY, comm->address);
		return true;
	}
	if (identifier->read[COMM_READER_NAME] && !comm->name[0] && comm->process_group &&
		comm->named_by != comm->process_group) {
		comm->named_by = comm->process_group;
		comm_identify_ask(identify, rank, comms, comm, COMM_READER_NAME, comm->process_group);
		return true;
	}
	return false;
}
