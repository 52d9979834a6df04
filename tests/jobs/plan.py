# SPDX-License-Identifier: Apache-2.0
"""Draws a job and its faults from a seed: shape, ranks, sizes, and which fault hits whom, when, how hard and for how long."""
import math
import random

CLEAN_START_S = 35.0     # of training before the first fault
WARM_S = 12.0            # of it, until the first fault of a job that ends with a hang may come, and clean time counts
TAIL_S = 8.0             # clean time after the last fault
PERCENT = 8.0, 700.0     # wanted growth of the mean step
LENGTH_S = 8.0, 40.0     # of most faults; every tenth lasts 5 to 8 s, or up to 3 min where the job is long enough
GAP_S = 12.0, 25.0       # clean time between two faults
HANG_S = 25.0, 45.0      # SIGSTOP and deadlock: longer than the announced time of a hang

# kind: (places, activities that are right, causes that are right, side)
# Without causes, the activity decides. A place "-" is outside the rank's script: the driver does it.
KINDS = {
    "python": (("outside", "between", "forward"), None, None, "host"),
    "sleep": (("outside", "between", "forward", "backward"), None, None, "host"),
    "loader_sleep": (("loader",), ["dataloader"], None, "host"),
    "loader_io": (("loader",), ["dataloader"], None, "host"),
    "gc": (("outside",), ["gc"], ["garbage_collection"], "host"),
    "fsync": (("outside",), ["outside"], None, "host"),
    "matmul": (("forward", "backward", "optimizer"), None, None, None),
    "threads": (("outside",), ["forward", "backward", "optimizer", "outside", "compute"], ["preemption"], "host"),
    "slow_checkpoint": (("checkpoint",), ["checkpoint"], None, "host"),
    "item": (("between",), ["sync", "outside", "forward"], None, "host"),
    "empty_cache": (("outside",), ["outside", "sync"], None, "host"),
    "card": (("-",), ["compute", "forward", "backward", "sync", "optimizer"], None, "card"),
    "preempt": (("-",), [], ["preemption"], "host"),
    "cpu_max": (("-",), [], ["throttling"], "host"),
    "memory": (("-",), [], ["memory", "page_faults", "swap", "host"], "host"),
    "network": (("-",), ["forward", "backward", "sync", "optimizer"], ["communication", "operations", "link", "node_network"], None),
    "stop": (("-",), [], ["stopped"], None),
    "deadlock": (("outside",), [], ["missing", "unknown", "compute"], None),
    "exit": (("outside",), [], ["ended"], None),
}
CARD_ONLY = {"item", "empty_cache", "card"}
ALONE = {"preempt", "cpu_max", "memory", "network", "stop", "threads", "card"}  # their own time is not measured by the rank: no overlap
CHECKPOINT_PERCENT = 100.0  # of the steps between two checkpoints: one that waits longer is a hang
HANGS = {"stop", "deadlock", "exit"}
LAST = {"deadlock", "exit"}
ALIKE = ("python", "sleep", "loader_sleep", "gc", "matmul", "fsync")

# Shape: ranks (least, most), ms of the step on the CPU (least, most), further options.
SHAPES = {
    "ddp": dict(ranks=(2, 4), step_ms=(25, 90)),
    "accum": dict(ranks=(2, 4), step_ms=(15, 30), micro=4),
    "workers": dict(ranks=(2, 2), step_ms=(40, 80), workers=(1, 2)),
    "tiny": dict(ranks=(2, 2), step_ms=(0, 0), width=24, layers=6, batch=4),
    "second": dict(ranks=(2, 4), step_ms=(800, 1200), checkpoint_every=(8, 12)),
    "sharded": dict(ranks=(2, 4), step_ms=(30, 90)),
    "pipeline": dict(ranks=(2, 4), step_ms=(6, 15), micro=4),
    "tensor": dict(ranks=(2, 4), step_ms=(40, 90)),
    "twojobs": dict(ranks=(2, 2), step_ms=(30, 80)),
    "closure": dict(ranks=(2, 4), step_ms=(25, 80)),
    "compile": dict(ranks=(2, 2), step_ms=(25, 80)),
    "eval": dict(ranks=(2, 4), step_ms=(30, 90), checkpoint_every=(20, 50), eval_every=(30, 70)),
    "varlen": dict(ranks=(2, 4), step_ms=(50, 120), checkpoint_every=(30, 60)),
    "noisy": dict(ranks=(2, 3), step_ms=(30, 90), noise=True),
    "lightning": dict(ranks=(2, 2), step_ms=(30, 80), checkpoint_every=(40, 80)),
    "trainer": dict(ranks=(2, 2), step_ms=(30, 80), checkpoint_every=(40, 80)),
    "unpinned": dict(ranks=(2, 4), step_ms=(25, 90)),
}
# DDP marks its forward; in the others the forward lasts from the end of data loading or zero_grad to backward.
MARKED_FORWARD = {"ddp", "accum", "workers", "tiny", "second", "twojobs", "eval", "varlen", "noisy", "closure", "compile", "lightning", "trainer", "unpinned"}
# Whose model is a chain of layers that may be larger than the least.
HEAVY = {"ddp", "workers", "second", "eval", "noisy", "closure", "sharded", "tensor", "unpinned"}
# On cards: width, layers, batch of a model that fills them, where the shape does not say otherwise.
CARD_MODEL = dict(width=4096, layers=6, batch=512)
CARD_MODEL_SAVED = dict(width=2048, layers=6, batch=2048)  # a checkpoint of 100 MB
CARD_MODEL_VARIABLE = dict(width=1024, batch=256)


