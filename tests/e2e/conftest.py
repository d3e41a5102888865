import pathlib
import tempfile
import shutil

import pytest

from harness import Broker, Bucket


@pytest.fixture
def work():
    """A directory of the test's own, on a real disk."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="queen-e2e-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make_broker(work):
    made: list[Broker] = []

    def make(name: str = "data", **settings: str) -> Broker:
        broker = Broker(work / name, **settings)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def broker(make_broker):
    return make_broker().start()


@pytest.fixture(scope="session")
def bucket_servers():
    """The S3 servers of the session by kind, each started when a test first asks for it."""
    running: dict[str, Bucket] = {}

    def server(kind: str) -> Bucket:
        if kind not in running:
            running[kind] = Bucket(kind=kind)
        return running[kind]

    yield server
    for bucket in running.values():
        bucket.close()


@pytest.fixture
def bucket(bucket_servers, request):
    """The bucket, emptied. Of moto's server, unless the test is run by `s3_servers.on_both` or names another one."""
    server = bucket_servers(getattr(request, "param", "moto"))
    for key in server.keys():
        server.client.delete_object(Bucket=server.name, Key=key)
    return server
