//! Streamed answers of models.

use wicketgate::catalog::llm::answer::{
    AnswerError, AnswerRules, AnsweredCall, Assembled, DENIED_NAME, DenialForm, DeniedCall, Frame,
    Step, StreamReader, stream,
};
use wicketgate::catalog::llm::framing::{FrameReader, FrameWriter, StreamFraming};
use wicketgate::catalog::llm::sse::{Event, Reader};
use wicketgate::domain::dialect::Dialect;
use wicketgate::domain::json::Json;

const EVENT_BYTES_MAX: usize = 1 << 20;

/// What left of a stream, and the calls in it.
type Left = (Vec<u8>, Vec<AnsweredCall>, Assembled);

/// Events are the same however their bytes are cut, and read back as they are written.
pub fn sse(bytes: &[u8]) {
    let whole = Reader::new(EVENT_BYTES_MAX).push(bytes).unwrap();
    for size in [1, 7] {
        let mut reader = Reader::new(EVENT_BYTES_MAX);
        let cut: Vec<Event> =
            bytes.chunks(size).flat_map(|piece| reader.push(piece).unwrap()).collect();
        assert_eq!(cut, whole);
    }
    for event in whole {
        let frame = Frame { event: event.name.clone(), data: event.data.clone() };
        let again = Reader::new(2 * EVENT_BYTES_MAX).push(&frame.encode()).unwrap();
        assert_eq!(again, [Event { id: None, ..event }]);
    }
}

pub fn chat(bytes: &[u8]) {
    holds(Dialect::Chat, bytes);
}

pub fn gemini(bytes: &[u8]) {
    holds(Dialect::Gemini, bytes);
}

pub fn messages(bytes: &[u8]) {
    holds(Dialect::Messages, bytes);
}

pub fn ollama(bytes: &[u8]) {
    holds(Dialect::Ollama, bytes);
}

pub fn responses(bytes: &[u8]) {
    holds(Dialect::Responses, bytes);
}

/// An answer is the same however it is cut. What leaves is read like what came, without the calls that were denied.
fn holds(dialect: Dialect, bytes: &[u8]) {
    let whole = read(dialect, &[bytes], None);
    for size in [1, 7] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(read(dialect, &pieces, None), whole);
    }
    let Ok((left, calls, assembled)) = whole else { return };
    let (_, same_calls, same) = read(dialect, &[&left], None).unwrap();
    assert_eq!((same_calls, same.json, same.stop), (calls, assembled.json, assembled.stop));
    let (left, ..) = read(dialect, &[bytes], Some(DenialForm::Call)).unwrap();
    let (_, calls, _) = read(dialect, &[&left], None).unwrap();
    assert!(calls.iter().all(|call| call.name == DENIED_NAME), "a denied call left");
    let (left, ..) = read(dialect, &[bytes], Some(DenialForm::Text)).unwrap();
    let (_, calls, _) = read(dialect, &[&left], None).unwrap();
    assert!(calls.is_empty(), "a denied call left");
}

pub fn read(
    dialect: Dialect,
    pieces: &[&[u8]],
    denied: Option<DenialForm>,
) -> Result<Left, AnswerError> {
    let mut events = FrameReader::of(dialect, EVENT_BYTES_MAX);
    let mut reader = stream(dialect, AnswerRules::default());
    let mut writer = FrameWriter::new(StreamFraming::of(dialect, &Json::Null));
    let (mut left, mut calls) = (Vec::new(), Vec::new());
    for piece in pieces {
        for event in events.push(piece).unwrap() {
            for step in reader.event(&event)? {
                match step {
                    Step::Frame { frame, .. } => left.extend(writer.write(&[frame])),
                    Step::Call(call) => {
                        left.extend(writer.write(&decide(&mut reader, &call, denied)?));
                        calls.push(call);
                    }
                    Step::Hold => {}
                }
            }
        }
    }
    let (end, assembled) = reader.finish()?;
    left.extend(writer.end(&end));
    Ok((left, calls, assembled))
}

fn decide(
    reader: &mut StreamReader,
    call: &AnsweredCall,
    denied: Option<DenialForm>,
) -> Result<Vec<Frame>, AnswerError> {
    let Some(form) = denied else { return reader.allow(call.index) };
    let denied = DeniedCall {
        form,
        tool: call.name.clone(),
        code: "policy.denied".into(),
        rule: "r".into(),
        message: "no".into(),
        call: "c".into(),
    };
    reader.deny(call.index, &denied)
}
