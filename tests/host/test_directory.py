"""Where a host run ended is reported, as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxed_tools.host import bash_command, run_on_host
from sandboxed_tools.tool import Limits


@pytest.mark.parametrize(
    ("command", "ends_in"),
    [
        ("true", "."),
        ("cd sub", "sub"),
        ("cd sub && cd 'a b'", "sub/a b"),
        ("(cd sub)", "."),
        ("cd sub | cat", "."),
        ("cd missing", "."),
        ("cd sub; exit 3", "sub"),
        ("cd sub; kill -9 $$", "sub"),
        ("cd sub; exec ls", "sub"),
    ],
)
async def test_where_a_command_ended_is_reported(
    tmp_path: Path, command: str, ends_in: str
) -> None:
    (tmp_path / "sub" / "a b").mkdir(parents=True)
    outcome = await run_on_host(bash_command(command), workspace=tmp_path, limits=Limits())
    assert outcome.result.cwd == str(tmp_path / ends_in)
