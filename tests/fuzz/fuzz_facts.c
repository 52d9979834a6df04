/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the answer of a worker that read hostile input: refused, or within its bounds. The first byte says whose
 * answer: facts about a file, maps of a process, an opened file, or what a process shows of itself.
 */
#include "daemon/probes/reader.h"
#include "daemon/ranks/ranks_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

#define FILE_BYTES (1u << 20)

static struct probe rows[] = {
	{.name = "function", .symbol = {"f"}, .symbols = 1, .accessor = {"g"}, .accessors = 1},
	{.name = "usdt", .usdt_provider = "p", .usdt_name = "n"},
};
static const struct probe_table table = {rows, ARRAY_SIZE(rows)};
static const uint16_t numbers[] = {0, 1};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void fuzz_facts(const struct worker_reply *reply)
{
	_cleanup_(facts_free) struct facts facts = {0};

	if (reader_take_facts(reply, FILE_BYTES, &table, numbers, ARRAY_SIZE(numbers), &facts) < 0)
		return;
	must(facts.rows == ARRAY_SIZE(rows) && facts.sites <= FACTS_SITES_MAX);
	for (size_t i = 0; i < facts.sites; i++) {
		const struct fact_site *site = &facts.site[i];

		must(site->row < facts.rows && facts.row[site->row].found && site->returns <= RETURNS_MAX &&
			site->operands <= USDT_OPERANDS_MAX && site->function_offset + site->entry_delta < FILE_BYTES);
		for (int32_t k = 0; k < site->returns; k++)
			must(site->return_offset[k] <= FILE_BYTES);
	}
}

static void fuzz_maps(const struct worker_reply *reply)
{
	_cleanup_(maps_free) struct maps maps = {0};

	if (reader_take_maps(reply, &maps) < 0)
		return;
	must(maps.count <= MAPS_FILES_MAX);
	for (size_t i = 0; i < maps.count; i++)
		must(maps.mapping[i].path[0] == '/' && strlen(maps.mapping[i].path) < MAPS_PATH_BYTES_MAX);
}

static void fuzz_file(struct worker_reply *reply)
{
	struct mapped_file file;

	must(reader_take_file(reply, &file) < 0); /* it brings no descriptor */
}

static void fuzz_process(const uint8_t *data, size_t size_bytes)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};
	struct rank_watched watched[4];

	must(rank_watch_take(data, size_bytes, watched, ARRAY_SIZE(watched)) <= (int)ARRAY_SIZE(watched));
	if (rank_read_take(data, size_bytes, 7, &read) < 0)
		return;
	must(read.above.count <= RANK_ANCESTORS_MAX && read.count > 0 && read.count <= ARRAY_SIZE(read.process) &&
		read.process[0].pid == 7);
	for (unsigned i = 0; i < read.count; i++)
		must(strlen(read.process[i].env.job) < sizeof(read.process[i].env.job) &&
			strlen(read.process[i].command) <= read.process[i].command_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct worker_reply reply = {.end = WORKER_ANSWERED, .data = data + 1, .size_bytes = size_bytes - 1};

	if (size_bytes == 0)
		return 0;
	if (data[0] % 4 == 0)
		fuzz_facts(&reply);
	else if (data[0] % 4 == 1)
		fuzz_maps(&reply);
	else if (data[0] % 4 == 2)
		fuzz_file(&reply);
	else
		fuzz_process(data + 1, size_bytes - 1);
	return 0;
}
