"""queenctl lake verify, ls and cat against a real bucket and a running broker: a right lake is right, and each of the damages that
test_lake_checker.py knows is found for its own reason."""

import hashlib
import json
import os
import pathlib
import subprocess

import pytest
import zstandard

from harness import BINARY, TENANT, Broker, Bucket, free_port
from lake import Place, Pushed, inflated, iso, line_of, micros
from s3_servers import by_turn, on_both
from sink_settings import FAST

QUEENCTL = pathlib.Path(os.environ.get("QUEENCTL_BINARY", BINARY.parent / "queenctl"))
QUEUE = "rides, é/1"
PLACE = Place(QUEUE, align="none")
PAYLOADS = ['{"n":42.00}', "null", '{\n "k":\r\n 1}', '"x\\u0000 \\"payload\\":"', "[ ]", "1e2"]


def environment(bucket: Bucket, **change: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    return {**plain, **bucket.settings("*"), "QUEEN_S3_ALIGN": "none", **change}


def ctl(bucket: Bucket, *arguments: object, **change: str) -> subprocess.CompletedProcess:
    command = [str(QUEENCTL), "lake", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(bucket, **change))


def verify(bucket: Bucket, *arguments: object, **change: str) -> dict:
    answer = ctl(bucket, "verify", QUEUE, "--json", *arguments, **change)
    assert answer.returncode in (0, 1), answer.stderr
    report = json.loads(answer.stdout)
    assert report["right"] == (answer.returncode == 0) == (report["findings"] == []), answer.stdout
    return report


def reasons(report: dict) -> set[str]:
    return {finding["reason"] for finding in report["findings"]}


def ship(broker, windows: int = 3) -> Pushed:
    pushed = Pushed(QUEUE)
    for window in range(1, windows + 1):
        items = [(f"p {n % 2}", f"{window}.{n} é", text) for n, text in enumerate(PAYLOADS)]
        pushed.push(broker, items)
        pushed.push(broker, [("p 1", None, '{"last":true}')])
        broker.wait_sink(QUEUE, lambda row: row["records"] == 7 * window and row["state"] == "filling")
    return pushed


# ---- a lake whose windows can be changed and written again ----

Row = tuple[str, int, str, str, str]  # partition, offset, transactionId, ts, payload


class Copy:
    """The objects of a queue taken apart, and put together again with manifests that fit."""

    def __init__(self, objects: dict[str, bytes]):
        self.objects = {key: body for key, body in objects.items() if key.startswith((PLACE.data, PLACE.side))}
        self.manifests = {json.loads(body)["k"]: json.loads(body) for key, body in objects.items()
                          if key.startswith(PLACE.side + "windows/")}
        self.rows = {k: self.rows_of(manifest) for k, manifest in self.manifests.items()}

    def rows_of(self, manifest: dict) -> list[Row]:
        text = inflated(self.objects[manifest["objects"][0]["key"]], manifest["compression"]).decode()
        out = []
        for line in text.split("\n")[:-1]:
            record = json.loads(line)
            out.append((record["partition"], record["offset"], record["transactionId"], record["ts"], line.split(',"payload":', 1)[1][:-1]))
        return out

    def write(self, k: int) -> None:
        manifest, rows = self.manifests[k], self.rows[k]
        self.objects.pop(manifest["objects"][0]["key"])
        body = zstandard.compress("".join(line_of(p, o, t, ts, payload) + "\n" for p, o, t, ts, payload in rows).encode())
        key = PLACE.data_key(k, manifest["tStart"], manifest["tEnd"], "zstd")
        item = {"key": key, "bytes": len(body), "records": len(rows), "sha256": hashlib.sha256(body).hexdigest()}
        stamps = [micros(row[3]) for row in rows]
        manifest |= {"objects": [item], "records": len(rows), "bytes": len(body), "partitions": len({row[0] for row in rows}),
                     "minTs": min(stamps), "maxTs": max(stamps)}
        self.objects[key] = body
        self.objects[PLACE.manifest_key(k)] = json.dumps(manifest).encode()

    def change(self, k: int, at: int, **fields) -> None:
        row = dict(zip(("partition", "offset", "transaction_id", "ts", "payload"), self.rows[k][at]))
        self.rows[k][at] = tuple({**row, **fields}.values())
        self.write(k)


def other_payload(copy: Copy) -> None:
    copy.change(1, 0, payload='{"n":42.0}')


def other_transaction_id(copy: Copy) -> None:
    copy.change(1, 0, transaction_id="other")


def doubled(copy: Copy) -> None:
    copy.rows[2].insert(1, copy.rows[2][0])
    copy.write(2)


def without_a_record(copy: Copy) -> None:
    del copy.rows[2][1]
    copy.write(2)


def out_of_order(copy: Copy) -> None:
    copy.rows[2].reverse()
    copy.write(2)


def outside_its_window(copy: Copy) -> None:
    copy.change(3, len(copy.rows[3]) - 1, ts=iso(copy.manifests[3]["tEnd"]))


def overlapping(copy: Copy) -> None:
    copy.manifests[2]["tStart"] -= 1
    copy.write(2)


def an_orphan(copy: Copy) -> None:
    copy.objects[PLACE.data + "dt=2026-11-07/hour=09/w-0000000002-1-2.jsonl.zst"] = b""


def other_bytes(copy: Copy) -> None:
    key = copy.manifests[2]["objects"][0]["key"]
    text = inflated(copy.objects[key], "zstd")
    copy.objects[key] = zstandard.ZstdCompressor(write_checksum=True).compress(text)


def flipped(copy: Copy) -> None:
    key = copy.manifests[2]["objects"][0]["key"]
    copy.objects[key] = copy.objects[key][:-1] + bytes([copy.objects[key][-1] ^ 1])


def without_an_object(copy: Copy) -> None:
    del copy.objects[copy.manifests[3]["objects"][0]["key"]]


def without_a_manifest(copy: Copy) -> None:
    del copy.objects[PLACE.manifest_key(1)], copy.objects[copy.manifests[1]["objects"][0]["key"]]


def a_record_of_nobody(copy: Copy) -> None:
    name, offset, _, ts, _ = copy.rows[3][-1]
    copy.rows[3].append((name, offset + 1, "nobody", ts, "1"))
    copy.write(3)


DAMAGES = [
    ("payload", other_payload, False), ("transactionId", other_transaction_id, False), ("duplicate", doubled, True),
    ("missing", without_a_record, True), ("order", out_of_order, True), ("ts", outside_its_window, True), ("tiling", overlapping, True),
    ("orphan", an_orphan, True), ("bytes", other_bytes, True)]


@pytest.fixture(scope="module")
def shipped(bucket_servers, tmp_path_factory):
    """A broker that runs, what was pushed, and the objects of its lake."""
    bucket = bucket_servers("versitygw")
    for key in bucket.keys():
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    broker = Broker(tmp_path_factory.mktemp("shipped") / "data", **{**bucket.settings("*"), **FAST}).start()
    try:
        pushed = ship(broker)
        bucket.client.create_bucket(Bucket="copy")
        yield broker, pushed, bucket, bucket.objects()
    finally:
        broker.close()


@pytest.fixture
def damaged(shipped):
    """Puts the objects into a bucket of their own, changed; gives the arguments that look there and at the broker."""
    broker, _, bucket, objects = shipped
    client = bucket.client

    def make(damage) -> list[str]:
        copy = Copy(objects)
        damage(copy)
        for key, body in copy.objects.items():
            client.put_object(Bucket="copy", Key=key, Body=body)
        return ["--bucket", "copy", "--url", broker.url("")]

    yield make
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="copy"):
        for item in page.get("Contents", []):
            client.delete_object(Bucket="copy", Key=item["Key"])


