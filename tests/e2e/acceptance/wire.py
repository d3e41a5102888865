"""Raw calls of the message plane that several suites share."""

import time


def configure(broker, queue: str, **options) -> None:
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status_code == 200 and answer.json()["configured"] is True, answer.text


def push(broker, queue: str, *payloads, partition: str = "p", ids=None) -> list[dict]:
    """One push; `ids` are the transaction ids of the payloads, without them the broker mints them."""
    named = [{"transactionId": one} for one in ids] if ids else [{}] * len(payloads)
    return broker.push([{"queue": queue, "partition": partition, "payload": payload, **name} for payload, name in zip(payloads, named)])


def data_of(answer: dict | None) -> list:
    return [message["data"] for message in answer["messages"]] if answer else []


def offsets_of(answer: dict | None) -> list[int]:
    return [message["offset"] for message in answer["messages"]] if answer else []


def ack(broker, messages: list[dict], status="completed", group: str | None = None, **changes) -> list[dict]:
    """Acks messages one status for all; `changes` replace or, with None, remove fields of each item."""
    rows = []
    for message in messages:
        row = {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"],
               "status": status, **changes}
        rows.append({name: value for name, value in row.items() if value is not None})
    answer = broker.post("/api/v1/ack/batch", {"acknowledgments": rows, "consumerGroup": group})
    assert answer.status_code == 200, answer.text
    results = answer.json()
    assert [row["index"] for row in results] == list(range(len(rows)))
    return results


def acked(results: list[dict]) -> bool:
    return all(row["success"] is True and row["error"] is None for row in results)


def nothing_deliverable(broker, queue: str, **params) -> bool:
    return broker.pop(queue, batch=1000, partitions=64, **params) is None


def dead_letters(broker, queue: str, **params) -> list[dict]:
    answer = broker.get("/api/v1/dlq", queue=queue, **params)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["total"] == len(body["messages"])
    return body["messages"]


def depth(broker, queue: str, group: str | None = None) -> dict:
    answer = broker.get(f"/api/v1/resources/queues/{queue}/depth", **({"group": group} if group else {}))
    assert answer.status_code == 200, answer.text
    return answer.json()


def next_offset(broker, queue: str, partition: str = "p", group: str = "__QUEUE_MODE__") -> int | None:
    """Where the group reads on; None where it has finished nothing."""
    body = {"consumerGroup": group, "entries": [{"queue": queue, "partition": partition}]}
    answer = broker.post("/api/v1/consumer-groups/positions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"][0]["offset"]


def bounds(broker, queue: str, partition: str = "p") -> tuple[int, int]:
    """First retained offset and next offset to be assigned."""
    answer = broker.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": 0}]})
    entry = answer.json()["entries"][0]
    return entry["logStartOffset"], entry["highWatermark"]


def transaction(broker, *operations, **more) -> dict:
    answer = broker.post("/api/v1/transaction", {"operations": list(operations), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ack_operation(message: dict, status: str = "completed", group: str | None = None, **changes) -> dict:
    row = {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"],
           "status": status, "consumerGroup": group, **changes}
    return {name: value for name, value in row.items() if value is not None}


def push_operation(queue: str, *payloads, partition: str = "p", ids=None) -> dict:
    named = [{"transactionId": one} for one in ids] if ids else [{}] * len(payloads)
    return {"type": "push", "items": [{"queue": queue, "partition": partition, "payload": payload, **name}
                                      for payload, name in zip(payloads, named)]}


def seek(broker, group: str, queue: str, **body) -> dict:
    answer = broker.post(f"/api/v1/consumer-groups/{group}/queues/{queue}/seek", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(condition, seconds: float = 10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if got := condition():
            return got
        time.sleep(0.05)
    raise AssertionError("the condition does not come")
