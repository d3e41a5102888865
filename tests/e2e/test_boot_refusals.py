"""Damage of one file: what a boot must refuse, with one line that says what and where, and what must not stop it."""

import hashlib
import os
import pathlib
import random
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from harness import Broker
from qlog_file import (HEADER, UNUSED, Logs, append_record, end_of, flip, header, put_record, records, write_over)

Damage = Callable[[pathlib.Path], list[str]]
QUEUES = ["orders", "rides", "meters"]
SETTINGS = {"QUEEN_RAFT_SEGMENT_BYTES": "4096", "QUEEN_RAFT_QLOG_ZSTD_LEVEL": "0"}
NEVER = {"QUEEN_RAFT_DURABLE_EVERY_MS": "3600000"}


@dataclass
class Prepared:
    """A directory as a broker left it, and the messages that it holds."""

    directory: pathlib.Path
    stored: dict[tuple[str, str], list[str]]

    def copy(self, to: pathlib.Path) -> pathlib.Path:
        shutil.copytree(self.directory, to, ignore=shutil.ignore_patterns("reserve.bin"))  # 64 MiB of nothing
        return to


def fill(broker: Broker, seed: int = 7) -> dict[tuple[str, str], list[str]]:
    """Pushes to one queue at a time, each fifth one to all of them in one entry."""
    rng = random.Random(seed)
    stored: dict[tuple[str, str], list[str]] = {}
    for number in range(60):
        places = [(queue, f"p{number % 2}") for queue in (QUEUES if number % 5 == 0 else [QUEUES[number % 3]])]
        broker.push([{"queue": queue, "partition": partition, "transactionId": f"t{number}", "payload": rng.randbytes(150).hex()}
                     for queue, partition in places])
        for place in places:
            stored.setdefault(place, []).append(f"t{number}")
    return stored


def prepare(root: pathlib.Path, name: str, clean: bool, **settings: str) -> Prepared:
    broker = Broker(root / name, **SETTINGS, **settings).start()
    try:
        stored = fill(broker)
        assert clean is False or broker.terminate() == 0
    finally:
        broker.close()
    return Prepared(root / name, stored)


@pytest.fixture(scope="module")
def made():
    """`clean`: stopped by SIGTERM, so that all is checkpointed. `raw`: killed, and nothing is checkpointed."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="queen-refusals-"))
    yield {"clean": prepare(root, "clean", True), "raw": prepare(root, "raw", False, **NEVER)}
    shutil.rmtree(root, ignore_errors=True)


def snapshot(directory: pathlib.Path) -> dict[str, tuple]:
    """Every name with its mode and bytes, but for the two lock files."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if name in ("LOCK", "store/lock.mdb", "reserve.bin"):
            continue
        found[name] = (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None)
    return found


def fatal_line(broker: Broker) -> str:
    """The text of the one line with which the broker ended."""
    code = broker.wait_exit()
    log = broker.log()
    assert code == 1, f"exit status {code}:\n{log[-3000:]}"
    errors = [line for line in log.splitlines() if " ERROR " in line or "FATAL" in line]
    assert len(errors) == 1 and " ERROR boot: FATAL: " in errors[0], log[-3000:]
    return errors[0].split("FATAL: ", 1)[1]


def check_all_there(broker: Broker, stored: dict[tuple[str, str], list[str]]) -> None:
    for (queue, partition), transactions in stored.items():
        assert [record["transactionId"] for record in broker.fetch_all(queue, partition)] == transactions


# ---- damages: each changes one file of `directory` and returns what the line must name ----

def name_of(path: pathlib.Path) -> list[str]:
    return [path.parent.name, path.name]


def flip_record_of_sealed_file(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).sealed()
    record = records(path)[1]
    flip(path, record.position + 60)
    return [*name_of(path), f"byte {record.position}", "sealed"]


def flip_length_of_sealed_file(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).sealed()
    record = records(path)[1]
    write_over(path, record.position, b"\xff\xff\xff\xff")
    return [*name_of(path), f"byte {record.position}", "sealed"]


