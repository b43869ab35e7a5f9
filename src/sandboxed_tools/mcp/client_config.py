"""How each common client is told about this server: a line to run, or a piece of its settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sandboxed_tools.errors import ConfigurationError

__all__ = ["CLIENTS", "config_for"]

NAME: Final = "sandboxed-tools"


def _stdio(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _json(value: object) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigurationError(
            "Settings in JSON cannot hold a name that is not UTF-8; give the folder another one."
        ) from None
    return text


def _claude_code(command: Sequence[str]) -> str:
    return f"claude mcp add {NAME} -- {shlex.join(command)}"


def _codex(command: Sequence[str]) -> str:
    return f"codex mcp add {NAME} -- {shlex.join(command)}"


def _gemini(command: Sequence[str]) -> str:
    # Its own parser takes what begins with a dash for its own options, unless it follows --.
    return f"gemini mcp add {NAME} {shlex.quote(command[0])} -- {shlex.join(command[1:])}"


def _mcp_servers(command: Sequence[str]) -> str:
    return _json({"mcpServers": {NAME: _stdio(command)}})


def _vscode(command: Sequence[str]) -> str:
    return _json({"servers": {NAME: {"type": "stdio", **_stdio(command)}}})


def _copilot(command: Sequence[str]) -> str:
    # It takes a server's tools only where they are named; the asterisk is all of them.
    entry = {"type": "local", **_stdio(command), "tools": ["*"]}
    return _json({"mcpServers": {NAME: entry}})


def _opencode(command: Sequence[str]) -> str:
    return _json({"mcp": {NAME: {"type": "local", "command": list(command)}}})


def _zed(command: Sequence[str]) -> str:
    return _json({"context_servers": {NAME: _stdio(command)}})


CLIENTS: Final[Mapping[str, tuple[str, Callable[[Sequence[str]], str]]]] = MappingProxyType(
    {
        "claude-code": ("run this", _claude_code),
        "claude-desktop": ("put this into claude_desktop_config.json", _mcp_servers),
        "cline": ("put this into cline_mcp_settings.json", _mcp_servers),
        "codex": ("run this", _codex),
        "copilot-cli": ("put this into ~/.copilot/mcp-config.json", _copilot),
        "cursor": ("put this into .cursor/mcp.json", _mcp_servers),
        "gemini-cli": ("run this", _gemini),
        "kiro": ("put this into .kiro/settings/mcp.json", _mcp_servers),
        "lm-studio": ("put this into mcp.json", _mcp_servers),
        "opencode": ("put this into opencode.json", _opencode),
        "vscode": ("put this into .vscode/mcp.json", _vscode),
        "windsurf": ("put this into ~/.codeium/windsurf/mcp_config.json", _mcp_servers),
        "zed": ("put this into settings.json", _zed),
    }
)
"""What to do, and the text, by the client's name."""


def config_for(client: str, command: Sequence[str]) -> tuple[str, str]:
    """What to do for a client, and the line or the settings that start ``command`` there.

    Raises:
        ConfigurationError: names the clients that are known, or a word cannot be in settings.
    """
    found = CLIENTS.get(client)
    if found is None:
        raise ConfigurationError(f"{client!r} is no known client; there are: {', '.join(CLIENTS)}.")
    what, text_of = found
    return what, text_of(command)
