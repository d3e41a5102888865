"""`scripts/bench messages`: messages end to end over loopback HTTP, beside Redis Streams in the same run.

Method, printed with the result: one generator (flow_load, one thread, keep-alive, unique transactionIds, 256-byte payloads)
drives both servers in turn on the same volume. Producers push batches of 100 in a closed loop and rest while more than 50,000
messages are stored and not acknowledged; consumers pop up to 100 and acknowledge all of them by name in one request. A message
counts once it is acknowledged. Every answer of both servers is durable: Queen answers after fdatasync and apply, Redis runs with
`appendfsync always`; there a partition is a stream, and each consumer reads its share of them. One consumer group. The push-only
rate is of the same run and the same generator, without consumers.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import servers
from servers import BUILD

MANY_POLLS = 1000


def flow(server: servers.Server, protocol: str, seconds: float, **options: int) -> dict:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([BUILD / "flow_load", "--protocol", protocol, "--port", str(server.port), "--seconds", str(seconds), *words],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"flow_load failed: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)


def run(server_of, protocol: str, seconds: float, **options: int) -> dict:
    with server_of as server:
        cpu = server.cpu_seconds()
        result = flow(server, protocol, seconds, **options)
        messages = max(result["consumed"] or result["pushed"], 1)
        result["cpu_us"] = (server.cpu_seconds() - cpu) * 1e6 / messages
        return result


def show(title: str, result: dict) -> None:
    print(f"  {title:<44} {result['consumed_per_s'] or result['pushed_per_s']:>9,.0f} messages/s"
          f"    CPU {result['cpu_us']:.2f} µs a message    push p99 {result['push_p99_us'] / 1000:.1f} ms")


def idle_polls(work: pathlib.Path, seconds: float) -> float:
    """CPU of the server, in percent of one core, while MANY_POLLS long polls wait on it."""
    with servers.queen(work) as server:
        def wait() -> None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/v1/pop/queue/idle?wait=true&timeout=60000", timeout=90).read()
            except OSError:
                pass  # the server ends while it waits
        threads = [threading.Thread(target=wait, daemon=True) for _ in range(MANY_POLLS)]
        for thread in threads:
            thread.start()
        time.sleep(3)
        before = server.cpu_seconds()
        time.sleep(seconds)
        return 100 * (server.cpu_seconds() - before) / seconds


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=8)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    print(__doc__)
    work = pathlib.Path(tempfile.mkdtemp(prefix="queen-bench-", dir=BUILD))
    seconds = options.seconds
    both = {"producers": 8, "consumers": 8}
    try:
        redis_one = run(servers.redis(work), "redis", seconds, partitions=8, **both)
        show("Redis Streams, 8 streams", redis_one)
        redis_many = run(servers.redis(work), "redis", seconds, partitions=1000, **both)
        show("Redis Streams, 1,000 streams", redis_many)
        push_only = run(servers.queen(work), "queen", seconds, producers=8, consumers=0, partitions=8, window=2_000_000_000)
        show("Queen, pushes alone, 8 partitions", push_only)
        eight = run(servers.queen(work), "queen", seconds, partitions=8, **both)
        show("Queen, 8 partitions", eight)
        one = run(servers.queen(work), "queen", seconds, partitions=1, **both)
        show("Queen, 1 partition", one)
        thousand = run(servers.queen(work), "queen", seconds, partitions=1000, **both)
        show("Queen, 1,000 partitions", thousand)
        most = run(servers.queen(work), "queen", seconds, partitions=100_000, **both)
        show("Queen, 100,000 partitions", most)
        paced = run(servers.queen(work), "queen", seconds, partitions=1, producers=1, consumers=1, rate=1000)
        print(f"  At 1,000 messages/s: {paced['full_pops']} pops of 100 messages, p50 {paced['pop_p50_us'] / 1000:.2f} ms, "
              f"p99 {paced['pop_p99_us'] / 1000:.2f} ms")
        idle = idle_polls(work, 10)
        print(f"  {MANY_POLLS} long polls that wait: {idle:.2f}% of one core")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    missed = servers.judge([
        ("end to end over Redis Streams, 8 partitions", eight["consumed_per_s"] / redis_one["consumed_per_s"], ">=", 2.0),
        ("end to end over Redis Streams, 1,000 partitions", thousand["consumed_per_s"] / redis_many["consumed_per_s"], ">=", 2.0),
        ("end to end over pushes alone", eight["consumed_per_s"] / push_only["pushed_per_s"], ">=", 0.6),
        ("1,000 partitions over one", thousand["consumed_per_s"] / one["consumed_per_s"], ">=", 0.7),
        ("100,000 partitions over one", most["consumed_per_s"] / one["consumed_per_s"], ">=", 0.5),
        ("pop of 100 messages, p99 (ms)", paced["pop_p99_us"] / 1000, "<=", 3.0),
        ("CPU of idle long polls (% of one core)", idle, "<=", 1.0),
    ])
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
