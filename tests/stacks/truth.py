# SPDX-License-Identifier: Apache-2.0
"""A program that says where it is (truth.h), for Python 3.8 and later.

truth.py FILE SOURCE SECONDS SEED [torch | torch compile | stop] [log]

It generates functions p_0, p_1, ... that call each other in many ways (directly, from C, through generators,
coroutines, decorators, exec, handlers of exceptions), writes them to SOURCE and runs them in several threads. Each
function notes itself in FILE when it is entered and left. Now and then one writes the whole stack and waits until it
was read. judge.py knows the rules. With "compile" some calls go through functions that PyTorch's compiler has
rewritten, from PyTorch 2.1 on. With "stop" each thread runs to a random place and blocks there; then faulthandler
writes all stacks to FILE and the process stops. With "log" nobody reads: it waits for a while with each stack, and
FILE.log has a line for each: thread, start and end of the wait (CLOCK_MONOTONIC), stack.
"""
import asyncio
import contextlib
import ctypes
import faulthandler
import functools
import hashlib
import json
import mmap
import os
import random
import select
import signal
import sys
import threading
import time

SLOTS, SLOT_BYTES, HEAD_BYTES = 16, 32768, 32
FUNCTIONS, LEAVES, THREADS = 48, 8, 3
TID, MODE, SERIAL, ACK, LENGTH = range(5)
PATH, EXACT = 1, 2


class Context:
    """What one thread writes."""

    def __init__(self, memory, slot, seed, deadline):
        view = memoryview(memory)[slot * SLOT_BYTES:(slot + 1) * SLOT_BYTES]
        self.word = view[:HEAD_BYTES].cast("I")
        self.L = self.word[LENGTH:LENGTH + 1]
        self.D = view[HEAD_BYTES:]
        self.random = random.Random(seed)
        self.deadline = deadline
        self.lock = threading.Lock()
        self.lock.acquire()
        self.serial = 0
        self.calls = 0
        self.block_at = 0
        self.blocked = threading.Event()
        self.log = [] if "log" in sys.argv else None


class Done(Exception):
    pass


