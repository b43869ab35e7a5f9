"""The workspace: seen at the same path, written to as a copy, never a way out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sandboxed_tools.errors import InvalidWorkspace
from sandboxed_tools.sandbox.contract import WorkspaceMount
from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, output_of, require
from sandboxed_tools.testing.conformance.check import Suite

__all__ = ["SUITE"]

SUITE = Suite("workspace")


def snapshot(root: Path) -> dict[bytes, tuple[int, int, bytes]]:
    """Every entry below ``root``: mode, mtime, and content or the target of a link."""
    found: dict[bytes, tuple[int, int, bytes]] = {}
    for folder, names, files in os.walk(os.fsencode(root)):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = b""
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                content = Path(os.fsdecode(path)).read_bytes()
            found[path] = (status.st_mode, status.st_mtime_ns, content)
    return found


@SUITE.check("same-path", "the workspace is at its own path, at /workspace, and the directory")
async def same_path(bench: Bench) -> None:
    workspace = bench.workspace()
    (workspace.source / "f").write_text("hello\n")
    text = f"pwd -P; cat f {workspace.source}/f /workspace/f; echo x > /workspace/new; cat new"
    shown = await output_of(bench, text, workspace=workspace)
    equal(shown, f"{workspace.source}\n" + "hello\n" * 3 + "x\n", "what was seen")


@SUITE.check("discard", "changes are seen inside and never reach the host")
async def discard(bench: Bench) -> None:
    workspace = bench.workspace()
    root = workspace.source
    (root / "keep").write_text("one\n")
    (root / "sub").mkdir()
    (root / "sub" / "gone").write_text("two\n")
    before = snapshot(root)
    text = (
        "sed -i s/one/changed/ keep && rm sub/gone && mkdir -p new/deep && echo n > new/deep/f && "
        "mv sub renamed && chmod 700 keep && ln -s keep link && cat keep && ls new/deep renamed"
    )
    result = await bench.bash(text, workspace=workspace)
    ended(result, "exited", exit_code=0)
    require(result.stdout.startswith(b"changed\n"), f"stdout is {result.stdout!r}")
    require(result.view in ("overlay", "copy"), f"view is {result.view}")
    require(
        result.changes is not None and result.changes.decision in ("discarded", "none"),
        f"changes is {result.changes}",
    )
    equal(snapshot(root), before, "the host's tree")


@SUITE.check("delete-everything", "a command that deletes the workspace deletes nothing")
async def delete_everything(bench: Bench) -> None:
    workspace = bench.workspace()
    for number in range(20):
        (workspace.source / f"f{number}").write_text(str(number))
    before = snapshot(workspace.source)
    text = (
        "rm -rf /workspace/* /workspace/.[!.]*; rm -rf --no-preserve-root / 2>/dev/null; ls | wc -l"
    )
    result = await bench.bash(text, workspace=workspace)
    require(result.stdout in (b"0\n", b""), f"stdout is {result.stdout!r}")
    equal(snapshot(workspace.source), before, "the host's tree")


@SUITE.check("read-only", "a read-only workspace can be read and not written")
async def read_only(bench: Bench) -> None:
    workspace = bench.workspace(access="read_only")
    (workspace.source / "f").write_text("hello\n")
    before = snapshot(workspace.source)
    text = "cat f; touch f new 2>/dev/null && echo wrote; rm -f f 2>/dev/null && echo removed; true"
    result = await bench.bash(text, workspace=workspace)
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"hello\n", "stdout")
    equal(result.view, "read_only", "view")
    equal(snapshot(workspace.source), before, "the host's tree")


@SUITE.check("private-files", "files that only their owner may read can be read and changed inside")
async def private_files(bench: Bench) -> None:
    workspace = bench.workspace()
    secret = workspace.source / "secret"
    secret.write_text("mine\n")
    secret.chmod(0o600)
    text = "cat secret; echo more >> secret; wc -l < secret; stat -c %a secret; "
    text += "test -O secret && echo own"
    shown = await output_of(bench, text, workspace=workspace)
    equal(shown, "mine\n2\n600\nown\n", "what was seen")
    equal(secret.read_text(), "mine\n", "the host's file")


@SUITE.check("fresh", "a call sees what the host changed since the last one")
async def fresh(bench: Bench) -> None:
    workspace = bench.workspace()
    for text in ("one\n", "two\n"):
        (workspace.source / "f").write_text(text)
        equal(await output_of(bench, "cat f; echo x > f", workspace=workspace), text, "content")


@SUITE.check("link-out", "a link out of the workspace leads nowhere near the host's file")
async def link_out(bench: Bench) -> None:
    workspace = bench.workspace()
    canary = bench.folder / "canary"
    canary.write_text("canary-of-the-host\n")
    (workspace.source / "link").symlink_to(canary)
    (workspace.source / "up").symlink_to("../canary")
    (workspace.source / "folder").symlink_to("..")
    text = "cat link up ../canary folder/canary 2>/dev/null; echo x > link; echo x > up; echo end"
    result = await bench.bash(text + " 2>/dev/null", workspace=workspace)
    equal(result.stdout, b"end\n", "what was read")
    equal(canary.read_text(), "canary-of-the-host\n", "the host's file")


HOSTILE_NAMES = (
    b"a\nb",
    b"-rf",
    b" lead",
    b"trail ",
    b"\xff\xfe",
    b"*",
    b"$(id)",
    b"'q",
    b'"q',
    b"\\",
    b"x" * 255,
    "\u202egpj".encode(),
    b"\x1b]0;t\x07",
    b"..a",
    b"...",
)


def make_files(root: Path, names: Iterable[bytes]) -> None:
    for name in names:
        (root / os.fsdecode(name)).write_text("x")


@SUITE.check("hostile-file-names", "any file name crosses in both directions")
async def hostile_file_names(bench: Bench) -> None:
    workspace = bench.workspace()
    make_files(workspace.source, HOSTILE_NAMES)
    code = "import os; os.write(1, b'\\0'.join(sorted(os.listdir(b'.'))))"
    result = await bench.python(code, workspace=workspace)
    ended(result, "exited", exit_code=0)
    equal(result.stdout.split(b"\0"), sorted(HOSTILE_NAMES), "names")


WORKSPACE_NAMES = {
    "space": "two words",
    "comma": "a,b",
    "colon": "a:b",
    "quote": "a'b\"c",
    "newline": "a\nb",
    "backslash": "a\\b",
    "dollar": "$HOME",
    "unicode": "é中😀",
    "invalid-utf8": "a\udcffb",
    "equals": "upperdir=x",
}

for label, folder_name in WORKSPACE_NAMES.items():

    async def odd_workspace(bench: Bench, folder_name: str = folder_name) -> None:
        workspace = bench.workspace(folder_name)
        (workspace.source / "f").write_text("hello\n")
        shown = await output_of(bench, "cat f; echo x > f; cat f", workspace=workspace)
        equal(shown, "hello\nx\n", "what was seen")
        equal((workspace.source / "f").read_text(), "hello\n", "the host's file")

    SUITE.check(f"folder-name-{label}", f"a workspace with a {label} in its name works")(
        odd_workspace
    )


@SUITE.check("refused-folders", "what cannot be a workspace is refused, and says why")
async def refused_folders(bench: Bench) -> None:
    file = bench.folder / "file"
    file.write_text("")
    for source in (Path("/"), Path("/etc"), Path.home(), bench.folder / "missing", file):
        try:
            await bench.bash("true", workspace=WorkspaceMount(source))
        except InvalidWorkspace as error:
            require(str(error), "the refusal does not say why")
        else:
            require(False, f"{source} was accepted")


@SUITE.check("set-id-files", "a set-id file made inside does not appear outside")
async def set_id_files(bench: Bench) -> None:
    workspace = bench.workspace()
    before = snapshot(workspace.source)
    text = "cp /bin/sh s; chmod 6755 s; ./s -p -c 'id -u'; id -u"
    result = await bench.bash(text, workspace=workspace)
    ended(result, "exited", exit_code=0)
    lines = result.stdout.split()
    equal(lines[0], lines[1], "the user of a set-id program")
    equal(snapshot(workspace.source), before, "the host's tree")


@SUITE.check("deep-tree", "thousands of nested folders made inside are cleaned up")
async def deep_tree(bench: Bench) -> None:
    workspace = bench.workspace()
    code = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nprint('deep')"
    result = await bench.python(code, workspace=workspace)
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"deep\n", "stdout")
    equal(snapshot(workspace.source), {}, "the host's tree")


@SUITE.check("timeout-keeps-the-host", "a call that is ended by its deadline changes nothing")
async def timeout_keeps_the_host(bench: Bench) -> None:
    workspace = bench.workspace()
    (workspace.source / "f").write_text("one\n")
    before = snapshot(workspace.source)
    result = await bench.bash(
        "rm f; echo before; sleep 600", workspace=workspace, limits={"wall_s": 2}
    )
    ended(result, "timeout")
    equal(snapshot(workspace.source), before, "the host's tree")
