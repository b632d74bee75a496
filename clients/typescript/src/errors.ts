// What a gate can refuse, by what a program can do about it.
import { CODES } from "./models.ts";
import type { Problem, Reason, Receipt } from "./models.ts";

/** A call or a request that has no result. `code` is stable; `next` says what to do. */
export class GateError extends Error {
  readonly problem: Problem;
  readonly runId: string | undefined;

  constructor(problem: Problem, runId?: string) {
    super();
    this.name = new.target.name;
    this.problem = problem;
    this.runId = runId;
    const rule = this.rule ? ` (rule ${this.rule})` : "";
    this.message = `${this.detail}${rule} [${this.code}]; next: ${this.next}`;
  }

  /** The stable code, as `docs/reference/errors.md` lists it. */
  get code(): string {
    return this.problem.code;
  }
  /** The finer code, such as that of the rule that denied. */
  get finerCode(): string | undefined {
    return this.problem.cause ?? undefined;
  }
  /** What happened this time. */
  get detail(): string {
    return this.problem.detail;
  }
  /** Every reason of a recorded denial or hold, with the rule and its place. */
  get reasons(): Reason[] {
    return this.problem.reasons ?? [];
  }
  /** The first rule that decided, with file and line. */
  get rule(): string | undefined {
    return this.reasons.find((reason) => reason.rule)?.rule ?? undefined;
  }
  /** The call that this is about. */
  get callId(): string | undefined {
    return this.problem.call_id ?? undefined;
  }
  /** The ledger entry that records it; none if nothing is recorded. */
  get receipt(): Receipt | undefined {
    return this.problem.receipt ?? undefined;
  }
  /** Whether to ask again: `no`, `after`, `same_id`, `new_id` or `poll`. */
  get retry(): string {
    return this.problem.retry;
  }
  /** What to do next. */
  get next(): string {
    return (CODES as Record<string, readonly [string, string]>)[this.code]?.[1] ?? "read the detail";
  }
  /** What a model reads in place of a result, and can go on from. */
  forModel(): string {
    const rule = this.rule ? ` Rule: ${this.rule}.` : "";
    return `${this.headline}: ${this.detail} (code ${this.code}).${rule} ${this.advice}`;
  }
  protected get headline(): string {
    return "The gate could not make this call";
  }
  protected get advice(): string {
    return "Go on without this result.";
  }
}

/** The call did not run, and the same call never will. */
export class Denied extends GateError {
  protected override get headline(): string {
    return "The gate denied this call, and it did not run";
  }
  protected override get advice(): string {
    return "Do not repeat it. Change the call, or continue without it.";
  }
}

/** A limit of the manifest or of a pool is reached. */
export class LimitExceeded extends Denied {
  protected override get advice(): string {
    return "Do not repeat it now. Continue without it.";
  }
}

/** The request or its arguments do not have the form that is asked for; nothing ran. */
export class InvalidArguments extends GateError {
  protected override get headline(): string {
    return "The gate refused the form of this call, and it did not run";
  }
  protected override get advice(): string {
    return "Correct the arguments to match the tool's schema.";
  }
}

/** The call waits for an approval. `runId` and `callId` name it; `Run.wait` waits for it. */
export class Held extends GateError {
  protected override get headline(): string {
    return "This call waits for a person's approval, and it has not run";
  }
  protected override get advice(): string {
    return "Do not repeat it. Continue with other work, and say that it waits.";
  }
  /** What `wicketgate approval approve` takes: the run and the call. */
  get approval(): string {
    return `${this.runId ?? ""} ${this.callId ?? ""}`;
  }
  /** Where the gate shows the call to its agent. */
  get url(): string {
    return `/gate/v1/calls/${this.callId ?? ""}`;
  }
  override forModel(): string {
    return `${super.forModel()} The call is \`${this.approval}\`.`;
  }
  /** The end of the time that the call waits. */
  get expires(): string | undefined {
    return this.problem.expires ?? undefined;
  }
  override get next(): string {
    return `an approver runs \`wicketgate approval approve ${this.approval} --key KEY\`, then ask for the same call id`;
  }
}

/** Nothing was decided: the gate is not reached, is draining, or has no ledger. Ask again with the same call id. */
export class Unavailable extends GateError {
  protected override get headline(): string {
    return "The gate cannot be used now";
  }
  protected override get advice(): string {
    return "Tell your user that the gate does not answer.";
  }
}

/** The gate does not answer at all. */
export class NotReached extends Unavailable {
  /** Whether it may have the request. */
  readonly sent: boolean;

  constructor(detail: string, sent = true) {
    super({ type: "about:blank", title: "", status: 503, detail, code: "not_reached", retry: "same_id" });
    this.sent = sent;
  }
  override get next(): string {
    return "start the gate, or set WICKETGATE_URL to its address or socket";
  }
}

/** The call ran and failed. */
export class ToolFailed extends GateError {
  protected override get headline(): string {
    return "The tool ran and failed";
  }
  protected override get advice(): string {
    return "Read the detail before you try something else.";
  }
}

/** The call may have run. Look at the tool's own records before you make it again. */
export class OutcomeUnknown extends GateError {
  protected override get headline(): string {
    return "It is not known whether this call had an effect";
  }
  protected override get advice(): string {
    return "Do not repeat it. Say that its outcome is unknown.";
  }
}

/** The call id was used for another call. */
export class Conflict extends GateError {}
/** There is no such call, run, tool or route. */
export class NotFound extends GateError {}
/** The call ran, and its result was erased or not kept. */
export class ResultGone extends GateError {}
/** The run takes no more calls. */
export class Sealed extends GateError {}
/** The gate does not know the credential. */
export class Unauthenticated extends GateError {}

/** No approval came in time, and the call did not run. */
export class Expired extends Denied {
  protected override get headline(): string {
    return "No approval came in time, and the call did not run";
  }
}

/** The call was cancelled. */
export class Cancelled extends Denied {
  protected override get headline(): string {
    return "This call was cancelled";
  }
}

/** The class of an error by its code. */
export const CLASSES: Record<string, new (problem: Problem, runId?: string) => GateError> = {
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
  overloaded: Unavailable,
  shutdown: Unavailable,
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
  not_ready: Unavailable,
  "route.unknown": NotFound,
};

/** The error of an answer that is no result. */
export function errorOf(body: unknown, status: number, runId?: string): GateError {
  const problem = body as Partial<Problem> | null;
  if (typeof problem !== "object" || problem === null || typeof problem.code !== "string") {
    return new NotReached(`the answer with status ${status} is not a gate's: check the URL of the gate`);
  }
  const whole = { type: "about:blank", title: "", status, detail: "", retry: "no", ...problem } as Problem;
  return new (CLASSES[whole.code] ?? GateError)(whole, runId);
}