def zeros_in_sealed_file(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).sealed()
    record = records(path)[-1]
    write_over(path, record.position, bytes(record.length))
    return [*name_of(path), f"byte {record.position}", "sealed"]


def cut_sealed_file(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).sealed()
    record = records(path)[-1]
    os.truncate(path, record.position + record.length - 5)
    return [*name_of(path), f"byte {record.position}", "sealed"]


def flip_record_before_durable_one(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).active()
    bad, good = records(path)[1:3]
    flip(path, bad.position + 30)
    return [*name_of(path), f"byte {bad.position}", f"byte {good.position}", f"seq {good.seq}", "acknowledged"]


def seqs_run_backwards(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).active()
    early = records(path)[0]
    last = records(path)[-1]
    at = append_record(path, early)
    return [*name_of(path), f"byte {at}", f"byte {last.position}", f"seq {early.seq}", f"seq {last.seq}", "acknowledged"]


def tear_that_reaches_sealed_file(directory: pathlib.Path) -> list[str]:
    logs = Logs(directory)
    path, part = next((path, part) for _, parts in sorted(logs.parts().items()) for path, part in parts
                      if path == logs.files(path.parent)[-1] and any(
                          records(sealed)[-1].seq > part.seq for log in logs.rolled() for sealed in logs.files(log)[:-1]))
    os.truncate(path, part.position + 20)
    return [str(part.seq), "sealed", "acknowledged"]


def drop_last_entry(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).active()
    last = records(path)[-1].seq
    start = next(record.position for record in records(path) if record.seq == last)
    os.truncate(path, start)
    return [path.parent.name, f"seq {records(path)[-1].seq}", f"expected {last}"]


def other_stub(field: str, **values) -> Damage:
    def damage(directory: pathlib.Path) -> list[str]:
        whole, stubs = Logs(directory).shared_entry()
        path, stub = stubs[0]
        changed = {name: value(getattr(stub, name)) for name, value in values.items()}
        put_record(path, replace(stub, **changed))
        return [f"entry {stub.seq}", whole[0].parent.name, path.parent.name, field]
    damage.__name__ = "other_" + field.split()[0]
    return damage


def stub_for_the_whole_entry(directory: pathlib.Path) -> list[str]:
    """All parts are there and agree, but none is the entry itself."""
    (path, whole), stubs = Logs(directory).shared_entry()
    data = path.read_bytes()
    rest = data[whole.position + whole.length:]
    path.write_bytes(data[:whole.position] + whole.stub_of().encode() + rest)
    return [f"entry {whole.seq}", path.parent.name, stubs[0][0].parent.name, str(len(stubs) + 1)]


def part_too_many(directory: pathlib.Path) -> list[str]:
    """A stub of an entry that says it has one part, in a log that has nothing later."""
    logs = Logs(directory)
    ends = {log: records(logs.files(log)[-1])[-1].seq for log in logs.directories() if records(logs.files(log)[-1])}
    for seq, parts in sorted(logs.parts().items(), reverse=True):
        other = next((log for log, end in ends.items() if end < seq and log != parts[0][0].parent), None)
        if len(parts) == 1 and other is not None:
            append_record(logs.files(other)[-1], parts[0][1].stub_of())
            return [f"entry {seq}", parts[0][0].parent.name, other.name, "2", "1"]
    raise AssertionError("no entry fits")


def header_field(which: str, field: str, data: bytes, at: int) -> Damage:
    def damage(directory: pathlib.Path) -> list[str]:
        path = getattr(Logs(directory), which)()
        write_over(path, at, data)
        return [*name_of(path), field]
    damage.__name__ = f"{field.replace(' ', '_')}_of_{which}"
    return damage


def layout_file(name: str, content: bytes | None, shown: str) -> Damage:
    def damage(directory: pathlib.Path) -> list[str]:
        path = directory / "qlog" / name
        path.unlink() if content is None else path.write_bytes(content)
        return [f"qlog/{name}", shown, "64" if name == "LANES" else "4096"]
    damage.__name__ = f"{name}_is_{shown or 'empty'}"
    return damage


