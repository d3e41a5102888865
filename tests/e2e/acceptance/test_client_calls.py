"""Every call of the published Python client: the table of docs/contract.md has it, and what no other test uses is used here."""

import asyncio
import datetime
import inspect
import pathlib
import re

import pytest
import queen as published
from queen.builders.consume_builder import ConsumeBuilder
from queen.builders.dlq_builder import DLQBuilder
from queen.builders.operation_builder import OperationBuilder
from queen.builders.push_builder import PushBuilder
from queen.builders.queue_builder import QueueBuilder
from queen.builders.transaction_builder import TransactionBuilder, TransactionKvBuilder, TransactionQueueBuilder, TransactionTimerBuilder
from queen.streams.runtime.runner import Runner

import wire
from harness import ROOT
from published_client import collector, make, payloads, pinned, push, with_client

CALLED = [published.Queen, QueueBuilder, PushBuilder, OperationBuilder, ConsumeBuilder, DLQBuilder, TransactionBuilder,
          TransactionQueueBuilder, TransactionKvBuilder, TransactionTimerBuilder, published.Admin, published.KV, published.Locks,
          published.Lock, published.Timers, published.TimerBuilder, published.Ephemeral, published.Stream, Runner]


def public(kind) -> set[str]:
    return {name for name, value in inspect.getmembers_static(kind)
            if not name.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod, classmethod)))}


