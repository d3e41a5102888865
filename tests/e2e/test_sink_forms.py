"""The sink's other forms on a real broker: Parquet, one object per partition, and the figures it shows of itself."""

import json
import pathlib
import re

import duckdb
import pytest

from harness import TENANT
from lake import Place, Pushed, encoded, inflated, line_of, micros
from sink_settings import FAST

PAYLOADS = ['{"n":1.50}', "null", '{\n "a" : [1 ,\r2]}', '"caffè ☕"', "123456789012345678901234567890", '""']


def manifests_of(objects: dict[str, bytes], place: Place) -> list[dict]:
    keys = sorted(key for key in objects if key.startswith(place.side + "windows/"))
    assert keys == [place.manifest_key(k) for k in range(1, len(keys) + 1)]
    return [json.loads(objects[key]) for key in keys]


def push_all(broker, pushed: Pushed) -> None:
    for at, payload in enumerate(PAYLOADS):
        pushed.push(broker, [("a/b", f"t{at}", payload), ("pàrt", None, payload)])


def rows_of(body: bytes, directory) -> list[tuple]:
    path = directory / "object.parquet"
    path.write_bytes(body)
    return duckdb.sql(f"SELECT partition, \"offset\", transaction_id, epoch_us(ts), payload FROM read_parquet('{path}')").fetchall()


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
@pytest.mark.parametrize("layout", ["merged", "per-partition"])
def test_parquet_objects_hold_what_was_pushed(make_broker, bucket, tmp_path, codec, layout):
    broker = make_broker(**{**bucket.settings("orders/é"), **FAST, "QUEEN_S3_FORMAT": "parquet", "QUEEN_S3_PARQUET_CODEC": codec,
                            "QUEEN_S3_LAYOUT": layout}).start()
    pushed = Pushed("orders/é")
    push_all(broker, pushed)
    broker.wait_sink(pushed.queue, lambda row: row["records"] == 2 * len(PAYLOADS))
    objects, place = bucket.objects(), Place("orders/é", align="none")
    found, named = {}, set()
    for manifest in manifests_of(objects, place):
        assert (manifest["format"], manifest["compression"], manifest["layout"]) == ("parquet", codec, layout)
        for item in manifest["objects"]:
            assert item["key"].endswith(".parquet")
            named.add(item["key"])
            rows = rows_of(objects[item["key"]], tmp_path)
            assert rows == sorted(rows, key=lambda row: (row[0].encode(), row[1])) and len(rows) == item["records"]
            for partition, offset, transaction_id, ts, payload in rows:
                assert manifest["tStart"] <= ts < manifest["tEnd"] and (partition, offset) not in found
                found[(partition, offset)] = (transaction_id, payload)
    assert named == {key for key in objects if not key.startswith("queen/_queen/")}
    assert found == {at: (name, None if text == "null" else text) for at, (name, text) in pushed.records.items()}


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_one_object_for_each_partition_names_its_run(make_broker, bucket, compression):
    broker = make_broker(**{**bucket.settings("orders"), **FAST, "QUEEN_S3_LAYOUT": "per_partition",
                            "QUEEN_S3_COMPRESSION": compression}).start()
    pushed = Pushed("orders")
    push_all(broker, pushed)
    row = broker.wait_sink("orders", lambda row: row["records"] == 2 * len(PAYLOADS))
    assert row["windowsCommitted"] == row["k"]
    objects, place, seen = bucket.objects(), Place("orders", align="none"), set()
    for manifest in manifests_of(objects, place):
        assert manifest["partitions"] == len(manifest["objects"])
        for item in manifest["objects"]:
            merged = place.data_key(manifest["k"], manifest["tStart"], manifest["tEnd"], compression)
            extension = ".jsonl" + {"none": "", "gzip": ".gz"}[compression]
            assert item["key"] == merged.removesuffix(extension) + (
                f"-p-{encoded(item['partition'])}-{item['firstOffset']:012}-{item['lastOffset']:012}{extension}")
            lines = inflated(objects[item["key"]], compression).decode().splitlines()
            offsets = range(item["firstOffset"], item["lastOffset"] + 1)
            for offset, line in zip(offsets, lines, strict=True):
                transaction_id, payload = pushed.records[(item["partition"], offset)]
                assert line == line_of(item["partition"], offset, transaction_id, json.loads(line)["ts"], payload)
                assert manifest["tStart"] <= micros(json.loads(line)["ts"]) < manifest["tEnd"]
                seen.add((item["partition"], offset))
    assert seen == set(pushed.records)


def samples_of(text: str) -> dict[str, float]:
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}


def test_the_figures_of_the_sink_are_on_the_page_of_prometheus(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("orders"), **FAST}).start()
    pushed = Pushed("orders")
    pushed.some(broker, 20)
    row = broker.wait_sink("orders", lambda row: row["records"] == 20)
    text = broker.get("/metrics/prometheus").text
    for family in re.findall(r"# TYPE (queen_s3_\w+) ", text):
        assert text.count(f"# TYPE {family} ") == text.count(f"# HELP {family} ") == 1
    samples = samples_of(text)
    assert samples['queen_s3_windows_committed_total{queue="orders"}'] >= row["windowsCommitted"]
    assert samples['queen_s3_records_written_total{queue="orders"}'] == 20
    assert samples['queen_s3_bytes_written_total{queue="orders",format="jsonl"}'] >= row["bytes"] > 0
    assert samples['queen_s3_fetch_calls_total{queue="orders",result="ok"}'] > 0
    assert samples['queen_s3_s3_requests_total{op="put",code="200"}'] >= 2
    assert samples["queen_s3_window_records_sum"] == 20
    assert samples["queen_s3_commit_precondition_lost_total"] == 0
    assert 0 <= samples['queen_s3_lag_seconds{queue="orders"}'] < 60
    assert "queen_s3_safe_lag_seconds" in samples and "queen_s3_buffer_bytes" in samples


def test_a_node_without_a_sink_shows_none_of_its_families(broker):
    assert "queen_s3_" not in broker.get("/metrics/prometheus").text


def test_threads_of_the_sink_are_named_after_it(make_broker, bucket):  # J6
    broker = make_broker(**{**bucket.settings("orders"), **FAST, "QUEEN_S3_THREADS": "2"}).start()
    broker.wait_sink("orders", lambda row: row["state"] == "missing")
    tasks = pathlib.Path(f"/proc/{broker.process.pid}/task")
    names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
    of_sink = [name for name in names if "s3" in name]
    assert {"queen-s3", "queen-s3-b0", "queen-s3-b1", "queen-s3-http"} == set(of_sink)


def test_the_tenant_of_the_lake_is_the_default_one(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("*"), **FAST}).start()
    pushed = Pushed("late")  # made after the boot (G4, G8)
    pushed.some(broker, 3)
    broker.wait_sink("late", lambda row: row["records"] == 3, timeout=20)
    assert any(key.startswith(f"queen/tenant={TENANT}/queue=late/") for key in bucket.objects())
