# SPDX-License-Identifier: Apache-2.0
"""Maps files as code, as a program maps its libraries, and waits. "ready" on standard output: all are mapped.

usage: map_files.py [--times N FILE] FILE...

--times maps FILE that often above all others, each mapping a line of /proc/PID/maps: the others are its first lines.
"""
import ctypes
import os
import signal
import sys

PROT_READ, PROT_EXEC, MAP_PRIVATE = 1, 4, 2
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)


def map_file(path, times=1):
    fd = os.open(path, os.O_RDONLY)
    done, length = 0, os.fstat(fd).st_size if times == 1 else 4096
    while done < times and libc.mmap(None, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != ctypes.c_void_p(-1).value:
        done += 1
    os.close(fd)
    return done


def main():
    args = sys.argv[1:]
    if args[0] == "--times":
        print("mapped", map_file(args[2], int(args[1])), flush=True)
        args = args[3:]
    for path in args:
        if map_file(path) != 1:
            sys.exit(f"map_files: cannot map {path}")
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
