"""``python -m sandboxed_tools.testing.conformance``: put the engine here through the checks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.testing.conformance.run import (
    ALL_CHECKS,
    CheckResult,
    Report,
    run_conformance,
)
from sandboxed_tools.tool import for_terminal

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks whose id begins with one of the given words, or all of them.

    Returns 0 when all held, 1 when one did not, 2 for wrong usage, 125 without a sandbox.
    """
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("prefixes", nargs="*", help="only checks whose id begins so")
    parser.add_argument("--image", default="sandboxed-tools/base")
    parser.add_argument("--list", action="store_true", help="list the checks and their claims")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    chosen = [c for c in ALL_CHECKS if c.id.startswith(tuple(options.prefixes or ("",)))]
    if not chosen:
        parser.error("no check has such an id; --list shows them")
    if options.list:
        _say("\n".join(f"{check.id:40} {check.claim}" for check in chosen))
        return 0
    try:
        report = anyio.run(_run, [check.id for check in chosen], options.image, options.json)
    except SandboxedToolsError as error:
        sys.stderr.write(f"error: {for_terminal(str(error))}\n")
        return 125
    if options.json:
        _say(json.dumps(report.to_json()))
    else:
        held = sum(result.outcome == "passed" for result in report.results)
        _say(f"{held} of {len(report.results)} checks held")
    return 0 if report.ok else 1


async def _run(ids: list[str], image: str, quiet: bool) -> Report:
    def show(result: CheckResult) -> None:
        line = f"{result.outcome:17} {result.id:40} {result.seconds:5.1f} s  {result.detail}"
        _say(for_terminal(line, one_line=True).rstrip())

    sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
    try:
        return await run_conformance(
            sandbox, image=image, only=ids, on_result=None if quiet else show
        )
    finally:
        with anyio.CancelScope(shield=True):
            await sandbox.aclose()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
