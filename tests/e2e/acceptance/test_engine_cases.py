"""Section 16: cases of the engine, one test per number, as far as one node can show them."""

import threading
import time

import pytest
import requests

import wire

ALL = {"subscriptionMode": "all"}


def test_a_claim_excludes_its_group_and_no_other(broker, queue):
    """Engine case 1."""
    wire.push(broker, queue, 1, 2)
    assert len(broker.pop(queue, "p", consumerGroup="one", **ALL)["messages"]) == 2
    assert broker.pop(queue, "p", consumerGroup="one", **ALL) is None
    assert broker.pop(queue, consumerGroup="one", **ALL) is None
    assert wire.data_of(broker.pop(queue, consumerGroup="two", **ALL)) == [1, 2]


def test_twenty_workers_get_each_head_once(broker, queue):
    """Engine case 2: batch 2 over up to 3 partitions, nobody acks."""
    broker.push([{"queue": queue, "partition": f"p{p}", "payload": [p, n]} for p in range(8) for n in range(3)])
    got = []
    for _ in range(20):
        got += wire.data_of(broker.pop(queue, batch=2, partitions=3))
    assert sorted(got) == [[p, n] for p in range(8) for n in range(2)]


def test_a_batch_spans_pushes(broker, queue):
    """Engine case 3."""
    for payloads in ([0, 1], [2], [3, 4]):
        wire.push(broker, queue, *payloads)
    first = broker.pop(queue, batch=4)
    assert wire.offsets_of(first) == [0, 1, 2, 3]
    assert wire.acked(wire.ack(broker, first["messages"]))
    assert wire.offsets_of(broker.pop(queue, batch=4)) == [4]


def test_the_attempt_counts_expiries_and_retries(broker, queue):
    """Engine case 4; the answer that nobody got is test_contract_ack.py's."""
    wire.configure(broker, queue, leaseTime=1)
    wire.push(broker, queue, "m")
    for attempt in (1, 2, 3):
        got = broker.pop(queue, wait="true", timeout=5000)
        assert [message["deliveryAttempt"] for message in got["messages"]] == [attempt]
    wire.ack(broker, got["messages"], "retry")
    assert broker.pop(queue)["messages"][0]["deliveryAttempt"] == 4


@pytest.mark.parametrize("stop", ["kill9", "terminate"])
def test_a_group_registered_by_an_empty_pop_outlives_the_node(make_broker, stop):
    """Engine case 5, with a restart in place of the failover."""
    broker = make_broker().start()
    wire.push(broker, "q", "backlog", partition="old")
    assert broker.pop("q", consumerGroup="g", subscriptionMode="new", partitions=64) is None
    getattr(broker, stop)()
    broker.start()
    wire.push(broker, "q", "fresh", partition="later")
    assert wire.data_of(broker.pop("q", consumerGroup="g", partitions=64)) == ["fresh"]


def test_a_stored_mode_wins_over_that_of_a_pop(broker, queue):
    """Engine case 6: and the cursor is where it was."""
    wire.push(broker, queue, 0, 1, 2)
    first = broker.pop(queue, batch=1, consumerGroup="g", **ALL)
    assert wire.acked(wire.ack(broker, first["messages"], group="g"))
    assert wire.data_of(broker.pop(queue, batch=10, consumerGroup="g", subscriptionMode="new")) == [1, 2]


def test_a_pinned_pop_before_the_registration_hides_no_backlog(broker, queue):
    """Engine case 7."""
    broker.push([{"queue": queue, "partition": name, "payload": name} for name in "abc"])
    assert wire.data_of(broker.pop(queue, "a", consumerGroup="g", **ALL)) == ["a"]
    assert sorted(wire.data_of(broker.pop(queue, partitions=64, consumerGroup="g", **ALL))) == ["b", "c"]


