"""The pytest plug-in as a user's suite sees it: run by pytest itself, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

# Every one starts an interpreter and an engine client.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=200)


def test_fixtures_run_commands_in_containers_and_keep_the_host_as_it_is(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import os, pytest
        from pathlib import Path

        def test_each_run_is_a_container_of_its_own(sandbox):
            first = sandbox.run("touch /tmp/mark; ls /tmp")
            second = sandbox.run("ls /tmp; exit 3")
            assert first.stdout_text == "mark\\n"
            assert (second.stdout_text, second.exit_code) == ("", 3)
            assert [r.ok for r in sandbox.results] == [True, False]

        def test_arguments_input_and_variables(sandbox):
            os.environ["SECRET"] = "host"
            done = sandbox.run(["python3", "-c", "import os, sys; print(sys.stdin.read(), "
                                "os.environ['NAME'], 'SECRET' in os.environ)"],
                               stdin=b"in", env={"NAME": "value"})
            assert done.stdout_text == "in value False\\n", done

        def test_changes_are_held_for_this_test(sandbox, workspace):
            workspace.write({"src/a.txt": "one\\n"})
            assert sandbox.run("echo two > src/a.txt; echo new > b.txt").ok
            assert sandbox.run("cat src/a.txt b.txt").stdout_text == "two\\nnew\\n"
            assert not workspace.difference()
            held = sandbox.changed_by(sandbox.results[0])
            assert sorted(c.path for c in held.changes) == [b"b.txt", b"src/a.txt"]

        @pytest.mark.sandbox(changes="apply", memory="128m", pids=64)
        def test_applied_changes_are_seen_by_the_oracle(sandbox, workspace):
            workspace.write({"a": "1", "b": "2", "c": "3"})
            assert sandbox.run("echo x > a; rm b; touch d; ln -s a e").ok
            found = workspace.difference()
            assert (found.added, found.changed, found.removed) == (("d", "e"), ("a",), ("b",))

        @pytest.mark.sandbox(memory="64m", timeout=100)
        def test_limits_of_the_marker_hold(sandbox):
            done = sandbox.run("python3 -c 'x = bytearray(500_000_000)'; exit 7")
            assert done.status == "oom" or "memory" in done.limits_hit, done
            assert sandbox.run("sleep 60", wall_s=1).status == "timeout"

        def test_the_toolbox_works_on_the_workspace(toolbox, workspace):
            workspace.write({"note.txt": "hello\\n"})
            result = toolbox.call("Bash", {"command": "cat note.txt; echo more > other.txt"})
            assert "hello" in result.text
            assert not workspace.difference()

        def test_the_workspace_refuses_to_write_elsewhere(workspace):
            for name in ("../x", "/tmp/x", "a/../../x"):
                with pytest.raises(ValueError):
                    workspace.write({name: ""})

        @pytest.mark.anyio
        async def test_a_loop_that_runs_is_no_hindrance(sandbox):
            assert sandbox.run("true").ok

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        """
    )
    run(pytester, "-W", "error").assert_outcomes(passed=8)


