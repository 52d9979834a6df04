/* SPDX-License-Identifier: Apache-2.0 */
/* See reader.h. Questions come from the daemon and are trusted, if they are of the same build. */
#include <fcntl.h>
#include <linux/capability.h>

#include "daemon/probes/reader.h"

const struct worker_kind reader_maps_kind = {
	.name = "maps reader",
	.program = "worker/reader",
	.processes_max = 3,
	.reused = true,
	.memory_bytes_max = 64 << 20,
	.cpu_s_max = 5,
	.wall_ns_max = 2 * NSEC_PER_SEC, /* PROC_MAPS_BYTES_MAX take 1 s */
	.reply_bytes_max = 4 << 20,	 /* MAPS_FILES_MAX paths of MAPS_PATH_BYTES_MAX, and their heads */
};

const struct worker_kind reader_facts_kind = {
	.name = "library reader",
	.program = "worker/reader",
	.processes_max = 2,
	.memory_bytes_max = 192 << 20, /* symbols of a file: TABLES_BYTES_MAX in elf_symbols.c */
	.cpu_s_max = 10,
	.wall_ns_max = 15 * NSEC_PER_SEC, /* libtorch from a file server: a few seconds */
	.reply_bytes_max = FACTS_BYTES_MAX + 64,
};

enum reader_op { READER_MAPS, READER_FILE, READER_FACTS, READER_OPS };

/* Head of a question, for each in the same memory layout; what it has in addition follows. */
struct question {
	char build[32]; /* of the daemon */
	uint32_t op, pid;
	char proc_root[64];
	char base_name[256];
	uint64_t start, end, device, inode;
	uint32_t deleted, path_bytes;
	uint32_t patterns, rows;
};

/* Of both sides: layouts of struct question and struct probe are as long as these. */
static void put_build(char build[32])
{
	snprintf(build, 32, "%s %zu %zu", RANKTRACE_VERSION, sizeof(struct question), sizeof(struct probe));
}

static struct question question_new(enum reader_op op, const char *proc_root, uint32_t pid)
{
	struct question question = {.op = op, .pid = pid};

	put_build(question.build);
	(void)copy_text(question.proc_root, sizeof(question.proc_root), proc_root);
	return question;
}

void reader_ask_maps(struct wire_writer *ret, const char *proc_root, uint32_t pid,
	const char (*pattern)[MAPS_PATTERN_BYTES], size_t patterns)
{
	struct question question = question_new(READER_MAPS, proc_root, pid);

	question.patterns = (uint32_t)patterns;
	wire_put_bytes(ret, &question, sizeof(question));
	wire_put_bytes(ret, pattern, patterns * MAPS_PATTERN_BYTES);
}

void reader_ask_file(struct wire_writer *ret, const char *proc_root, uint32_t pid, const struct mapping *mapping)
{
	struct question question = question_new(READER_FILE, proc_root, pid);

	question.start = mapping->start;
	question.end = mapping->end;
	question.device = mapping->id.device;
	question.inode = mapping->id.inode;
	question.deleted = mapping->deleted;
	question.path_bytes = (uint32_t)strlen(mapping->path) + 1;
	wire_put_bytes(ret, &question, sizeof(question));
	wire_put_bytes(ret, mapping->path, question.path_bytes);
}

void reader_ask_facts(struct wire_writer *ret, const char *base_name, const struct probe_table *table,
	const uint16_t *rows, size_t count)
{
	struct question question = question_new(READER_FACTS, "", 0);

	(void)copy_text(question.base_name, sizeof(question.base_name), base_name);
	question.rows = (uint32_t)count;
	wire_put_bytes(ret, &question, sizeof(question));
	for (size_t i = 0; i < count; i++)
		wire_put_bytes(ret, &table->probe[rows[i]], sizeof(struct probe));
}

static int reader_taken(const struct wire_reader *reader)
{
	return reader->is_bad || reader->left ? -EBADMSG : 0;
}

static void take_mapping(struct wire_reader *reader, struct maps *maps)
{
	struct mapping *mapping = &maps->mapping[maps->count];
	size_t path_bytes;
	const char *path;

	mapping->start = wire_take(reader, 8);
	mapping->end = wire_take(reader, 8);
	mapping->id.device = wire_take(reader, 8);
	mapping->id.inode = wire_take(reader, 8);
	mapping->deleted = wire_take_up_to(reader, 1, 1);
	path_bytes = (size_t)wire_take_up_to(reader, 4, MAPS_PATH_BYTES_MAX - 1);
	path = (const char *)wire_take_bytes(reader, path_bytes);
	if (!path || path_bytes == 0 || path[0] != '/' || memchr(path, 0, path_bytes) || !mapping->id.inode) {
		reader->is_bad = true;
		return;
	}
	mapping->path = strndup(path, path_bytes);
	if (mapping->path)
		maps->count++;
	reader->is_bad |= !mapping->path;
}