def rows_of_the_table() -> dict[str, str]:
    page = pathlib.Path(ROOT / "docs/contract.md").read_text()
    rows = re.findall(r"^\| `([A-Z]\w+\.[\w*]+)` \|(.*)\|$", page, re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a call has two rows"
    return dict(rows)


def test_the_table_has_every_call_of_the_client():
    """`Class.*` stands for a class that no test can use yet, with the reason."""
    rows = rows_of_the_table()
    calls = {f"{kind.__name__}.{name}" for kind in CALLED for name in public(kind)}
    kinds = {kind.__name__ for kind in CALLED}
    whole = {call.removesuffix(".*") for call in rows if call.endswith(".*")}
    assert whole <= kinds and all("`" not in rows[f"{kind}.*"] for kind in whole)
    assert sorted(call for call in calls if call not in rows and call.split(".")[0] not in whole) == []
    assert sorted(row for row in rows if row not in calls and not row.endswith(".*")) == []


def test_the_list_of_classes_has_all_that_the_client_exports():
    """A new class of a later client is not overlooked. Errors, typed dicts and answers are no calls."""
    exported = {value for name in published.__all__ if inspect.isclass(value := getattr(published, name))}
    answers = {kind for kind in exported if issubclass(kind, (dict, Exception)) or not public(kind)}
    assert {kind.__name__ for kind in exported - answers - set(CALLED)} == set()


# ---- queues and builders ----


@with_client()
async def test_labels_and_callbacks_of_create_and_delete(client, queue):
    seen: list = []

    async def note(value):
        seen.append(value)

    await client.queue(queue).namespace("acme").task("read").config({"lease_time": 7}).create().on_success(note)
    assert seen[0]["configured"] is True and (seen[0]["namespace"], seen[0]["task"]) == ("acme", "read")
    assert seen[0]["options"]["leaseTime"] == 7
    await client.queue(queue).config({"lease_time": "seven"}).create().on_error(note)
    assert isinstance(seen[1], Exception) and "400" in str(seen[1]) + repr(getattr(seen[1], "response", ""))
    await client.queue(queue).delete().on_success(note)
    assert seen[2]["deleted"] is True


@with_client()
async def test_callbacks_of_a_push(client, queue):
    seen: dict[str, list] = {"success": [], "duplicate": [], "error": []}

    def note(kind):
        async def keep(items, *_):
            seen[kind] += items
        return keep

    def pushing(name, *items):
        return client.queue(name).push(list(items)).on_success(note("success")).on_duplicate(note("duplicate")).on_error(note("error"))

    await pushing(queue, {"transactionId": "a", "data": 1})
    await pushing(queue, {"transactionId": "a", "data": 1}, {"transactionId": "b", "data": 2})
    await pushing("n" * 500, {"transactionId": "c", "data": 3})
    assert {kind: [item["transactionId"] for item in items] for kind, items in seen.items()} == {
        "success": ["a", "b"], "duplicate": ["a"], "error": ["c"]}


@with_client()
async def test_callbacks_of_a_consumer_leave_the_ack_to_them(client, queue):
    await push(client, queue, {"data": "good"}, {"data": "bad"})

    async def handler(message):
        if message["data"] == "bad":
            raise RuntimeError("no")

    async def good(message, _):
        assert (await client.ack(message, True))["success"] is True

    async def bad(message, error):
        assert (await client.ack(message, "dlq", {"error": str(error)}))["success"] is True

    await client.queue(queue).batch(1).limit(2).consume(handler).on_success(good).on_error(bad)
    assert await pinned(client, queue).pop() == []
    letters = await client.queue(queue).dlq().get()
    assert [(letter["data"], letter["errorMessage"]) for letter in letters["messages"]] == [("bad", "no")]


@with_client()
async def test_a_supervised_consumer_tells_of_itself_in_kv(client, queue):
    await push(client, queue, {"data": 1})
    await client.queue(queue).supervision({"group": "app"}).batch(1).limit(1).consume(collector([]))
    rows = await client.kv.list_all("queen-supervisor", "app/")
    assert [row["value"]["format"] for row in rows if row["key"].endswith("/head")] == ["queen.supervisor.remote-status/v1"]


@with_client()
async def test_a_pop_result_tells_what_the_broker_chose(client, queue):
    await push(client, queue, *[{"data": n} for n in range(3)])
    result = await client.queue(queue).wait(False).pop_result()
    assert payloads(result.messages) == [0, 1, 2]
    assert 100 <= result.autopilot.batch <= 1000 and 1 <= result.autopilot.partitions <= 64
    fixed = await pinned(client, queue, 5).pop_result()
    assert fixed.messages == [] and fixed.autopilot is None


@with_client()
async def test_a_subscription_from_an_instant_skips_what_is_older(client, queue):
    await push(client, queue, {"data": "old"}, partition="p")
    await asyncio.sleep(0.02)
    instant = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    await asyncio.sleep(0.02)
    await push(client, queue, {"data": "young"}, partition="p")
    assert payloads(await pinned(client, queue, 10).group("g").subscription_from(instant).pop()) == ["young"]


@with_client()
async def test_dead_letters_are_read_in_pages(client, queue):
    await push(client, queue, *[{"data": n} for n in range(5)])
    group = {"group": "g"}
    for _ in range(5):
        messages = await pinned(client, queue).group("g").subscription_mode("all").pop()
        assert (await client.ack(messages[0], "dlq", group))["success"] is True
    page = await client.queue(queue).dlq("g").limit(2).offset(1).from_("1970-01-01T00:00:00Z").to("2999-01-01T00:00:00Z").get()
    assert page["total"] == 5 and payloads(page["messages"]) == [3, 2]
    assert (await client.queue(queue).dlq("nobody").get())["total"] == 0


@with_client()
async def test_leases_are_renewed_by_message_by_id_and_in_a_list(client, queue):
    await push(client, queue, {"data": 1}, partition="a")
    await push(client, queue, {"data": 2}, partition="b")
    one, two = [(await pinned(client, queue).pop())[0] for _ in range(2)]
    assert (await client.renew(one))["success"] is True and (await client.renew(two["leaseId"]))["success"] is True
    assert [row["success"] for row in await client.renew([one, two])] == [True, True]
    assert (await client.renew("01b7c0df-1111-7222-8333-444455556666"))["success"] is False


# ---- groups and administration ----


@with_client()
async def test_a_group_is_listed_read_moved_and_deleted(client, queue):
    group = f"g-{queue}"
    await push(client, queue, *[{"data": n} for n in range(4)], partition="p")
    popping = pinned(client, queue, 2).group(group).subscription_mode("all")
    assert (await client.ack(await popping.pop(), True, {"group": group}))["success"] is True
    rows = [row for row in await client.admin.list_consumer_groups() if row["name"] == group]
    assert [(row["queueName"], row["totalLag"], row["subscriptionMode"]) for row in rows] == [(queue, 2, "all")]
    detail = await client.admin.get_consumer_group(group)
    assert [(p["partition"], p["totalConsumed"], p["offsetLag"]) for p in detail[queue]["partitions"]] == [("p", 2, 2)]
    assert group not in [row["consumer_group"] for row in await client.admin.get_lagging_consumers(3600)]
    assert (await client.admin.get_queue_depth(queue, group))["pending"] == 2
    moved = await client.admin.seek_consumer_group(group, queue, {"toEnd": True})
    assert moved["partitionsUpdated"] == 1 and await popping.pop() == []
    assert (await client.update_consumer_group_timestamp(group, "2030-01-01T00:00:00Z"))["rowsUpdated"] == 1
    assert (await client.delete_consumer_group(group))["deletedPartitions"] == 1
    assert group not in [row["name"] for row in await client.admin.list_consumer_groups()]


@with_client()
async def test_resources_are_listed(client, queue):
    await make(client, queue)
    await client.queue(queue).namespace(f"ns-{queue}").task(f"task-{queue}").config({"lease_time": 9}).create()
    await push(client, queue, {"data": 1}, {"data": 2}, partition="p")
    overview = await client.admin.get_overview()
    assert overview["queues"] >= 1 and overview["messages"]["total"] >= 2
    namespaces = {row["namespace"]: row for row in (await client.admin.get_namespaces())["namespaces"]}
    assert namespaces[f"ns-{queue}"]["messages"] == {"total": 2, "pending": 2}
    tasks = {row["task"]: row for row in (await client.admin.get_tasks())["tasks"]}
    assert tasks[f"task-{queue}"]["partitions"] == 1
    detail = await client.admin.get_queue(queue)
    assert detail["options"]["leaseTime"] == 9 and [p["name"] for p in detail["partitions"]] == ["p"]
    partitions = (await client.admin.get_partitions(queue=queue, limit=10))["partitions"]
    assert [(p["queue"], p["partition"], p["pending"]) for p in partitions] == [(queue, "p", 2)]


@with_client()
async def test_messages_are_listed_and_dead_letters_deleted_and_sent_again(client, queue):
    await push(client, queue, *[{"transactionId": f"t{n}", "data": n} for n in range(3)], partition="p")
    listed = await client.admin.list_messages(queue=queue, partition="p", status="pending", limit=2)
    assert [row["transactionId"] for row in listed["messages"]] == ["t2", "t1"]
    messages = await pinned(client, queue, 3).pop()
    assert (await client.ack(messages, "dlq"))["success"] is True
    partition = messages[0]["partitionId"]
    assert (await client.admin.get_message(partition, "t0"))["status"] == "dead_letter"
    assert (await client.admin.retry_message(partition, "t0"))["result"] == "moved"
    assert payloads(await pinned(client, queue, 3).pop()) == [0]
    assert (await client.admin.delete_message(partition, "t1"))["deleted"] == 1
    assert [letter["transactionId"] for letter in (await client.queue(queue).dlq().get())["messages"]] == ["t2"]


@with_client()
async def test_trace_names_are_listed(client, queue):
    await push(client, queue, {"transactionId": "t", "data": 1})

    async def handler(message):
        assert (await message["trace"]({"traceName": queue, "data": {}}))["success"] is True

    await client.queue(queue).batch(1).limit(1).consume(handler)
    rows = {row["trace_name"]: row for row in (await client.admin.get_trace_names(limit=1000))["trace_names"]}
    assert rows[queue]["trace_count"] == 1


@with_client()
async def test_calls_that_the_client_itself_refuses(client):
    with pytest.raises(NotImplementedError):
        await client.admin.clear_queue("q")
    with pytest.raises(NotImplementedError):
        await client.admin.move_message_to_dlq("1", "t")
    with pytest.raises(ValueError):
        client.transaction().kv.get_prefix("n", "k")
    with pytest.raises(ValueError):
        client.queue("q").commit_on_delivery().consume(collector([]))


def test_a_closed_client_has_sent_what_it_buffered(broker, queue):
    async def body():
        client = published.Queen(broker.url(""))
        await client.queue(queue).buffer({"message_count": 100, "time_millis": 60_000}).push({"data": 1})
        await client.close()
    asyncio.run(body())
    assert wire.data_of(broker.pop(queue)) == [1]


# ---- KV, alone and in a transaction ----


@with_client()
async def test_kv_calls(client, queue):
    kv, ns = client.kv, queue
    results = await kv.batch([kv.op.put(ns, "a", 1, forever=True), kv.op.put(ns, "n", 7, ttl_seconds=60)])
    assert [result["applied"] for result in results] == [True, True]
    many = await kv.get_many(ns, ["a", "n", "missing"])
    assert {row["key"]: row["value"] for row in many["rows"]} == {"a": 1, "n": 7} and many["missing"] == ["missing"]
    page = await kv.get_prefix(ns, "a", limit=1)
    assert [row["key"] for row in page["rows"]] == ["a"]
    assert (await kv.once(ns, "job", ttl_seconds=60), await kv.once(ns, "job", ttl_seconds=60)) == (True, False)


@with_client()
async def test_kv_operations_of_a_transaction(client, queue, other):
    ns = queue
    await client.kv.put(ns, "state", 1, forever=True)
    bundle = client.transaction().once(ns, "step-1", ttl_seconds=60).kv.get(ns, "state").kv.get_many(ns, ["state", "none"])
    bundle = bundle.kv.put(ns, "a", 1, forever=True).kv.put_if_absent(ns, "b", 2, forever=True)
    bundle = bundle.queue(other).partition("p").push([{"data": "out"}])
    answer = await bundle.commit()
    assert answer["success"] is True and [row["type"] for row in answer["results"]] == ["push"] + ["kv"] * 5
    assert answer["results"][2]["value"] == 1 and (await client.kv.get(ns, "b"))["value"] == 2
    again = await client.transaction().once(ns, "step-1", ttl_seconds=60).queue(other).push([{"data": "twice"}]).commit()
    assert not again and again["reason"] == "kv_precondition" and again["kvReason"] == "exists"
    assert (await client.transaction().kv.delete(ns, "a").commit())["success"] is True
    assert payloads(await pinned(client, other, 10).pop()) == ["out"]
