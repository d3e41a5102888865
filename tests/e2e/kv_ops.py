"""Operations of the key/value store as tests send them."""

import json


def call(broker, *ops):
    answer = broker.post("/api/v1/kv", {"operations": list(ops)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def kv(broker, *ops):
    return call(broker, *ops)["results"]


def one(broker, op):
    return kv(broker, op)[0]


def op(name, key="k", ns="n", **more):
    lasting = name in ("put", "putIfAbsent", "incr") and "ttlSeconds" not in more
    return {"op": name, "ns": ns, "key": key, **({"value": 1} if name in ("put", "putIfAbsent") else {}), **({"forever": True} if lasting else {}), **more}


def put(key="k", value=1, **more):
    return op("put", key, value=value, **more)


def get(key="k", **more):
    return op("get", key, **more)


def incr(key="k", delta=1, **more):
    return op("incr", key, delta=delta, **more)


def check(key="k", expect=0, **more):
    return op("check", key, expect=expect, **more)


def path(key="k", ns="n"):
    return f"/api/v1/kv/{ns}/{key}"


def send(broker, method, where, body=None):
    data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
    return broker.session.request(method, broker.url(where), data=data, timeout=30)


def refusal(answer):
    body = answer.json()
    return answer.status_code, body.get("error"), body.get("reason")


def applied_index(broker):
    return broker.get("/health").json()["raft"]["applied"]
