"""Configure and its options, rule by rule: api-messaging.md 10.1, 10.2, 10.4."""

import time

import pytest
import requests

INTEGERS = {"leaseTime": 300, "retryLimit": 3, "dedupWindowSeconds": 3600, "delayedProcessing": 0, "windowBuffer": 0, "windowBufferMaxSeconds": 0, "retentionSeconds": 0,
            "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "retentionSinkHoldMaxSeconds": 604800, "priority": 0, "retryDelay": 1000,
            "ttl": 3600, "maxSize": 0, "minPopWaitTime": 0}
BOOLEANS = {"deadLetterQueue": True, "dlqAfterMaxRetries": True, "retentionEnabled": False, "encryptionEnabled": False}
OTHERS = {"maxQueueSize": 0, "retentionSinkHold": ""}


def item(queue="q", **more):
    return {"queue": queue, "partition": "p", "payload": 1, **more}


def configure(broker, queue="q", **body):
    answer = broker.post("/api/v1/configure", {"queue": queue, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def row(broker, queue="q"):
    return broker.get(f"/api/v1/resources/queues/{queue}").json()


def test_defaults_by_configure_and_by_push(broker):
    """10.2: a configured queue leases 300 s, one that a push makes 60 s; the rest is alike."""
    assert configure(broker)["options"] == {**INTEGERS, **BOOLEANS, **OTHERS}
    broker.push([item("ns.task.more")])
    made = row(broker, "ns.task.more")
    assert made["options"] == {**INTEGERS, **BOOLEANS, **OTHERS, "leaseTime": 60}
    assert (made["namespace"], made["task"]) == ("ns", "task")
    # Configuring it later keeps what it has.
    assert configure(broker, "ns.task.more", options={"retryLimit": 1})["options"]["leaseTime"] == 60


@pytest.mark.parametrize("name", INTEGERS)
def test_every_integer_is_kept_restored_and_checked(broker, name):
    """10.1: merge keeps, null restores the default, anything but a 32-bit JSON integer is refused and changes nothing."""
    value = 61 if name == "retentionSinkHoldMaxSeconds" else 7
    assert configure(broker, options={name: value})["options"][name] == value
    assert configure(broker, options={})["options"][name] == value
    for wrong in (1.5, "7", True, [7], {}, 2**31, -(2**31) - 1):
        beside = {"encryptionEnabled": True}
        answer = broker.post("/api/v1/configure", {"queue": "q", "options": {**beside, name: wrong}})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request") and name in answer.json()["error"], wrong
    assert row(broker)["options"][name] == value and row(broker)["options"]["encryptionEnabled"] is False
    assert configure(broker, options={name: None})["options"][name] == INTEGERS[name]


@pytest.mark.parametrize("name", BOOLEANS)
def test_every_boolean_is_kept_restored_and_checked(broker, name):
    """10.1."""
    other = not BOOLEANS[name]
    assert configure(broker, options={name: other})["options"][name] is other
    for wrong in (0, 1, "true", []):
        answer = broker.post("/api/v1/configure", {"queue": "q", "options": {name: wrong}})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request") and name in answer.json()["error"]
    assert row(broker)["options"][name] is other
    assert configure(broker, options={name: None})["options"][name] is BOOLEANS[name]


def test_texts(broker):
    """10.1, 10.2: labels at the top when filled, `options` win, null restores; the sink's name has its characters."""
    first = configure(broker, namespace="top", task="t", options={"namespace": "inside", "retentionSinkHold": "A-z_0.9"})
    assert (first["namespace"], first["task"], first["options"]["retentionSinkHold"]) == ("inside", "t", "A-z_0.9")
    assert configure(broker, namespace="", task=None)["namespace"] == "inside"
    again = configure(broker, options={"namespace": None, "retentionSinkHold": None})
    assert (again["namespace"], again["task"], again["options"]["retentionSinkHold"]) == ("", "t", "")
    for wrong in ({"namespace": 7}, {"options": {"task": 7}}, {"options": {"retentionSinkHold": 7}}, {"options": {"retentionSinkHold": "ä"}}, {"options": 7}, {"options": []}):
        answer = broker.post("/api/v1/configure", {"queue": "q", **wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request"), wrong


def test_unknown_names_are_ignored(broker):
    """10.1: also beside `queue` when there is no `options`."""
    assert configure(broker, leaseTime=7, nonsense=[1], options=None)["options"]["leaseTime"] == 7
    assert configure(broker, leaseTime=9, options={"nonsense": {}})["options"]["leaseTime"] == 7


@pytest.mark.parametrize("body,status,code", [("{", 400, "bad_body"), ("[]", 400, "bad_body"), ("7", 400, "bad_body"), ("", 400, "bad_body"), ("{}", 400, "bad_request"),
                                              ('{"queue":7}', 400, "bad_request"), ('{"queue":""}', 400, "bad_request"), ('{"queue":null}', 400, "bad_request"),
                                              ('{"queue":"%s"}' % ("q" * 412), 413, "name_too_long"), ('{"queue":"q","mode":"merged"}', 400, "bad_request"),
                                              ('{"queue":"q","mode":1}', 400, "bad_request")])
def test_bodies_that_are_refused(broker, body, status, code):
    """10.1, 1.4, 1.5."""
    answer = broker.post("/api/v1/configure", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []


def test_repeating_it_gives_the_same_queue(broker):
    """Q-1, Q-3: also under `replace`, and over a restart."""
    first = configure(broker, options={"leaseTime": 9})
    created = row(broker)["createdAt"]
    for body in ({"options": {"leaseTime": 9}}, {"mode": "replace"}, {"options": {"ttl": 1}}):
        assert configure(broker, **body)["queueId"] == first["queueId"]
    broker.kill9()
    broker.start()
    assert configure(broker)["queueId"] == first["queueId"] and row(broker)["createdAt"] == created
    assert row(broker)["partitions"] == []


def test_changes_apply_to_what_is_there_but_not_to_running_leases(broker):
    """Q-2."""
    configure(broker, options={"leaseTime": 2})
    broker.push([item(payload=n) for n in range(2)])
    broker.pop("q", batch=1)
    configure(broker, options={"leaseTime": 3600})
    assert broker.pop("q", wait="true", timeout=8000)["messages"][0]["deliveryAttempt"] == 2
    assert broker.pop("q") is None


def test_numbers_below_their_least_act_as_the_least(broker):
    """10.2: leaseTime < 1 is 1, retryLimit < 0 is 0, dedupWindowSeconds < 0 is off, minPopWaitTime is clamped."""
    options = configure(broker, options={"leaseTime": -5, "retryLimit": -1, "dedupWindowSeconds": -1, "minPopWaitTime": -1})["options"]
    assert (options["dedupWindowSeconds"], options["minPopWaitTime"]) == (0, 0)
    assert [broker.push([item(transactionId="t")])[0]["status"] for _ in range(2)] == ["queued", "queued"]
    broker.pop("q", batch=1)
    assert broker.pop("q") is None
    began = time.monotonic()
    popped = broker.pop("q", batch=1, wait="true", timeout=8000)
    assert popped["messages"][0]["deliveryAttempt"] == 2 and time.monotonic() - began < 4
    assert broker.ack_all(popped, status="failed")[0]["dlq"] is True


def test_dead_letters_are_off_only_when_both_switches_are(broker):
    """10.2."""
    for n, (one, two, kept) in enumerate(((True, False, 1), (False, True, 1), (False, False, 0))):
        queue = f"q{n}"
        configure(broker, queue, options={"retryLimit": 0, "deadLetterQueue": one, "dlqAfterMaxRetries": two})
        broker.push([item(queue)])
        broker.ack_all(broker.pop(queue), status="failed")
        assert row(broker, queue)["totals"]["deadLetter"] == kept and broker.pop(queue) is None


def test_a_deleted_queue_has_no_options_left(broker):
    """Q-4: made again it has the defaults and another id, and its numbers are its own."""
    first = configure(broker, options={"leaseTime": 9})
    broker.push([item(payload=n) for n in range(3)])
    old = row(broker)["partitions"][0]["id"]
    requests.delete(broker.url("/api/v1/resources/queues/q"), timeout=30)
    assert broker.get("/api/v1/resources/queues/q").status_code == 404
    again = configure(broker)
    assert again["queueId"] != first["queueId"] and again["options"]["leaseTime"] == 300
    broker.push([item()])
    new = row(broker)
    assert new["partitions"][0]["id"] != old and new["totals"]["total"] == 1 and new["retainedBytes"] < 1000
