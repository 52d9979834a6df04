# SPDX-License-Identifier: Apache-2.0
"""The fields of a protobuf message, without its schema."""


def fields(data):
    """(number, value) in order; value: an integer or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            assert at + value <= len(data), "a field ends after its message"
            value, at = data[at:at + value], at + value
        elif tag & 7 != 0:
            raise ValueError(f"wire type {tag & 7}")
        yield tag >> 3, value
