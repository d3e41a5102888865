"""Consume suite, one test per number."""

import asyncio
import time

import pytest

import wire
from published_client import collector, make, payloads, pinned, push, with_client


@with_client()
async def test_a_handler_traces_its_message_and_the_consumer_acks_it(client, queue):
    """Consume 1."""
    await make(client, queue)
    await client.queue(queue).push({"data": {"n": 1}, "transactionId": f"{queue}-1"})
    names, answers, seen = [f"{queue}-import", f"{queue}-billing"], [], []

    async def handler(message):
        seen.append(message)
        answers.append(await message["trace"]({"traceName": names, "eventType": "info", "data": {"step": 1}}))

    await client.queue(queue).batch(1).limit(1).consume(handler)
    assert [answer["success"] for answer in answers] == [True]
    for name in names:
        traces = (await client.admin.get_traces_by_name(name))["traces"]
        assert [(trace["transactionId"], trace["eventType"], trace["data"]) for trace in traces] == [(f"{queue}-1", "info", {"step": 1})]
    by_message = await client.admin.get_traces_for_message(seen[0]["partitionId"], f"{queue}-1")
    assert len(by_message["traces"]) == 1
    assert await pinned(client, queue).pop() == []


@with_client()
async def test_buffered_messages_of_two_partitions_are_popped_by_partition(client, queue):
    """Consume 2."""
    await make(client, queue)
    for name in ("a", "b"):
        for n in range(100):
            await client.queue(queue).partition(name).buffer({"message_count": 100, "time_millis": 1000}).push({"data": n})
    await client.flush_all_buffers()
    for name in ("a", "b"):
        messages = await client.queue(queue).partition(name).batch(100).timeout_millis(5000).pop()
        assert payloads(messages) == list(range(100))


@with_client()
async def test_a_batch_returns_one_push_in_order(client, queue):
    """Consume 3."""
    await make(client, queue)
    await push(client, queue, *[{"data": n} for n in range(3)])
    assert payloads(await pinned(client, queue, 10).pop()) == [0, 1, 2]


@pytest.mark.parametrize("batch,workers", [(1, 1), (100, 1), (1, 10), (10, 10)])
@with_client()
async def test_a_partition_is_in_order_over_the_whole_run(client, queue, batch, workers):
    """Consume 4."""
    await make(client, queue)
    for n in range(100):
        await client.queue(queue).partition("p").push({"data": n})
    got: list = []
    builder = client.queue(queue).partition("p").batch(batch).concurrency(workers).limit(100 // workers)
    await builder.idle_millis(2000).timeout_millis(500).consume(collector(got))
    assert got == list(range(100))


@with_client()
async def test_ten_thousand_messages_in_batches_of_a_thousand(client, queue):
    """Consume 5."""
    await make(client, queue)
    for start in range(0, 10_000, 1000):
        await push(client, queue, *[{"data": n} for n in range(start, start + 1000)])
    got: list = []

    async def handler(messages):
        got.extend(payloads(messages))
        assert (await client.ack(messages, True))["success"] is True

    await client.queue(queue).batch(1000).auto_ack(False).limit(10_000).consume(handler)
    assert got == list(range(10_000))


@pytest.mark.parametrize("partition", [None, "p"])
@with_client()
async def test_two_groups_get_every_message_from_the_beginning(client, queue, partition):
    """Consume 6."""
    await make(client, queue)
    await push(client, queue, *[{"data": n} for n in range(100)], partition="p")
    for group in ("one", "two"):
        got: list = []
        builder = client.queue(queue).group(group).subscription_mode("from_beginning").batch(30).limit(100)
        await (builder.partition(partition) if partition else builder).consume(collector(got))
        assert got == list(range(100))


@pytest.mark.parametrize("group", [None, "first"])
@with_client()
async def test_a_handler_that_fails_twice_gets_the_batch_three_times(client, queue, group):
    """Consume 7: a second group gets all once all the same."""
    await make(client, queue, retry_limit=3)
    await push(client, queue, *[{"data": n} for n in range(100)])
    deliveries: list = []

    async def handler(messages):
        deliveries.append(payloads(messages))
        if len(deliveries) < 3:
            raise RuntimeError("not yet")

    def consumer(name):
        builder = client.queue(queue).batch(100).idle_millis(1000).timeout_millis(300)
        return builder.group(name).subscription_mode("all") if name else builder

    await consumer(group).limit(300).consume(handler)
    assert deliveries == [list(range(100))] * 3
    got: list = []
    await consumer("second").limit(100).consume(collector(got))
    assert got == list(range(100))
    assert (await client.queue(queue).dlq().get())["messages"] == []


@with_client()
async def test_a_renewed_lease_outlives_its_handler(client, queue):
    """Consume 8: a handler of twice the lease, renewed well within it."""
    await make(client, queue, lease_time=1)
    await client.queue(queue).push({"data": 1})
    acks = []

    async def handler(message):
        await asyncio.sleep(2)
        acks.append(await client.ack(message, True))

    await client.queue(queue).batch(1).renew_lease(True, 300).auto_ack(False).limit(1).consume(handler)
    assert [answer["success"] for answer in acks] == [True]
    assert await pinned(client, queue).pop() == []


def test_partitions_are_drained_together_up_to_the_batch(broker, queue, other):
    """Consume 9."""
    broker.push([{"queue": queue, "partition": f"p{p}", "payload": n} for p in range(3) for n in range(4)])
    got = broker.pop(queue, partitions=3, batch=100)
    assert len(got["messages"]) == 12 and len({message["leaseId"] for message in got["messages"]}) == 1
    broker.push([{"queue": other, "partition": f"p{p}", "payload": n} for p in range(5) for n in range(50)])
    assert len(broker.pop(other, partitions=5, batch=20)["messages"]) == 20


@with_client()
async def test_a_queue_made_again_has_only_later_messages(client, queue):
    """Consume 10."""
    await make(client, queue)
    await push(client, queue, {"data": "old"}, partition="p")
    assert (await client.queue(queue).delete())["deleted"] is True
    await make(client, queue)
    assert await pinned(client, queue, 10, 10).pop() == []
    await push(client, queue, {"data": "new"}, partition="p")
    assert payloads(await pinned(client, queue, 10, 10).pop()) == ["new"]


@with_client()
async def test_a_stopped_consumer_takes_no_message_with_it(client, queue, broker):
    """Section 15, client behaviour: stopped while it polls, it closes the connection (W-5)."""
    await make(client, queue)
    stop = asyncio.Event()
    running = asyncio.ensure_future(client.queue(queue).timeout_millis(20_000).consume(collector([]), signal=stop))
    await asyncio.sleep(0.3)
    stop.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(0.1)
    await client.queue(queue).push({"data": 1})
    started = time.monotonic()
    assert wire.data_of(await asyncio.to_thread(broker.pop, queue, wait="true", timeout=5000)) == [1]
    assert time.monotonic() - started < 2
