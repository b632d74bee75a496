"""What a gate can refuse, by what a program can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._models import CODES, Problem, Reason, Receipt


class GateError(Exception):
    """A call or a request that has no result. `code` is stable; `next` says what to do."""

    def __init__(self, problem: Problem, run_id: str | None = None) -> None:
        self.problem = problem
        self.run_id = run_id
        super().__init__(self.message)

    @property
    def code(self) -> str:
        """The stable code, as `docs/reference/errors.md` lists it."""
        return self.problem.code

    @property
    def cause(self) -> str | None:
        """The finer code, such as that of the rule that denied."""
        return self.problem.cause

    @property
    def detail(self) -> str:
        """What happened this time."""
        return self.problem.detail

    @property
    def reasons(self) -> list[Reason]:
        """Every reason of a recorded denial or hold, with the rule and its place."""
        return self.problem.reasons

    @property
    def rule(self) -> str | None:
        """The first rule that decided, with file and line."""
        return next((reason.rule for reason in self.reasons if reason.rule), None)

    @property
    def call_id(self) -> str | None:
        """The call that this is about."""
        return self.problem.call_id

    @property
    def receipt(self) -> Receipt | None:
        """The ledger entry that records it; none if nothing is recorded."""
        return self.problem.receipt

    @property
    def retry(self) -> str:
        """Whether to ask again: `no`, `after`, `same_id`, `new_id` or `poll`."""
        return self.problem.retry

    @property
    def retry_after(self) -> float | None:
        """The number of seconds after which to ask again."""
        return self.problem.retry_after_seconds

    @property
    def next(self) -> str:
        """What to do next."""
        return CODES.get(self.code, ("", "read the detail"))[1]

    @property
    def message(self) -> str:
        """One line for people: what happened, the rule, the code, what next."""
        rule = f" (rule {self.rule})" if self.rule else ""
        return f"{self.detail}{rule} [{self.code}]; next: {self.next}"

    def for_model(self) -> str:
        """What a model reads in place of a result, and can go on from."""
        rule = f" Rule: {self.rule}." if self.rule else ""
        return f"{self.headline}: {self.detail} (code {self.code}).{rule} {self.advice}"

    headline = "The gate could not make this call"
    advice = "Go on without this result."


class Denied(GateError):
    """The call did not run, and the same call never will."""

    headline = "The gate denied this call, and it did not run"
    advice = "Do not repeat it. Change the call, or continue without it."


class LimitExceeded(Denied):
    """A limit of the manifest or of a pool is reached."""

    advice = "Do not repeat it now. Continue without it."


class InvalidArguments(GateError):
    """The request or its arguments do not have the form that is asked for; nothing ran."""

    headline = "The gate refused the form of this call, and it did not run"
    advice = "Correct the arguments to match the tool's schema."


class Held(GateError):
    """The call waits for an approval. `run_id` and `call_id` name it; `Run.wait` waits for it."""

    headline = "This call waits for a person's approval, and it has not run"
    advice = "Do not repeat it. Continue with other work, and say that it waits."

    @property
    def approval(self) -> str:
        """What `wicketgate approval approve` takes: the run and the call."""
        return f"{self.run_id} {self.call_id}"

    @property
    def url(self) -> str:
        """Where the gate shows the call to its agent."""
        return f"/gate/v1/calls/{self.call_id}"

    def for_model(self) -> str:
        """What a model reads: it can tell its user which call waits."""
        return f"{super().for_model()} The call is `{self.approval}`."

    @property
    def expires(self) -> str | None:
        """The end of the time that the call waits."""
        return self.problem.expires

    @property
    def next(self) -> str:
        """What to do next."""
        return f"an approver runs `wicketgate approval approve {self.approval} --key KEY`, then ask for the same call id"


class Unavailable(GateError):
    """Nothing was decided: the gate is not reached, is draining, or has no ledger. Ask again with the same call id."""

    headline = "The gate cannot be used now"
    advice = "Tell your user that the gate does not answer."


class ToolFailed(GateError):
    """The call ran and failed."""

    headline = "The tool ran and failed"
    advice = "Read the detail before you try something else."


class OutcomeUnknown(GateError):
    """The call may have run. Look at the tool's own records before you make it again."""

    headline = "It is not known whether this call had an effect"
    advice = "Do not repeat it. Say that its outcome is unknown."


class Conflict(GateError):
    """The call id was used for another call."""


class NotFound(GateError):
    """There is no such call, run, tool or route."""


class ResultGone(GateError):
    """The call ran, and its result was erased or not kept."""


class Sealed(GateError):
    """The run takes no more calls."""


class Expired(Denied):
    """No approval came in time, and the call did not run."""

    headline = "No approval came in time, and the call did not run"


class Cancelled(Denied):
    """The call was cancelled."""

    headline = "This call was cancelled"


class Unauthenticated(GateError):
    """The gate does not know the credential."""


CLASSES: Mapping[str, type[GateError]] = {
    "request.malformed": InvalidArguments,
    "identity.missing": Unauthenticated,
    "manifest.mismatch": Denied,
    "binding.insufficient": Denied,
    "tool.not_granted": Denied,
    "arguments.invalid": InvalidArguments,
    "effect.refused": Denied,
    "policy.denied": Denied,
    "policy.error": Denied,
    "call.held": Held,
    "limit.exceeded": LimitExceeded,
    "overloaded": Unavailable,
    "shutdown": Unavailable,
    "ledger.unavailable": Unavailable,
    "ledger.unknown": Unavailable,
    "tool.failed": ToolFailed,
    "call.unknown": OutcomeUnknown,
    "call.conflict": Conflict,
    "call.not_found": NotFound,
    "call.result_unavailable": ResultGone,
    "run.unknown": NotFound,
    "run.sealed": Sealed,
    "call.expired": Expired,
    "call.cancelled": Cancelled,
    "operator.forbidden": Denied,
    "approval.unviewable": Denied,
    "not_ready": Unavailable,
    "route.unknown": NotFound,
}


def error(body: Any, status: int, run_id: str | None = None) -> GateError:
    """The error of an answer that is no result."""
    if not isinstance(body, Mapping) or not isinstance(body.get("code"), str):
        return unavailable(f"the answer with status {status} is not a gate's: check the URL of the gate")
    problem = Problem.of({"type": "about:blank", "title": "", "status": status, "detail": "", "retry": "no", **body})
    return CLASSES.get(problem.code, GateError)(problem, run_id)


def unavailable(detail: str, sent: bool = True) -> Unavailable:
    """An error of the way to the gate. `sent`: whether the gate may have the request."""
    problem = {"type": "about:blank", "title": "", "status": 503, "detail": detail, "code": "not_reached",
               "retry": "same_id"}
    made = NotReached(Problem.of(problem))
    made.sent = sent
    return made


class NotReached(Unavailable):
    """The gate does not answer at all."""

    # Whether it may have the request.
    sent = True

    @property
    def next(self) -> str:
        """What to do next."""
        return "start the gate, or set WICKETGATE_URL to its address or socket"
