#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboards against Grafana's own schema: the TypeScript types of @grafana/schema, checked by the TypeScript compiler.

    tests/fleet/grafana.py [FILE.json...]

Each dashboard is a literal of the type Dashboard, each panel's options and custom field options of that panel's types: unknown
and missing keys and wrong values are errors. Enumerations of the schema become unions of their values, as JSON has values. Needs npm and its registry; not run
by CI.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SCHEMA, COMPILER = "@grafana/schema@13.2.3", "typescript@5"
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = {"status-history": "statushistory", "state-timeline": "statetimeline"}


def unions(folder):
    """enum A { B = "b" } becomes type A = "b", in all types."""
    def union(found):
        return f"export type {found[1]} = {' | '.join(re.findall(r'= ([^,]+?),?$', found[2], flags=re.M))};"

    for path in folder.rglob("*.d.ts"):
        path.write_text(re.sub(r"export declare enum (\w+) \{(.*?)^\}", union, path.read_text(), flags=re.S | re.M))


def part(types, panel, name, value):
    """A constant of a panel's type, where the schema has that type."""
    kind = FOLDERS.get(panel["type"], panel["type"])
    path = types / "raw/composable" / kind / "panelcfg/x/types.gen.d.ts"
    if not path.exists():
        raise SystemExit(f"the schema has no panel '{panel['type']}'")
    if f"interface {name} " not in path.read_text():
        return ""
    return (f"{{ const {name.lower()}: Partial<import('./types/raw/composable/{kind}/panelcfg/x/types.gen').{name}> = {json.dumps(value)};"
            f" void {name.lower()}; }} // {panel['title']}\n")


def main():
    files = [pathlib.Path(name) for name in sys.argv[1:]] or sorted((SOURCE / "packaging/grafana").glob("*.json"))
    with tempfile.TemporaryDirectory(prefix="grafana.") as work:
        work = pathlib.Path(work)
        subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--prefix", work, SCHEMA, COMPILER], check=True)
        types = work / "types"
        shutil.copytree(work / "node_modules/@grafana/schema/dist/types", types)
        unions(types)
        checked = 0
        for path in files:
            board = json.loads(path.read_text())
            text = ("import type { Dashboard } from './types/raw/dashboard/x/types.gen';\n"
                    f"const dashboard: Dashboard = {json.dumps(board, indent=1)};\nvoid dashboard;\n")
            for panel in board["panels"]:
                text += part(types, panel, "Options", panel.get("options", {}))
                text += part(types, panel, "FieldConfig", panel.get("fieldConfig", {}).get("defaults", {}).get("custom", {}))
                checked += 1
            (work / f"{path.stem}.ts").write_text(text)
        done = subprocess.run([work / "node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2020", "--moduleResolution", "node",
                               "--module", "es2020", *[work / f"{path.stem}.ts" for path in files]], capture_output=True, text=True)
    print(done.stdout.replace(str(work), ""), end="")
    print(f"{len(files)} dashboards, {checked} panels: {'valid' if done.returncode == 0 else 'not valid'}")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
