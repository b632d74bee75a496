//! Prepares a request that an agent makes in a dialect of models: its own bytes, changed only where
//! the gate must change them.

use std::sync::Arc;

use hyper::body::Bytes;

use super::{Model, PreparedResource, UpstreamRequest};
use crate::catalog::llm::ask::{self, Ask, AskError, AskReading, AskRules, DefinitionMatch, Edits};
use crate::catalog::llm::framing::StreamFraming;
use crate::catalog::model::ModelFace;
use crate::domain::call::{DialectRequest, ToolCall};
use crate::domain::decision::LayerReason;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::digest::Digest;
use crate::domain::effect::{AskFacts, Effect, ModelAsk, ModelInstruction, ModelTool};
use crate::domain::sent::DialectReading;
use crate::limits::Spend;

/// A request that is written for each upstream and waits for its permit. It holds no secrets.
#[derive(Debug)]
pub(super) struct PreparedAsk {
    /// What each upstream would be asked, in order.
    pub requests: Vec<UpstreamRequest>,
    pub dialect: Dialect,
    pub operation: Operation,
    /// Whether the answer comes in pieces.
    pub stream: bool,
    /// How these leave.
    pub framing: StreamFraming,
    /// The agent asked for the usage of a stream itself.
    pub wants_usage: bool,
    /// Tools that the provider may run, as they were offered.
    pub hosted: Vec<String>,
    /// The most tokens that the answer may have.
    pub output_tokens: u64,
    /// The tokens that the request is taken for until the provider has counted them.
    pub input_tokens: u64,
}

/// What was read of the arguments of this call by these rules: when it was admitted, or now, if the
/// rules have changed since.
pub(super) fn reading(
    call: &ToolCall,
    request: &DialectRequest,
    rules: &AskRules,
) -> Arc<AskReading> {
    let admitted = request.reading.as_ref().and_then(DialectReading::get::<AskReading>);
    let fits = |reading: &Arc<AskReading>| reading.is_of(call.args(), rules);
    admitted.filter(fits).unwrap_or_else(|| {
        Arc::new(AskReading::of((request.dialect, request.operation), call.sent_json(), rules))
    })
}

