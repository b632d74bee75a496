//! An archive in an object store that speaks S3. With object lock, its objects cannot be changed
//! for a time.
//!
//! Requests are signed without network access (`rusty-s3`) and sent through the one outbound
//! connector. A full tile is written on the condition that no object exists; every request carries
//! its SHA-256, so the store itself rejects bytes that were damaged in transit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use rusty_s3::actions::{DeleteObject, GetObject, PutObject};
use rusty_s3::signing::sign;
use rusty_s3::{Bucket as Signer, Credentials, S3Action, UrlStyle};
use url::Url;

use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;
use crate::clock::Clock;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::ledger::archive::Error;
use crate::ledger::archive::storage::{ArchiveStore, Keep};
use crate::ledger::fuse::Fuse;
use crate::record::debug_by;
use crate::tool::net::{Client, SendError, System};

/// How long one request may take, including its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a signature holds.
const SIGNED_FOR: Duration = Duration::from_secs(300);
/// Bytes of one object: a bundle of 256 entries of 65,535 bytes, and more.
const OBJECT_BYTES_MAX: usize = 32 << 20;
/// How many bytes of a refusal are read, and how many of its message are shown.
const WORDS_MAX: usize = 200;

/// Why an object store is unusable, or failed a request.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The text of a place is wrong.
    #[error("`{text}`: {why}")]
    Place {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The address cannot be used.
    #[error("the object store `{endpoint}`: {why}")]
    Endpoint {
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An invalid HTTP request.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// No connection.
    #[error("the object store cannot be reached: {}", causes(.0))]
    Unreachable(SendError),
    /// The connection broke, or the answer is too long.
    #[error("the answer cannot be read: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// No answer.
    #[error("the object store does not answer in time")]
    Slow,
    /// A refusal by the store, in its own words.
    #[error("the object store answered {status}{}", code_and_message(code, message))]
    Refused {
        /// The status.
        status: u16,
        /// The store's code; empty if it gave none.
        code: String,
        /// The store's message; empty if it gave none.
        message: String,
    },
}

fn code_and_message(code: &str, message: &str) -> String {
    match (code, message) {
        ("", _) => String::new(),
        (code, "") => format!(", {code}"),
        (code, message) => format!(", {code}: {message}"),
    }
}

/// Where in an object store: `s3://bucket/prefix`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketLocation {
    bucket: String,
    /// Empty, or with a `/` at its end.
    prefix: String,
}

impl BucketLocation {
    /// Reads `s3://bucket` or `s3://bucket/a/prefix`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BucketError> {
        let invalid = |why| BucketError::Place { text: text.to_owned(), why };
        let rest =
            text.strip_prefix("s3://").ok_or_else(|| invalid("it is not `s3://bucket/prefix`"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let named =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(named) {
            return Err(invalid("a bucket's name has 3 to 63 of a-z, 0-9, `-` and `.`"));
        }
        let prefix = prefix.trim_end_matches('/');
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let step = |s: &str| !s.is_empty() && s != "." && s != ".." && s.bytes().all(plain);
        if !prefix.is_empty() && !prefix.split('/').all(step) {
            return Err(invalid(
                "a prefix has letters, digits, `-`, `_` and `.` between its slashes",
            ));
        }
        let end = if prefix.is_empty() { "" } else { "/" };
        Ok(Self { bucket: bucket.to_owned(), prefix: format!("{prefix}{end}") })
    }

    /// The archive of this chain in it.
    pub fn of_chain(&self, chain: &ChainId) -> Self {
        self.below(&chain.to_string())
    }

    fn below(&self, step: &str) -> Self {
        Self { bucket: self.bucket.clone(), prefix: format!("{}{step}/", self.prefix) }
    }
}

impl std::fmt::Display for BucketLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix.trim_end_matches('/'))
    }
}

