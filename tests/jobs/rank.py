#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a training job of a chosen shape, with the faults of a plan. Uninstrumented: it knows nothing of ranktrace.

  rank.py PLAN

PLAN is the JSON file of the job that run.py writes: {"options": {...}, "faults": [...], "folder": D}. The rank, the world size and
the address come from the environment, as torchrun sets them. The rank writes to D:

  rank.N.jsonl  a line {"rank", "pid", "torch"}, then one per step by CLOCK_REALTIME: {"s": step, "b": begin_ns, "e": end_ns,
                "c": class of the step, "l": length of its sample, "f": {fault: seconds that it took in the step}}
It begins to train once D/start holds a number. D/times then holds the time in ns from which the plan's times count. The rank ends with
the step whose number D/stop holds.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults as faults_of  # noqa: E402
import shapes  # noqa: E402


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    options, folder = plan["options"], plan["folder"]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if plan.get("cpus"):
        os.sched_setaffinity(0, plan["cpus"][rank])
    torch.set_num_threads(options.get("threads", 1))
    torch.manual_seed(7)
    device = torch.device(options["device"])
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    os.environ.setdefault("USE_LIBUV", "0")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    options.update(rank=rank, folder=folder)
    shared = torch.multiprocessing.Value("d", 0.0) if options["workers"] else None
    faults = faults_of.Faults(plan["faults"], rank, device, folder, shared, options["workers"])
    faults.checkpoint_every = options.get("checkpoint_every") or 1
    if options["shape"] in ("lightning", "trainer"):
        import frameworks
        make = frameworks.JOBS[options["shape"]]
    else:
        make = shapes.JOBS[options["shape"]]
    job = make(options, faults, rank, world, device)
    clock = faults_of.Clock(faults, folder, rank, {"rank": rank, "pid": os.getpid(), "torch": torch.__version__})
    clock.wait()
    job.loop(clock)
    if dist.is_initialized():  # a framework may have ended it
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
