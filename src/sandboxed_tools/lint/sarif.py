"""Findings as SARIF 2.1.0, which code-scanning services read (OASIS, sarif-schema-2.1.0)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandboxed_tools.lint.finding import DOCS, RULES, Finding

__all__ = ["sarif_log"]


def sarif_log(findings: Iterable[Finding], *, version: str) -> dict[str, Any]:
    """One SARIF log with one run. Columns count from 1, in UTF-16 as the format has it by default,
    so the run says that it counts Unicode code points."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "sandboxed-tools lint",
                        "version": version,
                        "rules": [
                            {
                                "id": code,
                                "shortDescription": {"text": f"A tool {text}"},
                                "helpUri": DOCS.format(code=code),
                            }
                            for code, text in RULES.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding) for finding in findings],
            }
        ],
    }


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "level": "warning",
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": finding.path},
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column + 1,
                        "endLine": finding.end_line,
                        "endColumn": finding.end_column + 1,
                    },
                }
            }
        ],
    }
