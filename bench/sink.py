"""`scripts/bench sink`: the lake's encoders beside the codec, and the sink of a node between its log and a bucket, in one run.

Method. Encoders: lake_bench gives 300,000 records of 256 B JSON to each writer on one thread; rates are bytes of the JSONL text over
CPU time of that thread, the best of --rounds; beside them ZSTD_compress, level 3, of the same text in the same process, in turns, and
`zstd -b3` of that text in a file (which counts elapsed time). Node: the real program and an S3 server that checks signatures, both on
127.0.0.1. Backlog: --records messages with the same payloads are pushed without the sink, 500 to a push; the node is started anew with
the sink, `earliest`, QUEEN_S3_MEMORY_MB=--memory-mb and windows of QUEEN_S3_TARGET_MB=--target-mb; the rate is from that start until
the last record is committed; CPU is that of the threads named queen-s3 and of the whole process. Memory: how far the resident set rises
above that of the same node at rest (same log, no sink); one object is the largest in the bucket. Idle partitions: 10,000 with one
message each, shipped; then the calls that queen_s3_fetch_calls_total counts in --idle-seconds. Latency: closed loop of 8 connections, pushes of 10
messages, runs with and without the sink in turn, windows of 1 s, medians of the p99. The S3 server takes CPU of the same machine.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import boto3
from botocore.config import Config

from push import load
from servers import BUILD, ROOT, judge
from storage import MIB, Node, push_partitions, run

PUSH = 500  # messages of one push, and so of one stamp
KINDS = (("jsonl", "zstd"), ("jsonl", "gzip"), ("jsonl", "none"), ("parquet", "zstd"), ("parquet", "snappy"))


class Store:
    """An S3 server with one bucket."""

    def __init__(self, kind: str):
        self.process = subprocess.Popen([sys.executable, ROOT / "scripts/s3_server.py", "lake", "--kind", kind],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)

    def settings(self, prefix: str, **more: str) -> dict[str, str]:
        return {"QUEEN_S3_EMBEDDED": "true", "QUEEN_S3_QUEUES": "*", "QUEEN_S3_ENDPOINT": self.about["endpoint"],
                "QUEEN_S3_REGION": "us-east-1", "QUEEN_S3_PATH_STYLE": "true", "QUEEN_S3_BUCKET": "lake", "QUEEN_S3_START": "earliest",
                "QUEEN_S3_ACCESS_KEY": self.about["accessKey"], "QUEEN_S3_SECRET_KEY": self.about["secretKey"],
                "QUEEN_S3_PREFIX": prefix, "QUEEN_S3_SAFE_GUARD_MS": "500", "QUEEN_S3_DISCOVERY_INTERVAL_MS": "500", **more}

    def object_bytes(self, prefix: str) -> list[int]:
        client = boto3.client("s3", endpoint_url=self.about["endpoint"], region_name="us-east-1", aws_access_key_id=self.about["accessKey"],
                              aws_secret_access_key=self.about["secretKey"], config=Config(s3={"addressing_style": "path"}))
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=f"{prefix}/tenant=")
        return [item["Size"] for page in pages for item in page.get("Contents", [])]


def get(node: Node, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port}{path}", timeout=30) as answer:
        return answer.read().decode()


def committed(node: Node) -> int:
    """Records in committed windows, of all queues."""
    sinks = json.loads(get(node, "/status"))["s3"]["sinks"]
    return sum(queue.get("records") or 0 for sink in sinks for queue in sink["queues"])


def fetch_calls(node: Node) -> int:
    return sum(int(float(value)) for value in re.findall(r"^queen_s3_fetch_calls_total\{.*\} (\S+)$", get(node, "/metrics/prometheus"), re.M))


def cpu_seconds(node: Node) -> tuple[float, float]:
    """Of the threads named after the sink, and of the process."""
    sink = total = 0.0
    for task in pathlib.Path(f"/proc/{node.process.pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        spent = sum(int(field) for field in fields.split()[11:13]) / os.sysconf("SC_CLK_TCK")
        total += spent
        sink += spent if name.startswith("queen-s3") else 0
    return sink, total


def wait_for(what: str, ready, timeout: float = 600) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen in {timeout:.0f} s")
        time.sleep(0.1)


def encoders(work: pathlib.Path, rounds: int) -> dict:
    text = work / "records.jsonl"
    results = {kind: run(BUILD / "lake_bench", *kind, 300_000, rounds, text) for kind in KINDS}
    peer = subprocess.run(["zstd", "-b3", "-i2", text], capture_output=True, text=True, check=True)
    peer_line = [line for line in re.split(r"[\r\n]", peer.stdout + peer.stderr) if line.count("MB/s") == 2][-1].split(":", 1)[1]
    print(f"\nEncoders: {results[KINDS[0]]['records']:,} records, {results[KINDS[0]]['text_bytes'] / MIB:.0f} MiB of JSONL")
    for (form, codec), result in results.items():
        print(f"  {form + ' ' + codec:15} {result['mb_per_s']:6.0f} MB/s of CPU, {result['records_per_s']:>9,.0f} records/s, "
              f"1 : {result['text_bytes'] / result['object_bytes']:.2f}; ZSTD_compress beside it {result['codec_mb_per_s']:.0f} MB/s")
    print(f"  zstd -b3 says {peer_line.strip()}")
    return {kind: result["mb_per_s"] / result["codec_mb_per_s"] for kind, result in results.items()}


def push_texts(node: Node, text: pathlib.Path, records: int) -> None:
    """The payloads of the encoders' text, again and again: each pass is far longer than any codec looks back."""
    payloads = [line.split(',"payload":', 1)[1][:-2] for line in open(text)]
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
    for begin in range(0, records, PUSH):
        items = ",".join(f'{{"queue":"readings","partition":"device-{begin // PUSH % 50:04}","payload":{payloads[i % len(payloads)]}}}'
                         for i in range(begin, begin + PUSH))
        connection.request("POST", "/api/v1/push", '{"items":[' + items + "]}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 201:
            raise SystemExit(f"a push answered {answer.status}: {body[:200]}")
    connection.close()


def push_backlog(directory: pathlib.Path, text: pathlib.Path, records: int) -> dict:
    """Fills a log; the memory of a node that has just started on it and is at rest."""
    node = Node(directory)
    try:
        push_texts(node, text, records)
        node.stop(signal.SIGTERM)
        node = Node(directory)
        time.sleep(2)
        return node.memory()
    finally:
        node.stop(signal.SIGTERM)


def backlog(store: Store, records: int, form: str, settings: dict[str, str], directory: pathlib.Path, rest: dict) -> dict:
    prefix = f"backlog-{form}"
    # Another sink name: the pointers of the run before stay where they are.
    node = Node(directory, **store.settings(prefix, QUEEN_S3_SINK=form, QUEEN_S3_FORMAT=form, QUEEN_S3_MAX_WINDOW_MS="2000", **settings))
    peak = {name: 0 for name in rest}
    try:
        started = time.monotonic()

        def done() -> bool:
            now = node.memory()
            for name in peak:
                peak[name] = max(peak[name], now[name])
            return committed(node) >= records

        wait_for("the end of the backlog", done)
        seconds = time.monotonic() - started
        sink_cpu, cpu = cpu_seconds(node)
        if committed(node) != records:
            raise SystemExit(f"{committed(node)} records arrived of {records}")
    finally:
        node.stop(signal.SIGTERM)
    sizes = store.object_bytes(prefix)
    return {"seconds": seconds, "sink_cpu": sink_cpu, "cpu": cpu, "objects": len(sizes), "largest": max(sizes),
            "bytes": sum(sizes), **{name: peak[name] - rest[name] for name in rest}}


def idle(work: pathlib.Path, store: Store, seconds: float) -> int:
    """Reads of the log in a quiet stretch over 10,000 partitions."""
    directory = work / "idle"
    node = Node(directory, **store.settings("idle", QUEEN_S3_MAX_WINDOW_MS="1000"))
    try:
        push_partitions(node, 0, 10_000)
        wait_for("shipping 10,000 partitions", lambda: committed(node) == 10_000)
        before = fetch_calls(node)
        if before == 0:
            raise SystemExit("queen_s3_fetch_calls_total counts nothing")
        time.sleep(seconds)
        return fetch_calls(node) - before
    finally:
        node.stop(signal.SIGTERM)
        shutil.rmtree(directory)


def p99_us(work: pathlib.Path, seconds: float, shipped: list[int], **settings: str) -> float:
    directory = work / "latency"
    node = Node(directory, **settings)
    try:
        load("queen", node.port, 8, 10, 2)
        if settings:
            wait_for("the first window under load", lambda: load("queen", node.port, 8, 10, 1) and committed(node) > 0, 60)
        before = committed(node) if settings else 0
        result = load("queen", node.port, 8, 10, seconds)["p99_us"]
        if settings:
            shipped.append(committed(node) - before)
        return result
    finally:
        node.stop(signal.SIGKILL)
        shutil.rmtree(directory)


def latency(work: pathlib.Path, store: Store, seconds: float) -> float:
    on, off, shipped = [], [], []
    for turn in range(3):
        off.append(p99_us(work, seconds, shipped))
        on.append(p99_us(work, seconds, shipped, **store.settings(f"latency-{turn}", QUEEN_S3_MAX_WINDOW_MS="1000")))
    print(f"\nPush p99: {statistics.median(on) / 1000:.2f} ms with the sink, {statistics.median(off) / 1000:.2f} ms without (runs: "
          f"{', '.join(f'{x / 1000:.2f}' for x in on)} and {', '.join(f'{x / 1000:.2f}' for x in off)}); "
          f"records shipped meanwhile: {', '.join(f'{count:,}' for count in shipped)}")
    if min(shipped) == 0:
        raise SystemExit("the sink shipped nothing while latency was measured")
    return statistics.median(on) / statistics.median(off)


def show_backlog(form: str, records: int, result: dict) -> None:
    print(f"  {form:8} {result['seconds']:.1f} s: {records / result['seconds']:,.0f} records/s, {256 * records / MIB / result['seconds']:.0f} MiB/s of payload; "
          f"CPU per record {1e6 * result['sink_cpu'] / records:.2f} µs in the sink's threads, {1e6 * result['cpu'] / records:.2f} µs in the process; "
          f"{result['objects']} objects, the largest {result['largest'] / MIB:.1f} MiB; RSS grew by {result['VmRSS'] / MIB:.0f} MiB "
          f"(anonymous {result['RssAnon'] / MIB:.0f}, mapped files {result['RssFile'] / MIB:.0f})")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=8, help="of each latency run")
    arguments.add_argument("--records", type=int, default=2_000_000, help="of the backlog")
    arguments.add_argument("--memory-mb", type=int, default=128)
    arguments.add_argument("--target-mb", type=int, default=64)
    arguments.add_argument("--idle-seconds", type=float, default=60)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--store", choices=("versitygw", "moto"), default="versitygw")
    arguments.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    options = arguments.parse_args()
    print(__doc__)
    work = pathlib.Path(tempfile.mkdtemp(prefix="queen-bench-", dir=BUILD))
    store = Store(options.store)
    try:
        print(f"This machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; S3 server: {options.store}")
        ratios = encoders(work, options.rounds)
        directory = work / "backlog"
        records = options.records // PUSH * PUSH
        rest = push_backlog(directory, work / "records.jsonl", records)
        print(f"\nBacklog of {records:,} records, QUEEN_S3_MEMORY_MB={options.memory_mb}, QUEEN_S3_TARGET_MB={options.target_mb}; at rest "
              f"{rest['VmRSS'] / MIB:.0f} MiB (anonymous {rest['RssAnon'] / MIB:.0f})")
        limits = {"QUEEN_S3_MEMORY_MB": str(options.memory_mb), "QUEEN_S3_TARGET_MB": str(options.target_mb)}
        shipped = {}
        for form in ("jsonl", "parquet"):
            shipped[form] = backlog(store, records, form, limits, directory, rest)
            show_backlog(form, records, shipped[form])
        reads = idle(work, store, options.idle_seconds)
        print(f"\n10,000 idle partitions: {reads} reads of the log in {options.idle_seconds:.0f} s")
        ratio = latency(work, store, options.seconds)
    finally:
        store.close()
        shutil.rmtree(work, ignore_errors=True)
    goals = [
        ("JSONL zstd over the codec's own rate", ratios[("jsonl", "zstd")], ">=", 0.7),
        ("Parquet zstd over the codec's own rate", ratios[("parquet", "zstd")], ">=", 0.5),
        *((f"RSS grown, {form}, over budget and one object", result["VmRSS"] / (options.memory_mb * MIB + result["largest"]), "<=", 1.0)
          for form, result in shipped.items()),
        ("reads of idle partitions", reads, "<=", 0),
        ("p99 with the sink over without", ratio, "<=", 1.3),
    ]
    missed = judge(goals)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
