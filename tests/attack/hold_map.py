# SPDX-License-Identifier: Apache-2.0
"""A rank that maps a library and then holds its own memory map for as long as a file server is silent: unmapping a shared
mapping that was written to waits for the server. Meanwhile the kernel cannot attach a probe to the library.

usage: hold_map.py RANK_LIBRARY LIBRARY FILE PID

RANK_LIBRARY is mapped at first and makes the process a rank. FILE is on the server's mount; PID is the server, which SIGUSR2
makes silent. SIGUSR1 begins.
"""
import ctypes
import mmap
import os
import signal
import sys

import map_files

BYTES = 4096


def main():
    first, library, path, server = *sys.argv[1:4], int(sys.argv[4])
    if map_files.map_file(first) != 1:
        sys.exit(f"hold_map: cannot map {first}")
    memory = mmap.mmap(os.open(path, os.O_RDWR), BYTES, flags=mmap.MAP_SHARED)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    print("ready", flush=True)
    signal.sigwait({signal.SIGUSR1})
    memory[0] = 1
    os.kill(server, signal.SIGUSR2)
    if map_files.map_file(library) != 1:
        sys.exit(f"hold_map: cannot map {library}")
    map_files.libc.munmap(ctypes.c_void_p(address), BYTES)
    print("released", flush=True)
    signal.pause()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    main()
