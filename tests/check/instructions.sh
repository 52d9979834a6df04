#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# instructions.sh SOURCE BUILD: the BPF programs have no instruction that Linux 5.10 lacks: of the atomic ones it knows addition, without
# the value before. (The compiler makes an OR of the addition of a constant 0, and a fetch of one whose result is used.)
set -euo pipefail
ls "$2"/bpf/*.bpf.o >/dev/null 2>&1 || { echo "skipped: no BPF objects in $2"; exit 77; }
python3 - "$2"/bpf/*.bpf.o <<'END'
import struct, sys
failed = 0
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    headers, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    instructions = 0
    for at in range(headers, headers + 64 * count, 64):
        _, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind != 1 or not flags & 4:  # SHT_PROGBITS, SHF_EXECINSTR
            continue
        for place in range(offset, offset + size, 8):
            opcode, _, _, immediate = struct.unpack_from("<BBhi", data, place)
            instructions += 1
            # BPF_STX | BPF_ATOMIC of 4 or 8 bytes; BPF_ADD is 0
            if opcode in (0xc3, 0xdb) and immediate:
                print(f"{path}: atomic operation {immediate:#x}, which Linux 5.10 lacks")
                failed = 1
    if not instructions:
        print(f"{path}: no instructions")
        failed = 1
sys.exit(failed)
END
