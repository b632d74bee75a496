//! Converts between the protocol's messages and the road's values. It decides nothing.

use std::pin::Pin;

use tokio_stream::Stream;

use super::agent_api::{self, ResultForm, length};
use super::pb;
use super::problem::Problem;
use crate::domain::code::Code;
use crate::enforce::{
    Backend, Challenge, Observed, OpenedRun, Opening, PostureReport, Released, ToolView,
};
use crate::ledger::permit::Receipt;

/// Bytes of one piece of a streamed result.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// The pieces of one result, in order.
pub(super) type Pieces =
    Pin<Box<dyn Stream<Item = Result<pb::ReadResultResponse, tonic::Status>> + Send>>;

pub(super) fn receipt(receipt: &Receipt) -> pb::Receipt {
    pb::Receipt {
        origin: receipt.origin.to_string(),
        chain: receipt.chain.to_string(),
        seq: receipt.seq,
        hash: receipt.leaf.hex(),
        run_seq: receipt.run_seq,
        binding: receipt.binding.map(|b| b.as_str().to_owned()).unwrap_or_default(),
    }
}

/// The challenge as the agent receives it.
pub(super) fn challenge(challenge: Challenge) -> pb::ChallengePostureResponse {
    pb::ChallengePostureResponse {
        nonce: challenge.nonce,
        isolation: challenge.isolation.to_owned(),
        operators: challenge.operators.map(|at| at.to_string()).unwrap_or_default(),
        addresses: challenge.addresses.iter().map(ToString::to_string).collect(),
        paths: challenge.paths.iter().map(|path| path.display().to_string()).collect(),
        backends: challenge.backends.into_iter().map(backend).collect(),
    }
}

fn backend(backend: Backend) -> pb::PostureBackend {
    let Backend { name, address, reached } = backend;
    let address = address.map(|at| at.to_string()).unwrap_or_default();
    pb::PostureBackend { name, address, reached }
}

/// The findings of an isolation test, if the report is within its limits.
pub(super) fn posture(request: pb::ReportPostureRequest) -> Result<PostureReport, Box<Problem>> {
    let pb::ReportPostureRequest { nonce, doctor, probes } = request;
    let texts = |probe: pb::PostureProbe| {
        let pb::PostureProbe { probe, target, outcome, detail } = probe;
        [probe, target, outcome, detail]
    };
    agent_api::posture(nonce, doctor, probes.into_iter().map(texts).collect())
}

/// The answer to a posture report.
pub(super) fn observed(observed: Observed) -> pb::ReportPostureResponse {
    let Observed { reasons, receipt: source } = observed;
    let receipt = Some(receipt(&source));
    pb::ReportPostureResponse { passed: reasons.is_empty(), reasons, receipt }
}

/// What the agent claims, if it is of a bearable size.
pub(super) fn opening(
    request: pb::OpenRunRequest,
    traceparent: Option<String>,
) -> Result<Opening, Box<Problem>> {
    agent_api::bounded(Opening {
        parent: agent_api::parent(request.parent_run, request.parent_token, request.delegate)?,
        model: request.model,
        instructions: request.instructions_sha256,
        tools: request.tools,
        mode: request.mode,
        labels: request.labels.into_iter().collect(),
        traceparent,
        incognito: request.incognito,
        replay: request.replay,
        recording: request.recording,
        fork_at: request.fork_at,
    })
}

pub(super) fn opened(opened: OpenedRun) -> pb::OpenRunResponse {
    pb::OpenRunResponse {
        run_id: opened.run.to_string(),
        run_token: opened.token,
        expires: opened.expires.map(|at| at.to_string()).unwrap_or_default(),
        binding: opened.binding.to_owned(),
        receipt: Some(receipt(&opened.receipt)),
        seed: opened.determined.map(|(seed, _)| seed.to_string()).unwrap_or_default(),
        clock: opened.determined.map(|(_, clock)| clock.to_string()).unwrap_or_default(),
    }
}

pub(super) fn tool(view: ToolView) -> pb::Tool {
    pb::Tool {
        name: view.name,
        description: view.description,
        input_schema: view.input_schema,
        tier: view.tier.to_owned(),
        read_only: view.read_only,
        definition: view.definition,
    }
}

/// A released result as both `ExecuteTool` and `GetCall` give it.
pub(super) fn released(released: Released) -> pb::ExecuteToolResponse {
    let call_id = released.call().as_str().to_owned();
    let receipt = Some(receipt(released.receipt()));
    let outcome_pending = released.is_pending();
    let status = released.status().to_owned();
    let body = Some(body(&call_id, released.into_result()));
    let result = Some(pb::Result { body });
    pb::ExecuteToolResponse { call_id, status, result, receipt, outcome_pending }
}

fn body(call_id: &str, result: Vec<u8>) -> pb::result::Body {
    match ResultForm::of(result) {
        ResultForm::Inline(result) => pb::result::Body::Inline(result),
        ResultForm::Reference(size, sha256) => {
            pb::result::Body::Ref(pb::ResultRef { call_id: call_id.to_owned(), size, sha256 })
        }
    }
}

/// The result from `offset` on, in pieces; an empty result is one empty piece.
pub(super) fn pieces(released: Released, offset: u64) -> Result<Pieces, Box<Problem>> {
    let last = receipt(released.receipt());
    cut(released.into_result(), last, offset)
}

fn cut(result: Vec<u8>, last: pb::Receipt, offset: u64) -> Result<Pieces, Box<Problem>> {
    let size = length(&result);
    if offset > size {
        let message = format!("offset `{offset}` is beyond the end of the result, `{size}`");
        return Err(Box::new(Problem::new(Code::RequestMalformed, "result.offset", message)));
    }
    let mut next = usize::try_from(offset).ok();
    let stream = std::iter::from_fn(move || {
        let start = next?;
        let rest = result.get(start..)?;
        let data = rest.get(..PIECE_BYTES).unwrap_or(rest).to_vec();
        let ends = data.len() == rest.len();
        next = (!ends).then_some(start + data.len());
        let offset = u64::try_from(start).unwrap_or(u64::MAX);
        let receipt = ends.then(|| last.clone());
        Some(Ok(pb::ReadResultResponse { data, offset, size, receipt }))
    });
    Ok(Box::pin(tokio_stream::iter(stream)))
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    fn of(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| u8::try_from(i % 251).unwrap()).collect()
    }

    async fn read(bytes: usize, offset: u64) -> Vec<pb::ReadResultResponse> {
        let pieces = cut(of(bytes), pb::Receipt::default(), offset).unwrap();
        pieces.map(Result::unwrap).collect().await
    }

    #[tokio::test]
    async fn the_pieces_of_a_result_join_to_the_result() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let pieces = read(bytes, 0).await;
            let joined: Vec<u8> = pieces.iter().flat_map(|p| p.data.clone()).collect();
            assert_eq!(joined, of(bytes));
            let receipts: Vec<_> = pieces.iter().map(|p| p.receipt.is_some()).collect();
            assert_eq!(receipts.iter().filter(|there| **there).count(), 1);
            assert!(receipts.last().unwrap());
        }
    }

    #[tokio::test]
    async fn reading_goes_on_from_an_offset_and_not_beyond_the_end() {
        let tail = read(10, 7).await;
        assert_eq!((tail[0].offset, tail[0].data.as_slice()), (7, &[7, 8, 9][..]));
        let beyond = cut(of(10), pb::Receipt::default(), 11).err().unwrap();
        assert_eq!(beyond.detail, "result.offset");
    }
}
