# SPDX-License-Identifier: Apache-2.0
"""Writes a library file that is expensive to read.

usage: hostile_elf.py KIND FILE

KIND: sections (4 million section headers, sparse), tables (500 MiB of symbols and names, sparse), notes (99,000 note
sections over the same MiB), names (4 million symbols with a name that nearly matches a pattern), quick (none of these: a
file that is read at once).
"""
import struct
import sys

MIB = 1 << 20
SHT_PROGBITS, SHT_STRTAB, SHT_NOTE, SHT_DYNSYM = 1, 3, 7, 11
# The pattern has a star before "SymbolEN8pybind114args", so each place of the name is tried.
NEAR = b"_ZN5torch3jit37_get_operation_for_overload_or_packetERKSt6vector" + b"SymbolEN8pybind114arg" * 180


def header(section_offset, sections, names_index):
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, section_offset, 0, 64, 56, 1, 64, sections, names_index)


def segment(size):
    return struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)


def section(name, kind, flags, offset, size, link=0, entry=0, info=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, offset, offset, size, link, info, 8, entry)


NAMES = b"\0.text\0.dynsym\0.dynstr\0.shstrtab\0.note\0"


def name_of(text):
    return NAMES.index(text)


def write_tables(file, symbols, symbol_bytes, strings, string_bytes):
    """A file with one function's code, a symbol table and its names; what is not given is a hole."""
    code, symbol_at = 4096, 8192
    string_at = symbol_at + symbol_bytes
    section_at = (string_at + string_bytes + 4095) & ~4095
    file.write(header(section_at, 5, 4) + segment(section_at))
    file.seek(code)
    file.write(b"\x90" * 63 + b"\xc3" + NAMES)
    file.seek(symbol_at)
    symbols(file)
    file.seek(string_at)
    file.write(strings)
    file.seek(section_at)
    file.write(bytes(64) + section(name_of(b".text"), SHT_PROGBITS, 6, code, 64) +
               section(name_of(b".dynsym"), SHT_DYNSYM, 2, symbol_at, symbol_bytes, 3, 24) +
               section(name_of(b".dynstr"), SHT_STRTAB, 2, string_at, string_bytes) +
               section(name_of(b".shstrtab"), SHT_STRTAB, 0, code + 64, len(NAMES)))


def many_sections(file):
    count = 4 * MIB
    file.write(header(64, 0, 0) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, 0, 0, 0, 0))
    file.truncate(64 + 64 * count)


def many_tables(file):
    write_tables(file, lambda _: None, 380 * MIB // 24 * 24, b"\0f\0", 120 * MIB)


def many_names(file):
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 4096, 64)
    count = 4000000

    def symbols(out):
        for _ in range(count // 4000):
            out.write(symbol * 4000)
    write_tables(file, symbols, 24 * count, b"\0" + NEAR + b"\0", len(NEAR) + 2)


def many_notes(file):
    count, note_at = 99000, 8192
    section_at = note_at + MIB
    note = struct.pack("<III", 4, 0, 1) + b"none"  # the shortest notes there are: the most of them
    file.write(header(section_at, 0, 0) + segment(4096))
    file.seek(note_at)
    file.write(note * (MIB // len(note)))
    file.seek(section_at)
    # Section 0 holds the real number of sections and, in its link, the index of their names: none.
    file.write(struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, 0, 0, 0, 0))
    one = section(0, SHT_NOTE, 2, note_at, MIB)
    for _ in range((count - 1) // 1000):
        file.write(one * 1000)
    file.truncate(section_at + 64 * count)


def quick(file):
    write_tables(file, lambda _: None, 24, b"\0f\0", 3)


KINDS = {"sections": many_sections, "tables": many_tables, "notes": many_notes, "names": many_names, "quick": quick}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    with open(sys.argv[2], "wb") as file:
        KINDS[sys.argv[1]](file)


if __name__ == "__main__":
    main()
