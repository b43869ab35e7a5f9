"""Foreign text on its way out: to a terminal, or to a model.

Everything that came from a container, a file name, an input or a configuration is data. On its way
to a terminal it loses control sequences and bidirectional marks (which can hide, move and rewrite
what a person sees: CVE-2021-42574); on its way to a model it is bounded and marked.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["for_model", "for_terminal"]

# Whole sequences first, so that their parameters do not remain as text: CSI; OSC, DCS, SOS, PM
# and APC with their payload up to BEL or ST; other two-character escapes (ECMA-48, 5.4 and 8.3).
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,65536}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_KEPT = {"\n", "\t"}


def for_terminal(text: str, *, one_line: bool = False) -> str:
    """Text that a terminal can only show, never obey.

    Control sequences go; any other control, format (bidirectional marks, zero-width), private or
    unassigned character, and a lone surrogate, is shown as an escape such as ``\\x07``. Line feeds
    and tabs stay, unless ``one_line``; a carriage return before a line feed is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
    kept: set[str] = set() if one_line else _KEPT
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if character in "\u200d\ufe0f" or unicodedata.category(character) == "Zs":
        return " " if unicodedata.category(character) == "Zs" else ""
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def for_model(text: str, *, source: str, max_chars: int = 65_536) -> str:
    """Foreign text for a model: bounded (head and tail), and between marks that name its source.

    The closing mark cannot be forged from inside: any text that looks like a mark is broken up.
    """
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters cut …]\n{text[-half:]}"
    text = re.sub(r"<(/?)(untrusted)", r"<\1 \2", text, flags=re.IGNORECASE)
    label = re.sub(r"[^\w .:/-]", "_", source)[:80]
    return f'<untrusted source="{label}">\n{text}\n</untrusted>'