def store_file(kind: str, change) -> Damage:
    def damage(directory: pathlib.Path) -> list[str]:
        path = directory / "store/data.mdb"
        change(path)
        return ["store/data.mdb"]
    damage.__name__ = f"store_{kind}"
    return damage


def missing_file(directory: pathlib.Path) -> list[str]:
    path = Logs(directory).sealed()
    path.unlink()
    return [path.parent.name, path.name]


REFUSED = [
    ("BR-1", "raw", flip_record_of_sealed_file), ("BR-1", "raw", flip_length_of_sealed_file), ("BR-1", "raw", zeros_in_sealed_file),
    ("BR-1", "raw", cut_sealed_file), ("BR-1", "clean", cut_sealed_file),
    ("BR-2", "clean", flip_record_before_durable_one), ("BR-2", "clean", seqs_run_backwards), ("BR-2", "raw", seqs_run_backwards),
    ("BR-2", "raw", tear_that_reaches_sealed_file),
    ("BR-3", "clean", drop_last_entry),
    ("BR-4", "raw", other_stub("copies", pid=lambda v: v + 1)), ("BR-4", "raw", other_stub("term", base_offset=lambda v: v + 1)),
    ("BR-4", "raw", other_stub("now_us", created_at=lambda v: v + 1)),
    ("BR-4", "raw", other_stub("xxh3", body=lambda v: bytes([v[0] ^ 1]) + v[1:])),
    ("BR-4", "raw", other_stub("length", body=lambda v: v[:8] + struct.pack("<I", struct.unpack("<I", v[8:])[0] + 1))),
    ("BR-4", "raw", stub_for_the_whole_entry), ("BR-4", "raw", part_too_many),
    ("BR-8", "clean", store_file("cut_to_a_half", lambda path: os.truncate(path, path.stat().st_size // 2))),
    ("BR-8", "clean", store_file("cut_to_a_page", lambda path: os.truncate(path, 4096))),
    ("BR-8", "clean", store_file("cut_to_100_bytes", lambda path: os.truncate(path, 100))),
    ("BR-8", "clean", store_file("noise", lambda path: path.write_bytes(random.Random(3).randbytes(path.stat().st_size)))),
    ("BR-8", "clean", store_file("zeros", lambda path: path.write_bytes(bytes(path.stat().st_size)))),
    ("BR-9", "clean", layout_file("LANES", None, "missing")), ("BR-9", "clean", layout_file("SHARDS", None, "missing")),
    ("BR-9", "clean", layout_file("LANES", b"two\n", "two")), ("BR-9", "clean", layout_file("SHARDS", b"-1\n", "-1")),
    ("BR-9", "clean", layout_file("LANES", b"65\n", "65")), ("BR-9", "clean", layout_file("LANES", b"0\n", '"0"')),
    ("BR-9", "clean", layout_file("SHARDS", b"4097\n", "4097")), ("BR-9", "clean", layout_file("SHARDS", b"", "")),
    ("BR-10", "clean", missing_file),
    ("BR-11", "clean", header_field("sealed", "magic", b"QNQLOG2\0", 0)), ("BR-11", "clean", header_field("active", "magic", b"X", 3)),
    ("BR-11", "clean", header_field("sealed", "file id", struct.pack("<Q", 77), 8)),
    ("BR-11", "clean", header_field("active", "file id", struct.pack("<Q", 0), 8)),
    ("BR-11", "clean", header_field("sealed", "reserved", b"\1", 24)), ("BR-11", "clean", header_field("active", "reserved", b"\1", 31)),
]


@pytest.mark.parametrize("rule,base,damage", REFUSED, ids=lambda value: getattr(value, "__name__", value))
def test_damage_is_refused_with_one_line_and_nothing_is_changed(made, make_broker, work, rule, base, damage):
    directory = made[base].copy(work / "data")
    named = damage(directory)
    before = snapshot(directory)
    line = fatal_line(make_broker(**SETTINGS).spawn())
    assert [text for text in named if text not in line] == [], line
    assert snapshot(directory) == before


def test_a_sealed_file_without_its_index_is_verified_also_when_all_of_it_is_checkpointed(made, make_broker, work):
    """BR-1."""
    directory = made["clean"].copy(work / "data")
    path = Logs(directory).sealed()
    path.with_suffix(".qidx").unlink()
    named = flip_record_of_sealed_file(directory)
    line = fatal_line(make_broker(**SETTINGS).spawn())
    assert [text for text in named if text not in line] == [], line


def test_a_locked_directory_is_refused_and_its_owner_goes_on(made, make_broker, work):
    owner = make_broker(**SETTINGS)
    made["clean"].copy(work / "data")
    owner.start()
    second = Broker(work / "data", **SETTINGS)
    second.log_path = work / "second.log"
    try:
        assert str(work / "data") in fatal_line(second.spawn()) and "locked" in second.log()
    finally:
        second.close()
    check_all_there(owner, made["clean"].stored)
    owner.push([{"queue": "orders", "partition": "p0", "payload": 1}])


# ---- the store ----

def row_positions(data: bytes) -> list[int]:
    """Where names of the test's queues stand in the file: in rows, of live pages and of freed ones."""
    return sorted({at for queue in QUEUES for at in range(len(data)) if data.startswith(queue.encode(), at)})


def is_ready(broker: Broker) -> bool:
    """Waits until the broker is ready, or has ended."""
    deadline = time.monotonic() + 30
    while broker.process.poll() is None:
        if " boot: ready " in broker.log():
            return True
        assert time.monotonic() < deadline, "neither ready nor ended"
        time.sleep(0.005)
    return False


def outcome_of_flip(made, work: pathlib.Path, position: int, bit: int) -> str | None:
    """Boots on one flipped bit of data.mdb. The refusal, or nothing when all messages are there."""
    directory = made["clean"].copy(work / "data")
    flip(directory / "store/data.mdb", position, bit)
    before = snapshot(directory)
    broker = Broker(directory, **SETTINGS)
    broker.log_path.unlink(missing_ok=True)
    broker.spawn()
    try:
        if is_ready(broker):
            check_all_there(broker, made["clean"].stored)
            return None
        line = fatal_line(broker)
        assert snapshot(directory) == before
        return line
    finally:
        broker.close()
        shutil.rmtree(directory)


def test_a_flipped_bit_in_a_row_of_the_store_is_refused_by_name(made, work):
    """BR-5: at least the live copy of a row that names a queue is found, and the line has keyspace and key."""
    positions = row_positions((made["clean"].directory / "store/data.mdb").read_bytes())
    lines = [outcome_of_flip(made, work, position, 1) for position in positions[:40]]
    refused = [line for line in lines if line is not None]
    assert refused, "no row was damaged"
    assert all("keyspace" in line and "key" in line for line in refused), refused


def test_random_flips_of_the_store_are_refused_or_change_nothing(made, work):
    size = (made["clean"].directory / "store/data.mdb").stat().st_size
    rng = random.Random(20261)
    for _ in range(60):
        position, bit = rng.randrange(size), rng.randrange(8)
        line = outcome_of_flip(made, work, position, bit)
        assert line is None or "keyspace" in line or "data.mdb" in line, f"byte {position} bit {bit}: {line}"


@pytest.mark.parametrize("gone", ["removed", "empty"])
@pytest.mark.parametrize("base", ["clean", "raw"])
def test_logs_that_are_complete_boot_without_the_store(made, make_broker, work, base, gone):
    """HD-29."""
    path = made[base].copy(work / "data") / "store/data.mdb"
    path.unlink() if gone == "removed" else path.write_bytes(b"")
    check_all_there(make_broker(**SETTINGS).start(), made[base].stored)


@pytest.mark.parametrize("gone", ["removed", "empty"])
def test_a_lost_store_beside_logs_that_are_not_complete_is_refused(made, make_broker, work, gone):
    """HD-29: the logs no longer begin with entry 1, as after files were freed."""
    directory = made["clean"].copy(work / "data")
    logs = Logs(directory)
    first = min(logs.parts())
    for path, _ in logs.parts()[first]:
        path.unlink()
        path.with_suffix(".qidx").unlink(missing_ok=True)
    store = directory / "store/data.mdb"
    store.unlink() if gone == "removed" else store.write_bytes(b"")
    before = snapshot(directory)
    line = fatal_line(make_broker(**SETTINGS).spawn())
    assert "data.mdb" in line
    assert snapshot(directory) == before


# ---- damage that must not stop a boot ----

def torn_tail(directory: pathlib.Path) -> None:
    path = Logs(directory).active()
    last = records(path)[-1]
    write_over(path, end_of(path), replace(last, seq=last.seq + 1).encode()[:-7])


def noise_at_the_end(directory: pathlib.Path) -> None:
    path = Logs(directory).active()
    write_over(path, end_of(path), random.Random(5).randbytes(500))


def zeros_at_the_end(directory: pathlib.Path) -> None:
    path = Logs(directory).active()
    write_over(path, end_of(path), bytes(100_000))


def every_index_missing(directory: pathlib.Path) -> None:
    for path in directory.rglob("*.qidx"):
        path.unlink()


def every_index_garbage(directory: pathlib.Path) -> None:
    for path in directory.rglob("*.qidx"):
        path.write_bytes(random.Random(6).randbytes(path.stat().st_size))


def every_index_flipped(directory: pathlib.Path) -> None:
    for path in directory.rglob("*.qidx"):
        flip(path, path.stat().st_size - 20)


def leftovers(directory: pathlib.Path) -> None:
    log = Logs(directory).directories()[0]
    for path in (directory / "qlog/LANES.tmp", log / "r00000001.qidx.tmp", log / "r00000001.compact", log / "r00000001.qlog.tmp"):
        path.write_bytes(b"half")
    dead = directory / "qlog/q12345.dead"
    dead.mkdir()
    (dead / "r00000001.qlog").write_bytes(b"half")


def next_path(directory: pathlib.Path) -> tuple[pathlib.Path, int]:
    active = Logs(directory).active()
    number = int(active.stem[1:]) + 1
    return active.with_name(f"r{number:08}.qlog"), number


def unused_file(directory: pathlib.Path) -> None:
    path, number = next_path(directory)
    path.write_bytes(header(number, UNUSED))


def file_without_a_whole_header(directory: pathlib.Path) -> None:
    path, number = next_path(directory)
    path.write_bytes(header(number, UNUSED)[:20])


def file_of_zeros(directory: pathlib.Path) -> None:
    next_path(directory)[0].write_bytes(bytes(HEADER.size))


TAKEN = [torn_tail, noise_at_the_end, zeros_at_the_end, every_index_missing, every_index_garbage, every_index_flipped, leftovers,
         unused_file, file_without_a_whole_header, file_of_zeros]


@pytest.mark.parametrize("base", ["clean", "raw"])
@pytest.mark.parametrize("damage", TAKEN, ids=lambda value: value.__name__)
def test_what_a_crash_can_leave_stops_no_boot_and_loses_nothing(made, make_broker, work, damage, base):
    directory = made[base].copy(work / "data")
    damage(directory)
    broker = make_broker(**SETTINGS).start()
    check_all_there(broker, made[base].stored)
    broker.push([{"queue": "orders", "partition": "p0", "transactionId": "after", "payload": 1}])
    broker.kill9()
    broker.start()
    stored = {**made[base].stored, ("orders", "p0"): [*made[base].stored["orders", "p0"], "after"]}
    check_all_there(broker, stored)
    assert not list(directory.rglob("*.tmp")) + list(directory.rglob("*.compact")) + list(directory.rglob("*.dead"))
    assert " ERROR " not in broker.log()
