//! Makes X.509 certificates: an authority, and servers that it certifies. Keys are ECDSA on P-256, which every TLS library knows.

use std::time::Duration;

use der::asn1::{BitString, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString};
use der::pem::LineEnding;
use der::{Decode as _, Document, Encode as _, EncodePem as _};
use ed25519_dalek::ed25519::signature::Keypair;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::time::Timestamp;
use x509_cert::Certificate;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder as _, CertificateBuilder};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, ToExtension as _};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{
    self, AlgorithmIdentifierOwned, DynSignatureAlgorithmIdentifier, EncodePublicKey,
    SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef,
};
use x509_cert::time::{Time, Validity};
use zeroize::Zeroizing;

const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
/// Names a private key of PKCS#8 in PEM.
const LABEL: &str = "PRIVATE KEY";

/// Why a certificate or key cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The bytes are not a certificate.
    #[error("not a certificate (PEM): {0}")]
    Certificate(der::Error),
    /// There is no certificate in the text.
    #[error("not a certificate (PEM)")]
    NoCertificate,
    /// The bytes are not a private key.
    #[error("not a private key (PKCS#8 PEM, ECDSA P-256)")]
    Key,
    /// The key cannot be made, or does not sign.
    #[error("the system gives no key")]
    Random,
    /// A part cannot be written.
    #[error("a part of the certificate cannot be written: {0}")]
    Encode(#[from] der::Error),
    /// The certificate cannot be put together.
    #[error("the certificate cannot be made: {0}")]
    Build(#[from] x509_cert::builder::Error),
}

/// A certificate, as far as its renewal depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuedCertificate {
    /// SHA-256 of its bytes.
    pub id: Digest,
    /// When it begins.
    pub begins: Timestamp,
    /// When it ends.
    pub ends: Timestamp,
    /// The DNS names that it certifies.
    pub names: Vec<String>,
    /// As PEM.
    pub pem: String,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    public: Vec<u8>,
    /// What is signed, and the signature.
    signed: (Vec<u8>, Vec<u8>),
}

impl IssuedCertificate {
    /// Every certificate of a PEM text; other text between them is skipped, as TLS libraries do.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn chain(pem: &[u8]) -> Result<Vec<Self>, IssueError> {
        if pem.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        let all = Certificate::load_pem_chain(pem).map_err(IssueError::Certificate)?;
        if all.is_empty() {
            return Err(IssueError::NoCertificate);
        }
        all.iter().map(Self::of).collect()
    }

    fn of(certificate: &Certificate) -> Result<Self, IssueError> {
        let tbs = certificate.tbs_certificate();
        let validity = tbs.validity();
        let at = |time: Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Timestamp::from_millis(seconds.saturating_mul(1000))
        };
        let names = tbs.get_extension::<SubjectAltName>().map_err(IssueError::Certificate)?;
        let names = names.map(|(_, names)| names.0).unwrap_or_default();
        let dns = |name: &GeneralName| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
            GeneralName::OtherName(_)
            | GeneralName::Rfc822Name(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::UniformResourceIdentifier(_)
            | GeneralName::IpAddress(_)
            | GeneralName::RegisteredId(_) => None,
        };
        Ok(Self {
            id: Digest::of(&[&certificate.to_der()?]),
            begins: at(validity.not_before),
            ends: at(validity.not_after),
            names: names.iter().filter_map(dns).collect(),
            pem: certificate.to_pem(LineEnding::LF)?,
            subject: tbs.subject().to_der()?,
            issuer: tbs.issuer().to_der()?,
            public: tbs.subject_public_key_info().subject_public_key.raw_bytes().to_vec(),
            signed: (tbs.to_der()?, certificate.signature().raw_bytes().to_vec()),
        })
    }

    /// Whether this authority has signed it.
    #[must_use]
    pub fn is_signed_by(&self, authority: &Self) -> bool {
        let (message, signature) = &self.signed;
        let key =
            UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_ASN1, &authority.public);
        self.issuer == authority.subject && key.verify(message, signature).is_ok()
    }

    /// Whether it certifies this key.
    #[must_use]
    pub fn is_of(&self, key: &CertificateKey) -> bool {
        self.public == key.pair.public_key().as_ref()
    }
}

/// A private key.
pub struct CertificateKey {
    pair: EcdsaKeyPair,
    pkcs8: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertificateKey")
    }
}

