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
def bucket_server():
    bucket = Bucket()
    yield bucket
    bucket.close()


@pytest.fixture
def bucket(bucket_server, request):
    """The bucket, emptied."""
    for key in bucket_server.keys():
        bucket_server.client.delete_object(Bucket=bucket_server.name, Key=key)
    return bucket_server
