"""Pop suite, one test per number."""

import asyncio
import time

import wire
from published_client import make, payloads, pinned, push, with_client


@with_client()
async def test_an_empty_queue_gives_nothing_and_a_pushed_message_one(client, queue):
    """Pop 1."""
    await make(client, queue)
    assert await pinned(client, queue).pop() == []
    await client.queue(queue).push({"data": 1})
    assert payloads(await client.queue(queue).batch(1).timeout_millis(10_000).pop()) == [1]


@with_client()
async def test_a_long_poll_begun_before_the_push_gets_the_message(client, queue):
    """Pop 2."""
    await make(client, queue)
    waiting = asyncio.ensure_future(client.queue(queue).batch(1).timeout_millis(20_000).pop())
    await asyncio.sleep(0.7)
    assert not waiting.done()
    await client.queue(queue).push({"data": "late"})
    pushed = time.monotonic()
    assert payloads(await waiting) == ["late"] and time.monotonic() - pushed < 2


@with_client()
async def test_a_popped_message_is_acked(client, queue):
    """Pop 3."""
    await make(client, queue)
    await client.queue(queue).push({"data": 1})
    message = (await pinned(client, queue).pop())[0]
    assert (await client.ack(message, True))["success"] is True
    assert await pinned(client, queue).pop() == []


@with_client()
async def test_an_unacked_message_comes_again_after_its_lease(client, queue):
    """Pop 4."""
    await make(client, queue, lease_time=1)
    await client.queue(queue).push({"data": 1})
    first = (await pinned(client, queue).pop())[0]
    assert await pinned(client, queue).pop() == []
    second = (await client.queue(queue).batch(1).timeout_millis(5000).pop())[0]
    assert second["id"] == first["id"] and second["leaseId"] != first["leaseId"]


def test_three_partitions_share_the_lease_of_one_pop(broker, queue):
    """Pop 5."""
    wire.configure(broker, queue)
    for name in "abc":
        wire.push(broker, queue, 1, 2, partition=name)
    got = broker.pop(queue, partitions=3, batch=100)
    assert len(got["messages"]) == 6 and got["partitionsClaimed"] == 3
    assert len({message["partitionId"] for message in got["messages"]}) == 3
    assert {message["leaseId"] for message in got["messages"]} == {got["leaseId"]}


def test_the_batch_is_the_size_of_the_whole_answer(broker, queue):
    """Pop 6."""
    wire.configure(broker, queue)
    broker.push([{"queue": queue, "partition": f"p{p}", "payload": n} for p in range(5) for n in range(100)])
    assert len(broker.pop(queue, partitions=5, batch=10)["messages"]) == 10


def test_without_partitions_one_partition_is_drained(broker, queue):
    """Pop 7."""
    wire.configure(broker, queue)
    broker.push([{"queue": queue, "partition": f"p{p}", "payload": n} for p in range(4) for n in range(5)])
    got = broker.pop(queue, batch=100)
    assert wire.data_of(got) == [0, 1, 2, 3, 4] and len({message["partitionId"] for message in got["messages"]}) == 1


@with_client()
async def test_one_batch_ack_over_two_partitions_succeeds(client, queue):
    """Pop 8."""
    await make(client, queue)
    for name in ("a", "b"):
        await push(client, queue, *[{"data": n} for n in range(3)], partition=name)
    messages = await pinned(client, queue, 100, 2).pop()
    answer = await client.ack(messages, True)
    assert answer["success"] is True
    assert [item["success"] for item in answer["results"]] == [True] * 6
    assert await pinned(client, queue, 100, 2).pop() == []


@with_client()
async def test_one_extension_renews_every_partition_of_the_pop(client, queue):
    """Pop 9: and the messages stay with their holder past the first expiry."""
    await make(client, queue, lease_time=1)
    for name in "abc":
        await push(client, queue, {"data": name}, partition=name)
    messages = await pinned(client, queue, 10, 3).pop()
    renewed = await client.renew(messages[0]["leaseId"])
    assert renewed["success"] is True and renewed["renewed"] == 3
    await asyncio.sleep(1.3)
    assert await pinned(client, queue, 10, 3).pop() == []
    assert (await client.ack(messages, True))["success"] is True
