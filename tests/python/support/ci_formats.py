"""Readers of --junit and --sarif, as strict as the tools that these formats are for."""

import json
import re
import xml.etree.ElementTree as ElementTree


def cases_of(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    [suite] = root
    cases = {case.get("name"): {child.tag: child for child in case} for case in suite}
    assert int(suite.get("tests")) == len(suite) == len(cases)
    for kind in ("failure", "error"):
        assert int(suite.get(f"{kind}s")) == sum(kind in case for case in cases.values())
    return cases


def sarif_in(path):
    """What GitHub's upload asks for: docs.github.com, "SARIF support for code scanning"."""
    log = json.loads(path.read_text())
    assert set(log) == {"$schema", "version", "runs"} and log["version"] == "2.1.0" and "sarif-2.1.0" in log["$schema"]
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "msda-replay" and driver["version"]
    rules = [rule["id"] for rule in driver["rules"]]
    for rule in driver["rules"]:
        texts = [rule["shortDescription"]["text"], rule["fullDescription"]["text"], rule["help"]["text"], rule["help"]["markdown"]]
        assert all(text == text.lstrip() and len(text) > 20 for text in texts) and len(texts[0]) <= 1024
    fingerprints = set()
    for result in run["results"]:
        assert result["ruleId"] in rules and result["level"] in ("error", "warning") and result["message"]["text"]
        [location] = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] == 1 and re.fullmatch(r"(file://)?[A-Za-z0-9-._~/%]+", place["artifactLocation"]["uri"])
        fingerprints.add(result["partialFingerprints"]["primaryLocationLineHash"])
    assert len(fingerprints) == len(run["results"])
    return run
