"""Transactions (api-messaging.md 7): every refusal of 7.1 and 7.4, whole or not at all, the published client."""

import concurrent.futures
import json
import threading
import time

import pytest
import requests
from harness import TENANT
from test_client import make, pinned, push, with_client

UNKNOWN = "01b7c0df-1111-7222-8333-444455556666"
PUSH = {"type": "push", "items": [{"queue": "out", "payload": 1}]}


def send(broker, **body):
    return broker.post("/api/v1/transaction", body)


def commit(broker, **body):
    answer = send(broker, **body)
    assert answer.status_code == 200 and answer.json()["success"] is True, answer.text
    assert list(answer.json()) == ["transactionId", "success", "results"]
    return answer.json()["results"]


def rolled_back(answer, reason, status=200):
    """The exact shape of a rollback; gives its body."""
    body = answer.json()
    assert (answer.status_code, body["success"], body["reason"], body["results"]) == (status, False, reason, []), answer.text
    assert len(body["transactionId"]) == 36 and isinstance(body["error"], str) and body["error"]
    if reason != "kv_precondition":
        assert list(body) == ["transactionId", "success", "reason", "error", "results"]
    return body


def ack_of(message, **more):
    return {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], **more}


def nothing_out(broker):
    """Nothing that a refused transaction pushed is there, not even its queue (T-1)."""
    assert "out" not in [q["name"] for q in broker.get("/api/v1/resources/queues").json()["queues"]]


def leased(broker, ids="a", queue="in", **params):
    broker.push([{"queue": queue, "partition": "p", "transactionId": i, "payload": i} for i in ids])
    return broker.pop(queue, "p", **params)["messages"]


# ---- 7.1 and 7.4: what is refused ----

SHAPES = [
    {"operations": {}}, {"operations": "x", "kv": []}, {"operations": [PUSH], "kv": {}}, {"operations": [PUSH], "positions": 7},
    {"operations": [PUSH], "requiredLeases": "x"}, {"operations": [PUSH], "requiredLeases": [7]}, {"operations": [PUSH], "timers": {}},
    {"operations": [PUSH, 7]}, {"operations": [PUSH, {}]}, {"operations": [PUSH, {"type": ""}]}, {"operations": [PUSH, {"type": None}]},
    {"operations": [PUSH, {"type": "kv", "op": "get", "ns": "n", "key": "k"}]}, {"operations": [PUSH, {"type": "timer"}]},
    {"operations": [PUSH, {"type": "timers"}]}, {"operations": [PUSH, {"type": "pop"}]}, {"operations": [PUSH, {"type": 7}]},
    {"operations": [PUSH, {"type": "push", "items": {}}]}, {"operations": [PUSH, {"type": "push", "items": [7]}]},
    {"operations": [PUSH, {"type": "push", "items": [{"payload": 1}]}]}, {"operations": [PUSH, {"type": "push", "items": [{"queue": "q"}]}]},
    {"operations": [PUSH, {"type": "push", "items": [{"queue": 7, "payload": 1}]}]},
    {"operations": [PUSH, {"type": "push", "items": [{"queue": "", "payload": 1}]}]},
    {"operations": [PUSH, {"type": "push", "items": [{"queue": "q", "partition": 7, "payload": 1}]}]},
    {"operations": [PUSH, {"type": "push", "items": [{"queue": "q", "transactionId": 7, "payload": 1}]}]},
    {"operations": [PUSH, {"type": "ack", "partitionId": "1"}]}, {"operations": [PUSH, {"type": "ack", "transactionId": "a"}]},
    {"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": 1}]},
    {"operations": [PUSH, {"type": "ack", "transactionId": 7, "partitionId": "1"}]},
    *({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": "1", field: 7}]}
      for field in ("leaseId", "status", "error", "consumerGroup")),
    {"operations": [PUSH], "timers": [{"op": "cancel", "queue": "q"}]},
]


@pytest.mark.parametrize("body", SHAPES, ids=lambda body: json.dumps(body)[-60:])
def test_a_broken_shape_is_400_bad_request(broker, body):
    """7.1, 7.4 `bad_request` 400; TX-3."""
    rolled_back(send(broker, **body), "bad_request", 400)
    nothing_out(broker)


