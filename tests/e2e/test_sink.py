"""The S3 sink of a real broker against a real S3 server: what arrives, under which key, and what the status says."""

import hashlib
import json
import re
import time

import pytest

from harness import TENANT
from lake import Place, Pushed, assert_lake_right, inflated, micros
from s3_servers import by_turn, on_both
from sink_settings import FAST

ORDERS = [("cust-1", "o-1", '{"total":42.00,"items":["tea"]}'), ("cust-2", "o-2", '{"total":7.50}'),
          ("cust-1", "o-3", '{"total":123456789012345678901234567890}')]

UNIT_FIELDS = ["tenant", "source", "cluster", "phase", "error", "restarts", "lastExit", "uptimeMs", "backoffMs", "ok", "sink",
               "instance", "version", "running", "bucket", "format", "compression", "layout", "align", "health", "placement",
               "memory", "queues"]
BUCKET_FIELDS = ["reachable", "error", "checkedAt", "name", "endpoint", "region", "prefix"]
ROW_FIELDS = ["name", "ownedHere", "heldBy", "state", "k", "tEnd", "completeThrough", "safeTime", "lagSeconds", "redo",
              "bufferedBytes", "partitions", "windowsCommitted", "records", "bytes", "recordsLost", "lastError"]
MANIFEST_FIELDS = ["sink", "tenant", "queue", "k", "tStart", "tEnd", "format", "compression", "layout", "objects", "records",
                   "bytes", "partitions", "minTs", "maxTs", "lost", "writer", "committedAt"]
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def ordered(text) -> list[tuple]:
    """The top-level fields of a JSON object in their order; objects inside are dicts."""
    depth = []

    def hook(pairs):
        depth.append(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=hook)
    return depth[-1]


@on_both
def test_the_demonstration_field_by_field(make_broker, bucket):
    """One run, because its ten seconds are the documented ones: status before, then object, manifest and status after."""
    broker = make_broker(**bucket.settings("orders", QUEEN_S3_MAX_WINDOW_MS="10000", QUEEN_S3_LEASE_TTL_MS="3000")).start()
    missing = broker.wait_sink("orders", lambda row: row["state"] == "missing")
    assert (missing["k"], missing["ownedHere"], missing["tEnd"], missing["lagSeconds"]) == (0, False, None, None)

    pushed = Pushed("orders")
    pushed.push(broker, ORDERS)
    broker.wait_sink("orders", lambda row: row["k"] == 1 and row["state"] == "filling", timeout=40)
    keys = bucket.keys()
    assert len(keys) == 2
    place = Place("orders")
    assert_lake_right(bucket.objects(), place, pushed.records)

    manifest_key = f"queen/_queen/tenant={TENANT}/queue=orders/windows/0000000001.json"
    assert manifest_key in keys
    manifest = dict(ordered(bucket.get(manifest_key)))
    check_demo_object(bucket, manifest)
    check_demo_manifest(bucket.get(manifest_key), manifest)
    head = bucket.client.head_object(Bucket=bucket.name, Key=manifest_key)
    assert head["ContentType"] == "application/json" and "ContentEncoding" not in head
    check_demo_status(broker, bucket, manifest)


def check_demo_object(bucket, manifest) -> None:
    start, end = manifest["tStart"], manifest["tEnd"]
    key = manifest["objects"][0]["key"]
    match = re.fullmatch(rf"queen/tenant={TENANT}/queue=orders/dt=(\d{{4}}-\d\d-\d\d)/hour=(\d\d)/w-0000000001-(\d{{16}})-(\d{{16}})"
                         r"\.jsonl\.zst", key)
    assert match and (int(match[3]), int(match[4])) == (start, end)
    body = bucket.get(key)
    text = inflated(body, "zstd").decode()
    lines = text.split("\n")
    assert len(lines) == 4 and lines[3] == ""
    records = [ordered(line) for line in lines[:3]]
    assert [[name for name, _ in record] for record in records] == [["partition", "offset", "transactionId", "ts", "payload"]] * 3
    assert [(dict(r)["partition"], dict(r)["offset"], dict(r)["transactionId"]) for r in records] == [
        ("cust-1", 0, "o-1"), ("cust-1", 1, "o-3"), ("cust-2", 0, "o-2")]
    stamps = {dict(record)["ts"] for record in records}
    assert len(stamps) == 1
    ts = stamps.pop()
    assert ISO.fullmatch(ts) and start <= micros(ts) < end
    assert start == micros(ts) // 3_600_000_000 * 3_600_000_000, "the first window starts with the hour of its first record"
    assert (match[1], match[2]) == (ts[:10], ts[11:13])
    assert lines[0].endswith(',"payload":{"total":42.00,"items":["tea"]}}')
    assert lines[1].endswith(',"payload":{"total":123456789012345678901234567890}}')
    head = bucket.client.head_object(Bucket=bucket.name, Key=key)
    assert head["ContentType"] == "application/x-ndjson" and "ContentEncoding" not in head and head["ContentLength"] == len(body)


