"""The Docker backend is put through every check; and the checks catch what is not a sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.testing.conformance import (
    ALL_CHECKS,
    CheckResult,
    Difference,
    Report,
    run,
    run_conformance,
)
from sandboxed_tools.testing.conformance.differences import known_differences
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker.engine import Engine

KNOWN_DIFFERENCES: Mapping[str, str] = {}


def selected_checks(session: pytest.Session) -> set[str]:
    """The ids that this run selected: with ``-k`` only those are put through."""
    parameters = [getattr(item, "callspec", None) for item in session.items]
    return {p.params["check_id"] for p in parameters if p is not None and "check_id" in p.params}


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, engine: Engine, base_image: str
) -> dict[str, CheckResult]:
    """The results of all selected checks, run together since most of their time is waiting."""
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.workspace import WorkspaceViews

    async def conduct() -> Report:
        sandbox = DockerSandbox(engine, views=WorkspaceViews())
        try:
            return await run_conformance(
                sandbox,
                image=base_image,
                known_differences=KNOWN_DIFFERENCES,
                only=selected_checks(request.session),
            )
        finally:
            await sandbox.aclose()

    return {result.id: result for result in anyio.run(conduct).results}


@pytest.mark.engine
@pytest.mark.timeout(420)  # the first of them waits for all
@pytest.mark.parametrize("check_id", [check.id for check in ALL_CHECKS])
def test_docker_holds(results: dict[str, CheckResult], check_id: str) -> None:
    result = results[check_id]
    assert result.outcome in ("passed", "known_difference"), f"{result.claim}: {result.detail}"


def test_ids_are_unique_and_name_their_group() -> None:
    ids = [check.id for check in ALL_CHECKS]
    assert len(ids) == len(set(ids))
    assert all(group and name for group, _, name in (check_id.partition(".") for check_id in ids))


def tell(sink: OutputSink) -> None:
    with suppress(ValueError):  # one check's sink raises on purpose
        sink("stdout", b"agreed\n")


class AgreesWithEverything:
    """No sandbox at all: it runs nothing, and says that all went well."""

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        if on_output is not None:
            threading.Thread(target=tell, args=(on_output,), daemon=True).start()
        return ExecResult("exited", exit_code=0, stdout=b"agreed\n", stdout_bytes=7)

    async def capabilities(self) -> Capabilities:
        return Capabilities("none", {}, ())

    async def aclose(self) -> None:
        pass


class IsBroken(AgreesWithEverything):
    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        raise RuntimeError("fell over")


class NeverReturns(AgreesWithEverything):
    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")


# What is true of a sandbox that does nothing: it refuses nothing wrongly, and leaks nothing.
TRUE_OF_DOING_NOTHING = {
    "endings.malformed-commands",
    "limits.usage",
    "output.nothing-after-the-end",
    "process.directory-through-a-descriptor",
}


def check_with(sandbox: AgreesWithEverything, **options: object) -> Report:
    return anyio.run(lambda: run_conformance(sandbox, image="none", at_once=32, **options))  # type: ignore[arg-type]


def test_a_sandbox_that_only_agrees_fails_nearly_every_check() -> None:
    report = check_with(AgreesWithEverything())
    passed = {result.id for result in report.results if result.outcome == "passed"}
    assert not report.ok
    assert passed == TRUE_OF_DOING_NOTHING


def test_whatever_a_backend_raises_is_the_failure_of_that_check() -> None:
    report = check_with(IsBroken(), only={"output.streams-apart", "stdin.none"})
    assert [result.outcome for result in report.results] == ["failed", "failed"]
    assert all("RuntimeError: fell over" in result.detail for result in report.results)


def test_a_backend_that_hangs_fails_by_the_deadline_of_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hasty = tuple(replace(check, deadline_s=0.2) for check in ALL_CHECKS[:1])
    monkeypatch.setattr(run, "ALL_CHECKS", hasty)
    (result,) = check_with(NeverReturns()).results
    assert result.outcome == "failed"
    assert "not done after" in result.detail


def test_on_a_slow_machine_checks_and_commands_get_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[float, float | None]] = []

    class Records(NeverReturns):
        async def run(
            self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
        ) -> ExecResult:
            given.append((spec.limits.wall_s, spec.limits.idle_s))
            return await super().run(spec, command, on_output)

    names = {"endings.exit-code-0", "endings.idle-timeout"}
    hasty = tuple(replace(c, deadline_s=2) for c in ALL_CHECKS if c.id in names)
    monkeypatch.setattr(run, "ALL_CHECKS", hasty)
    results = check_with(Records(), patience=4).results
    assert {result.detail for result in results} == {"not done after 8 s"}
    assert set(given) == {(120, None), (120, 4)}


def test_a_declared_difference_is_run_and_does_not_fail_the_report() -> None:
    report = check_with(
        AgreesWithEverything(),
        only={"output.streams-apart"},
        known_differences={"output.streams-apart": "there are no streams"},
    )
    assert report.ok
    assert report.results[0].outcome == "known_difference"
    assert report.results[0].detail.startswith("there are no streams (")


def test_a_difference_that_is_none_any_more_must_be_taken_back() -> None:
    report = check_with(
        AgreesWithEverything(),
        only={"endings.malformed-commands"},
        known_differences={"endings.malformed-commands": "it was so once"},
    )
    assert not report.ok
    assert report.results[0].outcome == "stale_difference"


def test_a_difference_that_holds_in_some_places_is_told_and_fails_no_report() -> None:
    varies = Difference("kept no count", holds_where="the kernel counts")
    report = check_with(
        AgreesWithEverything(),
        only={"endings.malformed-commands", "output.streams-apart"},
        known_differences={"endings.malformed-commands": varies, "output.streams-apart": varies},
    )
    assert report.ok
    results = {result.id: result for result in report.results}
    held = results["endings.malformed-commands"]
    assert held.outcome == "passed"
    assert held.detail == "holds where the kernel counts; elsewhere: kept no count"
    assert results["output.streams-apart"].outcome == "known_difference"


def test_an_unknown_id_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match=r"no such check: output\.strems"):
        check_with(AgreesWithEverything(), only={"output.strems"})


def test_the_report_is_plain_data() -> None:
    report = check_with(IsBroken(), only={"stdin.none"})
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is False
    assert data["results"][0]["id"] == "stdin.none"


def conformance_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "conformance", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
def test_the_suite_runs_from_a_shell() -> None:
    done = conformance_command("stdin.none", "stdin.empty")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 checks held" in done.stdout
    assert json.loads(conformance_command("--json", "stdin.none").stdout)["ok"] is True


def test_the_suite_lists_its_claims_without_an_engine() -> None:
    done = conformance_command("--list", "--json")
    assert done.returncode == 0
    assert [item["id"] for item in json.loads(done.stdout)] == [check.id for check in ALL_CHECKS]
    assert len(ALL_CHECKS) >= 80
    assert "output.streams-apart" in conformance_command("--list", "output").stdout


def test_known_differences_name_checks_that_exist_and_a_reason() -> None:
    ids = {check.id for check in ALL_CHECKS}
    declared = known_differences("runsc")
    assert declared.keys() <= ids
    assert all(difference.reason for difference in declared.values())
    assert known_differences("runsc-kvm") == declared, "one runtime by another name"
    assert known_differences(None) == known_differences("runc") == {}


def test_a_check_that_does_not_exist_is_wrong_usage() -> None:
    assert conformance_command("no-such-check").returncode == 2


def test_without_an_engine_the_suite_says_so_and_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    done = conformance_command("stdin.none")
    assert done.returncode == 125
    assert "error:" in done.stderr


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
@pytest.mark.parametrize("words", [("--runtime", "st-no-such"), ("--image", "st-no-such")])
def test_a_sandbox_that_runs_nothing_is_said_once(words: tuple[str, str]) -> None:
    done = conformance_command("endings", *words)
    assert done.returncode == 125
    assert done.stdout == ""
    assert "st-no-such" in done.stderr
