# SPDX-License-Identifier: Apache-2.0
"""Says when a file is opened, for whatever: "ready", then "opened" for each time.

usage: watch_open.py FILE
"""
import ctypes
import os
import sys

IN_OPEN = 0x20
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init()
if watch < 0 or libc.inotify_add_watch(watch, sys.argv[1].encode(), IN_OPEN) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("ready", flush=True)
while os.read(watch, 4096):
    print("opened", flush=True)