def test_a_pop_begins_where_retention_ended(make_broker):
    """Engine case 8: two of four, then all."""
    broker = make_broker(RETENTION_INTERVAL="50").start()
    wire.configure(broker, "q", retentionEnabled=True, retentionSeconds=2)
    wire.push(broker, "q", 0, 1)
    time.sleep(1.2)
    wire.push(broker, "q", 2, 3)
    wire.until(lambda: wire.bounds(broker, "q") == (2, 4))
    assert wire.offsets_of(broker.pop("q", batch=1, leaseSeconds=1)) == [2]
    wire.until(lambda: wire.bounds(broker, "q") == (4, 4))
    wire.until(lambda: broker.pop("q", "p") is None and wire.next_offset(broker, "q") == 4)
    assert wire.depth(broker, "q")["pending"] == 0


def test_two_groups_that_look_while_a_partition_is_made_both_get_its_first_message(broker, queue):
    """Engine case 9: over twenty partitions, each made while both groups poll."""
    wire.configure(broker, queue)
    got: dict[str, list] = {"one": [], "two": []}
    for group in got:
        assert broker.pop(queue, consumerGroup=group, subscriptionMode="new") is None
    stop = threading.Event()

    def look(group):
        while not stop.is_set() and len(got[group]) < 20:
            params = {"consumerGroup": group, "commitOnDelivery": "true", "partitions": 4, "wait": "true", "timeout": 300}
            answer = requests.get(broker.url(f"/api/v1/pop/queue/{queue}"), params=params, timeout=30)
            got[group] += [message["data"] for message in answer.json()["messages"]] if answer.status_code == 200 else []

    lookers = [threading.Thread(target=look, args=(group,)) for group in got]
    for looker in lookers:
        looker.start()
    for n in range(20):
        wire.push(broker, queue, n, partition=f"p{n}")
    try:
        wire.until(lambda: all(len(rows) == 20 for rows in got.values()))
    finally:
        stop.set()
        for looker in lookers:
            looker.join()
    assert all(sorted(rows) == list(range(20)) for rows in got.values())


def test_a_renewal_after_a_restart_finds_the_lease(make_broker):
    """Engine case 10, with kill -9 in place of the leader change."""
    broker = make_broker().start()
    wire.push(broker, "q", "m")
    got = broker.pop("q", leaseSeconds=5)
    broker.kill9()
    broker.start()
    answer = broker.post(f"/api/v1/lease/{got['leaseId']}/extend", {"seconds": 60}).json()
    assert answer["success"] is True and answer["renewed"] == 1
    assert wire.acked(wire.ack(broker, got["messages"])) and wire.nothing_deliverable(broker, "q")


def test_an_ack_right_after_the_pop_knows_the_partition(broker, queue):
    """Engine case 11, on the one node: fifty partitions, each acked at once on another connection."""
    for n in range(50):
        name = f"p{n}"
        wire.push(broker, queue, n, partition=name)
        message = broker.pop(queue, name)["messages"][0]
        answer = requests.post(broker.url("/api/v1/ack"), timeout=30, json={
            "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"]})
        assert answer.json()[0]["success"] is True, answer.text


@pytest.mark.parametrize("payload", [{"meter": 7, "text": "x" * 20_000}, None, "text"], ids=["large", "null", "text"])
def test_a_dead_letter_carries_its_payload(make_broker, payload):
    """Engine case 12, on the one node: also after the message is gone and the node was killed."""
    broker = make_broker(RETENTION_INTERVAL="50").start()
    wire.configure(broker, "q", retentionEnabled=True, retentionSeconds=1)
    wire.push(broker, "q", payload, ids=["t"])
    wire.ack(broker, broker.pop("q")["messages"], "dlq")
    wire.until(lambda: wire.bounds(broker, "q") == (1, 1))
    broker.kill9()
    broker.start()
    letters = wire.dead_letters(broker, "q")
    assert [(letter["transactionId"], letter["data"], letter["payload"]) for letter in letters] == [("t", payload, payload)]