def test_a_failing_report_shows_output_and_changes_made_harmless(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        r"""
        import pytest

        def test_red(sandbox, workspace):
            workspace.write({"a.txt": "old\n"})
            result = sandbox.run("printf 'seen \\033]0;title\\007here\\n'; echo bad >&2;"
                                 " echo new > a.txt; exit 5")
            assert result.ok

        def test_green(sandbox):
            assert sandbox.run("echo not shown").ok

        def test_red_too(toolbox, workspace):
            result = toolbox.call("Bash", {"command": "echo by a tool; echo x > made.txt; exit 6"})
            assert result.output.ok

        def test_red_after_its_changes_have_gone(toolbox, workspace):
            from sandboxed_tools.workspace import ChangeStore, discard_set
            result = toolbox.call("Bash", {"command": "echo x > made.txt; exit 7"})
            discard_set(ChangeStore(), result.output.changes.id)
            ChangeStore().remove(result.output.changes.id)
            assert result.output.ok

        @pytest.fixture
        def installed(sandbox):
            assert sandbox.run("echo in a fixture; exit 8").ok

        def test_red_before_it_begins(installed):
            pass

        @pytest.fixture
        def cleaned(sandbox):
            yield
            assert sandbox.run("echo at the end; exit 9").ok

        def test_red_twice(cleaned, sandbox):
            assert sandbox.run("echo in the middle; exit 10").ok
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=4, errors=2)
    text = result.stdout.str()
    assert "sandbox 1: printf" in text
    assert "exited, exit code 5" in text
    assert "--- stderr ---\nbad" in text
    assert "-old\n+new" in text
    assert "\x1b]0" not in text
    assert "seen" in text
    assert "not shown" not in text
    assert "sandbox 1: echo by a tool" in text
    assert "exited, exit code 6" in text
    assert "added made.txt" in text
    assert "not to be had any more" in text
    for section in (
        "sandbox 1: echo in a fixture; exit 8",
        "sandbox 1: echo in the middle; exit 10",
        "sandbox 2: echo at the end; exit 9",
    ):
        assert text.count(section) == 1, "in one report of its test, and no other"


def test_a_marker_that_cannot_be_meant_is_an_error_that_says_what_is_known(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sandbox(memroy="1g")
        def test_typo(sandbox): pass

        @pytest.mark.sandbox(memory="lots")
        def test_no_size(sandbox): pass

        @pytest.mark.sandbox(network="host")
        def test_no_network(sandbox): pass

        @pytest.mark.sandbox("1g")
        def test_positional(sandbox): pass

        @pytest.mark.sandbox(changes="keep")
        def test_no_mode(sandbox): pass

        @pytest.mark.sandbox(services={"db": "st-no-such-container"})
        def test_no_service(sandbox):
            with pytest.raises(Exception, match="no container st-no-such-container"):
                sandbox.run("true")
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=5, passed=1)
    result.stdout.fnmatch_lines(["*has no memroy; it has *memory*", "*keywords only*"])


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_what_a_test_leaves_on_the_engine_fails_the_run(
    pytester: pytest.Pytester, api: object, workers: tuple[str, ...]
) -> None:
    pytester.makeconftest("import sandboxed_tools.testing.backend as b\nb.LEAK_DEADLINE_S = 0.3\n")
    pytester.makepyfile(
        """
        def test_leaks(sandbox, _sandbox_backend):
            from sandboxed_tools.sandbox.docker.owner import Owner
            api = _sandbox_backend.engine.api()
            api.create_volume("st-proof-leak",
                              labels=Owner.current().labels(deadline_s=300, kind="test"))
            api.close()

        def test_does_not(sandbox):
            assert sandbox.run("true").ok
        """
    )
    try:
        result = run(pytester, *workers)
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["*left behind by sandboxed calls:*", "*volume st-proof-leak*"])
    finally:
        api.remove_volume("st-proof-leak")  # type: ignore[attr-defined]


def test_images_are_built_once_for_their_content_also_by_several_workers(
    pytester: pytest.Pytester, api: object
) -> None:
    folder = pytester.mkdir("some image")
    (folder / "Dockerfile").write_text(
        "ARG WORD=none\nFROM sandboxed-tools/base\nARG WORD\nUSER 0\n"
        "COPY data /data\nRUN echo $WORD >> /data\nUSER 10000:10000\n"
    )
    (folder / "data").write_text(os.urandom(8).hex() + "\n")
    pytester.makepyfile(
        """
        import pytest
        from pathlib import Path

        @pytest.mark.parametrize("n", range(4))
        def test_build(sandbox_image, n, worker_id):
            tag = sandbox_image(Path("some image").absolute(), arguments={"WORD": "w"})
            with open("tags", "a") as file:
                file.write(f"{tag} {worker_id}\\n")

        def test_used(request, sandbox_image):
            tag = sandbox_image(Path("some image").absolute(), arguments={"WORD": "w"})
            request.applymarker(pytest.mark.sandbox(image=tag))
            done = request.getfixturevalue("sandbox").run("cat /data")
            assert done.stdout_text.endswith("\\nw\\n"), done

        def test_other_content_is_another_image(sandbox_image):
            folder = Path("some image").absolute()
            assert sandbox_image.__self__ is not None
            from sandboxed_tools.testing.backend import _digest
            one = _digest(folder, "Dockerfile", {"WORD": "w"})
            assert one != _digest(folder, "Dockerfile", {"WORD": "v"})
            assert one == _digest(folder, "Dockerfile", {"WORD": "w"})

        def test_no_dockerfile(sandbox_image, tmp_path):
            with pytest.raises(Exception, match="no Dockerfile"):
                sandbox_image(tmp_path)
        """
    )
    tags: set[str] = set()
    try:
        result = run(pytester, "-n", "2")
        lines = (pytester.path / "tags").read_text().splitlines()
        tags = {line.split()[0] for line in lines}
        result.assert_outcomes(passed=7)
        assert len(tags) == 1
        assert {line.split()[1] for line in lines} == {"gw0", "gw1"}
    finally:
        for tag in tags:
            api.remove_image(tag, force=True)  # type: ignore[attr-defined]


def test_without_an_engine_tests_skip_with_the_reason_and_fail_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    pytester.makepyfile("def test_it(sandbox): pass")
    monkeypatch.setenv("CI", "")
    skipped = run(pytester, "-rs")
    skipped.assert_outcomes(skipped=1)
    skipped.stdout.fnmatch_lines(["SKIPPED*engine*"])
    monkeypatch.setenv("CI", "true")
    run(pytester).assert_outcomes(errors=1)


def test_loading_the_plugin_imports_neither_the_engine_client_nor_a_surface() -> None:
    code = (
        "import sys, json, sandboxed_tools.testing.plugin; "
        "print(json.dumps([m for m in sys.modules if m in ('docker', 'typer', 'rich', 'mcp')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout) == []


def test_the_entry_point_names_the_plugin(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("sandboxed_tools")
    assert Path(sys.modules["sandboxed_tools.testing.plugin"].__file__ or "").name == "plugin.py"
