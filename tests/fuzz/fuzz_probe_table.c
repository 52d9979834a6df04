/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a probe table: it is read or refused with a sentence, and what was read keeps the limits.
 */
#include "daemon/probes/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct probe_table table = {0};
	char error[512] = "";
	bool found[PROBES_MAX], use[PROBES_MAX];

	if (probe_table_parse(&table, "fuzz", (const char *)data, size_bytes, error, sizeof(error)) < 0) {
		if (!*error || table.count)
			abort();
		return 0;
	}
	for (size_t i = 0; i < table.count; i++) {
		const struct probe *probe = &table.probe[i];

		if (probe->spec.args > RT_CALL_ARGS_MAX || probe->edge >= RT_EDGE_MAX || !probe->libraries ||
			probe->accessors > PROBE_ACCESSORS_MAX || probe->foreign)
			abort();
		for (unsigned k = 0; k < probe->spec.args; k++)
			if (probe->spec.arg[k].read >= RT_READ_MAX || probe->spec.arg[k].hops > RT_CALL_HOPS_MAX ||
				probe->spec.arg[k].size_bytes > RT_CALL_HASH_MAX || probe->field[k] > OP_FIELD_MAX ||
				probe->accessor_of[k] > probe->accessors)
				abort();
		found[i] = probe_matches_library(probe, "libtorch_cpu.so.1");
	}
	probe_table_choose(&table, found, use);
	for (size_t i = 0; i < table.count; i++)
		if (use[i] && !found[i])
			abort();
	probe_table_free(&table);
	return 0;
}
