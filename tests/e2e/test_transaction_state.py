"""The state legs of a transaction over HTTP (api-state.md 4): KV operations and timers share its fate."""

import uuid

import pytest
from published_client import with_client
from test_timers import FAR, call, cancel_op, ids, peek, schedule_op, wait_ids
from test_transactions import ack_of, commit, leased, rolled_back, send

PUSH = {"type": "push", "items": [{"queue": "out", "transactionId": "p-1", "payload": 1}]}


def put(key, value=1, **more) -> dict:
    return {"op": "put", "ns": "n", "key": key, "value": value, "forever": True, **more}


def marker(key, **more) -> dict:
    return {"op": "putIfAbsent", "ns": "n", "key": key, "value": True, "ttlSeconds": 60, "required": True, **more}


def value_of(broker, key):
    return broker.post("/api/v1/kv", [{"op": "get", "ns": "n", "key": key}]).json()["results"][0].get("value")


def test_all_legs_take_place_and_answer_in_one_index_space(broker):
    """TX-4; the example of section 4: operations, KV, timers, positions."""
    [message] = leased(broker)
    call(broker, schedule_op("nag", txn="nag-1"))
    results = commit(broker, operations=[ack_of(message), PUSH], kv=[put("a"), marker("m")],
                     timers=[cancel_op("nag"), cancel_op("none", txn="sent"), schedule_op("new", 1000, txn="t-new")],
                     positions=[{"queue": "in", "consumerGroup": "g", "partition": "p", "offset": 0}])
    assert [result["index"] for result in results] == list(range(8))
    assert [result["type"] for result in results] == ["ack", "push", "kv", "kv", "timer", "timer", "timer", "position"]
    assert [result.get("opIndex") for result in results] == [None, None, 0, 1, 0, 1, 2, 0]
    assert results[2]["applied"] is True and results[2]["key"] == "a"
    timers = [{k: v for k, v in result.items() if k not in ("index", "type", "opIndex")} for result in results[4:7]]
    assert timers[0] == {"ok": True, "status": "cancelled", "queue": "due", "timerKey": "nag", "txn": "nag-1"}
    assert timers[1] == {"ok": False, "status": "absent", "queue": "due", "timerKey": "none", "txn": "sent"}
    assert list(timers[2]) == ["ok", "status", "queue", "timerKey", "txn", "messageId", "deliverAt"] and timers[2]["status"] == "scheduled"
    assert ids(broker, "out") == ["p-1"] and value_of(broker, "a") == 1
    assert wait_ids(broker, 1) == ["t-new"]
    popped = broker.pop("due", subscriptionMode="all")
    assert popped["messages"][0]["id"] == timers[2]["messageId"]


def test_a_timer_of_a_transaction_is_pending_and_can_be_cancelled(broker):
    """3.6 rule 6."""
    commit(broker, operations=[PUSH], timers=[schedule_op("k")])
    assert peek(broker, "k")["found"] is True
    assert call(broker, cancel_op("k"))[0]["status"] == "cancelled"


def test_timers_alone_are_a_transaction(broker):
    """TX-3: all arrays empty is none."""
    assert [r["status"] for r in commit(broker, timers=[schedule_op("k"), cancel_op("l")])] == ["scheduled", "absent"]
    rolled_back(send(broker, operations=[], kv=[], timers=[], positions=[]), "bad_request")
    for name in ("kv", "timers", "positions", "operations"):
        rolled_back(send(broker, **{"operations": [PUSH], name: 7}), "bad_request", 400)


def test_a_rolled_back_transaction_leaves_timers_as_they_were(broker):
    """3.6 rule 8; TX-5, TX-8: a lost marker takes the cancel and the schedule with it."""
    call(broker, schedule_op("pending", txn="was"))
    commit(broker, kv=[marker("m")])
    body = rolled_back(send(broker, operations=[PUSH], kv=[put("a"), marker("m")],
                            timers=[cancel_op("pending"), schedule_op("new"), schedule_op("pending2")]), "kv_precondition")
    assert (body["ok"], body["failedIndex"], body["kvReason"], body["value"]) == (False, 2, "exists", True) and body["version"] > 0
    assert peek(broker, "pending")["txn"] == "was" and not peek(broker, "new")["found"]
    assert value_of(broker, "a") is None and ids(broker, "out") == []


def test_an_ack_or_a_push_that_fails_takes_the_timers_with_it(broker):
    """TX-6, TX-8: acks, pushes, positions and KV are told before."""
    call(broker, schedule_op("pending"))
    broker.push([{"queue": "out", "partition": "Default", "transactionId": "p-1", "payload": 0}])
    legs = {"kv": [put("a", expect=7, required=True)], "timers": [cancel_op("pending"), schedule_op("new")]}
    lost = {"type": "ack", "transactionId": "x", "partitionId": "1"}
    nowhere = [{"queue": "none", "consumerGroup": "g", "offset": 0}]
    rolled_back(send(broker, operations=[lost, PUSH], positions=nowhere, **legs), "rejected_ack")
    rolled_back(send(broker, operations=[PUSH], positions=nowhere, **legs), "duplicate")
    rolled_back(send(broker, positions=nowhere, **legs), "queue_not_found")
    rolled_back(send(broker, **legs), "kv_precondition")
    assert peek(broker, "pending")["found"] and not peek(broker, "new")["found"]


