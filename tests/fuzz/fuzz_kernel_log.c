/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any lines as records of the kernel's log, which has names that processes chose: their messages are within bounds, and
 * findings of the hardware are made of them, with gauges whose values are any.
 */
#undef NDEBUG
#include <assert.h>

#include "analyzers/gauges/hardware.h"
#include "daemon/gauges/gauge_kernel_log.c" /* a record at a time, without a file */
#include "daemon/gauges/gauges_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t open_now;

static void on_finding(void *arg, const struct finding *finding)
{
	assert(finding->kind == FINDING_HARDWARE && finding->cause < CAUSE_MAX && finding->state < FINDING_STATE_MAX);
	assert(finding->evidences <= FINDING_EVIDENCE_MAX && memchr(finding->sentence, 0, sizeof(finding->sentence)));
	assert(!finding->until_ns || finding->until_ns >= finding->since_ns);
	open_now += finding->state == FINDING_OPEN;
}

static void on_users(void *arg, const char *host, const struct hardware_card *card, struct finding *finding)
{
	assert(host[0]);
	finding->rank = card->minor;
}

/* A line that begins with '=' is a gauge: "=OBJECT NAME VALUE". */
static void take_gauge(struct hardware *hardware, uint64_t now_ns, char *line)
{
	char *name = strchr(line, ' '), *value = name ? strchr(name + 1, ' ') : NULL;

	if (!value)
		return;
	*name++ = *value++ = 0;
	hardware_gauge(hardware, now_ns, line, name, strtod(value, NULL));
}

static void take_record(struct hardware *hardware, uint64_t now_ns, char *line)
{
	struct gauge_batch *batch = gauge_batch_new(0, 8);

	assert(batch);
	gauge_kernel_log_record(batch, line);
	assert(batch->texts <= GAUGE_MESSAGES_MAX);
	for (size_t i = 0; i < batch->texts; i++) {
		const struct gauge_text *text = &batch->text[i];

		assert(text->kind[0] && memchr(text->object, 0, sizeof(text->object)) &&
			memchr(text->text, 0, sizeof(text->text)));
		hardware_message(hardware, now_ns, text->kind, text->object, text->number, text->text);
	}
	gauge_batch_free(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hardware_sink sink = {on_finding, on_users, NULL};
	static char record[RECORD_BYTES + 1];
	uint64_t next_id = 1, now_ns = NSEC_PER_SEC;
	struct hardware *hardware = hardware_new("node", &sink, &next_id);
	const char *at = (const char *)data;
	unsigned lines = 0;

	assert(hardware);
	hardware_card(hardware, &(struct hardware_card){"GPU-1", "0000:3B:00.0", 3});
	while (size && lines++ < 4096) {
		const char *end = memchr(at, '\n', size);
		size_t length = end ? (size_t)(end - at) : size, kept = length < RECORD_BYTES ? length : RECORD_BYTES;

		memcpy(record, at, kept);
		record[kept] = 0;
		if (record[0] == '=')
			take_gauge(hardware, now_ns, record + 1);
		else
			take_record(hardware, now_ns, record);
		at += length + (end != NULL);
		size -= length + (end != NULL);
		now_ns += 7 * NSEC_PER_SEC;
		hardware_advance(hardware, now_ns);
	}
	hardware_end(hardware, now_ns);
	hardware_free(hardware);
	return 0;
}
