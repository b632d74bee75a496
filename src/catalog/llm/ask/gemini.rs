//! Requests of `POST /v1beta/models/{model}:generateContent`, `:streamGenerateContent` and
//! `:countTokens`. The model and the form of the answer stand in the path: see `placed`.
//!
//! The tables were made from the API reference of 2026-11, as google-genai 2.34.0 has it. Google takes
//! each name in snake case as well, and that library writes some so: those of files, of results and of
//! functions. There the gate reads both spellings, and refuses a member that is there twice. Elsewhere a
//! name in snake case is refused as an unknown one.

use super::members::MemberUse::{Pass, Read, State};
use super::members::{
    AskReader, AskResult, MemberTable, NULL, ObjectMembers, RequestPath, given, list, maybe_text,
    number, object, text, text_of, value_of,
};
use super::{
    AskError, AskForm, AskTarget, HostedTools, OfferedForm, OfferedTool, PATH_MEMBERS, ToolPlace,
};
use crate::domain::canonical;
use crate::domain::dialect::Operation;
use crate::domain::json::Json;

/// What a request says besides its members.
pub(super) const FORM: AskForm = AskForm {
    list: "contents",
    bound: Some("maxOutputTokens"),
    holder: Some("generationConfig"),
    path_members: &PATH_MEMBERS,
    target,
};

/// The URL of a request. WHY always events: they say where each ends, and the agent is sent a list all
/// the same if it asked for one.
fn target(target: &AskTarget<'_>) -> String {
    let AskTarget { base, model, operation, stream, .. } = *target;
    let action = match (operation, stream) {
        (Operation::CountTokens, _) => "countTokens",
        (Operation::Generate, true) => "streamGenerateContent?alt=sse",
        (Operation::Generate, false) => "generateContent",
    };
    format!("{base}/{model}:{action}")
}

/// The members of a request for an answer.
const MEMBERS: MemberTable = &[
    ("alt", Read),
    ("contents", Read),
    ("generationConfig", Read),
    ("model", Read),
    ("stream", Read),
    ("systemInstruction", Read),
    ("toolConfig", Read),
    ("tools", Read),
    ("cachedContent", State),
    ("continuationToken", State),
    ("labels", Pass),
    ("safetySettings", Pass),
    ("serviceTier", Pass),
    ("store", Pass),
];

/// The members of a request for the number of its tokens.
const COUNT_MEMBERS: MemberTable = &[("contents", Read), ("model", Read)];

/// The members of `generationConfig`. Not in it, so refused unless the operator passes them:
/// `speechConfig` and `imageConfig`, because the gate does not read spoken or painted answers.
const GENERATION: &[&str] = &[
    "_responseJsonSchema",
    "candidateCount",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

const PART: &[&str] = &[
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "mediaResolution",
    "partMetadata",
    "text",
    "thought",
    "thoughtSignature",
    "toolCall",
    "toolResponse",
    "videoMetadata",
];
/// Members of a part that say the provider ran something.
const PROVIDER_RAN: [&str; 4] =
    ["codeExecutionResult", "executableCode", "toolCall", "toolResponse"];
const FUNCTION: &[&str] = &[
    "behavior",
    "description",
    "name",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
];
/// The tools that the provider runs, or whose use it defines.
const HOSTED: [&str; 12] = [
    "codeExecution",
    "computerUse",
    "enterpriseWebSearch",
    "exaAiSearch",
    "fileSearch",
    "googleMaps",
    "googleSearch",
    "googleSearchRetrieval",
    "mcpServers",
    "parallelAiSearch",
    "retrieval",
    "urlContext",
];

/// Reads a request.
pub(super) fn read(reader: &mut AskReader<'_>, body: &Json) -> AskResult<()> {
    let table = match reader.ask.operation {
        Operation::Generate => MEMBERS,
        Operation::CountTokens => COUNT_MEMBERS,
    };
    let members = reader.top(body, table)?;
    if let Some(system) = given(members, "systemInstruction") {
        reader.system(system, &RequestPath::top("systemInstruction"))?;
    }
    let at = RequestPath::top("contents");
    let contents = list(value_of(members, "contents"), &at)?;
    reader.ask.messages = number(contents.len());
    for (index, content) in contents.iter().enumerate() {
        reader.turn = index;
        reader.content(content, &at.item(index))?;
    }
    let at = RequestPath::top("tools");
    let tools = given(members, "tools").map(|tools| list(tools, &at)).transpose()?;
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        reader.tool_group(tool, index, &at.item(index))?;
    }
    if let Some(config) = given(members, "toolConfig") {
        reader.tool_config(config, &RequestPath::top("toolConfig"))?;
    }
    match given(members, "generationConfig") {
        Some(config) => reader.generation(config, &RequestPath::top("generationConfig")),
        None => Ok(()),
    }
}

