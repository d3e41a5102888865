"""Ack-window suite, one test per number: acks of ids that the broker does not, or no longer, know."""

import re
import time

import pytest

import wire

SETTINGS = {"RETENTION_INTERVAL": "50", "QUEEN_RAFT_TXN_WINDOW_MIN_S": "1"}


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_id_never_pushed_is_unresolvable(broker, queue, status):
    """Ack-window 1: the real batch can be acked afterwards."""
    wire.push(broker, queue, 1, 2)
    messages = broker.pop(queue, batch=10)["messages"]
    refused = wire.ack(broker, messages[:1], status, transactionId="never-pushed")[0]
    assert refused["success"] is False and re.search("unresolv", refused["error"], re.IGNORECASE)
    assert wire.acked(wire.ack(broker, messages)) and wire.nothing_deliverable(broker, queue)


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_retained_message_is_acked_after_its_dedup_data_went(broker, queue, status):
    """Ack-window 2: ids of retained messages come from the log, so this succeeds, and not by word only."""
    wire.configure(broker, queue, dedupWindowSeconds=1, retryLimit=0)
    wire.push(broker, queue, 1, ids=["early"])
    message = broker.pop(queue)["messages"][0]
    wire.until(lambda: wire.push(broker, queue, "again", ids=["early"], partition="p")[0]["status"] == "queued")
    time.sleep(1.2)  # the rows of the id go after their window, in a round of their own
    result = wire.ack(broker, [message], status)[0]
    assert result["success"] is True and result["dlq"] is (status == "failed")
    rest = broker.pop(queue, batch=10)
    assert wire.data_of(rest) == ["again"]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_no_ack_is_silently_successful_once_message_and_id_are_gone(broker, queue, status):
    """Ack-window 2: retention took the leased message and its id; either it says so, or it moves the cursor."""
    wire.configure(broker, queue, retentionEnabled=True, retentionSeconds=1, dedupWindowSeconds=1, retryLimit=3)
    wire.push(broker, queue, 1, 2, 3)
    messages = broker.pop(queue, batch=10)["messages"]
    wire.until(lambda: wire.bounds(broker, queue) == (3, 3))
    time.sleep(1.5)
    result = wire.ack(broker, messages[2:], status)[0]
    if result["success"]:
        assert status == "completed" and wire.next_offset(broker, queue) == 3
    else:
        assert "unresolvable" in result["error"]
        assert wire.next_offset(broker, queue) is None


def test_a_pop_passes_what_retention_took(broker, queue):
    """Ack-window 3, S-6."""
    wire.configure(broker, queue, retentionEnabled=True, retentionSeconds=1)
    wire.push(broker, queue, *range(6))
    assert wire.acked(wire.ack(broker, broker.pop(queue, batch=2)["messages"]))
    wire.until(lambda: wire.bounds(broker, queue) == (6, 6))
    assert broker.pop(queue, "p", batch=10) is None
    assert wire.next_offset(broker, queue) == 6 and wire.depth(broker, queue)["pending"] == 0


def test_a_pop_passes_no_message_that_is_only_delayed(broker, queue):
    """Ack-window 4."""
    wire.configure(broker, queue, retentionEnabled=True, retentionSeconds=60, delayedProcessing=30)
    wire.push(broker, queue, *range(6))
    assert broker.pop(queue, "p", batch=10) is None
    assert wire.next_offset(broker, queue) is None and wire.depth(broker, queue)["pending"] == 6
    wire.configure(broker, queue, delayedProcessing=0)
    assert wire.data_of(broker.pop(queue, "p", batch=10)) == list(range(6))
