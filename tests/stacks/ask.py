#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a daemon for a profile and waits for its end, by the bytes of proto/control.proto.

ask.py SOCKET SECONDS HZ: prints "profile NUMBER SAMPLES REFUSED LOST", or the error.
"""
import pathlib
import socket
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from protobuf import fields  # noqa: E402

REQUEST_PROFILE, RESPONSE_MESSAGE, RESPONSE_PROFILE = 10, 3, 18


def number(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(key, value):
    if isinstance(value, bytes):
        return number(key << 3 | 2) + number(len(value)) + value
    return number(key << 3) + number(value)


def ask(path, seconds, hz, profile):
    wish = field(1, int(seconds * 1e9)) + field(2, hz) + field(3, profile)
    body = field(1, 1) + field(2, REQUEST_PROFILE) + field(7, wish)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"RTCT" + struct.pack("<HHI", 1, 1, len(body)) + body)
        with connection.makefile("rb") as file:
            answer = file.read(struct.unpack("<I", file.read(12)[8:])[0])
    response = dict(fields(answer))
    if RESPONSE_PROFILE not in response:
        sys.exit(response.get(RESPONSE_MESSAGE, b"no answer").decode())
    return list(fields(response[RESPONSE_PROFILE]))


def main():
    path, seconds, hz = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    profile = dict(ask(path, seconds, hz, 0))[1]
    while True:
        answer = ask(path, 0, 0, profile)
        if not dict(answer).get(2):
            break
        time.sleep(0.2)
    ranks = [dict(fields(value)) for key, value in answer if key == 5]
    print("profile", profile, *(sum(rank.get(key, 0) for rank in ranks) for key in (5, 6, 7)))
    for rank in ranks:
        if rank.get(8):
            print("rank %d: %s" % (rank.get(1, 0), rank[8].decode()))


if __name__ == "__main__":
    main()
