# SPDX-License-Identifier: Apache-2.0
"""Maps files as code, as a program maps its libraries, and waits. "ready" on standard output: all are mapped.

usage: map_files.py [--times N FILE] [--after LINK] FILE...

--times maps FILE that often above all others, each mapping a line of /proc/PID/maps: the others are its first lines.
--after opens the others, prints "open", and maps them once LINK is a symbolic link.
"""
import ctypes
import os
import signal
import sys
import time

PROT_READ, PROT_EXEC, MAP_PRIVATE = 1, 4, 2
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)


def map_file(path, times=1):
    return map_open(os.open(path, os.O_RDONLY), times)


def map_open(fd, times=1):
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
    after = args[1] if args[0] == "--after" else None
    files = [(path, os.open(path, os.O_RDONLY)) for path in args[2 if after else 0:]]
    if after:
        print("open", flush=True)
        while not os.path.islink(after):
            time.sleep(0.01)
    for path, fd in files:
        if map_open(fd) != 1:
            sys.exit(f"map_files: cannot map {path}")
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
