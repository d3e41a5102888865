"""queenctl data verify and dump: every kind of damage is found and named, nothing is changed, and healthy is healthy."""

import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import replace

import pytest
from harness import BINARY, Broker
from qlog_file import ENTRY, HEADER, MESSAGE, STUB, Logs, end_of, flip, header, put_record, records, write_over
from test_boot_refusals import SETTINGS, TAKEN, fatal_line, fill, snapshot

QUEENCTL = pathlib.Path(os.environ.get("QUEENCTL_BINARY", BINARY.parent / "queenctl"))


def ctl(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(QUEENCTL), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def verify(directory: pathlib.Path) -> dict:
    answer = ctl("data", "verify", directory, "--json")
    assert answer.returncode in (0, 1), answer.stderr
    report = json.loads(answer.stdout)
    assert report["healthy"] == (answer.returncode == 0), answer.stdout
    return report


def damages(report: dict) -> list[dict]:
    return [finding for finding in report["findings"] if finding["severity"] == "damage"]


def notes(report: dict) -> list[dict]:
    return [finding for finding in report["findings"] if finding["severity"] == "note"]


def use_everything(broker: Broker) -> None:
    """Leases, acks, dead letters, groups, KV with and without expiry: all tables that a node fills."""
    fill(broker)
    for group in ("billing", "audit"):
        popped = broker.pop("orders", consumerGroup=group, batch=5, subscriptionMode="all")
        broker.ack_all(popped, group=group)
    broker.pop("rides", consumerGroup="billing", batch=3, subscriptionMode="all")
    broker.ack_all(broker.pop("meters", batch=4), status="failed")
    for _ in range(6):
        popped = broker.pop("rides", batch=2)
        if popped is None:
            break
        broker.ack_all(popped, status="dlq")
    put = {"op": "put", "ns": "n", "value": {"a": 1}}
    answer = broker.post("/api/v1/kv", {"operations": [{**put, "key": "k", "forever": True}, {**put, "key": "e", "ttlSeconds": 3600}]})
    assert answer.status_code == 200, answer.text
    broker.push([{"queue": "compressed", "partition": "p", "transactionId": f"c{n}", "payload": "text " * 300} for n in range(4)])


def prepare(root: pathlib.Path, name: str, clean: bool, **settings: str) -> pathlib.Path:
    broker = Broker(root / name, **{**SETTINGS, "QUEEN_RAFT_QLOG_ZSTD_LEVEL": "1", **settings}).start()
    try:
        use_everything(broker)
        assert clean is False or broker.terminate() == 0
    finally:
        broker.close()
    return root / name


@pytest.fixture(scope="module")
def made():
    """`clean`: all is checkpointed. `raw`: killed, and nothing is. `killed`: in between. `shards`, `lanes`: other layouts."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="queenctl-"))
    yield {"clean": prepare(root, "clean", True),
           "raw": prepare(root, "raw", False, QUEEN_RAFT_DURABLE_EVERY_MS="3600000"),
           "killed": prepare(root, "killed", False, QUEEN_RAFT_DURABLE_EVERY_MS="50"),
           "shards": prepare(root, "shards", True, QUEEN_QLOG_SHARDS="2"),
           "lanes": prepare(root, "lanes", False, QUEEN_QLOG_LANES="3")}
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def copy(made, work):
    def copy_of(base: str) -> pathlib.Path:
        shutil.copytree(made[base], work / "data")
        return work / "data"
    return copy_of


# ---- healthy ----

@pytest.mark.parametrize("base", ["clean", "raw", "killed", "shards", "lanes"])
def test_nothing_is_found_in_what_a_node_left(made, base):
    before = snapshot(made[base])
    report = verify(made[base])
    assert damages(report) == []
    assert report["wouldBoot"] is True
    assert report["logs"]["messageRecords"] > 60
    assert snapshot(made[base]) == before


def test_a_copy_without_locks_that_nobody_may_write_is_verified_and_stays_as_it_is(copy):
    directory = copy("clean")
    (directory / "LOCK").unlink()
    (directory / "store/lock.mdb").unlink()
    paths = [directory, *directory.rglob("*")]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = snapshot(directory)
    try:
        assert damages(verify(directory)) == []
        assert snapshot(directory) == before
        assert not (directory / "LOCK").exists() and not (directory / "store/lock.mdb").exists()
    finally:
        for path in paths:
            path.chmod(0o700)


def test_a_directory_in_use_is_not_looked_at(make_broker, work):
    broker = make_broker(**SETTINGS).start()
    broker.push([{"queue": "q", "partition": "p", "payload": 1}])
    answer = ctl("data", "verify", work / "data")
    assert answer.returncode == 2 and "in use" in answer.stderr and answer.stdout == ""
    broker.kill9()
    assert ctl("data", "verify", work / "data").returncode == 0


@pytest.mark.parametrize("arguments", [["data", "verify"], ["data", "verify", "/nowhere"], ["data", "verify", "/tmp"], ["data", "look", "/tmp"],
                                       ["data", "verify", "/tmp", "--fast"], ["data", "dump", "/nowhere"], []])
def test_wrong_usage_and_what_is_no_data_directory_end_with_2(arguments):
    assert ctl(*arguments).returncode == 2


# ---- damage ----

def message_of(path: pathlib.Path):
    return next(record for record in records(path) if record.kind == MESSAGE)


FIELDS = {"length": 0, "check": 4, "seq": 12, "pid": 20, "base offset": 28, "count": 36, "created_at": 40, "kind": 48, "hash": 50,
          "payload": 90}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("indexed", [True, False])
def test_a_flipped_bit_of_a_sealed_record_is_named_by_file_and_byte(copy, field, indexed):
    """BR-1, CR-6, QL-27: also where a boot trusts the index and does not look."""
    directory = copy("clean")
    path = Logs(directory).sealed()
    record = message_of(path)
    if not indexed:
        path.with_suffix(".qidx").unlink()
    flip(path, record.position + FIELDS[field], 1)
    report = verify(directory)
    found = [finding for finding in damages(report) if finding["path"] == str(path) and finding["position"] == record.position]
    assert [finding["rule"] for finding in found] == ["CR-6" if indexed else "BR-1"], report
    assert report["wouldBoot"] is indexed
    # And which messages are lost with it.
    assert any(finding["rule"] == "RD-6" and "offsets" in finding["what"] for finding in damages(report)), report


@pytest.mark.parametrize("kind", [ENTRY, STUB])
def test_a_flipped_bit_of_an_entry_part_is_found(copy, kind):
    directory = copy("raw")
    path, part = next((path, part) for _, parts in sorted(Logs(directory).parts().items()) for path, part in parts
                      if part.kind == kind and path == Logs(directory).files(path.parent)[0] and len(Logs(directory).files(path.parent)) > 1)
    flip(path, part.position + part.length - 3, 2)
    found = damages(verify(directory))
    assert any(finding["rule"] == "BR-1" and finding["path"] == str(path) and finding["position"] == part.position for finding in found), found


def test_all_of_several_damages_are_found(copy):
    directory = copy("clean")
    logs = Logs(directory)
    places = []
    for log in logs.rolled():
        path = logs.files(log)[0]
        for record in records(path)[1::4]:
            flip(path, record.position + 14)
            places.append((str(path), record.position))
    flip(logs.active(), 3)
    found = {(finding["path"], finding["position"]) for finding in damages(verify(directory))}
    assert len(places) > 4 and {*places, (str(logs.active()), 0)} <= found, (places, found)


def test_entry_bytes_that_are_no_entry_are_found_behind_a_good_checksum(copy):
    """EN-5."""
    directory = copy("raw")
    path, part = next((path, part) for _, parts in sorted(Logs(directory).parts().items()) for path, part in parts
                      if part.kind == ENTRY and len(parts) == 1)
    put_record(path, replace(part, body=bytes(len(part.body))))
    found = damages(verify(directory))
    assert [(finding["rule"], finding["path"], finding["position"]) for finding in found] == [("EN-5", str(path), part.position)], found


def change_hash(body: bytes) -> bytes:
    return bytes([body[0] ^ 1]) + body[1:]


def change_frame_length(body: bytes) -> bytes:
    return body[:16] + bytes([body[16] ^ 1]) + body[17:]


def break_zstd(body: bytes) -> bytes:
    return body[:-30] + bytes(20) + body[-10:]


@pytest.mark.parametrize("change,name", [(change_hash, "hash"), (change_frame_length, "frame"), (break_zstd, "zstd")])
def test_contents_that_contradict_themselves_are_found_behind_a_good_checksum(copy, change, name):
    """QL-2, QL-9, QL-15."""
    directory = copy("clean")
    path, record = next((path, record) for log in Logs(directory).directories() for path in Logs(directory).files(log)
                        for record in records(path) if record.kind & 0x7F == MESSAGE and (record.kind & 0x80 != 0) == (name == "zstd"))
    put_record(path, replace(record, body=change(record.body)))
    found = damages(verify(directory))
    assert any(finding["rule"] == "QL-15" and finding["path"] == str(path) and finding["position"] == record.position
               and name in finding["what"].lower() for finding in found), found


@pytest.mark.parametrize("at,data,field", [(3, b"X", "magic"), (8, struct.pack("<Q", 77), "file id"), (16, bytes(8), "first seq"),
                                           (24, b"\1", "reserved")])
@pytest.mark.parametrize("which", ["sealed", "active"])
def test_a_damaged_file_header_is_found(copy, which, at, data, field):
    """BR-11."""
    directory = copy("clean")
    path = getattr(Logs(directory), which)()
    write_over(path, at, data)
    report = verify(directory)
    found = damages(report)
    assert any(finding["rule"] == "BR-11" and finding["path"] == str(path) and field in finding["what"] for finding in found), found
    assert report["wouldBoot"] is False


@pytest.mark.parametrize("which", ["sealed", "active"])
def test_a_missing_file_is_found(copy, which):
    """BR-10, BR-3."""
    directory = copy("clean")
    path = getattr(Logs(directory), which)()
    path.unlink()
    report = verify(directory)
    assert any(finding["rule"] == "BR-10" and finding["path"] == str(path) for finding in damages(report)), damages(report)
    assert any(finding["rule"] == "RD-6" for finding in damages(report))
    assert report["wouldBoot"] is False


def test_a_missing_log_is_found(copy):
    """BR-10."""
    directory = copy("clean")
    log = Logs(directory).rolled()[0]
    shutil.rmtree(log)
    found = damages(verify(directory))
    assert any(finding["rule"] == "BR-10" and finding["path"] == str(log) for finding in found), found


def test_a_truncated_active_file_is_found(copy):
    """BR-3."""
    directory = copy("clean")
    path = Logs(directory).active()
    os.truncate(path, records(path)[-2].position)
    found = damages(verify(directory))
    assert any(finding["rule"] == "BR-3" and path.parent.name in finding["what"] for finding in found), found


def test_a_file_of_another_log_is_found(copy):
    """BR-2: its seqs do not go on where those before it end."""
    directory = copy("clean")
    logs = Logs(directory)
    from_log, to_log = logs.rolled()[:2]
    number = int(logs.files(to_log)[-1].stem[1:]) + 1
    data = logs.files(from_log)[0].read_bytes()
    path = to_log / f"r{number:08}.qlog"
    path.write_bytes(header(number, HEADER.unpack_from(data)[2]) + data[HEADER.size:])
    found = damages(verify(directory))
    assert any(finding["path"] == str(path) for finding in found), found


@pytest.mark.parametrize("name,content", [("LANES", b"two\n"), ("SHARDS", b"4097\n"), ("LANES", None), ("SHARDS", b"")])
def test_a_damaged_layout_file_is_found(copy, name, content):
    """BR-9."""
    directory = copy("clean")
    path = directory / "qlog" / name
    path.unlink() if content is None else path.write_bytes(content)
    report = verify(directory)
    assert [(finding["rule"], finding["path"]) for finding in damages(report)] == [("BR-9", str(path))], report


def test_an_index_that_describes_another_content_is_damage(copy):
    """QL-16: its checksums are right, so a node would use it."""
    import xxhash
    directory = copy("clean")
    path = Logs(directory).sealed().with_suffix(".qidx")
    data = bytearray(path.read_bytes())
    data[48 + 24] ^= 1  # created_at of the first record
    data[32:40] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(data[48:])))
    data[40:48] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(data[:40])))
    path.write_bytes(data)
    found = damages(verify(directory))
    assert [(finding["rule"], finding["path"], finding["position"]) for finding in found] == [("QL-16", str(path), 48)], found


@pytest.mark.parametrize("position", [2, 9, 17, 21, 25, 34, 42, 48, 60, 72, 80, 88, 92])
def test_a_flipped_bit_of_an_index_is_a_note(copy, position):
    """QL-21: it is made again."""
    directory = copy("clean")
    path = Logs(directory).sealed().with_suffix(".qidx")
    flip(path, position, 1)
    report = verify(directory)
    assert damages(report) == []
    assert [finding["path"] for finding in notes(report) if finding["rule"] == "QL-21"] == [str(path)]


# ---- directories over sealed files ----

DIRECTORY_HEADER = struct.Struct("<8sQQIIQQQ")
DIRECTORY_ROW = struct.Struct("<QQQqI")


def checked_directory(data: bytes) -> bytes:
    """The file with checksums that fit its content."""
    import xxhash
    out = bytearray(data)
    out[40:48] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(out[56:])))
    out[48:56] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(out[:48])))
    return bytes(out)


@pytest.fixture(scope="module")
def with_directory():
    """A stopped node's data with a directory file that upkeep made."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="queenctl-dirx-"))
    broker = Broker(root / "data", **SETTINGS).start()
    try:
        for n in range(60):
            broker.push([{"queue": "q", "partition": f"p{n % 5}", "transactionId": f"d{n}-{i}", "payload": "x" * 1500} for i in range(3)])
        deadline = time.monotonic() + 60
        while not list((root / "data/qlog").glob("q*/dirx-*.qdx")):
            assert time.monotonic() < deadline, "no directory file was made"
            time.sleep(0.2)
        assert broker.terminate() == 0
    finally:
        broker.close()
    yield root / "data"
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def directory_file(with_directory, work):
    shutil.copytree(with_directory, work / "data")
    return max((work / "data/qlog").glob("q*/dirx-*.qdx"), key=lambda path: path.stat().st_size)


def test_nothing_is_found_in_a_directory_file_that_a_node_made(with_directory):
    """RD-9."""
    before = snapshot(with_directory)
    report = verify(with_directory)
    assert damages(report) == []
    assert not [finding for finding in notes(report) if finding["path"].endswith(".qdx")], report
    assert snapshot(with_directory) == before


@pytest.mark.parametrize("where", ["magic", "log id", "rows", "files", "row size", "reserved", "content check", "header check", "list", "row", "end"])
def test_a_flipped_bit_of_a_directory_file_is_found_and_stops_no_boot(directory_file, work, where):
    """RD-10: no reader uses it, and no crash explains it."""
    size = directory_file.stat().st_size
    at = {"magic": 1, "log id": 9, "rows": 17, "files": 25, "row size": 29, "reserved": 33, "content check": 41, "header check": 50,
          "list": 57, "row": size - 20, "end": size - 1}[where]
    flip(directory_file, at)
    report = verify(work / "data")
    found = damages(report)
    assert [(finding["rule"], finding["path"]) for finding in found] == [("RD-10", str(directory_file))], report
    assert report["wouldBoot"] is True


@pytest.mark.parametrize("field,change", [("pid", 1), ("first_offset", 1), ("end", 1), ("last_stamp", 1)])
def test_a_directory_row_that_contradicts_its_files_is_found_behind_good_checksums(directory_file, work, field, change):
    """RD-9: a node would use it, and miss messages."""
    data = directory_file.read_bytes()
    at = len(data) - DIRECTORY_ROW.size  # the last row: its neighbours stay in order
    row = dict(zip(("pid", "first_offset", "end", "last_stamp", "file"), DIRECTORY_ROW.unpack_from(data, at)))
    row[field] += change
    directory_file.write_bytes(checked_directory(data[:at] + DIRECTORY_ROW.pack(*row.values())))
    report = verify(work / "data")
    assert {(finding["rule"], finding["path"]) for finding in damages(report)} == {("RD-9", str(directory_file))}, report
    assert report["wouldBoot"] is True


@pytest.mark.parametrize("left", ["nothing", "empty", "half", "zeros"])
def test_a_directory_file_that_is_missing_or_cut_short_by_a_crash_is_no_damage(directory_file, work, left):
    """RD-10: it is never synced, and a node makes it again."""
    data = directory_file.read_bytes()
    if left == "nothing":
        directory_file.unlink()
    else:
        directory_file.write_bytes({"empty": b"", "half": data[:len(data) // 2], "zeros": bytes(len(data))}[left])
    report = verify(work / "data")
    assert damages(report) == [], report
    rules = {finding["rule"] for finding in notes(report) if finding["rule"] in ("RD-9", "RD-10")}
    assert rules == ({"RD-9"} if left == "nothing" else {"RD-9", "RD-10"}), report


def test_parts_that_contradict_each_other_are_found_below_the_checkpoint_too(copy):
    """BR-4; a boot does not read there."""
    directory = copy("clean")
    _, stubs = Logs(directory).shared_entry()
    path, stub = stubs[0]
    put_record(path, replace(stub, created_at=stub.created_at + 1))
    report = verify(directory)
    found = [finding for finding in damages(report) if finding["rule"] == "BR-4"]
    assert len(found) == 1 and f"entry {stub.seq}" in found[0]["what"] and found[0]["refusesBoot"] is False, report


@pytest.mark.parametrize("damage", TAKEN, ids=lambda value: value.__name__)
def test_what_must_not_stop_a_boot_is_a_note(copy, damage):
    directory = copy("clean")
    damage(directory)
    report = verify(directory)
    assert damages(report) == [], report
    assert report["wouldBoot"] is True
    assert damage.__name__ == "zeros_at_the_end" or notes(report), report


def test_what_is_no_part_of_a_directory_is_a_note_with_its_path(copy):
    directory = copy("clean")
    strangers = [directory / "notes.txt", directory / "qlog/old", Logs(directory).directories()[0] / "r1.qlog.bak"]
    for path in strangers:
        path.write_bytes(b"x")
    report = verify(directory)
    assert damages(report) == []
    assert {str(path) for path in strangers} <= {finding["path"] for finding in notes(report)}


def test_a_directory_of_the_cluster_replicator_is_named(copy):
    """BR-13."""
    directory = copy("clean")
    (directory / "raft").mkdir()
    (directory / "raft/state.json").write_text("{}")
    assert [finding["rule"] for finding in damages(verify(directory))] == ["BR-13"]


# ---- the store ----

def test_flipped_bits_of_the_store_are_found_whenever_a_boot_refuses_them(copy, work, make_broker):
    """BR-5, BR-8: 60 places of the file; what the report says about booting is what a boot does."""
    directory = copy("clean")
    path = directory / "store/data.mdb"
    original = path.read_bytes()
    rng = random.Random(5)
    refused = 0
    for number in range(60):
        position, bit = rng.randrange(len(original)), rng.randrange(8)
        flip(path, position, bit)
        report = verify(directory)
        if number % 6 == 0 or not report["wouldBoot"]:
            trial = work / f"boot{number}"
            shutil.copytree(directory, trial)
            broker = Broker(trial, **SETTINGS)
            try:
                if report["wouldBoot"]:
                    broker.start()
                else:
                    refused += 1
                    fatal_line(broker.spawn())
                    found = damages(report)
                    assert all(finding["path"] == str(path) for finding in found if finding["rule"] in ("BR-5", "BR-8"))
            finally:
                broker.close()
                shutil.rmtree(trial)
        path.write_bytes(original)
    assert refused > 0


def test_every_damaged_row_is_found_not_only_the_first(copy):
    """BR-5."""
    directory = copy("clean")
    path = directory / "store/data.mdb"
    data = path.read_bytes()
    for queue in (b"orders", b"rides", b"meters"):
        at = -1
        while (at := data.find(queue, at + 1)) >= 0:
            flip(path, at, 0)
    found = damages(verify(directory))
    keyspaces = {finding["keyspace"] for finding in found if finding["rule"] == "BR-5"}
    assert {"partitions"} <= keyspaces and len(found) > 6, found


@pytest.mark.parametrize("size", [100, 4096, 20_000])
def test_a_truncated_store_is_found(copy, size):
    """BR-8."""
    directory = copy("clean")
    os.truncate(directory / "store/data.mdb", size)
    report = verify(directory)
    assert any(finding["rule"] == "BR-8" for finding in damages(report)) and report["wouldBoot"] is False, report


@pytest.mark.parametrize("base,damaged", [("raw", False), ("clean", False)])
def test_a_store_that_is_gone_is_a_note_while_the_logs_are_complete(copy, base, damaged):
    """HD-29."""
    directory = copy(base)
    (directory / "store/data.mdb").unlink()
    report = verify(directory)
    assert (damages(report) != []) is damaged, report
    assert any(finding["rule"] == "HD-29" for finding in notes(report))


# ---- dump ----

def dump(directory: pathlib.Path, *arguments: object) -> list[dict]:
    answer = ctl("data", "dump", directory, "--json", *arguments)
    assert answer.returncode in (0, 1), answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_dump_lists_every_record_and_row(made):
    lines = dump(made["clean"])
    of = {kind: [line for line in lines if line["line"] == kind] for kind in ("file", "message", "entry", "stub", "row")}
    logs = Logs(made["clean"])
    expected = [record for log in logs.directories() for path in logs.files(log) for record in records(path)]
    assert len(of["message"]) == sum(record.kind & 0x7F == MESSAGE for record in expected)
    assert len(of["entry"]) == sum(record.kind == ENTRY for record in expected)
    assert len(of["stub"]) == sum(record.kind == STUB for record in expected)
    assert {row["row"]["queue"] for row in of["row"] if row["keyspace"] == "partitions"} == {"orders", "rides", "meters", "compressed"}
    assert not any("messages" in line for line in of["message"]) and "value" not in json.dumps([row for row in of["row"] if row["keyspace"] == "kv"])\
        .replace("valueBytes", "")


def test_a_dump_can_be_narrowed_and_shows_payloads_when_asked(made):
    lines = dump(made["clean"], "--queue", "compressed", "--payloads")
    texts = [message["payload"] for line in lines if line["line"] == "message" for message in line["messages"]]
    assert texts == [json.dumps("text " * 300)] * 4
    assert {line["line"] for line in dump(made["clean"], "--keyspace", "kv")} == {"row"}
    shown = dump(made["clean"], "--keyspace", "kv", "--payloads")
    assert [json.loads(row["row"]["value"]) for row in shown] == [{"a": 1}] * 2
    assert min(line["seq"] for line in dump(made["clean"], "--from", 40) if "seq" in line) == 40
    assert {line["line"] for line in dump(made["clean"], "--log", 0)} <= {"file", "entry", "stub"}
    assert ctl("data", "dump", made["clean"], "--keyspace", "nothing").returncode == 2
    assert ctl("data", "dump", made["clean"], "--queue", "nothing").returncode == 2
    assert "message {" in ctl("data", "dump", made["clean"]).stdout


def test_a_dump_steps_over_damage(copy):
    directory = copy("clean")
    path = Logs(directory).sealed()
    before = len(dump(directory))
    record = records(path)[1]
    flip(path, record.position + 30)
    lines = dump(directory)
    damaged = [line for line in lines if line["line"] == "damage"]
    assert [(line["path"], line["position"], line["bytes"]) for line in damaged] == [(str(path), record.position, record.length)]
    assert len(lines) == before