def test_a_batch_ack_with_one_wrong_lease_acks_the_other_partition(broker, queue):
    """Engine case 13: results in the order of the request."""
    broker.push([{"queue": queue, "partition": name, "payload": name} for name in "ab"])
    messages = broker.pop(queue, partitions=2, batch=10)["messages"]
    rows = [{"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": lease}
            for m, lease in zip(messages, (messages[0]["leaseId"], "01b7c0df-1111-7222-8333-444455556666"))]
    results = broker.post("/api/v1/ack/batch", {"acknowledgments": rows[::-1]}).json()
    assert [row["success"] for row in results] == [False, True]
    assert [row["transactionId"] for row in results] == [messages[1]["transactionId"], messages[0]["transactionId"]]
    assert wire.acked(wire.ack(broker, messages[1:]))


def test_a_transaction_whose_lease_went_to_another_worker_pushes_nothing(broker, queue, other):
    """Engine case 15."""
    wire.configure(broker, queue, leaseTime=1)
    wire.push(broker, queue, "m")
    mine = broker.pop(queue)["messages"][0]
    theirs = broker.pop(queue, wait="true", timeout=5000, leaseSeconds=60)["messages"][0]
    answer = wire.transaction(broker, wire.ack_operation(mine), wire.push_operation(other, "out"))
    assert answer["success"] is False and answer["reason"] == "rejected_ack" and answer["results"] == []
    assert wire.nothing_deliverable(broker, other)
    assert wire.acked(wire.ack(broker, [theirs]))


@pytest.mark.parametrize("fenced,reason", [(True, "rejected_ack"), (False, "duplicate")])
def test_a_transaction_sent_again_says_what_stops_it(broker, queue, other, fenced, reason):
    """Engine case 16, T-5."""
    wire.push(broker, queue, "m")
    message = broker.pop(queue)["messages"][0]
    parts = (wire.ack_operation(message, **({} if fenced else {"leaseId": None})), wire.push_operation(other, "out", ids=["out-m"]))
    assert wire.transaction(broker, *parts)["success"] is True
    again = wire.transaction(broker, *parts)
    assert again["success"] is False and again["reason"] == reason
    assert wire.data_of(broker.pop(other, batch=10)) == ["out"]


def test_one_partition_too_large_fails_alone(make_broker):
    """Engine case 17."""
    broker = make_broker(QUEEN_RAFT_ENTRY_MAX_BYTES="20000").start()
    sizes = {"a": 10, "b": 50_000, "c": 10}
    results = broker.push([{"queue": "q", "partition": name, "payload": "x" * size} for name, size in sizes.items()])
    assert [row["status"] for row in results] == ["queued", "error", "queued"] and "offset" not in results[1]
    assert sorted(message["partition"] for message in broker.pop("q", partitions=64)["messages"]) == ["a", "c"]


def test_a_pass_over_changed_partitions_meets_each_that_existed_once(broker, queue):
    """Engine case 18: while others are being made."""
    before = [f"old-{n}" for n in range(100)]
    broker.push([{"queue": queue, "partition": name, "payload": 1} for name in before])
    stop = threading.Event()

    def grow():
        for n in range(10_000):
            if stop.is_set():
                return
            requests.post(broker.url("/api/v1/push"), timeout=30,
                          json={"items": [{"queue": queue, "partition": f"new-{n}", "payload": 1}]})

    growing = threading.Thread(target=grow)
    growing.start()
    names, after = [], None
    try:
        while True:
            ask = {"entries": [{"queue": queue, "limit": 7, "after": after}]}
            page = broker.post("/api/v1/partitions/changed", ask).json()["entries"][0]
            names += [partition["name"] for partition in page["partitions"]]
            after = page["next"]
            if after is None or len(names) > 5000:
                break
    finally:
        stop.set()
        growing.join()
    assert after is None and len(names) == len(set(names)) and set(before) <= set(names)
