/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gauges/gauges_internal.h"

#include <fcntl.h>

#include "daemon/base/procfs.h"

struct gauge_batch *gauge_batch_new(unsigned source, size_t max)
{
	struct gauge_batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->source = source;
	batch->max = max;
	batch->time_ns = monotonic_ns();
	return batch;
}

struct gauge_batch *gauge_batch_free(struct gauge_batch *batch)
{
	if (batch)
		free(batch->read);
	free(batch);
	return NULL;
}

void gauge_sample(struct gauge_batch *batch, const struct gauge *gauge, const char *object, double value)
{
	struct gauge_read *read;

	if (!array_reserve(
		    (void **)&batch->read, &batch->capacity, batch->count + 1, sizeof(*batch->read), batch->max)) {
		batch->left_out++;
		return;
	}
	read = &batch->read[batch->count++];
	read->gauge = gauge;
	read->group = batch->group;
	read->value = gauge->scale != 0 ? value * gauge->scale : value;
	(void)copy_text(read->object, sizeof(read->object), object);
	procfs_printable(read->object);
}

void gauge_message(struct gauge_batch *batch, const char *kind, bool is_device, const char *object, int64_t number,
	const char *text)
{
	struct gauge_text *entry;

	/* Programs that users start cause messages without an object as often as they want. */
	if (batch->texts >= GAUGE_MESSAGES_MAX || (!is_device && batch->of_programs >= GAUGE_MESSAGES_MAX / 2)) {
		batch->left_out++;
		return;
	}
	batch->of_programs += !is_device;
	entry = &batch->text[batch->texts++];
	(void)copy_text(entry->kind, sizeof(entry->kind), kind);
	(void)copy_text(entry->object, sizeof(entry->object), object);
	(void)copy_text(entry->text, sizeof(entry->text), text);
	entry->number = number;
	procfs_printable(entry->object);
	procfs_printable(entry->text);
}

void gauge_card(struct gauge_batch *batch, const struct gauge_card *card)
{
	struct gauge_card *entry;

	if (batch->cards >= GAUGE_CARDS_MAX) {
		batch->left_out++;
		return;
	}
	entry = &batch->card[batch->cards++];
	*entry = *card;
	procfs_printable(entry->object);
	procfs_printable(entry->pci);
	procfs_printable(entry->serial);
	procfs_printable(entry->name);
}

int gauge_file(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (used < size - 1 && (n = read(fd, ret + used, size - 1 - used)) != 0) {
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	ret[used] = 0;
	return 0;
}

bool gauge_file_number(const char *folder, const char *name, double *ret)
{
	char path[256], text[64], *end;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path) ||
		gauge_file(path, text, sizeof(text)) < 0)
		return false;
	*ret = strtod(text, &end);
	return end != text;
}
