"""What a provider says in five dialects: OpenAI chat completions and responses, Anthropic messages, Gemini, Ollama.

An answer of a script is written once and rendered here: `whole` makes the body of an answer in one piece, `frames` the
events of a stream. A frame is (event name or None, data, part); `part` is "start", "piece" or "end", so that a stream
can be sent without its end. `data` is a value that is written as JSON, or a string that is written as it is.

    {"text": "…"}                    or {"deltas": ["…", "…"]}: each is one delta, also one that cuts a character in two
    {"words": 1000}                  that many deltas of one word
    {"structured": {…}}              as text, or as the call of a tool the request forces; members in the order that the
                                     request's schema has them, as providers generate them; {"sorted": true}: by name
    {"tools": [{"name", "arguments", "id"?, "custom"?, "namespace"?}], "interleave"?: true}
                                     arguments: a value, or a string that is sent as it is
    {"thinking": "…"}                before everything else, signed
    {"blocks": [{…}]}                content blocks, output items or members of a chat message, as they are
    {"refusal": "…"}, {"stop": "…"}, {"usage": {"input", "output", "cached", "cache_write", "reasoning"}}

The members go together: thinking, blocks, text, tools, in this order.
"""

import json

CREATED = 1_790_000_000
DIALECTS = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "count_tokens",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
}
# The dialects whose streams are lines.
LINES = {"ollama"}


def compact(value):
    """JSON as providers write it. Half a character can only be written as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    return text


# --- reading a request ---


def schema_of(request):
    """The schema that the answer has to have, in the order it was sent in."""
    chat = request.get("response_format") or {}
    responses = (request.get("text") or {}).get("format") or {}
    messages = request.get("output_format") or (request.get("output_config") or {}).get("format") or {}
    gemini = request.get("generationConfig") or {}
    gemini = gemini.get("responseJsonSchema") or gemini.get("responseSchema")
    ollama = request.get("format") if isinstance(request.get("format"), dict) else None
    return gemini or ollama or (chat.get("json_schema") or {}).get("schema") or responses.get("schema") or messages.get("schema")


def forced(request):
    """The tool that the request lets no answer do without: (name, schema), or nothing."""
    choice, offered = request.get("tool_choice"), request.get("tools") or []
    named = None
    if isinstance(choice, dict):
        named = choice.get("name") or (choice.get("function") or {}).get("name")
        if named is None and choice.get("type") not in ("any", "required"):
            return None
    elif choice != "required":
        return None
    for tool in reversed(offered):
        function = tool.get("function") or tool
        if named in (None, function.get("name")):
            return function.get("name"), function.get("parameters") or function.get("input_schema") or {}
    return None


def in_order_of(value, schema):
    """The members of an object as the schema's `properties` order them; others after these."""
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return value
    properties = schema.get("properties") or {}
    order = [name for name in properties if name in value] + [name for name in value if name not in properties]
    return {name: in_order_of(value[name], properties.get(name)) for name in order}


def tool_results(dialect, request):
    """How many tool results the request holds, and whether its last message is one."""
    if dialect == "responses":
        items = request.get("input")
        items = items if isinstance(items, list) else []
        found = [str(item.get("type", "")).endswith("_output") for item in items]
    elif dialect == "gemini":
        parts = [content.get("parts") or [] for content in request.get("contents") or []]
        counts = [sum("functionResponse" in part for part in one) for one in parts]
        return sum(counts), bool(counts) and counts[-1] > 0
    elif dialect in ("chat", "ollama"):
        found = [message.get("role") in ("tool", "function") for message in request.get("messages") or []]
    else:
        counts = []
        for message in request.get("messages") or []:
            content = message.get("content")
            blocks = content if isinstance(content, list) else []
            counts.append(sum(block.get("type") == "tool_result" for block in blocks))
        # A program may put reminders of its own, of role `system`, behind the results.
        roles = [message.get("role") for message in request.get("messages") or []]
        while roles and roles[-1] == "system":
            roles.pop()
        return sum(counts), bool(roles) and counts[len(roles) - 1] > 0
    return sum(found), bool(found) and found[-1]


