"""What an operator and an allowance hold back of timers (api-state.md 3.5), and timers by the published client."""

import asyncio
import base64
import json
import time
import uuid

from published_client import with_client
from test_timers import FAR, call, cancel, cancel_op, peek, refused, schedule_op, wait_ids


def switch(broker, **switches) -> None:
    answer = broker.post("/api/v1/system/kv-timers", switches)
    assert answer.status_code == 200, answer.text


def test_an_operator_pauses_schedules_and_nothing_else(broker):
    """3.5: timers_disabled; TM-14: the hint of a mixed batch."""
    call(broker, schedule_op("a"), schedule_op("due", 1500))
    switch(broker, timersSchedule=False)
    answer = broker.post("/api/v1/timers", [schedule_op("b")])
    refused(answer, status=503, error="timers_disabled")
    assert answer.headers["Retry-After"] == "1" and "x-queen-timers-hint" not in answer.headers
    answer = broker.post("/api/v1/timers", [schedule_op("b"), cancel_op("a")])
    refused(answer, status=503, error="timers_disabled")
    assert "DELETE /api/v1/timers/" in answer.headers["x-queen-timers-hint"]
    answer = broker.post("/api/v1/transaction", {"timers": [schedule_op("b")]})
    assert (answer.status_code, answer.json()["success"], answer.json()["reason"]) == (403, False, "timers_disabled")
    assert peek(broker, "a")["found"] and call(broker, cancel_op("a"))[0]["status"] == "cancelled"
    assert wait_ids(broker, 1) == ["txn-due"]
    switch(broker, timersSchedule=True)
    call(broker, schedule_op("b"))


def test_an_operator_pauses_the_fire_and_the_backlog_drains_oldest_first(broker):
    """3.5: nothing is lost."""
    switch(broker, timersFire=False)
    call(broker, schedule_op("b", 200), schedule_op("a", 100), schedule_op("now", 0))
    time.sleep(0.6)
    assert len(broker.get("/api/v1/timers/due").json()["rows"]) == 3
    switch(broker, timersFire=True)
    assert wait_ids(broker, 3) == ["txn-now", "txn-a", "txn-b"]


def test_a_tenant_has_an_allowance_of_pending_timers_and_a_horizon(broker):
    """3.5: timers_quota_exceeded, timer_horizon_exceeded by the tenant's own."""
    answer = broker.post("/api/v1/system/quota", {"kind": "kv", "maxTimers": 2, "maxTimerHorizonSeconds": 3600})
    assert answer.status_code == 200, answer.text
    refused(broker.post("/api/v1/timers", [schedule_op("a", 3_600_001)]), error="timer_horizon_exceeded")
    answer = broker.post("/api/v1/transaction", {"timers": [schedule_op("a", 3_600_001)]})
    assert (answer.status_code, answer.json()["success"], answer.json()["reason"]) == (200, False, "bad_request")
    call(broker, schedule_op("a", 1_000_000), schedule_op("b", 1_000_000))
    refused(broker.post("/api/v1/timers", [schedule_op("c", 1_000_000), schedule_op("d", 1_000_000)]), status=403, error="timers_quota_exceeded")
    assert cancel(broker, "a")["status"] == "cancelled"


# ---- the published client ----

@with_client()
async def test_client_schedules_peeks_lists_and_cancels(client):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    made = await client.timers.schedule(queue, "a/1", {"n": 1}, delay_ms=FAR)
    assert made and made["status"] == "scheduled"
    assert (await client.timers.reschedule(queue, "a/1", {"n": 2}, delay_ms=FAR))["status"] == "rescheduled"
    found = await client.timers.peek(queue, "a/1")
    assert json.loads(base64.b64decode(found["payload"])) == {"n": 2}
    results = await client.timers.batch([client.timers.op.schedule(queue, str(n), n, delay_ms=FAR) for n in range(5)])
    assert all(results)
    page = await client.timers.list(queue, limit=2)
    assert [row["timerKey"] for row in page["rows"]] == ["0", "1"] and page["truncated"]
    rows = await client.timers.list_all(queue, limit=2)
    assert [row["timerKey"] for row in rows] == ["0", "1", "2", "3", "4", "a/1"]
    assert await client.timers.cancel(queue, "a/1")
    absent = await client.timers.cancel(queue, "a/1", txn="sent")
    assert not absent and absent["txn"] == "sent"
    assert not await client.timers.peek(queue, "a/1")


@with_client()
async def test_client_gets_what_its_builder_scheduled(client):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    made = await client.timer(queue).key("k").payload({"n": 1}).after_ms(200).partition("p").txn("t").schedule()
    assert made["txn"] == "t"
    builder = client.timer(queue).key("l").payload("text").after_ms(FAR)
    assert (await builder.schedule())["status"] == "scheduled"
    assert (await builder.reschedule())["status"] == "rescheduled"
    assert (await builder.cancel())["status"] == "cancelled"
    for _ in range(100):
        messages = await client.queue(queue).partition("p").autopilot(False).subscription_mode("all").wait(False).pop()
        if messages:
            break
        await asyncio.sleep(0.05)
    assert [(m["transactionId"], m["data"], m["id"]) for m in messages] == [("t", {"n": 1}, made["messageId"])]
