"""`scripts/bench push`: durable pushes over loopback HTTP, beside the disk's own rates and Redis Streams in the same run.

Method, printed with the result: one generator (push_load, one thread, closed loop, keep-alive, unique transactionIds)
drives both servers in turn on the same volume. Every answer is durable: Queen answers after fdatasync and apply, Redis
runs with `appendfsync always`. CPU is user + system time of the broker's process over the run. Disk bytes are the length
of its queue log files. Messages per fdatasync come from the groups that the broker counts itself (its `log_totals` line).
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

import servers
from servers import BUILD

PAYLOAD = 256
ID_BYTES = 16 + 16  # the transactionId that is sent, and the message id that the broker mints


def load(protocol: str, port: int, connections: int, batch: int, seconds: float) -> dict:
    done = subprocess.run([BUILD / "push_load", "--protocol", protocol, "--port", str(port), "--connections", str(connections),
                           "--batch", str(batch), "--payload", str(PAYLOAD), "--seconds", str(seconds)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"push_load failed: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def log_bytes(directory: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("qlog/q*/*.qlog"))


def run_queen(work: pathlib.Path, connections: int, batch: int, seconds: float) -> dict:
    with open(work / "queen.log", "w+") as log, servers.queen(work, log) as server:
        load("queen", server.port, connections, batch, 1)  # partitions made, threads started
        bytes_before, cpu_before = log_bytes(server.directory), server.cpu_seconds()
        result = load("queen", server.port, connections, batch, seconds)
        result["cpu_us_per_message"] = (server.cpu_seconds() - cpu_before) * 1e6 / result["messages"]
        result["rss_mib"] = server.rss_mib()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/v1/resources/queues") as answer:
            result["stored"] = json.load(answer)["queues"][0]["messages"]["total"]
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        # After a clean stop the zeros that were written ahead are cut off.
        result["disk_bytes_per_message"] = (log_bytes(server.directory) - bytes_before) / result["messages"]
        log.seek(0)
        totals = re.search(r"log_totals groups=(\d+) entries=(\d+) messages=(\d+) syncs=(\d+)", log.read())
        result["messages_per_sync"] = int(totals[3]) / int(totals[4])
        return result


def run_redis(work: pathlib.Path, connections: int, batch: int, seconds: float) -> dict:
    with servers.redis(work) as server:
        load("redis", server.port, connections, batch, 1)
        cpu_before = server.cpu_seconds()
        result = load("redis", server.port, connections, batch, seconds)
        result["cpu_us_per_message"] = (server.cpu_seconds() - cpu_before) * 1e6 / result["messages"]
        return result


def show(title: str, result: dict) -> None:
    print(f"\n{title}")
    print(f"  messages/s {result['messages_per_s']:>12,}    p50 {result['p50_us'] / 1000:.2f} ms    p99 {result['p99_us'] / 1000:.2f} ms"
          f"    CPU {result['cpu_us_per_message']:.2f} µs per message ({result['cpu_us_per_message']:.2f} s per million)")
    if "disk_bytes_per_message" in result:
        print(f"  disk bytes per message {result['disk_bytes_per_message']:.1f}    messages per fdatasync {result['messages_per_sync']:.1f}"
              f"    RSS {result['rss_mib']:.0f} MiB")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    print(__doc__)
    work = pathlib.Path(tempfile.mkdtemp(prefix="queen-bench-", dir=BUILD))
    try:
        disk = json.loads(subprocess.run([BUILD / "disk_probe", work, "2"], capture_output=True, text=True, check=True).stdout)
        print(f"This machine: {os.cpu_count()} cores; 4 KiB append + fdatasync {disk['fdatasync_per_s']:,}/s; "
              f"1 MiB append + fdatasync {disk['write_mib_per_s']:.0f} MiB/s")
        redis = run_redis(work, 16, 100, options.seconds)
        show("Redis Streams, appendfsync always: 16 connections, 100 pipelined XADD, 256-byte payloads", redis)
        batches = run_queen(work, 16, 100, options.seconds)
        show("Queen: 16 connections, batches of 100, 256-byte payloads", batches)
        singles = run_queen(work, 64, 1, options.seconds)
        show("Queen: 64 connections, single pushes, 256-byte payloads", singles)
        disk_after = json.loads(subprocess.run([BUILD / "disk_probe", work, "2"], capture_output=True, text=True, check=True).stdout)
        print(f"\nThe disk again, after the runs: fdatasync {disk_after['fdatasync_per_s']:,}/s; {disk_after['write_mib_per_s']:.0f} MiB/s")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    log_mib_per_s = batches["messages_per_s"] * batches["disk_bytes_per_message"] / (1 << 20)
    goals = [
        ("CPU of the broker per message, batches (µs)", batches["cpu_us_per_message"], "<=", 5.0),
        ("messages/s over Redis Streams, batches", batches["messages_per_s"] / redis["messages_per_s"], ">=", 1.5),
        ("disk bytes per message over payload + ids, batches", batches["disk_bytes_per_message"] - PAYLOAD - ID_BYTES, "<=", 60.0),
        ("messages per fdatasync, singles at 64 in flight", singles["messages_per_sync"], ">=", 12.0),
    ]
    print("\nAgainst the limits of this machine in this run")
    print(f"  log written at {log_mib_per_s:.0f} MiB/s, {100 * log_mib_per_s / disk['write_mib_per_s']:.0f}% of the disk's durable 1 MiB appends")
    print(f"  single pushes {singles['messages_per_s'] / disk['fdatasync_per_s']:.1f} per fdatasync that the disk can do alone")
    missed = servers.judge(goals)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
