# SPDX-License-Identifier: Apache-2.0
"""A rank that begins to execute another program and takes long to free its memory: it gets no CPU beside a process of its own.
From there until it ends the kernel lets nobody read its stat, exe, fd, maps and environ.

usage: slow_exec.py MIB LIBRARY
"""
import mmap
import os
import signal
import sys
import time

import map_files

MAP_POPULATE = 0x8000
SECONDS = 30


def main():
    mib, library = int(sys.argv[1]), sys.argv[2]
    cpu = {min(os.sched_getaffinity(0))}
    if map_files.map_file(library) != 1:
        sys.exit(f"slow_exec: cannot map {library}")
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_POPULATE)
    print("ready", flush=True)
    signal.sigwait({signal.SIGUSR1})
    os.sched_setaffinity(0, cpu)
    if os.fork() == 0:
        memory.close()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pass
        os._exit(0)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.execv("/bin/sleep", ["sleep", str(SECONDS)])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    main()
