#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/schema.md is what schema.def gives, and producers of the daemon set every column of a row. schema.sh SOURCE BUILD
set -euo pipefail
cd "$1"
failed=0
"$2/docs/schema-doc" | diff docs/schema.md - || {
	echo "docs/schema.md is not what analyzers/store/schema.def says: cmake --build $2 --target schema-md"
	failed=1
}
python3 - <<'PY' || failed=1
import glob
import re
import sys

tables, table = {}, None
for line in open("analyzers/store/schema.def", encoding="utf-8"):
    if match := re.match(r"TABLE\([A-Z_]+, ([a-z_]+),", line):
        table = tables.setdefault(match[1], [])
    elif match := re.match(r"COLUMN\(([a-z_]+),", line):
        table.append(match[1])
# Columns that a producer has no value for.
UNSET = {("collector.c", "drops", "table_name")}
wrong, producers = [], {}
for path in sorted(glob.glob("daemon/**/*.[ch]", recursive=True)):
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    for match in re.finditer(r"struct row_([a-z_]+)(?: [a-z_]+ = |\))\{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        row = re.sub(r"^#.*$", ",", text[match.end() - 1:end], flags=re.M)
        fields = set(re.findall(r"[{,]\s*\.([a-z_]+) =", row))
        for rows in re.findall(r'^#include "(.*\.def)"', text[match.end() - 1:end], flags=re.M):
            fields.update(re.findall(r"^HOST_SAMPLED\([A-Z_]+, ([a-z_]+),", open(rows, encoding="utf-8").read(), flags=re.M))
        name, line = match[1], text.count("\n", 0, match.start()) + 1
        producers[name] = producers.get(name, 0) + 1
        for column in tables[name]:
            if column not in fields and (path.split("/")[-1], name, column) not in UNSET:
                wrong.append(f"{path}:{line}: a row of {name} without .{column}")
    for match in re.finditer(r"\(void\)\s*store_put", text):
        wrong.append(f"{path}: the result of store_put is cast away")
wrong += [f"no producer of {name} in daemon/" for name in tables if name not in producers]
print("\n".join(wrong) or f"{len(tables)} tables, {sum(producers.values())} producers: every column is set")
sys.exit(bool(wrong))
PY
exit "$failed"