/// How to reach a store, and under which identity.
pub struct Access {
    /// Its address, `http` or `https`; without one, Amazon's address for the region.
    pub endpoint: Option<String>,
    /// Its region.
    pub region: String,
    /// Id of the key that signs requests.
    pub key: String,
    /// The key's secret.
    pub secret: String,
    /// The token of a temporary session.
    pub token: Option<String>,
    /// PEM authorities instead of the public ones.
    pub ca: Option<Vec<u8>>,
}

debug_by!(Access: endpoint);

/// For how long the store has to refuse changes to an object and its deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retain {
    /// Counted from the time of writing.
    pub term: Duration,
    /// With `COMPLIANCE` no account can shorten it; otherwise (`GOVERNANCE`) an account with a
    /// special right can.
    pub compliance: bool,
}

/// Objects below one place of a bucket.
#[derive(Clone)]
pub struct Bucket {
    place: BucketLocation,
    signer: Signer,
    credentials: Credentials,
    client: Client,
    clock: Arc<dyn Clock>,
    retain: Option<Retain>,
}

debug_by!(Bucket: place);

struct BucketResponse {
    status: StatusCode,
    body: Bytes,
}

impl Bucket {
    /// Opens the objects at a place. New objects stay for `retain`, besides the bucket's own rule.
    ///
    /// # Errors
    /// The address or the authority is unusable.
    pub fn open(
        place: BucketLocation,
        access: &Access,
        clock: Arc<dyn Clock>,
        retain: Option<Retain>,
    ) -> Result<Self, BucketError> {
        let amazon = || format!("https://s3.{}.amazonaws.com", access.region);
        let endpoint = access.endpoint.clone().unwrap_or_else(amazon);
        let invalid = |why| BucketError::Endpoint { endpoint: endpoint.clone(), why };
        let (origin, path) = Origin::parse(&endpoint).map_err(|e| invalid(e.into()))?;
        if path != "/" {
            return Err(invalid("its address has no path".into()));
        }
        let everywhere = ["0.0.0.0/0", "::/0"].map(Cidr::parse);
        let everywhere = everywhere.into_iter().collect::<Result<Vec<_>, _>>();
        let everywhere = everywhere.map_err(|e| invalid(e.into()))?;
        // WHY every address: the operator names the store, and many stores are in a private
        // network.
        let client = Client::new(&origin, &everywhere, access.ca.as_deref(), Arc::new(System));
        let client = client.map_err(|e| invalid(e.into()))?;
        let url = Url::parse(&endpoint).map_err(|e| invalid(e.into()))?;
        let signer = Signer::new(url, UrlStyle::Path, place.bucket.clone(), access.region.clone());
        let signer = signer.map_err(|e| invalid(e.into()))?;
        let (key, secret) = (access.key.clone(), access.secret.clone());
        let credentials = match &access.token {
            Some(token) => Credentials::new_with_token(key, secret, token.clone()),
            None => Credentials::new(key, secret),
        };
        Ok(Self { place, signer, credentials, client, clock, retain })
    }

    /// The same store, at another place of the same bucket.
    pub fn at(&self, place: BucketLocation) -> Self {
        Self { place, ..self.clone() }
    }

    /// Where it is.
    pub const fn place(&self) -> &BucketLocation {
        &self.place
    }