BAD = [([{"op": "create", "queue": "q", "timerKey": "k"}], "bad_request"), ([7], "bad_request"), ([schedule_op("k", payload=b"", txn=7)], "bad_request"),
       ([schedule_op("k"), schedule_op("k")], "bad_request"), ([{**schedule_op("k"), "payload": "?"}], "bad_request"),
       ([schedule_op("k", payloadZstd=True)], "bad_request"), ([schedule_op("k", producerSub="me")], "timers_server_owned_field"),
       ([schedule_op("k", _x=1)], "timers_server_owned_field")]


@pytest.mark.parametrize("timers,reason", BAD, ids=lambda value: str(value)[:40])
def test_a_broken_timer_operation_is_400(broker, timers, reason):
    """TX-2: nothing of the rest took place."""
    rolled_back(send(broker, operations=[PUSH], kv=[put("a")], timers=[schedule_op("good"), *timers]), reason, 400)
    assert ids(broker, "out") == [] and value_of(broker, "a") is None and not peek(broker, "good")["found"]


def test_horizon_and_payload_ceiling_hold_inside_and_the_count_does_not(make_broker):
    """TX-2 with ruling D3: 200 and bad_request; 256 operations are no bound here."""
    broker = make_broker(QUEEN_TIMERS_MAX_HORIZON_S="60", QUEEN_TIMERS_MAX_PAYLOAD_BYTES="10").start()
    rolled_back(send(broker, timers=[schedule_op("k", 60_001)]), "bad_request")
    rolled_back(send(broker, timers=[schedule_op("k", 1, payload="[1,2,3,4,5]")]), "bad_request")
    rolled_back(send(broker, timers=[cancel_op("k" * 500)]), "name_too_long")
    results = commit(broker, timers=[schedule_op(str(n), 60_000, payload="1") for n in range(300)])
    assert len(results) == 300 and broker.get("/api/v1/timers/due", mode="count", prefix="1").json()["count"] == 111


def test_an_encrypted_queue_takes_no_plaintext(broker):
    """TX-2; rulings: encryption without a key."""
    broker.post("/api/v1/configure", {"queue": "due", "options": {"encryptionEnabled": True}})
    rolled_back(send(broker, operations=[PUSH], timers=[schedule_op("k", encrypted=True)]), "bad_request")
    rolled_back(send(broker, operations=[PUSH], timers=[schedule_op("k")]), "encryption_required")
    assert ids(broker, "out") == []


KV_SHAPES = [({"op": "getPrefix", "ns": "n", "prefix": "a"}, "kv_get_prefix_not_allowed_in_transaction", 400),
             ({"op": "put", "ns": "N", "key": "k", "value": 1, "forever": True}, "kv_bad_namespace", 400),
             ({"op": "put", "ns": "n", "key": "k", "value": "x" * 70_000, "forever": True}, "kv_value_too_large", 413),
             ({"op": "get", "ns": "n", "key": "k" * 513}, "kv_key_too_large", 413)]


@pytest.mark.parametrize("op,reason,status", KV_SHAPES, ids=lambda value: str(value)[:30])
def test_a_bad_kv_operation_has_the_reason_of_its_table(broker, op, reason, status):
    """TX-1."""
    rolled_back(send(broker, operations=[PUSH], kv=[op], timers=[schedule_op("k")]), reason, status)
    assert ids(broker, "out") == [] and not peek(broker, "k")["found"]


def test_the_bounds_of_kv_inside_are_64_operations_and_256_keys(broker):
    """TX-1."""
    commit(broker, kv=[put(f"k{n}") for n in range(64)])
    rolled_back(send(broker, kv=[put(f"k{n}") for n in range(65)]), "kv_too_many_ops", 400)
    commit(broker, kv=[{"op": "getMany", "ns": "n", "keys": [f"k{n}" for n in range(256)]}])
    rolled_back(send(broker, kv=[{"op": "getMany", "ns": "n", "keys": [f"k{n}" for n in range(257)]}]), "kv_too_many_keys", 400)


def test_reads_inside_see_the_transactions_own_writes_and_decide_nothing(broker):
    """TX-7: answered at its position; a miss is no reason to roll back. A lost put without `required` is told and the rest commits (TX-5)."""
    results = commit(broker, operations=[PUSH], kv=[{"op": "get", "ns": "n", "key": "none"}, put("a", 7),
                                                    {"op": "getMany", "ns": "n", "keys": ["a", "b"]}, put("c", expect=9)])
    assert results[1]["found"] is False
    assert [row["value"] for row in results[3]["rows"]] == [7] and results[3]["missing"] == ["b"]
    assert (results[4]["applied"], results[4]["reason"]) == (False, "absent")
    assert ids(broker, "out") == ["p-1"]


