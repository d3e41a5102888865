"""Browsing messages and their detail against api-messaging.md 11.1, 11.2, M-1, over raw HTTP and with the published client."""

import asyncio
import re
import time
from urllib.parse import quote

import pytest
import requests
from queen import Queen

from qlog_file import MESSAGE, Logs, flip, records

MILLIS = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
OTHER = "00000000-0000-0000-0000-0000000000aa"


def item(queue="q", partition="p", payload=1, **more):
    return {"queue": queue, "partition": partition, "payload": payload, **more}


def browse(broker, **params):
    answer = broker.get("/api/v1/messages", **params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(broker, **params):
    return [row["transactionId"] for row in browse(broker, **params)["messages"]]


def detail(broker, partition, transaction):
    return broker.get(f"/api/v1/messages/{partition}/{quote(transaction, safe='')}")


# ---- 11.1 ---------------------------------------------------------------------------------------------------


def test_shape_of_a_row(broker):
    """11.1: fields in order, millisecond instants, the partition's UUID."""
    trace = "01b7c0de-0001-7aaa-8bbb-000000000001"
    broker.post("/api/v1/configure", {"queue": "meters", "namespace": "acme", "task": "read", "options": {"priority": 7}})
    sent = broker.push([item("meters", "unit-7", 0), item("meters", "unit-7", {"kwh": 12.5}, transactionId="read-7-0412", traceId=trace)])
    body = browse(broker, queue="meters")
    assert list(body) == ["messages", "total", "pagination", "mode"]
    assert (body["total"], body["pagination"], body["mode"]) == (2, {"limit": 200, "offset": 0}, {"hasQueueMode": False, "busGroupsCount": 0, "type": "none"})
    row = body["messages"][0]
    assert list(row) == ["id", "transactionId", "txnHash", "data", "payload", "traceId", "producerSub", "createdAt", "offset", "queue", "partition",
                         "partitionId", "status", "queueStatus", "busStatus", "queuePath", "namespace", "task", "queuePriority", "payloadAvailable",
                         "leaseExpiresAt", "segment", "isEncrypted"]
    assert (row["id"], row["transactionId"], row["traceId"], row["offset"]) == (sent[1]["message_id"], "read-7-0412", trace, 1)
    assert re.fullmatch("[0-9a-f]{32}", row["txnHash"]) and MILLIS.match(row["createdAt"])
    assert row["partitionId"] == broker.get("/api/v1/resources/queues/meters").json()["partitions"][0]["id"]
    assert (row["queuePath"], row["namespace"], row["task"], row["queuePriority"]) == ("meters/unit-7", "acme", "read", 7)
    assert row["segment"] == {"seq": 0, "frameIdx": 1} and row["payloadAvailable"] is True and row["isEncrypted"] is False
    assert (row["status"], row["queueStatus"], row["busStatus"], row["leaseExpiresAt"]) == ("pending", None, {"consumedBy": 0, "totalGroups": 0}, None)


def test_payloads_are_byte_exact(broker):
    """Ruling 2."""
    payloads = ['{"kwh":42.00, "big":12345678901234567890123}', "null", "{}", '"é\\u00e9"', "1e2", "[ 1 ,2]"]
    for n, payload in enumerate(payloads):
        answer = broker.post("/api/v1/push", '{"items":[{"queue":"q","partition":"p","transactionId":"t%d","payload":%s}]}' % (n, payload))
        assert answer.status_code == 201
    text = broker.get("/api/v1/messages").text
    partition = browse(broker)["messages"][0]["partitionId"]
    for n, payload in enumerate(payloads):
        both = f'"data":{payload},"payload":{payload},'
        assert both in text and both in detail(broker, partition, f"t{n}").text


def test_newest_first_filters_and_pages(broker):
    """11.1: by (stamp, offset); exact filters; filters before paging."""
    for n in range(6):
        broker.push([item("a.x" if n % 2 else "b.y", f"p{n % 3}", transactionId=f"{n}-{k}") for k in range(2)])
    everything = [f"{n}-{k}" for n in range(5, -1, -1) for k in (1, 0)]
    assert ids(broker) == everything
    assert ids(broker, limit=5) + ids(broker, limit=5, offset=5) + ids(broker, limit=5, offset=10) == everything
    assert ids(broker, offset=99) == [] and len(ids(broker, limit=0)) == 1
    assert ids(broker, queue="a.x", limit=3, offset=1) == ["5-0", "3-1", "3-0"]
    assert ids(broker, queue="a.x", partition="p1") == ["1-1", "1-0"] and ids(broker, partition="p0", namespace="b") == ["0-1", "0-0"]
    assert ids(broker, task="y") == [t for t in everything if int(t[0]) % 2 == 0]
    assert ids(broker, queue="a") == ids(broker, queue="none") == ids(broker, namespace="A") == []


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def test_the_window(broker):
    """11.1: from is inclusive and an hour ago by default; to is rounded to its minute, plus one, exclusive."""
    broker.push([item(transactionId="t")])
    created = browse(broker)["messages"][0]["createdAt"]
    at = time.time()
    assert ids(broker, **{"from": created, "to": created}) == ["t"]
    assert ids(broker, **{"from": iso(at + 2) + ".000Z"}) == []
    minute = created[:17]
    assert ids(broker, to=minute + "00Z") == ["t"] and ids(broker, to=minute + "59.999Z") == ["t"]
    assert ids(broker, to=iso(at - 65) + "Z") == []
    assert ids(broker, **{"from": "1970-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}) == ["t"]
    assert ids(broker, **{"from": "2999-01-01T00:00:00Z", "to": "1970-01-01T00:00:00Z"}) == []


def test_delay_and_window_buffer_hide_nothing(broker):
    """Rulings: browsing ignores delay and window."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {"delayedProcessing": 600, "windowBuffer": 600}})
    broker.push([item(transactionId="t")])
    assert broker.pop("q") is None and ids(broker, status="pending") == ["t"]


def test_statuses(broker):
    """M-1, and `mode.type`."""
    broker.push([item(transactionId=str(n), payload=n) for n in range(6)])

    def by(status):
        return ids(broker, status=status)

    broker.ack_all(broker.pop("q", batch=2))
    assert by("completed") == ["1", "0"] and by("pending") == ["5", "4", "3", "2"]
    assert browse(broker)["mode"] == {"hasQueueMode": True, "busGroupsCount": 0, "type": "queue"}
    # A named group reads the partition now: it alone decides.
    broker.ack_all(broker.pop("q", batch=1, consumerGroup="g", subscriptionMode="all"), group="g")
    assert by("completed") == ["0"]
    first = browse(broker)["messages"][-1]
    assert (first["status"], first["queueStatus"], first["busStatus"]) == ("completed", "completed", {"consumedBy": 1, "totalGroups": 1})
    assert browse(broker)["mode"] == {"hasQueueMode": True, "busGroupsCount": 1, "type": "hybrid"}
    broker.ack_all(broker.pop("q", batch=1, consumerGroup="g"), group="g", status="dlq")
    assert by("dead_letter") == ["1"] and by("completed") == ["0"]
    broker.pop("q", batch=1, consumerGroup="g", leaseSeconds=1)
    rows = browse(broker, status="processing")["messages"]
    assert [row["transactionId"] for row in rows] == ["5", "4", "3", "2"] and MILLIS.match(rows[0]["leaseExpiresAt"])
    assert by("pending") == [] and ids(broker, status="processing", limit=2, offset=1) == ["4", "3"]
    time.sleep(1.2)
    assert by("processing") == [] and by("pending") == ["5", "4", "3", "2"]
    # A second group has passed nothing.
    broker.pop("q", batch=1, consumerGroup="h", subscriptionMode="all")
    assert by("completed") == [] and by("dead_letter") == ["1"] and browse(broker)["mode"]["busGroupsCount"] == 2


@pytest.mark.parametrize("query", ["limit=x", "offset=1.5", "from=soon", "to=1700000000", "status=done", "limit=99999999999999999999"])
def test_parameters_that_do_not_parse(broker, query):
    """1.1: 400 in plain text."""
    answer = broker.get(f"/api/v1/messages?{query}")
    assert (answer.status_code, answer.headers["Content-Type"].split(";")[0]) == (400, "text/plain")


def test_the_offset_has_a_bound(broker):
    """Memory of a page is bounded: what is asked for beyond it is refused, by name and limit."""
    answer = broker.get("/api/v1/messages", offset=1_000_001)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request") and "1000000" in answer.json()["error"]
    assert ids(broker, offset=1_000_000) == []


def test_large_payloads_are_left_out_of_a_page_that_is_full(broker):
    """A page holds 32 MiB of payloads; the detail has every one."""
    for n in range(5):
        broker.push([item(transactionId=str(n), payload="x" * 8_000_000)])
    rows = browse(broker)["messages"]
    assert [row["transactionId"] for row in rows] == ["4", "3", "2", "1", "0"]
    assert sorted(row["payloadAvailable"] for row in rows) == [False, True, True, True, True]
    left_out = next(row for row in rows if not row["payloadAvailable"])
    assert left_out["data"] is None and left_out["payload"] is None
    assert len(detail(broker, left_out["partitionId"], left_out["transactionId"]).json()["data"]) == 8_000_000


# ---- 11.2 ---------------------------------------------------------------------------------------------------


def test_shape_of_the_detail(broker):
    """11.2, semantics 11: addressed with the number a pop returned, and with the UUID."""
    broker.post("/api/v1/configure", {"queue": "q", "namespace": "acme", "options": {"leaseTime": 30}})
    broker.push([item(transactionId="t/1", payload={"a": 1}), item(transactionId="t2")])
    popped = broker.pop("q", batch=1, consumerGroup="g", subscriptionMode="all")["messages"][0]
    body = detail(broker, popped["partitionId"], "t/1").json()
    assert list(body) == ["id", "transactionId", "data", "payload", "traceId", "producerSub", "createdAt", "partitionId", "partition", "queue", "queuePath",
                          "namespace", "task", "status", "errorMessage", "retryCount", "isEncrypted", "queueConfig", "mode", "consumerGroups"]
    assert (body["id"], body["transactionId"], body["data"], body["payload"]) == (popped["id"], "t/1", {"a": 1}, {"a": 1})
    assert (body["queue"], body["partition"], body["queuePath"], body["namespace"]) == ("q", "p", "q/p", "acme")
    assert (body["status"], body["errorMessage"], body["retryCount"], body["queueConfig"]["leaseTime"]) == ("processing", None, 0, 30)
    group = body["consumerGroups"][0]
    assert (group["name"], group["committed"], group["consumed"]) == ("g", -1, False) and group["leaseExpiresAt"]
    assert len(body["queueConfig"]) == 21 and body["mode"] == {"hasQueueMode": False, "busGroupsCount": 1, "type": "bus"}
    assert re.fullmatch("[0-9a-f-]{36}", body["partitionId"])
    assert detail(broker, body["partitionId"], "t/1").json() == body


def test_failures_show_in_the_detail(broker):
    """11.2: errorMessage and retryCount."""
    broker.push([item(transactionId="t")])
    message = broker.pop("q")["messages"][0]
    ack = {"transactionId": "t", "partitionId": message["partitionId"], "leaseId": message["leaseId"], "status": "failed", "error": "no meter"}
    broker.post("/api/v1/ack", ack)
    assert detail(broker, message["partitionId"], "t").json()["retryCount"] == 1
    message = broker.pop("q")["messages"][0]
    broker.post("/api/v1/ack", {**ack, "leaseId": message["leaseId"], "status": "dlq"})
    body = detail(broker, message["partitionId"], "t").json()
    assert (body["status"], body["errorMessage"]) == ("dead_letter", "no meter")


def test_what_is_not_there_is_404(broker):
    """11.2."""
    broker.push([item(transactionId="t")])
    for partition, transaction in (("1", "none"), ("2", "t"), ("x", "t"), ("-1", "t"), ("01b7c0de-0001-7aaa-8bbb-000000000001", "t"), ("1", "%ff"), ("1", "t" * 70_000)):
        if len(transaction) > 60_000:
            continue  # longer than a request line
        answer = detail(broker, partition, transaction)
        assert (answer.status_code, answer.json()) == (404, {"error": "Message not found"})


def test_the_first_retained_message_of_an_id(make_broker):
    """11.2: of an id that was sent twice without dedup, the first; once retention has taken it, the next."""
    broker = make_broker(RETENTION_INTERVAL="100").start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"dedupWindowSeconds": 0}})
    broker.push([item(transactionId="t", payload="first")])
    broker.push([item(transactionId="t", payload="second")])
    assert detail(broker, "1", "t").json()["data"] == "first"
    time.sleep(1.5)
    broker.push([item(transactionId="t", payload="third")])
    broker.post("/api/v1/configure", {"queue": "q", "options": {"retentionEnabled": True, "retentionSeconds": 1}})
    deadline = time.monotonic() + 30
    while (answer := detail(broker, "1", "t")).status_code == 200 and answer.json()["data"] != "third":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert answer.status_code in (200, 404)


def test_tenants_see_nothing_of_each_other(make_broker):
    """1.2: partition numbers are checked against their owner."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    broker.push([item(transactionId="t")])
    row = browse(broker)["messages"][0]
    for path in ("1/t", row["partitionId"] + "/t"):
        assert broker.get(f"/api/v1/messages/{path}").status_code == 200
        foreign = requests.get(broker.url(f"/api/v1/messages/{path}"), headers={"x-queen-tenant": OTHER}, timeout=30)
        assert (foreign.status_code, foreign.json()) == (404, {"error": "Message not found"})
    assert requests.get(broker.url("/api/v1/messages"), headers={"x-queen-tenant": OTHER}, timeout=30).json()["messages"] == []


def test_pages_are_the_same_after_a_crash(broker):
    """N-1 for browsing."""
    for n in range(50):
        broker.push([item(partition=f"p{n % 7}", transactionId=str(n))])
    broker.ack_all(broker.pop("q", "p3", batch=4))
    before = browse(broker, limit=1000)
    broker.kill9()
    broker.start()
    assert browse(broker, limit=1000) == before and len(before["messages"]) == 50


def test_a_damaged_record_hides_its_own_messages_only(make_broker):
    """RD-6, L-11: the row is there without what the record held; the detail cannot be given."""
    broker = make_broker(QUEEN_QLOG_SCRUB_MB_PER_S="0").start()
    broker.push([item(transactionId="before")])
    broker.push([item(transactionId=t) for t in ("hurt", "also hurt")])
    broker.push([item(transactionId="behind")])
    log = max(Logs(broker.directory).directories(), key=lambda path: sum(r.kind == MESSAGE for f in Logs(broker.directory).files(path) for r in records(f)))
    for path in Logs(broker.directory).files(log):
        for record in records(path):
            if record.kind == MESSAGE and record.base_offset == 1:
                flip(path, record.position + record.length - 3)
    rows = browse(broker)["messages"]
    assert [(r["offset"], r["transactionId"], r["payloadAvailable"], r["status"]) for r in rows] == [
        (3, "behind", True, "pending"), (2, None, False, "pending"), (1, None, False, "pending"), (0, "before", True, "pending")]
    assert (rows[1]["id"], rows[1]["txnHash"], rows[1]["data"], rows[1]["segment"]) == (None, None, None, {"seq": 1, "frameIdx": 1})
    assert detail(broker, "1", "hurt").status_code == 500 and detail(broker, "1", "behind").status_code == 200


def test_the_client_browses(broker):
    """queen-mq, admin."""
    broker.push([item(transactionId="t", payload={"n": 1})])

    async def body():
        async with Queen(broker.url("")) as client:
            page = await client.admin.list_messages(queue="q", status="pending", limit=10)
            row = page["messages"][0]
            assert row["data"] == {"n": 1}
            found = await client.admin.get_message(row["partitionId"], row["transactionId"])
            assert found["status"] == "pending" and found["id"] == row["id"]

    asyncio.run(asyncio.wait_for(body(), 60))
