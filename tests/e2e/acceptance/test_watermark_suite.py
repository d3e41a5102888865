"""Re-consumption suite ("watermark"), one test per number: a group reads again what it has finished."""

import datetime

import pytest

import wire
from published_client import collector, payloads, pinned, with_client


async def consume_ten(client, queue):
    """A group in mode `all` finishes a message of each of ten partitions; returns when that was about to begin."""
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=1)
    for n in range(10):
        await client.queue(queue).partition(f"p{n}").push({"data": n})
    got: list = []
    await group_of(client, queue).limit(10).consume(collector(got))
    assert sorted(got) == list(range(10))
    assert await pinned(client, queue, 100, 64).group("g").subscription_mode("all").pop() == []
    return before.isoformat().replace("+00:00", "Z")


def group_of(client, queue):
    return client.queue(queue).group("g").subscription_mode("all").batch(100).partitions(10).timeout_millis(3000)


async def all_ten_again(client, queue):
    got: list = []
    while len(got) < 10:
        messages = await group_of(client, queue).pop()
        assert messages, f"only {got} within three seconds"
        got += payloads(messages)
        assert (await client.ack(messages, True, {"group": "g"}))["success"] is True
    assert sorted(got) == list(range(10))


@with_client()
async def test_a_group_that_sought_back_gets_all_again(client, queue):
    """Watermark 1: without a new push."""
    before = await consume_ten(client, queue)
    answer = await client.admin.seek_consumer_group("g", queue, {"timestamp": before})
    assert answer["success"] is True and answer["partitionsUpdated"] == 10
    await all_ten_again(client, queue)


@with_client()
async def test_a_deleted_group_begins_anew(client, queue):
    """Watermark 2."""
    await consume_ten(client, queue)
    answer = await client.delete_consumer_group("g", True)
    assert answer["success"] is True and queue in answer["queues"]
    await all_ten_again(client, queue)


@with_client()
async def test_a_group_deleted_on_one_queue_begins_anew_there(client, queue, other):
    """Watermark 3: and nowhere else."""
    for name in (queue, other):
        await consume_ten(client, name)
    answer = await client.admin.delete_consumer_group_for_queue("g", queue)
    assert answer["success"] is True and answer["deletedPartitions"] == 10
    await all_ten_again(client, queue)
    assert await pinned(client, other, 100, 64).group("g").subscription_mode("all").pop() == []


@pytest.mark.parametrize("partition", ["p3", "p7"])
def test_a_group_seeks_in_one_partition(broker, queue, partition):
    """9.2: the partition route, by the same check."""
    broker.push([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(10)])
    params = {"consumerGroup": "g", "subscriptionMode": "all", "partitions": 64}
    assert wire.acked(wire.ack(broker, broker.pop(queue, **params)["messages"], group="g"))
    answer = broker.post(f"/api/v1/consumer-groups/g/queues/{queue}/partitions/{partition}/seek", {"timestamp": "1970-01-01T00:00:00Z"})
    assert answer.status_code == 200 and answer.json()["partitionName"] == partition, answer.text
    assert wire.data_of(broker.pop(queue, **params)) == [int(partition[1:])]
