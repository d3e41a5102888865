"""A volume that fills up: answers stay true, and every message that was answered is there afterwards."""

import pathlib
import random
import subprocess
import tempfile
import time

import pytest
import requests
from harness import Broker

SIZE_MB = 24


@pytest.fixture
def volume():
    """A small volume of its own, in RAM."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="queen-volume-"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(path)], capture_output=True, text=True)
    if mounted.returncode != 0:
        path.rmdir()
        pytest.skip(f"no volume can be mounted here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)
    path.rmdir()


@pytest.fixture
def on_volume(volume, work):
    made: list[Broker] = []

    def make(**settings: str) -> Broker:
        broker = Broker(volume / "data", QUEEN_RAFT_QLOG_ZSTD_LEVEL="0", **settings)
        broker.log_path = work / "broker.log"
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


class Pusher:
    """Pushes unlike payloads of one size and remembers what was answered, and what was refused."""

    def __init__(self, broker: Broker):
        self.broker = broker
        self.rng = random.Random(11)
        self.stored: list[str] = []
        self.refused: list[str] = []

    def push(self, size: int = 50_000):
        transaction = f"t{len(self.stored) + len(self.refused)}"
        answer = self.broker.post("/api/v1/push", {"items": [{"queue": "q", "partition": "p", "transactionId": transaction,
                                                              "payload": self.rng.randbytes(size // 2).hex()}]})
        if answer.status_code == 201:
            assert answer.json()[0]["offset"] == len(self.stored)
            self.stored.append(transaction)
        else:
            self.refused.append(transaction)
        return answer

    def fill(self) -> requests.Response:
        for _ in range(SIZE_MB * 1_000_000 // 50_000 * 2):
            answer = self.push()
            if answer.status_code != 201:
                return answer
        raise AssertionError("the volume takes all")

    def check(self) -> None:
        assert [record["transactionId"] for record in self.broker.fetch_all("q", "p")] == self.stored


def consume(broker: Broker, count: int) -> list[str]:
    popped = broker.pop("q", batch=count, consumerGroup="g", subscriptionMode="all")
    assert all(result["success"] for result in broker.ack_all(popped, "g"))
    return [message["transactionId"] for message in popped["messages"]]


def test_above_the_high_mark_pushes_are_507_and_consumers_go_on(on_volume):
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="85", QUEEN_RAFT_DISK_LOW_PCT="80").start()
    pusher = Pusher(broker)
    first = pusher.fill()
    assert first.status_code == 507 and first.json()["code"] == "storage_full", first.text
    assert [pusher.push(10).status_code for _ in range(5)] == [507] * 5
    kv = broker.post("/api/v1/kv", {"operations": [{"op": "put", "ns": "n", "key": "k", "value": 1, "forever": True}]})
    assert kv.status_code == 507
    assert broker.get("/health").status_code == 200 and broker.get("/health").json()["warnings"][0]["code"] == "disk"
    assert consume(broker, 20) == pusher.stored[:20]
    broker.kill9()
    broker.start()
    pusher.check()
    assert consume(broker, 20) == pusher.stored[20:40]
    assert pusher.push(10).status_code == 507


def test_pushes_are_taken_again_when_there_is_space(on_volume, volume):
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="85", QUEEN_RAFT_DISK_LOW_PCT="80")
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(12_000_000))
    broker.start()
    pusher = Pusher(broker)
    assert pusher.fill().status_code == 507
    ballast.unlink()
    deadline = time.monotonic() + 5
    while pusher.push(10).status_code != 201:
        assert time.monotonic() < deadline, "still refused"
    pusher.check()


def fill_to_the_last_byte(broker: Broker) -> Pusher:
    """With the gate at 100 the file system itself says no."""
    pusher = Pusher(broker.start())
    first = pusher.fill()
    assert first.status_code == 507 and first.json()["code"] == "storage_full", first.text
    while pusher.push(200).status_code == 201:
        pass
    return pusher


def test_a_disk_full_to_the_last_byte_loses_nothing_that_was_answered(on_volume, volume):
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="100")
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    pusher = fill_to_the_last_byte(broker)
    pusher.check()
    broker.kill9()
    broker.start()
    pusher.check()
    broker.kill9()
    ballast.unlink()
    broker.start()
    pusher.check()
    assert pusher.push(10).status_code == 201


def test_a_node_on_a_full_disk_goes_on_and_recovers_without_a_restart(on_volume, volume):
    """HD-30, over the time in which a checkpoint is due."""
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(12_000_000))
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="100")
    pusher = fill_to_the_last_byte(broker)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert pusher.push(10_000).status_code == 507
        assert broker.get("/health").status_code == 200, broker.log()[-1500:]
        time.sleep(0.05)
    ballast.unlink()
    deadline = time.monotonic() + 5
    while pusher.push(10).status_code != 201:
        assert time.monotonic() < deadline, "still refused"
    pusher.check()


def test_after_a_full_disk_space_is_all_that_is_needed(on_volume, volume):
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(12_000_000))
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="100").start()
    pusher = Pusher(broker)
    assert pusher.fill().status_code == 507
    ballast.unlink()
    assert pusher.push().status_code == 201
    assert consume(broker, 20) == pusher.stored[:20]
    pusher.check()
