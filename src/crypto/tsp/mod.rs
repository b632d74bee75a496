//! RFC 3161 time stamps: an authority's statement that a hash existed at a time. Verified offline.
//!
//! A stamp is valid only if every part of it is understood and valid: the imprint, the signed
//! attributes, the certificate they name, its one purpose, and the path from it to a trusted
//! authority. The path is checked at the time of the stamp. Revocation is not checked.

mod asn1;
mod path;

use der::asn1::{Any, Int, ObjectIdentifier, OctetString, SetOfVec};
use der::{Decode as _, Encode as _, Tag, Tagged as _};
use ring::digest;
use x509_cert::Certificate;
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::domain::digest::Digest;
use asn1::{
    Attribute, CONTENT_TYPE, IssuerAndSerial, MESSAGE_DIGEST, MessageImprint, SHA256, SHA384,
    SHA512, SIGNED_DATA, SIGNING_CERTIFICATE, SIGNING_CERTIFICATE_V2, SignedContent,
    SigningCertificate, SigningCertificateV2, TST_INFO, TimeStampContent, TimeStampReq,
    TimeStampResp, TokenSigner, TypedContent,
};

/// The most bytes of a response: a token with a few certificates has some thousand.
pub const RESPONSE_BYTES_MAX: usize = 256 * 1024;
/// The most certificates in a token.
const CERTIFICATES_MAX: usize = 16;
/// Bytes of a nonce.
const NONCE_BYTES: usize = 16;

/// Why a stamp is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It is invalid.
    #[error("time stamp: {0}")]
    Invalid(String),
    /// It uses something that this build does not understand, so its validity is unknown.
    #[error("time stamp: {0}")]
    Unknown(String),
}

fn invalid(why: impl Into<String>) -> Fault {
    Fault::Invalid(why.into())
}

fn unknown(why: impl Into<String>) -> Fault {
    Fault::Unknown(why.into())
}

fn unread(what: &'static str) -> impl Fn(der::Error) -> Fault {
    move |error| invalid(format!("{what} cannot be read: {error}"))
}

/// Why a text does not hold certificates of authorities.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Not PEM, or a block that is not a certificate.
    #[error("no PEM certificates: {0}")]
    Pem(der::Error),
    /// No block.
    #[error("no certificate in it")]
    Empty,
    /// A certificate that cannot be written as DER.
    #[error(transparent)]
    Der(der::Error),
}

/// A valid stamp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The authority's time, in milliseconds since 1970.
    pub millis: i64,
    /// Its possible error in either direction, in milliseconds; 0 if the authority states none.
    pub accuracy_millis: i64,
    /// The subject of the signing certificate.
    pub authority: String,
}

/// What a response must match.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedResponse<'a> {
    /// SHA-256 of what was stamped.
    pub imprint: &'a Digest,
    /// The nonce of the request, if known: the response must repeat it.
    pub nonce: Option<&'a [u8; NONCE_BYTES]>,
}

/// Makes a request for a stamp over a SHA-256, with the certificates in it.
///
/// # Errors
/// The request cannot be encoded, which does not happen.
pub fn request(imprint: &Digest, nonce: &[u8; NONCE_BYTES]) -> Result<Vec<u8>, Fault> {
    let encode = |error: der::Error| unknown(format!("the request: {error}"));
    let request = TimeStampReq {
        version: 1,
        imprint: MessageImprint {
            algorithm: AlgorithmIdentifierOwned {
                oid: ObjectIdentifier::new_unwrap(SHA256),
                parameters: Some(Any::null()),
            },
            hash: OctetString::new(imprint.as_bytes().as_slice()).map_err(encode)?,
        },
        policy: None,
        nonce: Some(positive(nonce).map_err(encode)?),
        cert_req: true,
    };
    request.to_der().map_err(encode)
}

/// These bytes as a non-negative number.
fn positive(bytes: &[u8]) -> Result<Int, der::Error> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut padded = vec![0_u8];
    padded.extend(bytes.iter().skip(zeros));
    // DER: a leading zero only where the number would be negative without it.
    let spare = padded.get(1).is_some_and(|first| *first < 0x80);
    Int::new(padded.get(usize::from(spare)..).unwrap_or_default())
}

/// Checks a response against the request and the certificates (DER) of trusted authorities.
///
/// # Errors
/// What is invalid, or what this build does not understand.
pub fn verify(
    response: &[u8],
    expected: ExpectedResponse<'_>,
    authorities: &[Vec<u8>],
) -> Result<Stamp, Fault> {
    if response.len() > RESPONSE_BYTES_MAX {
        return Err(invalid("the response is too large"));
    }
    let response = TimeStampResp::from_der(response).map_err(unread("the response"))?;
    // 0: granted, 1: granted with modifications. The imprint shows whether those matter.
    if response.status.status > 1 {
        return Err(invalid(format!("refused with status {}", response.status.status)));
    }
    let token = response.token.ok_or_else(|| invalid("the response has no token"))?;
    let data = signed_data(&token)?;
    if !is(&data.content.kind, TST_INFO) {
        return Err(invalid("the token is about something else than time"));
    }
    let content = data.content.bytes.as_ref().ok_or_else(|| invalid("an empty token"))?;
    let info =
        TimeStampContent::from_der(content.as_bytes()).map_err(unread("the token's content"))?;
    about(&info, expected)?;
    let (millis, accuracy_millis) = when(&info)?;
    let [signer] = data.signers.as_slice() else {
        return Err(unknown("a token has one signer"));
    };
    if data.digests.as_slice() != [signer.digest.clone()] {
        return Err(unknown("the digests of the token are not its signer's"));
    }
    let certificates = certificates(&data)?;
    let (at, certificate) = signer_certificate(signer, &certificates)?;
    let der = certificates.get(at).ok_or_else(|| invalid("no certificate"))?;
    signed(signer, content.as_bytes(), der)?;
    path::trusted(der, &certificates, authorities, millis.div_euclid(1000))?;
    Ok(Stamp { millis, accuracy_millis, authority: path::subject(&certificate) })
}

