# SPDX-License-Identifier: Apache-2.0
"""Connects to the daemon's sockets, or asks, as fast as it can, with several processes.

usage: control_flood.py connect|ask|metrics SOCKET SECONDS PROCESSES

connect: connections that end at once. ask: connections that are kept, each always with a request of one kind on its way, of all
kinds that anybody may send. metrics: connections that are kept and say nothing. Prints the sum of what was done.
"""
import os
import socket
import struct
import sys
import time

STATUS, RANKS, CHECK, OPS, STACK = 4, 5, 7, 8, 9
TIMEOUT_S = 5


def connect(path):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(TIMEOUT_S)
    one.connect(path)
    return one


def request(kind):
    body = bytes([0x08, 1, 0x10, kind])
    return b"RTCT" + struct.pack("<HHI", 1, 1, len(body)) + body


def flood_connect(path, _):
    try:
        connect(path).close()
    except OSError:
        return 0
    return 1


kept = []


def flood_metrics(path, _):
    try:
        kept.append(connect(path))
        del kept[:-64]
    except OSError:
        return 0
    return 1


def answer(one):
    head = one.recv(12, socket.MSG_WAITALL)
    if len(head) < 12:
        raise OSError("closed")
    left = struct.unpack("<I", head[8:])[0]
    while left:
        left -= len(one.recv(min(left, 1 << 16))) or left


def flood_ask(path, number):
    kinds = [CHECK, OPS, RANKS, STATUS, STACK]
    try:
        if not kept:
            kept.append(connect(path))
        kept[0].sendall(request(kinds[number % len(kinds)]))
        answer(kept[0])
    except OSError:
        kept.clear()
        return 0
    return 1


def main():
    mode, path, seconds, processes = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    flood = {"connect": flood_connect, "ask": flood_ask, "metrics": flood_metrics}[mode]
    until = time.monotonic() + seconds
    pipes = []
    for number in range(processes):
        out, into = os.pipe()
        if os.fork() == 0:
            done = 0
            while time.monotonic() < until:
                done += flood(path, number)
            os.write(into, str(done).encode())
            os._exit(0)
        os.close(into)
        pipes.append(out)
    print(sum(int(os.read(out, 64) or 0) for out in pipes), flush=True)


if __name__ == "__main__":
    main()
