#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes seeds that stand for large inputs (amplify.c) into the corpus: amplified.py CORPUS

For each target one of its small seeds, repeated, and what is known to cost much: ELF files that announce a million sections,
symbols or notes, environments and command lines of megabytes.
"""
import pathlib
import struct
import sys

MAGIC = b"\177AMP"
REPEATED_BYTES = 32 << 20


def repeat(data, count):
    return b"R" + struct.pack("<IH", count, len(data)) + data


def zeros(count):
    return b"Z" + struct.pack("<I", count)


def elf(section_count, section_type, body, entry_bytes):
    """A shared library with one section header, which says how many there are, and one section with the body."""
    header = b"\177ELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64 + 56 + 3 * 64, 0, 64, 56, 1, 64, 0, 0)
    at = 64 + 56 + 3 * 64 + 3 * 64
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 30, 1 << 30, 4096)
    sections = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, section_count, 2, 0, 0, 0)
    sections += struct.pack("<IIQQQQIIQQ", 1, section_type, 2, 0, at, 1 << 26, 2, 1, 8, entry_bytes)
    sections += struct.pack("<IIQQQQIIQQ", 2, 3, 0, 0, at, 1 << 20, 0, 0, 1, 0)
    return MAGIC + repeat(header + load + bytes(3 * 64) + sections, 1) + b"".join(body)


def seeds():
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 4096, 16)
    note = struct.pack("<III", 8, 16, 3) + b"stapsdt\0" + struct.pack("<QQ", 64, 64)
    yield "elf", "sections", elf(REPEATED_BYTES // 64 - 8, 2, [zeros(REPEATED_BYTES)], 24)
    yield "elf", "symbols", elf(3, 2, [repeat(symbol, REPEATED_BYTES // len(symbol))], 24)
    yield "elf", "notes", elf(3, 7, [repeat(note, 99000)], 0)
    yield "elf", "names", elf(3, 2, [repeat(b"x" * 4096, 4096), repeat(symbol, 1 << 16)], 24)
    yield "rank_env", "large", MAGIC + repeat(b"A=x\0", 400000) + repeat(b"RANK=3\0WORLD_SIZE=4\0", 1)
    yield "rank_env", "long", MAGIC + repeat(b"TOKEN", 1) + repeat(b"=" * 4096, 1024) + repeat(b"a:b@c://", 100000)
    yield "rank_env", "arguments", MAGIC + repeat(b"--token\0", 500000)


def main():
    corpus = pathlib.Path(sys.argv[1])
    for target, name, seed in seeds():
        (corpus / target / ("amplified-" + name)).write_bytes(seed)
    for folder in sorted(path for path in corpus.iterdir() if path.is_dir()):
        small = [path for path in sorted(folder.iterdir()) if not path.name.startswith("amplified-") and 0 < path.stat().st_size < 4096]
        for path in small[:1]:
            data = path.read_bytes()
            (folder / "amplified-repeated").write_bytes(MAGIC + repeat(data, REPEATED_BYTES // len(data)))


main()
