"""Which S3 server a test of the sink runs against.

Two independent ones: moto checks policies and knows encryption by key, Versity S3 Gateway checks `Content-MD5` and keeps objects as
files (docs/decisions.md, "A second S3 server for the tests")."""

import pytest

KINDS = ("moto", "versitygw")

on_both = pytest.mark.parametrize("bucket", KINDS, indirect=True)


def by_turn(names: str, cases: list):
    """`pytest.mark.parametrize(names, cases)` whose cases take the servers by turn: for tests that are long for their own reasons."""
    rows = [(*(case if isinstance(case, tuple) else (case,)), KINDS[at % len(KINDS)]) for at, case in enumerate(cases)]
    return pytest.mark.parametrize(f"{names},bucket", rows, indirect=["bucket"])
