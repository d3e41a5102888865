"""The streams of the published client, unchanged, against a real broker (api-state.md 5.5)."""

import asyncio
import contextlib
import datetime
import time

import pytest
from queen import Stream
from queen.streams.operators.window_cron import WindowCronOperator

from published_client import make, payloads, pinned, push, with_client


@contextlib.asynccontextmanager
async def running(broker, stream, name, errors=0, **options):
    runner = await stream.run(query_id=name, url=broker.url(""), **{"subscription_mode": "all", "max_wait_millis": 200, **options})
    try:
        yield runner
    finally:
        await runner.stop()
    assert runner.metrics()["errorsTotal"] == errors, runner.metrics()


async def sunk(client, queue, enough, seconds=20):
    """Everything in the queue, once `enough(values)`."""
    values: list = []
    deadline = time.monotonic() + seconds
    while not enough(values):
        assert time.monotonic() < deadline, values
        got = await pinned(client, queue, batch=1000, partitions=10).group("reader").subscription_mode("all").pop()
        values += payloads(got)
        for message in got:
            await client.ack(message, True, {"group": "reader"})
        if not got:
            await asyncio.sleep(0.1)
    return values


def totals(values):
    return sum(v["count"] for v in values), sum(v["sum"] for v in values)


COUNT_AND_SUM = {"count": lambda m: 1, "sum": lambda m: m["v"]}


@with_client()
async def test_tumbling_windows_count_and_sum(client, broker, queue, other):
    """5.5 1."""
    stream = Stream.from_(client.queue(queue)).window_tumbling(seconds=2, idle_flush_ms=500).aggregate(COUNT_AND_SUM).to(client.queue(other))
    async with running(broker, stream, queue):
        for value in range(1, 9):
            await push(client, queue, {"data": {"v": value}}, partition="p")
            await asyncio.sleep(1.1)
        values = await sunk(client, other, lambda vs: totals(vs)[0] >= 8)
    assert totals(values) == (8, 36) and len(values) >= 3


@with_client()
async def test_partitions_are_counted_apart(client, broker, queue, other):
    """5.5 2, 3."""
    stream = (Stream.from_(client.queue(queue)).window_tumbling(seconds=1, idle_flush_ms=300)
              .aggregate({**COUNT_AND_SUM, "min": lambda m: m["v"], "max": lambda m: m["v"], "avg": lambda m: m["v"]}).to(client.queue(other)))
    sent = {"a": [10, 5, 30, 2, 3], "b": [1] * 6, "c": [7, 8]}
    for partition, values in sent.items():
        await push(client, queue, *[{"data": {"v": v}} for v in values], partition=partition)
    async with running(broker, stream, queue):
        await sunk(client, other, lambda vs: totals(vs)[0] >= 13)
    for partition, values in sent.items():
        rows = [r["payload"] for r in broker.fetch_all(other, partition)]
        assert totals(rows) == (len(values), sum(values))
        # One push is one stamp, so one window.
        assert [(r["min"], r["max"], r["avg"]) for r in rows] == [(min(values), max(values), sum(values) / len(values))]


@with_client()
async def test_grace_holds_a_window_open(client, broker, queue, other):
    """5.5 4."""
    stream = (Stream.from_(client.queue(queue)).windowTumbling(seconds=2, gracePeriod=4, idleFlushMs=300)
              .aggregate(COUNT_AND_SUM).to(client.queue(other)))
    async with running(broker, stream, queue):
        await push(client, queue, *[{"data": {"v": v}} for v in (1, 2, 3)], partition="p")
        await asyncio.sleep(3)
        assert await pinned(client, other).group("early").subscription_mode("all").pop() == []
        values = await sunk(client, other, lambda vs: len(vs) > 0)
    assert [totals(values)] == [(3, 6)]


@with_client()
async def test_a_quiet_partition_is_flushed_and_foreach_knows_its_window(client, broker, queue):
    """5.5 5, 6."""
    seen: list = []
    stream = (Stream.from_(client.queue(queue)).window_tumbling(seconds=1, idle_flush_ms=700).aggregate(COUNT_AND_SUM)
              .foreach(lambda value, ctx: seen.append((value, ctx))))
    async with running(broker, stream, queue) as runner:
        await push(client, queue, *[{"data": {"v": v}} for v in (1, 2, 3)], partition="quiet")
        for _ in range(100):
            await asyncio.sleep(0.1)
            if seen:
                break
        await asyncio.sleep(0.3)
        assert runner.metrics()["flushCyclesTotal"] >= 1
    (value, context), = seen
    assert value["count"] == 3
    assert context["partition"] == "quiet" and isinstance(context["partitionId"], str) and context["windowKey"]
    assert context["windowEnd"] - context["windowStart"] == 1000