fn is(oid: &ObjectIdentifier, text: &str) -> bool {
    *oid == ObjectIdentifier::new_unwrap(text)
}

fn signed_data(token: &TypedContent) -> Result<SignedContent, Fault> {
    if !is(&token.kind, SIGNED_DATA) {
        return Err(invalid("the token is no signed data"));
    }
    let data: SignedContent = token.content.decode_as().map_err(unread("the token"))?;
    if data.version != 3 {
        return Err(unknown(format!("signed data of version {}", data.version)));
    }
    Ok(data)
}

/// Whether the token matches the request.
fn about(info: &TimeStampContent, expected: ExpectedResponse<'_>) -> Result<(), Fault> {
    if info.version != 1 {
        return Err(unknown(format!("a token of version {}", info.version)));
    }
    if info.extensions.is_some() {
        return Err(unknown("the token has extensions"));
    }
    parameterless(&info.imprint.algorithm)?;
    if !is(&info.imprint.algorithm.oid, SHA256) {
        return Err(invalid("the imprint is no SHA-256"));
    }
    if info.imprint.hash.as_bytes() != expected.imprint.as_bytes() {
        return Err(invalid("the imprint is of something else"));
    }
    let Some(nonce) = expected.nonce else { return Ok(()) };
    let nonce = positive(nonce).map_err(unread("the nonce"))?;
    if info.nonce.as_ref().map(Int::as_bytes) == Some(nonce.as_bytes()) {
        Ok(())
    } else {
        Err(invalid("the nonce is not the one that was sent"))
    }
}

/// Time and accuracy, in milliseconds.
fn when(info: &TimeStampContent) -> Result<(i64, i64), Fault> {
    let no_time = || invalid("the token has no time");
    if info.time.tag() != Tag::GeneralizedTime {
        return Err(no_time());
    }
    let text = std::str::from_utf8(info.time.value()).map_err(|_| no_time())?;
    let (whole, fraction) = match text.strip_suffix('Z').ok_or_else(no_time)?.split_once('.') {
        None => (text.strip_suffix('Z').ok_or_else(no_time)?, ""),
        // RFC 3161 §2.4.2: a fraction does not end in a zero and is not empty.
        Some((_, fraction)) if fraction.is_empty() || fraction.ends_with('0') => {
            return Err(no_time());
        }
        Some(parts) => parts,
    };
    if whole.len() != 14 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(no_time());
    }
    let civil = jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", whole).map_err(|_| no_time())?;
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| no_time())?;
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let fraction: i64 = digits.parse().map_err(|_| no_time())?;
    let millis = zoned.timestamp().as_second().saturating_mul(1000).saturating_add(fraction);
    let Some(accuracy) = &info.accuracy else { return Ok((millis, 0)) };
    // A part of a millisecond is rounded up.
    let micros = i64::from(accuracy.micros.is_some_and(|micros| micros > 0));
    let accuracy = i64::from(accuracy.seconds.unwrap_or(0))
        .saturating_mul(1000)
        .saturating_add(i64::from(accuracy.millis.unwrap_or(0)))
        .saturating_add(micros);
    Ok((millis, accuracy))
}

fn certificates(data: &SignedContent) -> Result<Vec<Vec<u8>>, Fault> {
    let all = data.certificates.as_ref().map(SetOfVec::as_slice).unwrap_or_default();
    if all.len() > CERTIFICATES_MAX {
        return Err(invalid("too many certificates"));
    }
    all.iter().map(|one| one.to_der().map_err(unread("a certificate"))).collect()
}

/// The supported algorithms have no parameters: they are absent or NULL.
fn parameterless(algorithm: &AlgorithmIdentifierOwned) -> Result<(), Fault> {
    match &algorithm.parameters {
        None => Ok(()),
        Some(parameters) if *parameters == Any::null() => Ok(()),
        Some(_) => Err(unknown(format!("parameters of {} are not understood", algorithm.oid))),
    }
}

/// A digest a token may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TokenHash {
    Sha256,
    Sha384,
    Sha512,
}

