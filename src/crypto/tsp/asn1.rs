//! The structures of RFC 3161 (time stamps), RFC 5652 (signed data) and RFC 5035 (signing
//! certificate), as far as a verifier needs them. Strict DER; members in the order of the
//! standards.

use der::asn1::{Any, BitString, Int, ObjectIdentifier, OctetString, SetOfVec};
use der::{Sequence, ValueOrd};
use x509_cert::name::Name;
use x509_cert::spki::AlgorithmIdentifierOwned;

pub(super) const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
pub(super) const TST_INFO: &str = "1.2.840.113549.1.9.16.1.4";
pub(super) const CONTENT_TYPE: &str = "1.2.840.113549.1.9.3";
pub(super) const MESSAGE_DIGEST: &str = "1.2.840.113549.1.9.4";
pub(super) const SIGNING_CERTIFICATE: &str = "1.2.840.113549.1.9.16.2.12";
pub(super) const SIGNING_CERTIFICATE_V2: &str = "1.2.840.113549.1.9.16.2.47";
pub(super) const SHA256: &str = "2.16.840.1.101.3.4.2.1";
pub(super) const SHA384: &str = "2.16.840.1.101.3.4.2.2";
pub(super) const SHA512: &str = "2.16.840.1.101.3.4.2.3";

/// The request.
#[derive(Sequence)]
pub(super) struct TimeStampReq {
    pub(super) version: u8,
    pub(super) imprint: MessageImprint,
    #[asn1(optional = "true")]
    pub(super) policy: Option<ObjectIdentifier>,
    #[asn1(optional = "true")]
    pub(super) nonce: Option<Int>,
    #[asn1(default = "Default::default")]
    pub(super) cert_req: bool,
}

/// The stamped hash.
#[derive(Sequence)]
pub(super) struct MessageImprint {
    pub(super) algorithm: AlgorithmIdentifierOwned,
    pub(super) hash: OctetString,
}

/// The response.
#[derive(Sequence)]
pub(super) struct TimeStampResp {
    pub(super) status: Status,
    #[asn1(optional = "true")]
    pub(super) token: Option<TypedContent>,
}

/// Whether the authority granted the stamp.
#[derive(Sequence)]
pub(super) struct Status {
    pub(super) status: u8,
    #[asn1(optional = "true")]
    pub(super) text: Option<Vec<Any>>,
    #[asn1(optional = "true")]
    pub(super) failure: Option<BitString>,
}

#[derive(Sequence)]
pub(super) struct TypedContent {
    pub(super) kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    pub(super) content: Any,
}

#[derive(Sequence)]
pub(super) struct SignedContent {
    pub(super) version: u8,
    pub(super) digests: SetOfVec<AlgorithmIdentifierOwned>,
    pub(super) content: Content,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) certificates: Option<SetOfVec<Any>>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) revocations: Option<SetOfVec<Any>>,
    pub(super) signers: SetOfVec<TokenSigner>,
}

#[derive(Sequence)]
pub(super) struct Content {
    pub(super) kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub(super) bytes: Option<OctetString>,
}

#[derive(Sequence, ValueOrd)]
pub(super) struct TokenSigner {
    pub(super) version: u8,
    pub(super) sid: Any,
    pub(super) digest: AlgorithmIdentifierOwned,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", constructed = "true", optional = "true")]
    pub(super) signed: Option<SetOfVec<Attribute>>,
    pub(super) algorithm: AlgorithmIdentifierOwned,
    pub(super) signature: OctetString,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", constructed = "true", optional = "true")]
    pub(super) unsigned: Option<SetOfVec<Attribute>>,
}

#[derive(Sequence, ValueOrd)]
pub(super) struct Attribute {
    pub(super) kind: ObjectIdentifier,
    pub(super) values: SetOfVec<Any>,
}

#[derive(Sequence)]
pub(super) struct IssuerAndSerial {
    pub(super) issuer: Name,
    pub(super) serial: Int,
}

/// `SigningCertificate` (hashes are SHA-1).
#[derive(Sequence)]
pub(super) struct SigningCertificate {
    pub(super) certs: Vec<EssCertId>,
    #[asn1(optional = "true")]
    pub(super) policies: Option<Vec<Any>>,
}

#[derive(Sequence)]
pub(super) struct EssCertId {
    pub(super) hash: OctetString,
    #[asn1(optional = "true")]
    pub(super) issuer: Option<EssIssuer>,
}

/// `SigningCertificateV2`.
#[derive(Sequence)]
pub(super) struct SigningCertificateV2 {
    pub(super) certs: Vec<EssCertIdV2>,
    #[asn1(optional = "true")]
    pub(super) policies: Option<Vec<Any>>,
}

#[derive(Sequence)]
pub(super) struct EssCertIdV2 {
    /// SHA-256 if absent.
    #[asn1(optional = "true")]
    pub(super) algorithm: Option<AlgorithmIdentifierOwned>,
    pub(super) hash: OctetString,
    #[asn1(optional = "true")]
    pub(super) issuer: Option<EssIssuer>,
}

/// `IssuerSerial`: names of the issuer, then the serial number.
#[derive(Sequence)]
pub(super) struct EssIssuer {
    pub(super) names: Vec<Any>,
    pub(super) serial: Int,
}

/// The authority's statement.
#[derive(Sequence)]
pub(super) struct TimeStampContent {
    pub(super) version: u8,
    pub(super) policy: ObjectIdentifier,
    pub(super) imprint: MessageImprint,
    pub(super) serial: Int,
    /// A GeneralizedTime, optionally with fractions of a second.
    pub(super) time: Any,
    #[asn1(optional = "true")]
    pub(super) accuracy: Option<Accuracy>,
    #[asn1(default = "Default::default")]
    pub(super) ordering: bool,
    #[asn1(optional = "true")]
    pub(super) nonce: Option<Int>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub(super) tsa: Option<Any>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) extensions: Option<Vec<Any>>,
}

/// The possible error of the time, in either direction.
#[derive(Sequence)]
pub(super) struct Accuracy {
    #[asn1(optional = "true")]
    pub(super) seconds: Option<u32>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) millis: Option<u16>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) micros: Option<u16>,
}
