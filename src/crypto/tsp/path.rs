//! The path from the certificate of a time stamping authority to a trusted authority.

use std::time::Duration;

use der::oid::ObjectIdentifier;
use der::{Decode as _, Encode as _};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use webpki::ring as algorithms;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::Certificate;
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage as CertificateKeyUsage};

use super::{Fault, TokenHash, invalid, unknown};

/// `id-kp-timeStamping`, and the bytes of its value.
const TIME_STAMPING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");
const TIME_STAMPING_BYTES: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 8];

type PathAlgorithm = &'static dyn SignatureVerificationAlgorithm;

/// The algorithms that may have made such a signature; empty for an unknown one.
fn ways(signature: &str, digest: TokenHash) -> &'static [PathAlgorithm] {
    const RSA_256: &[PathAlgorithm] = &[algorithms::RSA_PKCS1_2048_8192_SHA256];
    const RSA_384: &[PathAlgorithm] = &[algorithms::RSA_PKCS1_2048_8192_SHA384];
    const RSA_512: &[PathAlgorithm] = &[algorithms::RSA_PKCS1_2048_8192_SHA512];
    const EC_256: &[PathAlgorithm] =
        &[algorithms::ECDSA_P256_SHA256, algorithms::ECDSA_P384_SHA256];
    const EC_384: &[PathAlgorithm] =
        &[algorithms::ECDSA_P256_SHA384, algorithms::ECDSA_P384_SHA384];
    match (signature, digest) {
        // `rsaEncryption` names no digest, so the signer's applies.
        ("1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.11", TokenHash::Sha256) => RSA_256,
        ("1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.12", TokenHash::Sha384) => RSA_384,
        ("1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.13", TokenHash::Sha512) => RSA_512,
        ("1.2.840.10045.4.3.2", TokenHash::Sha256) => EC_256,
        ("1.2.840.10045.4.3.3", TokenHash::Sha384) => EC_384,
        _ => &[],
    }
}

/// Checks that the certificate's key made this signature.
pub(super) fn signed(
    certificate: &[u8],
    (algorithm, digest): (&str, TokenHash),
    message: &[u8],
    signature: &[u8],
) -> Result<(), Fault> {
    let der = CertificateDer::from(certificate);
    let entity = EndEntityCert::try_from(&der).map_err(|e| unreadable(&e))?;
    let ways = ways(algorithm, digest);
    if ways.is_empty() {
        return Err(unknown(format!("a signature of kind {algorithm} is not understood here")));
    }
    let holds = |way: &&PathAlgorithm| entity.verify_signature(**way, message, signature).is_ok();
    if ways.iter().any(|way| holds(&way)) {
        Ok(())
    } else {
        Err(invalid("the signature does not verify"))
    }
}

/// Checks that the certificate may stamp time, nothing else, and leads to a trusted authority at
/// this time.
pub(super) fn trusted(
    certificate: &[u8],
    others: &[Vec<u8>],
    authorities: &[Vec<u8>],
    seconds: i64,
) -> Result<(), Fault> {
    stamps_time_only(certificate)?;
    let seconds = u64::try_from(seconds).map_err(|_| invalid("a time before 1970"))?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let authorities: Vec<CertificateDer<'_>> =
        authorities.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let anchors: Result<Vec<_>, _> = authorities.iter().map(anchor_from_trusted_cert).collect();
    let anchors = anchors.map_err(|e| unreadable(&e))?;
    let between: Vec<CertificateDer<'_>> = others
        .iter()
        .filter(|der| may_sign_certificates(der))
        .map(|der| CertificateDer::from(der.as_slice()))
        .collect();
    let der = CertificateDer::from(certificate);
    let entity = EndEntityCert::try_from(&der).map_err(|e| unreadable(&e))?;
    let usage = KeyUsage::required(TIME_STAMPING_BYTES);
    entity
        .verify_for_usage(ALL_VERIFICATION_ALGS, &anchors, &between, time, usage, None, None)
        .map(|_path| ())
        .map_err(|error| invalid(format!("the authority's certificate: {error}")))
}

/// RFC 3161 §2.3: extended key usage occurs once, is critical, and permits time stamping alone.
fn stamps_time_only(certificate: &[u8]) -> Result<(), Fault> {
    let certificate = Certificate::from_der(certificate)
        .map_err(|e| unknown(format!("the authority's certificate cannot be read: {e}")))?;
    let tbs = certificate.tbs_certificate();
    match tbs.get_extension::<ExtendedKeyUsage>() {
        Ok(Some((true, usage))) if usage.0 == [TIME_STAMPING] => {}
        Ok(_) => {
            let why = "the authority's certificate is not for time stamping alone";
            return Err(invalid(why));
        }
        Err(e) => return Err(unknown(format!("the authority's certificate: {e}"))),
    }
    match tbs.get_extension::<CertificateKeyUsage>() {
        Ok(None) => Ok(()),
        Ok(Some((_, usage))) if usage.digital_signature() || usage.non_repudiation() => Ok(()),
        Ok(Some(_)) => Err(invalid("the authority's certificate is not for signing")),
        Err(e) => Err(unknown(format!("the authority's certificate: {e}"))),
    }
}

/// Whether a certificate may be an intermediate one; an unreadable one may not.
fn may_sign_certificates(der: &[u8]) -> bool {
    let Ok(certificate) = Certificate::from_der(der) else { return false };
    match certificate.tbs_certificate().get_extension::<CertificateKeyUsage>() {
        Ok(None) => true,
        Ok(Some((_, usage))) => usage.key_cert_sign(),
        Err(_) => false,
    }
}

/// The subject of a certificate, for a person.
pub(super) fn subject(certificate: &Certificate) -> String {
    certificate.tbs_certificate().subject().to_string()
}

/// Whether the certificate is the one with this issuer and serial number.
pub(super) fn is_named(certificate: &Certificate, id: &super::asn1::IssuerAndSerial) -> bool {
    let tbs = certificate.tbs_certificate();
    let serial = tbs.serial_number().as_bytes();
    tbs.issuer().to_der().ok() == id.issuer.to_der().ok() && serial == id.serial.as_bytes()
}

fn unreadable(error: &webpki::Error) -> Fault {
    unknown(format!("a certificate cannot be read: {error}"))
}
