"""One record a call: who, what, where, why there, limits and outcome; chained by hashes."""

from sandboxed_tools.audit.chain import Broken, Head, Verification
from sandboxed_tools.audit.log import AuditLog
from sandboxed_tools.audit.reader import AuditReader, CallRecord, Row
from sandboxed_tools.audit.redaction import bounded, redacted

__all__ = [
    "AuditLog",
    "AuditReader",
    "Broken",
    "CallRecord",
    "Head",
    "Row",
    "Verification",
    "bounded",
    "redacted",
]
