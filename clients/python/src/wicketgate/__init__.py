"""Tools of an AI agent behind a Wicketgate gate.

    from wicketgate import Gate, Denied

    with Gate.from_env().open(model="gpt-5.5") as run:
        answer = run.call("notes.read", path="todo.md")
"""

from ._models import OpenedRunBody, Problem, Reason, Receipt, RunBody, RunRequest, SealedBody, ToolBody
from .client import Answer, Event, Gate, Run, current_run
from .errors import (
    Cancelled,
    Conflict,
    Denied,
    Expired,
    GateError,
    Held,
    InvalidArguments,
    LimitExceeded,
    NotFound,
    NotReached,
    OutcomeUnknown,
    ResultGone,
    Sealed,
    ToolFailed,
    Unauthenticated,
    Unavailable,
)
from .functions import sandbox, tool

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Cancelled",
    "Conflict",
    "Denied",
    "Event",
    "Expired",
    "Gate",
    "GateError",
    "Held",
    "InvalidArguments",
    "LimitExceeded",
    "NotFound",
    "NotReached",
    "OpenedRunBody",
    "OutcomeUnknown",
    "Problem",
    "Reason",
    "Receipt",
    "ResultGone",
    "Run",
    "RunBody",
    "RunRequest",
    "Sealed",
    "SealedBody",
    "ToolBody",
    "ToolFailed",
    "Unauthenticated",
    "Unavailable",
    "current_run",
    "sandbox",
    "tool",
]
