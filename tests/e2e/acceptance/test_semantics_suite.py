"""Semantics suite, one test per number."""

import time

import wire
from published_client import make, payloads, pinned, push, with_client


def leased(broker, queue, *payloads, **params):
    """Pushes to one partition and leases all of it."""
    wire.push(broker, queue, *payloads)
    messages = broker.pop(queue, batch=100, **params)["messages"]
    assert [message["data"] for message in messages] == list(payloads)
    return messages


def redelivered(broker, queue, **params):
    """What comes when the lease of a second has passed."""
    return wire.data_of(broker.pop(queue, batch=100, wait="true", timeout=3000, **params))


def test_the_last_ack_finishes_the_batch(broker, queue):
    """Semantics 1."""
    wire.configure(broker, queue, leaseTime=1)
    messages = leased(broker, queue, *range(5))
    assert wire.acked(wire.ack(broker, messages[4:]))
    time.sleep(1.3)
    assert wire.nothing_deliverable(broker, queue)


def test_an_ack_in_the_middle_leaves_the_rest(broker, queue):
    """Semantics 2."""
    wire.configure(broker, queue, leaseTime=1)
    messages = leased(broker, queue, "a", "b", "c")
    assert wire.acked(wire.ack(broker, messages[1:2]))
    assert wire.nothing_deliverable(broker, queue)
    assert redelivered(broker, queue) == ["c"]


def test_retries_file_nothing_and_failures_do(broker, queue):
    """Semantics 3: on a queue that nobody configured."""
    wire.push(broker, queue, "m")
    for _ in range(6):
        assert wire.acked(wire.ack(broker, broker.pop(queue)["messages"], "retry"))
    assert wire.dead_letters(broker, queue) == []
    failures = 0
    while (got := broker.pop(queue)) is not None:
        assert wire.acked(wire.ack(broker, got["messages"], "failed"))
        failures += 1
        assert failures <= 4
    assert failures == 4 and [letter["data"] for letter in wire.dead_letters(broker, queue)] == ["m"]


def test_a_dlq_ack_files_on_the_first_delivery(broker, queue):
    """Semantics 4."""
    messages = leased(broker, queue, "m")
    assert wire.ack(broker, messages, "dlq", error="meter offline")[0]["dlq"] is True
    letters = wire.dead_letters(broker, queue)
    assert [(letter["data"], letter["errorMessage"]) for letter in letters] == [("m", "meter offline")]
    assert wire.nothing_deliverable(broker, queue)


def test_expiries_spend_nothing_of_the_budget(broker, queue):
    """Semantics 5."""
    wire.configure(broker, queue, leaseTime=1, retryLimit=2)
    leased(broker, queue, "m")
    for _ in range(4):
        assert redelivered(broker, queue) == ["m"]
    assert wire.dead_letters(broker, queue) == []
    for failure in range(3):
        got = broker.pop(queue, wait="true", timeout=3000)
        assert got is not None, f"filed before failure {failure}"
        wire.ack(broker, got["messages"], "failed")
    assert wire.nothing_deliverable(broker, queue)
    assert len(wire.dead_letters(broker, queue)) == 1


def test_an_expired_lease_fences_and_no_lease_does_not(broker, queue, other):
    """Semantics 6."""
    for name in (queue, other):
        wire.configure(broker, name, leaseTime=1)
    bare, fenced = leased(broker, queue, "bare"), leased(broker, other, "fenced")
    time.sleep(1.3)
    assert wire.acked(wire.ack(broker, bare, leaseId=None))
    assert wire.nothing_deliverable(broker, queue)
    refused = wire.ack(broker, fenced)[0]
    assert refused["success"] is False and "lease" in refused["error"]
    assert redelivered(broker, other) == ["fenced"]


@with_client()
async def test_a_group_in_mode_new_gets_all_of_a_later_partition(client, queue):
    """Semantics 7."""
    await push(client, queue, {"data": "backlog"}, partition="a")
    group = pinned(client, queue, 10, 10).group("late").subscription_mode("new")
    assert await group.pop() == []
    await push(client, queue, {"data": "fresh"}, partition="b")
    assert payloads(await group.pop()) == ["fresh"]


