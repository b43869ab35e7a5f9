"""What a record keeps of an input: bounded, and without what looks like a secret.

The author's ``redact`` comes first; this is the net below it. It knows names of fields and forms of
tokens, so it finds what people usually write, not everything: do not put secrets into inputs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

__all__ = ["bounded", "looks_secret", "redacted"]

MAX_TEXT_CHARS: Final = 4096
MAX_NAME_CHARS: Final = 200
MAX_ITEMS: Final = 64
MAX_DEPTH: Final = 8
HIDDEN: Final = "[redacted]"

_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase)?$|secret|token|api[_-]?key|credential|authorization|private[_-]?key"
    r"|cookie|session[_-]?id",
    re.IGNORECASE,
)
_FORMS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END|\Z)", HIDDEN),
        (
            r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abprs]-|sk-|rk_live_|AKIA|ASIA|AIza|ya29\.|"
            r"npm_|pypi-|hf_)[A-Za-z0-9_\-.]{8,}",
            HIDDEN,
        ),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", HIDDEN),
        (r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/=_.~-]{8,}", rf"\1{HIDDEN}"),
        (
            r"(?i)([A-Za-z0-9_-]{0,40}(?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|"
            r"credential|authorization)[A-Za-z0-9_-]{0,20}[\"']?\s{0,4}[=:]\s{0,4})"
            r"(\"[^\"]{0,4096}\"|'[^']{0,4096}'|[^\s\"';&|,}]{1,4096})",
            rf"\1{HIDDEN}",
        ),
        (r"(?i)(--?(?:password|passwd|token|secret|api-key)[ =])\S+", rf"\1{HIDDEN}"),
        (r"([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,256}:)[^\s/@]{1,256}@", rf"\1{HIDDEN}@"),
    )
)


def redacted(value: Any, *, depth: int = 0) -> Any:
    """A JSON-like value, with secrets hidden, long texts cut, and depth and width bounded."""
    if isinstance(value, str):
        return bounded(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= MAX_DEPTH:
        return "[too deep]"
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        kept: dict[str, Any] = {}
        for key, item in items:
            name, is_secret = _field(str(key))
            hides = is_secret and item not in (None, "", True, False)
            kept[name] = HIDDEN if hides else redacted(item, depth=depth + 1)
        if len(value) > MAX_ITEMS:
            kept["…"] = f"{len(value) - MAX_ITEMS} more"
        return kept
    if isinstance(value, list | tuple | set | frozenset):
        listed = list(value)
        short = [redacted(item, depth=depth + 1) for item in listed[:MAX_ITEMS]]
        return [*short, f"… {len(listed) - MAX_ITEMS} more"] if len(listed) > MAX_ITEMS else short
    return bounded(str(value))


def _field(name: str) -> tuple[str, bool]:
    """A field's name as it is shown, and whether its value is a secret by that name."""
    if len(name) > MAX_NAME_CHARS:
        return bounded(name, limit=MAX_NAME_CHARS), _NAME.search(name) is not None
    return _usual_field(name)


@lru_cache(maxsize=1024)
def _usual_field(name: str) -> tuple[str, bool]:
    return _hidden(name), _NAME.search(name) is not None


def bounded(text: str, *, limit: int = MAX_TEXT_CHARS) -> str:
    """A text without what looks like a secret; a long one as head, tail, length and digest."""
    if len(text) > limit:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        half = limit // 2
        middle = f"[… {len(text)} characters, sha256 {digest} …]"
        return f"{_hidden(text[:half])}{middle}{_hidden(text[-half:])}"
    return _hidden(text)


_HINT: Final = re.compile(
    r"-----BEGIN|gh[opsur]_|github_pat_|glpat-|xox|sk-|rk_|AKIA|ASIA|AIza|ya29|npm_|pypi-|hf_|eyJ"
    r"|:[^/\s]*@|[Pp][Aa][Ss][Ss]|[Ss][Ee][Cc][Rr]|[Tt][Oo][Kk][Ee]|[Kk][Ee][Yy]|[Cc][Rr][Ee][Dd]"
    r"|[Aa][Uu][Tt][Hh]|[Bb][Ee][Aa][Rr]|[Bb][Aa][Ss][Ii]"
)
"""Something of every form above: most texts have none of it, and are done after one search."""


def _hidden(text: str) -> str:
    if _HINT.search(text) is None:
        return text
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


_TOKENS: Final = tuple(pattern for pattern, _ in _FORMS[:3])


def looks_secret(name: str, text: str) -> bool:
    """Whether a text is a secret by its form, or by the name that it goes by."""
    if text and _NAME.search(name) is not None:
        return True
    return _HINT.search(text) is not None and any(form.search(text) for form in _TOKENS)