impl Model {
    pub(super) fn prepare_dialect(
        &self,
        call: &ToolCall,
        request: &DialectRequest,
    ) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let refuse = |detail: &str, message: String| {
            vec![LayerReason::effect_refused("tool.model", detail, message)]
        };
        let face = self.face.as_ref().filter(|face| face.speaks(request.dialect));
        let face = face.ok_or_else(|| {
            let message = format!("the tool takes no requests in `{}`", request.dialect.as_str());
            refuse("model.dialect", message)
        })?;
        let worded = |error: &AskError| refuse(error.detail(), error.to_string());
        let (dialect, operation) = (request.dialect, request.operation);
        let reading = reading(call, request, &face.rules);
        let asked = reading.asked().map_err(worded)?;
        let output_tokens = self.bound_of(asked);
        let only = request.facts.upstream.as_deref();
        let requests = self.bodies(asked, call.sent(), (output_tokens, only));
        let requests = requests.map_err(|error| worded(&error))?;
        if requests.is_empty() {
            let model = &asked.model;
            return Err(match only {
                Some(only) => {
                    let message = format!(
                        "upstream `{only}`, which remembers what the request refers to, does not serve model `{model}`"
                    );
                    refuse("model.remote_state", message)
                }
                None => {
                    refuse("model.unknown", format!("model `{model}` is not one of the binding's"))
                }
            });
        }
        let input_tokens = self.input_tokens_of(asked);
        let facts = AskFacts {
            instructions: instructions(asked, &request.facts),
            loose_bytes: request.facts.loose_bytes,
            offered: offered(asked, &request.facts),
            ..AskFacts::default()
        };
        let betas = betas(face, request);
        let effect = self.effect_of(asked, &requests, (output_tokens, facts, betas));
        let ready = PreparedAsk {
            requests,
            dialect,
            operation,
            stream: asked.stream && operation == Operation::Generate,
            framing: StreamFraming::of(dialect, call.args()),
            wants_usage: asked.wants_usage,
            hosted: asked.hosted(),
            output_tokens,
            input_tokens,
        };
        Ok((effect, Box::new(ready)))
    }

    /// The request for each upstream that knows the model in this dialect. `only`: the one upstream
    /// that remembers what the request refers to.
    fn bodies(
        &self,
        asked: &Ask,
        sent: &[u8],
        (output_tokens, only): (u64, Option<&str>),
    ) -> Result<Vec<UpstreamRequest>, AskError> {
        let mut requests = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            let speaks = place.api.dialect() == Some(asked.dialect)
                && only.is_none_or(|only| place.name == only);
            let Some(model) = place.models.get(&asked.model).filter(|_| speaks) else { continue };
            let generates = asked.operation == Operation::Generate;
            let form = ask::form(asked.dialect);
            let given = asked.output_tokens.map(|(member, _)| member);
            let member = given.or(form.bound).unwrap_or(place.output_tokens_field);
            // What the path says is in no body.
            let mut strip_members = asked.edits.strip_members.clone();
            strip_members.extend(form.path_members);
            let is_other = *model != asked.model && !form.path_members.contains(&"model");
            let edits = Edits {
                model: is_other.then(|| model.clone()),
                strip_members,
                include_usage: generates && asked.stream && !asked.wants_usage,
                output_tokens: generates.then_some((member, output_tokens)),
                ..asked.edits.clone()
            };
            let body = ask::upstream_body(sent, asked.dialect, &edits)?;
            let (model, body) = (model.clone(), Bytes::from(body));
            requests.push(UpstreamRequest { upstream: index, model, body });
        }
        Ok(requests)
    }

    /// The most tokens that the answer may have.
    fn bound_of(&self, asked: &Ask) -> u64 {
        let given = asked.output_tokens.map_or(self.output_tokens_max, |(_, tokens)| tokens);
        given.min(self.output_tokens_max)
    }

    /// The input tokens that the request is taken for.
    fn input_tokens_of(&self, asked: &Ask) -> u64 {
        self.reserve.input_tokens(asked.text_bytes, asked.images)
    }

    /// The most that a request may take from its run's budgets.
    pub(super) fn most_of_ask(&self, asked: &Ask) -> Spend {
        match asked.operation {
            Operation::Generate => self.bound(self.bound_of(asked), self.input_tokens_of(asked)),
            Operation::CountTokens => Spend { tokens: 0, cost_micro_usd: Some(0) },
        }
    }

    fn effect_of(
        &self,
        asked: &Ask,
        requests: &[UpstreamRequest],
        (output_tokens, facts, betas): (u64, AskFacts, Vec<String>),
    ) -> Effect {
        let upstreams = requests
            .iter()
            .filter_map(|request| Some(self.places.get(request.upstream)?.facts(&request.model)));
        let longest = requests.iter().map(|request| request.body.len()).max().unwrap_or_default();
        Effect::Model {
            model: asked.model.clone(),
            upstreams: upstreams.collect(),
            messages: asked.messages,
            new_messages: asked.messages,
            messages_cut: 0,
            images: asked.images,
            output_tokens_max: output_tokens,
            functions: asked.offered.iter().map(|tool| tool.name.clone()).collect(),
            body_bytes: u64::try_from(longest).unwrap_or(u64::MAX),
            request: Some(Box::new(ModelAsk {
                dialect: asked.dialect.as_str().to_owned(),
                operation: asked.operation.as_str().to_owned(),
                stream: asked.stream,
                files: asked.files,
                betas,
                instructions: facts.instructions,
                loose_bytes: facts.loose_bytes,
                offered: facts.offered,
                tool_choice: asked.tool_choice.clone(),
            })),
        }
    }
}

/// The features of the provider that the request switches on, as they are sent.
fn betas(face: &ModelFace, request: &DialectRequest) -> Vec<String> {
    let of = |name: &str| {
        let named = request.headers.iter().filter(|(sent, _)| sent == name);
        named.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    let mut betas = face.betas_of(&of("anthropic-beta"));
    let others = of("openai-beta").into_iter().flat_map(|value| value.split(','));
    betas.extend(others.map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned));
    betas
}

/// The instructions as they are read here. The gate compared them with the manifest: what it found
/// counts for the same text at the same place only.
fn instructions(asked: &Ask, known: &AskFacts) -> Vec<ModelInstruction> {
    let known = known.instructions.iter().map(Some).chain(std::iter::repeat(None));
    let read = asked.instructions.iter().zip(known).map(|(block, known)| {
        let place = block.place.as_str().to_owned();
        let sha256 = Digest::of(&[block.text.as_bytes()]).hex();
        let known = known.filter(|known| known.place == place && known.sha256 == sha256);
        let name = known.and_then(|known| known.name.clone());
        let scope = known.and_then(|known| known.scope.clone());
        ModelInstruction { name, place, scope, sha256 }
    });
    read.collect()
}

/// The offered tools as they are read here, in the same way: one that the gate did not compare is
/// unknown.
fn offered(asked: &Ask, known: &AskFacts) -> Vec<ModelTool> {
    let known = known.offered.iter().map(Some).chain(std::iter::repeat(None));
    let read = asked.offered.iter().zip(known).map(|(tool, known)| {
        let same = known.filter(|known| known.name == tool.name).cloned();
        same.unwrap_or_else(|| ModelTool {
            definition: DefinitionMatch::Unpinned.as_str().to_owned(),
            kind: "unknown".to_owned(),
            name: tool.name.clone(),
            tool: None,
        })
    });
    read.collect()
}
