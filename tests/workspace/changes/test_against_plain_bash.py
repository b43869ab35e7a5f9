"""Random trees and random commands: applying what a view changed equals bash in a plain copy."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace.local_carrier import LocalCarrier, sees_nothing

from sandboxed_tools.tool.mounts import View, ViewChoice, WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import USER, picture, run_in, run_on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

NAMES = ("a", "b", "c d", "-x", "e\nf", "é", "g")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
QUOTED = PATHS.map(lambda parts: "'./" + "/".join(parts) + "'")
MODES = st.sampled_from(("700", "755", "711", "744"))

ENTRIES = st.dictionaries(
    PATHS,
    st.sampled_from(("folder", "file", "empty", "link", "program")),
    max_size=10,
)


def is_inside(source: str, target: str) -> bool:
    """Whether a quoted path lies in another one."""
    return target.startswith(f"{source[:-1]}/")


COMMANDS = st.one_of(
    st.builds("echo {0} >> {1}".format, st.integers(0, 3), QUOTED),
    st.builds("echo same > {0}".format, QUOTED),
    st.builds("mkdir -p {0}".format, QUOTED),
    st.builds("rm -rf {0}".format, QUOTED),
    st.builds("mv -T {0} {1}".format, QUOTED, QUOTED),
    # Not into itself: how much of that cp copies before it sees it, depends on the file system.
    st.tuples(QUOTED, QUOTED)
    .filter(lambda pair: not is_inside(*pair))
    .map(lambda pair: f"cp -rT {pair[0]} {pair[1]}"),
    st.builds("ln -sfn target {0}".format, QUOTED),
    st.builds("ln -sfnT {0} {1}".format, st.sampled_from(("a", "b/g", "../a")), QUOTED),
    st.builds("chmod {0} {1}".format, MODES, QUOTED),
    # Not for folders: an overlay has no rename of a folder that was there, and mv, which copies
    # then, cannot read one without search permission. That is a known difference.
    st.builds("[ -f {1} ] && chmod {0} {1}".format, st.sampled_from(("600", "644")), QUOTED),
    st.builds("sed -i s/same/other/ {0}".format, QUOTED),
    st.builds("truncate -s {0} {1}".format, st.sampled_from((0, 5, 5000)), QUOTED),
    st.builds("rm -rf {0} && mkdir {0}".format, QUOTED),
)


def make_tree(root: Path, entries: dict[tuple[str, ...], str]) -> None:
    """Make what can be made of these entries."""
    for parts, kind in sorted(entries.items()):
        place = root.joinpath(*parts)
        if any(parent.is_symlink() or parent.is_file() for parent in place.parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(place):
            continue
        if kind == "folder":
            place.mkdir()
        elif kind == "link":
            place.symlink_to("target")
        else:
            place.write_text("" if kind == "empty" else "same\n")
            place.chmod(0o755 if kind == "program" else 0o644)


@pytest.mark.timeout(900)  # of the sixty examples each starts half a dozen processes
@pytest.mark.parametrize("choice", ["overlay", "copy", "carried"])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=ENTRIES, commands=st.lists(COMMANDS, min_size=1, max_size=6))
def test_apply_equals_plain_bash_and_undo_equals_before(
    choice: str, state: Path, entries: dict[tuple[str, ...], str], commands: list[str]
) -> None:
    script = "\n".join(f"{command} 2>/dev/null" for command in commands)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        Path(folder).chmod(0o711)
        workspace, oracle = Path(folder, "workspace"), Path(folder, "oracle")
        workspace.mkdir()
        make_tree(workspace, entries)
        shutil.copytree(workspace, oracle, symlinks=True)
        for path in (oracle, *oracle.rglob("*")):
            os.chown(path, USER.uid, USER.gid, follow_symlinks=False)
        run_in(oracle, script)
        for path in (oracle, *oracle.rglob("*")):
            os.chown(path, 0, 0, follow_symlinks=False)
        before = picture(workspace)

        view = open_view(choice, workspace)
        try:
            run_on(view, script)
            summary = view.settle(ended_by_itself=True)
        finally:
            view.close()
        assert picture(workspace) == before
        store = ChangeStore()
        if summary.id is None:
            assert _without_root_mode(oracle) == _without_root_mode(workspace)
            return
        decision = apply_set(store, summary.id, allow_protected=True)
        assert decision.done, decision.problems
        assert _without_root_mode(workspace) == _without_root_mode(oracle)
        assert undo_set(store, summary.id).done
        assert picture(workspace) == before
        store.remove(summary.id)


def open_view(choice: str, workspace: Path) -> View:
    """A view of one of the three kinds; the third is for an engine with other files than ours."""
    mount = WorkspaceMount(source=workspace, changes="hold")
    if choice == "carried":
        views = WorkspaceViews(engine_sees=sees_nothing, carrier=LocalCarrier())
        return views.open(mount, USER)
    kind: ViewChoice = "overlay" if choice == "overlay" else "copy"
    return WorkspaceViews().open(replace(mount, view=kind), USER)


def _without_root_mode(root: Path) -> dict[str, tuple[object, ...]]:
    return {name: facts for name, facts in picture(root, times=False).items() if name != "."}
