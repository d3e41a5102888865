"""Transaction suite, one test per number; number 1 has one for each of its forms."""

import asyncio

import pytest
from queen import Queen

import wire
from published_client import make, payloads, pinned, push, with_client


async def popped(client, queue, count: int = 1, partitions: int = 1):
    messages = await pinned(client, queue, count, partitions).pop()
    assert len(messages) == count
    return messages


@with_client()
async def test_a_push_and_the_ack_it_answers_are_one(client, queue, other):
    """Transaction 1."""
    await make(client, queue)
    await make(client, other)
    await client.queue(queue).push({"data": "in"})
    message = (await popped(client, queue))[0]
    answer = await client.transaction().queue(other).push([{"data": "out"}]).ack(message).commit()
    assert answer["success"] is True and [row["type"] for row in answer["results"]] == ["push", "ack"]
    assert payloads(await pinned(client, other, 10).pop()) == ["out"]
    assert await pinned(client, queue, 10).pop() == []


@with_client()
async def test_pushes_to_two_queues_and_an_ack_are_one(client, queue, other):
    """Transaction 1, with pushes to two queues."""
    await client.queue(queue).push({"data": "in"})
    message = (await popped(client, queue))[0]
    third = f"third-{queue}"
    await client.transaction().queue(other).push([{"data": 1}]).queue(third).push([{"data": 2}]).ack(message).commit()
    assert payloads(await pinned(client, other, 10).pop()) == [1]
    assert payloads(await pinned(client, third, 10).pop()) == [2]
    assert await pinned(client, queue, 10).pop() == []


@with_client()
async def test_three_acks_of_a_batch_and_a_push_are_one(client, queue, other):
    """Transaction 1, with three acks of one batch."""
    await push(client, queue, *[{"data": n} for n in range(3)])
    messages = await popped(client, queue, 3)
    answer = await client.transaction().ack(messages).queue(other).push([{"data": "sum"}]).commit()
    assert [row["index"] for row in answer["results"]] == [0, 1, 2, 3]
    assert await pinned(client, queue, 10).pop() == [] and payloads(await pinned(client, other, 10).pop()) == ["sum"]


@with_client()
async def test_acks_of_two_partitions_are_one(client, queue, other):
    """Transaction 1, with acks of two partitions."""
    for name in ("a", "b"):
        await push(client, queue, {"data": name}, partition=name)
    messages = await popped(client, queue, 2, 2)
    await client.transaction().ack(messages).queue(other).push([{"data": "both"}]).commit()
    assert await pinned(client, queue, 10, 2).pop() == [] and payloads(await pinned(client, other).pop()) == ["both"]


@with_client()
async def test_acks_from_two_queues_are_one(client, queue, other):
    """Transaction 1, with acks from two queues: each ack names its own lease."""
    third = f"third-{queue}"
    for name in (queue, other):
        await client.queue(name).push({"data": name})
    messages = [(await popped(client, name))[0] for name in (queue, other)]
    assert messages[0]["leaseId"] != messages[1]["leaseId"]
    await client.transaction().ack(messages[0]).ack(messages[1]).queue(third).push([{"data": "joined"}]).commit()
    assert await pinned(client, queue).pop() == [] and await pinned(client, other).pop() == []
    assert payloads(await pinned(client, third).pop()) == ["joined"]


@with_client()
async def test_five_items_of_one_operation_are_pushed_in_order(client, queue, other):
    """Transaction 1, with five items in one operation."""
    await client.queue(queue).push({"data": "in"})
    message = (await popped(client, queue))[0]
    answer = await client.transaction().ack(message).queue(other).push([{"data": n} for n in range(5)]).commit()
    assert [row["type"] for row in answer["results"]] == ["ack"] + ["push"] * 5
    assert payloads(await pinned(client, other, 10).pop()) == list(range(5))


@with_client()
async def test_a_chain_over_three_queues(client, queue, other):
    """Transaction 1, as a chain of two."""
    third = f"third-{queue}"
    await client.queue(queue).push({"data": 1})
    first = (await popped(client, queue))[0]
    await client.transaction().ack(first).queue(other).push([{"data": first["data"] + 1}]).commit()
    second = (await popped(client, other))[0]
    await client.transaction().ack(second).queue(third).push([{"data": second["data"] + 1}]).commit()
    assert payloads(await pinned(client, third).pop()) == [3]
    assert await pinned(client, queue).pop() == [] and await pinned(client, other).pop() == []


@with_client()
async def test_a_consumer_commits_what_it_handles(client, queue, other):
    """Transaction 1, inside a consumer without automatic acks."""
    await push(client, queue, *[{"data": n} for n in range(3)])

    async def handler(message):
        await client.transaction().ack(message).queue(other).push([{"data": message["data"] * 10}]).commit()

    await client.queue(queue).batch(1).auto_ack(False).limit(3).consume(handler)
    assert payloads(await pinned(client, other, 10).pop()) == [0, 10, 20] and await pinned(client, queue).pop() == []


@with_client()
async def test_a_failed_ack_that_is_out_of_retries_commits_with_its_push(client, queue, other):
    """Transaction 2."""
    await make(client, queue, retry_limit=0)
    await client.queue(queue).push({"data": "bad"})
    message = (await popped(client, queue))[0]
    answer = await client.transaction().ack(message, "failed").queue(other).push([{"data": "report"}]).commit()
    assert answer["success"] is True
    assert await pinned(client, queue, 10).pop() == [] and payloads(await pinned(client, other).pop()) == ["report"]
    assert [letter["data"] for letter in (await client.queue(queue).dlq().get())["messages"]] == ["bad"]


@with_client()
async def test_an_ack_of_an_id_never_pushed_rolls_all_back(client, queue, other):
    """Transaction 3: the message comes again after its lease."""
    await make(client, queue, lease_time=1)
    await make(client, other)
    await client.queue(queue).push({"data": "in"})
    message = (await popped(client, queue))[0]
    bundle = client.transaction().ack(message).queue(other).push([{"data": "out"}]).ack({**message, "transactionId": "never"})
    with pytest.raises(Exception):
        await bundle.commit()
    again = await client.queue(queue).batch(1).timeout_millis(5000).pop()
    assert [m["id"] for m in again] == [message["id"]]
    assert await pinned(client, other, 10).pop() == []


@with_client()
async def test_acks_of_a_group_move_that_group_only(client, queue):
    """Transaction 4."""
    await make(client, queue)
    await push(client, queue, {"data": 1}, {"data": 2})
    one = pinned(client, queue, 10).group("one").subscription_mode("all")
    messages = await one.pop()
    assert payloads(messages) == [1, 2]
    await client.transaction().ack(messages, "completed", {"consumer_group": "one"}).commit()
    assert await one.pop() == []
    assert payloads(await pinned(client, queue, 10).group("two").subscription_mode("all").pop()) == [1, 2]


def test_an_empty_transaction_is_refused(broker):
    """Transaction 5: by the client before any request, by the broker with a reason."""
    async def body():
        async with Queen("http://127.0.0.1:1") as client:
            with pytest.raises(Exception, match="no operations"):
                await client.transaction().commit()
    asyncio.run(body())
    answer = wire.transaction(broker)
    assert answer["success"] is False and answer["reason"] == "bad_request" and answer["results"] == []
