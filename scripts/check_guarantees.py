"""Checks docs/guarantees.md and docs/contract.md: every rule has a test, and each named test ran and passed.

The results are those that scripts/test leaves in build/test-results: one XML file per test program, one of the
end-to-end suite. A test that was skipped, disabled or not run counts as missing."""

import dataclasses
import pathlib
import re
import sys
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"


@dataclasses.dataclass
class Page:
    """A page of tables headed `| Rule | In short | Tests |`, or `| Call | Tests |` for names that are no numbered rules."""

    name: str
    families: dict[str, int]  # how many rules each family has; a rule is the family's key and a number from 1
    single: tuple[str, ...] = ()

    def rules(self) -> set[str]:
        return {f"{family}{number}" for family, count in self.families.items() for number in range(1, count + 1)} | set(self.single)


def numbered(family: str, numbers) -> list[str]:
    return [f"{family}{number}" for number in numbers]


# The acceptance list of the sink.
SINK = [*numbered("A", range(1, 10)), *numbered("B", range(1, 28)), *numbered("C", range(1, 12)), *numbered("D", range(1, 18)),
        *numbered("E", range(1, 5)), *numbered("F", range(1, 20)), *numbered("G", range(1, 15)), *numbered("H", range(1, 20)),
        *numbered("I", range(1, 13)), *numbered("J", range(1, 9)), *numbered("L", range(1, 14)), "M1"]
HARDENED_SINK = numbered("HD-", range(1, 21))

PAGES = [
    Page("guarantees.md", {
        "DUR-": 10, "DIR-": 8, "LOG-": 12, "QL-": 28, "GC-": 12, "EN-": 10, "PL-": 13, "AP-": 7, "ST-": 6, "CK-": 5, "CP-": 7,
        "RC-": 7, "BR-": 20, "BR-R": 2, "CR-": 7, "SP-": 5, "RT-": 16, "RE-": 12, "ID-": 4, "RD-": 10, "DD-": 9, "BP-": 6,
        "CE-": 9, "CL-": 13, "GR-": 5, "LIM-": 7,
    }, ("HD-21", "HD-22", "HD-23", "HD-24", "HD-25", "HD-27", "HD-28", "HD-29", "HD-30", "HD-31", "HD-32", "HD-33", "HD-34", "HD-38", "HD-39")),
    Page("contract.md", {
        "R-": 3, "P-": 14, "W-": 5, "S-": 8, "F-": 6, "C-": 4, "L-": 11, "A-": 16, "X-": 4, "T-": 7, "O-": 8, "G-": 6, "Q-": 4,
        "M-": 2, "D-": 4, "N-": 4, "push ": 16, "pop ": 9, "consume ": 10, "transaction ": 5, "ack-window ": 4, "semantics ": 13,
        "watermark ": 3, "retention ": 2, "16.": 18, "KV-": 20, "kv ": 13, "LK-": 13, "locks ": 7, "TM-": 14, "TX-": 10, "timers ": 9, "ST-": 18, "streams ": 15, "EN-": 11, "CP-": 3,
        "EP-": 16, "ephemeral ": 9, "CF-": 7, "WB-": 2, "DP-": 4, "AP-": 5, "DD-": 13, "state retention ": 2,
        "figures ": 16,
    }, ("HD-26", "HD-35", "HD-36", "HD-37", "HD-38", *HARDENED_SINK, *SINK)),
]


def read_page(page):
    """Rule or call -> (tests, reason): one of the two is empty; with the rules alone and what is wrong with the tables."""
    rows, rules, errors, heading = {}, set(), [], None
    for line in (ROOT / "docs" / page.name).read_text().splitlines():
        if not line.startswith("|"):
            heading = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if heading is None:
            heading = cells
        if heading[0] not in ("Rule", "Call") or cells == heading or set(line) <= set("|-: "):
            continue
        key = cells[0].strip("`")
        if len(cells) != len(heading):
            errors.append(f"{key}: a row of {len(cells)} cells")
            continue
        if key in rows:
            errors.append(f"{key} has two rows")
        tests = re.findall(r"`([^`]+)`", cells[-1])
        rows[key] = (tests, "" if tests else cells[-1])
        if heading[0] == "Rule":
            rules.add(key)
    return rows, rules, errors


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


def check(page, results):
    rows, rules, errors = read_page(page)
    wanted = page.rules()
    errors += [f"{rule} has no row" for rule in sorted(wanted - rules)]
    errors += [f"{rule} is no rule" for rule in sorted(rules - wanted)]
    errors += [f"{key}: neither a test nor a reason" for key, (tests, why) in rows.items() if not tests and len(why) < 8]
    named = {(key, test) for key, (tests, _) in rows.items() for test in tests}
    for key, test in sorted(named):
        if test not in results:
            errors.append(f"{key}: {test} did not run")
        elif not results[test]:
            errors.append(f"{key}: {test} failed")
    for error in errors:
        print(f"{page.name}: {error}")
    tested = sum(1 for rule in rules if rows[rule][0])
    print(f"{page.name}: {tested} rules with tests, {len(rules) - tested} that need a part not built yet; "
          f"{len({test for _, test in named})} tests, {len(rows) - len(rules)} calls")
    return not errors


def main():
    results = read_results()
    if not results:
        print(f"no results in {RESULTS}: run scripts/test unit crash e2e first")
        return 1
    return 0 if all([check(page, results) for page in PAGES]) else 1


if __name__ == "__main__":
    sys.exit(main())
