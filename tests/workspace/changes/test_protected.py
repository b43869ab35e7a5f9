"""What a program on the host would act on by itself needs an explicit yes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set
from sandboxed_tools.workspace.change import Change, FileFacts
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.protected import protected_reason
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import USER, Call, picture, run_on

PROTECTED = [
    *(
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git/hooks/x",
        ".git/HEAD",
    ),
    *(".envrc", "a/.envrc", ".bashrc", ".zshrc", ".profile", ".gitconfig", ".ssh/authorized_keys"),
    *(".vscode/tasks.json", ".VSCode/tasks.json", ".idea/x", ".devcontainer/devcontainer.json"),
    *(
        ".mcp.json",
        ".claude/settings.json",
        "CLAUDE.md",
        "AGENTS.md",
        ".cursor/rules",
        ".aider.conf",
    ),
    *(".github/workflows/ci.yml", "x/.github/workflows/a", ".gitlab-ci.yml", "Jenkinsfile"),
    *(
        ".husky/pre-commit",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".cargo/config.toml",
        ".tool-versions",
    ),
    *(".pre-commit-config.yaml", "rust-toolchain", "rust-toolchain.toml", "lib/evil.pth"),
    *("sitecustomize.py", "src/sitecustomize.py", "sandboxed-tools.toml", "defaults.lock"),
    *(".git\n/x/.git/config", "a/.gitmodules"),
    *(".hg/hgrc", ".jj/repo/config.toml", ".githooks/pre-commit", "lefthook.toml", ".Rprofile"),
    *(".github/instructions/x.instructions.md", ".github/prompts/x.prompt.md", ".github/hooks/x"),
    *("azure-pipelines-nightly.yaml", ".drone.jsonnet", ".teamcity/x.kts", "cloudbuild.yaml"),
    *("Jenkinsfile.release", "ci/buildspec.yml", ".tekton/push.yaml", ".gitlab/ci/build.yml"),
    *(".gitpod.yml", ".envrc.local", ".pdbrc", ".mvn/extensions.xml", "opencode.jsonc"),
    *(".config/fish/conf.d/x.fish", ".cline/x", ".continuerc.json", ".roomodes", "_vimrc"),
    *(".yarn/releases/yarn.cjs", "mise.local.toml", ".helix/languages.toml", "mise/config.toml"),
]
ORDINARY = [
    *("src/main.py", "git/config", ".gitignore", ".github/README.md", "envrc", "README.md"),
    *("bin/tool", "scripts/run", "bashrc", "a.pth.txt", "vscode", "ci/x", "claude.py", ".env"),
    *("src/drone.py", "build.yml", ".gitlab/issue_templates/bug.md", "mvn/x", "src/cline.py"),
    *("cargo/config", "xAGENTS.md", "AGENTS.md.bak", "my.envrc", ".gitx/config"),
]


def reason(
    path: str,
    *,
    target: bytes | None = None,
    exists: tuple[str, ...] = (),
    afterwards: tuple[str, ...] | None = None,
    extra: tuple[str, ...] = (),
) -> str | None:
    kind = "file" if target is None else "symlink"
    after = FileFacts(kind, 0o644, 1, 1, 1, 1, target=target)  # type: ignore[arg-type]

    def was_there(parts: Parts) -> bool:
        return b"/".join(parts).decode() in exists

    def is_there(parts: Parts) -> bool:
        return b"/".join(parts).decode() in (exists if afterwards is None else afterwards)

    change = Change(path.encode(), "added", None, after)
    return protected_reason(change, was_there=was_there, is_there=is_there, extra=extra)


@pytest.mark.parametrize("path", PROTECTED)
def test_is_protected_at_any_depth_and_in_any_case(path: str) -> None:
    assert reason(path) is not None
    assert reason(f"deep/er/{path}") is not None
    assert reason(path.upper()) is not None


@pytest.mark.parametrize("path", ORDINARY)
def test_is_ordinary(path: str) -> None:
    assert reason(path) is None


@pytest.mark.parametrize(
    "name",
    [
        "objects/aa/bb",
        "refs/heads/main",
        "index",
        "HEAD",
        "ORIG_HEAD",
        "logs/HEAD",
        "COMMIT_EDITMSG",
        "packed-refs",
    ],
)
def test_what_a_commit_writes_is_ordinary_in_a_repository_that_was_there(name: str) -> None:
    assert reason(f"sub/.git/{name}", exists=("sub/.git/HEAD",)) is None
    assert reason(f"sub/.git/{name}") is not None
    assert reason(f"sub/.git/modules/x/{name}", exists=("sub/.git/HEAD",)) is not None


@pytest.mark.parametrize("name", ["objects/info/alternates", "config", "hooks/x", "info/x"])
def test_what_leads_elsewhere_in_a_repository_is_protected(name: str) -> None:
    assert reason(f".git/{name}", exists=(".git/HEAD",)) is not None


def test_a_link_in_a_repository_is_protected() -> None:
    assert reason(".git/logs/HEAD", target=b"../hooks/x", exists=(".git/HEAD",)) is not None


@pytest.mark.parametrize("own", [("objects", "refs"), ("commondir",)])
def test_a_folder_that_is_laid_out_as_a_repository_is_protected(own: tuple[str, ...]) -> None:
    after = tuple(f"a/b/{name}" for name in ("HEAD", "config", *own))
    for name in ("HEAD", "config", "hooks/post-checkout", *own):
        assert reason(f"a/b/{name}", exists=(), afterwards=after) is not None
        assert reason(f"a/b/{name}", exists=(), afterwards=after[1:]) is None
    assert reason("a/b/other", exists=(), afterwards=after) is None
    assert reason("a/b/objects/aa/bb", exists=after, afterwards=after) is None
    assert reason("a/b/config", exists=after, afterwards=after) is not None


def test_a_link_in_the_place_of_a_folder_above_is_protected() -> None:
    assert reason(".github", target=b"evil") is not None
    assert reason("x/.GitHub", target=b"evil") is not None
    assert reason(".github/x", target=b"evil") is None
    assert reason("infra/prod", target=b"evil", extra=("infra/prod/*.yml",)) is not None
    assert reason("infra", target=b"evil", extra=("infra/prod/*.yml",)) is not None
    assert reason("infra") is None


@pytest.mark.parametrize(
    ("path", "target", "leaves"),
    [
        ("link", b"/etc/passwd", True),
        ("link", b"/workspace/x", True),
        ("link", b"..", True),
        ("a/link", b"../..", True),
        ("a/link", b"../x", False),
        ("a/b/link", b"../../x", False),
        ("link", b"a/../../x", True),
        ("link", b"other/../x", True),
        ("link", b"./././x", False),
        ("a/link", b".././../x", True),
        ("link", b"x", False),
    ],
)
def test_a_link_that_may_leave_the_workspace_is_protected(
    path: str, target: bytes, leaves: bool
) -> None:
    assert (reason(path, target=target) is not None) is leaves


def test_programs_of_a_virtual_environment_are_protected_whatever_its_name() -> None:
    assert reason("tools/py/bin/activate", exists=("tools/py/pyvenv.cfg",)) is not None
    assert reason("tools/py/Scripts/x.exe", exists=("tools/py/pyvenv.cfg",)) is not None
    assert reason("tools/py/bin/activate") is None
    assert reason("tools/py/bin", target=b"../evil", exists=("tools/py/pyvenv.cfg",)) is not None
    # Else it could be removed first, and the program changed along with it.
    assert reason("tools/py/pyvenv.cfg") is not None


def test_a_policy_adds_patterns() -> None:
    assert reason("deploy/prod.yml", extra=("deploy/*.yml",)) is not None
    assert reason("x/deploy/prod.yml", extra=("deploy/*.yml",)) is not None
    assert reason("deploy/sub/prod.yml", extra=("deploy/*.yml",)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")
@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_one_protected_entry_holds_the_whole_set(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call(
        "echo ok > ordinary; mkdir .git; echo evil > .git/config", view=choice, changes="apply"
    )
    assert called.summary.decision == "held"
    assert picture(workspace) == before
    problems = apply_set(store, called.id).problems
    assert {(problem.path, problem.kind) for problem in problems} == {
        (b".git", "protected"),
        (b".git/config", "protected"),
    }
    assert apply_set(store, called.id, allow_protected=True).done


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")
def test_a_commit_in_an_existing_repository_is_applied_and_a_hook_is_not(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", workspace, *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    commit = (
        "export HOME=/nowhere GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory"
        " GIT_CONFIG_VALUE_0='*'; echo x > new; git add new;"
        "git -c user.name=a -c user.email=a@b -c gc.auto=0 commit -qm second"
    )
    called = call(commit, changes="apply")
    assert (called.output, called.summary.decision) == ("", "applied")
    log = subprocess.run(
        ["git", "-C", workspace, "log", "--format=%s"], check=True, capture_output=True, text=True
    )
    assert log.stdout.split() == ["second", "first"]
    hooked = call("echo evil > .git/hooks/post-checkout", changes="apply")
    assert hooked.summary.decision == "held"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")
def test_a_repository_without_a_git_folder_is_held_because_git_runs_what_it_configures(
    call: Call, workspace: Path, store: ChangeStore, tmp_path: Path
) -> None:
    proof = tmp_path / "proof"
    script = (
        "mkdir -p sub/objects sub/refs; cd sub; echo ref: refs/heads/m > HEAD;"
        "git config -f config core.bare false; git config -f config core.worktree .;"
        "git config -f config core.repositoryformatversion 0;"
        f"git config -f config core.fsmonitor 'touch {proof}; false'"
    )
    called = call(script, changes="apply")
    assert (called.output, called.summary.decision) == ("", "held")
    assert apply_set(store, called.id, allow_protected=True).done
    subprocess.run(["git", "status"], cwd=workspace / "sub", capture_output=True, check=False)
    assert proof.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")
@pytest.mark.parametrize(
    "script",
    ["rm -r src", "mv src other", "rm -r src; ln -s docs src", "rm -r src; echo x > src"],
)
def test_what_a_policy_protects_does_not_go_with_the_folder_above(
    script: str, state: Path, workspace: Path
) -> None:
    before = picture(workspace)
    views = WorkspaceViews(protected=("deep/data.bin",))
    view = views.open(WorkspaceMount(workspace, changes="apply"), USER)
    try:
        assert view.begin()
        assert run_on(view, script) == ""
        assert view.settle(ended_by_itself=True).decision == "held"
    finally:
        view.close()
    assert picture(workspace) == before
