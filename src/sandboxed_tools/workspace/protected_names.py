"""Names of files and folders that a program on the host acts on by itself.

Each is a pattern of one name, or of names joined by slashes, in lower case, found at any depth.
Every change of one of them waits for an explicit yes, so a name that projects write every day does
not belong here.
"""

from __future__ import annotations

from typing import Final

__all__ = ["GROUPS"]

_ANYWHERE: Final = (
    *(".husky", ".devcontainer", ".idea", ".vscode", ".fleet", ".zed", ".cargo"),
    *(".envrc*", ".direnv", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", ".tool-versions", "mise.toml"),
    *(".mise.toml", "rust-toolchain*", "*.pth", "sitecustomize.py", "usercustomize.py"),
    # A changed one has the environment's own Python take its library from somewhere else.
    "pyvenv.cfg",
    *(".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".gitmodules"),
    *(".devcontainer.json", "*.code-workspace", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua"),
    *(".dir-locals.el", ".dir-locals-2.el", ".lvimrc", ".local.vimrc", ".helix", ".vs", ".nova"),
    *(".kateproject*", ".vimspector.json", ".gdbinit", ".lldbinit"),
    # Other version controls have hooks and aliases in their repositories, too.
    *(".hg", ".jj", ".bzr", ".pijul", "_darcs"),
    *(".githooks", ".git-hooks", ".huskyrc*", ".simple-git-hooks*", ".overcommit.yml"),
    *("lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*", ".yarn/releases"),
    *(".yarn/plugins", ".bundle", ".mise", "mise.*.toml", ".mise.*.toml", "mise/config*.toml"),
    # Interpreters that read a file of the folder in which they are started.
    *(".rprofile", ".renviron", ".rdata", ".irbrc", ".pryrc", ".ghci", ".ocamlinit", ".iex.exs"),
    *(".erlang", ".pdbrc*", ".gvimrc", "_vimrc", "_exrc"),
    # Services that start as soon as a project is opened, and build tools that take options from it.
    *(".gitpod.yml", ".replit", "devfile.yaml", ".devfile.yaml", ".theia"),
    *(".mvn", ".bazelrc", "bunfig.toml", ".bunfig.toml", ".rtx.toml"),
)
_START_UP: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"),
    *(".login", ".logout", ".inputrc", ".gitconfig", ".ssh", ".pypirc", ".netrc"),
    *(".pam_environment", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", "config.fish"),
    *("fish/conf.d", "fish/functions", ".mkshrc", ".shrc", ".xonshrc", "nushell/config.nu"),
    *("nushell/env.nu", "elvish/rc.elv"),
)
_AGENTS: Final = (
    *(".mcp.json", "mcp.json", ".claude", ".claude.json", "claude.md", "claude.local.md"),
    *("agents.md", "gemini.md", ".gemini", ".codex", ".cursor", ".cursorrules", ".windsurf"),
    *(".windsurfrules", ".aider*", ".continue*", ".copilot", "copilot-instructions.md", ".roo*"),
    *(".github/instructions", ".github/prompts", ".github/chatmodes", ".github/agents"),
    *(".github/hooks", ".github/skills", ".mcp", "codex.md", ".codeium", ".tabnine", ".warp"),
    *(".cline*", ".kiro", ".opencode", "opencode.json*", ".goose*", ".junie", ".jules", "jules.md"),
    *(".devin", ".amp", ".rovodev", ".codebuddy", ".iflow", "iflow.md", ".lingma", ".qodo"),
    *(".serena", "pr_agent.toml", ".pr_agent.toml", ".coderabbit.yaml"),
    *(".amazonq", ".agents", ".agent", "agent.md", "agents.override.md", ".qwen", "qwen.md"),
    *(".crush", ".crush.json", "crush.json", "crush.md", ".trae", ".augment*", ".kilocode*"),
    *(".openhands", ".factory", "warp.md", ".rules", "sandboxed-tools.toml", "defaults.lock"),
    ".sandboxed-tools-*",
)
_CI: Final = (
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".gitlab-ci", ".gitlab/ci"),
    *(".circleci", "circle.yml", ".travis.yml", "appveyor*.yml", ".appveyor*.yml"),
    *("azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines", ".azuredevops"),
    *("jenkinsfile*", "bitbucket-pipelines.yml", ".drone.*", ".woodpecker*", ".buildkite"),
    *("buildkite.yml", ".cirrus.*", ".semaphore", ".forgejo/workflows", ".gitea/workflows", ".ci"),
    *(".teamcity", ".build.yml", ".builds", ".tekton", "buildspec*.yml", "buildspec*.yaml"),
    *("cloudbuild*.yaml", "cloudbuild*.yml", "cloudbuild*.json", "codemagic.yaml", "bitrise.yml"),
    *(".harness", "screwdriver.yaml", ".zuul.yaml", "zuul.yaml", ".zuul.d", "zuul.d", ".prow.yaml"),
    *("*.gocd.yaml", "wercker.yml"),
)

GROUPS: Final = (
    (_ANYWHERE, "a tool runs it, or is configured by it, when the project is opened"),
    (_START_UP, "a shell or a tool reads it when it starts"),
    (_AGENTS, "it configures an agent, or this sandbox"),
    (_CI, "it defines what a CI system runs"),
)
