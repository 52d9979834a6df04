#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts recorded output into documents: update.py FOLDER FILE...

A fenced block behind the line `<!-- recorded: NAME -->` gets the contents of FOLDER/NAME. `<!-- recorded: NAME 1-3,5 -->`
takes these lines only; `...` stands for lines left out. A first line `$ command` of the block is kept.
"""
import pathlib
import re
import sys

MARKER = re.compile(r"^(\s*)<!-- recorded: (\S+)(?: ([\d,-]+))? -->$")


def chosen(lines, ranges):
    """The lines of the ranges, with `...` in each gap."""
    out, last = [], 0
    for part in ranges.split(","):
        first, _, end = part.partition("-")
        if int(first) > last + 1:
            out.append("...")
        last = int(end or first)
        out += lines[int(first) - 1:last]
    return out + ["..."] * (last < len(lines))


def update(path, folder):
    out, lines = [], path.read_text(encoding="utf-8").splitlines()
    i = 0
    while i < len(lines):
        out.append(lines[i])
        match = MARKER.match(lines[i])
        i += 1
        if not match:
            continue
        indent, name, ranges = match.groups()
        fence = next(n for n in range(i, len(lines)) if lines[n].strip().startswith("```"))
        end = next(n for n in range(fence + 1, len(lines)) if lines[n].strip() == "```")
        out += lines[i:fence + 1]
        if lines[fence + 1].strip().startswith("$ "):
            out.append(lines[fence + 1])
        recorded = (folder / name).read_text(encoding="utf-8").rstrip().splitlines()
        out += [(indent + line).rstrip() for line in (chosen(recorded, ranges) if ranges else recorded)]
        i = end
    path.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for file in sys.argv[2:]:
        update(pathlib.Path(file), pathlib.Path(sys.argv[1]))
