/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of events, made safe and kept once. */
#include "analyzers/coll/coll_internal.h"

#include <string.h>

/* Rows that wait, and how they go out. See coll_internal.h. */

uint64_t coll_entry_bytes(const struct coll_entry *entry)
{
	if (entry->given_bytes != COLL_UNKNOWN)
		return entry->given_bytes;
	return coll_bytes(entry->comm->family, entry->word->operation, entry->count, entry->dtype, entry->comm->members);
}

static uint64_t duration(uint64_t start_ns, uint64_t end_ns)
{
	return start_ns == COLL_UNKNOWN || end_ns == COLL_UNKNOWN || end_ns < start_ns ? COLL_UNKNOWN : end_ns - start_ns;
}

static void coll_rows_tell(struct coll *ops, const struct coll_entry *entry)
{
	uint64_t device_ns = entry->device ? duration(entry->device_start_ns, entry->device_stop_ns) : COLL_UNKNOWN;
	struct coll_row row = {.communicator = entry->comm->text,
		.seq = entry->seq,
		.seq_from = entry->seq_from,
		.family = entry->comm->family->name,
		.op = entry->word->text,
		.dtype = entry->dtype ? entry->dtype->name : "",
		.count = entry->count,
		.bytes = coll_entry_bytes(entry),
		.peer = entry->peer,
		.host_start_ns = entry->start_ns,
		.host_duration_ns = entry->end_ns ? duration(entry->start_ns, entry->end_ns) : COLL_UNKNOWN,
		.device_start_ns = device_ns != COLL_UNKNOWN ? entry->device_start_ns : COLL_UNKNOWN,
		.device_duration_ns = device_ns,
		.device = device_ns != COLL_UNKNOWN,
		.captured = entry->captured,
		.p2p = entry->p2p,
		.group = entry->group,
		.result = entry->result,
		.thread_id = entry->thread_id};

	if (ops->sink.row)
		ops->sink.row(ops->sink.arg, &row);
}

static void out(struct coll *ops, struct coll_entry *entry)
{
	struct coll_comm *comm = entry->comm;

	if (entry->announcer && entry->announcer->announced == entry)
		entry->announcer->announced = NULL;
	if (!entry->left)
		coll_rows_tell(ops, entry);
	coll_unlink(&entry->age);
	coll_unlink(&entry->member);
	coll_unlink(&entry->number.link);
	coll_unlink(&entry->signature.link);
	coll_unlink(&entry->by_work.link);
	coll_append(&ops->spare, &entry->age);
	ops->n_waiting--;
	coll_comm_unref(ops, comm);
}

struct coll_entry *coll_entry_new(struct coll *ops)
{
	struct coll_entry *entry;

	if (ops->n_waiting >= COLL_WAITING_MAX) {
		entry = COLL_CONTAINER(ops->waiting.next, struct coll_entry, age);
		/* What waits for something that may well not exist has lost nothing that is known of. */
		ops->counts.not_waited += (entry->waits & ~(WAIT_NUMBER | (entry->trial ? WAIT_DEVICE : 0u))) != 0;
		out(ops, entry);
	}
	if (coll_list_empty(&ops->spare)) {
		entry = malloc(sizeof(*entry));
		if (!entry)
			return NULL;
	} else {
		entry = COLL_CONTAINER(ops->spare.next, struct coll_entry, age);
		coll_unlink(&entry->age);
	}
	memset(entry, 0, sizeof(*entry));
	entry->id = ++ops->next_entry;
	entry->given_bytes = entry->count = COLL_UNKNOWN;
	entry->device_start_ns = entry->device_stop_ns = COLL_UNKNOWN;
	entry->peer = -1;
	coll_append(&ops->waiting, &entry->age);
	ops->n_waiting++;
	return entry;
}

void coll_entry_waits_work(struct coll *ops, struct coll_entry *entry, uint64_t work)
{
	struct coll_node *old = coll_hash_find(&ops->work, work);

	/* The end of the one that had this address before was not seen. */
	if (old) {
		ops->counts.lost++;
		coll_entry_done(ops, COLL_CONTAINER(old, struct coll_entry, by_work), WAIT_WORK);
	}
	entry->waits |= WAIT_WORK;
	coll_hash_put(&ops->work, &entry->by_work, work);
}

void coll_entry_waits_device(struct coll *ops, struct coll_entry *entry)
{
	entry->waits |= WAIT_DEVICE;
	entry->trial = !entry->comm->waits_device;
	if (!entry->p2p)
		coll_hash_put(&ops->number, &entry->number, coll_number_key(entry->comm, entry->seq));
	coll_hash_put(&ops->signature, &entry->signature,
		coll_mix(coll_mix(entry->comm->id, entry->word->hash), (uint32_t)entry->peer));
}

void coll_entry_done(struct coll *ops, struct coll_entry *entry, unsigned wait)
{
	entry->waits &= ~wait;
	if (wait & WAIT_WORK) {
		coll_unlink(&entry->by_work.link);
		if (entry->announcer && entry->announcer->announced == entry)
			entry->announcer->announced = NULL;
		entry->announcer = NULL;
	}
	if (wait & WAIT_DEVICE) {
		coll_unlink(&entry->number.link);
		coll_unlink(&entry->signature.link);
	}
	if (!entry->waits)
		out(ops, entry);
}