@with_client()
async def test_queue_mode_knows_no_mode_new(client, queue):
    """Semantics 8."""
    await push(client, queue, *[{"data": n} for n in range(5)], partition="p")
    assert payloads(await pinned(client, queue, 10).subscription_mode("new").pop()) == list(range(5))


def test_a_lapsed_lease_goes_to_the_next_worker(broker, queue):
    """Semantics 9: B waits, and nobody pushes."""
    wire.configure(broker, queue, leaseTime=1)
    wire.push(broker, queue, "m")
    params = {"consumerGroup": "workers", "subscriptionMode": "all"}
    held = broker.pop(queue, **params)["messages"][0]
    assert broker.pop(queue, **params) is None
    got = broker.pop(queue, wait="true", timeout=5000, **params)
    assert [message["id"] for message in got["messages"]] == [held["id"]]
    assert got["messages"][0]["deliveryAttempt"] == 2


@with_client()
async def test_a_queue_made_by_a_push_is_found_by_its_label(client, queue):
    """Semantics 10."""
    name = f"ns{queue}.taskA.q"
    await client.queue(name).push({"data": "found"})
    rows = {row["name"]: row for row in (await client.admin.list_queues())["queues"]}
    assert rows[name]["namespace"] == f"ns{queue}" and rows[name]["task"] == "taskA"
    discovery = client.queue().namespace(f"ns{queue}").group("g").subscription_mode("all").autopilot(False).batch(10).wait(False)
    messages = await discovery.pop()
    assert payloads(messages) == ["found"]
    assert (await client.ack(messages, True, {"group": "g"}))["success"] is True
    assert await discovery.pop() == []


@with_client()
async def test_the_detail_of_a_message_by_the_id_of_its_pop(client, queue):
    """Semantics 11."""
    await make(client, queue, lease_time=17)
    await push(client, queue, {"transactionId": "t-1", "data": {"n": 1}}, partition="p")
    message = (await pinned(client, queue).group("g").subscription_mode("all").pop())[0]
    detail = await client.admin.get_message(message["partitionId"], "t-1")
    wanted = ("id", "transactionId", "partitionId", "partition", "queue", "queuePath", "namespace", "task", "status", "payload",
              "createdAt", "retryCount", "queueConfig", "consumerGroups")
    assert [name for name in wanted if name not in detail] == []
    assert detail["id"] == message["id"] and detail["transactionId"] == "t-1" and detail["payload"] == {"n": 1}
    assert detail["queue"] == queue and detail["partition"] == "p" and detail["queuePath"] == f"{queue}/p"
    assert detail["status"] == "processing" and detail["retryCount"] == 0
    assert detail["queueConfig"]["leaseTime"] == 17 and [group["name"] for group in detail["consumerGroups"]] == ["g"]


@with_client()
async def test_statuses_keep_their_meaning_in_a_transaction(client, queue):
    """Semantics 12."""
    await make(client, queue, retry_limit=2)
    await client.queue(queue).push({"data": "m"})
    for _ in range(5):
        message = (await pinned(client, queue).pop())[0]
        assert (await client.transaction().ack(message, "retry").commit())["success"] is True
    assert (await client.queue(queue).dlq().get())["total"] == 0
    message = (await pinned(client, queue).pop())[0]
    await client.transaction().ack(message, "dlq").commit()
    letters = await client.queue(queue).dlq().get()
    assert letters["total"] == 1 and payloads(letters["messages"]) == ["m"]
    assert await pinned(client, queue).pop() == []


def test_the_lease_of_a_pop_wins_over_the_queues(broker, queue):
    """Semantics 13."""
    wire.configure(broker, queue, leaseTime=60)
    leased(broker, queue, "m", leaseSeconds=1)
    started = time.monotonic()
    assert redelivered(broker, queue) == ["m"] and time.monotonic() - started < 2.5
