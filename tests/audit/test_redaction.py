"""Secrets do not reach a record, and a record stays small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.audit import bounded, redacted

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "value",
    [
        {"password": SECRET},
        {"db": {"API_KEY": SECRET}},
        [{"Authorization": SECRET}],
        {"command": f"curl -H 'Authorization: Bearer {SECRET}' https://x"},
        {"command": f"export GITHUB_TOKEN={SECRET} && git push"},
        {"command": f"mysql --password={SECRET}"},
        {"command": f"mysql --password {SECRET}"},
        {"command": f"git clone https://user:{SECRET}@example.org/x"},
        {"command": f'echo \'{{"client_secret": "{SECRET}"}}\''},
        {"command": f"PASSWORD='{SECRET} and more' run"},
        {"text": f"ghp_{SECRET}"},
        {"text": f"sk-ant-{SECRET}"},
        {"text": f"eyJ{SECRET}.eyJ{SECRET}.x"},
        {"text": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END"},
        {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}"},
    ],
)
def test_what_looks_like_a_secret_is_hidden(value: Any) -> None:
    assert SECRET not in json.dumps(redacted(value))


@pytest.mark.parametrize(
    "value",
    [
        {"command": "ls -la | wc -l"},
        {"command": "git log --oneline"},
        {"file_path": "src/tokenizer.py", "old_string": "a = b"},
        {"n": 3, "ok": True, "none": None, "list": [1, 2.5]},
    ],
)
def test_what_does_not_stays(value: Any) -> None:
    assert redacted(value) == value


def test_a_long_text_keeps_head_tail_length_and_digest() -> None:
    text = "head" + "x" * 1_000_000 + "tail"
    found = bounded(text)
    assert len(found) < 5000
    assert found.startswith("head")
    assert found.endswith("tail")
    assert "1000008 characters" in found


def test_depth_and_width_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"a": deep}
    wide = {f"k{n}": n for n in range(10_000)}
    assert len(json.dumps(redacted([deep, wide, list(range(10_000))]))) < 10_000


@settings(deadline=None, max_examples=50)
@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))  # noqa: E501  # fmt: skip
def test_anything_becomes_json(value: Any) -> None:
    json.dumps(redacted(value))
