"""Timers over HTTP (api-state.md 3): what is refused, what a timer becomes, restarts, the published client."""

import base64
import json
import threading
import time
from datetime import datetime, timezone
from urllib.parse import quote

import pytest
import zstandard

FAR = 1_800_000
FIRE_SECONDS = 20  # patience for a fire on a busy machine; on time is what test_timers_are_on_time looks at


def b64(raw) -> str:
    return base64.b64encode(raw if isinstance(raw, bytes) else raw.encode()).decode()


def schedule_op(key, delay=FAR, queue="due", txn=None, payload='{"n":1}', **more) -> dict:
    return {"op": "schedule", "queue": queue, "timerKey": key, "delayMs": delay, "txn": txn or f"txn-{key}", "payload": b64(payload), **more}


def cancel_op(key, queue="due", **more) -> dict:
    return {"op": "cancel", "queue": queue, "timerKey": key, **more}


def call(broker, *ops) -> list[dict]:
    answer = broker.post("/api/v1/timers", {"operations": list(ops)})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def refused(answer, reason=None, status=400, error="timers_bad_request") -> dict:
    body = answer.json()
    assert (answer.status_code, body["error"]) == (status, error), answer.text
    if reason:
        assert body["reason"] == reason, answer.text
    return body


def path_of(key, queue="due") -> str:
    return f"/api/v1/timers/{quote(queue, safe='')}/{quote(key, safe='/')}"


def peek(broker, key, queue="due") -> dict:
    answer = broker.get(path_of(key, queue))
    assert answer.status_code == 200, answer.text
    return answer.json()


