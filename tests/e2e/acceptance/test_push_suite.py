"""Push suite: what live suites of the published clients assert of a push, one test per number."""

import asyncio
import json
import time
import uuid

import pytest

import wire
from published_client import make, payloads, pinned, push, statuses, with_client


@with_client()
async def test_one_object_is_queued_and_popped(client, queue):
    """Push 1."""
    await make(client, queue)
    assert statuses(await client.queue(queue).push({"data": {"meter": "é", "kwh": 12.5}})) == ["queued"]
    assert payloads(await pinned(client, queue).pop()) == [{"meter": "é", "kwh": 12.5}]


@with_client()
async def test_an_id_is_a_duplicate_in_its_partition_only(client, queue):
    """Push 2."""
    await make(client, queue)
    item = {"transactionId": "one", "data": 1}
    for partition in (None, "named"):
        assert statuses(await push(client, queue, item, partition=partition)) == ["queued"]
        assert statuses(await push(client, queue, item, partition=partition)) == ["duplicate"]
    assert statuses(await push(client, queue, item, partition="third")) == ["queued"]


@with_client()
async def test_a_duplicate_with_another_payload_has_the_message_id_of_the_first(client, queue):
    """Push 3: and the first payload stays."""
    await make(client, queue)
    first = (await push(client, queue, {"transactionId": "one", "data": "first"}))[0]
    again = (await push(client, queue, {"transactionId": "one", "data": "second"}))[0]
    assert again["status"] == "duplicate" and again["message_id"] == first["message_id"]
    assert payloads(await pinned(client, queue, 10).pop()) == ["first"]


@with_client()
async def test_three_items_of_one_new_id_are_one_message(client, queue):
    """Push 4."""
    await make(client, queue)
    results = await push(client, queue, *[{"transactionId": "same", "data": n} for n in range(3)])
    assert statuses(results) == ["queued", "duplicate", "duplicate"]
    assert len({result["message_id"] for result in results}) == 1


@with_client()
async def test_two_items_of_a_stored_id_name_the_stored_message(client, queue):
    """Push 5."""
    await make(client, queue)
    stored = (await push(client, queue, {"transactionId": "same", "data": 0}))[0]
    results = await push(client, queue, *[{"transactionId": "same", "data": n} for n in (1, 2)])
    assert statuses(results) == ["duplicate", "duplicate"]
    assert {result["message_id"] for result in results} == {stored["message_id"]}


@with_client()
async def test_of_eight_concurrent_pushes_one_wins(client, queue):
    """Push 6."""
    await make(client, queue)
    answers = await asyncio.gather(*[push(client, queue, {"transactionId": "same", "data": n}) for n in range(8)])
    winner = [answer[0] for answer in answers if answer[0]["status"] == "queued"]
    losers = [answer[0] for answer in answers if answer[0]["status"] == "duplicate"]
    assert len(winner) == 1 and len(losers) == 7
    assert {loser["message_id"] for loser in losers} == {winner[0]["message_id"]}


def test_a_hundred_items_without_an_id_are_a_hundred_messages(broker, queue):
    """Push 7: raw, since the client mints ids itself."""
    wire.configure(broker, queue)
    results = wire.push(broker, queue, *range(100))
    assert statuses(results) == ["queued"] * 100
    assert len({result["message_id"] for result in results}) == 100
    assert all(result["transaction_id"] == result["message_id"] for result in results)


@with_client()
async def test_nothing_pushed_is_nothing_answered(client, queue):
    """Push 8."""
    await make(client, queue)
    assert await client.queue(queue).push([]) == []


@with_client()
async def test_a_push_makes_its_queue_and_partition(client, queue):
    """Push 9."""
    assert statuses(await push(client, queue, {"data": "first"}, partition="never-seen")) == ["queued"]
    assert payloads(await client.queue(queue).partition("never-seen").timeout_millis(10_000).pop()) == ["first"]


def test_a_trace_id_that_is_no_uuid_harms_nothing(broker, queue):
    """Push 10."""
    answer = broker.push([{"queue": queue, "payload": {"n": 1}, "traceId": "not-a-uuid"}])
    assert statuses(answer) == ["queued"]
    message = broker.pop(queue)["messages"][0]
    assert message["data"] == {"n": 1} and message["traceId"] is None


@with_client()
async def test_the_producer_of_an_unauthenticated_push_is_null(client, queue):
    """Push 11: a body cannot set it either."""
    await make(client, queue)
    await client.queue(queue).push({"data": {"producerSub": "me"}, "producerSub": "me"})
    message = (await pinned(client, queue).pop())[0]
    assert message["producerSub"] is None


@pytest.mark.parametrize("payload", [{"values": list(range(10_000)), "text": "v" * 1_450_000}, None, {}], ids=["large", "null", "empty"])
@with_client()
async def test_payloads_come_back_as_they_went(client, queue, payload):
    """Push 12."""
    await make(client, queue)
    await client.queue(queue).push({"data": payload})
    assert payloads(await pinned(client, queue).pop()) == [payload]


@with_client()
async def test_a_delayed_message_is_popped_after_its_delay(client, queue):
    """Push 13."""
    await make(client, queue, delayed_processing=1)
    await client.queue(queue).push({"data": "later"})
    pushed = time.monotonic()
    assert await pinned(client, queue).pop() == []
    assert payloads(await client.queue(queue).timeout_millis(5000).pop()) == ["later"]
    assert 0.9 <= time.monotonic() - pushed < 2.5


@with_client()
async def test_a_window_holds_its_messages_together(client, queue):
    """Push 14."""
    await make(client, queue, window_buffer=1)
    await push(client, queue, *[{"data": n} for n in range(3)])
    assert await pinned(client, queue).pop() == []
    await asyncio.sleep(1.2)
    assert payloads(await pinned(client, queue, 4).pop()) == [0, 1, 2]


def test_an_encrypted_queue_without_a_key_stores_no_plaintext(broker, queue):
    """Push 15, without a key: the push is refused and nothing of it is stored."""
    wire.configure(broker, queue, encryptionEnabled=True)
    answer = broker.post("/api/v1/push", {"items": [{"queue": queue, "payload": "secret"}]})
    assert answer.status_code == 400 and answer.json()["code"] == "encryption_required"
    assert wire.nothing_deliverable(broker, queue)


@with_client()
async def test_buffered_messages_are_seen_after_the_flush_only(client, queue):
    """Push 16."""
    await make(client, queue)
    buffered = client.queue(queue).buffer({"message_count": 1000, "time_millis": 700})
    for n in range(5):
        await buffered.push({"data": n})
    assert await pinned(client, queue, 100).pop() == []
    started = time.monotonic()
    assert payloads(await client.queue(queue).batch(100).timeout_millis(5000).pop()) == list(range(5))
    assert time.monotonic() - started < 2


def test_the_text_of_a_payload_is_kept(broker, queue):
    """Push 12, and 1.5: on the wire it is the producer's own text."""
    text = '{"kwh":42.00,"big":12345678901234567890,"id":"%s"}' % uuid.uuid4()
    broker.post("/api/v1/push", f'{{"items":[{{"queue":"{queue}","payload":{text}}}]}}')
    answer = broker.get(f"/api/v1/pop/queue/{queue}")
    assert f'"data":{text},' in answer.text and json.loads(text) == answer.json()["messages"][0]["data"]
