"""The published Python client against a real broker: push, pop, consume, ack, groups, buffering, reads by offset, KV."""

import asyncio
import time
import uuid

import pytest
from queen import Queen

from published_client import collector, make, pinned, push, statuses, with_client


# ---- push suite ----

@with_client()
async def test_a_pushed_object_is_queued_and_popped(client):
    await make(client, "q")
    pushed = await client.queue("q").push({"data": {"kwh": 12.5, "name": "é"}})
    assert statuses(pushed) == ["queued"]
    messages = await pinned(client, "q").pop()
    assert [m["data"] for m in messages] == [{"kwh": 12.5, "name": "é"}]


@with_client()
async def test_an_id_is_stored_once_in_a_partition(client):
    await make(client, "q")
    item = {"transactionId": "one", "data": {"n": 1}}
    for partition in (None, "named"):
        first = await push(client, "q", item, partition=partition)
        again = await push(client, "q", {"transactionId": "one", "data": {"other": 2}}, partition=partition)
        assert statuses(first + again) == ["queued", "duplicate"]
        assert first[0]["message_id"] == again[0]["message_id"]
    assert statuses(await push(client, "q", item, partition="third")) == ["queued"]


@with_client()
async def test_three_of_one_id_in_one_push_are_one(client):
    results = await push(client, "q", *[{"transactionId": "same", "data": n} for n in range(3)])
    assert sorted(statuses(results)) == ["duplicate", "duplicate", "queued"]
    assert len({result["message_id"] for result in results}) == 1


@with_client()
async def test_two_of_a_stored_id_are_both_duplicates(client):
    stored = await push(client, "q", {"transactionId": "same", "data": 0})
    results = await push(client, "q", *[{"transactionId": "same", "data": n} for n in range(2)])
    assert statuses(results) == ["duplicate"] * 2
    assert {result["message_id"] for result in results} == {stored[0]["message_id"]}


@with_client()
async def test_eight_concurrent_pushes_of_one_id_store_one(client):
    results = await asyncio.gather(*[push(client, "q", {"transactionId": "same", "data": n}) for n in range(8)])
    assert sorted(statuses([result[0] for result in results])) == ["duplicate"] * 7 + ["queued"]
    assert len({result[0]["message_id"] for result in results}) == 1


@with_client()
async def test_a_hundred_items_have_a_hundred_ids(client):
    results = await push(client, "q", *[{"data": {"n": n}} for n in range(100)])
    assert statuses(results) == ["queued"] * 100 and len({result["message_id"] for result in results}) == 100


@with_client()
async def test_pushing_nothing_answers_nothing(client):
    assert await push(client, "q") == []


@with_client()
async def test_a_queue_and_partition_never_seen_are_made_by_the_push(client):
    assert statuses(await push(client, "new", {"data": 1}, partition="p")) == ["queued"]
    messages = await client.queue("new").partition("p").timeout_millis(5000).pop()
    assert [m["data"] for m in messages] == [1]


@with_client()
async def test_trace_ids_are_kept_and_an_unauthenticated_producer_is_null(client):
    trace = str(uuid.uuid4())
    await push(client, "q", {"data": 1, "traceId": trace}, {"data": 2, "traceId": "not-a-uuid"})
    messages = await pinned(client, "q", 2).pop()
    assert [m["traceId"] for m in messages] == [trace, None]
    assert [m["producerSub"] for m in messages] == [None, None]


@pytest.mark.parametrize("payload", [None, {}, [], 0, "", {"list": list(range(10_000)), "text": "x" * 1_400_000}],
                         ids=["null", "object", "array", "zero", "text", "large"])
@with_client()
async def test_payloads_come_back_unchanged(client, payload):
    await push(client, "q", {"data": payload})
    assert (await pinned(client, "q").pop())[0]["data"] == payload


@with_client()
async def test_delayed_messages_wait(client):
    await make(client, "q", delayed_processing=1)
    await push(client, "q", {"data": 1})
    assert await pinned(client, "q").pop() == []
    await asyncio.sleep(1.5)
    assert len(await pinned(client, "q").pop()) == 1


@with_client()
async def test_a_window_buffer_holds_until_it_is_quiet(client):
    await make(client, "q", window_buffer=1)
    await push(client, "q", *[{"data": n} for n in range(3)])
    assert await pinned(client, "q").pop() == []
    await asyncio.sleep(1.5)
    assert len(await pinned(client, "q", 4).pop()) == 3


