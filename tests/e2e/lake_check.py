"""What the bucket must look like when the sink has caught up: each record in one object, each object in one manifest."""

import hashlib
import json
import urllib.parse

from harness import Bucket, data_keys, lines_of, window_keys

Place = tuple[str, str, int]


def queue_of(key: str) -> str:
    return next(urllib.parse.unquote(part[6:]) for part in key.split("/") if part.startswith("queue="))


def records_of(objects: dict[str, bytes]) -> dict[Place, str]:
    """(queue, partition, offset) -> transactionId over all data objects, each in one object only."""
    found: dict[Place, str] = {}
    for key in data_keys(objects):
        for line in lines_of(objects[key]):
            record = json.loads(line)
            place = (queue_of(key), record["partition"], record["offset"])
            assert place not in found, f"{place} is there twice, again in {key}"
            found[place] = record["transactionId"]
    return found


def check_manifests(objects: dict[str, bytes]) -> None:
    """Windows of a queue are numbered 1, 2, … and tile time; they name every data object once, as it is."""
    named: list[str] = []
    by_queue: dict[str, list[dict]] = {}
    for key in window_keys(objects):
        by_queue.setdefault(queue_of(key), []).append(json.loads(objects[key]))
    for queue, manifests in by_queue.items():
        manifests.sort(key=lambda manifest: manifest["k"])
        assert [manifest["k"] for manifest in manifests] == list(range(1, len(manifests) + 1)), queue
        for before, after in zip(manifests, manifests[1:]):
            assert before["tEnd"] == after["tStart"], f"{queue}: windows {before['k']} and {after['k']} do not meet"
        for manifest in manifests:
            for item in manifest["objects"]:
                body = objects[item["key"]]
                assert (len(body), hashlib.sha256(body).hexdigest(), len(lines_of(body))) == (
                    item["bytes"], item["sha256"], item["records"]), item["key"]
                named.append(item["key"])
            assert manifest.get("lost", []) == []
    assert sorted(named) == data_keys(objects)


def check_lake(bucket: Bucket, log: dict[tuple[str, str], list[str]]) -> None:
    objects = bucket.objects()
    check_manifests(objects)
    committed = {(queue, partition, offset): transaction for (queue, partition), transactions in log.items()
                 for offset, transaction in enumerate(transactions)}
    assert records_of(objects) == committed
