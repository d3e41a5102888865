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
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"
PAYLOAD = 256
ID_BYTES = 16 + 16  # the transactionId that is sent, and the message id that the broker mints


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_listening(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("a server does not listen")


def load(protocol: str, port: int, connections: int, batch: int, seconds: float) -> dict:
    done = subprocess.run([BUILD / "push_load", "--protocol", protocol, "--port", str(port), "--connections", str(connections),
                           "--batch", str(batch), "--payload", str(PAYLOAD), "--seconds", str(seconds)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"push_load failed: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def log_bytes(directory: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("qlog/q*/*.qlog"))


def run_queen(work: pathlib.Path, connections: int, batch: int, seconds: float) -> dict:
    directory = work / f"queen-{connections}-{batch}"
    port = free_port()
    log = open(work / "queen.log", "w+")
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("QUEEN_")}, "PORT": str(port),
                   "QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_RAFT_DIR": str(directory), "QUEEN_RAFT_DISK_HIGH_PCT": "100"}
    process = subprocess.Popen([BUILD / "queen"], env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_listening(port)
        load("queen", port, connections, batch, 1)  # partitions made, threads started
        bytes_before, cpu_before = log_bytes(directory), cpu_seconds(process.pid)
        result = load("queen", port, connections, batch, seconds)
        result["cpu_us_per_message"] = (cpu_seconds(process.pid) - cpu_before) * 1e6 / result["messages"]
        result["rss_mib"] = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/resources/queues") as answer:
            result["stored"] = json.load(answer)["queues"][0]["messages"]["total"]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        # After a clean stop the zeros that were written ahead are cut off.
        result["disk_bytes_per_message"] = (log_bytes(directory) - bytes_before) / result["messages"]
        log.seek(0)
        totals = re.search(r"log_totals groups=(\d+) entries=(\d+) messages=(\d+) syncs=(\d+)", log.read())
        result["messages_per_sync"] = int(totals[3]) / int(totals[4])
        return result
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def run_redis(work: pathlib.Path, connections: int, batch: int, seconds: float) -> dict:
    directory = work / f"redis-{connections}-{batch}"
    directory.mkdir()
    port = free_port()
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--appendonly",
                                "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_listening(port)
        load("redis", port, connections, batch, 1)
        cpu_before = cpu_seconds(process.pid)
        result = load("redis", port, connections, batch, seconds)
        result["cpu_us_per_message"] = (cpu_seconds(process.pid) - cpu_before) * 1e6 / result["messages"]
        return result
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


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
    print("\nGoals")
    missed = 0
    for name, value, relation, limit in goals:
        held = value <= limit if relation == "<=" else value >= limit
        missed += not held
        print(f"  {'ok    ' if held else 'MISSED'} {name}: {value:.2f} ({relation} {limit})")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