@with_client()
async def test_buffered_messages_are_unseen_before_the_flush_and_there_soon_after(client):
    await make(client, "q")
    buffered = client.queue("q").buffer({"message_count": 100, "time_millis": 1000})
    for n in range(10):
        assert (await buffered.push({"data": n}))["buffered"] is True
    assert client.get_buffer_stats()["totalBufferedMessages"] == 10
    assert await pinned(client, "q", 100).pop() == []
    messages = await client.queue("q").batch(100).timeout_millis(2000).pop()
    assert [m["data"] for m in messages] == list(range(10))


@with_client()
async def test_a_full_buffer_and_an_explicit_flush_send_all_in_order(client):
    await make(client, "q")
    for n in range(250):
        await client.queue("q").partition("p").buffer({"message_count": 100, "time_millis": 60_000}).push({"data": n})
    await client.queue("q").partition("p").flush_buffer()
    read = await client.queue("q").fetch("p")
    assert [record["payload"] for record in read["p"]["records"]] == list(range(250))


# ---- pop suite ----

@with_client()
async def test_an_empty_queue_gives_nothing(client):
    await make(client, "q")
    assert await pinned(client, "q").pop() == []
    started = time.monotonic()
    assert await client.queue("q").timeout_millis(500).pop() == []
    assert 0.37 <= time.monotonic() - started < 0.8  # it stops claiming a quarter before the time-out


@with_client()
async def test_a_long_poll_begun_before_the_push_gets_it(client):
    await make(client, "q")
    waiting = asyncio.create_task(client.queue("q").timeout_millis(20_000).pop())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await push(client, "q", {"data": "late"})
    assert [m["data"] for m in await asyncio.wait_for(waiting, 5)] == ["late"]


@with_client()
async def test_single_and_batch_acks_succeed(client):
    await push(client, "q", *[{"data": n} for n in range(5)])
    first = (await pinned(client, "q").pop())[0]
    assert (await client.ack(first))["success"] is True
    rest = await pinned(client, "q", 10).pop()
    answer = await client.ack(rest)
    assert answer["success"] is True and len(answer["results"]) == len(rest) == 4
    assert await pinned(client, "q").pop() == []


@with_client()
async def test_an_unacked_message_comes_again_after_its_lease(client):
    await make(client, "q", lease_time=1)
    await push(client, "q", {"data": "again"})
    first = await pinned(client, "q").pop()
    assert await pinned(client, "q").pop() == []
    second = await client.queue("q").timeout_millis(5000).pop()
    assert second[0]["id"] == first[0]["id"] and second[0]["deliveryAttempt"] == 2
    assert (await client.ack(first[0]))["success"] is False
    assert (await client.ack(second[0]))["success"] is True


@with_client()
async def test_a_nack_brings_the_message_back_at_once_and_the_budget_ends_it(client):
    await make(client, "q", retry_limit=2)
    await push(client, "q", {"data": 1})
    for attempt in range(1, 4):
        messages = await pinned(client, "q").pop()
        assert [m["deliveryAttempt"] for m in messages] == [attempt]
        assert (await client.ack(messages[0], False, {"error": "no"}))["success"] is True
    assert await pinned(client, "q").pop() == []
    rows = (await client.admin.list_queues())["queues"]
    assert [row["messages"]["deadLetter"] for row in rows if row["name"] == "q"] == [1]


@with_client()
async def test_messages_of_one_batch_have_their_own_verdicts(client):
    await push(client, "q", *[{"data": n} for n in range(3)])
    messages = await pinned(client, "q", 3).pop()
    for message, status in zip(messages, (True, True, "retry")):
        message["_status"] = status
    assert (await client.ack(messages))["success"] is True
    assert [m["data"] for m in await pinned(client, "q", 3).pop()] == [2]


@with_client()
async def test_an_ack_of_an_id_never_pushed_is_refused_and_the_batch_can_be_acked(client):
    await push(client, "q", {"data": 1})
    message = (await pinned(client, "q").pop())[0]
    for status in (True, False):
        answer = await client.ack({**message, "transactionId": "never"}, status)
        assert answer["success"] is False and "unresolv" in answer["error"].lower()
    assert (await client.ack(message))["success"] is True


@with_client()
async def test_a_pop_over_partitions_shares_one_lease(client):
    for partition in "abc":
        await push(client, "q", {"data": 1}, {"data": 2}, partition=partition)
    messages = await pinned(client, "q", 100, 3).pop()
    assert len(messages) == 6 and len({m["partitionId"] for m in messages}) == 3 and len({m["leaseId"] for m in messages}) == 1
    answer = await client.ack(messages)
    assert answer["success"] is True and all(item["success"] for item in answer["results"])


@with_client()
async def test_the_batch_is_a_cap_over_all_partitions(client):
    for partition in range(5):
        await push(client, "q", *[{"data": n} for n in range(100)], partition=f"p{partition}")
    assert len(await pinned(client, "q", 10, 5).pop()) == 10


