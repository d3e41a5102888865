"""The message plane over HTTP against a real process: shapes, codes, and the bytes of payloads."""

import json
import threading
import time

import pytest

from harness import TENANT


def test_push_answers_as_the_contract_shows(broker):
    first = broker.push([{"queue": "meters", "partition": "unit-7", "transactionId": "read-7", "payload": {"kwh": 12.5}},
                         {"queue": "meters", "payload": None}])
    assert list(first[0]) == ["index", "message_id", "transaction_id", "queueName", "status", "offset"]
    assert first[0]["transaction_id"] == "read-7" and first[0]["status"] == "queued" and first[0]["offset"] == 0
    assert first[1]["transaction_id"] == first[1]["message_id"]
    again = broker.push([{"queue": "meters", "partition": "unit-7", "transactionId": "read-7", "payload": {"other": 1}}])
    assert again[0]["status"] == "duplicate"
    assert again[0]["message_id"] == first[0]["message_id"] and again[0]["offset"] == 0


def test_empty_push_is_201_and_an_empty_array(broker):
    answer = broker.post("/api/v1/push", {"items": []})
    assert (answer.status_code, answer.json()) == (201, [])


PAYLOADS = ['{"n":42.00,"big":123456789012345678901234567890,"e":1e2}', 'null', '{}', '[]', '"\\ud800"', '{ "spaced" :\n [1 ,2] }',
            '"é\\u00e9\\n"', '0', '-0', 'true', '{"a":1,"a":2}']


def test_payloads_come_back_byte_for_byte(broker):
    items = ",".join('{"queue":"q","partition":"p","payload":%s}' % text for text in PAYLOADS)
    assert broker.post("/api/v1/push", '{"items":[%s]}' % items).status_code == 201
    raw = broker.session.get(broker.url("/api/v1/pop/queue/q/partition/p?batch=100")).content.decode()
    fetched = broker.post("/api/v1/fetch", {"entries": [{"queue": "q", "partition": "p", "offset": 0}]}).content.decode()
    for text in PAYLOADS:
        assert '"data":%s,' % text in raw
        assert '"payload":%s,' % text in fetched


def test_large_payload_survives(broker):
    payload = {"list": list(range(10_000)), "text": "x" * 1_400_000}
    broker.push([{"queue": "q", "payload": payload}])
    assert broker.pop("q")["messages"][0]["data"] == payload


