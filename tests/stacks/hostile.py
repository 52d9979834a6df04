# SPDX-License-Identifier: Apache-2.0
"""A program that rewrites its interpreter's memory in a loop: the place of the frames of a thread that sleeps.

hostile.py SECONDS: says "ready" when it begins.
"""
import ctypes
import os
import random
import sys
import threading
import time

FRAME_AT = {8: 24, 9: 24, 10: 24, 11: 56, 12: 56, 13: 72, 14: 72}  # thread_frame of stacks/python/versions.def


def sleeper(started):
    started.set()
    time.sleep(3600)


def states():
    api = ctypes.pythonapi
    for function in (api.PyThreadState_Get, api.PyInterpreterState_Head, api.PyInterpreterState_ThreadHead, api.PyThreadState_Next):
        function.restype = ctypes.c_void_p
    state = api.PyInterpreterState_ThreadHead(ctypes.c_void_p(api.PyInterpreterState_Head()))
    while state:
        yield state
        state = api.PyThreadState_Next(ctypes.c_void_p(state))


def main():
    started = threading.Event()
    threading.Thread(target=sleeper, args=(started,), daemon=True).start()
    started.wait()
    time.sleep(0.2)
    other = next(s for s in states() if s != ctypes.pythonapi.PyThreadState_Get())
    field = ctypes.c_uint64.from_address(other + FRAME_AT[sys.version_info[1]])
    right = field.value
    # Nothing, a small number, an address that is none, itself, the state, objects of other types, unaligned, the end of memory.
    wrong = [0, 8, 1 << 63, ctypes.addressof(field), other, id(wrong_object), id(main), right + 1, (1 << 64) - 8]
    values = random.choices(wrong + [right], k=10000)
    print("ready", flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for value in values:
            field.value = value
    os._exit(0)


wrong_object = [[]]
if __name__ == "__main__":
    main()