@with_client()
async def test_without_partitions_one_partition_is_popped(client):
    for partition in range(4):
        await push(client, "q", *[{"data": n} for n in range(5)], partition=f"p{partition}")
    messages = await client.queue("q").autopilot(False).batch(100).wait(False).pop()
    assert len(messages) == 5 and len({m["partitionId"] for m in messages}) == 1


@with_client()
async def test_commit_on_delivery_needs_no_ack(client):
    await push(client, "q", {"data": 1}, {"data": 2})
    assert len(await pinned(client, "q", 10).commit_on_delivery().pop()) == 2
    assert await pinned(client, "q", 10).pop() == []


@with_client()
async def test_autopilot_is_asked_for_by_default_and_still_delivers_everything(client):
    await push(client, "q", *[{"data": n} for n in range(50)])
    got: list = []
    while messages := await client.queue("q").wait(False).pop():
        got += [m["data"] for m in messages]
        assert (await client.ack(messages))["success"] is True
    assert got == list(range(50))


@with_client(framed_pop=True)
async def test_a_client_that_asks_for_frames_reads_the_json_answer(client):
    await push(client, "q", {"data": {"n": 1}})
    assert [m["data"] for m in await pinned(client, "q").pop()] == [{"n": 1}]


@with_client()
async def test_conflation_delivers_the_newest_of_a_partition(client):
    await push(client, "q", *[{"data": n} for n in range(5)], partition="p")
    group = pinned(client, "q", 10).group("g").subscription_mode("all").conflation()
    messages = await group.pop()
    assert [m["data"] for m in messages] == [4]
    assert (await client.ack(messages, True, {"group": "g"}))["success"] is True
    assert await group.pop() == []


# ---- consume suite ----

@with_client()
async def test_a_consumer_gets_messages_and_acks_them(client):
    await push(client, "q", *[{"data": n} for n in range(3)])
    got: list = []
    await client.queue("q").batch(10).limit(3).consume(collector(got))
    assert got == [0, 1, 2]
    assert await pinned(client, "q").pop() == []


@pytest.mark.parametrize("batch,workers", [(1, 1), (100, 1), (1, 10), (10, 10)])
@with_client()
async def test_a_partition_is_consumed_in_order_over_the_whole_run(client, batch, workers):
    for n in range(100):
        await push(client, "q", {"data": n}, partition="p")
    got: list = []
    await client.queue("q").partition("p").batch(batch).concurrency(workers).limit(100 // workers).idle_millis(3000).timeout_millis(
        1000).consume(collector(got))
    assert got == list(range(100))


@with_client()
async def test_ten_thousand_messages_are_consumed_in_batches_with_manual_acks(client):
    for start in range(0, 10_000, 1000):
        await push(client, "q", *[{"data": n} for n in range(start, start + 1000)])
    got: list = []

    async def handler(messages):
        got.extend(m["data"] for m in messages)
        assert (await client.ack(messages))["success"] is True

    await client.queue("q").batch(1000).limit(10_000).auto_ack(False).consume(handler)
    assert got == list(range(10_000))


@with_client()
async def test_each_group_gets_every_message(client):
    await push(client, "q", *[{"data": n} for n in range(100)], partition="p")
    for group in ("one", "two"):
        for builder in (client.queue("q").group(group), client.queue("q").partition("p").group(f"{group}-pinned")):
            got: list = []
            await builder.subscription_mode("from_beginning").batch(50).limit(100).consume(collector(got))
            assert got == list(range(100))


@with_client()
async def test_a_group_in_mode_new_skips_the_backlog(client):
    await push(client, "q", {"data": "old"}, partition="a")
    group = pinned(client, "q", 10, 10).group("g").subscription_mode("new")
    assert await group.pop() == []
    await push(client, "q", {"data": "new"}, partition="b")
    assert [m["data"] for m in await group.pop()] == ["new"]


@with_client()
async def test_a_handler_that_fails_twice_is_called_three_times(client):
    await make(client, "q", retry_limit=3)
    await push(client, "q", *[{"data": n} for n in range(100)])
    calls: list[int] = []

    async def handler(messages):
        calls.append(len(messages))
        if len(calls) < 3:
            raise RuntimeError("not yet")

    await client.queue("q").group("g").subscription_mode("all").batch(100).limit(300).idle_millis(1500).timeout_millis(500).consume(handler)
    assert calls == [100, 100, 100]
    other: list = []
    await client.queue("q").group("h").subscription_mode("all").batch(100).limit(100).consume(collector(other))
    assert other == list(range(100))