@pytest.mark.parametrize("body", ["", "{", "nonsense", b'{"operations":["\xff"]}'])
def test_a_body_that_is_no_json_answers_the_envelope(broker, body):
    answer = broker.post("/api/v1/transaction", body)
    assert answer.status_code == 400 and answer.json()["code"] == "bad_body"


@pytest.mark.parametrize("body", ["[]", "7", "null", '"x"'])
def test_a_body_that_is_no_object_is_bad_request(broker, body):
    rolled_back(broker.post("/api/v1/transaction", body), "bad_request", 400)


POSITION = {"queue": "in", "consumerGroup": "g", "offset": 0}
VALUES = [
    ({}, "bad_request"), ({"operations": [], "kv": [], "timers": [], "positions": []}, "bad_request"),
    ({"operations": None, "kv": None, "requiredLeases": ["x"]}, "bad_request"),
    ({"operations": [PUSH, {"type": "push", "payload": 1}]}, "bad_request"),
    ({"operations": [PUSH, {"type": "push", "queue": "q"}]}, "bad_request"),
    ({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": "p1"}]}, "bad_request"),
    ({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": ""}]}, "bad_request"),
    ({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": "1", "consumerGroup": "g" * 500}]}, "name_too_long"),
    *(({"operations": [PUSH], "positions": [change]}, "bad_request") for change in (
        7, {}, {**POSITION, "queue": ""}, {**POSITION, "queue": 7}, {**POSITION, "consumerGroup": ""}, {**POSITION, "consumerGroup": 7},
        {"queue": "in", "consumerGroup": "g"}, {**POSITION, "offset": -1}, {**POSITION, "offset": 1.5}, {**POSITION, "offset": "1"},
        {**POSITION, "offset": 2 ** 63}, {**POSITION, "partition": 7}, {**POSITION, "metadata": 7}, {**POSITION, "subscriptionMode": 7})),
    ({"operations": [PUSH], "positions": [POSITION] * 16385}, "bad_request"),
    ({"operations": [PUSH], "positions": [{**POSITION, "metadata": "m" * 4097}]}, "too_large"),
    ({"operations": [PUSH], "positions": [{**POSITION, "partition": "p" * 500}]}, "name_too_long"),
    ({"operations": [PUSH], "positions": [{**POSITION, "queue": "missing"}]}, "queue_not_found"),
    ({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": "99"}]}, "rejected_ack"),
    ({"operations": [PUSH, {"type": "ack", "transactionId": "a", "partitionId": "9" * 30}]}, "rejected_ack"),
]


@pytest.mark.parametrize("body,reason", VALUES, ids=lambda value: json.dumps(value)[-50:] if isinstance(value, dict) else value)
def test_a_value_that_cannot_be_rolls_back_with_200(broker, body, reason):
    """7.4: the rows that answer 200 without any state."""
    broker.push([{"queue": "in", "payload": 1}])
    rolled_back(send(broker, **body), reason)
    nothing_out(broker)


PUT = {"op": "put", "ns": "n", "key": "k", "value": 1, "forever": True}
KV = [
    ([7], 400, "kv_bad_request"), ([{"op": "nope"}], 400, "kv_unknown_op"), ([{**PUT, "ns": "N"}], 400, "kv_bad_namespace"),
    ([{**PUT, "key": ""}], 400, "kv_bad_key"), ([{**PUT, "key": "k" * 513}], 413, "kv_key_too_large"),
    ([{**PUT, "value": "v" * 70000}], 413, "kv_value_too_large"), ([{**PUT, "ttlSeconds": 5}], 400, "kv_expiry_not_specified"),
    ([PUT, PUT], 400, "kv_duplicate_key_in_call"), ([{"op": "getPrefix", "ns": "n", "prefix": "x"}], 400, "kv_get_prefix_not_allowed_in_transaction"),
    ([{"op": "get", "ns": "n", "key": "k"}] * 65, 400, "kv_too_many_ops"),
    ([{"op": "getMany", "ns": "n", "keys": ["k"] * 257}], 400, "kv_too_many_keys"),
    ([{**PUT, "tenant": "x"}], 400, "kv_tenant_not_an_input"), ([{**PUT, "expect": -1}], 400, "kv_bad_expect"),
]


@pytest.mark.parametrize("ops,status,reason", KV, ids=lambda value: value if isinstance(value, str) else "")
def test_kv_validation_carries_its_own_reason(broker, ops, status, reason):
    """TX-1, 7.4 `kv_*`."""
    rolled_back(send(broker, operations=[PUSH], kv=ops), reason, status)
    nothing_out(broker)


def test_the_ceilings_of_kv_themselves_are_allowed(broker):
    """7.1: 64 operations, 256 keys."""
    commit(broker, kv=[{"op": "get", "ns": "n", "key": f"k{i}"} for i in range(64)])
    commit(broker, kv=[{"op": "getMany", "ns": "n", "keys": ["k"] * 256}])


def test_names_and_ids_of_pushes_answer_the_envelope(broker):
    """7.4, last line."""
    long_name = send(broker, operations=[{"type": "push", "queue": "q" * 500, "payload": 1}])
    assert (long_name.status_code, long_name.json()["code"]) == (413, "name_too_long")
    long_id = send(broker, operations=[PUSH, {"type": "push", "queue": "q", "payload": 1, "transactionId": "t" * 65536}])
    assert (long_id.status_code, long_id.json()["code"]) == (400, "bad_request")
    nothing_out(broker)


def test_pushes_and_positions_above_an_entry_are_too_large(make_broker):
    """7.4 `too_large`."""
    broker = make_broker(QUEEN_RAFT_ENTRY_MAX_BYTES="4096").start()
    broker.push([{"queue": "in", "payload": 1}])
    big = {"type": "push", "items": [{"queue": "out", "payload": "x" * 5000}]}
    rolled_back(send(broker, operations=[big], kv=[PUT]), "too_large")
    rolled_back(send(broker, operations=[PUSH], positions=[{**POSITION, "partition": f"p{i}"} for i in range(20)]), "too_large")
    nothing_out(broker)
    # Partitions count apart.
    commit(broker, operations=[{"type": "push", "items": [{"queue": "o", "partition": f"p{i}", "payload": "x" * 3000} for i in range(4)]}])


def test_an_encrypted_queue_without_a_key_rolls_back(broker):
    broker.post("/api/v1/configure", {"queue": "secret", "options": {"encryptionEnabled": True}})
    rolled_back(send(broker, operations=[PUSH, {"type": "push", "queue": "secret", "payload": 1}]), "encryption_required")
    nothing_out(broker)


def test_a_full_disk_refuses_what_grows_and_nothing_else(make_broker):
    """BP-1, A-14: a node above its mark can be drained, by transactions as well."""
    broker = make_broker().start()
    message = leased(broker)[0]
    broker.terminate()
    broker.start(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1")
    for body in ({"operations": [ack_of(message), PUSH]}, {"operations": [ack_of(message)], "kv": [PUT]}):
        answer = send(broker, **body)
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    commit(broker, operations=[ack_of(message)], kv=[{"op": "delete", "ns": "n", "key": "k"}], positions=[{**POSITION, "partition": "p"}])


# ---- 7.2: results ----

def test_one_index_space_over_operations_kv_and_positions(broker):
    """7.2, TX-4: every push item and ack takes an index, then kv, then positions."""
    message = leased(broker)[0]
    results = commit(
        broker,
        operations=[{"type": "push", "items": [{"queue": "out", "partition": "x", "transactionId": "i1", "payload": {"e": 4.10}},
                                               {"queue": "out", "partition": "x", "transactionId": "i1", "payload": 2},
                                               {"queue": "out", "partition": "y", "payload": None}]},
                    ack_of(message), {"type": "push", "queue": "out2", "transactionId": "i2", "payload": 3}],
        kv=[{**PUT, "value": 12.50}, {"op": "putIfAbsent", "ns": "n", "key": "m", "value": 1, "ttlSeconds": 60, "required": True},
            {"op": "get", "ns": "n", "key": "nope"}, {"op": "getMany", "ns": "n", "keys": ["k", "z"]}],
        positions=[{**POSITION, "partition": "p", "offset": 1}])
    assert [r["index"] for r in results] == list(range(10))
    assert [r["type"] for r in results] == ["push"] * 3 + ["ack", "push"] + ["kv"] * 4 + ["position"]
    first, again, third, acked, inline = results[:5]
    assert {k: first[k] for k in ("success", "transactionId", "queueName")} == {"success": True, "transactionId": "i1", "queueName": "out"}
    assert "duplicate" not in first and again["duplicate"] is True and again["messageId"] == first["messageId"]
    assert third["transactionId"] == third["messageId"] != first["messageId"]
    assert acked == {"index": 3, "type": "ack", "success": True, "transactionId": "a", "error": None, "dlq": False}
    assert inline["queueName"] == "out2"
    assert [(r["opIndex"], r["op"]) for r in results[5:9]] == [(0, "put"), (1, "putIfAbsent"), (2, "get"), (3, "getMany")]
    assert results[5]["applied"] is True and results[5]["value"] == 12.5 and results[7]["found"] is False
    assert [row["key"] for row in results[8]["rows"]] == ["k"] and results[8]["missing"] == ["z"]
    assert results[9] == {"index": 9, "opIndex": 0, "type": "position", "success": True}
    got = broker.pop("out", "x")["messages"]
    assert [(m["id"], m["transactionId"], m["data"]) for m in got] == [(first["messageId"], "i1", {"e": 4.1})]
    assert broker.pop("out", "y")["messages"][0]["data"] is None
    assert broker.pop("in", "p") is None


def test_payloads_and_trace_ids_are_kept(broker):
    """7.1: the producer's own text, and the traceId of pushes inside and outside a transaction."""
    trace = "01b7c0df-1111-7222-8333-444455556666"
    body = ('{"operations":[{"type":"push","queue":"o","payload":{"a" : 1.50},"traceId":"%s"},'
            '{"type":"push","queue":"o","payload":[],"traceId":"nope"}]}' % trace)
    assert broker.post("/api/v1/transaction", body).json()["success"] is True
    broker.push([{"queue": "o", "payload": 1, "traceId": trace}, {"queue": "o", "payload": 1, "traceId": 7}])
    answer = broker.get("/api/v1/pop/queue/o")
    assert '{"a" : 1.50}' in answer.text
    assert [m["traceId"] for m in answer.json()["messages"]] == [trace, None, trace, None]


def test_an_operation_without_items_has_no_result(broker):
    assert commit(broker, operations=[{"type": "push", "items": []}]) == []


# ---- acks ----

def test_the_lease_that_the_call_agrees_on_is_lent(broker):
    """7.3: own, else the single one, else none."""
    message = leased(broker)[0]
    bare = {k: v for k, v in ack_of(message).items() if k != "leaseId"}
    rolled_back(send(broker, operations=[bare, PUSH], requiredLeases=[UNKNOWN]), "rejected_ack")
    # Two leases: none is lent, and without a fence the ack goes through.
    commit(broker, operations=[bare], requiredLeases=[UNKNOWN, message["leaseId"]])
    message = leased(broker, "b")[0]
    bare = {k: v for k, v in ack_of(message).items() if k != "leaseId"}
    commit(broker, operations=[bare], requiredLeases=[message["leaseId"], message["leaseId"], ""])


def test_required_leases_fence_nothing_by_themselves(broker):
    """7.1."""
    commit(broker, operations=[PUSH], requiredLeases=[UNKNOWN])


def test_an_ack_under_a_lease_that_another_worker_took_over(broker):
    """16.15: nothing is pushed and the new holder keeps what it has."""
    mine = leased(broker, leaseSeconds=1)[0]
    time.sleep(1.1)
    theirs = broker.pop("in", "p")["messages"][0]
    rolled_back(send(broker, operations=[PUSH, ack_of(mine)]), "rejected_ack")
    nothing_out(broker)
    commit(broker, operations=[PUSH, ack_of(theirs)])
    assert broker.pop("out") is not None


def test_the_same_transaction_sent_twice(broker):
    """16.16, T-5."""
    fixed = {"type": "push", "queue": "out", "transactionId": "t", "payload": 1}
    message = leased(broker)[0]
    body = {"operations": [ack_of(message), fixed]}
    commit(broker, **body)
    rolled_back(send(broker, **body), "rejected_ack")
    bare = {k: v for k, v in ack_of(message).items() if k != "leaseId"}
    rolled_back(send(broker, operations=[bare, fixed]), "duplicate")
    assert len(broker.pop("out")["messages"]) == 1


def test_a_completed_ack_of_a_finished_message_is_a_noop(broker):
    """7.3; A-12 does not apply, and a nack of it comes too late."""
    message = leased(broker)[0]
    commit(broker, operations=[ack_of(message)])
    bare = {k: v for k, v in ack_of(message).items() if k != "leaseId"}
    assert commit(broker, operations=[bare, PUSH])[0]["success"] is True
    for status in ("failed", "retry", "dlq"):
        rolled_back(send(broker, operations=[{**bare, "status": status}]), "rejected_ack")


def test_acks_of_several_groups_partitions_and_queues(broker):
    """T-3: the group is per operation."""
    broker.push([{"queue": q, "partition": p, "transactionId": q + p, "payload": 1} for q in ("a", "b") for p in ("1", "2")])
    acks = []
    for group in ("g1", "g2"):
        for queue in ("a", "b"):
            got = broker.pop(queue, consumerGroup=group, subscriptionMode="all", partitions=2)
            acks += [ack_of(m, consumerGroup=group) for m in got["messages"]]
    assert len(acks) == 8
    assert len(commit(broker, operations=acks)) == 8
    assert all(broker.pop(q, consumerGroup=g) is None for q in ("a", "b") for g in ("g1", "g2"))
    # Another group was not touched.
    assert len(broker.pop("a", consumerGroup="g3", subscriptionMode="all", partitions=2)["messages"]) == 2


def counts(broker, queue):
    return next(q for q in broker.get("/api/v1/resources/queues").json()["queues"] if q["name"] == queue)["messages"]


def test_statuses_keep_their_meaning(broker):
    """T-3, semantics 12, ruling message plane 4: `retry` costs no budget, `dlq` files at once, `failed` counts; `dlq` says what happened."""
    broker.post("/api/v1/configure", {"queue": "in", "options": {"retryLimit": 1}})
    message = leased(broker)[0]
    for _ in range(5):
        assert commit(broker, operations=[ack_of(message, status="retry")])[0]["dlq"] is False
        message = broker.pop("in", "p")["messages"][0]
    assert commit(broker, operations=[ack_of(message, status="failed")])[0]["dlq"] is False
    assert counts(broker, "in")["deadLetter"] == 0
    message = broker.pop("in", "p")["messages"][0]
    assert commit(broker, operations=[ack_of(message, status="FAILED", error="no"), PUSH])[0]["dlq"] is True
    assert counts(broker, "in")["deadLetter"] == 1 and broker.pop("in", "p") is None
    message = leased(broker, "b")[0]
    assert commit(broker, operations=[ack_of(message, status="dlq")])[0]["dlq"] is True
    assert counts(broker, "in")["deadLetter"] == 2 and broker.pop("in", "p") is None


def test_dead_letters_of_a_transaction_carry_their_messages(broker):
    """A-16 in a transaction, for acks of several groups; a rolled back one files nothing."""
    broker.post("/api/v1/configure", {"queue": "in", "options": {"retryLimit": 0}})
    broker.push([{"queue": "in", "partition": "p", "transactionId": i, "payload": {"id": i}} for i in "ab"])
    acks = []
    for group, statuses in (("g1", ("failed", "dlq")), ("g2", ("dlq", "completed"))):
        got = broker.pop("in", "p", consumerGroup=group, subscriptionMode="all")["messages"]
        acks += [ack_of(m, consumerGroup=group, status=s, error=f"{group} {s}") for m, s in zip(got, statuses)]
    rolled_back(send(broker, operations=[*acks, PUSH], positions=[{**POSITION, "queue": "missing"}]), "queue_not_found")
    assert broker.get("/api/v1/dlq", queue="in").json()["messages"] == []
    assert [r["dlq"] for r in commit(broker, operations=acks)] == [True, True, True, False]
    rows = broker.get("/api/v1/dlq", queue="in").json()["messages"]
    assert sorted((r["consumerGroup"], r["transactionId"], r["errorMessage"], r["payload"]["id"]) for r in rows) == [
        ("g1", "a", "g1 failed", "a"), ("g1", "b", "g1 dlq", "b"), ("g2", "a", "g2 dlq", "a")]
    assert all(len(r["messageId"]) == 36 for r in rows)


def test_a_rollback_leaves_the_lease_and_the_budget(broker):
    """T-1."""
    broker.post("/api/v1/configure", {"queue": "in", "options": {"retryLimit": 0}})
    message = leased(broker, "ab")[0]
    rolled_back(send(broker, operations=[ack_of(message, status="failed"), PUSH], positions=[{**POSITION, "queue": "missing"}]),
                "queue_not_found")
    nothing_out(broker)
    assert broker.pop("in", "p") is None and counts(broker, "in")["deadLetter"] == 0
    commit(broker, operations=[ack_of(message)])


# ---- pushes, kv, positions ----

def test_a_stored_id_rolls_everything_back(broker):
    """7.4 `duplicate`."""
    broker.push([{"queue": "q", "partition": "p", "transactionId": "t", "payload": 1}])
    rolled_back(send(broker, operations=[PUSH, {"type": "push", "queue": "q", "partition": "p", "transactionId": "t", "payload": 2}], kv=[PUT]),
                "duplicate")
    nothing_out(broker)
    assert broker.post("/api/v1/kv", [{"op": "get", "ns": "n", "key": "k"}]).json()["results"][0]["found"] is False
    # The id is free in another partition, and offsets were not consumed.
    commit(broker, operations=[{"type": "push", "queue": "q", "partition": "other", "transactionId": "t", "payload": 2}])
    assert broker.push([{"queue": "q", "partition": "p", "transactionId": "u", "payload": 3}])[0]["offset"] == 1


def test_items_of_one_partition_keep_the_order_of_the_operations(broker):
    """T-7, T-6, P-6."""
    item = lambda i, queue="x.y.z": {"type": "push", "queue": queue, "partition": "p", "payload": i}  # noqa: E731
    commit(broker, operations=[item(0), item(100, "other"), {"type": "push", "items": [{**item(1)}, {**item(2)}]}, item(3)])
    assert [m["data"] for m in broker.pop("x.y.z", "p")["messages"]] == [0, 1, 2, 3]
    rows = {q["name"]: q for q in broker.get("/api/v1/resources/queues").json()["queues"]}
    assert rows["x.y.z"]["namespace"] == "x"


def test_a_lost_required_operation_tells_what_it_met(broker):
    """TX-5, 1.10.12: the index is in the space of the results."""
    marker = {"op": "putIfAbsent", "ns": "n", "key": "m", "value": {"who": "first"}, "forever": True, "required": True}
    version = commit(broker, operations=[PUSH], kv=[marker])[1]["version"]
    again = send(broker, operations=[PUSH, {"type": "push", "items": [{"queue": "o", "payload": 1}, {"queue": "o", "payload": 2}]}],
                 kv=[PUT, {**marker, "value": 2}])
    body = rolled_back(again, "kv_precondition")
    assert (body["ok"], body["failedIndex"], body["kvReason"], body["version"], body["value"]) == (
        False, 4, "exists", version, {"who": "first"})
    body = rolled_back(send(broker, operations=[PUSH], kv=[{"op": "delete", "ns": "n", "key": "none", "required": True}]), "kv_precondition")
    assert (body["failedIndex"], body["kvReason"], body["version"], body["value"]) == (1, "absent", 0, None)
    lost = commit(broker, operations=[PUSH], kv=[{**marker, "required": False}])[1]
    assert (lost["applied"], lost["reason"]) == (False, "exists")
    assert len(broker.pop("out")["messages"]) == 2


def test_positions_move_forget_and_register(broker):
    """7.1: cursor set, lease released, unregistered groups and missing partitions made."""
    broker.push([{"queue": "in", "partition": "p", "payload": i} for i in range(4)])
    mine = broker.pop("in", "p", consumerGroup="g", subscriptionMode="all", batch=2)["messages"]
    commit(broker, positions=[{**POSITION, "partition": "p", "offset": 3, "metadata": "m"}])
    assert [m["offset"] for m in broker.pop("in", consumerGroup="g")["messages"]] == [3]
    rolled_back(send(broker, operations=[ack_of(mine[0], consumerGroup="g")]), "rejected_ack")
    commit(broker, positions=[{**POSITION, "partition": "p", "offset": 1}, {**POSITION, "partition": "later", "offset": 1}])
    assert [m["offset"] for m in broker.pop("in", consumerGroup="g")["messages"]] == [1, 2, 3]
    broker.push([{"queue": "in", "partition": "later", "payload": i} for i in range(2)])
    assert [m["offset"] for m in broker.pop("in", "later", consumerGroup="g")["messages"]] == [1]
    # Forgotten, the group starts where its registration says: with `new`, behind all that there was.
    commit(broker, positions=[{**POSITION, "partition": "p", "offset": None}])
    assert broker.pop("in", "p", consumerGroup="g") is None
    commit(broker, positions=[{**POSITION, "consumerGroup": "all", "partition": "p", "offset": 4, "subscriptionMode": "all"}])
    assert [m["offset"] for m in broker.pop("in", "later", consumerGroup="all")["messages"]] == [0, 1]


def test_acks_pushes_and_positions_of_one_call_on_one_partition(broker):
    """7.4: acks first, then pushes, then positions."""
    message = leased(broker, "ab")[0]
    commit(broker, operations=[{"type": "push", "queue": "in", "partition": "p", "payload": "c"}, ack_of(message)],
           positions=[{"queue": "in", "partition": "p", "consumerGroup": "__QUEUE_MODE__", "offset": 2}])
    assert [m["data"] for m in broker.pop("in", "p")["messages"]] == ["c"]


# ---- who waits, and what survives ----

def test_waiting_pops_are_woken(broker):
    """P-14, W-4: by a push of a transaction, and by the lease that it ends."""
    def parked(queue, into):
        into.append(broker_two.pop(queue, wait="true", timeout=20000))
    message = leased(broker)[0]
    broker_two = type(broker).__new__(type(broker))
    broker_two.__dict__ = {**broker.__dict__, "session": requests.Session()}
    for queue, operations in (("woken", [{"type": "push", "queue": "woken", "payload": 7}]), ("in", [ack_of(message, status="retry")])):
        got = []
        thread = threading.Thread(target=parked, args=(queue, got))
        thread.start()
        time.sleep(0.3)
        start = time.monotonic()
        commit(broker, operations=operations)
        thread.join(20)
        assert time.monotonic() - start < 5 and got[0] is not None and len(got[0]["messages"]) == 1


def test_a_committed_transaction_survives_kill_9_whole(broker):
    message = leased(broker)[0]
    commit(broker, operations=[ack_of(message), PUSH, {"type": "push", "queue": "o2", "payload": 2}], kv=[PUT],
           positions=[{**POSITION, "partition": "p", "offset": 1}])
    rolled_back(send(broker, operations=[PUSH], positions=[{**POSITION, "queue": "missing"}]), "queue_not_found")
    broker.kill9()
    broker.start()
    assert broker.pop("in", "p") is None
    assert len(broker.pop("out")["messages"]) == 1 and len(broker.pop("o2")["messages"]) == 1
    assert broker.post("/api/v1/kv", [{"op": "get", "ns": "n", "key": "k"}]).json()["results"][0]["value"] == 1


def test_concurrent_transactions_on_one_message_commit_once(broker):
    """T-1, T-2: sixteen workers with the same lease, one marker each; one wins, every result is whole."""
    message = leased(broker)[0]
    url = broker.url("/api/v1/transaction")

    def one(i):
        body = {"operations": [ack_of(message), {"type": "push", "queue": "out", "payload": i}],
                "kv": [{"op": "put", "ns": "n", "key": f"k{i}", "value": i, "forever": True}]}
        return requests.post(url, json=body, timeout=30).json()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(16)))
    won = [i for i, answer in enumerate(answers) if answer["success"]]
    assert len(won) == 1 and {a["reason"] for a in answers if not a["success"]} == {"rejected_ack"}
    assert [m["data"] for m in broker.pop("out")["messages"]] == won
    keys = broker.post("/api/v1/kv", [{"op": "getPrefix", "ns": "n", "prefix": "k"}]).json()["results"][0]["rows"]
    assert [row["value"] for row in keys] == won


def test_another_tenants_partition_is_unknown(make_broker):
    """1.2."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    message = leased(broker)[0]
    other = {"Content-Type": "application/json", "x-queen-tenant": TENANT[:-1] + "2"}
    answer = broker.session.post(broker.url("/api/v1/transaction"), json={"operations": [ack_of(message)]}, headers=other, timeout=30)
    rolled_back(answer, "rejected_ack")


# ---- the published client: transaction suite ----

@with_client()
async def test_client_push_and_ack(client):
    """Suite 1: also several queues, several acks of a batch, two partitions, a chain."""
    for queue in ("a", "b", "c"):
        await make(client, queue)
    for partition in ("p1", "p2"):
        await push(client, "a", *({"data": i} for i in range(3)), partition=partition)
    messages = await pinned(client, "a", 10, 2).pop()
    assert len(messages) == 6
    result = await client.transaction().ack(messages).queue("b").push([{"data": i} for i in range(5)]).queue("c").push({"data": 9}).commit()
    assert result and [r["type"] for r in result["results"]] == ["ack"] * 6 + ["push"] * 6
    assert await pinned(client, "a", 10, 2).pop() == []
    got = await pinned(client, "b", 10).pop()
    assert [m["data"] for m in got] == list(range(5))
    assert await client.transaction().ack(got).queue("c").push({"data": 10}).commit()
    assert [m["data"] for m in await pinned(client, "c", 10).pop()] == [9, 10]


@with_client()
async def test_client_ack_failed_with_push(client):
    """Suite 2."""
    await make(client, "a", retryLimit=0)
    await push(client, "a", {"data": 1})
    messages = await pinned(client, "a").pop()
    assert await client.transaction().ack(messages, "failed").queue("b").push({"data": 2}).commit()
    assert await pinned(client, "a").pop() == [] and len(await pinned(client, "b").pop()) == 1


@with_client()
async def test_client_an_unknown_ack_fails_the_call(client):
    """Suite 3."""
    await make(client, "a", leaseTime=1)
    await push(client, "a", {"data": 1})
    messages = await pinned(client, "a").pop()
    with pytest.raises(Exception, match="unresolvable"):
        await client.transaction().ack(messages).queue("b").push({"data": 2}).ack({**messages[0], "transactionId": "never"}).commit()
    time.sleep(1.2)
    assert await pinned(client, "b").pop() == [] and len(await pinned(client, "a").pop()) == 1


@with_client()
async def test_client_acks_advance_their_group_only(client):
    """Suite 4."""
    await make(client, "a")
    await push(client, "a", {"data": 1}, {"data": 2})
    group = lambda name: pinned(client, "a", 10).group(name).subscription_mode("all")  # noqa: E731
    messages = await group("g").pop()
    assert await client.transaction().ack(messages, context={"consumer_group": "g"}).queue("b").push({"data": 1}).commit()
    assert await group("g").pop() == [] and len(await group("h").pop()) == 2


@with_client()
async def test_client_once_wins_once(client):
    """KV 1.10.12."""
    run = lambda: client.transaction().once("done", "k", ttl_seconds=86400).queue("b").push({"data": 1}).commit()  # noqa: E731
    assert await run()
    lost = await run()
    assert not lost and (lost["reason"], lost["kvReason"], lost["failedIndex"]) == ("kv_precondition", "exists", 1)
    assert len(await pinned(client, "b", 10).pop()) == 1


@with_client()
async def test_client_an_empty_transaction_is_refused_by_the_client(client):
    """Suite 5."""
    with pytest.raises(Exception, match="no operations"):
        await client.transaction().commit()