# ---- verify ----

@on_both
@pytest.mark.parametrize("align", ["none", "hour"])
def test_nothing_is_found_in_what_the_sink_wrote(make_broker, bucket, align):
    broker = make_broker(**{**bucket.settings("*"), **FAST, "QUEEN_S3_ALIGN": align}).start()
    pushed = ship(broker)
    report = verify(bucket, "--url", broker.url("/"), QUEEN_S3_ALIGN=align)
    assert report["findings"] == []
    assert (report["windows"], report["records"], report["recordsLost"]) == (3, len(pushed.records), 0)
    assert report["broker"] == {"committedWindows": 3, "recordsCompared": len(pushed.records)}
    alone = verify(bucket, QUEEN_S3_ALIGN="")
    assert alone["broker"] is None and {**alone, "broker": 0} == {**report, "broker": 0}
    answer = ctl(bucket, "verify", QUEUE, "--url", broker.url(""), QUEEN_S3_ALIGN=align)
    assert (answer.returncode, answer.stdout.splitlines()[-1], answer.stderr) == (0, "right", "")


@by_turn("format,layout", [("parquet", "merged"), ("parquet", "per-partition"), ("jsonl", "per-partition")])
def test_other_formats_and_layouts_are_verified_and_printed_alike(make_broker, bucket, format, layout):
    broker = make_broker(**{**bucket.settings("*"), **FAST, "QUEEN_S3_FORMAT": format, "QUEEN_S3_LAYOUT": layout}).start()
    pushed = ship(broker)
    report = verify(bucket, "--url", broker.url(""))
    assert report["findings"] == [] and report["broker"]["recordsCompared"] == len(pushed.records)
    assert report["objects"] == (3 if layout == "merged" else 6)
    lines = ctl(bucket, "cat", QUEUE).stdout.split("\n")[:-1]
    expected = sorted(line_of(*place, record[0], ts_of(broker, *place), record[1]) for place, record in pushed.records.items())
    assert sorted(lines) == expected
    only = ctl(bucket, "cat", QUEUE, "--partition", "p 1").stdout.split("\n")[:-1]
    assert only == [line for line in lines if json.loads(line)["partition"] == "p 1"] and only