# --- the parts of an answer ---


class Parts:
    """One answer with its ids and its texts made out, the same for every dialect."""

    def __init__(self, answer, request, number):
        self.answer, self.request, self.number = answer, request, number
        self.model = answer.get("model") or request.get("model") or "scripted"
        self.thinking, self.blocks = answer.get("thinking"), answer.get("blocks") or []
        self.refusal = answer.get("refusal")
        self.deltas = list(answer.get("deltas") or [])
        self.tools = [dict(tool) for tool in answer.get("tools") or []]
        if "text" in answer:
            text = answer["text"]
            self.deltas = [text[at : at + 8] for at in range(0, len(text), 8)] or [""]
        if "words" in answer:
            self.deltas = ["word "] * answer["words"]
        if "structured" in answer:
            self.structured(answer["structured"])
        for at, tool in enumerate(self.tools):
            tool.setdefault("id", f"call_{number}_{at}")
            arguments = tool.get("arguments", {})
            tool["arguments"] = arguments if isinstance(arguments, str) else compact(arguments)
        counted = {"input": 11, "output": 7, "cached": 0, "cache_write": 0, "reasoning": 0}
        self.usage = counted | (answer.get("usage") or {})

    def structured(self, value):
        tool, schema = forced(self.request), schema_of(self.request)
        name, schema = tool if tool and not schema else (None, schema)
        text = compact(dict(sorted(value.items())) if self.answer.get("sorted") else in_order_of(value, schema))
        if name:
            self.tools.append({"name": name, "arguments": text})
        else:
            self.deltas = [text[at : at + 8] for at in range(0, len(text), 8)]

    @property
    def text(self):
        # Halves of a character that were cut apart are one again.
        return "".join(self.deltas).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def cut(self, text):
        """Arguments as they come: in two deltas."""
        half = len(text) // 2
        return [text[:half], text[half:]] if half else [text]


# --- chat completions ---


def chat_usage(parts):
    used = parts.usage
    return {
        "prompt_tokens": used["input"],
        "completion_tokens": used["output"],
        "total_tokens": used["input"] + used["output"],
        "prompt_tokens_details": {"cached_tokens": used["cached"], "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": used["reasoning"], "audio_tokens": 0},
    }


def chat_stop(parts):
    return parts.answer.get("stop") or ("tool_calls" if parts.tools else "stop")


def chat_whole(parts):
    message = {"role": "assistant", "content": parts.text if parts.deltas else None, "refusal": parts.refusal}
    if parts.thinking:
        message["reasoning_content"] = parts.thinking
    for block in parts.blocks:
        message |= block
    if parts.tools:
        message["tool_calls"] = [
            {
                "id": tool["id"],
                "type": "function",
                "function": {"name": tool["name"], "arguments": tool["arguments"]},
            }
            for tool in parts.tools
        ]
    return {
        "id": f"chatcmpl-{parts.number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": parts.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": chat_stop(parts)}],
        "usage": chat_usage(parts),
        "system_fingerprint": "fp_scripted",
    }


def chat_frames(parts):
    def chunk(delta, stop=None):
        return {
            "id": f"chatcmpl-{parts.number}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": parts.model,
            "system_fingerprint": "fp_scripted",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}],
        }

    yield None, chunk({"role": "assistant", "content": "", "refusal": None}), "start"
    if parts.thinking:
        yield None, chunk({"reasoning_content": parts.thinking}), "piece"
    for block in parts.blocks:
        yield None, chunk(block), "piece"
    for delta in parts.deltas:
        yield None, chunk({"content": delta}), "piece"
    if parts.refusal:
        yield None, chunk({"refusal": parts.refusal}), "piece"
    yield from ((None, chunk({"tool_calls": [call]}), "piece") for call in chat_calls(parts))
    yield None, chunk({}, chat_stop(parts)), "end"
    if (parts.request.get("stream_options") or {}).get("include_usage"):
        yield None, chunk({}) | {"choices": [], "usage": chat_usage(parts)}, "end"
    yield None, "[DONE]", "end"


