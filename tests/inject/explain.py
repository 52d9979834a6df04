#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes faults in a real rank, with L3 on, and asks `tracectl why`: what part of the excess is given to the right cause?

  explain.py BUILD [FAULT...]     FAULT: preempt quota reads cache faults sync; all of them without one

Prints a row for each fault. Exit 1: less than 90 % of an excess was given to its cause, or what it has to name it did not. Needs
root, a PyTorch in /usr/bin/python3, and control groups of version 1 for quota and cache.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 7


class Group:
    """A control group of version 1."""

    def __init__(self, controller, pid):
        self.path = pathlib.Path("/sys/fs/cgroup") / controller / f"explain-{pid}"
        self.path.mkdir()
        (self.path / "cgroup.procs").write_text(str(pid))

    def set(self, name, value):
        (self.path / name).write_text(str(value))

    def remove(self, pid):
        (self.path.parent / "cgroup.procs").write_text(str(pid))
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


class Faults:
    """Each returns what undoes it."""

    def __init__(self, pid, cpu, control):
        self.pid, self.cpu, self.control = pid, cpu, control

    def word(self, word, amount):
        self.control.write_text(f"{word} {amount}")
        return lambda: self.control.unlink()

    def preempt(self):
        loads = [subprocess.Popen(["taskset", "-c", str(self.cpu), "sh", "-c", "while :; do :; done"]) for _ in range(2)]
        return lambda: [load.kill() or load.wait() for load in loads]

    def quota(self):
        group = Group("cpu", self.pid)
        group.set("cpu.cfs_quota_us", 30000)
        return lambda: group.remove(self.pid)

    def reads(self):
        return self.word("reads", 8000)

    def cache(self):
        group = Group("memory", self.pid)
        group.set("memory.limit_in_bytes", 40 << 20)
        undo = self.word("cache", 1)
        return lambda: (undo(), group.remove(self.pid))

    def faults(self):
        return self.word("faults", 300)

    def sync(self):
        return self.word("sync", 4)


def blocked_on(*names):
    return lambda answer: any(c["what"] in names and c["chosen_ns"] > c["usual_ns"] + 1e6 for c in answer["blocked_on"])


def kernel_shows(name):
    return lambda answer: any(c["what"] == name and c["chosen_ns"] > c["usual_ns"] + 1e5 for c in answer["kernel"])


# Parts of the excess that are the fault's, and what else has to be named.
EXPECTED = {
    "preempt": (lambda p: p["what"] == "ready", lambda a: any(o["name"] in ("sh", "dash", "bash") for o in a["cpu_taken_by"])),
    "quota": (lambda p: p["what"] in ("throttled", "ready"), lambda a: any(p["what"] == "throttled" and p["excess_ns"] > 0 for p in a["parts"])),
    "reads": (lambda p: p["activity"] == "dataloader" and p["what"] == "work", lambda a: True),
    "cache": (lambda p: p["activity"] == "dataloader", kernel_shows("reclaim")),
    # A fault counts whether its read takes time off the CPU or on it.
    "faults": (lambda p: p["activity"] == "dataloader" and p["what"] in ("blocked", "work"), lambda a: a["major_faults"] > a["major_faults_usual"] + 1),
    "sync": (lambda p: p["activity"] == "dataloader" and p["what"] in ("blocked", "work"), blocked_on("sync", "disk")),
}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    words = sys.argv[2:] or list(EXPECTED)
    failed = 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        env = dict(os.environ, RANKTRACE_SOCKET=str(folder / "s"), RANKTRACE_LIBEXEC=str(build / "libexec/ranktrace"), RANKTRACE_STATE_DIR=str(folder / "state"))
        (folder / "ranktrace.conf").write_text(f"[daemon]\nprobes_base_dir = {HERE.parent.parent}/bpf/probes.d\n[findings]\nraise = no\nprofile = no\n[budget]\nrank_percent = 100\n")
        with open(folder / "log", "w", encoding="utf-8") as log:
            daemon = subprocess.Popen([build / "daemon/ranktraced", "--config", folder / "ranktrace.conf", "--state-dir", folder / "state", "--socket", folder / "s"], stderr=log)

        def control(*arguments):
            return subprocess.run([build / "ctl/tracectl", *arguments], env=env, capture_output=True, text=True).stdout

        while not control("status"):
            time.sleep(0.1)
        cpu = max(os.sched_getaffinity(0))
        rank = subprocess.Popen(["taskset", "-c", str(cpu), "/usr/bin/python3", HERE / "explain_rank.py", folder / "control", folder], env=dict(env, RANK="0", WORLD_SIZE="1", OMP_NUM_THREADS="1"))
        try:
            control("set", "L3=true")
            time.sleep(15)
            for word in words:
                undo = getattr(Faults(rank.pid, cpu, folder / "control"), word)()
                time.sleep(1)
                since = time.strftime("%F %T", time.localtime(time.time() + 0.5))
                time.sleep(SECONDS)
                until = time.strftime("%F %T")
                undo()
                time.sleep(8)
                text = control("why", "--rank", "0", "--since", since, "--until", until)
                try:
                    answer = json.loads(control("why", "--json", "--rank", "0", "--since", since, "--until", until))
                except ValueError:
                    print(f"{word}: no answer", flush=True)
                    failed += 1
                    continue
                mine, named = EXPECTED[word]
                given = sum(p["excess_ns"] for p in answer["parts"] if mine(p))
                share = given / answer["excess_ns"] if answer["excess_ns"] else 0
                good = share >= 0.9 and named(answer)
                failed += not good
                print(f"{word:8} step {answer['usual_ns'] / 1e6:7.2f} -> {answer['chosen_ns'] / 1e6:7.2f} ms, {100 * share:5.1f} % to its cause, "
                      f"{'named' if named(answer) else 'NOT NAMED'}{'' if good else '   FAILED'}", flush=True)
                if not good or os.environ.get("VERBOSE"):
                    print(text, flush=True)
        finally:
            rank.send_signal(signal.SIGKILL)
            rank.wait()
            daemon.terminate()
            daemon.wait()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
