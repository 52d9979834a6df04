# SPDX-License-Identifier: Apache-2.0
"""A training on the CPU that keeps the graph of each loss, under PyTorch's profiler with profile_memory: its allocator then
reports blocks as that of a card always does. Beside it an allocator of a card, made by hand, that reports through the same
function of PyTorch, and keeps its own books.

leak.py START TRUTH SECONDS CUDART [card|retries|ends]: waits for the file START, trains, writes the books to TRUTH. CUDART: a CUDA runtime
that refuses what is too large. card: without a training. retries: each step takes memory and gives it back, in calls that
take their time. ends: nobody catches the failed request, and the process ends at once.
"""
import ctypes
import json
import os
import sys
import time

import torch

start, truth, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
cudart = ctypes.CDLL(sys.argv[4])
c10 = ctypes.CDLL("libc10.so.1.13", mode=ctypes.RTLD_GLOBAL)
report = c10._ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE
failed = c10._ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE
for function, count in ((report, 4), (failed, 3)):
    function.argtypes = [ctypes.c_int64] * count + [ctypes.c_uint16]
    function.restype = None
CARD, RESERVED = 1, 32 << 20  # cuda:0; the segment of pieces()
books = {}
allocated = peak = reports = 0


def taken(address, size):
    global allocated, peak, reports
    allocated += size
    peak = max(peak, allocated)
    reports += 1
    books[address] = size
    return address, size, allocated, RESERVED, CARD


def given(address):
    global allocated, reports
    size = books.pop(address)
    allocated -= size
    reports += 1
    return address, -size, allocated, RESERVED, CARD


def weights():
    for i in range(16):
        report(*taken(0x7B0000000000 + (i << 24), (1 << 20) + (i << 9)))


def keep(step):
    for i in range(4):
        report(*taken(0x7E0000000000 + (step << 20) + (i << 16), 16384))


def use():
    for i in range(8):
        report(*taken(0x7D0000000000 + (i << 24), 300000))
    for i in range(8):
        report(*given(0x7D0000000000 + (i << 24)))


def pieces():
    segment = ctypes.c_void_p()
    cudart.cudaMalloc(ctypes.byref(segment), ctypes.c_size_t(32 << 20))
    for at in (0, 20):
        report(*taken(segment.value + (at << 20), 8 << 20))


def library():
    cudart.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64 << 20))


def late():
    report(*taken(0x7F8000000000, 64 << 20))


def ask():
    failed(1 << 31, allocated, RESERVED, CARD)


def copies():
    for kind, size, source, function in [(1, 1 << 20, 0, cudart.cudaMemcpy), (2, 3 << 20, 0, cudart.cudaMemcpy), (1, 5 << 20, 0, cudart.cudaMemcpyAsync),
                                         (1, 7 << 20, 1, cudart.cudaMemcpyAsync), (1, 9, 1, cudart.cudaMemcpyAsync), (3, 11 << 20, 0, cudart.cudaMemcpyAsync)]:
        for _ in range(10):
            function(ctypes.c_void_p(1 << 40), ctypes.c_void_p(0x7C0000000000 + source), ctypes.c_size_t(size), kind, None)


def copy_too_much():
    cudart.cudaMemcpy(ctypes.c_void_p(1 << 40), ctypes.c_void_p(0x7C0000000000), ctypes.c_size_t(1 << 41), 1)


def call():
    cudart.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 41))
    cudart.cudaFree(None)


def wait():
    for stream in (0, 1):
        cudart.cudaStreamSynchronize(ctypes.c_void_p(stream))


def burst():
    address = ctypes.c_void_p()
    for _ in range(400):
        cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(4096))
        cudart.cudaFree(address)
    cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 42))


def retry():
    address = ctypes.c_void_p()
    cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20))
    cudart.cudaFree(address)


def retries():
    address = ctypes.c_void_p()
    for _ in range(30):
        cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t((2 << 20) + 1))
        cudart.cudaFree(address)


def train():
    loss = model(torch.randn(128, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    return loss


model = torch.nn.Linear(64, 1024)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
losses, step = [], 0
while not os.path.exists(start):
    time.sleep(0.05)
with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False):
    weights()
    pieces()
    library()
    burst()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if sys.argv[5:] == ["retries"]:
            train()
            retries()
        elif len(sys.argv) < 6:
            losses.append(train())
        keep(step)
        use()
        if step % 10 == 0:
            retry()
        step += 1
        time.sleep(0.02)
    if sys.argv[5:] == ["ends"]:
        late()
        call()
        ask()
        os._exit(1)
    for _ in range(3):
        ask()
        time.sleep(0.1)
    copies()
    call()
    copy_too_much()
    for _ in range(2):
        wait()
    with open(truth, "w", encoding="utf-8") as file:
        json.dump({"allocated": allocated, "peak": peak, "reports": reports, "steps": step,
                   "weights": sum(size for address, size in books.items() if address < 0x7C0000000000),
                   "keep": sum(size for address, size in books.items() if 0x7E0000000000 <= address < 0x7F0000000000)}, file)
    time.sleep(1)