def check_demo_manifest(raw: bytes, manifest) -> None:
    assert [name for name, _ in ordered(raw)] == MANIFEST_FIELDS
    assert raw == json.dumps(manifest, separators=(",", ":")).encode(), "compact JSON"
    assert list(manifest["objects"][0]) == ["key", "bytes", "records", "sha256"]
    fixed = {name: manifest[name] for name in ("sink", "tenant", "queue", "k", "format", "compression", "layout", "records",
                                               "partitions", "lost", "writer")}
    assert fixed == {"sink": "default", "tenant": TENANT, "queue": "orders", "k": 1, "format": "jsonl", "compression": "zstd",
                     "layout": "merged", "records": 3, "partitions": 2, "lost": [], "writer": "queen-s3/0.1.0 jsonl+zstd/1"}
    assert manifest["minTs"] == manifest["maxTs"]
    assert ISO.fullmatch(manifest["committedAt"]) and manifest["committedAt"].endswith("000Z"), "whole milliseconds"


def status_once_placed(broker) -> dict:
    """The placement is decided every third of the lease time, so it may be that old."""
    deadline = time.monotonic() + 10
    while True:
        block = broker.get("/status").json()["s3"]
        if block["sinks"][0]["placement"]["held"] == 1 or time.monotonic() > deadline:
            return block
        time.sleep(0.05)


def check_demo_status(broker, bucket, manifest) -> None:
    block = status_once_placed(broker)
    assert list(block) == ["mode", "phase", "threads", "controlPlane", "sinks"]
    assert (block["mode"], block["phase"], block["controlPlane"]) == ("in-process", "running", {"error": None})
    sink = block["sinks"][0]
    assert list(sink) == UNIT_FIELDS
    fixed = ("tenant", "source", "cluster", "phase", "error", "restarts", "lastExit", "backoffMs", "ok", "sink", "version", "running",
             "format", "compression", "layout", "align")
    assert [sink[name] for name in fixed] == [TENANT, "env", None, "running", None, 0, None, 0, True, "default", "0.1.0", True,
                                              "jsonl", "zstd", "merged", "hour"]
    assert sink["instance"].startswith("node-1@") and sink["uptimeMs"] > 0
    assert list(sink["bucket"]) == BUCKET_FIELDS
    assert {**sink["bucket"], "checkedAt": 0} == {"reachable": True, "error": None, "checkedAt": 0, "name": "lake",
                                                  "endpoint": bucket.about["endpoint"], "region": "us-east-1", "prefix": "queen"}
    assert ISO.fullmatch(sink["bucket"]["checkedAt"])
    assert sink["health"] == {"ok": True, "queues": 1}
    assert sink["placement"] == {"nodes": 1, "queues": 1, "share": 1, "held": 1, "givingBack": None}
    assert sink["memory"] == {"bufferedBytes": 0, "limitBytes": 512 * 1024 * 1024}
    check_demo_row(sink["queues"][0], manifest)


def check_demo_row(row, manifest) -> None:
    assert list(row) == ROW_FIELDS
    fixed = ("name", "ownedHere", "heldBy", "state", "k", "redo", "bufferedBytes", "partitions", "windowsCommitted", "records", "bytes",
             "recordsLost", "lastError")
    assert [row[name] for name in fixed] == ["orders", True, None, "filling", 1, False, 0, 2, 1, 3, manifest["bytes"], 0, None]
    assert micros(row["tEnd"]) == manifest["tEnd"]
    assert row["tEnd"] <= row["completeThrough"] <= row["safeTime"]
    assert row["lagSeconds"] == pytest.approx((micros(row["safeTime"]) - micros(row["completeThrough"])) / 1e6)


def test_no_s3_block_without_the_sink(broker):
    assert "s3" not in broker.get("/status").json()


@on_both
def test_latest_ships_nothing_older_than_the_first_look(make_broker, bucket):
    broker = make_broker().start()
    old, new = Pushed("late"), Pushed("late")
    old.some(broker, 12)
    assert broker.terminate() == 0
    settings = {**bucket.settings("late"), **FAST, "QUEEN_S3_START": "latest"}
    broker.start(**settings)
    broker.wait_sink("late", lambda row: row["completeThrough"] is not None)
    new.some(broker, 6)
    broker.wait_sink("late", lambda row: row["records"] >= 6)
    first = {partition: offset for partition, offset in sorted(new.records, reverse=True)}
    assert set(first.values()) == {4}
    assert_lake_right(bucket.objects(), Place("late", align="none"), new.records, first)


@on_both
def test_a_queue_created_after_boot_ships_within_seven_seconds(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("later"), **FAST}).start()
    broker.wait_sink("later", lambda row: row["state"] == "missing")
    pushed = Pushed("later")
    pushed.some(broker, 10)
    broker.wait_sink("later", lambda row: row["records"] == 10, timeout=7)
    assert_lake_right(bucket.objects(), Place("later", align="none"), pushed.records)


