"""Traces over HTTP (api-messaging.md 13, storage.md RT-16)."""

import asyncio
import time
import uuid

import pytest
import requests
from queen import Queen

NIL = "00000000-0000-0000-0000-000000000000"
OTHER = "018f2b3c-0000-7000-8000-0000000000aa"
SPELLINGS = {"traceId": "trace_id", "transactionId": "transaction_id", "partitionId": "partition_id", "messageId": "message_id",
             "consumerGroup": "consumer_group", "eventType": "event_type", "createdAt": "created_at", "worker": "worker_id",
             "names": "trace_names"}


def partition_of(broker, queue: str = "meters", partition: str = "unit-7", ids=("read-7",)) -> tuple[str, str]:
    """A partition with messages: its number and its UUID."""
    broker.push([{"queue": queue, "partition": partition, "transactionId": i, "payload": 1} for i in ids])
    popped = broker.pop(queue, partition, subscriptionMode="all")
    changed = broker.post("/api/v1/partitions/changed", {"entries": [{"queue": queue}]}).json()
    by_name = {p["name"]: p["id"] for p in changed["entries"][0]["partitions"]}
    return popped["messages"][0]["partitionId"], by_name[partition]


def trace(broker, **fields) -> str:
    answer = broker.post("/api/v1/traces", fields)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["success"] is True and set(body) == {"success", "traceId"}
    return body["traceId"]


