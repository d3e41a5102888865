"""What the benchmarks share: servers on free ports, their CPU and memory, and how figures and goals are printed."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(ready, port: int) -> None:
    deadline = time.monotonic() + 30
    while not ready(port):
        if time.monotonic() > deadline:
            raise SystemExit("a server did not start")
        time.sleep(0.02)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


class Server:
    """A running server: its process, port and directory."""

    def __init__(self, process: subprocess.Popen, port: int, directory: pathlib.Path):
        self.process, self.port, self.directory = process, port, directory

    def cpu_seconds(self) -> float:
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mib(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@contextlib.contextmanager
def served(command: list, port: int, directory: pathlib.Path, log, ready, **options):
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, **options)
    try:
        wait_until(ready, port)
        yield Server(process, port, directory)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def queen(work: pathlib.Path, log=subprocess.DEVNULL, **settings: str):
    """Queen on an empty directory, as it is set up by default, on this machine alone."""
    port, directory = free_port(), work / "queen"
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("QUEEN_")}, "PORT": str(port),
                   "QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_RAFT_DIR": str(directory), "QUEEN_RAFT_DISK_HIGH_PCT": "100", **settings}
    return served([BUILD / "queen"], port, directory, log, healthy, env=environment)


def redis(work: pathlib.Path):
    """Redis whose every answer is durable."""
    port, directory = free_port(), work / "redis"
    directory.mkdir(exist_ok=True)
    return served(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--appendonly", "yes",
                   "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0"],
                  port, directory, subprocess.DEVNULL, listens)


def judge(goals: list[tuple[str, float, str, float]]) -> int:
    """Prints each goal with its figure; how many were missed."""
    print("\nGoals")
    missed = 0
    for name, value, relation, limit in goals:
        held = value <= limit if relation == "<=" else value >= limit
        missed += not held
        print(f"  {'ok    ' if held else 'MISSED'} {name}: {value:.2f} ({relation} {limit})")
    return missed