def test_eight_concurrent_pushes_of_one_id_store_one(broker):
    results = []

    def push():
        results.append(broker.session.post(broker.url("/api/v1/push"), json={"items": [
            {"queue": "q", "transactionId": "one", "payload": 1}]}).json()[0])

    threads = [threading.Thread(target=push) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(item["status"] for item in results) == ["duplicate"] * 7 + ["queued"]
    assert len({item["message_id"] for item in results}) == 1


def test_pop_shape_and_long_poll_wake(broker):
    got = []
    waiter = threading.Thread(target=lambda: got.append(broker.pop("later", wait="true", timeout=20000, subscriptionMode="all",
                                                                   consumerGroup="g")))
    waiter.start()
    time.sleep(0.5)
    started = time.monotonic()
    broker.push([{"queue": "later", "partition": "a", "transactionId": "t", "payload": {"x": 1}}])
    waiter.join(10)
    assert time.monotonic() - started < 5
    answer = got[0]
    assert list(answer)[:6] == ["success", "queue", "partition", "partitionId", "leaseId", "consumerGroup"]
    assert answer["partitionsClaimed"] == 1 and answer["consumerGroup"] == "g"
    message = answer["messages"][0]
    assert list(message) == ["id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition", "leaseId",
                             "consumerGroup", "deliveryAttempt", "offset"]
    assert message["partitionId"].isdigit() and message["producerSub"] is None and message["deliveryAttempt"] == 1


def test_empty_long_poll_answers_204_within_its_timeout(broker):
    started = time.monotonic()
    assert broker.pop("nothing", wait="true", timeout=1000) is None
    assert 0.5 < time.monotonic() - started <= 1.2


def test_batch_over_partitions_is_a_hard_cap(broker):
    broker.push([{"queue": "q", "partition": f"p{p}", "payload": i} for p in range(5) for i in range(100)])
    answer = broker.pop("q", batch=10, partitions=5)
    assert len(answer["messages"]) == 10
    assert len({m["leaseId"] for m in answer["messages"]}) == 1


def test_ack_partial_then_redelivery_of_the_rest(broker):
    broker.post("/api/v1/configure", {"queue": "q", "options": {"leaseTime": 1}})
    broker.push([{"queue": "q", "partition": "p", "transactionId": t, "payload": t} for t in "abc"])
    popped = broker.pop("q", "p")
    middle = popped["messages"][1]
    answer = broker.post("/api/v1/ack", {"transactionId": middle["transactionId"], "partitionId": middle["partitionId"],
                                         "leaseId": middle["leaseId"]}).json()
    assert answer == [{"index": 0, "transactionId": "b", "success": True, "error": None, "leaseReleased": False, "dlq": False,
                       "noop": False}]
    time.sleep(1.2)
    assert [m["transactionId"] for m in broker.pop("q", "p")["messages"]] == ["c"]


def test_unresolvable_ack_says_so_and_moves_nothing(broker):
    broker.push([{"queue": "q", "partition": "p", "transactionId": "a", "payload": 1}])
    popped = broker.pop("q", "p")
    message = popped["messages"][0]
    answer = broker.post("/api/v1/ack", {"transactionId": "never", "partitionId": message["partitionId"], "leaseId": message["leaseId"]})
    assert answer.json()[0]["success"] is False and "unresolvable" in answer.json()[0]["error"]
    assert broker.ack_all(popped)[0]["success"] is True


def test_configure_echoes_every_option_and_is_idempotent(broker):
    first = broker.post("/api/v1/configure", {"queue": "acme.read", "options": {"leaseTime": 30, "retryLimit": 5}}).json()
    again = broker.post("/api/v1/configure", {"queue": "acme.read", "options": {"leaseTime": 31}}).json()
    assert first["configured"] is True and again["queueId"] == first["queueId"]
    assert again["options"]["leaseTime"] == 31 and again["options"]["retryLimit"] == 5
    assert first["options"]["dedupWindowSeconds"] == 3600 and first["options"]["retentionSinkHoldMaxSeconds"] == 604800


def test_queue_list_counts(broker):
    broker.push([{"queue": "q", "partition": p, "payload": 1} for p in "ab" for _ in range(3)])
    row = broker.get("/api/v1/resources/queues").json()["queues"][0]
    assert row["messages"]["total"] == 6 and row["messages"]["pending"] == 6 and row["partitions"] == 2
    broker.pop("q", partitions=2)
    row = broker.get("/api/v1/resources/queues").json()["queues"][0]
    assert row["messages"]["processing"] == 6 and row["messages"]["pending"] == 0
    lanes = broker.get("/api/v1/resources/queues", stats="lanes").json()
    assert lanes["stats"] == "lanes" and lanes["queues"][0]["name"] == "q"


def test_partitions_changed_pages_and_safe_time(broker):
    for name in ("c", "a", "b"):
        broker.push([{"queue": "q", "partition": name, "payload": 1}])
    page = broker.post("/api/v1/partitions/changed", {"entries": [{"queue": "q", "limit": 2}]}).json()
    assert [p["name"] for p in page["entries"][0]["partitions"]] == ["c", "a"]
    rest = broker.post("/api/v1/partitions/changed", {"entries": [{"queue": "q", "limit": 2, "after": page["entries"][0]["next"]}]}).json()
    assert [p["name"] for p in rest["entries"][0]["partitions"]] == ["b"] and rest["entries"][0]["next"] is None
    assert rest["safeTime"] >= rest["entries"][0]["partitions"][0]["lastWriteAt"]
    assert rest["safeTimeDegraded"] is False


def test_kv_compare_and_set(broker):
    def kv(*ops):
        return broker.post("/api/v1/kv", {"operations": list(ops)}).json()

    put = kv({"op": "putIfAbsent", "ns": "n", "key": "k", "value": {"a": 1.50}, "forever": True})["results"][0]
    assert put["applied"] is True and put["version"] > 0
    lost = kv({"op": "put", "ns": "n", "key": "k", "value": 2, "forever": True, "expect": put["version"] + 1000})["results"][0]
    assert lost["applied"] is False and lost["reason"] == "version"
    whole = kv({"op": "put", "ns": "n", "key": "other", "value": 1, "ttlSeconds": 60},
               {"op": "put", "ns": "n", "key": "k", "value": 2, "forever": True, "expect": 0, "required": True})
    assert whole["ok"] is False and whole["reason"] == "kv_precondition" and whole["failedIndex"] == 1 and whole["kvReason"] == "exists"
    assert kv({"op": "get", "ns": "n", "key": "other"})["results"][0]["found"] is False


def test_kv_expiry(broker):
    body = {"operations": [{"op": "put", "ns": "n", "key": "k", "value": 1, "ttlSeconds": 1}]}
    assert broker.post("/api/v1/kv", body).json()["results"][0]["applied"] is True
    get = {"operations": [{"op": "get", "ns": "n", "key": "k"}]}
    assert broker.post("/api/v1/kv", get).json()["results"][0]["found"] is True
    time.sleep(1.5)
    assert broker.post("/api/v1/kv", get).json()["results"][0]["found"] is False


def test_health_and_status_shapes(broker):
    health = broker.get("/health").json()
    assert health["status"] == "healthy" and health["engine"] == "raft" and health["raft"]["role"] == "leader"
    assert health["raft"]["apply"] == {"failure": None, "skipped": []} and health["warnings"] == []
    assert broker.get("/status").json() == {"status": "ok", "engine": "raft"}


BAD = [
    ("POST", "/api/v1/push", b"{", 400, "bad_body"),
    ("POST", "/api/v1/push", b"[]", 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"payload":1}]}', 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"q"}]}', 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":7,"payload":1}]}', 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"","payload":1}]}', 400, "bad_request"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":01}]}', 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":"\xff"}]}', 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":' + b"[" * 1100 + b"]" * 1100 + b"}]}", 400, "bad_body"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"' + b"n" * 500 + b'","payload":1}]}', 413, "name_too_long"),
    ("POST", "/api/v1/push", b'{"items":[{"queue":"q","transactionId":"' + b"t" * 66000 + b'","payload":1}]}', 400, "bad_body"),
    ("POST", "/api/v1/ack", b'{"transactionId":"t","partitionId":7}', 400, "bad_body"),
    ("POST", "/api/v1/configure", b'{"options":{}}', 400, "bad_request"),
    ("POST", "/api/v1/configure", b'{"queue":"q","options":{"leaseTime":"x"}}', 400, "bad_request"),
    ("GET", "/api/v1/nothing", None, 404, "no_such_route"),
    ("DELETE", "/api/v1/push", None, 404, "no_such_route"),
]