impl CertificateKey {
    /// A new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Self, IssueError> {
        let way = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let secret = EcdsaKeyPair::generate_pkcs8(way, &SystemRandom::new());
        let secret = secret.map_err(|_| IssueError::Random)?;
        Self::of(Zeroizing::new(secret.as_ref().to_vec()))
    }

    /// The key of a PEM text.
    ///
    /// # Errors
    /// It is none.
    pub fn read(pem: &[u8]) -> Result<Self, IssueError> {
        let (label, bytes) = der::pem::decode_vec(pem).map_err(|_| IssueError::Key)?;
        let bytes = Zeroizing::new(bytes);
        if label != LABEL {
            return Err(IssueError::Key);
        }
        Self::of(bytes)
    }

    fn of(pkcs8: Zeroizing<Vec<u8>>) -> Result<Self, IssueError> {
        let way = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(way, &pkcs8, &SystemRandom::new());
        Ok(Self { pair: pair.map_err(|_| IssueError::Key)?, pkcs8 })
    }

    /// As PEM.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn pem(&self) -> Result<Zeroizing<String>, IssueError> {
        let text = der::pem::encode_string(LABEL, LineEnding::LF, &self.pkcs8);
        text.map(Zeroizing::new).map_err(|_| IssueError::Key)
    }

    fn public(&self) -> P256Point {
        P256Point(self.pair.public_key().as_ref().to_vec())
    }

    /// A certificate of an authority that signs itself. Its name is its own, so that a path never leads to another one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn authority(
        &self,
        begins: Timestamp,
        ends: Timestamp,
    ) -> Result<IssuedCertificate, IssueError> {
        let id = Digest::of(&[&self.public().0]).to_string();
        let short: String = id.chars().take(16).collect();
        let subject: Name = format!("CN=wicketgate injector {short}").parse()?;
        let shape = CertificateShape { issuer: subject.clone(), subject, names: None };
        issue(self, self, (begins, ends), shape)
    }

    /// Certifies the server with this key and these DNS names, with the authority whose key this is.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn certify(
        &self,
        authority: &IssuedCertificate,
        server: &Self,
        names: &[String],
        (begins, ends): (Timestamp, Timestamp),
    ) -> Result<IssuedCertificate, IssueError> {
        let issuer = Name::from_der(&authority.subject)?;
        let shape =
            CertificateShape { issuer, subject: Name::default(), names: Some(names.to_vec()) };
        issue(self, server, (begins, ends), shape)
    }
}

fn issue(
    signer: &CertificateKey,
    of: &CertificateKey,
    (begins, ends): (Timestamp, Timestamp),
    shape: CertificateShape,
) -> Result<IssuedCertificate, IssueError> {
    let at = |time: Timestamp| {
        let seconds = Duration::from_secs(u64::try_from(time.seconds()).unwrap_or(0));
        GeneralizedTime::from_unix_duration(seconds).map(Time::from)
    };
    let public = of.public();
    let info =
        SubjectPublicKeyInfoOwned::from_key(&public).map_err(x509_cert::builder::Error::from)?;
    // Each certificate has a key of its own, so a part of the key's digest numbers it.
    let number = Digest::of(&[&public.0, &begins.millis().to_be_bytes()]);
    let number: Vec<u8> = [1].into_iter().chain(*number.as_bytes()).take(20).collect();
    let validity = Validity::new(at(begins)?, at(ends)?);
    let mut builder = CertificateBuilder::new(shape, SerialNumber::new(&number)?, validity, info)?;
    let message = builder.finalize(&BuilderKey(signer))?;
    let signature =
        signer.pair.sign(&SystemRandom::new(), &message).map_err(|_| IssueError::Random)?;
    let signature = BitString::from_bytes(signature.as_ref())?;
    let certificate = builder.assemble(signature, &BuilderKey(signer))?;
    IssuedCertificate::of(&certificate)
}

/// What a certificate says.
struct CertificateShape {
    issuer: Name,
    subject: Name,
    /// The names of a server; none of an authority.
    names: Option<Vec<String>>,
}

impl BuilderProfile for CertificateShape {
    fn get_issuer(&self, _subject: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        spk: SubjectPublicKeyInfoRef<'_>,
        issuer_spk: SubjectPublicKeyInfoRef<'_>,
        tbs: &x509_cert::TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        let mut all = Vec::new();
        let subject = tbs.subject();
        all.push(SubjectKeyIdentifier(key_id(&spk)?).to_extension(subject, &all)?);
        let issuer = AuthorityKeyIdentifier {
            key_identifier: Some(key_id(&issuer_spk)?),
            ..AuthorityKeyIdentifier::default()
        };
        all.push(issuer.to_extension(subject, &all)?);
        let Some(names) = &self.names else {
            let constraints = BasicConstraints { ca: true, path_len_constraint: Some(0) };
            all.push(constraints.to_extension(subject, &all)?);
            let usage = KeyUsages::KeyCertSign | KeyUsages::CRLSign;
            all.push(KeyUsage(usage).to_extension(subject, &all)?);
            return Ok(all);
        };
        let constraints = BasicConstraints { ca: false, path_len_constraint: None };
        all.push(constraints.to_extension(subject, &all)?);
        all.push(KeyUsage(KeyUsages::DigitalSignature.into()).to_extension(subject, &all)?);
        all.push(ExtendedKeyUsage(vec![SERVER_AUTH]).to_extension(subject, &all)?);
        let names = names.iter().map(|name| Ia5String::new(name).map(GeneralName::DnsName));
        let names = names.collect::<der::Result<Vec<_>>>()?;
        all.push(SubjectAltName(names).to_extension(subject, &all)?);
        Ok(all)
    }
}

