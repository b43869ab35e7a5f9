"""Names as the most forgiving file systems read them, so that none can be spelled around.

What is applied here may be read elsewhere: from a checkout on macOS, or on Windows' disks under
WSL. HFS+ ignores some letters that nobody sees, NTFS the dots and spaces at the end and whatever
follows a colon, and both fold case; ``GIT~1`` is NTFS's short name for ``.git`` (CVE-2014-9390,
CVE-2019-1352; git's ``is_hfs_dotgit`` and ``is_ntfs_dotgit``).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["folded"]

_UNSEEN: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SHORT_GIT: Final = re.compile(r"git~\d")
_UNUSUAL: Final = re.compile(r"[^\x00-\x7f]|:|~|[. ](?:/|\Z)")


def folded(path: bytes) -> str:
    """A path of which names that are one and the same somewhere are spelled alike."""
    text = path.decode("utf-8", "surrogateescape").casefold()
    if _UNUSUAL.search(text) is None:
        return text
    return "/".join(_name(name) for name in text.split("/"))


def _name(name: str) -> str:
    # A name that would be nothing then, such as three dots, is left as it is.
    short = _UNSEEN.sub("", name).partition(":")[0].rstrip(". ") or name
    return ".git" if _SHORT_GIT.fullmatch(short) else short