@pytest.mark.parametrize("method,path,body,status,code", BAD)
def test_bad_input_gets_the_contracts_code_and_stores_nothing(broker, method, path, body, status, code):
    answer = broker.session.request(method, broker.url(path), data=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] == code
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []


def test_oversize_body_is_413_without_the_envelope(make_broker):
    broker = make_broker(QUEEN_MAX_BODY_BYTES="1000").start()
    answer = broker.post("/api/v1/push", b'{"items":[{"queue":"q","payload":"' + b"x" * 2000 + b'"}]}')
    assert answer.status_code == 413
    assert not answer.headers["Content-Type"].startswith("application/json")
    assert broker.get("/health").status_code == 200


def test_message_plane_ignores_unknown_fields_and_parameters(broker):
    answer = broker.post("/api/v1/push", {"items": [{"queue": "q", "payload": 1, "strange": True}], "more": 1})
    assert answer.status_code == 201
    assert broker.pop("q", strange="x")["messages"][0]["data"] == 1


@pytest.mark.parametrize("query", ["batch=abc", "wait=maybe", "timeout=x"])
def test_query_that_does_not_parse_is_400(broker, query):
    assert broker.session.get(broker.url(f"/api/v1/pop/queue/q?{query}")).status_code == 400


def test_conflation_refusals_and_flags(broker):
    answer = broker.get("/api/v1/pop/queue/q", conflation="true")
    assert answer.status_code == 400 and answer.json()["success"] is False and answer.json()["messages"] == []
    broker.push([{"queue": "q", "partition": "p", "transactionId": str(i), "payload": i} for i in range(5)])
    popped = broker.pop("q", conflation="true", consumerGroup="g", subscriptionMode="all")
    assert popped["conflation"] is True and [m["data"] for m in popped["messages"]] == [4]
    assert broker.ack_all(popped, "g")[0]["success"] is True
    empty = broker.get("/api/v1/pop/queue/q", consumerGroup="g")
    assert empty.status_code == 200 and empty.json()["messages"] == [] and empty.json()["conflation"] is True