/// Identifies a key: the first 20 bytes of its SHA-256 (RFC 7093, method 1).
fn key_id(key: &SubjectPublicKeyInfoRef<'_>) -> der::Result<OctetString> {
    let digest = Digest::of(&[key.subject_public_key.raw_bytes()]);
    OctetString::new(digest.as_bytes().get(..20).unwrap_or_default())
}

/// A public key on P-256, as an uncompressed point.
#[derive(Clone)]
struct P256Point(Vec<u8>);

impl EncodePublicKey for P256Point {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        let algorithm =
            AlgorithmIdentifierOwned { oid: EC_PUBLIC_KEY, parameters: Some(P256.into()) };
        let subject_public_key = BitString::from_bytes(&self.0)?;
        Ok(Document::encode_msg(&SubjectPublicKeyInfoOwned { algorithm, subject_public_key })?)
    }
}

/// The key as the certificate builder knows keys. The builder only reads its public half and its algorithm.
struct BuilderKey<'k>(&'k CertificateKey);

impl Keypair for BuilderKey<'_> {
    type VerifyingKey = P256Point;

    fn verifying_key(&self) -> P256Point {
        self.0.public()
    }
}

impl DynSignatureAlgorithmIdentifier for BuilderKey<'_> {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        Ok(AlgorithmIdentifierOwned { oid: ECDSA_SHA256, parameters: None })
    }
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
    use webpki::{
        ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage as Purpose, anchor_from_trusted_cert,
    };

    use super::*;

    const DAY: u64 = 86_400;

    fn after(days: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(days * DAY))
    }

    fn bytes(certificate: &IssuedCertificate) -> CertificateDer<'static> {
        let (_, der) = der::pem::decode_vec(certificate.pem.as_bytes()).unwrap();
        CertificateDer::from(der)
    }

    /// Whether a TLS client takes the server under this name.
    fn verifies(
        leaf: &IssuedCertificate,
        authority: &IssuedCertificate,
        name: &str,
        at: Timestamp,
    ) -> bool {
        let (leaf, authority) = (bytes(leaf), bytes(authority));
        let anchors = [anchor_from_trusted_cert(&authority).unwrap()];
        let entity = EndEntityCert::try_from(&leaf).unwrap();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(at.seconds().unsigned_abs()));
        let path = entity.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            &[],
            time,
            Purpose::server_auth(),
            None,
            None,
        );
        path.is_ok()
            && entity.verify_is_valid_for_subject_name(&ServerName::try_from(name).unwrap()).is_ok()
    }

    #[test]
    fn a_server_verifies_against_its_authority_alone_within_its_time_and_under_its_names() {
        let keys: Vec<_> = (0..3).map(|_| CertificateKey::generate().unwrap()).collect();
        let [first, second, server] = keys.as_slice() else { panic!() };
        let authority = first.authority(after(0), after(365)).unwrap();
        let other = second.authority(after(0), after(365)).unwrap();
        let names = ["injector.agents.svc".to_owned(), "other.svc".to_owned()];
        let leaf = first.certify(&authority, server, &names, (after(1), after(31))).unwrap();
        assert_eq!(leaf.names, names);
        assert_eq!((leaf.begins, leaf.ends), (after(1), after(31)));
        for name in &names {
            assert!(verifies(&leaf, &authority, name, after(2)), "{name}");
        }
        assert!(!verifies(&leaf, &authority, "gate.agents.svc", after(2)));
        assert!(!verifies(&leaf, &authority, "other.svc", after(0)));
        assert!(!verifies(&leaf, &authority, "other.svc", after(32)));
        assert!(!verifies(&leaf, &other, "other.svc", after(2)));
        assert!(leaf.is_signed_by(&authority) && !leaf.is_signed_by(&other) && leaf.is_of(server));
        assert!(authority.is_signed_by(&authority) && !authority.is_of(server));
        assert_ne!(authority.id, other.id);
    }

    #[test]
    fn certificates_and_keys_are_read_as_they_are_written() {
        let key = CertificateKey::generate().unwrap();
        let authority = key.authority(after(0), after(365)).unwrap();
        let again = CertificateKey::read(key.pem().unwrap().as_bytes()).unwrap();
        assert!(authority.is_of(&again));
        let chain =
            format!("{}{}", authority.pem, again.authority(after(1), after(3)).unwrap().pem);
        let chain = IssuedCertificate::chain(chain.as_bytes()).unwrap();
        assert_eq!(chain.len(), 2);
        assert_eq!(chain.first(), Some(&authority));
        assert_eq!(IssuedCertificate::chain(b" \n").unwrap(), []);
        for wrong in [
            &b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"[..],
            b"\xff",
            b"text",
        ] {
            assert!(IssuedCertificate::chain(wrong).is_err(), "{wrong:?}");
            assert!(CertificateKey::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