/// Members, each in either spelling.
struct EitherMembers<'v>(&'v ObjectMembers);

impl<'v> EitherMembers<'v> {
    /// A member by its name in camel case, unless it is absent or `null`.
    fn given(&self, name: &str) -> Option<&'v Json> {
        let found = self.0.iter().find(|(written, _)| camel(written) == name);
        found.map(|(_, value)| value).filter(|value| **value != Json::Null)
    }

    fn value(&self, name: &str) -> &'v Json {
        self.given(name).unwrap_or(&NULL)
    }

    fn text(&self, name: &str, at: &RequestPath<'_>) -> AskResult<&'v str> {
        text(self.value(name), &at.member(name))
    }

    fn maybe_text(&self, name: &str, at: &RequestPath<'_>) -> AskResult<Option<&'v str>> {
        self.given(name).map(|value| text(value, &at.member(name))).transpose()
    }
}

/// A name in camel case.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        let mut letters = word.chars();
        all.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        all.push_str(letters.as_str());
        all
    })
}

impl AskReader<'_> {
    fn system(&mut self, system: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(system, at, &["parts", "role"])?;
        let at = at.member("parts");
        for (index, part) in list(value_of(members, "parts"), &at)?.iter().enumerate() {
            let at = at.item(index);
            let part = self.closed(part, &at, &["text"])?;
            self.instruct(text_of(part, "text", &at)?);
        }
        Ok(())
    }

    fn content(&mut self, content: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(content, at, &["parts", "role"])?;
        if !matches!(maybe_text(members, "role", at)?, None | Some("user" | "model" | "function")) {
            return Err(at.member("role").shape("one of user, model, function"));
        }
        self.has_begun = true;
        let at = at.member("parts");
        let parts = given(members, "parts").map(|parts| list(parts, &at)).transpose()?;
        for (index, part) in parts.into_iter().flatten().enumerate() {
            self.content_part(part, &at.item(index))?;
        }
        Ok(())
    }

    fn content_part(&mut self, part: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(part, at, PART)?;
        for ran in PROVIDER_RAN.into_iter().filter(|name| given(members, name).is_some()) {
            self.provider_ran(ran, at)?;
        }
        maybe_text(members, "text", at)?;
        if let Some(data) = given(members, "inlineData") {
            self.blob(data, &at.member("inlineData"))?;
        }
        if let Some(file) = given(members, "fileData") {
            self.stored(file, &at.member("fileData"))?;
        }
        if let Some(call) = given(members, "functionCall") {
            self.function_call(call, &at.member("functionCall"))?;
        }
        match given(members, "functionResponse") {
            Some(result) => self.function_response(result, &at.member("functionResponse")),
            None => Ok(()),
        }
    }

    fn blob(&mut self, data: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let data = self.either(data, at, &["data", "displayName", "mimeType"])?;
        self.is_inline(data.text("data", at)?);
        let is_image =
            data.maybe_text("mimeType", at)?.is_some_and(|kind| kind.starts_with("image/"));
        let counter = if is_image { &mut self.ask.images } else { &mut self.ask.files };
        *counter = counter.saturating_add(1);
        Ok(())
    }

    fn stored(&mut self, file: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let file = self.either(file, at, &["displayName", "fileUri", "mimeType"])?;
        self.file(file.text("fileUri", at)?, &at.member("fileUri"))
    }

    fn function_call(&mut self, call: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(call, at, &["args", "id", "name"])?;
        let arguments = match given(members, "args") {
            Some(args) => canonical::text(&Json::Object(object(args, &at.member("args"))?.clone())),
            None => "{}".to_owned(),
        };
        let name = text_of(members, "name", at)?;
        self.called_unnamed(maybe_text(members, "id", at)?, name, arguments);
        Ok(())
    }

    fn function_response(&mut self, result: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let known = &["id", "name", "parts", "response", "scheduling", "willContinue"];
        let members = self.either(result, at, known)?;
        let response = object(members.value("response"), &at.member("response"))?;
        // The reference names the member by which a function reports its error.
        let is_error = given(response, "error").is_some();
        let at_parts = at.member("parts");
        let parts = members.given("parts").map(|parts| list(parts, &at_parts)).transpose()?;
        for (index, part) in parts.into_iter().flatten().enumerate() {
            let at = at_parts.item(index);
            let part = self.either(part, &at, &["fileData", "inlineData"])?;
            if let Some(data) = part.given("inlineData") {
                self.blob(data, &at.member("inlineData"))?;
            }
            if let Some(file) = part.given("fileData") {
                self.stored(file, &at.member("fileData"))?;
            }
        }
        let (id, name) = (members.maybe_text("id", at)?, members.text("name", at)?);
        self.resulted_unnamed(id, Some(name), is_error.then_some(true));
        Ok(())
    }

    /// An object with these members, each in either spelling.
    fn either<'v>(
        &self,
        value: &'v Json,
        at: &RequestPath<'_>,
        known: &[&str],
    ) -> AskResult<EitherMembers<'v>> {
        let members = object(value, at)?;
        let is_passed = |name: &str| self.rules.pass_members.contains(name);
        for name in members.keys() {
            let camel = camel(name);
            if *name != camel && members.contains_key(&camel) {
                return Err(at.member(name).shape("one spelling of a member, not two"));
            }
            if !known.contains(&camel.as_str()) && !is_passed(name) {
                return Err(AskError::Unknown(at.member(name).to_string()));
            }
        }
        Ok(EitherMembers(members))
    }

    /// An item of `tools`: functions of the agent, and tools that the provider runs.
    fn tool_group(&mut self, tool: &Json, index: usize, at: &RequestPath<'_>) -> AskResult<()> {
        let members = object(tool, at)?;
        let only_one = members.len() == 1;
        for (name, value) in members.iter().filter(|(_, value)| **value != Json::Null) {
            if name == "functionDeclarations" {
                let at = at.member("functionDeclarations");
                for (inner, function) in list(value, &at)?.iter().enumerate() {
                    let place = ToolPlace::Tools(index, Some(inner));
                    self.declaration(function, place, &at.item(inner))?;
                }
                continue;
            }
            if !HOSTED.contains(&name.as_str()) {
                self.only(members, at, &["functionDeclarations"])?;
                continue;
            }
            // One of several in an item cannot be taken out alone.
            if !only_one && self.rules.hosted_tools == HostedTools::Strip {
                return Err(AskError::HostedTool { at: at.to_string(), kind: name.clone() });
            }
            self.hosted(name, None, ToolPlace::Tools(index, None), at)?;
        }
        Ok(())
    }

    fn declaration(
        &mut self,
        function: &Json,
        place: ToolPlace,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let members = self.either(function, at, FUNCTION)?;
        let schema = members.given("parametersJsonSchema").or_else(|| members.given("parameters"));
        let tool = OfferedTool {
            name: members.text("name", at)?.to_owned(),
            description: members.maybe_text("description", at)?.map(str::to_owned),
            schema: schema.cloned().unwrap_or_default(),
            form: OfferedForm::Function,
            place,
        };
        self.offer(tool, at)
    }

    fn tool_config(&mut self, config: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let known =
            &["functionCallingConfig", "includeServerSideToolInvocations", "retrievalConfig"];
        let members = self.closed(config, at, known)?;
        let server = "includeServerSideToolInvocations";
        if given(members, server).is_some_and(|value| *value != Json::Bool(false)) {
            self.provider_ran(server, &at.member(server))?;
        }
        let Some(calling) = given(members, "functionCallingConfig") else { return Ok(()) };
        let at = at.member("functionCallingConfig");
        let calling = self.closed(calling, &at, &["allowedFunctionNames", "mode"])?;
        let names = self.allowed_names(calling, &at)?;
        let mode = maybe_text(calling, "mode", &at)?.map(str::to_ascii_lowercase);
        self.ask.tool_choice = match names.as_slice() {
            [] => mode,
            [only] => Some(only.clone()),
            _several => Some("allowed_tools".to_owned()),
        };
        Ok(())
    }

    fn allowed_names(
        &self,
        calling: &ObjectMembers,
        at: &RequestPath<'_>,
    ) -> AskResult<Vec<String>> {
        let at = at.member("allowedFunctionNames");
        let names = given(calling, "allowedFunctionNames").map(|names| list(names, &at));
        let names = names.transpose()?.into_iter().flatten().enumerate();
        names.map(|(index, name)| Ok(text(name, &at.item(index))?.to_owned())).collect()
    }

    fn generation(&mut self, config: &Json, at: &RequestPath<'_>) -> AskResult<()> {
        let members = self.closed(config, at, GENERATION)?;
        let count = value_of(members, "candidateCount");
        if *count != Json::Null && *count != Json::Int(1) {
            return Err(AskError::Choices(at.member("candidateCount").to_string()));
        }
        let at_kinds = at.member("responseModalities");
        let kinds = given(members, "responseModalities").map(|kinds| list(kinds, &at_kinds));
        for (index, kind) in kinds.transpose()?.into_iter().flatten().enumerate() {
            let at = at_kinds.item(index);
            let kind = text(kind, &at)?;
            if kind != "TEXT" {
                return Err(at.content(kind));
            }
        }
        self.bound(members, &["maxOutputTokens"])
    }
}
