"""Checks docs/guarantees.md: every rule of the storage engine has a test, and each named test ran and passed.

The results are those that scripts/test leaves in build/test-results: one XML file per test program, one of the
end-to-end suite. A test that was skipped, disabled or not run counts as missing."""

import pathlib
import re
import sys
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
RESULTS = ROOT / "build" / "test-results"

# How many rules each family has.
FAMILIES = {
    "DUR": 10, "DIR": 8, "LOG": 12, "QL": 28, "GC": 12, "EN": 10, "PL": 13, "AP": 7, "ST": 6, "CK": 5, "CP": 7,
    "RC": 7, "BR": 20, "BR-R": 2, "CR": 7, "SP": 5, "RT": 16, "RE": 12, "ID": 4, "RD": 10, "DD": 9, "BP": 6,
    "CE": 9, "CL": 13, "GR": 5, "LIM": 7,
}
HARDENING = ["HD-27", "HD-28", "HD-29", "HD-30", "HD-31", "HD-32", "HD-33", "HD-34", "HD-38", "HD-39"]


def expected_rules():
    for family, count in FAMILIES.items():
        dash = "" if family == "BR-R" else "-"
        yield from (f"{family}{dash}{number}" for number in range(1, count + 1))
    yield from HARDENING


def read_page():
    """Rule -> (tests, reason): one of the two is empty."""
    rules, errors = {}, []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or not re.fullmatch(r"[A-Z]+-R?\d+", cells[0]):
            continue
        if len(cells) != 3:
            errors.append(f"{cells[0]}: a row of {len(cells)} cells")
            continue
        if cells[0] in rules:
            errors.append(f"{cells[0]} has two rows")
        tests = re.findall(r"`([^`]+)`", cells[2])
        rules[cells[0]] = (tests, "" if tests else cells[2])
    return rules, errors


def read_results():
    """Name -> passed. Parameters are folded: a test passed when all its instances did."""
    results = {}

    def note(name, passed):
        results[name] = results.get(name, True) and passed

    for path in sorted(RESULTS.glob("*_tests.xml")):
        for case in ET.parse(path).iter("testcase"):
            suite = re.sub(r"^[^/]+/", "", case.get("classname").split("<")[0])
            name = case.get("name").split("/")[0]
            if case.get("status") != "run" or case.get("result") == "skipped":
                continue
            note(f"{path.stem} {suite}.{name}", case.find("failure") is None)
    for path in sorted(RESULTS.glob("e2e*.xml")):
        for case in ET.parse(path).iter("testcase"):
            if case.find("skipped") is not None:
                continue
            module = case.get("classname").split(".")[-1]
            name = re.sub(r"\[.*", "", case.get("name"))
            note(f"{module}.py::{name}", case.find("failure") is None and case.find("error") is None)
    return results


def main():
    rules, errors = read_page()
    wanted = set(expected_rules())
    errors += [f"{rule} has no row" for rule in sorted(wanted - rules.keys())]
    errors += [f"{rule} is no rule" for rule in sorted(rules.keys() - wanted)]
    errors += [f"{rule}: neither a test nor a reason" for rule, (tests, why) in rules.items() if not tests and len(why) < 8]
    results = read_results()
    if not results:
        errors.append(f"no results in {RESULTS}: run scripts/test unit crash e2e first")
    named = {(rule, test) for rule, (tests, _) in rules.items() for test in tests}
    for rule, test in sorted(named):
        if test not in results:
            errors.append(f"{rule}: {test} did not run")
        elif not results[test]:
            errors.append(f"{rule}: {test} failed")
    for error in errors:
        print(f"guarantees: {error}")
    tested = sum(1 for tests, _ in rules.values() if tests)
    print(f"guarantees: {tested} rules with {len({test for _, test in named})} tests, {len(rules) - tested} that need a part not built yet")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