@with_client()
async def test_each_hands_over_single_messages_with_their_own_acks(client):
    await push(client, "q", *[{"data": n} for n in range(10)])
    got: list = []

    async def handler(message):
        got.append(message["data"])

    await client.queue("q").batch(5).each().limit(10).consume(handler)
    assert got == list(range(10))
    assert await pinned(client, "q").pop() == []


@with_client()
async def test_a_consumer_that_is_stopped_while_it_polls_leaves_no_lease(client):
    await make(client, "q")
    stop = asyncio.Event()
    running = asyncio.ensure_future(client.queue("q").timeout_millis(30_000).consume(collector([]), signal=stop))
    await asyncio.sleep(0.3)
    stop.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(0.2)
    await push(client, "q", {"data": 1})
    assert len(await pinned(client, "q").pop()) == 1


# ---- reads by offset, KV, lists ----

@with_client()
async def test_reads_by_offset_need_no_lease(client):
    await push(client, "q", *[{"transactionId": f"t{n}", "data": n} for n in range(5)], partition="a")
    await push(client, "q", {"data": "b"}, partition="b")
    read = await client.queue("q").fetch(["a", "b"], offsets={"a": 3})
    assert [(r["offset"], r["transactionId"]) for r in read["a"]["records"]] == [(3, "t3"), (4, "t4")]
    assert read["a"]["nextOffset"] == read["a"]["highWatermark"] == 5 and len(read["b"]["records"]) == 1


@with_client()
async def test_changed_partitions_are_listed_since_a_safe_time(client):
    await push(client, "q", {"data": 1}, partition="a")
    first = await client.queue("q").changed_since()
    assert [p["name"] for p in first["partitions"]] == ["a"]
    await asyncio.sleep(0.05)
    later = await client.queue("q").changed_since(first["safeTime"])
    await push(client, "q", {"data": 1}, partition="b")
    after = await client.queue("q").changed_since(later["safeTime"])
    assert "b" in [p["name"] for p in after["partitions"]]


@with_client()
async def test_kv_compare_and_set(client):
    put = await client.kv.put("n", "k", {"a": 1.5}, forever=True)
    assert put["applied"] is True
    assert (await client.kv.get("n", "k"))["value"] == {"a": 1.5}
    assert (await client.kv.put("n", "k", 2, forever=True, expect=put["version"] + 99))["applied"] is False
    assert (await client.kv.put("n", "k", 2, forever=True, expect=put["version"]))["applied"] is True
    assert (await client.kv.put_if_absent("n", "k", 3, forever=True))["applied"] is False
    assert (await client.kv.delete("n", "k"))["applied"] is True
    assert (await client.kv.get("n", "k"))["found"] is False


@with_client()
async def test_kv_lists_by_prefix_over_pages(client):
    for n in range(5):
        await client.kv.put("n", f"k{n}", n, ttl_seconds=60)
    rows = await client.kv.list_all("n", "k", limit=2)
    assert [(row["key"], row["value"]) for row in rows] == [(f"k{n}", n) for n in range(5)]


@with_client()
async def test_the_list_of_queues_counts(client):
    await make(client, "q")
    await push(client, "q", {"data": 1}, {"data": 2})
    rows = (await client.admin.list_queues())["queues"]
    assert [(row["name"], row["messages"]["pending"]) for row in rows] == [("q", 2)]
    assert (await client.admin.health())["status"] == "healthy"


def test_producing_and_consuming_through_restarts_ends_with_all_received_once(make_broker):
    """The client's own retries carry it over kill -9 and over a clean stop."""
    broker = make_broker().start()
    sent, received = list(range(120)), []

    async def produce(client):
        for n in sent:
            while True:
                try:
                    await push(client, "q", {"transactionId": f"t{n}", "data": n}, partition="p")
                    break
                except Exception:  # noqa: BLE001 - the broker is away
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.01)

    async def consume(client):
        while len(received) < len(sent):
            messages = await client.queue("q").batch(10).timeout_millis(500).pop()
            if messages and (await client.ack(messages))["success"]:
                received.extend(m["data"] for m in messages)
            elif not messages:
                await asyncio.sleep(0.05)

    async def restart():
        for stop in (broker.kill9, broker.terminate, broker.kill9):
            await asyncio.sleep(0.3)
            await asyncio.to_thread(stop)
            await asyncio.to_thread(broker.start)

    async def body():
        async with Queen(broker.url(""), retry_delay_millis=50) as client:
            await make(client, "q", lease_time=1)
            await asyncio.wait_for(asyncio.gather(produce(client), consume(client), restart()), 60)

    asyncio.run(body())
    assert sorted(set(received)) == sent
    assert [record["payload"] for record in broker.fetch_all("q", "p")] == sent
