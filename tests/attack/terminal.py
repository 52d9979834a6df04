# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own and checks what it shows.

usage: terminal.py FILE COMMAND...

Copies the terminal's output to FILE and fails where it has a character that acts on a terminal, reorders or hides text
(all but line breaks), or where a line begins with "forged". NO_COLOR is set: the tools' own colours are off.
"""
import os
import pty
import sys
import unicodedata

HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, format characters, surrogates, separators


def main():
    path, command = sys.argv[1], sys.argv[2:]
    os.environ["NO_COLOR"] = "1"
    out = bytearray()

    def read(fd):
        data = os.read(fd, 65536)
        out.extend(data)
        return b""

    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    status = pty.spawn(command, read)
    with open(path, "wb") as file:
        file.write(out)
    text = out.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    bad = sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in HARMFUL})
    forged = [line for line in text.split("\n") if line.startswith("forged")]
    if bad or forged:
        sys.exit(f"FAIL: {' '.join(command[:3])}: on a terminal it shows {' '.join(bad)} {forged[:1]}")
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