def spread(rng, least, most):
    """Evenly in the logarithm."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def between(rng, pair):
    return pair[0] if pair[0] == pair[1] else rng.randint(*pair)


def activities(kind, place, shape):
    """What is right to say of a fault: the activities in which its time is."""
    fixed = KINDS[kind][1]
    if fixed is not None:
        return [*fixed, "optimizer"] if place == "between" and shape == "closure" else list(fixed)
    if place == "between":
        # The closure runs within the optimizer: what no other mark covers there is the optimizer's own time. Lightning calls
        # training_step() from within DDP's forward.
        if shape == "closure":
            return ["optimizer", "outside"]
        if shape == "lightning":
            return ["forward"]
        return ["outside"] if shape in MARKED_FORWARD else ["forward", "outside"]
    return [place]


def kinds_for(shape, options, ranks, able, cpus):
    """Faults that this job can have. able: what the machine offers (run.py)."""
    kinds = [k for k in KINDS if k in able]
    if options["device"] != "cuda":
        kinds = [k for k in kinds if k not in CARD_ONLY]
    if not options.get("checkpoint_every"):
        kinds = [k for k in kinds if k != "slow_checkpoint"]
    if not cpus:
        kinds = [k for k in kinds if k not in ("preempt", "threads")]
    if shape == "tiny":  # of 5 ms: a collection takes several, a write to a disk too
        kinds = [k for k in kinds if k not in ("gc", "fsync")]
    if shape in ("twojobs", "noisy"):
        kinds = [k for k in kinds if k != "network"]
    return kinds


def draw_options(rng, shape, device, folder_workers=True):
    row = SHAPES[shape]
    step_ms = rng.uniform(*row["step_ms"])
    options = dict(shape=shape, device=device, width=row.get("width", 64), layers=row.get("layers", 4), batch=row.get("batch", 16),
                   forward_ms=step_ms * 0.3, backward_ms=step_ms * 0.5, load_ms=step_ms * rng.choice((0.02, 0.1, 0.15)), workers=0)
    if device == "cuda":
        if shape != "tiny":
            options.update(CARD_MODEL_VARIABLE if shape == "varlen" else CARD_MODEL_SAVED if "checkpoint_every" in row else CARD_MODEL, step_ms=step_ms)
        options.update(forward_ms=0, backward_ms=0, load_ms=min(options["load_ms"], 5))
    if "workers" in row and folder_workers:
        options["workers"] = rng.randint(*row["workers"])
        options["load_ms"] = step_ms * 0.6
    for name in ("checkpoint_every", "eval_every"):
        if name in row:
            options[name] = rng.randint(*row[name])
    if options.get("checkpoint_every"):
        options["checkpoint_ranks"] = rng.choice(("all", "all", "first"))
    return options


def fill_cpus(rng, options):
    """A rank with CPUs for itself computes more on them: what takes its CPUs away then matters."""
    if options["device"] == "cpu" and options["shape"] in HEAVY:
        options.update(width=128, batch=rng.choice((16, 48, 96)))


def draw_fault(rng, kind, shape, ranks, cpus, number):
    alike = kind in ALIKE and rng.random() < 0.12
    rank = "all" if alike else rng.randrange(ranks)
    if kind in ("preempt", "threads"):  # a rank that has its CPUs for itself
        free = [r for r in range(ranks) if sum(bool(set(cpus[r]) & set(c)) for c in cpus) == 1]
        if not free:
            return None
        rank = rng.choice(free)
    place = rng.choice(KINDS[kind][0])
    fault = dict(id="f%d" % number, kind=kind, rank=rank, place=place, percent=round(spread(rng, *PERCENT), 1))
    if kind == "slow_checkpoint":
        fault["percent"] = round(spread(rng, PERCENT[0], CHECKPOINT_PERCENT), 1)
    if kind == "preempt":
        fault.update(preemptors=rng.randint(1, 3), duty=round(rng.uniform(0.4, 1.0), 2))
    if kind == "threads":
        fault["threads"] = rng.randint(1, 3)
    if kind == "network":
        fault["delay_ms"] = round(spread(rng, 1, 30), 1)
    fault["activities"] = activities(kind, place, shape)
    fault["causes"], fault["side"] = KINDS[kind][2], KINDS[kind][3]
    return fault


def draw_length(rng, kind, left_s):
    if kind in HANGS:
        return rng.uniform(*HANG_S)
    if rng.random() < 0.1:
        return rng.uniform(5, 8) if left_s < 120 or rng.random() < 0.5 else spread(rng, 40, min(180, left_s))
    return spread(rng, *LENGTH_S)


def draw_faults(rng, shape, options, ranks, cpus, able, seconds, first_s, gap_s):
    faults, at = [], first_s + rng.uniform(0, 5)
    bag, number = [], 0
    while True:
        kinds = kinds_for(shape, options, ranks, able, cpus)
        left = seconds - at - TAIL_S
        if left < 8 or not kinds:
            break
        # A bag without the kinds that end the job, each drawn once before any comes again.
        bag = bag or rng.sample(kinds, len(kinds))
        kind = bag.pop()
        if kind in LAST and rng.random() < 0.5:
            continue
        fault = draw_fault(rng, kind, shape, ranks, cpus, number)
        length = draw_length(rng, kind, left)
        if fault is None:
            if all(k in ("preempt", "threads") for k in kinds):
                break
            continue
        if length > left:
            if left < LENGTH_S[0] or kind in HANGS:
                break
            length = left
        if kind in LAST:
            fault.update(from_s=round(at, 2), until_s=round(at + length, 2))
            faults.append(fault)
            break
        if kind == "slow_checkpoint":  # rare events: several of them must fall into it
            if options.get("checkpoint_ranks") == "first":
                fault["rank"] = 0
            length = min(left, max(length, 30.0))
        fault.update(from_s=round(at, 2), until_s=round(at + length, 2))
        faults.append(fault)
        number += 1
        if kind not in ALONE | {"slow_checkpoint"} and fault["rank"] != "all" and length > 15 and rng.random() < 0.25:
            other = [k for k in kinds if k not in ALONE | HANGS | {"slow_checkpoint", kind}]
            second = other and draw_fault(rng, rng.choice(other), shape, ranks, cpus, number)
            if second and second["rank"] != "all":
                begin = at + length * rng.uniform(0.3, 0.6)
                second.update(from_s=round(begin, 2), until_s=round(begin + length * rng.uniform(0.5, 0.9), 2))
                if second["until_s"] < seconds - TAIL_S:
                    faults.append(second)
                    number += 1
                    length = max(length, second["until_s"] - at)
        at += length + rng.uniform(*gap_s)
    return faults


def draw(seed, able, cpu_count, shape=None, seconds=130.0, device="cpu", cards=0, ranks=None, first_s=CLEAN_START_S, gap_s=GAP_S):
    """The whole plan: {"seed", "shape", "seconds", "l1", "noise", "jobs": [{"name", "ranks", "cpus", "options", "faults"}]}.
    first_s: of training before the first fault; gap_s: least and most between two faults."""
    rng = random.Random(seed)
    drawn = rng.choice(sorted(SHAPES))
    shape = shape or drawn
    row = SHAPES[shape]
    plan = dict(seed=seed, shape=shape, seconds=seconds, device=device, l1=rng.random() < 0.35, noise=bool(row.get("noise")), jobs=[])
    jobs = 2 if shape == "twojobs" else 1
    named = rng.random() < 0.7 or jobs == 1
    for j in range(jobs):
        count = between(rng, row["ranks"])
        count = ranks or count
        if device == "cuda":
            count = max(2, min(cards // jobs, 8))
        options = draw_options(rng, shape, device)
        cpus = None
        if cpu_count >= 2 and (count == 2 or device == "cuda" or rng.random() < 0.3) and jobs == 1:
            share = max(1, cpu_count // count)
            cpus = [sorted({(r * share + i) % cpu_count for i in range(share)}) for r in range(count)]
            fill_cpus(rng, options)
        # Of two jobs the first alone has faults, every other time.
        faults = [] if j and rng.random() < 0.5 else draw_faults(rng, shape, options, count, cpus, able, seconds, first_s, gap_s)
        plan["jobs"].append(dict(name="%s-%d%s" % (shape, seed, "-%s" % "ab"[j] if jobs == 2 else "") if named else "",
                                 ranks=count, cpus=cpus, options=options, faults=faults))
    return plan


def place(plan, cpus):
    """The plan on these CPUs in the place of the first ones."""
    for job in plan["jobs"]:
        if job["cpus"]:
            job["cpus"] = [sorted(cpus[c] for c in own) for own in job["cpus"]]
    return plan