def spin(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        pass


def nap(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        time.sleep(0.0005)


def lock(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        c.lock.acquire(timeout=0.001)


def wait_select(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        select.select([], [], [], 0.001)


def key(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        sorted((2, 1), key=lambda n: n * n)


def hashes(c):
    while c.word[ACK] != c.serial and time.monotonic() < c.limit:
        hashlib.sha256(b"x" * 100000).digest()


WAITS = (spin, nap, lock, wait_select, key, hashes)


def publish(c, d):
    stack = []
    frame = sys._getframe(1)
    while frame:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0,
                      code.co_firstlineno])
        frame = frame.f_back
    data = json.dumps(stack).encode()
    if len(data) > SLOT_BYTES - HEAD_BYTES:
        return
    path = bytes(c.D[:d])
    wait = c.random.choice(WAITS)
    c.serial += 1
    c.word[MODE] = 0
    c.D[:len(data)] = data
    c.L[0] = len(data)
    c.word[SERIAL] = c.serial
    c.word[MODE] = EXACT
    c.limit = time.monotonic() + (0.5 if c.log is None else c.random.random() * 0.1)
    start_ns = time.monotonic_ns()
    wait(c)
    if c.log is not None:
        c.log.append([c.word[TID], start_ns, time.monotonic_ns(), stack])
    c.word[MODE] = 0
    c.D[:d] = path
    c.L[0] = d
    c.word[MODE] = PATH


def leaf(c, d):
    c.calls += 1
    if c.block_at:
        if c.calls == c.block_at:
            c.blocked.set()
            c.random.choice((c.lock.acquire, lambda: select.select([], [], []), lambda: max([1], key=c.lock.acquire)))()
        return
    if time.monotonic() > c.deadline:
        raise Done
    if c.calls % 50 == 0:
        publish(c, d)
    if c.calls % 37 == 0:
        time.sleep(c.random.random() * 0.002)
    if c.calls % 101 == 0:
        hashlib.sha256(b"y" * 1000000).digest()


# Ways to call: text with the name and arguments of the callee.
def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass


def wraps(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


@contextlib.contextmanager
def manager():
    yield


LETTERS = ("x_", "\u00e9_", "\u5909_", "\U00010900_")


def fresh(c, function, *args):
    """Calls it from a function whose code is new each time: its name contains its line."""
    line = c.random.randrange(1, 2000)
    name = c.random.choice(LETTERS) + str(line)
    scope = {}
    exec(compile("\n" * (line - 1) + "def %s(f, *a): return f(*a)" % name, name, "exec"), scope)
    return scope[name](function, *args)


CALLBACK = ctypes.CFUNCTYPE(None)


def from_c(function):
    failed = []

    def run():
        try:
            function()
        except Done as done:
            failed.append(done)
    CALLBACK(run)()
    if failed:
        raise failed[0]


CALLS = (
    "{f}(c, d + 1)",
    "{f}(c, d + 1)",
    "{f}(c, d + 1)",
    "sorted((1, 2), key=lambda _: {f}(c, d + 1) or 0)",
    "functools.reduce(lambda a, b: {f}(c, d + 1), (1, 2))",
    "[{f}(c, d + 1) for _ in (1, 2)]",
    "list({f}(c, d + 1) for _ in (1,))",
    "list(map(functools.partial({f}, c), (d + 1,)))",
    "fresh(c, {f}, c, d + 1)",
    "wraps({f})(c, d + 1)",
    "from_c(lambda: {f}(c, d + 1))",
    "Caller({f}, c, d + 1)",
    "+Caller({f}, c, d + 1, False)",
    "{f}( \n        c,\n        d + 1)",
)
BLOCKS = (
    ["{call}"],
    ["{call}"],
    ["try:", "    raise ValueError(d)", "except ValueError:", "    {call}"],
    ["try:", "    pass", "finally:", "    {call}"],
    ["with manager():", "    {call}"],
    ["for _ in range(2):", "    {call}"],
    ["if c.calls % 2:", "    {call}"],
)


class Caller:
    def __init__(self, function, c, d, now=True):
        self.rest = (function, c, d)
        if now:
            function(c, d)

    def __pos__(self):
        function, c, d = self.rest
        return function(c, d)


def make_through():
    """A function that calls another one from a frame that the compiler has rewritten: between its operations on tensors."""
    import torch
    local = threading.local()

    @torch.compiler.disable
    def jump():
        function, arguments = local.call
        function(*arguments)

    @torch.compile(backend="eager")
    def rewritten(x):
        y = x + 1
        jump()
        return y * 2

    def through(function, *arguments):
        local.call = function, arguments
        rewritten(torch.ones(2))
    through(time.monotonic)  # compiled before threads come
    through(time.monotonic)
    return through


def generate(seed, calls):
    """Source of the functions. Kinds: plain, generator, coroutine, asyncio."""
    rng = random.Random(seed)
    kinds = [rng.choice("ppppppgggcccca") if i < FUNCTIONS - LEAVES else "p" for i in range(FUNCTIONS)]
    text = []
    for i, kind in enumerate(kinds):
        text.append("%sdef p_%d(c, d):" % ("async " if kind in "ca" else "", i))
        text.append("    c.D[d] = %d; c.L[0] = d + 1" % i)
        text.append("    leaf(c, d + 1)")
        if i < FUNCTIONS - LEAVES:
            for _ in range(rng.randrange(1, 4)):
                callee = rng.randrange(i + 1, min(i + 9, FUNCTIONS))
                callee_kind = kinds[callee]
                name = "p_%d" % callee
                if callee_kind == "g":
                    call = rng.choice(("list(%s(c, d + 1))", "for _ in %s(c, d + 1): pass", "sum(%s(c, d + 1))")) % name
                elif callee_kind in "ca" and kind in "ca":
                    call = "await %s(c, d + 1)" % name
                elif callee_kind == "c":
                    call = "drive(%s(c, d + 1))" % name
                elif callee_kind == "a":
                    call = "run(%s(c, d + 1))" % name
                else:
                    call = rng.choice(calls).format(f=name)
                for line in rng.choice(BLOCKS):
                    text.extend(("    " + line.format(call=call)).split("\n"))
                if kind == "g" and rng.random() < 0.7:
                    text += ["    c.L[0] = d", "    yield 1", "    c.D[d] = %d; c.L[0] = d + 1" % i]
        if kind == "g":
            text += ["    c.L[0] = d", "    yield 1"]
        else:
            text.append("    c.L[0] = d")
        text.append("")
    return "\n".join(text)


def run_loop(coroutine):
    """asyncio.run() where no loop runs yet, else by hand."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return drive(coroutine)


def work(c, root):
    c.word[TID] = threading.get_native_id()
    c.word[MODE] = PATH
    try:
        while True:
            root(c, 0)
    except Done:
        c.word[MODE] = 0


def train(deadline):
    """Real PyTorch frames beside the others."""
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    if "compile" in sys.argv:
        model = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.randn(256, 64), batch_size=16)
    while time.monotonic() < deadline:
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()


def stop(path, memory, seed, root):
    contexts = [Context(memory, i, seed + i, 0) for i in range(12)]
    for c in contexts:
        c.block_at = c.random.randrange(1, 2000)
        threading.Thread(target=work, args=(c, root), daemon=True).start()
    for c in contexts:
        c.blocked.wait()
    time.sleep(0.3)
    with open(path + ".dump", "w") as file:
        print("ready", flush=True)
        faulthandler.dump_traceback(file, all_threads=True); os.kill(os.getpid(), signal.SIGSTOP)


def main():
    path, source_path, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    compiles = "compile" in sys.argv
    source = generate(seed, CALLS + ("through({f}, c, d + 1)",) * 4 if compiles else CALLS)
    with open(source_path, "w") as file:
        file.write(source)
    with open(path, "wb") as file:
        file.truncate(SLOTS * SLOT_BYTES)
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), SLOTS * SLOT_BYTES)
    scope = dict(globals(), run=run_loop, through=make_through() if compiles else None)
    exec(compile(source, source_path, "exec"), scope)
    root = next(scope["p_%d" % i] for i in range(FUNCTIONS)
                if scope["p_%d" % i].__code__.co_flags & 0x2a0 == 0)
    if compiles:
        root = functools.partial(scope["through"], root)
    if "stop" in sys.argv:
        stop(path, memory, seed, root)
        return
    sys.setswitchinterval(0.002)
    deadline = time.monotonic() + seconds
    contexts = [Context(memory, i, seed + i, deadline) for i in range(THREADS)]
    threads = [threading.Thread(target=work, args=(contexts[i], root), name="work-%d" % i) for i in range(1, THREADS)]
    if "torch" in sys.argv:
        threads.append(threading.Thread(target=train, args=(deadline,)))
    print("ready", flush=True)
    for thread in threads:
        thread.start()
    work(contexts[0], root)
    for thread in threads:
        thread.join()
    if "log" in sys.argv:
        with open(path + ".log", "w") as file:
            for row in sorted(sum((c.log for c in contexts), []), key=lambda row: row[1]):
                file.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the end of a C++ library is no matter here


if __name__ == "__main__":
    main()
