"""What tests that use the published Python client share."""

import asyncio
import functools
import inspect
import logging

from queen import Queen

logging.getLogger("queen").setLevel(logging.CRITICAL)


def with_client(seconds: float = 60, **options):
    """Runs an async test, for at most `seconds`, with a client of the test's broker."""
    def wrap(test):
        own = list(inspect.signature(test).parameters.values())
        wants_broker = any(parameter.name == "broker" for parameter in own)

        @functools.wraps(test)
        def run(broker, **fixtures):
            if wants_broker:
                fixtures["broker"] = broker

            async def body():
                async with Queen(broker.url(""), **options) as client:
                    await asyncio.wait_for(test(client, **fixtures), seconds)
            asyncio.run(body())
        # pytest must see the fixtures of the test, and `broker` instead of the client.
        others = [parameter for parameter in own if parameter.name not in ("client", "broker")]
        run.__signature__ = inspect.Signature([inspect.Parameter("broker", inspect.Parameter.POSITIONAL_OR_KEYWORD), *others])
        return run
    return wrap


async def make(client, queue: str, **options) -> None:
    answer = await client.queue(queue).config(options).create()
    assert answer["configured"] is True


async def push(client, queue: str, *items, partition: str | None = None):
    builder = client.queue(queue)
    return await (builder.partition(partition) if partition else builder).push(list(items))


def pinned(client, queue: str, batch: int = 1, partitions: int = 1):
    """A pop that returns at once, sized by the caller."""
    return client.queue(queue).autopilot(False).batch(batch).partitions(partitions).wait(False)


def statuses(results: list[dict]) -> list[str]:
    return [result["status"] for result in results]


def payloads(messages: list[dict]) -> list:
    return [message["data"] for message in messages]


def collector(into: list):
    """A handler of one message or of a batch that keeps the payloads."""
    async def handler(messages):
        into.extend(payloads(messages if isinstance(messages, list) else [messages]))
    return handler