def cancel(broker, key, queue="due", **params) -> dict:
    answer = broker.session.delete(broker.url(path_of(key, queue)), params=params, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def records(broker, queue="due", partition="Default") -> list[dict]:
    """All of a partition; nothing when it does not exist."""
    found: list[dict] = []
    while True:
        entry = {"queue": queue, "partition": partition, "offset": len(found), "maxBytes": 8 << 20}
        more = broker.post("/api/v1/fetch", {"entries": [entry]}).json()["entries"][0].get("records", [])
        if not more:
            return found
        found += more


def ids(broker, queue="due", partition="Default") -> list[str]:
    return [record["transactionId"] for record in records(broker, queue, partition)]


def wait_ids(broker, count, queue="due", partition="Default") -> list[str]:
    deadline = time.monotonic() + FIRE_SECONDS
    while len(found := ids(broker, queue, partition)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(found) == count, found
    return found


def micros(text: str) -> int:
    assert len(text) == 27 and text.endswith("Z"), text
    at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    return int(at.timestamp()) * 1_000_000 + at.microsecond


# ---- acceptance 3.6 ----

def test_a_timer_becomes_one_message_with_the_ids_that_were_promised(broker):
    """3.6 rule 1; TM-3, TM-4, TM-6: id, transactionId, payload and partition, no traceId, not before it is due."""
    began = time.time()
    made = call(broker, schedule_op("a", 500, txn="t-1", payload='{"inv" : 7.50}', partition="acct-5"))[0]
    assert list(made) == ["ok", "status", "queue", "timerKey", "txn", "messageId", "deliverAt"]
    assert (made["ok"], made["status"], made["queue"], made["timerKey"], made["txn"]) == (True, "scheduled", "due", "a", "t-1")
    assert abs(micros(made["deliverAt"]) / 1e6 - began - 0.5) < 5
    popped = broker.pop("due", "acct-5", wait="true", timeout=FIRE_SECONDS * 1000, subscriptionMode="all")
    assert len(popped["messages"]) == 1
    message = popped["messages"][0]
    assert (message["transactionId"], message["id"], message["traceId"]) == ("t-1", made["messageId"], None)
    assert '"inv" : 7.50' in broker.post("/api/v1/fetch", {"entries": [{"queue": "due", "partition": "acct-5", "offset": 0}]}).text
    assert micros(message["createdAt"].replace("Z", "000Z") if len(message["createdAt"]) == 24 else message["createdAt"]) >= \
        micros(made["deliverAt"]) - 1000
    assert peek(broker, "a") == {"found": False, "queue": "due", "timerKey": "a"}
    time.sleep(0.3)
    assert ids(broker, partition="acct-5") == ["t-1"]


def test_a_pending_timer_is_found_and_cancelled(broker):
    """3.6 rule 2, with every field of a peek."""
    made = call(broker, schedule_op("inv/77 é", payload="[1]", partition="p"))[0]
    found = peek(broker, "inv/77 é")
    assert list(found) == ["found", "queue", "timerKey", "partition", "deliverAt", "txn", "messageId", "payload", "payloadZstd", "encrypted",
                           "producerSub", "attempts", "lastError", "claimed", "createdAt", "updatedAt"]
    assert found["createdAt"] == found["updatedAt"] and micros(found["deliverAt"]) - micros(found["createdAt"]) == FAR * 1000
    for field, value in {"found": True, "timerKey": "inv/77 é", "partition": "p", "deliverAt": made["deliverAt"], "txn": made["txn"],
                         "messageId": made["messageId"], "payload": b64("[1]"), "payloadZstd": False, "encrypted": False,
                         "producerSub": None, "attempts": 0, "lastError": None, "claimed": False}.items():
        assert found[field] == value, field
    done = cancel(broker, "inv/77 é", txn="other")
    assert done == {"ok": True, "status": "cancelled", "queue": "due", "timerKey": "inv/77 é", "txn": made["txn"]}
    assert peek(broker, "inv/77 é")["found"] is False
    assert "due" not in [q["name"] for q in broker.get("/api/v1/resources/queues").json()["queues"]]


def test_a_cancel_of_nothing_is_absent(broker):
    """3.6 rule 3: the txn as it was sent, on both routes."""
    shown = {"ok": False, "status": "absent", "queue": "due", "timerKey": "k", "txn": "X"}
    assert cancel(broker, "k", txn="X") == shown
    assert call(broker, cancel_op("k", txn="X"), cancel_op("l")) == [shown, {**shown, "timerKey": "l", "txn": None}]


def test_a_second_schedule_replaces_the_first(broker):
    """3.6 rule 4; TM-1: everything but createdAt; `reschedule` is the same upsert, also of what is not pending."""
    first = call(broker, schedule_op("k", txn="one"))[0]
    created = peek(broker, "k")["createdAt"]
    second = call(broker, schedule_op("k", 2 * FAR, txn="two", payload="2", partition="other"))[0]
    assert (second["status"], second["txn"]) == ("rescheduled", "two") and second["messageId"] != first["messageId"]
    found = peek(broker, "k")
    assert (found["txn"], found["payload"], found["partition"], found["createdAt"]) == ("two", b64("2"), "other", created)
    assert found["deliverAt"] == second["deliverAt"] and found["updatedAt"] > created
    assert call(broker, {**schedule_op("new"), "op": "reschedule"})[0]["status"] == "scheduled"


def test_lists_are_pages_in_key_order(broker):
    """3.6 rule 5, and counts by prefix."""
    call(broker, *[schedule_op(key) for key in ("b", "a/2", "a/1")], schedule_op("x", queue="other"))
    page = broker.get("/api/v1/timers/due", limit=2).json()
    assert list(page) == ["rows", "truncated", "nextAfter"]
    assert [row["timerKey"] for row in page["rows"]] == ["a/1", "a/2"] and "payload" not in page["rows"][0]
    assert (page["truncated"], page["nextAfter"]) == (True, "a/2")
    page = broker.get("/api/v1/timers/due", limit="lots", after=page["nextAfter"]).json()
    assert [row["timerKey"] for row in page["rows"]] == ["b"] and (page["truncated"], page["nextAfter"]) == (False, None)
    assert broker.get("/api/v1/timers/due", mode="count", prefix="a/").json() == {"queue": "due", "prefix": "a/", "count": 2}
    for params, reason in [({"mode": "count"}, "timers_count_prefix_required"),
                           ({"mode": "count", "prefix": "a", "limit": 1}, "timers_count_page_parameters"),
                           ({"mode": "count", "prefix": "a", "after": "a"}, "timers_count_page_parameters"),
                           ({"mode": "count", "prefix": "a\0"}, "timers_count_prefix_invalid"),
                           ({"mode": "count", "prefix": "a" * 129}, "timers_count_prefix_too_long"), ({"mode": "x"}, "timers_read_mode_unknown")]:
        refused(broker.get("/api/v1/timers/due", **params), reason)


def test_what_is_due_already_is_delivered_at_once(broker):
    """3.6 rule 7; TM-5."""
    call(broker, schedule_op("past", -5000), schedule_op("now", 0))
    assert wait_ids(broker, 2) == ["txn-past", "txn-now"]


def test_a_timer_that_is_due_does_not_wait_for_the_tick(make_broker):
    """TM-5, with a tick of an hour."""
    broker = make_broker(QUEEN_RAFT_TIMER_TICK_MS="3600000").start()
    call(broker, schedule_op("k", 0))
    assert wait_ids(broker, 1) == ["txn-k"]


@pytest.mark.parametrize("ends", ["terminate", "kill9"])
def test_pending_timers_survive_a_restart_and_fire_once(make_broker, ends):
    """3.6 rule 9: those still to come and those that came due while nobody ran, in the order in which they were due."""
    broker = make_broker().start()
    call(broker, *[schedule_op(str(n), 2000 - n) for n in range(100)], schedule_op("far"), schedule_op("gone", 2000))
    cancel(broker, "gone")
    getattr(broker, ends)()
    time.sleep(2)
    broker.start()
    assert wait_ids(broker, 100) == [f"txn-{n}" for n in reversed(range(100))]
    assert peek(broker, "far")["found"] and not peek(broker, "gone")["found"]
    getattr(broker, ends)()
    broker.start()
    time.sleep(0.3)
    assert len(ids(broker)) == 100


# ---- 3.2, 3.5 ----

SHAPES = [
    ("", "timers_bad_body"), ("7", "timers_bad_body"), ("{}", "timers_bad_body"), ('{"operations":null}', "timers_bad_body"),
    ([7], "timers_bad_op"), ([{"op": "create"}], "timers_bad_op"), ([{**schedule_op("k"), "op": None}], "timers_bad_op"),
    ([{**schedule_op("k"), "queue": ""}], "timers_queue_required"), ([{**schedule_op("k"), "delayMs": None}], "timers_delay_required"),
    ([{**schedule_op("k"), "payload": None}], "timers_payload_required"), ([{**schedule_op("k"), "payload": "a"}], "timers_payload_not_base64"),
    ([{**schedule_op("k"), "payload": "YQ"}], "timers_payload_not_base64"), ([{**schedule_op("k"), "payload": "-_8="}], "timers_payload_not_base64"),
    ([schedule_op("k", partition="")], None), ([{**schedule_op("k"), "txn": None}], None), ([{**schedule_op("k"), "timerKey": ""}], None),
    ([schedule_op("k"), schedule_op("k")], None), ([schedule_op("k"), cancel_op("k")], None), ([schedule_op("k", payloadZstd=True)], None),
    ([schedule_op("k", "soon")], None), ([cancel_op(str(n)) for n in range(257)], "timers_too_many_ops"),
    *(([{**cancel_op("k"), field: None}], "timers_server_owned_field") for field in ("_a", "producerSub", "messageId", "tenant", "deliverAt",
                                                                                     "attempts", "claimedUntil")),
]


@pytest.mark.parametrize("body,reason", SHAPES, ids=lambda value: str(value)[:50])
def test_one_bad_operation_refuses_the_whole_call(broker, body, reason):
    """3.5; TM-2: nothing of it is there."""
    if isinstance(body, list):
        body = [schedule_op("good"), *body]
    refused(broker.post("/api/v1/timers", body), reason)
    assert broker.get("/api/v1/timers/due").json()["rows"] == []


def test_limits_hold(make_broker):
    """3.5: horizon, payload, operations, names."""
    broker = make_broker(QUEEN_TIMERS_MAX_HORIZON_S="60", QUEEN_TIMERS_MAX_PAYLOAD_BYTES="10", QUEEN_TIMERS_MAX_OPS_PER_CALL="2").start()
    post = lambda *ops: broker.post("/api/v1/timers", list(ops))
    assert post(schedule_op("k", 60_000, payload="1234567890")).status_code == 200
    refused(post(schedule_op("k", 60_000.001)), "timers_horizon", error="timer_horizon_exceeded")
    refused(post(schedule_op("k", payload="12345678901", delay=1)), "timers_payload_too_large", 413, "payload_too_large")
    refused(post(cancel_op("a"), cancel_op("b"), cancel_op("c")), "timers_too_many_ops")
    for op in (cancel_op("k" * 500), schedule_op("k", 1, payload="1", partition="p" * 500), cancel_op("k", "q" * 500)):
        answer = post(op)
        assert (answer.status_code, answer.json()["code"]) == (413, "name_too_long")


def test_an_empty_call_and_a_bare_array(broker):
    assert broker.post("/api/v1/timers", []).json() == {"results": []}
    assert broker.post("/api/v1/timers", [schedule_op("k")]).json()["results"][0]["ok"] is True


def test_a_call_is_one_entry(make_broker):
    """TM-2: two timers of one call stand at one stamp."""
    broker = make_broker().start()
    made = call(broker, schedule_op("a", 1000.25), schedule_op("b", 1000.5))
    assert micros(made[1]["deliverAt"]) - micros(made[0]["deliverAt"]) == 250


def test_payloads_that_are_no_json_reach_consumers_in_base64(broker):
    """3.2: peek shows the bytes; the message is a JSON text all the same."""
    call(broker, schedule_op("raw", 2000, payload=b"\xff\x00"), schedule_op("null", 2001, payload="null"))
    assert peek(broker, "raw")["payload"] == b64(b"\xff\x00")
    wait_ids(broker, 2)
    popped = broker.pop("due", batch=2, subscriptionMode="all")
    assert [message["data"] for message in popped["messages"]] == [{"_raw_b64": b64(b"\xff\x00")}, None]


def test_compressed_payloads_are_stored_plain(broker):
    """3.2 payloadZstd; D2."""
    raw = json.dumps({"text": "x" * 5000}).encode()
    compressed = [zstandard.compress(raw), zstandard.ZstdCompressor(write_content_size=False).compress(raw)]
    call(broker, *[schedule_op(str(n), payload=one, payloadZstd=True) for n, one in enumerate(compressed)])
    for n in range(2):
        found = peek(broker, str(n))
        assert base64.b64decode(found["payload"]) == raw and found["payloadZstd"] is False
    refused(broker.post("/api/v1/timers", [schedule_op("bad", payload=compressed[0][:-1], payloadZstd=True)]))


# ---- 3.4 ----

def test_the_window_of_the_partition_makes_a_fire_a_repeat(broker):
    """TM-7, TM-12."""
    broker.push([{"queue": "due", "partition": "Default", "transactionId": "known", "payload": 0}])
    call(broker, schedule_op("a", 0, txn="known"), schedule_op("b", 0, txn="new"))
    assert wait_ids(broker, 2) == ["known", "new"]
    assert broker.get("/api/v1/timers/due").json()["rows"] == []
    call(broker, schedule_op("b", 0, txn="new"), schedule_op("c", 0, txn="newer"))
    assert wait_ids(broker, 3) == ["known", "new", "newer"]


def test_fires_are_in_due_order_however_many_steps_they_take(make_broker):
    """TM-8: steps of three, per partition and over two."""
    broker = make_broker(QUEEN_RAFT_TIMER_FIRE_BATCH="3").start()
    call(broker, *[schedule_op(str(n), 1500 - n, partition=f"p{n % 2}") for n in range(40)])
    for half in range(2):
        assert wait_ids(broker, 20, partition=f"p{half}") == [f"txn-{n}" for n in reversed(range(half, 40, 2))]


def dead_letters(broker, queue="due") -> list[dict]:
    return broker.get("/api/v1/dlq", queue=queue).json()["messages"]


def give_up_on_a_timer(broker) -> dict:
    """Its dead letter, after another one was cancelled in its backoff."""
    made = call(broker, schedule_op("big", 500, payload="[" + "1," * 5000 + "1]", partition="p"),
                schedule_op("rest", 500, payload="[" + "1," * 5000 + "1]"))
    broker.terminate()
    broker.start(QUEEN_RAFT_ENTRY_MAX_BYTES="4096")
    deadline = time.monotonic() + FIRE_SECONDS
    while (found := peek(broker, "rest"))["attempts"] == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found["lastError"] and found["found"]
    assert cancel(broker, "rest")["status"] == "cancelled"
    while not dead_letters(broker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert peek(broker, "big")["found"] is False
    [letter] = dead_letters(broker)
    shown = {"partition": "p", "consumerGroup": "__timer__", "offset": -1, "messageId": made[0]["messageId"], "transactionId": "txn-big",
             "data": [1] * 5001, "retryCount": 3}
    assert {field: letter[field] for field in shown} == shown
    return letter


FAILING = {"QUEEN_SWEEPER_BACKOFF_MIN_MS": "300", "QUEEN_SWEEPER_MAX_ATTEMPTS": "3", "RETENTION_INTERVAL": "50"}


def test_a_timer_that_can_not_become_a_message_is_a_dead_letter_in_the_end(make_broker):
    """TM-9, TM-10: refused for good, it waits longer each time, is pending meanwhile, and ends as a dead letter."""
    give_up_on_a_timer(make_broker(**FAILING).start())


def test_a_dead_timer_is_listed_and_purged_but_never_replayed(make_broker):
    """TM-9: listing, counts and purge know it, retention leaves it, a replay is refused and leaves it."""
    broker = make_broker(**FAILING).start()
    letter = give_up_on_a_timer(broker)
    answer = broker.post(f"/api/v1/dlq/{letter['id']}/replay", "")
    assert (answer.status_code, answer.json()["reason"], answer.json()["dlqRowRemoved"]) == (409, "timer_dead_letter", False), answer.text
    assert len(dead_letters(broker)) == 1
    [row] = [q for q in broker.get("/api/v1/resources/queues").json()["queues"] if q["name"] == "due"]
    assert row["messages"]["deadLetter"] == 1
    answer = broker.session.delete(broker.url("/api/v1/dlq"), params={"queue": "due"}, timeout=30)
    assert answer.status_code == 200 and dead_letters(broker) == []


def test_switching_encryption_on_leaves_what_is_pending(broker):
    """TM-13; without a key a flagged queue takes no new timer (rulings)."""
    call(broker, schedule_op("before", 1500))
    assert broker.post("/api/v1/configure", {"queue": "due", "options": {"encryptionEnabled": True}}).status_code in (200, 201)
    refused(broker.post("/api/v1/timers", [schedule_op("k", encrypted=True)]), "timers_encrypted_conflict")
    answer = broker.post("/api/v1/timers", [schedule_op("k")])
    assert (answer.status_code, answer.json()["code"]) == (400, "encryption_required")
    assert wait_ids(broker, 1) == ["txn-before"]
    assert peek(broker, "k")["found"] is False


def test_a_full_disk_refuses_schedules_and_no_cancel(make_broker):
    """TM-14 (the hint of a mixed batch) and 507; what is due waits and is not lost."""
    broker = make_broker().start()
    call(broker, schedule_op("a"), schedule_op("due", 1500))
    broker.terminate()
    broker.start(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1")
    deadline = time.monotonic() + FIRE_SECONDS
    while (answer := broker.post("/api/v1/timers", [schedule_op("b"), cancel_op("a")])).status_code != 507 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert answer.status_code == 507 and "DELETE /api/v1/timers/" in answer.headers["x-queen-timers-hint"]
    assert "x-queen-timers-hint" not in broker.post("/api/v1/timers", [schedule_op("b")]).headers
    assert cancel(broker, "a")["status"] == "cancelled"
    time.sleep(1.5)
    assert peek(broker, "due")["attempts"] == 0
    broker.terminate()
    broker.start()
    assert wait_ids(broker, 1) == ["txn-due"]


def test_no_tick_fires_nothing(make_broker):
    broker = make_broker(QUEEN_RAFT_TIMER_TICK_MS="0").start()
    call(broker, schedule_op("k", 0))
    time.sleep(0.5)
    assert peek(broker, "k")["found"] is True


def test_tenants_have_timers_of_their_own(make_broker):
    """TM-8: never grouped across tenants; keys, lists and cancels are the tenant's."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true", QUEEN_KV_REQUIRE_GRANT="false").start()
    made = {}
    for tenant in ("018f2b3c-0000-7000-8000-0000000000aa", "018f2b3c-0000-7000-8000-0000000000bb"):
        broker.session.headers["x-queen-tenant"] = tenant
        made[tenant] = call(broker, schedule_op("far"), schedule_op("k", 1000, txn=tenant))
        assert [one["status"] for one in made[tenant]] == ["scheduled", "scheduled"]
    for tenant in made:
        broker.session.headers["x-queen-tenant"] = tenant
        assert wait_ids(broker, 1) == [tenant]
        assert cancel(broker, "far")["status"] == "cancelled"


def test_timers_are_on_time(broker):
    """TM-3: not before they are due, and soon after it."""
    made = {}
    for batch in range(4):
        for one in call(broker, *[schedule_op(f"{batch}-{n}", 1000 + 5 * n) for n in range(200)]):
            made[one["txn"]] = micros(one["deliverAt"])
    wait_ids(broker, 800)
    late = sorted(micros(record["ts"]) - made[record["transactionId"]] for record in records(broker))
    assert late[0] >= 0
    assert late[int(len(late) * 0.9)] < 2_000_000, late[-20:]


@pytest.mark.parametrize("ends", ["kill9", "terminate"])
def test_at_most_once_and_never_after_a_cancel_over_kills(make_broker, ends):
    """TM-4, TM-11 (cluster.md W10): every timer that was answered fires once or was cancelled, and no other."""
    broker = make_broker(QUEEN_RAFT_DURABLE_EVERY_MS="100").start()
    scheduled, cancelled, unknown = {}, set(), set()
    lock, stop = threading.Lock(), threading.Event()

    def work(worker):
        import requests
        session, number = requests.Session(), 0
        while not stop.is_set():
            number += 1
            key = f"{worker}-{number}"
            try:
                answer = session.post(broker.url("/api/v1/timers"), json=[schedule_op(key, 150 if number % 2 else 400)], timeout=20)
                if answer.status_code != 200:
                    continue
                with lock:
                    scheduled[f"txn-{key}"] = micros(answer.json()["results"][0]["deliverAt"])
                if number % 4 == 0:
                    with lock:
                        unknown.add(f"txn-{key}")
                    answer = session.delete(broker.url(path_of(key)), timeout=20)
                    if answer.status_code == 200:
                        with lock:
                            unknown.discard(f"txn-{key}")
                            if answer.json()["status"] == "cancelled":
                                cancelled.add(f"txn-{key}")
            except requests.RequestException:
                session = requests.Session()
                time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            time.sleep(0.7)
            getattr(broker, ends)()
            broker.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    deadline = time.monotonic() + FIRE_SECONDS
    while broker.get("/api/v1/timers/due").json()["rows"] and time.monotonic() < deadline:
        time.sleep(0.1)
    fired = records(broker)
    names = [record["transactionId"] for record in fired]
    assert len(names) == len(set(names)) and len(cancelled) > 0 and len(names) > 20
    assert not cancelled & set(names)
    assert set(scheduled) - cancelled - unknown <= set(names)
    for record in fired:
        if record["transactionId"] in scheduled:
            assert micros(record["ts"]) >= scheduled[record["transactionId"]]


KEY = "00112233445566778899aabbccddeeff" * 2


def test_an_encrypted_queue_holds_sealed_timers_and_delivers_them_open(make_broker):
    """TM-13, EN-4: sealed at schedule, never opened by a peek, also one that came in a transaction."""
    broker = make_broker(QUEEN_ENCRYPTION_KEY=KEY).start()
    broker.post("/api/v1/configure", {"queue": "due", "options": {"encryptionEnabled": True}})
    call(broker, schedule_op("a", 3000, payload='{"secret":1}'), schedule_op("raw", 3001, payload=b"\xff"))
    answer = broker.post("/api/v1/transaction", {"timers": [schedule_op("b", 3002, payload='{"secret":2}')]})
    assert answer.json()["success"] is True, answer.text
    for key in ("a", "raw", "b"):
        found = peek(broker, key)
        assert found["encrypted"] is True
        assert list(json.loads(base64.b64decode(found["payload"]))) == ["encrypted", "iv", "authTag"]
    refused(broker.post("/api/v1/timers", [schedule_op("c", encrypted=False)]), "timers_encrypted_conflict")
    wait_ids(broker, 3)
    popped = broker.pop("due", batch=3, subscriptionMode="all")
    assert [message["data"] for message in popped["messages"]] == [{"secret": 1}, {"_raw_b64": b64(b"\xff")}, {"secret": 2}]
