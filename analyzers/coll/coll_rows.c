/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that wait and their reporting; names of operations. */
#include "analyzers/base/utf8.h"
#include "analyzers/coll/coll_internal.h"

#include <string.h>

uint64_t coll_entry_bytes(const struct coll_entry *entry)
{
	if (entry->given_bytes != COLL_UNKNOWN)
		return entry->given_bytes;
	return coll_bytes(
		entry->comm->family, entry->word->operation, entry->count, entry->dtype, entry->comm->members);
}

static uint64_t coll_rows_length(uint64_t start_ns, uint64_t end_ns)
{
	return start_ns == COLL_UNKNOWN || end_ns == COLL_UNKNOWN || end_ns < start_ns ? COLL_UNKNOWN
										       : end_ns - start_ns;
}

static void coll_rows_emit(struct coll *coll, const struct coll_entry *entry)
{
	uint64_t device_ns =
		entry->device ? coll_rows_length(entry->device_start_ns, entry->device_stop_ns) : COLL_UNKNOWN;
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
		.host_duration_ns = entry->end_ns ? coll_rows_length(entry->start_ns, entry->end_ns) : COLL_UNKNOWN,
		.device_start_ns = device_ns != COLL_UNKNOWN ? entry->device_start_ns : COLL_UNKNOWN,
		.device_duration_ns = device_ns,
		.device = device_ns != COLL_UNKNOWN,
		.captured = entry->captured,
		.p2p = entry->p2p,
		.group = entry->group,
		.result = entry->result,
		.thread_id = entry->thread_id};

	if (coll->sink.row)
		coll->sink.row(coll->sink.arg, &row);
}

static void coll_entry_report(struct coll *coll, struct coll_entry *entry)
{
	struct coll_comm *comm = entry->comm;

	if (entry->announcer && entry->announcer->announced == entry)
		entry->announcer->announced = NULL;
	if (!entry->unwound)
		coll_rows_emit(coll, entry);
	list_unlink(&entry->age);
	list_unlink(&entry->member);
	list_unlink(&entry->number.link);
	list_unlink(&entry->signature.link);
	list_unlink(&entry->by_work.link);
	list_add_tail(&coll->spare, &entry->age);
	coll->n_waiting--;
	coll_comm_unref(coll, comm);
}

struct coll_entry *coll_entry_new(struct coll *coll)
{
	struct coll_entry *entry;

	if (coll->n_waiting >= COLL_WAITING_MAX) {
		entry = CONTAINER_OF(coll->waiting.next, struct coll_entry, age);
		/* A wait on trial that ends early is no known loss. */
		coll->counts.not_waited += (entry->waits & ~(WAIT_NUMBER | (entry->trial ? WAIT_DEVICE : 0u))) != 0;
		coll_entry_report(coll, entry);
	}
	if (list_empty(&coll->spare)) {
		entry = malloc(sizeof(*entry));
		if (!entry)
			return NULL;
		coll->entries++;
	} else {
		entry = CONTAINER_OF(coll->spare.next, struct coll_entry, age);
		list_unlink(&entry->age);
	}
	memset(entry, 0, sizeof(*entry));
	entry->id = ++coll->next_entry;
	entry->given_bytes = entry->count = COLL_UNKNOWN;
	entry->device_start_ns = entry->device_stop_ns = COLL_UNKNOWN;
	entry->peer = -1;
	list_add_tail(&coll->waiting, &entry->age);
	coll->n_waiting++;
	return entry;
}

void coll_entry_waits_work(struct coll *coll, struct coll_entry *entry, uint64_t work)
{
	struct hash_node *old = hash_table_find(&coll->work, work);

	/* The end of the work that had this address was not seen. */
	if (old) {
		coll->counts.lost++;
		coll_entry_done(coll, CONTAINER_OF(old, struct coll_entry, by_work), WAIT_WORK);
	}
	entry->waits |= WAIT_WORK;
	hash_table_put(&coll->work, &entry->by_work, work);
}

void coll_entry_waits_device(struct coll *coll, struct coll_entry *entry)
{
	entry->waits |= WAIT_DEVICE;
	entry->trial = !entry->comm->waits_device;
	if (!entry->p2p)
		hash_table_put(&coll->number, &entry->number, coll_number_key(entry->comm, entry->seq));
	hash_table_put(&coll->signature, &entry->signature,
		hash_mix(hash_mix(entry->comm->id, entry->word->hash), (uint32_t)entry->peer));
}

void coll_entry_done(struct coll *coll, struct coll_entry *entry, unsigned wait)
{
	entry->waits &= ~wait;
	if (wait & WAIT_WORK) {
		list_unlink(&entry->by_work.link);
		if (entry->announcer && entry->announcer->announced == entry)
			entry->announcer->announced = NULL;
		entry->announcer = NULL;
	}
	if (wait & WAIT_DEVICE) {
		list_unlink(&entry->number.link);
		list_unlink(&entry->signature.link);
	}
	if (!entry->waits)
		coll_entry_report(coll, entry);
}