int reader_take_maps(const struct worker_reply *reply, struct maps *ret)
{
	_cleanup_(maps_free) struct maps maps = {0};
	struct wire_reader reader = {reply->data, reply->size_bytes, reply->end != WORKER_ANSWERED};
	int r = wire_take_result(&reader, 0);
	size_t count;

	if (reader.is_bad || r < 0)
		return reader.is_bad ? -EBADMSG : r;
	count = (size_t)wire_take_up_to(&reader, 4, MAPS_FILES_MAX);
	maps.mapping = calloc(count + 1, sizeof(*maps.mapping));
	if (!maps.mapping)
		return -ENOMEM;
	maps.capacity = count + 1;
	for (size_t i = 0; i < count && !reader.is_bad; i++)
		take_mapping(&reader, &maps);
	r = reader_taken(&reader);
	if (r < 0)
		return r;
	*ret = maps;
	maps = (struct maps){0};
	return 0;
}

int reader_take_file(struct worker_reply *reply, struct mapped_file *ret)
{
	struct wire_reader reader = {reply->data, reply->size_bytes, reply->end != WORKER_ANSWERED};
	struct mapped_file file = {.fd = -1};
	int r = wire_take_result(&reader, 0), flags;

	if (reader.is_bad || r < 0)
		return reader.is_bad ? -EBADMSG : r;
	file.id.device = wire_take(&reader, 8);
	file.id.inode = wire_take(&reader, 8);
	file.changed.tv_sec = (time_t)wire_take(&reader, 8);
	file.changed.tv_nsec = (long)wire_take_up_to(&reader, 8, NSEC_PER_SEC);
	file.size_bytes = wire_take_up_to(&reader, 8, INT64_MAX);
	file.overlay = wire_take_up_to(&reader, 1, 1);
	file.user_served = wire_take_up_to(&reader, 1, 1);
	flags = reply->fds == 1 ? fcntl(reply->fd[0], F_GETFL) : -1;
	if (reader_taken(&reader) < 0 || flags < 0 || !(flags & O_PATH))
		return -EBADMSG;
	file.fd = TAKE_FD(reply->fd[0]);
	*ret = file;
	return 0;
}

/* Spreads facts about some rows over the whole table. */
static int spread_rows(struct facts *facts, const struct probe_table *table, const uint16_t *rows)
{
	struct fact_row *all = calloc(table->count + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < facts->rows; i++)
		all[rows[i]] = facts->row[i];
	for (size_t i = 0; i < facts->sites; i++)
		facts->site[i].row = rows[facts->site[i].row];
	free(facts->row);
	facts->row = all;
	facts->rows = table->count;
	return 0;
}

int reader_take_facts(const struct worker_reply *reply, uint64_t file_bytes, const struct probe_table *table,
	const uint16_t *rows, size_t count, struct facts *ret)
{
	_cleanup_(facts_free) struct facts facts = {0};
	_cleanup_free_ struct probe *probe = calloc(count + 1, sizeof(*probe));
	struct wire_reader reader = {reply->data, reply->size_bytes, reply->end != WORKER_ANSWERED};
	int r = wire_take_result(&reader, 0);

	if (!probe)
		return -ENOMEM;
	if (reader.is_bad || r < 0)
		return reader.is_bad ? -EBADMSG : r;
	for (size_t i = 0; i < count; i++)
		probe[i] = table->probe[rows[i]];
	r = facts_decode(reader.data, reader.left, file_bytes, probe, count, &facts);
	if (r == 0)
		r = spread_rows(&facts, table, rows);
	if (r < 0)
		return r;
	*ret = facts;
	facts = (struct facts){0};
	return 0;
}

/* The program. */

static int reader_say(struct wire_writer *writer, const int *fd)
{
	return writer->failed ? -ENOMEM : worker_child_add(writer->data, writer->size_bytes, fd, fd ? 1 : 0);
}

