"""Whether a bucket is the right copy of what was pushed, and the record of what was pushed.

The checker knows keys and lines from docs/formats/, not from the code that writes them. Complaints begin with their reason."""

import datetime
import gzip
import hashlib
import json
import re
import tempfile
import uuid
from urllib.parse import quote

import duckdb
import zstandard

from harness import TENANT

EXTENSIONS = {"zstd": "jsonl.zst", "gzip": "jsonl.gz", "none": "jsonl"}
UNITS_US = {"hour": 3_600_000_000, "day": 86_400_000_000}
TS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def encoded(name: str) -> str:
    """A name as it stands in keys: everything but A-Z a-z 0-9 . _ - is %XX."""
    return quote(name, safe="").replace("~", "%7E")


def micros(ts: str) -> int:
    moment = datetime.datetime.strptime(ts, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def iso(us: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def inflated(data: bytes, compression: str) -> bytes:
    if compression == "gzip":
        return gzip.decompress(data)
    if compression == "none":
        return data
    reader = zstandard.ZstdDecompressor().decompressobj()
    text = reader.decompress(data)
    assert reader.eof and not reader.unused_data, "not one whole zstd frame"
    assert zstandard.frame_content_size(data) == len(text), "the frame does not name its content size"
    return text


def line_of(partition: str, offset: int, transaction_id: str, ts: str, payload: str) -> str:
    text = [json.dumps(value, ensure_ascii=False) for value in (partition, transaction_id, ts)]
    payload = payload.replace("\n", " ").replace("\r", " ")
    return '{"partition":%s,"offset":%d,"transactionId":%s,"ts":%s,"payload":%s}' % (text[0], offset, text[1], text[2], payload)


def lines_of_parquet(data: bytes) -> str:
    """The rows of a Parquet object as the lines that JSONL would have."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(data)
        file.flush()
        rows = duckdb.connect().execute(
            """SELECT partition, "offset", transaction_id, epoch_us(ts), payload FROM read_parquet(?, file_row_number = true)
               ORDER BY file_row_number""", [file.name]).fetchall()
    return "".join(line_of(p, o, t, iso(ts), "null" if payload is None else payload) + "\n" for p, o, t, ts, payload in rows)


def text_of(data: bytes, manifest: dict) -> str:
    if manifest["format"] == "parquet":
        return lines_of_parquet(data)
    return inflated(data, manifest["compression"]).decode()


class Place:
    """Where one queue's copy lies in the bucket."""

    def __init__(self, queue: str, prefix: str = "queen", align: str = "hour", tenant: str = TENANT, sink: str = "default"):
        self.queue, self.align, self.tenant, self.sink = queue, align, tenant, sink
        self.data = f"{prefix}/tenant={encoded(tenant)}/queue={encoded(queue)}/"
        self.side = f"{prefix}/_queen/tenant={encoded(tenant)}/queue={encoded(queue)}/"

    def manifest_key(self, k: int) -> str:
        return f"{self.side}windows/{k:010}.json"

    def checkpoint_key(self, k: int) -> str:
        return f"{self.side}checkpoint/{k:010}.json.zst"

    def data_key(self, k: int, start: int, end: int, compression: str, run: dict | None = None, format: str = "jsonl") -> str:
        """`run` is the manifest's item under layout per-partition."""
        day, hour = iso(start)[:10], iso(start)[11:13]
        unit = f"dt={day}/" if self.align == "day" else f"dt={day}/hour={hour}/"
        part = f"-p-{encoded(run['partition'])}-{run['firstOffset']:012}-{run['lastOffset']:012}" if run else ""
        extension = "parquet" if format == "parquet" else EXTENSIONS[compression]
        return f"{self.data}{unit}w-{k:010}-{start:016}-{end:016}{part}.{extension}"


class Pushed:
    """Pushes raw payload texts into one queue and keeps what was acknowledged."""

    def __init__(self, queue: str):
        self.queue = queue
        self.records: dict[tuple[str, int], tuple[str, str]] = {}  # (partition, offset) -> (transactionId, payload text)

    def push(self, broker, items: list[tuple[str, str | None, str]]) -> None:
        texts = []
        for partition, transaction_id, payload in items:
            head = {"queue": self.queue, "partition": partition}
            if transaction_id is not None:
                head["transactionId"] = transaction_id
            texts.append(json.dumps(head)[:-1] + ', "payload":' + payload + "}")
        answer = broker.post("/api/v1/push", '{"items":[%s]}' % ",".join(texts))
        assert answer.status_code == 201, answer.text
        assert len(answer.json()) == len(items)
        for result in answer.json():
            partition, transaction_id, payload = items[result["index"]]
            assert result["status"] in ("queued", "duplicate"), result
            assert transaction_id in (None, result["transaction_id"]), result
            self.records[(partition, result["offset"])] = (result["transaction_id"], payload)

    def some(self, broker, count: int, partitions: int = 3, size: int = 10) -> None:
        """`count` records over some partitions, one item in five without an id of its own."""
        items = []
        for at in range(count):
            name = None if at % 5 == 4 else uuid.uuid4().hex
            items.append((f"p {at % partitions}", name, '{"n":%d.50,"text":"%s"}' % (at, "x" * size)))
        self.push(broker, items)


class LakeChecker:
    """`expected`: (partition, offset) -> (transactionId, payload text) of every record that must be there, and no other may.
    `first`: offset that a partition begins at when it is not 0 (a copy that started later)."""

    def __init__(self, objects: dict[str, bytes], place: Place, expected: dict, first: dict[str, int] | None = None):
        self.objects, self.place, self.expected, self.first = objects, place, expected, first or {}
        self.complaints: list[str] = []
        self.seen: dict[tuple[str, int], int] = {}  # -> ts
        self.named: set[str] = set()
        self.lost: set[tuple[str, int]] = set()

    def say(self, reason: str, detail) -> None:
        self.complaints.append(f"{reason}: {detail}")

    def check(self) -> list[str]:
        ends = None
        manifests = sorted(key for key in self.objects if key.startswith(self.place.side + "windows/"))
        for k, key in enumerate(manifests, 1):
            if key != self.place.manifest_key(k):
                self.say("numbering", f"{key} is not window {k}")
            manifest = json.loads(self.objects[key])
            self.check_names(manifest, k)
            self.check_tiling(manifest, ends)
            ends = manifest["tEnd"]
            self.check_objects(manifest)
        self.check_orphans()
        self.check_records()
        return self.complaints

    def check_names(self, manifest: dict, k: int) -> None:
        names = (manifest["k"], manifest["sink"], manifest["tenant"], manifest["queue"])
        if names != (k, self.place.sink, self.place.tenant, self.place.queue):
            self.say("names", names)
        for lost in manifest["lost"]:
            self.lost |= {(lost["partition"], offset) for offset in range(lost["from"], lost["to"] + 1)}

    def check_tiling(self, manifest: dict, previous_end: int | None) -> None:
        start, end = manifest["tStart"], manifest["tEnd"]
        unit = UNITS_US.get(self.place.align)
        if start >= end:
            self.say("tiling", f"window {manifest['k']} is empty")
        if unit and end > (start // unit + 1) * unit:
            self.say("tiling", f"window {manifest['k']} crosses a boundary")
        stepped_over = unit is not None and previous_end is not None and start > previous_end and start % unit == 0
        if previous_end is not None and start != previous_end and not stepped_over:
            self.say("tiling", f"window {manifest['k']} starts at {start}, the one before ended at {previous_end}")

    def check_keys(self, manifest: dict) -> None:
        bounds = (manifest["k"], manifest["tStart"], manifest["tEnd"], manifest["compression"])
        items = manifest["objects"]
        runs = items if manifest["layout"] == "per-partition" else [None]
        keys = [self.place.data_key(*bounds, run, manifest["format"]) for run in runs]
        if [item["key"] for item in items] != keys:
            self.say("key", f"{[item['key'] for item in items]}, not {keys}")

    def check_objects(self, manifest: dict) -> None:
        self.check_keys(manifest)
        stamps: list[int] = []
        places: list[tuple[bytes, int]] = []
        for item in manifest["objects"]:
            self.named.add(item["key"])
            body = self.objects.get(item["key"])
            if body is None:
                self.say("object", f"{item['key']} is not there")
                continue
            if (len(body), hashlib.sha256(body).hexdigest()) != (item["bytes"], item["sha256"]):
                self.say("bytes", f"{item['key']} is not what its manifest says")
            try:
                self.check_lines(manifest, item, text_of(body, manifest), stamps, places)
            except (ValueError, AssertionError, zstandard.ZstdError, duckdb.Error) as error:
                self.say("object", f"{item['key']} cannot be read: {error}")
        for field in ("records", "bytes"):
            if manifest[field] != sum(item[field] for item in manifest["objects"]):
                self.say("sums", f"{field} of window {manifest['k']}")
        found = (len({name for name, _ in places}), min(stamps, default=None), max(stamps, default=None))
        if found != (manifest["partitions"], manifest.get("minTs"), manifest.get("maxTs")):
            self.say("summary", f"window {manifest['k']}: partitions, minTs, maxTs are {found}")

    def check_lines(self, manifest: dict, item: dict, text: str, stamps: list[int], places: list[tuple[bytes, int]]) -> None:
        """Adds to `stamps` and `places`, which are those of the window so far."""
        lines, first = text.split("\n"), len(places)
        if lines.pop() != "":
            self.say("line", f"{item['key']} does not end with a line feed")
        for line in lines:
            place, ts = self.check_line(line)
            if places and place < places[-1]:
                self.say("order", line[:300])
            if not manifest["tStart"] <= ts < manifest["tEnd"]:
                self.say("ts", f"outside window {manifest['k']}: {line[:300]}")
            places.append(place)
            stamps.append(ts)
        if item["records"] != len(lines):
            self.say("count", f"{item['key']}: {item['records']} and {len(lines)} lines")
        if "partition" in item:
            name = item["partition"].encode()
            ends = [(name, item["firstOffset"]), (name, item["lastOffset"])]
            if [places[first], places[-1]] != ends or any(at[0] != name for at in places[first:]):
                self.say("run", f"{item['key']} holds {places[first]} to {places[-1]}")

    def check_line(self, line: str) -> tuple[tuple[bytes, int], int]:
        record = json.loads(line)
        name, offset, ts = record["partition"], record["offset"], micros(record["ts"])
        place = (name, offset)
        if place in self.seen:
            self.say("duplicate", line[:300])
        elif place not in self.expected:
            self.say("foreign", line[:300])
        else:
            self.check_text(line, record, *self.expected[place])
        self.seen[place] = ts
        return (name.encode(), offset), ts

    def check_text(self, line: str, record: dict, transaction_id: str, payload: str) -> None:
        right = line_of(record["partition"], record["offset"], transaction_id, record["ts"], payload)
        if record["transactionId"] != transaction_id:
            self.say("transactionId", line[:300])
        elif not TS.fullmatch(record["ts"]) or line != right:
            self.say("payload", line[:300])

    def check_orphans(self) -> None:
        for key in self.objects:
            if key.startswith(self.place.data) and key not in self.named:
                self.say("orphan", f"no manifest names {key}")

    def check_records(self) -> None:
        for place in sorted(self.expected.keys() - self.seen.keys() - self.lost):
            self.say("missing", place)
        last: dict[str, tuple[int, int]] = {}
        for (partition, offset), ts in sorted(self.seen.items()):
            at, stamp = last.get(partition, (self.first.get(partition, 0) - 1, 0))
            if any((partition, gap) not in self.lost and (partition, gap) not in self.expected for gap in range(at + 1, offset)):
                self.say("gap", f"{partition} before {offset}")
            if ts < stamp:
                self.say("time", f"{partition}/{offset} is older than the record before")
            last[partition] = (offset, ts)


def assert_lake_right(objects: dict[str, bytes], place: Place, expected: dict, first: dict[str, int] | None = None) -> None:
    complaints = LakeChecker(objects, place, expected, first).check()
    assert complaints == [], "\n".join(complaints[:10])
