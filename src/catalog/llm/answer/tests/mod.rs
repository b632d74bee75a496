//! Answers of all dialects, whole and cut anywhere.

#![allow(clippy::string_slice, reason = "tests may stop at the first surprise")]

mod chat;
mod cuts;
mod errors;
mod gemini;
mod messages;
mod ollama;
mod responses;

use super::*;
use crate::llm::framing::{FrameReader, FrameWriter, StreamFraming};
use crate::llm::sse::Reader;

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
enum Decision {
    Allow,
    With(&'static str),
    Call,
    Text,
}

/// What left of a stream.
#[derive(Clone, PartialEq, Debug)]
struct Run {
    /// The bytes before the end, and the bytes of the end.
    out: String,
    end: String,
    calls: Vec<AnsweredCall>,
    /// The texts of the frames before the end.
    text: String,
    assembled: Assembled,
}

impl Run {
    /// The assembled answer.
    fn json(&self) -> Json {
        Json::parse(&self.assembled.json, &LIMITS).unwrap()
    }

    /// The data of all that left.
    fn data(&self) -> Vec<String> {
        let out = self.out.clone() + &self.end;
        let events = Reader::new(1 << 20).push(out.as_bytes()).unwrap();
        events.into_iter().map(|event| event.data).collect()
    }

    /// The same as values.
    fn values(&self) -> Vec<Json> {
        self.data()
            .iter()
            .filter(|data| *data != "[DONE]")
            .map(|data| parse(data).unwrap())
            .collect()
    }

    fn usage(&self) -> TokenUsage {
        self.assembled.usage.unwrap()
    }
}

fn denied(form: DenialForm, call: &AnsweredCall) -> DeniedCall {
    DeniedCall {
        form,
        tool: call.name.clone(),
        code: "policy.denied".into(),
        rule: "no_shell".into(),
        message: "Denied by rule no_shell.".into(),
        call: format!("c-{}", call.index),
    }
}

/// What the denied call of this number says.
fn denial(tool: &str, number: usize) -> String {
    let call = AnsweredCall {
        index: number,
        id: String::new(),
        name: tool.into(),
        arguments: String::new(),
        custom: false,
    };
    denied(DenialForm::Call, &call).arguments()
}

/// Reads a stream in these pieces. `decisions` has one for each call; those behind it are allowed.
fn read(
    dialect: Dialect,
    rules: &AnswerRules,
    pieces: &[&[u8]],
    decisions: &[Decision],
) -> Result<Run, AnswerError> {
    let mut events = FrameReader::of(dialect, 1 << 20);
    let framing = StreamFraming::of(dialect, &Json::Null);
    let mut writer = FrameWriter::new(framing);
    let mut reader = stream(dialect, rules.clone());
    let (mut out, mut texts, mut calls) = (String::new(), String::new(), Vec::new());
    let mut send = |frames: Vec<Frame>| {
        out.push_str(std::str::from_utf8(&writer.write(&frames)).unwrap());
    };
    for piece in pieces {
        for event in events.push(piece).unwrap() {
            for step in reader.event(&event)? {
                match step {
                    Step::Frame { frame, texts: pieces } => {
                        texts.extend(pieces.into_iter().map(|piece| piece.text));
                        send(vec![frame]);
                    }
                    Step::Call(call) => {
                        let decision = decisions.get(call.index).unwrap_or(&Decision::Allow);
                        send(match decision {
                            Decision::Allow => reader.allow(call.index)?,
                            Decision::With(arguments) => {
                                reader.allow_with(call.index, arguments)?
                            }
                            Decision::Call => {
                                reader.deny(call.index, &denied(DenialForm::Call, &call))?
                            }
                            Decision::Text => {
                                reader.deny(call.index, &denied(DenialForm::Text, &call))?
                            }
                        });
                        calls.push(call);
                    }
                    Step::Hold => {}
                }
            }
        }
    }
    let (frames, assembled) = reader.finish()?;
    let end = String::from_utf8(FrameWriter::new(framing).end(&frames)).unwrap();
    Ok(Run { out, end, calls, text: texts, assembled })
}

fn run(dialect: Dialect, text: &str, decisions: &[Decision]) -> Run {
    read(dialect, &AnswerRules::default(), &[text.as_bytes()], decisions).unwrap()
}

fn failure(dialect: Dialect, text: &str) -> AnswerError {
    read(dialect, &AnswerRules::default(), &[text.as_bytes()], &[]).unwrap_err()
}

/// A whole answer after these decisions.
fn whole_run(dialect: Dialect, body: &str, decisions: &[Decision]) -> Assembled {
    let mut answer = whole(dialect, body.as_bytes(), AnswerRules::default()).unwrap();
    for call in answer.calls().to_vec() {
        match decisions.get(call.index).unwrap_or(&Decision::Allow) {
            Decision::Allow => answer.allow(call.index),
            Decision::With(arguments) => answer.allow_with(call.index, arguments),
            Decision::Call => answer.deny(call.index, &denied(DenialForm::Call, &call)),
            Decision::Text => answer.deny(call.index, &denied(DenialForm::Text, &call)),
        }
        .unwrap();
    }
    answer.finish().unwrap()
}

fn json_text(assembled: &Assembled) -> &str {
    std::str::from_utf8(&assembled.json).unwrap()
}

fn hosted(tools: &[&str]) -> AnswerRules {
    let hosted_allowed = tools.iter().map(|tool| (*tool).to_owned()).collect();
    AnswerRules { hosted_allowed, ..AnswerRules::default() }
}
