"""A volume that fills up: answers stay true, and every message that was answered is there afterwards."""

import os
import pathlib
import random
import shutil
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


RESERVE = 64 << 20
LARGE_MB = 220


@pytest.fixture(params=["ext4", "tmpfs"])
def large_volume(request):
    """Large enough for the reserve; ext4 has blocks, inodes and a journal that can run out as well."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="queen-large-"))
    image, path = home / "image", home / "volume"
    path.mkdir()
    commands = [["mount", "-t", "tmpfs", "-o", f"size={LARGE_MB}m", "tmpfs", str(path)]]
    if request.param == "ext4":
        image.touch()
        os.truncate(image, LARGE_MB << 20)
        commands = [["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(path)]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            shutil.rmtree(home)
            pytest.skip(f"{command[0]} is not here")
        if done.returncode != 0:
            shutil.rmtree(home)
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)
    shutil.rmtree(home)


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


def test_a_write_that_meets_the_full_volume_closes_the_gate_before_the_next_look(on_volume):
    """Pushes may fill the volume between two looks at it. The small ones behind them would still fit."""
    broker = on_volume(QUEEN_RAFT_DISK_HIGH_PCT="85", QUEEN_RAFT_DISK_LOW_PCT="80", QUEEN_RAFT_DISK_CHECK_MS="60000").start()
    pusher = Pusher(broker)
    assert pusher.fill().status_code == 507
    assert [pusher.push(10).status_code for _ in range(5)] == [507] * 5


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


def free_of(path: pathlib.Path) -> int:
    use = os.statvfs(path)
    return use.f_bavail * use.f_frsize


def fill_up(ballast: pathlib.Path) -> None:
    """Somebody else takes the last byte."""
    with open(ballast, "ab", buffering=0) as out:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    out.write(bytes(size))
            except OSError:
                continue


def wait_for(condition, what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def drain_a_little(broker: Broker, pusher: Pusher, done: list[str], times: int) -> None:
    """Pops, acks and deletes of a full node: none of them ever meets a refusal."""
    for _ in range(times):
        done += consume(broker, 1)
        answer = broker.post("/api/v1/kv", {"operations": [{"op": "delete", "ns": "n", "key": f"k{len(done)}"}]})
        assert answer.status_code == 200, answer.text
    assert done == pusher.stored[:len(done)]


def test_a_volume_full_to_the_last_byte_drains_out_of_the_reserve_and_recovers_by_itself(large_volume, work):
    """HD-30, BP-1, BP-6: phase by phase, with a kill in each."""
    ballast, reserve = large_volume / "ballast", large_volume / "data/reserve.bin"
    def whole() -> bool:
        return reserve.exists() and reserve.stat().st_size == RESERVE and reserve.stat().st_blocks * 512 >= RESERVE

    broker = Broker(large_volume / "data", QUEEN_RAFT_QLOG_ZSTD_LEVEL="0", QUEEN_RAFT_SEGMENT_BYTES="262144",
                    QUEEN_RAFT_DURABLE_EVERY_MS="100", QUEEN_RAFT_DISK_HIGH_PCT="100", QUEEN_RAFT_DISK_LOW_PCT="90",
                    QUEEN_RAFT_DISK_CHECK_MS="10")
    broker.log_path = work / "broker.log"
    try:
        broker.start()
        pusher, done = Pusher(broker), []
        for _ in range(60):
            assert pusher.push(20_000).status_code == 201
        puts = [{"op": "put", "ns": "n", "key": f"k{n}", "value": n, "forever": True} for n in range(100)]
        assert broker.post("/api/v1/kv", {"operations": puts}).status_code == 200
        wait_for(whole, "the reserve is not made")

        # Full while it runs: what does not grow goes on, also across rolls and checkpoints.
        fill_up(ballast)
        assert free_of(large_volume) == 0
        assert pusher.push(200_000).status_code == 507
        drain_a_little(broker, pusher, done, 10)
        wait_for(lambda: not reserve.exists(), "the reserve is kept on a full volume")
        assert [pusher.push(10).status_code for _ in range(5)] == [507] * 5
        assert broker.post("/api/v1/kv", {"operations": puts[:1]}).status_code == 507
        health = broker.get("/health")
        assert health.status_code == 200 and "disk" in [warning["code"] for warning in health.json()["warnings"]]
        pusher.check()

        # Killed and booted while full, the reserve already gone.
        broker.kill9()
        broker.start()
        assert pusher.push(10).status_code == 507
        drain_a_little(broker, pusher, done, 10)

        # Full again to the last byte with nothing left to give: it boots, serves reads, and says no.
        fill_up(ballast)
        broker.kill9()
        broker.start()
        pusher.check()
        assert pusher.push(10).status_code == 507

        # Space comes: no restart, and the reserve is made again.
        ballast.unlink()
        wait_for(lambda: pusher.push(10).status_code == 201, "pushes are still refused")
        wait_for(whole, "the reserve is not made again")
        drain_a_little(broker, pusher, done, 10)
        pusher.check()

        # Full at the moment of the boot, with the reserve still there.
        broker.kill9()
        fill_up(ballast)
        broker.start()
        # What was freed beside the reserve is free; the reserve is not.
        wait_for(lambda: pusher.push(20_000).status_code == 507, "pushes eat the reserve")
        assert free_of(large_volume) > RESERVE - (1 << 20)
        drain_a_little(broker, pusher, done, 5)
        assert broker.terminate() == 0
        broker.start()
        pusher.check()
        drain_a_little(broker, pusher, done, 5)
    finally:
        broker.close()