@with_client()
async def test_sessions_end_with_their_gap(client, broker, queue, other):
    """5.5 7: two bursts, two user keys, and a quiet one."""
    stream = (Stream.from_(client.queue(queue)).keyBy(lambda m: m["data"]["user"]).windowSession(gap=2, idleFlushMs=300)
              .aggregate({**COUNT_AND_SUM, "user": lambda m: m["user"]}).to(client.queue(other)))
    async with running(broker, stream, queue):
        for values in ([(1, 10), (2, 20)], [(3, 30), (4, 40)]):
            for one, two in values:
                await push(client, queue, {"data": {"user": 1, "v": one}}, {"data": {"user": 2, "v": two}}, partition="p")
            await asyncio.sleep(4)
        values = await sunk(client, other, lambda vs: totals(vs)[0] >= 8)
    assert sorted((v["count"], v["sum"]) for v in values) == [(2, 3), (2, 7), (2, 30), (2, 70)]


@with_client()
async def test_a_quiet_session_is_closed_by_the_flush(client, broker, queue, other):
    """5.5 7."""
    stream = Stream.from_(client.queue(queue)).window_session(gap=1, idle_flush_ms=300).aggregate(COUNT_AND_SUM).to(client.queue(other))
    async with running(broker, stream, queue):
        await push(client, queue, {"data": {"v": 3}}, {"data": {"v": 4}}, partition="p")
        values = await sunk(client, other, lambda vs: len(vs) > 0)
    assert [totals([v]) for v in values] == [(2, 7)]


@with_client()
async def test_sliding_windows_overlap(client, broker, queue, other):
    """5.5 8."""
    with pytest.raises(ValueError):
        Stream.from_(client.queue(queue)).windowSliding(size=5, slide=2)
    stream = Stream.from_(client.queue(queue)).window_sliding(size=4, slide=2, idle_flush_ms=300).aggregate(COUNT_AND_SUM).to(client.queue(other))
    async with running(broker, stream, queue):
        await push(client, queue, *[{"data": {"v": 1}} for _ in range(6)], partition="p")
        values = await sunk(client, other, lambda vs: totals(vs)[0] >= 12)
    assert totals(values)[0] == 12


@with_client()
async def test_cron_windows_align_to_utc(client, broker, queue, other):
    """5.5 9."""
    with pytest.raises(ValueError):
        Stream.from_(client.queue(queue)).windowCron(every="fortnight")
    at = datetime.datetime(2026, 1, 7, 13, 45, 30, tzinfo=datetime.timezone.utc)
    for every, start in (("minute", "2026-01-07T13:45:00"), ("hour", "2026-01-07T13:00:00"), ("day", "2026-01-07T00:00:00"),
                         ("week", "2026-01-05T00:00:00")):
        envelope = (await WindowCronOperator(every=every).apply({"msg": {"createdAt": at.isoformat()}}))[0]
        assert envelope["windowKey"].startswith(start)
    stream = Stream.from_(client.queue(queue)).window_cron(every="second", idle_flush_ms=300).aggregate(COUNT_AND_SUM).to(client.queue(other))
    async with running(broker, stream, queue):
        for _ in range(10):
            await push(client, queue, {"data": {"v": 1}}, partition="p")
            await asyncio.sleep(0.5)
        values = await sunk(client, other, lambda vs: totals(vs)[0] >= 10)
    assert len(values) >= 4 and totals(values)[0] == 10


def event(ms, v=1):
    return {"data": {"at": ms, "v": v}}


@with_client()
@pytest.mark.parametrize("policy, late", [("drop", 1), ("include", 0)])
async def test_event_time_has_a_watermark_that_survives_the_runner(client, broker, queue, other, policy, late):
    """5.5 10."""
    def stream():
        return (Stream.from_(client.queue(queue)).window_tumbling(seconds=10, event_time=lambda m: m["data"]["at"], allowed_lateness=5,
                                                                  on_late=policy, idle_flush_ms=0)
                .aggregate(COUNT_AND_SUM).to(client.queue(other)))
    base = 1_700_000_000_000
    async with running(broker, stream(), queue):
        await push(client, queue, event(base), event(base + 2_000), event(base + 40_000), event(base + 36_000), partition="p")
        values = await sunk(client, other, lambda vs: len(vs) >= 1)
        assert totals(values) == (2, 2)
    async with running(broker, stream(), queue) as runner:
        await push(client, queue, event(base + 1_000, 100), partition="p")
        for _ in range(100):
            await asyncio.sleep(0.05)
            if runner.metrics()["messagesTotal"] == 1 and runner.metrics()["cyclesTotal"] >= 1:
                break
        assert runner.metrics()["lateEventsTotal"] == late