impl TokenHash {
    fn of(algorithm: &AlgorithmIdentifierOwned) -> Result<Self, Fault> {
        parameterless(algorithm)?;
        match algorithm.oid.to_string().as_str() {
            SHA256 => Ok(Self::Sha256),
            SHA384 => Ok(Self::Sha384),
            SHA512 => Ok(Self::Sha512),
            other => Err(unknown(format!("the digest {other} is not understood here"))),
        }
    }

    const fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn digest(self, bytes: &[u8]) -> digest::Digest {
        digest::digest(self.algorithm(), bytes)
    }
}

/// The one value of an attribute that must occur once.
fn attribute<'s>(signer: &'s TokenSigner, kind: &str) -> Result<Option<&'s Any>, Fault> {
    let all = signer.signed.as_ref().map(SetOfVec::as_slice).unwrap_or_default();
    let mut found = all.iter().filter(|attribute: &&Attribute| is(&attribute.kind, kind));
    let Some(first) = found.next() else { return Ok(None) };
    match (first.values.as_slice(), found.next()) {
        ([value], None) => Ok(Some(value)),
        _ => Err(invalid("a signed attribute is there more than once")),
    }
}

/// The hash of the certificate that the signature names as its own (RFC 5816), with its algorithm.
fn signing_certificate(
    signer: &TokenSigner,
) -> Result<(&'static digest::Algorithm, Vec<u8>), Fault> {
    let read = unread("the signing certificate attribute");
    let none = || invalid("the token does not name its signing certificate");
    if let Some(value) = attribute(signer, SIGNING_CERTIFICATE_V2)? {
        let named: SigningCertificateV2 = value.decode_as().map_err(&read)?;
        let first = named.certs.first().ok_or_else(none)?;
        let hash = first.algorithm.as_ref().map_or(Ok(TokenHash::Sha256), TokenHash::of)?;
        return Ok((hash.algorithm(), first.hash.as_bytes().to_vec()));
    }
    let value = attribute(signer, SIGNING_CERTIFICATE)?.ok_or_else(none)?;
    let named: SigningCertificate = value.decode_as().map_err(&read)?;
    let first = named.certs.first().ok_or_else(none)?;
    // The standard's own hash. The check of the signature by the certificate's key does not depend
    // on it.
    Ok((&digest::SHA1_FOR_LEGACY_USE_ONLY, first.hash.as_bytes().to_vec()))
}

/// The certificate that the signature names as its own, and its place in the list.
fn signer_certificate(
    signer: &TokenSigner,
    certificates: &[Vec<u8>],
) -> Result<(usize, Certificate), Fault> {
    let (algorithm, wanted) = signing_certificate(signer)?;
    let is_it = |der: &Vec<u8>| digest::digest(algorithm, der).as_ref() == wanted;
    let at = certificates.iter().position(is_it);
    let at = at.ok_or_else(|| invalid("the signing certificate is not in the token"))?;
    let der = certificates.get(at).map(Vec::as_slice).unwrap_or_default();
    let certificate = Certificate::from_der(der)
        .map_err(|e| unknown(format!("the authority's certificate cannot be read: {e}")))?;
    if signer.sid.tag() != Tag::Sequence {
        return Err(unknown("a signer that is named by a key identifier"));
    }
    let id: IssuerAndSerial = signer.sid.decode_as().map_err(unread("the signer's name"))?;
    if !path::is_named(&certificate, &id) {
        return Err(invalid("the signer's name is not that of the signing certificate"));
    }
    Ok((at, certificate))
}

/// Whether the signer signed this content.
fn signed(signer: &TokenSigner, content: &[u8], certificate: &[u8]) -> Result<(), Fault> {
    if signer.version != 1 {
        return Err(unknown(format!("a signer of version {}", signer.version)));
    }
    let attributes = signer.signed.as_ref().ok_or_else(|| invalid("no signed attributes"))?;
    let hash = TokenHash::of(&signer.digest)?;
    let kind = attribute(signer, CONTENT_TYPE)?.map(Any::decode_as::<ObjectIdentifier>);
    match kind {
        Some(Ok(kind)) if is(&kind, TST_INFO) => {}
        Some(_) | None => return Err(invalid("the signed content type is not that of a token")),
    }
    let digest_attribute = attribute(signer, MESSAGE_DIGEST)?.map(Any::decode_as::<OctetString>);
    match digest_attribute {
        Some(Ok(digest_attribute))
            if digest_attribute.as_bytes() == hash.digest(content).as_ref() => {}
        Some(_) | None => return Err(invalid("the signed digest is not that of the content")),
    }
    // RFC 5652 §5.4: the signature covers the attributes as a SET, not under their tag in the
    // token.
    let message = attributes.to_der().map_err(unread("the signed attributes"))?;
    parameterless(&signer.algorithm)?;
    let algorithm = signer.algorithm.oid.to_string();
    path::signed(certificate, (&algorithm, hash), &message, signer.signature.as_bytes())
}

/// Reads the certificates of trusted authorities from PEM, as DER.
///
/// # Errors
/// No certificate, or an invalid one.
pub fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let chain = Certificate::load_pem_chain(pem).map_err(Error::Pem)?;
    if chain.is_empty() {
        return Err(Error::Empty);
    }
    chain.iter().map(|one| one.to_der().map_err(Error::Der)).collect()
}
