"""Conflation, window and delay, autopilot and deduplication: what api-state.md 7 to 10 says beside the message plane's contract."""

import time
import uuid

import pytest


@pytest.fixture
def queue():
    return f"time-{uuid.uuid4()}"


def push(broker, queue, *payloads, partition="p", ids=None):
    items = [{"queue": queue, "partition": partition, "payload": payload} for payload in payloads]
    for item, given in zip(items, ids or []):
        item["transactionId"] = given
    return broker.push(items)


def configure(broker, queue, **options):
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status_code == 201, answer.text


def data(popped):
    return [message["data"] for message in popped["messages"]] if popped else []


def conflating(broker, queue, **more):
    return broker.pop(queue, consumerGroup="g", conflation="true", subscriptionMode="all", batch=100, **more)


def test_a_nack_of_a_conflated_message_brings_the_newest_then(broker, queue):
    push(broker, queue, 1, 2, 3)
    first = conflating(broker, queue)
    assert data(first) == [3] and first["messages"][0]["deliveryAttempt"] == 1
    push(broker, queue, 4)
    assert broker.ack_all(first, group="g", status="failed")[0]["success"] is True
    again = conflating(broker, queue)
    assert data(again) == [4] and again["messages"][0]["deliveryAttempt"] == 2
    broker.ack_all(again, group="g")
    assert data(conflating(broker, queue)) == []


def test_a_thousand_messages_are_one_for_the_conflating_group_and_all_for_others(broker, queue):
    push(broker, queue, *range(1000))
    only = conflating(broker, queue)
    assert data(only) == [999] and only["conflation"] is True
    broker.ack_all(only, group="g")
    assert data(conflating(broker, queue)) == []
    other = broker.pop(queue, consumerGroup="h", subscriptionMode="all", batch=1000)
    assert data(other) == list(range(1000)) and "conflation" not in other
    assert len(broker.fetch_all(queue, "p")) == 1000


def test_a_conflated_claim_is_one_of_the_batch(broker, queue):
    for name in ("a", "b", "c"):
        push(broker, queue, f"{name}1", f"{name}2", partition=name)
    popped = broker.pop(queue, consumerGroup="g", conflation="true", subscriptionMode="all", batch=2, partitions=3)
    assert len(data(popped)) == 2 and all(payload.endswith("2") for payload in data(popped))


def test_an_expired_lease_inside_a_window_waits_for_the_window(broker, queue):
    """The window is looked at before the lease: what came back by its lease is not handed out while the window runs."""
    configure(broker, queue, leaseTime=1, windowBuffer=0)
    push(broker, queue, 1)
    assert data(broker.pop(queue, "p")) == [1]
    configure(broker, queue, leaseTime=1, windowBuffer=3)
    push(broker, queue, 2)
    time.sleep(1.5)
    assert broker.pop(queue, "p") is None
    began = time.monotonic()
    assert data(broker.pop(queue, "p", wait="true", timeout=10000, batch=9)) == [1, 2]
    assert 0.5 < time.monotonic() - began < 5


def test_a_lease_inside_a_delay_comes_first(broker, queue):
    configure(broker, queue, leaseTime=30)
    push(broker, queue, 1)
    assert data(broker.pop(queue, "p")) == [1]
    configure(broker, queue, leaseTime=30, delayedProcessing=1)
    push(broker, queue, 2)
    time.sleep(1.3)
    assert broker.pop(queue, "p") is None  # the lease holds, though nothing is delayed any more


def test_reads_by_offset_ignore_delay_and_window(broker, queue):
    configure(broker, queue, delayedProcessing=60, windowBuffer=60)
    push(broker, queue, 1, 2)
    assert [record["value"] if "value" in record else record["payload"] for record in broker.fetch_all(queue, "p")] == [1, 2]
    assert broker.pop(queue, "p", batch=9) is None


def test_partitions_of_an_autopilot_pop_share_one_lease(broker, queue):
    for name in ("a", "b", "c"):
        push(broker, queue, name, partition=name)
    popped = broker.pop(queue, autopilot="true")
    assert sorted(data(popped)) == ["a", "b", "c"] and popped["partitionsClaimed"] == 3
    assert {message["leaseId"] for message in popped["messages"]} == {popped["leaseId"]}


def test_a_value_that_was_sent_is_never_changed_by_autopilot(broker, queue):
    for name in ("a", "b", "c"):
        push(broker, queue, 1, 2, 3, partition=name)
    popped = broker.pop(queue, autopilot="true", batch=2, partitions=1)
    assert len(data(popped)) == 2 and popped["partitionsClaimed"] == 1


def test_a_pinned_pop_ignores_autopilot(broker, queue):
    push(broker, queue, 1, 2)
    popped = broker.pop(queue, "p", autopilot="true")
    assert data(popped) == [1] and "autopilot" not in popped
    assert broker.get(f"/api/v1/pop/queue/{queue}-none", autopilot="true").content == b""


def test_the_payload_is_no_part_of_the_key(broker, queue):
    first = push(broker, queue, "one", ids=["x"])[0]
    second = push(broker, queue, "two", ids=["x"])[0]
    assert (first["status"], second["status"]) == ("queued", "duplicate")
    assert (second["message_id"], second["offset"]) == (first["message_id"], 0)
    assert data(broker.pop(queue, "p", batch=9)) == ["one"]


def test_without_an_id_nothing_matches(broker, queue):
    answers = push(broker, queue, "same", "same") + push(broker, queue, "same")
    assert [answer["status"] for answer in answers] == ["queued"] * 3
    assert len({answer["transaction_id"] for answer in answers}) == 3


def test_others_of_the_request_keep_gapless_offsets(broker, queue):
    push(broker, queue, 1, ids=["a"])
    answers = push(broker, queue, 2, 3, 4, ids=["b", "a", "c"])
    assert [(a["status"], a["offset"]) for a in answers] == [("queued", 1), ("duplicate", 0), ("queued", 2)]


def test_a_wider_window_matches_older_ids_again(broker, queue):
    configure(broker, queue, dedupWindowSeconds=1)
    push(broker, queue, 1, ids=["x"])
    time.sleep(1.2)
    assert push(broker, queue, 2, ids=["x"])[0]["status"] == "queued"
    configure(broker, queue, dedupWindowSeconds=3600)
    repeat = push(broker, queue, 3, ids=["x"])[0]
    assert (repeat["status"], repeat["offset"]) == ("duplicate", 0)  # the lowest inside the window


def test_an_id_repeated_in_a_transaction_is_stored_once(broker, queue):
    item = {"queue": queue, "partition": "p", "payload": 1, "transactionId": "x"}
    answer = broker.post("/api/v1/transaction", {"operations": [{"type": "push", "items": [item, {**item, "payload": 2}]}]}).json()
    assert answer["success"] is True and answer["results"][1]["duplicate"] is True
    assert data(broker.pop(queue, "p", batch=9)) == [1]
