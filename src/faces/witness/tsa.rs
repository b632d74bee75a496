//! Requests to a time stamping authority over HTTP (RFC 3161 §3.4), and the checks of its answers.

use http::{Method, StatusCode};

use super::Remote;
use crate::clock::{Clock, Entropy, random16};
use crate::crypto::note::Checkpoint;
use crate::crypto::tsp::{self, ExpectedResponse, RESPONSE_BYTES_MAX, Stamp};
use crate::domain::digest::Digest;

/// Why there is no stamp. The log goes on without one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The address or the authorities are wrong.
    #[error("time stamping authority: {0}")]
    Settings(String),
    /// The authority did not answer in time.
    #[error("the time stamping authority cannot be reached: {0}")]
    Unreachable(String),
    /// It answered with another status or another media type.
    #[error("the time stamping authority answered {status} with `{kind}`")]
    Refused {
        /// The status.
        status: u16,
        /// The media type.
        kind: String,
    },
    /// What it answered does not hold.
    #[error(transparent)]
    Fault(#[from] tsp::Fault),
    /// Its time is not ours.
    #[error("the time stamping authority's clock is {0} ms from ours")]
    Skew(i64),
}

/// A stamp that was verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamped {
    /// The response (`TimeStampResp`), as `openssl ts -verify -in` reads it.
    pub response: Vec<u8>,
    /// The verified stamp.
    pub stamp: Stamp,
}

/// A time stamping authority at an address.
#[derive(Debug)]
pub struct Tsa {
    remote: Remote,
    authorities: Vec<Vec<u8>>,
    skew_millis: i64,
}

impl Tsa {
    /// An authority at this URL, with these root certificates (DER). `ca`: PEM authorities for
    /// `https` instead of the public ones. `skew_millis`: how far its clock may be from ours.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn new(
        url: &str,
        authorities: Vec<Vec<u8>>,
        ca: Option<&[u8]>,
        skew_millis: i64,
    ) -> Result<Self, Error> {
        if authorities.is_empty() {
            return Err(Error::Settings("no certificate to trust".into()));
        }
        let remote = Remote::new(url, ca).map_err(|error| Error::Settings(error.to_string()))?;
        Ok(Self { remote, authorities, skew_millis })
    }

    /// A stamp over the three lines of this checkpoint, verified as a later verifier will.
    ///
    /// # Errors
    /// As [`Error`] says.
    pub async fn stamp(
        &self,
        checkpoint: &Checkpoint,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Stamped, Error> {
        let imprint = Digest::of(&[checkpoint.body().as_bytes()]);
        let nonce = random16(entropy);
        let request = tsp::request(&imprint, &nonce)?;
        let kind = Some("application/timestamp-query");
        let answer = self.remote.ask(Method::POST, "", kind, request, RESPONSE_BYTES_MAX);
        let answer = answer.await.map_err(|error| Error::Unreachable(error.to_string()))?;
        let kind = answer.kind.split(';').next().unwrap_or_default().trim();
        if answer.status != StatusCode::OK
            || !kind.eq_ignore_ascii_case("application/timestamp-reply")
        {
            let kind = answer.kind.chars().filter(|c| !c.is_control()).take(100).collect();
            return Err(Error::Refused { status: answer.status.as_u16(), kind });
        }
        let response = answer.body.to_vec();
        let expected = ExpectedResponse { imprint: &imprint, nonce: Some(&nonce) };
        let stamp = tsp::verify(&response, expected, &self.authorities)?;
        let offset_ms = stamp.millis.saturating_sub(clock.now().millis());
        let allowed = self.skew_millis.saturating_add(stamp.accuracy_millis);
        if offset_ms.saturating_abs() > allowed {
            return Err(Error::Skew(offset_ms));
        }
        Ok(Stamped { response, stamp })
    }
}
