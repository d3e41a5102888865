"""Retention suite, one test per number, with times as short as the options allow."""

import wire

SETTINGS = {"RETENTION_INTERVAL": "50"}


def gone_within(broker, queue, seconds):
    wire.until(lambda: all(wire.bounds(broker, queue, f"p{n}") == (10, 10) for n in range(10)), seconds)
    assert wire.nothing_deliverable(broker, queue)
    assert wire.nothing_deliverable(broker, queue, consumerGroup="g", subscriptionMode="all")


def push_a_hundred(broker, queue):
    for _ in range(10):
        broker.push([{"queue": queue, "partition": f"p{n}", "payload": {"n": n}} for n in range(10)])


def test_messages_never_consumed_go_after_their_retention(broker, queue):
    """Retention 1."""
    wire.configure(broker, queue, retentionEnabled=True, retentionSeconds=2, completedRetentionSeconds=1)
    push_a_hundred(broker, queue)
    assert wire.bounds(broker, queue, "p0") == (0, 10)
    gone_within(broker, queue, 6)


def test_messages_go_after_the_longest_wait(broker, queue):
    """Retention 2: without `retentionEnabled`."""
    wire.configure(broker, queue, maxWaitTimeSeconds=2)
    push_a_hundred(broker, queue)
    assert wire.bounds(broker, queue, "p0") == (0, 10)
    gone_within(broker, queue, 6)