def ts_of(broker, partition: str, offset: int) -> str:
    entry = {"queue": QUEUE, "partition": partition, "offset": offset, "maxBytes": 1}
    return broker.post("/api/v1/fetch", {"entries": [entry]}).json()["entries"][0]["records"][0]["ts"]


def test_a_lake_taken_apart_and_put_together_is_right(shipped, damaged):
    """Otherwise the damages below prove nothing."""
    arguments = damaged(lambda copy: [copy.write(k) for k in copy.rows])
    report = verify(shipped[2], *arguments)
    # The pointer counts compressed bytes, and another compressor makes others.
    assert reasons(report) <= {"pointer"}, report


@pytest.mark.parametrize("reason,damage,_alone", DAMAGES, ids=[row[0] for row in DAMAGES])
def test_each_damage_is_found_for_its_own_reason(shipped, damaged, reason, damage, _alone):
    arguments = damaged(damage)
    bucket = shipped[2]
    report = verify(bucket, *arguments)
    assert reasons(report) - {"pointer"} == {reason}, report
    answer = ctl(bucket, "verify", QUEUE, *arguments)
    lines = answer.stdout.splitlines()
    assert answer.returncode == 1 and lines[-1] == "WRONG" and lines[0].split()[0] in (reason, "pointer")


@pytest.mark.parametrize("reason,damage", [row[:2] for row in DAMAGES if row[2]], ids=[row[0] for row in DAMAGES if row[2]])
def test_what_the_lake_alone_shows_needs_no_broker(shipped, damaged, reason, damage):
    arguments = damaged(damage)[:2]
    assert reasons(verify(shipped[2], *arguments)) == {reason}


@pytest.mark.parametrize("reason,damage", [("object", without_an_object), ("numbering", without_a_manifest), ("foreign", a_record_of_nobody)])
def test_what_is_gone_and_what_nobody_pushed_is_found(shipped, damaged, reason, damage):
    assert reason in reasons(verify(shipped[2], *damaged(damage)))


def test_findings_name_window_partition_and_offset(shipped, damaged):
    _, pushed, bucket, objects = shipped
    finding, = verify(bucket, *damaged(without_a_record)[:2])["findings"]
    name, offset = Copy(objects).rows[2][1][:2]
    assert (finding["k"], finding["partition"], finding["offset"]) == (2, name, offset)
    assert finding["what"] == f"offsets {offset} to {offset} are in no window"


def test_records_that_were_pushed_and_are_not_committed_yet_are_no_finding(make_broker, bucket):
    settings = {**bucket.settings("*"), **FAST}
    broker = make_broker(**settings).start()
    shipped = ship(broker, 1)
    assert broker.terminate() == 0
    broker.start(QUEEN_S3_EMBEDDED="false")
    shipped.push(broker, [("p 0", "later", "1"), ("new", "later too", "2")])
    report = verify(bucket, "--url", broker.url(""))
    assert report["findings"] == [] and report["broker"]["recordsCompared"] == 7


def test_a_queue_made_again_is_no_finding(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("*"), **FAST}).start()
    ship(broker, 1)
    assert broker.session.delete(broker.url("/api/v1/resources/queues/rides%2C%20%C3%A9%2F1")).status_code in (200, 204)
    pushed = Pushed(QUEUE)
    pushed.push(broker, [("p 0", "anew", "1"), ("p 0", "anew 2", "2")])
    broker.wait_sink(QUEUE, lambda row: row["k"] == 2 and row["state"] == "filling")
    report = verify(bucket, "--url", broker.url(""))
    assert report["findings"] == [] and (report["windows"], report["broker"]["recordsCompared"]) == (2, 2)


@pytest.mark.parametrize("change,part", [
    ({"QUEEN_S3_SECRET_KEY": "wrong"}, "SignatureDoesNotMatch"), ({"QUEEN_S3_SECRET_KEY": ""}, "QUEEN_S3_SECRET_KEY is not set"),
    ({"QUEEN_S3_BUCKET": "no-such-lake"}, "NoSuchBucket"), ({"QUEEN_S3_ENDPOINT": "localhost"}, "QUEEN_S3_ENDPOINT=localhost has no scheme"),
    ({"QUEEN_S3_PREFIX": "elsewhere"}, "there is no window"), ({"QUEEN_S3_ALIGN": "week"}, "QUEEN_S3_ALIGN=week is not an alignment")])
