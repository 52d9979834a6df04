/* SPDX-License-Identifier: Apache-2.0 */
/* Delays are sorted by thread; insertions are rare. */
#include "analyzers/dump/dump_state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/replace.h"

#define LINES_MAX (DUMP_DELAYS_MAX + 64)

static int dump_state_compare(const struct dump_delay *a, int64_t instance, int64_t thread_id)
{
	return ORDER(a->instance, instance) ?: ORDER(a->thread_id, thread_id);
}

uint64_t dump_delay_add(struct dump_state *state, int64_t instance, int64_t thread_id, uint64_t delay_ns)
{
	size_t low = array_first_not(i, state->delays, dump_state_compare(&state->delay[i], instance, thread_id) < 0);

	if (low < state->delays && dump_state_compare(&state->delay[low], instance, thread_id) == 0)
		return state->delay[low].sum_ns += delay_ns;
	if (!array_reserve((void **)&state->delay, &state->delays_capacity, state->delays + 1, sizeof(*state->delay),
		    DUMP_DELAYS_MAX))
		return delay_ns;
	memmove(&state->delay[low + 1], &state->delay[low], (state->delays - low) * sizeof(*state->delay));
	state->delay[low] = (struct dump_delay){instance, thread_id, delay_ns};
	state->delays++;
	return delay_ns;
}

void dump_state_clear(struct dump_state *state)
{
	free(state->delay);
	*state = (struct dump_state){0};
}

static void load_level(struct dump_state *state, const char *word, const char *rest)
{
	struct dump_level_state *level;
	enum dump_kind kind;
	char name[8];
	int at = 0;

	if (sscanf(rest, "%7s %n", name, &at) != 1 || !at || (kind = dump_kind_parse(name)) == DUMP_KIND_MAX)
		return;
	level = &state->level[kind];
	rest += at;
	if (strcmp(word, "place") == 0)
		(void)sscanf(rest, "%" SCNu64 " %" SCNd64 " %" SCNu64, &level->segment, &level->row, &level->since_ns);
	else if (strcmp(word, "window") == 0)
		(void)sscanf(rest, "%" SCNu64, &level->window_ns);
	else if (strcmp(word, "wrote") == 0)
		(void)sscanf(rest, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &level->wrote.at_ns,
			&level->wrote.files, &level->wrote.rows, &level->wrote.bytes);
}

static void dump_state_load_line(struct dump_state *state, char *line)
{
	struct dump_delay delay;
	char word[16];
	int at = 0;

	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%15s %n", word, &at) != 1 || !at)
		return;
	if (strcmp(word, "run") == 0)
		(void)sscanf(line + at, "%" SCNu64, &state->run);
	else if (strcmp(word, "id") == 0)
		(void)sscanf(line + at, "%" SCNu64, &state->next_id);
	else if (strcmp(word, "kept") == 0)
		(void)sscanf(line + at, "%" SCNu64 " %" SCNu64, &state->kept_files, &state->kept_bytes);
	else if (strcmp(word, "reason") == 0)
		dump_utf8(line + at, state->reason, sizeof(state->reason));
	else if (strcmp(word, "delay") == 0 && sscanf(line + at, "%" SCNd64 " %" SCNd64 " %" SCNu64, &delay.instance,
						       &delay.thread_id, &delay.sum_ns) == 3)
		(void)dump_delay_add(state, delay.instance, delay.thread_id, delay.sum_ns);
	else
		load_level(state, word, line + at);
}

void dump_state_read(FILE *f, bool delays, struct dump_state *ret)
{
	char line[512];

	*ret = (struct dump_state){.next_id = 1};
	for (unsigned i = 0; i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
		if (!delays && strncmp(line, "delay", strlen("delay")) == 0)
			break; /* they are last */
		dump_state_load_line(ret, line);
	}
}

static int dump_state_load_file(const char *dump_dir, bool delays, struct dump_state *ret)
{
	char path[PATH_MAX];
	FILE *f;

	*ret = (struct dump_state){.next_id = 1};
	if (snprintf(path, sizeof(path), "%s/state", dump_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? 0 : -errno;
	dump_state_read(f, delays, ret);
	fclose(f);
	return 0;
}

int dump_state_load(const char *dump_dir, struct dump_state *ret)
{
	return dump_state_load_file(dump_dir, true, ret);
}

int dump_state_load_summary(const char *dump_dir, struct dump_state *ret)
{
	return dump_state_load_file(dump_dir, false, ret);
}

static void write_state(FILE *f, const void *arg)
{
	const struct dump_state *state = arg;

	fprintf(f, "# How far the store has been dumped; written by libexec/ranktrace/dump.\n");
	fprintf(f, "run %" PRIu64 "\nid %" PRIu64 "\nkept %" PRIu64 " %" PRIu64 "\n", state->run, state->next_id,
		state->kept_files, state->kept_bytes);
	if (state->reason[0])
		fprintf(f, "reason %s\n", state->reason);
	for (unsigned kind = 0; kind < DUMP_KIND_MAX; kind++) {
		const struct dump_level_state *level = &state->level[kind];
		const char *name = dump_kind_name((enum dump_kind)kind);

		if (level->since_ns)
			fprintf(f, "place %s %" PRIu64 " %" PRId64 " %" PRIu64 "\n", name, level->segment, level->row,
				level->since_ns);
		if (level->window_ns)
			fprintf(f, "window %s %" PRIu64 "\n", name, level->window_ns);
		if (level->wrote.at_ns)
			fprintf(f, "wrote %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", name,
				level->wrote.at_ns, level->wrote.files, level->wrote.rows, level->wrote.bytes);
	}
	for (size_t i = 0; i < state->delays; i++)
		fprintf(f, "delay %" PRId64 " %" PRId64 " %" PRIu64 "\n", state->delay[i].instance,
			state->delay[i].thread_id, state->delay[i].sum_ns);
}

int dump_state_save(const char *dump_dir, const struct dump_state *state)
{
	return replace_file(dump_dir, "state", write_state, state);
}