def chat_calls(parts):
    """Deltas of tool calls: one call after the other, or all by turns."""
    calls = []
    for at, tool in enumerate(parts.tools):
        function = {"name": tool["name"], "arguments": ""}
        deltas = [{"index": at, "id": tool["id"], "type": "function", "function": function}]
        deltas += [{"index": at, "function": {"arguments": part}} for part in parts.cut(tool["arguments"])]
        calls.append(deltas)
    if not parts.answer.get("interleave"):
        return [delta for deltas in calls for delta in deltas]
    longest = max(map(len, calls), default=0)
    return [deltas[at] for at in range(longest) for deltas in calls if at < len(deltas)]


# --- responses ---


def items(parts):
    """Output items, finished, each with the events between its beginning and its end."""
    at = f"{parts.number}"
    if parts.thinking:
        summary = [{"type": "summary_text", "text": parts.thinking}]
        yield {"id": f"rs_{at}", "type": "reasoning", "summary": summary, "encrypted_content": "c2lnbmVk"}
    for block in parts.blocks:
        yield {"id": f"block_{at}", "status": "completed"} | block
    if parts.deltas or parts.refusal:
        content = [{"type": "output_text", "text": parts.text, "annotations": [], "logprobs": []}]
        if parts.refusal:
            content = [{"type": "refusal", "refusal": parts.refusal}]
        yield {"id": f"msg_{at}", "type": "message", "role": "assistant", "status": "completed", "content": content}
    for number, tool in enumerate(parts.tools):
        item = {"id": f"fc_{at}_{number}", "status": "completed", "call_id": tool["id"], "name": tool["name"]}
        if tool.get("namespace"):
            item["namespace"] = tool["namespace"]
        if tool.get("custom"):
            yield item | {"type": "custom_tool_call", "input": tool["arguments"]}
        else:
            yield item | {"type": "function_call", "arguments": tool["arguments"]}


def response(parts, status, output):
    used, done = parts.usage, status == "completed"
    usage = {
        "input_tokens": used["input"],
        "input_tokens_details": {"cached_tokens": used["cached"]},
        "output_tokens": used["output"],
        "output_tokens_details": {"reasoning_tokens": used["reasoning"]},
        "total_tokens": used["input"] + used["output"],
    }
    asked = {name: parts.request.get(name) for name in ("instructions", "previous_response_id", "temperature", "top_p")}
    return asked | {
        "id": f"resp_{parts.number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "metadata": {},
        "model": parts.model,
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": parts.request.get("tool_choice") or "auto",
        "tools": parts.request.get("tools") or [],
        "truncation": "disabled",
        "usage": usage if done else None,
    }


def responses_whole(parts):
    return response(parts, "completed", list(items(parts)))


def responses_frames(parts):
    sequence = 0

    def event(kind, **members):
        nonlocal sequence
        sequence += 1
        return kind, {"type": kind, "sequence_number": sequence - 1} | members

    yield *event("response.created", response=response(parts, "in_progress", [])), "start"
    yield *event("response.in_progress", response=response(parts, "in_progress", [])), "start"
    output = list(items(parts))
    for at, item in enumerate(output):
        begun = dict(item, status="in_progress") if "status" in item else dict(item)
        empty = {"message": "content", "function_call": "arguments", "custom_tool_call": "input", "reasoning": "summary"}
        if item["type"] in empty:
            begun[empty[item["type"]]] = [] if item["type"] in ("message", "reasoning") else ""
        yield *event("response.output_item.added", output_index=at, item=begun), "piece"
        for kind, members in within(parts, item):
            yield *event(kind, item_id=item["id"], output_index=at, **members), "piece"
        yield *event("response.output_item.done", output_index=at, item=item), "piece"
    yield *event("response.completed", response=response(parts, "completed", output)), "end"