def test_what_keeps_it_from_looking_is_said_with_status_2(shipped, change, part):
    for command in ("verify", "ls", "cat"):
        answer = ctl(shipped[2], command, QUEUE, **change)
        assert (answer.returncode, answer.stdout) == (2, ""), command
        assert part in answer.stderr and answer.stderr.startswith("queenctl: ") and answer.stderr.count("\n") == 1, answer.stderr


def test_a_broker_that_cannot_be_asked_ends_with_status_2(shipped):
    broker, _, bucket, _ = shipped
    for url, part in ((f"http://127.0.0.1:{free_port()}", "connect"), ("localhost:6632", "http(s)://host[:port]"),
                      (bucket.about["endpoint"], "answers /api/v1/kv with")):
        answer = ctl(bucket, "verify", QUEUE, "--url", url)
        assert answer.returncode == 2 and part in answer.stderr, answer.stderr
    answer = ctl(bucket, "verify", "no such queue", "--url", broker.url(""))
    assert answer.returncode == 2 and "UNKNOWN_TOPIC_OR_PARTITION" in answer.stderr


@pytest.mark.parametrize("arguments", [["lake"], ["lake", "look", "q"], ["lake", "verify"], ["lake", "ls", "q", "--secret-key", "x"]])
def test_wrong_usage_ends_with_2(arguments):
    assert subprocess.run([str(QUEENCTL), *arguments], capture_output=True).returncode == 2


def test_the_help_names_options_variables_and_statuses():
    for command in ("verify", "ls", "cat"):
        answer = subprocess.run([str(QUEENCTL), "lake", command, "--help"], capture_output=True, text=True)
        assert answer.returncode == 0
        for part in ("QUEUE", "--endpoint", "QUEEN_S3_BUCKET", "QUEEN_S3_SECRET_KEY", "Exit status", "--tenant"):
            assert part in answer.stdout, part


# ---- ls and cat ----

def test_windows_are_listed_with_bounds_objects_records_and_bytes(shipped):
    _, _, bucket, objects = shipped
    listed = [json.loads(line) for line in ctl(bucket, "ls", QUEUE, "--json").stdout.splitlines()]
    manifests = Copy(objects).manifests
    assert [(row["k"], micros(row["tStart"]), micros(row["tEnd"]), row["records"], row["bytes"], len(row["objects"])) for row in listed] == [
        (k, m["tStart"], m["tEnd"], m["records"], m["bytes"], 1) for k, m in sorted(manifests.items())]
    middle = ctl(bucket, "ls", QUEUE, "--from", listed[1]["tStart"], "--to", listed[1]["tEnd"]).stdout.splitlines()
    assert len(middle) == 1 and middle[0].split()[:3] == ["2", listed[1]["tStart"], listed[1]["tEnd"]]


def test_records_are_printed_as_the_lines_of_the_lake(shipped):
    _, _, bucket, objects = shipped
    copy = Copy(objects)
    lines = [line_of(p, o, t, ts, payload) for k in sorted(copy.rows) for p, o, t, ts, payload in copy.rows[k]]
    assert ctl(bucket, "cat", QUEUE).stdout.split("\n") == [*lines, ""]
    first, last = copy.rows[2][0][3], copy.rows[3][0][3]
    inside = [line for line in lines if first <= json.loads(line)["ts"] < last and json.loads(line)["partition"] == "p 1"]
    assert inside
    answer = ctl(bucket, "cat", QUEUE, "--from", first, "--to", last, "--partition", "p 1")
    assert answer.stdout.split("\n") == [*inside, ""]


def test_damage_ends_cat_with_status_1_before_anything_of_the_object_is_printed(shipped, damaged):
    bucket = shipped[2]
    answer = ctl(bucket, "cat", QUEUE, *damaged(flipped)[:2])
    assert answer.returncode == 1 and len(answer.stdout.splitlines()) == 7
    assert "/w-0000000002-" in answer.stderr and "sha256" in answer.stderr


@pytest.mark.parametrize("arguments,part", [(["--from", "yesterday"], "--from yesterday is no time"),
                                            (["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"], "--from is not before --to")])
def test_a_time_that_is_none_is_said(shipped, arguments, part):
    answer = ctl(shipped[2], "cat", QUEUE, *arguments)
    assert answer.returncode == 2 and part in answer.stderr


def test_another_tenant_has_another_lake(shipped):
    answer = ctl(shipped[2], "ls", QUEUE, "--tenant", TENANT.replace("1", "2"))
    assert answer.returncode == 2 and "there is no window" in answer.stderr