def test_counters_and_checks_share_the_fate_of_timers(broker):
    """TX-1, TX-5: incr and check inside; a required check that lost takes the timer with it."""
    incr = {"op": "incr", "ns": "n", "key": "count", "delta": 1, "forever": True}
    first = commit(broker, kv=[incr, {"op": "check", "ns": "n", "key": "none", "expect": 0, "required": True}], timers=[schedule_op("a")])
    assert first[0]["value"] == 1 and first[1]["applied"] is True and first[2]["status"] == "scheduled"
    check = {"op": "check", "ns": "n", "key": "none", "expect": 7, "required": True}
    body = rolled_back(send(broker, kv=[incr, check], timers=[cancel_op("a")]), "kv_precondition")
    assert (body["failedIndex"], body["kvReason"]) == (1, "absent")
    assert value_of(broker, "count") == 1 and peek(broker, "a")["found"]


def test_a_transaction_sent_again_is_a_new_one(broker):
    """TX-10: harmless only through what it carries: a lease that is gone, an id in the window, a marker."""
    [message] = leased(broker)
    timers = [schedule_op("k", txn="t")]
    acked = {"operations": [ack_of(message)], "kv": [put("a")], "timers": timers}
    commit(broker, **acked)
    version = broker.post("/api/v1/kv", [{"op": "get", "ns": "n", "key": "a"}]).json()["results"][0]["version"]
    rolled_back(send(broker, **acked), "rejected_ack")
    commit(broker, operations=[PUSH], timers=timers)
    rolled_back(send(broker, operations=[PUSH], timers=timers), "duplicate")
    commit(broker, kv=[marker("m")], timers=timers)
    rolled_back(send(broker, kv=[marker("m")], timers=timers), "kv_precondition")
    again = commit(broker, kv=[put("a")], timers=timers)
    assert again[0]["version"] > version and again[1]["status"] == "rescheduled"


@pytest.mark.parametrize("ends", ["terminate", "kill9"])
def test_what_a_transaction_did_to_timers_survives(make_broker, ends):
    """A2 of storage.md: pushes, keys and timers of a committed one are there after a crash, of a rolled back one nothing."""
    broker = make_broker().start()
    call(broker, schedule_op("old"), schedule_op("kept"))
    commit(broker, operations=[PUSH], kv=[marker("m")], timers=[cancel_op("old"), schedule_op("new", 1500)])
    rolled_back(send(broker, kv=[marker("m")], timers=[cancel_op("kept"), schedule_op("never")]), "kv_precondition")
    getattr(broker, ends)()
    broker.start()
    assert [peek(broker, key)["found"] for key in ("old", "kept", "never")] == [False, True, False]
    assert ids(broker, "out") == ["p-1"] and value_of(broker, "m") is True
    assert wait_ids(broker, 1) == ["txn-new"]


@with_client()
async def test_client_schedules_and_cancels_inside(client, broker):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    await client.timers.schedule(queue, "nag", {"n": 1}, delay_ms=FAR)
    transaction = client.transaction().queue("out").push([{"data": {"o": 4}}])
    transaction = transaction.timer(queue).key("nag").cancel()
    transaction = transaction.timer(queue).key("next").payload({"n": 2}).after_ms(FAR).partition("p").txn("t").schedule()
    transaction = transaction.timer(queue).key("moved").payload(1).after_ms(FAR).reschedule()
    result = await transaction.commit()
    assert result["success"] and [r["status"] for r in result["results"][1:]] == ["cancelled", "scheduled", "scheduled"]
    assert (await client.timers.peek(queue, "next"))["txn"] == "t"
    assert not await client.timers.peek(queue, "nag")


@with_client()
async def test_client_claims_once_beside_its_timers(client, broker):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    for n in range(2):
        transaction = client.transaction().once("done", "m-1", ttl_seconds=60)
        result = await transaction.timer(queue).key(str(n)).payload(n).after_ms(FAR).schedule().commit()
        assert result["success"] is (n == 0)
    assert result["reason"] == "kv_precondition"
    assert [row["timerKey"] for row in await client.timers.list_all(queue)] == ["0"]


@with_client()
async def test_client_guards_counts_and_schedules_in_one_step(client, broker):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    lock = client.lock("report", ttl_seconds=30)
    assert await lock.acquire()
    transaction = client.transaction().guard(lock)
    transaction = transaction.kv.incr("n", "reports", delta=1, forever=True)
    transaction = transaction.timer(queue).key("next").payload({"n": 1}).after_ms(FAR).schedule()
    result = await transaction.commit()
    assert result["success"] and [r["type"] for r in result["results"]] == ["kv", "kv", "timer"]
    assert result["results"][0]["op"] == "check" and result["results"][1]["value"] == 1
    await lock.release()
    assert await client.timers.peek(queue, "next")
