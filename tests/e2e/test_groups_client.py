"""Consumer groups and leases through the published Python client: the re-consumption suite, renewal (api-messaging.md 15)."""

import asyncio

from test_client import make, pinned, push, with_client


async def ten_partitions(client) -> None:
    await make(client, "q")
    for n in range(10):
        await push(client, "q", {"data": n}, partition=f"p{n}")


async def take_all(client, group: str = "g") -> list:
    messages = await pinned(client, "q", 100, 64).group(group).subscription_mode("all").pop()
    if messages:
        assert (await client.ack(messages, True, {"group": group}))["success"] is True
    return sorted(m["data"] for m in messages)


@with_client()
async def test_a_seek_to_before_the_pushes_delivers_all_again(client):
    """Re-consumption 1."""
    await ten_partitions(client)
    assert await take_all(client) == list(range(10))
    assert await take_all(client) == []
    answer = await client.admin.seek_consumer_group("g", "q", {"timestamp": "2020-01-01T00:00:00Z"})
    assert answer["partitionsUpdated"] == 10
    assert await take_all(client) == list(range(10))


@with_client()
async def test_a_deleted_group_of_the_same_name_gets_all_again(client):
    """Re-consumption 2 and 3."""
    await ten_partitions(client)
    assert await take_all(client) == list(range(10))
    assert (await client.delete_consumer_group("g"))["deletedPartitions"] == 10
    assert await take_all(client) == list(range(10))
    assert (await client.admin.delete_consumer_group_for_queue("g", "q", True))["queues"] == ["q"]
    assert await take_all(client) == list(range(10))


@with_client()
async def test_one_renewal_covers_the_partitions_of_a_pop(client):
    """Pop 9."""
    await ten_partitions(client)
    messages = await pinned(client, "q", 100, 3).pop()
    assert len({m["partitionId"] for m in messages}) == 3
    renewed = await client.renew(messages)
    assert [(r["success"], r["renewed"]) for r in renewed] == [(True, 3)]
    assert (await client.ack(messages))["success"] is True
    assert (await client.renew(messages))[0]["success"] is False


@with_client()
async def test_a_slow_handler_keeps_its_lease_by_renewing_it(client):
    """Consume 8: a lease of 3 s, a handler of 5 s, a renewal each second."""
    await make(client, "q", lease_time=3)
    await push(client, "q", {"data": 1})
    got: list = []

    async def handler(messages):
        await asyncio.sleep(5)
        got.append((await client.ack(messages))["success"])

    await client.queue("q").auto_ack(False).renew_lease(True, 1000).batch(1).limit(1).consume(handler)
    assert got == [True]
    assert await pinned(client, "q").pop() == []


@with_client()
async def test_the_lists_and_the_subscription(client):
    """9.1, 9.3."""
    await ten_partitions(client)
    await take_all(client)
    (row,) = await client.admin.list_consumer_groups()
    assert (row["name"], row["members"], row["totalLag"], row["state"]) == ("g", 10, 0, "Stable")
    assert len((await client.admin.get_consumer_group("g"))["q"]["partitions"]) == 10
    assert await client.admin.get_lagging_consumers(0) == []
    assert (await client.update_consumer_group_timestamp("g", "2031-01-01T00:00:00Z"))["rowsUpdated"] == 1
