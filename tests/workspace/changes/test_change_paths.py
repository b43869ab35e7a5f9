"""Names of changes are told from the change before, and what a folder says holds for all in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.change_paths import in_path_order, placed
from sandboxed_tools.workspace.protected import Protection, protected_reason
from sandboxed_tools.workspace.spelling import Parts, shared_length

SPECIAL = (
    ".git HEAD objects refs .github workflows .vscode bin pyvenv.cfg .bashrc CLAUDE.md mise "
    "config.toml hooks"
)
NAMES = st.sampled_from([b"a", b"aa", b"a.b", b"\xff", *SPECIAL.encode().split()])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(b"/".join)
SETS = st.lists(PATHS, unique=True, max_size=20)


def changes(paths: list[bytes]) -> list[Change]:
    return [Change(path, "modified", None, None) for path in paths]


@given(PATHS, PATHS)
def test_shared_names_are_whole_names(first: bytes, second: bytes) -> None:
    shared = 0
    for one, other in zip(first.split(b"/"), second.split(b"/"), strict=False):
        if one != other:
            break
        shared += len(one) + 1
    assert shared_length(first, second) == shared


@given(SETS)
def test_paths_are_in_the_order_of_their_names(paths: list[bytes]) -> None:
    assert sorted(paths, key=in_path_order) == sorted(paths, key=lambda path: path.split(b"/"))


@given(SETS)
def test_each_change_has_its_own_names_in_any_order(paths: list[bytes]) -> None:
    before: Parts = ()
    for item, path in zip(placed(changes(paths)), paths, strict=True):
        assert item.parts == tuple(path.split(b"/")) == item.change.parts
        assert item.parts[: item.shared] == before[: item.shared]
        before = item.parts


@given(SETS, st.frozensets(PATHS), st.sampled_from([(), ("a/aa",), ("aa", "a/*/refs/a")]))
def test_a_set_is_judged_as_each_of_its_changes_alone(
    paths: list[bytes], there: frozenset[bytes], extra: tuple[str, ...]
) -> None:
    def is_there(parts: Parts) -> bool:
        return b"/".join(parts) in there or parts[-1] in (b"HEAD", b"refs")

    def was_there(parts: Parts) -> bool:
        return b"/".join(parts) in there

    together = Protection(was_there=was_there, is_there=is_there, extra=extra)
    for item in placed(changes(sorted(paths, key=in_path_order))):
        alone = protected_reason(item.change, was_there=was_there, is_there=is_there, extra=extra)
        assert together.reason(item) == alone