    /// The places directly below this one whose names are ids of chains.
    ///
    /// # Errors
    /// The store does not list them.
    pub async fn chains(&self) -> Result<Vec<BucketLocation>, Error> {
        let name = self.place.to_string();
        let fail = |why: BucketError| Error::File { name: name.clone(), why: why.to_string() };
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut query = vec![("delimiter", "/"), ("list-type", "2")];
            query.extend([("prefix", self.place.prefix.as_str())]);
            query.extend(next.as_deref().map(|token| ("continuation-token", token)));
            query.sort_unstable();
            let url = self.list(&query);
            let answer = self.ask(Method::GET, url, &[], Vec::new()).await.map_err(fail)?;
            if answer.status != StatusCode::OK {
                return Err(fail(refusal(&answer)));
            }
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            // WHY no XML reader: only names of 32 hex digits matter, which XML writes plainly.
            for prefix in between(&text, "<Prefix>", "</Prefix>") {
                let step =
                    prefix.strip_prefix(&self.place.prefix).and_then(|s| s.strip_suffix('/'));
                found.extend(
                    step.filter(|s| ChainId::parse(s).is_some()).map(|s| self.place.below(s)),
                );
            }
            let token =
                between(&text, "<NextContinuationToken>", "</NextContinuationToken>").next();
            let token = token.map(|t| t.replace("&amp;", "&"));
            if token.is_none() || token == next {
                return Ok(found);
            }
            next = token;
        }
    }

    fn list(&self, query: &[(&str, &str)]) -> Url {
        let (credentials, time) = (&self.credentials, self.clock.now().to_jiff());
        sign(
            &time,
            rusty_s3::Method::Get,
            self.signer.base_url().clone(),
            credentials.key(),
            credentials.secret(),
            credentials.token(),
            self.signer.region(),
            SIGNED_FOR.as_secs(),
            query.iter().copied(),
            std::iter::empty(),
        )
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.place.prefix)
    }

    fn failed(&self, name: &str, why: &BucketError) -> Error {
        Error::File { name: format!("{}/{name}", self.place), why: why.to_string() }
    }

    /// Sends one request and reads the whole answer. No message contains the URL, because it has a
    /// signature.
    async fn ask(
        &self,
        method: Method,
        url: Url,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<BucketResponse, BucketError> {
        let mut request = http::Request::builder().method(method).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let exchange = async {
            let sent = self.client.send(request, &Fuse::never()).await;
            let response = sent.map_err(BucketError::Unreachable)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, OBJECT_BYTES_MAX).collect().await;
            let body = body.map_err(BucketError::Answer)?.to_bytes();
            Ok(BucketResponse { status: head.status, body })
        };
        tokio::time::timeout(ANSWER_WITHIN, exchange).await.unwrap_or(Err(BucketError::Slow))
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BucketError> {
        let key = self.key(name);
        let action = GetObject::new(&self.signer, Some(&self.credentials), &key);
        let url = action.sign_with_time(SIGNED_FOR, &self.clock.now().to_jiff());
        let answer = self.ask(Method::GET, url, &[], Vec::new()).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body.to_vec())),
            // A missing bucket is another 404, and must not look like an empty archive.
            StatusCode::NOT_FOUND if store_error(&answer).0 == "NoSuchKey" => Ok(None),
            _ => Err(refusal(&answer)),
        }
    }

    /// Puts an object; with `new`, only if none exists.
    async fn write(
        &self,
        name: &str,
        bytes: &[u8],
        new: bool,
    ) -> Result<BucketResponse, BucketError> {
        let sum = STANDARD.encode(Digest::of(&[bytes]).as_bytes());
        let mut headers: Vec<(&'static str, String)> = vec![
            ("content-type", "application/octet-stream".into()),
            ("x-amz-checksum-sha256", sum),
            ("x-amz-sdk-checksum-algorithm", "SHA256".into()),
        ];
        if new {
            headers.push(("if-none-match", "*".into()));
        }
        if let Some(retain) = self.retain {
            let mode = if retain.compliance { "COMPLIANCE" } else { "GOVERNANCE" };
            headers.push(("x-amz-object-lock-mode", mode.into()));
            let until = self.clock.now().plus(retain.term).to_string();
            headers.push(("x-amz-object-lock-retain-until-date", until));
        }
        let key = self.key(name);
        let mut action = PutObject::new(&self.signer, Some(&self.credentials), &key);
        for (name, value) in &headers {
            action.headers_mut().insert(*name, value.clone());
        }
        let url = action.sign_with_time(SIGNED_FOR, &self.clock.now().to_jiff());
        self.ask(Method::PUT, url, &headers, bytes.to_vec()).await
    }

    /// Whether the object exists; an object with other bytes is an error.
    async fn same(&self, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        let there = self.read(name).await.map_err(|why| self.failed(name, &why))?;
        match there {
            Some(there) if there == bytes => Ok(true),
            Some(_) => Err(Error::Differs(name.to_owned())),
            None => Ok(false),
        }
    }
}