def listed(broker, path: str, **params) -> dict:
    answer = broker.get(f"/api/v1/traces/{path}", **params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_event_has_every_field_in_both_spellings(broker):
    """13: all fields; `traces` and `events` are the same list."""
    pid, by_uuid = partition_of(broker)
    trace_id = str(uuid.uuid4())
    answer = broker.post("/api/v1/traces", '{"transactionId":"read-7","partitionId":"%s","traceNames":["import","nightly","import"],'
                         '"eventType":"info","data":{"kwh":12.50},"consumerGroup":"billing","worker":"w-1","messageId":"m-1",'
                         '"traceId":"%s","unknown":1}' % (pid, trace_id))
    assert (answer.status_code, answer.json()) == (201, {"success": True, "traceId": trace_id})
    answer = broker.get(f"/api/v1/traces/{pid}/read-7")
    assert answer.text.count('{"kwh":12.50}') == 2
    body = answer.json()
    assert set(body) == {"traces", "events", "total", "pagination"}
    assert body["traces"] == body["events"]
    assert body["total"] == 1 and body["pagination"] == {"limit": 200, "offset": 0}
    event = dict(body["events"][0])
    for camel, snake in SPELLINGS.items():
        assert event.pop(snake) == event[camel], camel
    created_at = event.pop("createdAt")
    assert len(created_at) == 27 and created_at.endswith("Z")
    assert event == {"traceId": trace_id, "transactionId": "read-7", "partitionId": pid, "messageId": "m-1", "consumerGroup": "billing",
                     "eventType": "info", "worker": "w-1", "names": ["import", "nightly"], "data": {"kwh": 12.5},
                     "queue_name": "meters", "partition_name": "unit-7", "message_payload": None}
    for path in (f"{by_uuid}/read-7", "by-name/import", "by-name/nightly"):
        assert listed(broker, path) == body, path


def test_what_is_left_out_has_a_default_and_aliases_are_taken(broker):
    """13: transaction_id, partition_id, names, type; `event` and a minted id where nothing is said."""
    pid, by_uuid = partition_of(broker)
    trace_id = trace(broker, transaction_id="read-7", partition_id=by_uuid, names=["n"], type="warn")
    assert uuid.UUID(trace_id).version == 7
    event = listed(broker, f"{pid}/read-7")["events"][0]
    assert (event["names"], event["eventType"], event["data"], event["traceId"]) == (["n"], "warn", None, trace_id)
    trace(broker, transactionId="loose", traceNames=None, eventType=None, partitionId=None, data=[])
    trace(broker, transactionId="loose", traceNames=["loose"])
    event = listed(broker, "by-name/loose")["events"][0]
    assert (event["partitionId"], event["queue_name"], event["partition_name"], event["eventType"]) == (None, None, None, "event")
    assert event["messageId"] is None and event["consumerGroup"] is None and event["worker"] is None
    # The documented name wins over its alias.
    trace(broker, transactionId="a", transaction_id="b", traceNames=["c"], names=["d"])
    assert listed(broker, "by-name/c")["events"][0]["transactionId"] == "a"
    assert listed(broker, "by-name/d")["total"] == 0


def test_lists_are_newest_first_and_paged(broker):
    pid, _ = partition_of(broker)
    for n in range(5):
        trace(broker, transactionId="read-7", partitionId=pid, traceNames=["n"], data=n)
    trace(broker, transactionId="other", partitionId=pid, traceNames=["n"], data=5)
    for path, values in ((f"{pid}/read-7", [4, 3, 2, 1, 0]), ("by-name/n", [5, 4, 3, 2, 1, 0])):
        assert [e["data"] for e in listed(broker, path)["events"]] == values
        page = listed(broker, path, limit=2, offset=1)
        assert [e["data"] for e in page["events"]] == values[1:3]
        assert page["total"] == len(values) and page["pagination"] == {"limit": 2, "offset": 1}
        assert listed(broker, path, limit=2, offset=4)["events"][0]["data"] == values[4]
        assert listed(broker, path, offset=99)["events"] == []
        assert listed(broker, path, limit=0, offset=-1)["pagination"] == {"limit": 1, "offset": 0}
        assert listed(broker, path, limit=5000)["pagination"]["limit"] == 1000
        assert broker.get(f"/api/v1/traces/{path}", limit="x").status_code == 400


def test_names_are_listed_in_order_with_their_counts(broker):
    pid, _ = partition_of(broker, ids=("a", "b"))
    for name, transaction in (("b", "a"), ("b", "a"), ("b", "b"), ("a", "a"), ("ü/x", "a")):
        trace(broker, transactionId=transaction, partitionId=pid, traceNames=[name])
    trace(broker, transactionId="a", traceNames=["b"])  # of no partition: another message
    body = listed(broker, "names")
    last = listed(broker, "by-name/b")["events"][0]["createdAt"]
    assert [(n["trace_name"], n["trace_count"], n["message_count"]) for n in body["trace_names"]] == [
        ("a", 1, 1), ("b", 4, 3), ("ü/x", 1, 1)]
    assert body["trace_names"][1]["last_seen"] == last
    assert body["total"] == 3 and body["pagination"] == {"limit": 100, "offset": 0}
    page = listed(broker, "names", limit=1, offset=1)
    assert [n["trace_name"] for n in page["trace_names"]] == ["b"] and page["total"] == 3
    assert listed(broker, "by-name/%C3%BC%2Fx")["total"] == 1
    assert listed(broker, "by-name/none") == {"traces": [], "events": [], "total": 0, "pagination": {"limit": 200, "offset": 0}}


def test_malformed_traces_are_refused_and_store_nothing(broker):
    """13: each field; a key over 511 bytes is 400."""
    pid, _ = partition_of(broker)
    for body in ("", "{", "[]", "7", b'{"transactionId":"\xff"}'):
        assert broker.post("/api/v1/traces", body).status_code == 400, body
    for body in ({}, {"transactionId": None}, {"transactionId": ""}, {"transactionId": 7}):
        answer = broker.post("/api/v1/traces", body)
        assert (answer.status_code, answer.json()["error"]) == (400, "transactionId is required")
    for field, value in (("partitionId", 7), ("traceNames", "n"), ("traceNames", [1]), ("traceNames", [""]), ("traceNames", {}),
                         ("traceNames", [str(n) for n in range(257)]), ("names", "n"), ("eventType", 1), ("eventType", ""), ("type", []),
                         ("consumerGroup", 1), ("worker", {}), ("messageId", 1), ("traceId", "x"), ("traceId", 1)):
        answer = broker.post("/api/v1/traces", {"transactionId": "t", field: value})
        assert answer.status_code == 400, (field, value)
        assert answer.json()["error"] and answer.json()["code"] in ("bad_body", "bad_request")
    for partition in ("999", NIL, "x", "", "-1", "18446744073709551616"):
        answer = broker.post("/api/v1/traces", {"transactionId": "t", "partitionId": partition, "traceNames": ["n"]})
        assert (answer.status_code, answer.json()) == (404, {"success": False, "error": "Partition not found"}), partition
    assert listed(broker, "names")["total"] == 0
    # tenant 36 + 2, pid 1 + 8, id and its end 2, sequence 8; name: tenant 36 + 2, end 2, stamp 8, id 16.
    longest = "t" * (511 - 38 - 9 - 2 - 8)
    trace(broker, transactionId=longest, partitionId=pid)
    name = "n" * (511 - 38 - 2 - 8 - 16)
    trace(broker, transactionId="t", traceNames=[name])
    for body in ({"transactionId": longest + "t", "partitionId": pid}, {"transactionId": "t", "traceNames": ["x", name + "n"]},
                 {"transactionId": "t", "traceNames": ["\0" * (len(name) // 2 + 1)]}):
        answer = broker.post("/api/v1/traces", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "name_too_long")
    assert listed(broker, f"{pid}/{longest}")["total"] == 1 and listed(broker, "names")["total"] == 1


def test_another_tenants_traces_are_not_there(make_broker):
    """1.2, 13"""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    pid, by_uuid = partition_of(broker)
    trace(broker, transactionId="read-7", partitionId=pid, traceNames=["n"])
    broker.session.headers["x-queen-tenant"] = OTHER
    for path in (f"{pid}/read-7", f"{by_uuid}/read-7", "by-name/n", "999/read-7", "x/read-7"):
        assert listed(broker, path)["total"] == 0, path
    assert listed(broker, "names")["trace_names"] == []
    for partition in (pid, by_uuid):
        assert broker.post("/api/v1/traces", {"transactionId": "t", "partitionId": partition}).status_code == 404
    trace(broker, transactionId="t", traceNames=["n"])
    assert listed(broker, "by-name/n")["total"] == 1
    del broker.session.headers["x-queen-tenant"]
    assert listed(broker, "by-name/n")["events"][0]["transactionId"] == "read-7"


def test_traces_age_out_in_steps(make_broker):
    """RT-16: more of them than one step drops; younger ones stay."""
    broker = make_broker(QUEEN_RAFT_TRACE_RETENTION_S="5", QUEEN_RAFT_TRACE_TRIM_LIMIT="3").start()
    pid, _ = partition_of(broker)
    for n in range(10):
        trace(broker, transactionId="read-7", partitionId=pid, traceNames=["old"], data=n)
    assert listed(broker, "by-name/old")["total"] == 10
    deadline = time.monotonic() + 30
    while listed(broker, "names")["total"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert listed(broker, f"{pid}/read-7")["total"] == 0
    trace(broker, transactionId="read-7", partitionId=pid, traceNames=["young"])
    assert listed(broker, f"{pid}/read-7")["total"] == 1


def test_traces_survive_a_crash_and_outlive_their_queue(make_broker):
    broker = make_broker().start()
    pid, _ = partition_of(broker)
    trace(broker, transactionId="read-7", partitionId=pid, traceNames=["n"], data={"a": 1})
    before = listed(broker, "by-name/n")
    broker.kill9()
    broker.start()
    assert listed(broker, "by-name/n") == before
    assert broker.session.delete(broker.url("/api/v1/resources/queues/meters")).json()["deleted"] is True
    event = listed(broker, "by-name/n")["events"][0]
    assert (event["data"], event["queue_name"], event["partition_name"]) == ({"a": 1}, None, None)
    assert listed(broker, f"{pid}/read-7")["total"] == 0  # the partition is unknown now


def test_a_full_disk_refuses_traces(make_broker):
    """Rulings: every growing write."""
    broker = make_broker(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1").start()
    answer = broker.post("/api/v1/traces", {"transactionId": "t"})
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert listed(broker, "names")["total"] == 0


def test_the_published_client(broker):
    """message.trace() of a consumer, and the three reads of the admin."""
    broker.push([{"queue": "meters", "partition": "unit-7", "transactionId": "read-7", "payload": {"kwh": 1}}])

    async def talk() -> None:
        async with Queen(broker.url("")) as queen:
            told = []

            async def work(message) -> None:
                told.append(await message["trace"]({"traceName": ["import", "nightly"], "eventType": "step", "data": {"n": 1}}))
                told.append(message["partitionId"])

            await queen.queue("meters").group("g").subscription_mode("all").limit(1).each().consume(work)
            assert told[0]["success"] is True
            pid = told[1]
            found = await queen.admin.get_traces_for_message(pid, "read-7")
            assert [(e["event_type"], e["data"], e["trace_names"], e["consumer_group"]) for e in found["traces"]] == [
                ("step", {"n": 1}, ["import", "nightly"], "g")]
            assert (await queen.admin.get_traces_by_name("import", limit=5)) ["total"] == 1
            names = await queen.admin.get_trace_names(limit=5)
            assert [n["trace_name"] for n in names["trace_names"]] == ["import", "nightly"]

    asyncio.run(asyncio.wait_for(talk(), 60))


@pytest.mark.parametrize("method", ["post", "delete", "put"])
def test_no_other_method_is_served(broker, method):
    answer = getattr(requests, method)(broker.url("/api/v1/traces/names"), timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")