def test_fetch_bounds_and_errors(broker):
    broker.push([{"queue": "q", "partition": "p", "payload": i} for i in range(3)])

    def fetch(**entry):
        return broker.post("/api/v1/fetch", {"entries": [{"queue": "q", "partition": "p", **entry}]})

    assert [r["offset"] for r in fetch(offset=1).json()["entries"][0]["records"]] == [1, 2]
    assert fetch(offset=3).json()["entries"][0] == {"queue": "q", "partition": "p", "records": [], "highWatermark": 3, "logStartOffset": 0}
    assert fetch(offset=4).json()["entries"][0]["error"] == "OFFSET_OUT_OF_RANGE"
    assert fetch(offset=0, queue="none").json()["entries"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert fetch(offset=-1).status_code == 400
    assert broker.post("/api/v1/fetch", {"entries": [{"queue": "q", "offset": 0}] * 1025}).status_code == 400
    assert len(fetch(offset=0, maxBytes=1).json()["entries"][0]["records"]) == 1


def test_fetch_waits_for_an_append(broker):
    broker.push([{"queue": "q", "partition": "p", "payload": 0}])
    got = []
    body = {"entries": [{"queue": "q", "partition": "p", "offset": 1}], "maxWaitMs": 20000}
    waiter = threading.Thread(target=lambda: got.append(broker.session.post(broker.url("/api/v1/fetch"), json=body).json()))
    waiter.start()
    time.sleep(0.3)
    broker.push([{"queue": "q", "partition": "p", "payload": 1}])
    waiter.join(5)
    assert [r["payload"] for r in got[0]["entries"][0]["records"]] == [1]


def test_nack_budget_and_dead_letter(broker):
    broker.post("/api/v1/configure", {"queue": "q", "options": {"retryLimit": 1}})
    broker.push([{"queue": "q", "partition": "p", "transactionId": "t", "payload": 1}])
    first = broker.ack_all(broker.pop("q"), status="failed")[0]
    assert (first["success"], first["dlq"], first["leaseReleased"]) == (True, False, True)
    again = broker.pop("q")
    assert again["messages"][0]["deliveryAttempt"] == 2
    second = broker.ack_all(again, status="failed")[0]
    assert (second["success"], second["dlq"]) == (True, True)
    assert broker.pop("q") is None
    assert broker.get("/api/v1/resources/queues").json()["queues"][0]["messages"]["deadLetter"] == 1


def test_tenant_header_needs_the_switch(make_broker):
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    other = "11111111-2222-3333-4444-555555555555"
    pushed = broker.session.post(broker.url("/api/v1/push"), json={"items": [{"queue": "q", "payload": 1}]}, headers={"x-queen-tenant": other})
    assert pushed.status_code == 201
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []
    bad = broker.session.get(broker.url("/api/v1/resources/queues"), headers={"x-queen-tenant": "nonsense"})
    assert bad.status_code == 400 and TENANT not in bad.text
    assert json.loads(bad.text)["error"] == "invalid x-queen-tenant header (must be a UUID)"