/* Works may end in any order: the highest number that is complete counts. */
void coll_entry_complete(struct coll_entry *entry, uint64_t time_ns)
{
	struct coll_comm *comm = entry->comm;

	comm->completion_known = true;
	if (entry->p2p || entry->seq < comm->completed.seq)
		return;
	comm->completed = (struct coll_signature){.seq = entry->seq,
		.count = entry->count,
		.bytes = coll_entry_bytes(entry),
		.time_ns = time_ns,
		.word = entry->word,
		.dtype = entry->dtype};
}

static bool coll_rows_past(uint64_t since_ns, uint64_t wait_ns, uint64_t now_ns)
{
	return now_ns > since_ns && now_ns - since_ns > wait_ns;
}

static bool device_is_overdue(const struct coll *ops, const struct coll_entry *entry)
{
	const struct coll_comm *comm = entry->comm;
	uint64_t since_ns = entry->fed_ns;

	if (entry->trial)
		return comm->no_device || coll_rows_past(coll_max(since_ns, comm->freed_ns), COLL_NUMBER_NS, ops->now_ns);
	if (comm->freed_ns)
		return coll_rows_past(coll_max(comm->device_ns, comm->freed_ns), COLL_FREED_WAIT_NS, ops->now_ns);
	/* The device has not come so far while it does what was called before. */
	if (comm->device_ns > since_ns && (entry->p2p || entry->seq > comm->device_seq))
		since_ns = comm->device_ns;
	return coll_rows_past(since_ns, COLL_WAIT_NS, ops->now_ns);
}

/* Which of its waits have been long enough. */
static unsigned overdue(const struct coll *ops, const struct coll_entry *entry)
{
	uint64_t now_ns = ops->now_ns, since_ns = entry->fed_ns;
	uint64_t work_ns = coll_linked(&entry->by_work.link) ? COLL_STUCK_NS : COLL_WAIT_NS;
	unsigned waits = 0;

	if (coll_rows_past(since_ns, COLL_IDENTIFY_NS, now_ns))
		waits |= WAIT_IDENTITY;
	if (coll_rows_past(since_ns, COLL_STUCK_NS, now_ns))
		waits |= WAIT_GROUP;
	if (coll_rows_past(since_ns, work_ns, now_ns))
		waits |= WAIT_WORK;
	if (entry->comm->no_number || coll_rows_past(since_ns, COLL_NUMBER_NS, now_ns))
		waits |= WAIT_NUMBER;
	if (device_is_overdue(ops, entry))
		waits |= WAIT_DEVICE;
	return waits & entry->waits;
}

/* No records any more, or none ever: the next calls need not wait until one comes. */
static void waited_in_vain(struct coll *ops, const struct coll_entry *entry, unsigned waits)
{
	struct coll_comm *comm = entry->comm;

	comm->no_number |= (waits & WAIT_NUMBER) != 0;
	if (waits & WAIT_DEVICE && coll_rows_past(comm->device_ns, entry->trial ? 0 : COLL_WAIT_NS, ops->now_ns)) {
		comm->waits_device = false;
		comm->no_device = true;
		ops->no_marker = !ops->marker;
	}
}

void coll_rows_idle(struct coll *ops)
{
	COLL_EACH (link, &ops->waiting) {
		struct coll_entry *entry = COLL_CONTAINER(link, struct coll_entry, age);
		unsigned waits = overdue(ops, entry);

		if (!waits)
			continue;
		waited_in_vain(ops, entry, waits);
		if (waits & WAIT_GROUP) {
			ops->counts.lost++;
			coll_unlink(&entry->member);
		}
		coll_entry_done(ops, entry, waits);
	}
}

void coll_rows_end(struct coll *ops)
{
	while (!coll_list_empty(&ops->waiting))
		out(ops, COLL_CONTAINER(ops->waiting.next, struct coll_entry, age));
}

void coll_rows_done(struct coll *ops)
{
	COLL_EACH (link, &ops->waiting)
		free(COLL_CONTAINER(link, struct coll_entry, age));
	COLL_EACH (link, &ops->spare)
		free(COLL_CONTAINER(link, struct coll_entry, age));
}

void coll_text(char *ret, size_t size, const char *text)
{
	size_t n = text ? strnlen(text, size) : 0;

	if (n == size) {
		n = size - 1;
		for (int back = 0; n && back < 3 && ((unsigned char)text[n] & 0xc0) == 0x80; back++)
			n--;
	}
	for (size_t i = 0; i < n; i++)
		ret[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	memset(ret + n, 0, size - n);
}

uint64_t coll_word_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < COLL_NAME_BYTES && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + 32u : c)) * 0x100000001b3ULL;
	}
	return hash;
}

const struct coll_word *coll_word(struct coll *ops, const char *text)
{
	char clean[COLL_NAME_BYTES];
	struct coll_word *word;
	size_t at;

	/* What was kept before is the rule: it is looked for as it stands, and made safe only if it is new. */
	for (at = 0; at < ops->words; at++) {
		if (strcmp(ops->word[at].text, text) == 0)
			return &ops->word[at];
	}
	coll_text(clean, sizeof(clean), ops->words < COLL_WORDS_MAX - 1 ? text : "other");
	for (at = 0; at < ops->words; at++) {
		if (strcmp(ops->word[at].text, clean) == 0)
			return &ops->word[at];
	}
	word = &ops->word[ops->words++];
	memcpy(word->text, clean, sizeof(word->text));
	word->hash = coll_word_hash(clean);
	word->operation = coll_operation(clean);
	return word;
}