/* Works end in any order: the highest complete number counts. */
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

static bool device_is_overdue(const struct coll *coll, const struct coll_entry *entry)
{
	const struct coll_comm *comm = entry->comm;
	uint64_t since_ns = entry->fed_ns;

	if (entry->trial)
		return comm->no_device ||
		       coll_rows_past(coll_max(since_ns, comm->freed_ns), COLL_NUMBER_NS, coll->now_ns);
	if (comm->freed_ns)
		return coll_rows_past(coll_max(comm->device_ns, comm->freed_ns), COLL_FREED_WAIT_NS, coll->now_ns);
	/* The device is still busy with earlier calls. */
	if (comm->device_ns > since_ns && (entry->p2p || entry->seq > comm->device_seq))
		since_ns = comm->device_ns;
	return coll_rows_past(since_ns, COLL_WAIT_NS, coll->now_ns);
}

/* Waits that have timed out. */
static unsigned coll_rows_overdue(const struct coll *coll, const struct coll_entry *entry)
{
	uint64_t now_ns = coll->now_ns, since_ns = entry->fed_ns;
	uint64_t work_ns = list_linked(&entry->by_work.link) ? COLL_STUCK_NS : COLL_WAIT_NS;
	unsigned waits = 0;

	if (coll_rows_past(since_ns, COLL_IDENTIFY_NS, now_ns))
		waits |= WAIT_IDENTITY;
	if (coll_rows_past(since_ns, COLL_STUCK_NS, now_ns))
		waits |= WAIT_GROUP;
	if (coll_rows_past(since_ns, work_ns, now_ns))
		waits |= WAIT_WORK;
	if (entry->comm->no_number || coll_rows_past(since_ns, COLL_NUMBER_NS, now_ns))
		waits |= WAIT_NUMBER;
	if (device_is_overdue(coll, entry))
		waits |= WAIT_DEVICE;
	return waits & entry->waits;
}

/* Later calls of the communicator do not wait for what did not come. */
static void waited_in_vain(struct coll *coll, const struct coll_entry *entry, unsigned waits)
{
	struct coll_comm *comm = entry->comm;

	comm->no_number |= (waits & WAIT_NUMBER) != 0;
	if (waits & WAIT_DEVICE && coll_rows_past(comm->device_ns, entry->trial ? 0 : COLL_WAIT_NS, coll->now_ns)) {
		comm->waits_device = false;
		comm->no_device = true;
		coll->no_marker = !coll->marker;
	}
}

void coll_rows_idle(struct coll *coll)
{
	LIST_EACH (link, &coll->waiting) {
		struct coll_entry *entry = CONTAINER_OF(link, struct coll_entry, age);
		unsigned waits = coll_rows_overdue(coll, entry);

		if (!waits)
			continue;
		waited_in_vain(coll, entry, waits);
		if (waits & WAIT_GROUP) {
			coll->counts.lost++;
			list_unlink(&entry->member);
		}
		coll_entry_done(coll, entry, waits);
	}
}

void coll_rows_end(struct coll *coll)
{
	while (!list_empty(&coll->waiting))
		coll_entry_report(coll, CONTAINER_OF(coll->waiting.next, struct coll_entry, age));
}

void coll_rows_done(struct coll *coll)
{
	LIST_EACH (link, &coll->waiting)
		free(CONTAINER_OF(link, struct coll_entry, age));
	LIST_EACH (link, &coll->spare)
		free(CONTAINER_OF(link, struct coll_entry, age));
}

void coll_text(char *ret, size_t size, const char *text)
{
	size_t n = text ? strnlen(text, size) : 0;

	if (n == size)
		n = utf8_cut(text, size - 1);
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

const struct coll_word *coll_word(struct coll *coll, const char *text)
{
	char clean[COLL_NAME_BYTES];
	struct coll_word *word;
	size_t at;

	/* Fast path: names are usually known and clean. */
	for (at = 0; at < coll->words; at++) {
		if (strcmp(coll->word[at].text, text) == 0)
			return &coll->word[at];
	}
	coll_text(clean, sizeof(clean), coll->words < COLL_WORDS_MAX - 1 ? text : "other");
	for (at = 0; at < coll->words; at++) {
		if (strcmp(coll->word[at].text, clean) == 0)
			return &coll->word[at];
	}
	word = &coll->word[coll->words++];
	memcpy(word->text, clean, sizeof(word->text));
	word->hash = coll_word_hash(clean);
	word->operation = coll_operation(clean);
	return word;
}
