"""Scenarios of the sink's acceptance list that need one node and stand nowhere else: scale with difficult names, six stops, encryption
at the store, a queue deleted under the sink, retention that overtakes it and the hold that keeps it from doing so."""

import json
import re
import time

import pytest

from harness import data_keys
from lake import Place, Pushed, assert_lake_right, inflated
from s3_servers import by_turn, on_both
from sink_settings import FAST

SCALE = {"plain": 1100, "with blank/slash": 200, "q\"uote\\back 🚲": 50}


def kv(broker, key: str):
    answer = broker.post("/api/v1/kv", {"operations": [{"op": "get", "ns": "queen-s3", "key": key}]}).json()
    return answer["results"][0].get("value")


def configure(broker, queue: str, **options) -> None:
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status_code in (200, 201), answer.text


def metric(broker, name: str, **labels: str) -> float | None:
    """The value of the one series of the name that has the labels."""
    found = []
    for line in broker.get("/metrics/prometheus").content.decode().splitlines():
        series = re.fullmatch(re.escape(name) + r"\{(.*)\} (\S+)", line)
        if series is None:
            continue
        has = {label: json.loads(value) for label, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', series[1])}
        if labels.items() <= has.items():
            found.append(float(series[2]))
    assert len(found) <= 1, found
    return found[0] if found else None


def until(condition, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def log_start(broker, queue: str, partition: str) -> int:
    entry = {"queue": queue, "partition": partition, "offset": 0, "maxBytes": 1}
    return broker.post("/api/v1/fetch", {"entries": [entry]}).json()["entries"][0]["logStartOffset"]


def test_three_queues_of_many_partitions_with_difficult_names_arrive_exactly_once(make_broker, bucket):
    """L1: 27,000 records in rounds while the sink runs, one item in five without an id."""
    broker = make_broker(**{**bucket.settings(",".join(SCALE)), **FAST, "QUEEN_S3_COMPRESSION": "gzip"}).start()
    queues = {name: Pushed(name) for name in SCALE}
    for number in range(20):
        for name, pushed in queues.items():
            items = [(f"p/{at} \"é\\🚲\t", None if at % 5 == 4 else f"{number}.{at}\"", '{"round":%d,"n":%d.50}' % (number, at))
                     for at in range(SCALE[name])]
            for first in range(0, len(items), 550):
                pushed.push(broker, items[first:first + 550])
    rows = {}
    for name, partitions in SCALE.items():
        rows[name] = broker.wait_sink(name, lambda row, want=20 * partitions: row["records"] == want and row["state"] == "filling", 120)
        assert rows[name]["partitions"] == partitions
    objects = bucket.objects()
    for name, pushed in queues.items():
        place = Place(name, align="none")
        assert_lake_right(objects, place, pushed.records)
        last = json.loads(objects[place.manifest_key(rows[name]["k"])])
        pointer = kv(broker, f"s3:default:{place.data.split('/queue=')[1].strip('/')}:committed")
        assert (pointer["k"], pointer["tEnd"], pointer["records"], pointer["bytes"]) == (
            rows[name]["k"], rows[name]["tEnd"], last["records"], last["bytes"])
        assert rows[name]["windowsCommitted"] == rows[name]["k"] and rows[name]["recordsLost"] == 0
        counted = {family: metric(broker, f"queen_s3_{family}", queue=name) for family in (
            "windows_committed_total", "records_written_total", "bytes_written_total", "records_lost_total", "discovery_partitions")}
        assert counted == {"windows_committed_total": rows[name]["k"], "records_written_total": 20 * SCALE[name],
                           "bytes_written_total": rows[name]["bytes"], "records_lost_total": 0, "discovery_partitions": SCALE[name]}


def test_six_stops_in_a_row_give_every_lease_back(make_broker, bucket):
    """L12: the lease would live for an hour, and each next life has another name, so only a lease that was given back lets it work."""
    settings = {**bucket.settings("stops"), **FAST, "QUEEN_S3_LEASE_TTL_MS": "3600000"}
    broker = make_broker(**settings)
    pushed = Pushed("stops")
    for number in range(6):
        broker.start(QUEEN_S3_INSTANCE=f"life-{number}")
        pushed.some(broker, 10)
        row = broker.wait_sink("stops", lambda row: row["ownedHere"] and row["state"] == "filling", 20)
        assert row["heldBy"] is None
        assert broker.terminate() == 0
    # Lease refreshes move the log's clock for windows that close by age; these leases are hardly refreshed.
    broker.start(QUEEN_S3_INSTANCE="last", QUEEN_S3_LEASE_TTL_MS="3000")
    place = Place("stops", align="none")
    until(lambda: sum(json.loads(bucket.get(key))["records"] for key in bucket.keys(place.side) if "/windows/" in key) == 60)
    broker.wait_sink("stops", lambda row: row["state"] == "filling" and row["bufferedBytes"] == 0)
    assert_lake_right(bucket.objects(), place, pushed.records)


@pytest.mark.parametrize("settings,expected", [
    ({"QUEEN_S3_SSE": "AES256"}, {"ServerSideEncryption": "AES256"}),
    ({"QUEEN_S3_SSE": "kms", "QUEEN_S3_SSE_KMS_KEY_ID": "alias/lake"}, {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/lake"}),
], ids=["aes256", "kms"])
def test_every_object_is_encrypted_as_asked(make_broker, bucket, settings, expected):
    """L13: single uploads, one in parts, manifests and checkpoints."""
    broker = make_broker(**{**bucket.settings("sealed"), **FAST, "QUEEN_S3_CHECKPOINT_EVERY": "1", "QUEEN_S3_COMPRESSION": "none",
                            "QUEEN_S3_MULTIPART_THRESHOLD_MB": "5", **settings}).start()
    pushed = Pushed("sealed")
    pushed.some(broker, 6)
    broker.wait_sink("sealed", lambda row: row["records"] == 6 and row["state"] == "filling")
    pushed.some(broker, 6, 3, 1_000_000)
    broker.wait_sink("sealed", lambda row: row["records"] == 12 and row["state"] == "filling")
    assert_lake_right(bucket.objects(), Place("sealed", align="none"), pushed.records)
    heads = {key: bucket.client.head_object(Bucket=bucket.name, Key=key) for key in bucket.keys()}
    assert len(heads) == 6 and any(head["ETag"].strip('"').endswith("-1") for head in heads.values()), "one went up in parts"
    for key, head in heads.items():
        assert {name: head.get(name) for name in expected} == expected, key


@on_both
def test_a_queue_deleted_while_the_sink_runs_is_missing_and_goes_on_when_it_is_made_again(make_broker, bucket):
    """L13."""
    broker = make_broker(**{**bucket.settings("gone"), **FAST}).start()
    first, second = Pushed("gone"), Pushed("gone")
    first.push(broker, [("p", f"a{n}", "1") for n in range(5)])
    broker.wait_sink("gone", lambda row: row["records"] == 5 and row["state"] == "filling")
    before = bucket.objects()
    assert broker.session.delete(broker.url("/api/v1/resources/queues/gone")).status_code in (200, 204)
    broker.wait_sink("gone", lambda row: row["state"] == "missing" and not row["ownedHere"])
    second.push(broker, [("p", f"b{n}", "2") for n in range(3)])
    broker.wait_sink("gone", lambda row: row["k"] == 2 and row["state"] == "filling")
    after = bucket.objects()
    assert {key: after[key] for key in before} == before
    place = Place("gone", align="none")
    manifests = [json.loads(after[place.manifest_key(k)]) for k in (1, 2)]
    assert [(m["records"], m["lost"]) for m in manifests] == [(5, []), (3, [])]
    texts = [inflated(after[manifest["objects"][0]["key"]], "zstd").decode() for manifest in manifests]
    ids = [[(record["offset"], record["transactionId"]) for record in map(json.loads, text.splitlines())] for text in texts]
    assert ids == [[(n, f"a{n}") for n in range(5)], [(n, f"b{n}") for n in range(3)]], "each life of the partition from offset 0"
    assert len(data_keys(after)) == 2


@by_turn("partitions", [1, 4])
def test_retention_that_overtakes_the_sink_is_written_down_and_the_sink_goes_on(make_broker, bucket, partitions):
    """L13: what was deleted unread stands as lost in the manifest, the status and nowhere else."""
    broker = make_broker(**{**bucket.settings("late"), **FAST, "QUEEN_S3_CHECKPOINT_EVERY": "1", "RETENTION_INTERVAL": "50"}).start()
    shipped, place = Pushed("late"), Place("late", align="none")
    shipped.some(broker, 3 * partitions, partitions)
    broker.wait_sink("late", lambda row: row["records"] == 3 * partitions and row["state"] == "filling")
    until(lambda: place.checkpoint_key(1) in bucket.keys())
    assert broker.terminate() == 0
    broker.start(QUEEN_S3_EMBEDDED="false")
    unread = Pushed("late")
    unread.some(broker, 2 * partitions, partitions)
    configure(broker, "late", retentionEnabled=True, retentionSeconds=1)
    until(lambda: all(log_start(broker, "late", f"p {at}") == 5 for at in range(partitions)))
    configure(broker, "late", retentionEnabled=False)
    assert broker.terminate() == 0
    broker.start()
    shipped.some(broker, partitions, partitions)
    row = broker.wait_sink("late", lambda row: row["k"] == 2 and row["state"] == "filling")
    assert row["recordsLost"] == 2 * partitions
    objects = bucket.objects()
    lost = json.loads(objects[place.manifest_key(2)])["lost"]
    assert sorted((each["partition"], each["from"], each["to"]) for each in lost) == [(f"p {at}", 3, 4) for at in range(partitions)]
    assert_lake_right(objects, place, shipped.records)


def test_the_hold_keeps_what_the_sink_has_not_committed(make_broker, bucket):
    """L13: of two queues that expire alike, the held one waits for the sink and loses nothing."""
    broker = make_broker(**{**bucket.settings("held,free"), **FAST, "RETENTION_INTERVAL": "50"}).start(QUEEN_S3_EMBEDDED="false")
    held, free = Pushed("held"), Pushed("free")
    configure(broker, "held", retentionEnabled=True, retentionSeconds=1, retentionSinkHold="default")
    configure(broker, "free", retentionEnabled=True, retentionSeconds=1)
    held.some(broker, 10, 1)
    free.some(broker, 10, 1)
    until(lambda: log_start(broker, "free", "p 0") == 10)
    assert log_start(broker, "held", "p 0") == 0
    assert broker.terminate() == 0
    broker.start()
    row = broker.wait_sink("held", lambda row: row["records"] == 10 and row["state"] == "filling")
    assert row["recordsLost"] == 0
    assert_lake_right(bucket.objects(), Place("held", align="none"), held.records)


@by_turn("layout,codec", [("merged", "zstd"), ("per-partition", "snappy")])
def test_parquet_holds_every_record_once(make_broker, bucket, layout, codec):
    """L13, with payloads that JSONL would have to change."""
    broker = make_broker(**{**bucket.settings("tables"), **FAST, "QUEEN_S3_FORMAT": "parquet", "QUEEN_S3_PARQUET_CODEC": codec,
                            "QUEEN_S3_LAYOUT": layout}).start()
    pushed = Pushed("tables")
    texts = ["null", '{\n "a":\r\n 42.00}', '"\\u0000é🚲"', "123456789012345678901234567890", '{"big":"%s"}' % ("x" * 1_500_000)]
    for window in range(1, 3):
        pushed.push(broker, [(f"p/{n % 2} é", f"{window}.{n}", text) for n, text in enumerate(texts)])
        broker.wait_sink("tables", lambda row: row["records"] == 5 * window and row["state"] == "filling")
    objects = bucket.objects()
    place = Place("tables", align="none")
    assert_lake_right(objects, place, pushed.records)
    manifest = json.loads(objects[place.manifest_key(1)])
    assert (manifest["format"], manifest["compression"], manifest["layout"], len(manifest["objects"])) == (
        "parquet", codec, layout, 1 if layout == "merged" else 2)
    assert metric(broker, "queen_s3_bytes_written_total", queue="tables", format="parquet") == sum(
        len(objects[key]) for key in data_keys(objects))


@by_turn("compression", ["zstd", "gzip"])
def test_per_partition_writes_an_object_for_each_partition_and_one_manifest(make_broker, bucket, compression):
    """L13."""
    broker = make_broker(**{**bucket.settings("split"), **FAST, "QUEEN_S3_LAYOUT": "per-partition",
                            "QUEEN_S3_COMPRESSION": compression}).start()
    pushed = Pushed("split")
    for window in range(1, 3):
        pushed.some(broker, 12, 4)
        broker.wait_sink("split", lambda row: row["records"] == 12 * window and row["state"] == "filling")
    objects = bucket.objects()
    assert_lake_right(objects, Place("split", align="none"), pushed.records)
    assert len(data_keys(objects)) == 8