def within(parts, item):
    """The events between the beginning and the end of one output item."""
    if item["type"] == "message" and not parts.refusal:
        part = dict(item["content"][0], text="")
        yield "response.content_part.added", {"content_index": 0, "part": part}
        for delta in parts.deltas:
            yield "response.output_text.delta", {"content_index": 0, "delta": delta, "logprobs": []}
        yield "response.output_text.done", {"content_index": 0, "text": parts.text, "logprobs": []}
        yield "response.content_part.done", {"content_index": 0, "part": item["content"][0]}
    elif item["type"] == "message":
        yield "response.refusal.delta", {"content_index": 0, "delta": parts.refusal}
        yield "response.refusal.done", {"content_index": 0, "refusal": parts.refusal}
    elif item["type"] == "function_call":
        for delta in parts.cut(item["arguments"]):
            yield "response.function_call_arguments.delta", {"delta": delta}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", done
    elif item["type"] == "custom_tool_call":
        for delta in parts.cut(item["input"]):
            yield "response.custom_tool_call_input.delta", {"delta": delta}
        yield "response.custom_tool_call_input.done", {"input": item["input"]}
    elif item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        yield "response.reasoning_summary_part.added", {"summary_index": 0, "part": {"type": "summary_text", "text": ""}}
        yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": text}
        yield "response.reasoning_summary_text.done", {"summary_index": 0, "text": text}
        yield "response.reasoning_summary_part.done", {"summary_index": 0, "part": item["summary"][0]}
    elif item["type"] == "web_search_call":
        for state in ("in_progress", "searching", "completed"):
            yield f"response.web_search_call.{state}", {}


# --- messages ---


def messages_usage(parts):
    used = parts.usage
    return {
        "input_tokens": used["input"],
        "cache_creation_input_tokens": used["cache_write"],
        "cache_read_input_tokens": used["cached"],
        "output_tokens": used["output"],
    }


def messages_stop(parts):
    return parts.answer.get("stop") or ("tool_use" if parts.tools else "end_turn")


def blocks(parts):
    """Finished content blocks."""
    if parts.thinking:
        yield {"type": "thinking", "thinking": parts.thinking, "signature": "c2lnbmVk"}
    yield from parts.blocks
    if parts.deltas or parts.refusal:
        yield {"type": "text", "text": parts.refusal or parts.text}
    for tool in parts.tools:
        # Whole answers hold the value; only a stream can hold arguments that are no JSON.
        try:
            value = json.loads(tool["arguments"])
        except ValueError:
            value = {"unreadable": tool["arguments"]}
        yield {"type": "tool_use", "id": tool["id"], "name": tool["name"], "input": value}