#[async_trait]
impl ArchiveStore for Bucket {
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(name).await.map_err(|why| self.failed(name, &why))
    }

    async fn put(&self, name: &str, bytes: &[u8], keep: Keep) -> Result<(), Error> {
        let fail = |why: BucketError| self.failed(name, &why);
        let forever = keep == Keep::Forever;
        let mut answer = self.write(name, bytes, forever).await.map_err(fail)?;
        if forever && answer.status == StatusCode::PRECONDITION_FAILED {
            // Another archiver was faster, or an earlier try succeeded and its answer was lost.
            return match self.same(name, bytes).await? {
                true => Ok(()),
                false => Err(fail(refusal(&answer))),
            };
        }
        if forever && answer.status == StatusCode::NOT_IMPLEMENTED {
            // The store does not support conditions: check first, then write.
            if self.same(name, bytes).await? {
                return Ok(());
            }
            answer = self.write(name, bytes, false).await.map_err(fail)?;
        }
        if answer.status.is_success() { Ok(()) } else { Err(fail(refusal(&answer))) }
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        let action = DeleteObject::new(&self.signer, Some(&self.credentials), &key);
        let url = action.sign_with_time(SIGNED_FOR, &self.clock.now().to_jiff());
        let answer = self.ask(Method::DELETE, url, &[], Vec::new()).await;
        let answer = answer.map_err(|why| self.failed(name, &why))?;
        // A locked object stays and does no harm. A bucket with versions only hides the object.
        let kept = answer.status == StatusCode::FORBIDDEN && self.retain.is_some();
        if answer.status.is_success() || answer.status == StatusCode::NOT_FOUND || kept {
            Ok(())
        } else {
            Err(self.failed(name, &refusal(&answer)))
        }
    }
}

/// The store's own code and message, if any.
fn store_error(answer: &BucketResponse) -> (String, String) {
    let text = String::from_utf8_lossy(&answer.body);
    let of = |from, to| {
        let found = between(&text, from, to).next().unwrap_or_default();
        found.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect::<String>()
    };
    (of("<Code>", "</Code>"), of("<Message>", "</Message>"))
}

fn refusal(answer: &BucketResponse) -> BucketError {
    let (code, message) = store_error(answer);
    BucketError::Refused { status: answer.status.as_u16(), code, message }
}

/// The texts between two marks.
fn between<'a>(text: &'a str, from: &'a str, to: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).filter_map(move |rest| rest.split_once(to).map(|(inner, _)| inner))
}

/// An error and its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_plain_prefix() {
        for (text, bucket, prefix) in [
            ("s3://logs", "logs", ""),
            ("s3://logs/", "logs", ""),
            ("s3://logs/a/b-1", "logs", "a/b-1/"),
            ("s3://logs/a/", "logs", "a/"),
        ] {
            let place = BucketLocation::parse(text).unwrap();
            assert_eq!((place.bucket.as_str(), place.prefix.as_str()), (bucket, prefix), "{text}");
        }
        for text in [
            "logs",
            "s3:/logs",
            "s3://",
            "s3://ab",
            "s3://Logs",
            "s3://logs//a",
            "s3://logs/../a",
            "s3://logs/a?b",
            "s3://logs/a b",
            "s3://logs/a:b",
            "s3://user@logs/a",
        ] {
            assert!(BucketLocation::parse(text).is_err(), "{text}");
        }
    }
}
