# SPDX-License-Identifier: Apache-2.0
"""A file system with one file, FILE, whose server answers what opening needs and nothing else: no read, no close.

usage: dead_fuse.py FOLDER NAME UID    (as root: mounts with allow_other, then serves as UID)

"ready" on standard output: it is mounted. Ends when the file system is unmounted.
"""
import ctypes
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, STATFS, RELEASE, GETXATTR, INIT, OPENDIR, ACCESS, BATCH_FORGET = 1, 2, 3, 14, 17, 18, 22, 26, 27, 34, 42
ENOENT, ENOSYS = 2, 38
SIZE = 1 << 20


def attributes(node, uid):
    mode, links = (0o40755, 2) if node == 1 else (0o100755, 1)
    return struct.pack("<QQQQQQIIIIIIIIII", node, SIZE, SIZE >> 9, 0, 0, 0, 0, 0, 0, mode, links, uid, uid, 0, 4096, 0)


def answer(opcode, node, body, name, uid):
    """The answer's bytes, an error, or None for silence."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 1, 0, 0)
    if opcode == LOOKUP:
        return struct.pack("<QQQQII", 2, 1, 3600, 3600, 0, 0) + attributes(2, uid) if body.rstrip(b"\0") == name else ENOENT
    if opcode == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + attributes(node, uid)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<QII", 1, 0, 0)
    if opcode == STATFS:
        return struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
    if opcode in (GETXATTR, ACCESS):
        return ENOSYS
    return None


def main():
    folder, name, uid = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid},allow_other"
    if ctypes.CDLL(None, use_errno=True).mount(b"dead", folder.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"dead_fuse: cannot mount: {os.strerror(ctypes.get_errno())}")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    print("ready", flush=True)
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        out = answer(opcode, node, request[40:], name, uid)
        if out is None:
            continue
        error, out = (0, out) if isinstance(out, bytes) else (-out, b"")
        os.write(device, struct.pack("<IiQ", 16 + len(out), error, unique) + out)


if __name__ == "__main__":
    main()
