"""`scripts/bench state`: KV, timers and transactions over loopback HTTP, beside pushes in the same run.

Method, printed with the result: one generator (state_load, one thread, closed loop, keep-alive) drives a server on an empty directory
for each figure. Every answer is durable. KV: batches of 100 puts from 16 connections, a key of 20 and a value of 80 bytes, forever, over
100,000 and over 1,000,000 keys; beside it pushes of 100-byte payloads in batches of 100. Transactions: 64 connections, each of one ack,
one push and one KV put; beside them single pushes from 64 connections. Timers: 1,000,000 are scheduled for an hour later, and what
the process grew by is divided by their number; then timers come due at 10,000 a second for ten seconds while nothing else runs, and each
message that they became is fetched: its stamp less the time it was scheduled for is how late it fired.
"""

import argparse
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import servers
from servers import BUILD

PENDING = 1_000_000
FIRE_PER_S, FIRE_SECONDS = 10_000, 10
LEAD_MS = 20_000  # from the scheduling until the first is due
PARTITIONS = 100  # of state_load's timers
# A tenant's calls are bounded by default; here the machine is what is measured.
UNBOUNDED = {"QUEEN_KV_WRITE_RATE": "1000000", "QUEEN_KV_WRITE_BURST": "1000000"}


def load(server: servers.Server, work: str, **options) -> dict:
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run([BUILD / "state_load", "--work", work, "--port", str(server.port), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"state_load failed: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def rate(work: pathlib.Path, kind: str, seconds: float, **options) -> dict:
    with servers.queen(work, **UNBOUNDED) as server:
        load(server, kind, seconds=1, queue="warm", **options)
        cpu = server.cpu_seconds()
        result = load(server, kind, seconds=seconds, queue="run", **options)
        result["cpu_us"] = (server.cpu_seconds() - cpu) * 1e6 / max(result["done"], 1)
        return result


def show(title: str, result: dict) -> None:
    print(f"  {title:<52} {result['per_s']:>9,.0f}/s    CPU {result['cpu_us']:.2f} µs each    "
          f"p50 {result['p50_us'] / 1000:.2f} ms    p99 {result['p99_us'] / 1000:.2f} ms", flush=True)


def pending_bytes(work: pathlib.Path) -> float:
    """What one pending timer costs in RAM."""
    with servers.queen(work, **UNBOUNDED) as server:
        load(server, "timers", batch=200, count=1000, delay_ms=3_600_000, seconds=60, queue="warm")
        before = server.rss_mib()
        load(server, "timers", batch=200, count=PENDING, delay_ms=3_600_000, spread_ms=60_000, seconds=600, queue="run")
        time.sleep(10)  # the last checkpoint has been written, and the heap trimmed
        return (server.rss_mib() - before) * (1 << 20) / PENDING


def ask(server: servers.Server, path: str, body: dict | None = None) -> dict:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def due_times(server: servers.Server, queue: str) -> dict[str, datetime.datetime]:
    """When each pending timer is due, by the transactionId of its message."""
    out, after = {}, ""
    while after is not None:
        page = ask(server, f"/api/v1/timers/{queue}?limit=1000&after={after}")
        out |= {row["txn"]: datetime.datetime.fromisoformat(row["deliverAt"]) for row in page["rows"]}
        after = page["nextAfter"] if page["truncated"] else None
    return out


def messages_of(server: servers.Server, queue: str, partition: str):
    offset = 0
    while True:
        records = ask(server, "/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": offset, "maxBytes": 8 << 20}]})
        records = records["entries"][0]["records"]
        if not records:
            return
        yield from records
        offset = records[-1]["offset"] + 1


def lateness_ms(work: pathlib.Path) -> list[float]:
    """How late each timer fired, ascending."""
    count = FIRE_PER_S * FIRE_SECONDS
    with servers.queen(work, **UNBOUNDED) as server:
        load(server, "timers", batch=200, count=count, delay_ms=LEAD_MS, spread_ms=FIRE_SECONDS * 1000, seconds=600, queue="run")
        due = due_times(server, "run")
        if len(due) != count:
            raise SystemExit(f"{count - len(due)} timers had fired before all were listed")
        time.sleep(max(0.0, max(due.values()).timestamp() - time.time()) + 3)
        late = [(datetime.datetime.fromisoformat(record["ts"]) - due[record["transactionId"]]).total_seconds() * 1000
                for partition in range(PARTITIONS) for record in messages_of(server, "run", f"p{partition}")]
        if len(late) != count:
            raise SystemExit(f"{len(late)} of {count} timers fired")
        return sorted(late)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=6)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    print(__doc__)
    work = pathlib.Path(tempfile.mkdtemp(prefix="queen-bench-", dir=BUILD))
    seconds = options.seconds
    try:
        pushes = rate(work, "push", seconds)
        show("pushes, batches of 100", pushes)
        puts = rate(work, "kv", seconds, keys=100_000)
        show("KV puts, batches of 100, 100,000 keys", puts)
        wide = rate(work, "kv", seconds, keys=1_000_000)
        show("KV puts, batches of 100, 1,000,000 keys", wide)
        singles = rate(work, "push", seconds, batch=1, connections=64)
        show("single pushes, 64 in flight", singles)
        transactions = rate(work, "transactions", seconds, count=30_000, connections=64)
        show("transactions (ack, push, KV put), 64 in flight", transactions)
        each = pending_bytes(work)
        print(f"  {PENDING:,} pending timers: {each:.0f} B of RAM each", flush=True)
        late = lateness_ms(work)
        print(f"  {len(late):,} timers at {FIRE_PER_S:,}/s: late by p50 {late[len(late) // 2]:.1f} ms, p99 {late[len(late) * 99 // 100]:.1f} ms, "
              f"at most {late[-1]:.1f} ms; earliest {late[0]:.1f} ms")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    missed = servers.judge([
        ("KV puts over pushes", puts["per_s"] / pushes["per_s"], ">=", 0.8),
        ("transactions over single pushes", transactions["per_s"] / singles["per_s"], ">=", 0.5),
        ("RAM of a pending timer (B)", each, "<=", 400.0),
        ("lateness of timers at 10,000/s, p99 (ms)", late[len(late) * 99 // 100], "<=", 100.0),
        ("earliest firing before its time (ms)", -late[0], "<=", 0.0),
    ])
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
