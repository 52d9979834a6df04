/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the Python stacks of a process again and again and prints each as a line of JSON, beside what the process says
 * of the thread itself at that moment (truth.h).
 *
 *	stack_reader PID ROUNDS PAUSE_US [TRUTH_FILE]
 */
#include "stacks/python/pystack.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "daemon/base/util.h"
#include "tests/stacks/truth.h"

struct reader {
	struct truth_slot *truth; /* TRUTH_SLOTS of them, or NULL */
	struct truth_slot now;	  /* of the thread being read */
	struct truth_slot *slot;  /* where it is from */
};

static struct truth_slot *reader_slot(struct truth_slot *truth, pid_t tid)
{
	for (size_t i = 0; truth && i < TRUTH_SLOTS; i++)
		if (truth[i].tid == (uint32_t)tid)
			return &truth[i];
	return NULL;
}

static int reader_also(void *arg, pid_t tid)
{
	struct reader *reader = arg;

	reader->slot = reader_slot(reader->truth, tid);
	if (reader->slot)
		reader->now = *reader->slot;
	return 0;
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_truth(const struct reader *reader)
{
	const struct truth_slot *now = &reader->now;

	if (!reader->slot || now->length > TRUTH_BYTES)
		return;
	printf(",\"mode\":%u,\"serial\":%u,\"truth\":\"", now->mode, now->serial);
	for (uint32_t i = 0; i < now->length; i++)
		printf("%02x", now->data[i]);
	putchar('"');
	/* An exact one is not wanted again. */
	if (now->mode == TRUTH_EXACT)
		reader->slot->ack = now->serial;
}

static void print_stack(const struct pystack_thread *thread, const struct pystack_stack *stack,
	const struct reader *reader, uint64_t took_ns)
{
	printf("{\"tid\":%d,\"pthread\":%" PRIu64 ",\"interp\":%" PRId64
	       ",\"state\":\"%c\",\"gil\":%s,\"tries\":%u,\"ns\":%" PRIu64 ",\"omitted\":%zu,\"inner\":%u,\"frames\":[",
		thread->tid, thread->pthread, thread->interp_id, stack->thread_state, stack->has_gil ? "true" : "false",
		stack->tries, took_ns, stack->omitted, stack->inner_entries);
	for (size_t i = 0; i < stack->count; i++) {
		const struct pystack_frame *frame = &stack->frames[i];

		printf("%s[", i ? "," : "");
		print_text(frame->function);
		putchar(',');
		print_text(frame->file);
		printf(",%u,%u,%u]", frame->line, frame->entry, frame->first_line);
	}
	putchar(']');
	print_truth(reader);
	puts("}");
}

static struct truth_slot *reader_map(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	void *map;

	if (fd < 0)
		return NULL;
	map = mmap(NULL, TRUTH_SLOTS * sizeof(struct truth_slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

static int read_round(struct pystack *process, struct reader *reader)
{
	static struct pystack_thread threads[PYSTACK_THREADS_MAX];
	static struct pystack_frame frames[PYSTACK_FRAMES_MAX];
	uint64_t started_ns = monotonic_ns();
	size_t count;
	int r = pystack_threads(process, threads, ARRAY_SIZE(threads), &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		struct pystack_stack stack = {.frames = frames, .capacity = ARRAY_SIZE(frames)};
		enum pystack_refusal why;
		uint64_t stack_ns = monotonic_ns();

		reader->slot = NULL;
		r = pystack_read(process, &threads[i], reader_also, reader, &stack, &why);
		if (r == 0)
			print_stack(&threads[i], &stack, reader, monotonic_ns() - stack_ns);
		else if (r == -ENOTSUP)
			printf("{\"tid\":%d,\"refused\":\"%s\"}\n", threads[i].tid, pystack_refusal_word(why));
		else
			printf("{\"tid\":%d,\"error\":%d}\n", threads[i].tid, r);
	}
	printf("{\"threads\":%zu,\"round_ns\":%" PRIu64 "}\n", count, monotonic_ns() - started_ns);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(pystack_closep) struct pystack *process = NULL;
	struct reader reader = {0};
	enum pystack_refusal why;
	uint64_t started_ns = monotonic_ns();
	const struct pystack_version *version;
	const struct pystack_counts *counts;
	int r;

	if (argc < 4) {
		fprintf(stderr, "usage: %s PID ROUNDS PAUSE_US [TRUTH_FILE]\n", argv[0]);
		return 2;
	}
	if (argc > 4 && !(reader.truth = reader_map(argv[4]))) {
		perror(argv[4]);
		return 1;
	}
	r = pystack_open(atoi(argv[1]), &process, &why);
	if (r < 0) {
		printf("{\"opened\":false,\"why\":\"%s\"}\n", r == -ENOTSUP ? pystack_refusal_word(why) : strerror(-r));
		return 1;
	}
	version = pystack_version(process);
	printf("{\"opened\":true,\"version\":\"%u.%u.%u\",\"path\":\"%s\",\"open_ns\":%" PRIu64 "}\n", version->major,
		version->minor, version->micro, version->path, monotonic_ns() - started_ns);
	for (long i = atol(argv[2]); i > 0 && r == 0; i--) {
		r = read_round(process, &reader);
		if (atoi(argv[3]))
			usleep((useconds_t)atoi(argv[3]));
	}
	counts = pystack_counts(process);
	printf("{\"stacks\":%" PRIu64 ",\"tries\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"read_bytes\":%" PRIu64 "}\n",
		counts->stacks, counts->tries, counts->reads, counts->read_bytes);
	return 0;
}
