# SPDX-License-Identifier: Apache-2.0
"""A rank that maps a library whose blocks are scattered, and then deletes it: whoever closes it last frees the blocks one by one.

usage: scatter_file.py RANK_LIBRARY LIBRARY FILE MIB

FILE becomes LIBRARY, and so many MiB with a hole in every second block. RANK_LIBRARY makes the process a rank. "ready" on
standard output: both are mapped. SIGUSR1 deletes FILE and ends.
"""
import ctypes
import os
import shutil
import signal
import sys

import map_files

BLOCK = 4096
KEEP_SIZE, PUNCH_HOLE = 1, 2


def scatter(path, mib):
    fallocate = map_files.libc.fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    file = os.open(path, os.O_RDWR)
    start = (os.fstat(file).st_size // BLOCK + 1) * BLOCK
    os.posix_fallocate(file, start, mib << 20)
    for offset in range(start, start + (mib << 20), 2 * BLOCK):
        if fallocate(file, PUNCH_HOLE | KEEP_SIZE, offset, BLOCK) != 0:
            sys.exit(f"scatter_file: no holes here: {os.strerror(ctypes.get_errno())}")
    os.fsync(file)
    os.close(file)


def main():
    first, library, path, mib = *sys.argv[1:4], int(sys.argv[4])
    shutil.copyfile(library, path)
    scatter(path, mib)
    if map_files.map_file(first) != 1 or map_files.map_file(path) != 1:
        sys.exit("scatter_file: cannot map")
    print("ready", flush=True)
    signal.sigwait({signal.SIGUSR1})
    os.unlink(path)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    main()
