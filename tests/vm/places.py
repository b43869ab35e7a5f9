"""Where things are: the checkout, and the folder of everything that may be made again."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CHECKOUT", "VM_FOLDER"]

CHECKOUT = Path(__file__).resolve().parents[2]
VM_FOLDER = CHECKOUT / ".vm"
