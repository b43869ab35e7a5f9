"""Paths that the policy denies."""

from __future__ import annotations

import os

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.workspace.denied import DeniedPaths


def covers(patterns: list[str], path: str) -> bool:
    return DeniedPaths(patterns).covers(tuple(os.fsencode(path).split(b"/")))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".env", ".env"),
        (".env", "deep/down/.env"),
        ("*.pem", "certs/server.pem"),
        ("secrets", "secrets/a/b"),
        ("secrets/", "x/secrets/a"),
        ("/secrets", "secrets/a"),
        ("config/prod.yml", "config/prod.yml"),
        ("secrets/**", "secrets/a/b"),
        (".ENV", ".env"),
        (".env", ".EnV"),
        ("straße", "STRASSE"),
        ("é", "e\u0301"),
        ("key", "\uff4b\uff45\uff59"),
    ],
)
def test_a_denied_path_is_denied_in_every_spelling(pattern: str, path: str) -> None:
    assert covers([pattern], path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [(".env", ".env.example"), ("/secrets", "x/secrets"), ("config/prod.yml", "prod.yml")],
)
def test_other_paths_are_not_denied(pattern: str, path: str) -> None:
    assert not covers([pattern], path)


@pytest.mark.parametrize("pattern", ["", "/", "../x", "!a", "a\0b"])
def test_a_pattern_that_cannot_deny_is_an_error_of_the_configuration(pattern: str) -> None:
    with pytest.raises(ConfigurationError):
        DeniedPaths([pattern])
