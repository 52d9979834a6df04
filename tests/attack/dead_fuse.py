# SPDX-License-Identifier: Apache-2.0
"""A file system with one file, NAME, whose server answers what opening needs and nothing else: no read, no close.

usage: dead_fuse.py FOLDER NAME UID MOUNTER [FILE SECONDS]    (as root: mounts with allow_other, then serves as UID)

UID owns the file; MOUNTER is the user whose mount it is.

With FILE the file is that one and is served, until SIGUSR1: then the server evicts its pages from the kernel's cache, is
silent for so many seconds, and ends; until SIGUSR2: the same, without the eviction. "ready" on standard output: it is
mounted. Ends when the file system is unmounted.
"""
import ctypes
import os
import signal
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, GETXATTR, INIT, OPENDIR, ACCESS = 1, 2, 3, 14, 15, 17, 22, 26, 27, 34
SILENT = (FORGET, 42)  # and FORGET of many: the kernel expects no answer
ENOENT, ENOSYS = 2, 38
NOTIFY_INVAL_INODE = 2
CONTENT = bytes(1 << 20)


def attributes(node, uid):
    size, mode, links = len(CONTENT), *((0o40755, 2) if node == 1 else (0o100755, 1))
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, size >> 9, 0, 0, 0, 0, 0, 0, mode, links, uid, uid, 0, 4096, 0)


def answer(opcode, node, body, name, uid, serves):
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
    if opcode == READ and serves:
        offset, size = struct.unpack_from("<8xQI", body)
        return CONTENT[offset:offset + size]
    return ENOSYS if serves and opcode not in SILENT else None


def evict(device):
    os.write(device, struct.pack("<IiQQqq", 40, NOTIFY_INVAL_INODE, 0, 2, 0, 0))
    print("evicted", flush=True)


def fall_silent(seconds):
    time.sleep(seconds)
    os._exit(0)


def main():
    global CONTENT
    folder, name, uid, mounter = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
    serves = len(sys.argv) == 7
    if serves:
        with open(sys.argv[5], "rb") as file:
            CONTENT = file.read()
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={mounter},group_id={mounter},allow_other"
    if ctypes.CDLL(None, use_errno=True).mount(b"dead", folder.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"dead_fuse: cannot mount: {os.strerror(ctypes.get_errno())}")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    if serves:
        seconds = float(sys.argv[6])
        signal.signal(signal.SIGUSR1, lambda *_: (evict(device), fall_silent(seconds)))
        signal.signal(signal.SIGUSR2, lambda *_: fall_silent(seconds))
    print("ready", flush=True)
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        out = answer(opcode, node, request[40:], name, uid, serves)
        if out is None:
            continue
        error, out = (0, out) if isinstance(out, bytes) else (-out, b"")
        os.write(device, struct.pack("<IiQ", 16 + len(out), error, unique) + out)


if __name__ == "__main__":
    main()