@with_client()
async def test_pipelines_deliver_exactly_what_they_made(client, broker, queue, other):
    """5.5 11."""
    async def plus_one(message):
        await asyncio.sleep(0)
        return {"v": message["data"]["v"] + 1}

    seen: list = []
    source = client.queue(queue)
    pipelines = {
        "filter": (Stream.from_(source).filter(lambda m: m["data"]["v"] % 3 != 0).to(client.queue(f"{other}-filter")), 20),
        "flat": (Stream.from_(source).filter(lambda m: m["data"]["v"] < 5).flat_map(lambda m: [{"c": c} for c in range(4)])
                 .to(client.queue(f"{other}-flat")), 20),
        "map": (Stream.from_(source).filter(lambda m: m["data"]["v"] < 6).map(plus_one).to(client.queue(f"{other}-map")), 6),
        "foreach": (Stream.from_(source).filter(lambda m: m["data"]["v"] >= 25).foreach(lambda value, ctx=None: seen.append(value)), 5),
    }
    await push(client, queue, *[{"data": {"v": v}} for v in range(30)], partition="p")
    for name, (stream, count) in pipelines.items():
        async with running(broker, stream, f"{queue}-{name}") as runner:
            for _ in range(200):
                if runner.metrics()["messagesTotal"] == 30:
                    break
                await asyncio.sleep(0.05)
        if name != "foreach":
            assert len(broker.fetch_all(f"{other}-{name}", "p")) == count
    assert len(seen) == 5


@with_client()
async def test_a_changed_shape_needs_a_reset(client, broker, queue, other):
    """5.5 12."""
    first = Stream.from_(client.queue(queue)).map(lambda m: m["data"]).to(client.queue(other))
    changed = Stream.from_(client.queue(queue)).map(lambda m: m["data"]).filter(lambda v: True).to(client.queue(other))
    async with running(broker, first, queue):
        pass
    with pytest.raises(Exception, match="config_hash mismatch"):
        await changed.run(query_id=queue, url=broker.url(""))
    async with running(broker, changed, queue, reset=True):
        pass


@with_client()
async def test_a_second_run_goes_on_where_the_first_stopped(client, broker, queue, other):
    """5.5 13."""
    def stream():
        return Stream.from_queue(client.queue(queue)).map(lambda m: m["data"]).to(client.queue(other))
    for first in (0, 5):
        async with running(broker, stream(), queue) as runner:
            await push(client, queue, *[{"data": {"v": v}} for v in range(first, first + 5)], partition="p")
            await sunk_count(broker, other, first + 5)
        assert runner.metrics()["messagesTotal"] == 5
    assert [r["payload"]["v"] for r in broker.fetch_all(other, "p")] == list(range(10))


async def sunk_count(broker, queue, count, partition="p"):
    for _ in range(400):
        answer = broker.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": 0}]}).json()["entries"][0]
        if answer.get("highWatermark", 0) >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{queue} does not get {count} messages: {answer}")


@with_client()
async def test_two_queries_on_one_source_see_everything(client, broker, queue, other):
    """5.5 14."""
    await push(client, queue, *[{"data": {"v": v}} for v in range(1, 13)], partition="p")
    windows = Stream.from_(client.queue(queue)).key_by(lambda m: "all").window_tumbling(seconds=1, idle_flush_ms=300)
    folded = {"one": windows.aggregate(COUNT_AND_SUM),
              "two": windows.reduce(lambda acc, m: {"count": acc["count"] + 1, "sum": acc["sum"] + m["v"]}, {"count": 0, "sum": 0})}
    for name, stream in folded.items():
        stream = stream.to(client.queue(f"{other}-{name}"))
        async with running(broker, stream, f"{queue}-{name}"):
            await sunk_count(broker, f"{other}-{name}", 1)
        assert totals([r["payload"] for r in broker.fetch_all(f"{other}-{name}", "p")]) == (12, 78)


@with_client()
async def test_a_gate_that_denies_loses_and_doubles_nothing(client, broker, queue, other):
    """5.5 15. The values are made behind the gate: before it, this client counts values where messages are meant (ST-13)."""
    denied: list = []

    def allow(value, ctx):
        if isinstance(value, dict) and value.get("v") == 2 and not denied:
            denied.append(value)
            return False
        return True

    await make(client, queue, leaseTime=2)
    await push(client, queue, *[{"data": {"v": v}} for v in (1, 2, 3)], partition="p")
    stream = Stream.from_(client.queue(queue)).gate(allow).flatMap(lambda v: [v.get("data", v)] * 2).to(client.queue(other))
    async with running(broker, stream, queue):
        await sunk_count(broker, other, 6)
        await asyncio.sleep(2.5)
    assert sorted(r["payload"]["v"] for r in broker.fetch_all(other, "p")) == [1, 1, 2, 2, 3, 3] and len(denied) == 1
