# SPDX-License-Identifier: Apache-2.0
"""Checks the colours of a report's HTML against WCAG 2 AA, in each of its colour schemes (light, dark, print).

check_contrast.py FILE: prints the pairs that are too close, exit code 1 if there are any.
"""
import re
import sys

TEXT, SHAPE = 4.5, 3.0  # least ratios of WCAG 2: 1.4.3 for small text, 1.4.11 for what a picture says
PAIRS = [(text, ground, TEXT) for text in ("fg", "mute") for ground in ("bg", "panel", "badsoft", "goodsoft")]
PAIRS += [("bad", ground, TEXT) for ground in ("bg", "panel", "badsoft")] + [("good", "goodsoft", TEXT)]
PAIRS += [("chipfg", "chip", TEXT), ("fg", "cell", TEXT), ("h12fg", "h1", TEXT), ("h12fg", "h2", TEXT), ("h34fg", "h3", TEXT), ("h34fg", "h4", TEXT)]
# A heat map's two lowest levels are below what is announced.
PAIRS += [(shape, "panel", SHAPE) for shape in ("badfill", "cool", "hatch", "e2", "e3", "e4", "e5")]


def luminance(colour):
    digits = colour.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    parts = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def ratio(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


with open(sys.argv[1], encoding="utf-8") as file:
    schemes = re.findall(r":root\{([^}]*)\}", file.read())
assert len(schemes) == 3, f"{len(schemes)} colour schemes, not 3"
failed = False
for name, scheme in zip(("light", "dark", "print"), schemes):
    colours = dict(re.findall(r"--([a-z0-9]+):(#[0-9a-f]+)", scheme))
    for front, ground, least in PAIRS:
        found = ratio(colours[front], colours[ground])
        if found < least:
            print(f"{name}: {front} on {ground}: {found:.2f}, least {least}")
            failed = True
sys.exit(failed)