def message(parts, content, stop, usage):
    return {
        "id": f"msg_{parts.number}",
        "type": "message",
        "role": "assistant",
        "model": parts.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def messages_whole(parts):
    return message(parts, list(blocks(parts)), messages_stop(parts), messages_usage(parts))


def messages_frames(parts):
    def event(kind, part="piece", **members):
        return kind, {"type": kind} | members, part

    usage = messages_usage(parts)
    yield event("message_start", "start", message=message(parts, [], None, usage | {"output_tokens": 1}))
    calls = iter(parts.tools)
    for at, block in enumerate(blocks(parts)):
        kind, deltas = block["type"], []
        begun = dict(block)
        if kind == "text":
            begun["text"] = ""
            texts = [parts.refusal] if parts.refusal else parts.deltas
            deltas = [{"type": "text_delta", "text": text} for text in texts]
        elif kind == "thinking":
            begun |= {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif kind == "tool_use":
            begun["input"] = {}
            cut = ["", *parts.cut(next(calls)["arguments"])]
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in cut]
        elif kind == "server_tool_use":
            begun["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in parts.cut(compact(block["input"]))]
        yield event("content_block_start", index=at, content_block=begun)
        if at == 0:
            yield event("ping")
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    delta = {"stop_reason": messages_stop(parts), "stop_sequence": None}
    yield event("message_delta", "end", delta=delta, usage=usage)
    yield event("message_stop", "end")


# --- Gemini ---


def signed_call(tool):
    """A part with a call that has no id, as some of Google's models give none."""
    call = {"name": tool["name"], "args": json.loads(tool["arguments"])}
    return {"functionCall": call, "thoughtSignature": "c2lnbmVk"}


def gemini_answer(parts, said, stop=None):
    candidate = {"content": {"parts": said, "role": "model"}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    used = parts.usage
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": used["input"],
            "candidatesTokenCount": used["output"],
            "totalTokenCount": used["input"] + used["output"],
        },
        "modelVersion": parts.model,
        "responseId": f"r{parts.number}",
    }


def gemini_whole(parts):
    said = [{"text": parts.text}] if parts.deltas else []
    said += [signed_call(tool) for tool in parts.tools]
    return gemini_answer(parts, said, parts.answer.get("stop", "STOP"))


def gemini_frames(parts):
    for delta in parts.deltas:
        yield None, gemini_answer(parts, [{"text": delta}]), "piece"
    for tool in parts.tools:
        yield None, gemini_answer(parts, [signed_call(tool)]), "piece"
    yield None, gemini_answer(parts, [{"text": ""}], parts.answer.get("stop", "STOP")), "end"


# --- Ollama ---


def ollama_line(parts, message, done=False):
    line = {"model": parts.model, "created_at": "2026-01-01T00:00:00Z"}
    line |= {"message": {"role": "assistant", "content": ""} | message, "done": done}
    if done:
        line |= {"done_reason": parts.answer.get("stop", "stop"), "total_duration": 1}
        line |= {"prompt_eval_count": parts.usage["input"], "eval_count": parts.usage["output"]}
    return line


def local_call(tool):
    return {"function": {"name": tool["name"], "arguments": json.loads(tool["arguments"])}}


def ollama_whole(parts):
    message = {"content": parts.text}
    if parts.tools:
        message["tool_calls"] = [local_call(tool) for tool in parts.tools]
    return ollama_line(parts, message, True)


def ollama_frames(parts):
    for delta in parts.deltas:
        yield None, ollama_line(parts, {"content": delta}), "piece"
    for tool in parts.tools:
        yield None, ollama_line(parts, {"tool_calls": [local_call(tool)]}), "piece"
    yield None, ollama_line(parts, {}, True), "end"


# --- all of them ---

WHOLE = {
    "chat": chat_whole,
    "responses": responses_whole,
    "messages": messages_whole,
    "gemini": gemini_whole,
    "ollama": ollama_whole,
}
FRAMES = {
    "chat": chat_frames,
    "responses": responses_frames,
    "messages": messages_frames,
    "gemini": gemini_frames,
    "ollama": ollama_frames,
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def error(dialect, status, text, code=None):
    """The body of an error."""
    kind = ERROR_TYPES.get(status, "api_error" if dialect == "messages" else "server_error")
    if dialect in ("messages", "count_tokens"):
        return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}
    if dialect == "gemini":
        names = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
        return {"error": {"code": status, "message": text, "status": names.get(status, "INTERNAL")}}
    if dialect == "ollama":
        return {"error": text}
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def error_frame(dialect, number, sent, text, kind=None):
    """An error in the middle of a stream. That of responses is the response, failed: clients compare its id."""
    if dialect == "messages":
        body = {"type": "error", "error": {"type": kind or "overloaded_error", "message": text}}
        return "error", body, "piece"
    if dialect == "responses":
        failed = response(Parts({}, {}, number), "failed", [])
        failed["error"] = {"code": kind or "server_error", "message": text}
        return "response.failed", {"type": "response.failed", "sequence_number": sent, "response": failed}, "piece"
    dialect = dialect if dialect in ("gemini", "ollama") else "chat"
    return None, error(dialect, 500, text, kind), "piece"
