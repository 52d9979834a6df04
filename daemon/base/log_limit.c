/* SPDX-License-Identifier: Apache-2.0 */
/* See log_limit.h. A hash table of counts with short probing; a slot whose period is over and that left nothing out is
 * free. */
#include <inttypes.h>
#include <pthread.h>
#include "daemon/base/log_limit.h"

#define PROBES 8u
#define LOG_LIMIT_LINES_MAX 16u /* lines of log_limit_tick() in one call */

struct log_limit_slot {
	const struct log_limit_place *place; /* NULL: free */
	uint64_t key;
	uint64_t since_ns;
	uint64_t left_out;
	unsigned count;
	bool shared; /* also counts messages that found no slot */
};

static struct log_limit_slot slots[LOG_LIMIT_SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool log_limit_is_over(const struct log_limit_slot *slot, uint64_t now_ns)
{
	return now_ns >= slot->since_ns + LOG_LIMIT_PERIOD_NS;
}

static struct log_limit_slot *log_limit_slot_of(const struct log_limit_place *place, uint64_t key, uint64_t now_ns)
{
	uint64_t hash = ((uint64_t)(uintptr_t)place ^ key * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
	struct log_limit_slot *free_slot = NULL, *first = &slots[(hash >> 32) % LOG_LIMIT_SLOTS];

	for (uint64_t i = 0; i < PROBES; i++) {
		struct log_limit_slot *slot = &slots[((hash >> 32) + i) % LOG_LIMIT_SLOTS];

		if (slot->place == place && slot->key == key)
			return slot;
		if (!free_slot && (!slot->place || (log_limit_is_over(slot, now_ns) && !slot->left_out)))
			free_slot = slot;
	}
	if (!free_slot) {
		first->shared = true;
		return first;
	}
	*free_slot = (struct log_limit_slot){.place = place, .key = key, .since_ns = now_ns};
	return free_slot;
}

bool log_limit_pass(const struct log_limit_place *place, uint64_t key, unsigned burst, uint64_t now_ns)
{
	struct log_limit_slot *slot;
	bool pass;

	pthread_mutex_lock(&lock);
	slot = log_limit_slot_of(place, key, now_ns);
	if (log_limit_is_over(slot, now_ns) && !slot->left_out) {
		slot->since_ns = now_ns;
		slot->count = 0;
	}
	pass = slot->count < burst;
	slot->count += pass;
	slot->left_out += !pass;
	pthread_mutex_unlock(&lock);
	return pass;
}

/* The message's format with "..." for what is filled in. */
static void log_limit_describe(const char *format, char *ret, size_t size)
{
	size_t n = 0;

	for (; *format && n + 4 < size; format++) {
		if (*format != '%' || format[1] == '%') {
			ret[n++] = *format;
			format += *format == '%';
			continue;
		}
		memcpy(ret + n, "...", 3);
		n += 3;
		format += 1 + strcspn(format + 1, "diouxXeEfgGscp");
		if (!*format)
			break;
	}
	ret[n] = 0;
}

static void log_limit_report(const struct log_limit_slot *slot)
{
	const struct log_limit_place *place = slot->place;
	char what[160];

	log_limit_describe(place->format, what, sizeof(what));
	log_at(place->level, place->component, "%" PRIu64 " more messages of user %" PRIu64 "%s: \"%s\"",
		slot->left_out, slot->key, slot->shared ? " and others" : "", what);
}

void log_limit_tick(uint64_t now_ns)
{
	struct log_limit_slot due[LOG_LIMIT_LINES_MAX];
	unsigned count = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LOG_LIMIT_SLOTS && count < LOG_LIMIT_LINES_MAX; i++) {
		if (!slots[i].place || !slots[i].left_out || !log_limit_is_over(&slots[i], now_ns))
			continue;
		due[count++] = slots[i];
		slots[i] = (struct log_limit_slot){0};
	}
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < count; i++)
		log_limit_report(&due[i]);
}