static int serve_maps(const struct question *question, struct wire_reader *rest, const struct worker_task *task)
{
	_cleanup_(wire_free) struct wire_writer answer = {0};
	_cleanup_(maps_free) struct maps maps = {0};
	const void *pattern = wire_take_bytes(rest, (size_t)question->patterns * MAPS_PATTERN_BYTES);
	int r = pattern ? maps_read(question->proc_root, question->pid, pattern, question->patterns, &maps) : -EPROTO;

	wire_put(&answer, (uint32_t)r, 4);
	if (r == 0)
		wire_put(&answer, maps.count, 4);
	for (size_t i = 0; i < maps.count; i++) {
		const struct mapping *mapping = &maps.mapping[i];

		wire_put(&answer, mapping->start, 8);
		wire_put(&answer, mapping->end, 8);
		wire_put(&answer, mapping->id.device, 8);
		wire_put(&answer, mapping->id.inode, 8);
		wire_put(&answer, mapping->deleted, 1);
		wire_put(&answer, strlen(mapping->path), 4);
		wire_put_bytes(&answer, mapping->path, strlen(mapping->path));
	}
	return reader_say(&answer, NULL);
}

static int serve_file(const struct question *question, struct wire_reader *rest, const struct worker_task *task)
{
	_cleanup_(wire_free) struct wire_writer answer = {0};
	_cleanup_free_ char *path = NULL;
	struct mapping mapping = {
		question->start, question->end, {question->device, question->inode}, question->deleted != 0, NULL};
	const void *text = wire_take_bytes(rest, question->path_bytes);
	struct mapped_file file = {.fd = -1};
	int r = -EPROTO;

	path = text ? strndup(text, question->path_bytes) : NULL;
	mapping.path = path;
	if (path)
		r = mapped_file_open(question->proc_root, question->pid, &mapping, &file);
	wire_put(&answer, (uint32_t)r, 4);
	if (r == 0) {
		wire_put(&answer, file.id.device, 8);
		wire_put(&answer, file.id.inode, 8);
		wire_put(&answer, (uint64_t)file.changed.tv_sec, 8);
		wire_put(&answer, (uint64_t)file.changed.tv_nsec, 8);
		wire_put(&answer, file.size_bytes, 8);
		wire_put(&answer, file.overlay, 1);
		wire_put(&answer, file.user_served, 1);
	}
	r = reader_say(&answer, r == 0 ? &file.fd : NULL);
	closep(&file.fd);
	return r;
}

/* Whoever takes over the process while it reads the file has its descriptor, a socket and no capability. */
static int serve_facts(const struct question *question, struct wire_reader *rest, const struct worker_task *task)
{
	_cleanup_(wire_free) struct wire_writer answer = {0};
	_cleanup_(facts_free) struct facts facts = {0};
	_cleanup_free_ struct probe *probe = calloc(question->rows + 1, sizeof(*probe));
	const void *rows = wire_take_bytes(rest, (size_t)question->rows * sizeof(*probe));
	_cleanup_close_ int fd = -1;
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size_bytes = 0;
	int r;

	if (!probe || !rows || task->fds != 1)
		return -EPROTO;
	memcpy(probe, rows, question->rows * sizeof(*probe));
	fd = mapped_file_reopen(task->fd[0]);
	if (worker_child_keep(0) < 0)
		return -EPERM;
	r = fd < 0 ? fd : facts_find(fd, question->base_name, probe, question->rows, &facts);
	if (r == 0)
		r = facts_encode(&facts, &bytes, &size_bytes);
	wire_put(&answer, (uint32_t)r, 4);
	wire_put_bytes(&answer, bytes, size_bytes);
	return reader_say(&answer, NULL);
}

int reader_serve(const struct worker_task *task)
{
	static int (*const serve[READER_OPS])(
		const struct question *question, struct wire_reader *rest, const struct worker_task *task) = {
		[READER_MAPS] = serve_maps,
		[READER_FILE] = serve_file,
		[READER_FACTS] = serve_facts,
	};
	struct wire_reader rest = {task->request, task->size_bytes, false};
	const void *head = wire_take_bytes(&rest, sizeof(struct question));
	struct question question;
	char build[32];

	if (!head)
		return -EPROTO;
	memcpy(&question, head, sizeof(question));
	put_build(build);
	if (strncmp(question.build, build, sizeof(build)) != 0 || question.op >= READER_OPS ||
		worker_child_keep(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH) < 0)
		return -EPROTO;
	return serve[question.op](&question, &rest, task);
}
