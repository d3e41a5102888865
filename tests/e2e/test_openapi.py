"""Schemathesis against /openapi.json: generated requests of every route, right and wrong ones, get answers that the document
describes. QUEEN_SCHEMATHESIS_EXAMPLES sets how many requests each operation gets."""

import os
import pathlib
import shutil
import tempfile

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as of_openapi

from harness import Broker

EXAMPLES = int(os.environ.get("QUEEN_SCHEMATHESIS_EXAMPLES", "25"))
CHECKS = [
    not_a_server_error,
    of_openapi.status_code_conformance,
    of_openapi.content_type_conformance,
    of_openapi.response_schema_conformance,
]


@pytest.fixture(scope="module")
def server():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="queen-openapi-"))
    broker = Broker(directory / "data").start()
    yield broker
    broker.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def api_schema(server):
    return schemathesis.openapi.from_url(server.url("/openapi.json"))


def do_not_wait_long(case):
    """A long poll may hold a request for a minute: here each waits a moment."""
    if case.path.startswith("/api/v1/pop") and case.query:
        case.query["timeout"] = "1000" if case.query.get("wait") in (None, False, "false") else "40"
    if case.path == "/api/v1/fetch" and isinstance(case.body, dict) and "maxWaitMs" in case.body:
        if isinstance(case.body["maxWaitMs"], int):
            case.body["maxWaitMs"] = min(case.body["maxWaitMs"], 20)


def keep_it_open(case):
    """A surface that is paused, or a tenant at its cap, would hide what the other routes answer."""
    if case.path.startswith("/api/v1/system/") and isinstance(case.body, dict):
        for name in ("kv", "timersSchedule", "timersFire", "enabled"):
            if case.body.get(name) is False:
                case.body[name] = True
    if case.path.endswith(("/quota", "/quotas")) and isinstance(case.body, dict):
        for name in case.body:
            if name.lower().startswith("max") and isinstance(case.body[name], int) and case.body[name] > 0:
                case.body[name] = 1 << 40


def check(operation):
    """Generated requests of one operation; raises what the first wrong answer is."""

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=operation.as_strategy())
    def run(case):
        do_not_wait_long(case)
        keep_it_open(case)
        case.call_and_validate(checks=CHECKS)

    run()


def test_every_answer_is_one_that_the_document_describes(api_schema):
    wrong, operations = {}, 0
    for result in api_schema.get_all_operations():
        operation = result.ok()
        operations += 1
        try:
            check(operation)
        except BaseExceptionGroup as found:  # every operation is looked at, whatever the others did
            wrong[operation.label] = "\n".join(str(failure) for failure in found.exceptions)
        except Exception as error:
            wrong[operation.label] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n\n".join(f"{label}\n{text}" for label, text in wrong.items())
    assert operations == sum(len(methods) for methods in api_schema.raw_schema["paths"].values())


def test_the_document_is_served_and_is_openapi(server):
    answer = requests.get(server.url("/openapi.json"), timeout=10)
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert document["openapi"] == "3.1.0" and document["info"]["title"] == "Queen"
    assert document["paths"]["/api/v1/push"]["post"]["x-queen-access"] == "write-only"


def test_the_broker_still_serves_after_all_of_that(server):
    """Runs last in this file: nothing of what was sent has hurt it."""
    answer = requests.post(server.url("/api/v1/push"), json={"items": [{"queue": "after", "payload": 1}]}, timeout=10)
    assert answer.status_code == 201 and answer.json()[0]["status"] == "queued"
    assert requests.get(server.url("/health"), timeout=10).status_code == 200