NAMES = ["a b/c", "q\"uote\\back", "🚲 e.ord/eu été:1%", "..", "dt=x~1"]


@on_both
def test_star_ships_every_queue_whatever_its_name(make_broker, bucket):
    """Sorted by bytes, escaped in keys and KV, JSON-escaped in lines; one queue appears while the sink runs."""
    broker = make_broker(**{**bucket.settings("*"), **FAST}).start()
    queues = [Pushed(name) for name in NAMES]
    for at, pushed in enumerate(queues):
        for round_no in range(2):
            pushed.push(broker, [(f"{part}/{n}\t", None if n % 5 == 0 else f"t\"{round_no}.{n}", json.dumps({"n": n}))
                                 for n in range(20) for part in [NAMES[(at + n) % 5]]])
    for pushed in queues:
        broker.wait_sink(pushed.queue, lambda row: row["records"] == 40)
    objects = bucket.objects()
    for pushed in queues:
        assert_lake_right(objects, Place(pushed.queue, align="none"), pushed.records)
    assert {key.split("/queue=")[1].split("/")[0] for key in objects} == {
        "a%20b%2Fc", "q%22uote%5Cback", "%F0%9F%9A%B2%20e.ord%2Feu%20%C3%A9t%C3%A9%3A1%25", "..", "dt%3Dx%7E1"}


@on_both
def test_many_partitions_pushed_in_rounds_arrive_exactly_once(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("big,mid,small"), **FAST}).start()
    queues = {"big": (Pushed("big"), 110), "mid": (Pushed("mid"), 20), "small": (Pushed("small"), 5)}
    for _ in range(10):
        for pushed, partitions in queues.values():
            pushed.some(broker, 2 * partitions, partitions)
    objects = None
    for name, (pushed, partitions) in queues.items():
        row = broker.wait_sink(name, lambda row, want=20 * partitions: row["records"] == want)
        assert row["partitions"] == partitions
        pointer = kv(broker, f"s3:default:{name}:committed")
        assert (pointer["k"], pointer["tEnd"]) == (row["k"], row["tEnd"])
    objects = bucket.objects()
    for name, (pushed, _) in queues.items():
        assert_lake_right(objects, Place(name, align="none"), pushed.records)


def kv(broker, key: str):
    answer = broker.post("/api/v1/kv", {"operations": [{"op": "get", "ns": "queen-s3", "key": key}]}).json()
    return answer["results"][0].get("value")


@by_turn("compression", ["zstd", "gzip", "none"])
def test_every_payload_stays_as_it_was_pushed(make_broker, bucket, compression):
    broker = make_broker(**{**bucket.settings("e.ord/eu été:1%"), **FAST, "QUEEN_S3_COMPRESSION": compression}).start()
    pushed = Pushed("e.ord/eu été:1%")
    texts = ['{\n "a" :\r\n [1 ,\r2.50] }', "null", '"\\u0000\\n\u007f\u2028é\\ud800"', "1e2", "-0", '{"a":1,"a":2}', "[]",
             '{"big":"%s"}' % ("y" * 1_500_000), '{"after":true}']
    for at, text in enumerate(texts):
        pushed.push(broker, [("pàrt 1", f"t{at}", text), ("two", None, text if len(text) < 1000 else "0")])
    broker.wait_sink(pushed.queue, lambda row: row["records"] == 2 * len(texts))
    assert_lake_right(bucket.objects(), Place(pushed.queue, align="none"), pushed.records)


@on_both
def test_day_alignment_has_no_hour_directory(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("daily"), **FAST, "QUEEN_S3_ALIGN": "day"}).start()
    pushed = Pushed("daily")
    pushed.some(broker, 10)
    broker.wait_sink("daily", lambda row: row["records"] == 10)
    objects = bucket.objects()
    place = Place("daily", align="day")
    assert_lake_right(objects, place, pushed.records)
    assert json.loads(objects[place.manifest_key(1)])["tStart"] % 86_400_000_000 == 0


@on_both
def test_a_second_sink_under_another_prefix_ships_the_same_lines(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("twice", prefix="one/deep"), **FAST}).start()
    pushed = Pushed("twice")
    pushed.some(broker, 30)
    broker.wait_sink("twice", lambda row: row["records"] == 30)
    assert broker.terminate() == 0
    broker.start(QUEEN_S3_PREFIX="two", QUEEN_S3_SINK="second")
    broker.wait_sink("twice", lambda row: row["records"] == 30)
    objects = bucket.objects()
    first, second = Place("twice", "one/deep", "none"), Place("twice", "two", "none", sink="second")
    assert_lake_right(objects, first, pushed.records)
    assert_lake_right(objects, second, pushed.records)

    def hashes(place: Place) -> str:
        text = b"".join(inflated(body, "zstd") for key, body in sorted(objects.items()) if key.startswith(place.data))
        return hashlib.sha256(b"".join(sorted(text.splitlines()))).hexdigest()

    assert hashes(first) == hashes(second)
