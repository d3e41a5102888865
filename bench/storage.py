"""`scripts/bench storage`: the storage engine beside the machine's limits, all in one run.

Method: the engine's own figures come from engine_bench (the rooms below HTTP, no network); those of the node from the
real program. Append: records of 1 KiB, one per entry, through the replicator, against the disk's own rate of 1 MiB
appends each made durable. Recovery: logs of planned pushes (ten JSON messages of 1 KiB each) are opened and scanned on
one core, then replayed through apply; MiB are those on disk. Reads: a log of --log-gib GiB of 10 messages per append;
2,000 reads of 100 messages at random offsets; read calls are counted by the kernel. Partitions: one message to each of
--partitions partitions over HTTP; memory is what the node's process grew by, boot is from start to a healthy answer
after kill -9. Latency: closed loop of 8 connections, runs with and without checkpoints in turn, medians of the p99.
"""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from push import load
from servers import BUILD, free_port, judge

MIB = 1 << 20


def run(*command) -> dict:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def engine(work: pathlib.Path, mode: str, amount) -> dict:
    directory = work / mode
    directory.mkdir()
    try:
        return run(BUILD / "engine_bench", mode, directory, amount)
    finally:
        shutil.rmtree(directory)


class Node:
    def __init__(self, directory: pathlib.Path, **settings: str):
        self.port = free_port()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("QUEEN_")}
        environment |= {"PORT": str(self.port), "QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_RAFT_DIR": str(directory),
                        "QUEEN_RAFT_DISK_HIGH_PCT": "100", **settings}
        started = time.monotonic()
        self.process = subprocess.Popen([BUILD / "queen"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.ready():
            if self.process.poll() is not None:
                raise SystemExit("the node did not start")
            time.sleep(0.01)
        self.boot_s = time.monotonic() - started

    def ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def memory(self) -> dict:
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon", "RssFile")}

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(120)


def push_partitions(node: Node, first: int, last: int, per_call: int = 5000) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
    for begin in range(first, last, per_call):
        items = [{"queue": "devices", "partition": f"device-{i:07}", "transactionId": f"{i:016x}", "payload": {"n": i}}
                 for i in range(begin, min(begin + per_call, last))]
        connection.request("POST", "/api/v1/push", json.dumps({"items": items}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 201:
            raise SystemExit(f"a push answered {answer.status}: {body[:200]}")
    connection.close()


def partitions(work: pathlib.Path, count: int) -> dict:
    directory = work / "partitions"
    node = Node(directory)
    try:
        push_partitions(node, 0, 1000)  # threads started, buffers grown
        time.sleep(2)
        before = node.memory()
        started = time.monotonic()
        push_partitions(node, 1000, count + 1000)
        seconds = time.monotonic() - started
        time.sleep(5)  # checkpoints written, overlays forgotten
        after = node.memory()
        node.stop(signal.SIGKILL)
        node = Node(directory)
        time.sleep(1)
        booted = node.memory()
        return {"seconds": seconds, "boot_s": node.boot_s,
                **{name: (after[name] - before[name]) / count for name in after},
                "booted_anon": booted["RssAnon"] / count}
    finally:
        node.stop(signal.SIGKILL)
        shutil.rmtree(directory)


def p99_us(work: pathlib.Path, seconds: float, **settings: str) -> float:
    directory = work / "latency"
    node = Node(directory, **settings)
    try:
        load("queen", node.port, 8, 10, 1)
        return load("queen", node.port, 8, 10, seconds)["p99_us"]
    finally:
        node.stop(signal.SIGKILL)
        shutil.rmtree(directory)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=8)
    arguments.add_argument("--log-gib", type=float, default=10)
    arguments.add_argument("--partitions", type=int, default=1_000_000)
    arguments.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    options = arguments.parse_args()
    print(__doc__)
    work = pathlib.Path(tempfile.mkdtemp(prefix="queen-bench-", dir=BUILD))
    try:
        disk = run(BUILD / "disk_probe", work, 3)
        append = engine(work, "append", options.seconds)
        disk_after = run(BUILD / "disk_probe", work, 3)
        limit = (disk["write_mib_per_s"] + disk_after["write_mib_per_s"]) / 2
        print(f"This machine: {os.cpu_count()} cores; 1 MiB append + fdatasync {disk['write_mib_per_s']:.0f} MiB/s before and "
              f"{disk_after['write_mib_per_s']:.0f} MiB/s after the append run; 4 KiB append + fdatasync {disk['fdatasync_per_s']:,}/s")
        print(f"Append: {append['records_per_s']:,} records/s, {append['mib_per_s']:.0f} MiB/s of log")
        recover = engine(work, "recover", 2048)
        print(f"Recovery of {recover['log_mib']:.0f} MiB, {recover['messages']:,} messages in {recover['entries']:,} entries: scan "
              f"{recover['scan_mib_per_s']:,} MiB/s, replay {recover['replay_mib_per_s']:,} MiB/s, both {recover['both_mib_per_s']:,} MiB/s")
        read = engine(work, "read", int(options.log_gib * 1024))
        print(f"Reads of {read['records_per_read']} messages ({read['appends_per_read']} appends) from {read['log_mib'] / 1024:.1f} GiB in "
              f"{read['files']} files: {read['preads_per_read']} read calls, p50 {read['p50_us']} µs, p99 {read['p99_us']} µs")
        many = partitions(work, options.partitions)
        print(f"{options.partitions:,} partitions of one message in {many['seconds']:.0f} s: RSS grew by {many['VmRSS']:.0f} B each (anonymous "
              f"{many['RssAnon']:.0f}, mapped files {many['RssFile']:.0f}); boot after kill -9 {many['boot_s']:.2f} s, "
              f"then {many['booted_anon']:.0f} B anonymous each")
        on, off = [], []
        for _ in range(3):
            off.append(p99_us(work, options.seconds, QUEEN_RAFT_DURABLE_EVERY_MS="3600000", QUEEN_RAFT_DURABLE_EVERY_BYTES=str(1 << 50)))
            on.append(p99_us(work, options.seconds))
        ratio = statistics.median(on) / statistics.median(off)
        print(f"Push p99: {statistics.median(on) / 1000:.2f} ms with checkpoints each second, {statistics.median(off) / 1000:.2f} ms without "
              f"(runs: {', '.join(f'{x / 1000:.2f}' for x in on)} and {', '.join(f'{x / 1000:.2f}' for x in off)})")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    goals = [
        ("append over the disk's own 1 MiB rate", append["mib_per_s"] / limit, ">=", 0.6),
        ("recovery scan, MB/s on one core", recover["scan_mib_per_s"] * MIB / 1e6, ">=", 500),
        ("replay, MB/s", recover["replay_mib_per_s"] * MIB / 1e6, ">=", 200),
        ("read calls per append run", read["preads_per_read"] / read["appends_per_read"], "<=", 1.05),
        ("RSS per partition (B)", many["VmRSS"], "<=", 300),
        ("boot with all partitions (s)", many["boot_s"], "<=", 5),
        ("p99 with checkpoints over without", ratio, "<=", 1.2),
    ]
    missed = judge(goals)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
