"""Several machines' reports as one: what a single run over all files would have written, byte for byte.

Reports of shards say which parts they are and where their files stood in the whole, so that a missing part is noticed
and the order is that of one run. Other reports are put one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from warplint_reports import json as json_report
from warplint_reports import sarif, sarif_limits

KINDS = ("sarif", "json")


class MergeError(ValueError):
    """Reports that cannot be put together; the message says which and why."""


def kind_of(data: Any, name: str) -> str:
    """`sarif` or `json`. Raises MergeError for what is neither."""
    if isinstance(data, dict):
        if data.get("schema") == json_report.SCHEMA and isinstance(data.get("files"), list):
            return "json"
        runs = data.get("runs")
        if data.get("version") == "2.1.0" and isinstance(runs, list) and len(runs) == 1:
            if runs[0].get("tool", {}).get("driver", {}).get("name") == "warplint":
                return "sarif"
    raise MergeError(f"{name}: neither a SARIF log nor a JSON report of this version of warplint")


def merged(named: Sequence[tuple[str, Any]]) -> tuple[str, str]:
    """Reports by the names of their files as one of the same kind: its kind and its text. Raises MergeError."""
    kinds = {kind_of(data, name) for name, data in named}
    if len(kinds) != 1:
        raise MergeError("SARIF logs and JSON reports cannot be mixed")
    (kind,) = kinds
    try:
        text = _sarif(named) if kind == "sarif" else _json(named)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise MergeError(f"a report is not as warplint writes it: {type(error).__name__}: {error}") from error
    return kind, text


def worst(kind: str, text: str) -> tuple[set[str], bool, bool]:
    """What a merged report says: the levels of its findings, whether a file has a problem, whether anything is
    incomplete.
    """
    data = json.loads(text)
    if kind == "json":
        files = data["files"]
        levels = {finding["level"] for file in files for finding in _findings(file)}
        incomplete = any(f["reasons"] or any(k["verdict"] == "incomplete" for k in f["kernels"]) for f in files)
        return levels, any(file["problem"] for file in files), incomplete
    (run,) = data["runs"]
    levels = {result["level"] for result in run["results"] if not result.get("suppressions")}
    (invocation,) = run["invocations"]
    said = {notice["descriptor"]["id"] for notice in invocation["toolExecutionNotifications"]}
    return levels, not invocation["executionSuccessful"], bool(said & {"file-incomplete", "kernel-incomplete"})


def _findings(file: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from file["findings"]
    for kernel in file["kernels"]:
        yield from kernel["findings"]


def _check(named: Sequence[tuple[str, Any]], shards: Sequence[dict[str, Any] | None]) -> bool:
    """Whether these are all parts of one whole. Raises MergeError when only some are, or one is there twice."""
    if not any(shards):
        return False
    counts = {shard["count"] for shard in shards if shard}
    if not all(shards) or len(counts) != 1:
        raise MergeError("these are not the parts of one whole: the numbers after the slash of --shard differ")
    (count,) = counts
    numbers = [shard["number"] for shard in shards if shard]
    missing = sorted(set(range(1, count + 1)) - set(numbers))
    if missing:
        raise MergeError(f"part {', '.join(map(str, missing[:9]))} of {count} is missing")
    if len(numbers) != count:
        twice = next(name for (name, _), number in zip(named, numbers, strict=True) if numbers.count(number) > 1)
        raise MergeError(f"{twice}: this part of {count} is there twice")
    return True


def _no_file_twice(paths: Sequence[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise MergeError(f"{path} is in two of the reports")
        seen.add(path)


# ----------------------------------------------------------------------------------------------------- JSON
def _json(named: Sequence[tuple[str, Any]]) -> str:
    first = named[0][1]
    if any(data["version"] != first["version"] for _, data in named):
        raise MergeError("the reports were written by different versions of warplint")
    shards = [data.get("shard") for _, data in named]
    placed = [
        (shard["positions"][number] if shard else 0, file)
        for (_, data), shard in zip(named, shards, strict=True)
        for number, file in enumerate(data["files"])
    ]
    if _check(named, shards):
        placed.sort(key=lambda pair: pair[0])
    files = [file for _, file in placed]
    _no_file_twice([file["path"] for file in files])
    return json.dumps({**{k: v for k, v in first.items() if k != "shard"}, "files": files}, indent=2) + "\n"


# ---------------------------------------------------------------------------------------------------- SARIF
def _sarif(named: Sequence[tuple[str, Any]]) -> str:
    runs = [data["runs"][0] for _, data in named]
    first = runs[0]
    for (name, _), run in zip(named, runs, strict=True):
        if run["tool"] != first["tool"]:
            raise MergeError(f"{name}: written by another version of warplint, or with other rules, than {named[0][0]}")
        if run["automationDetails"] != first["automationDetails"]:
            raise MergeError(f"{name}: another --sarif-category than {named[0][0]}")
    shards = [run["properties"].pop("shard", None) for run in runs]
    parts = [part for run, shard in zip(runs, shards, strict=True) for part in _parts(run, shard)]
    if _check(named, shards):
        parts.sort(key=lambda part: part[0])
    artifacts = [artifact for part in parts for artifact in part[1]]
    _no_file_twice([artifact["location"]["uri"] for artifact in artifacts])
    run = {
        **first,
        "artifacts": artifacts,
        "results": [result for part in parts for result in part[2]],
        "invocations": [
            {
                **first["invocations"][0],
                "executionSuccessful": all(run["invocations"][0]["executionSuccessful"] for run in runs),
                "toolExecutionNotifications": [notice for part in parts for notice in part[3]],
            }
        ],
        "properties": {**first["properties"], "kernels": [kernel for part in parts for kernel in part[4]]},
    }
    return sarif_limits.fitted({**named[0][1], "runs": [run]}, sarif.truncation_notice())


_Part = tuple[int, list[Any], list[Any], list[Any], list[Any]]
"""Position in the whole, artifacts, results, notifications, kernels."""


def _parts(run: dict[str, Any], shard: dict[str, Any] | None) -> Iterator[_Part]:
    """A run's contents file by file; all at once where it does not say what belongs to which file."""
    artifacts, results, kernels = run["artifacts"], run["results"], run["properties"].get("kernels", [])
    notices = run["invocations"][0]["toolExecutionNotifications"]
    files = (shard or {}).get("files")
    if not files:
        yield (1 << 60 if shard else 0), artifacts, results, notices, kernels
        return
    at = [0, 0, 0]
    for number, (position, *sizes) in enumerate(files):
        ends = [start + size for start, size in zip(at, sizes, strict=True)]
        yield (
            position,
            artifacts[number : number + 1],
            results[at[0] : ends[0]],
            notices[at[1] : ends[1]],
            kernels[at[2] : ends[2]],
        )
        at = ends
