# SPDX-License-Identifier: Apache-2.0
"""A rank that ends in a known place: dying.py LIBRARY START KIND. It is a rank because it maps LIBRARY, and ends once START
exists."""
import ctypes
import gc
import os
import sys
import threading
import time


def parse(text):
    return int(text)  # line of exception


class Batch:
    def load(self):
        try:
            return [parse(text) for text in ("1", "x")]
        finally:
            time.sleep(0)


def fault(depth):
    if depth:
        return fault(depth - 1)
    return ctypes.memset(16, 0, 1)  # line of fault


def wait_forever():
    while True:
        time.sleep(600)  # line of killed


def spin_forever():
    while True: pass  # line of spin


def give_up():
    os._exit(3)  # line of exit


def abort_later():
    time.sleep(0.2)
    os.abort()  # line of abort


def wait_for_other():
    threading.Thread(target=abort_later, daemon=True).start()
    threading.Event().wait()  # line of other


def deep(depth):
    return deep(depth + 1)  # line of deep


def fill_memory():
    blocks = []
    while True:
        blocks.append(b"x" * (1 << 20))  # line of memory


def main(library, start, kind):
    ctypes.CDLL(library)
    while not os.path.exists(start):
        gc.collect()  # line of stage
        time.sleep(0.2)
    {"exception": Batch().load, "fault": lambda: fault(30), "killed": wait_forever, "spin": spin_forever, "exit": give_up,
     "abort": wait_for_other, "deep": lambda: deep(0), "memory": fill_memory, "normal": lambda: None, "status": lambda: sys.exit(7)}[kind]()


main(*sys.argv[1:])
