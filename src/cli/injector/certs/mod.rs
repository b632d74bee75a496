//! `wicketgate control injector certs`.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::secret::{CertifiedKey, InjectorSecret, authority, pem};
use super::super::{Exit, Failure, note, say};
use super::api_server::{ApiServer, ApiServerError};
use super::cluster::{ClusterArgs, WebhookConfiguration, object_name, webhook};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::issue::{CertificateKey, IssueError, IssuedCertificate};
use crate::crypto::renewal::{AUTHORITY_LIFE, LEAF_LIFE, NextStep, RenewalPlan, SigningStep, plan};
use crate::domain::time::Timestamp;

mod secret;

/// Make and renew the certificate with which the injector answers the API server.
///
/// It keeps the certificate and its authority in one Secret, and writes the authority into the `caBundle` of the webhooks. A
/// certificate lives for 30 days and an authority for a year; both are renewed after two thirds of that. A new authority stands
/// in every bundle for 30 days before it signs, and an old one for 30 days after, so that no rotation refuses a pod. Run it once a day.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control injector certs --namespace wicketgate-system --secret wicketgate-injector-tls \\\n    \
        --webhook mutating/wicketgate-system-wicketgate-injector --webhook validating/wicketgate-system-wicketgate-injector\n\n\
        It needs `get` and `update` of the Secret, and `get` and `patch` of each webhook configuration, by name. A configuration\n\
        that was applied again without its bundle gets it back, and is reported. Exits with 1 if the API server refuses.")]
pub(super) struct InjectorCerts {
    /// Namespace of the Secret
    #[arg(long, value_name = "NAMESPACE", value_parser = object_name)]
    namespace: String,
    /// The Secret, which exists already
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    secret: String,
    /// A webhook configuration: `mutating/NAME` or `validating/NAME`
    #[arg(long = "webhook", value_name = "KIND/NAME", required = true, value_parser = webhook)]
    webhooks: Vec<WebhookConfiguration>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// What time it is, for tests
    #[arg(long, value_name = "INSTANT", hide = true)]
    now: Option<String>,
}

/// Why the certificates are not in place.
#[derive(Debug, thiserror::Error)]
enum CertsError {
    #[error(transparent)]
    ApiServer(#[from] ApiServerError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// A webhook leads elsewhere.
    #[error(
        "`{0}`: a webhook has no `clientConfig.service`; name the Service of the injector there"
    )]
    NoService(String),
    #[error("`{0}`: it has no webhooks")]
    NoWebhooks(String),
}

/// Runs it.
pub(super) async fn run(args: &InjectorCerts) -> Result<Exit, Failure> {
    let now = match &args.now {
        None => SystemClock::new().now(),
        Some(text) => Timestamp::parse_short(text)
            .ok_or_else(|| Failure::usage(format!("`{text}` is no instant")))?,
    };
    renew(args, now).await.map_err(Failure::invalid)?;
    Ok(Exit::Ok)
}

/// A webhook configuration as it is.
struct WebhookBundles {
    path: String,
    given: String,
    version: Value,
    /// The bundle of each of its webhooks.
    bundles: Vec<Vec<IssuedCertificate>>,
}

async fn renew(args: &InjectorCerts, now: Timestamp) -> Result<(), CertsError> {
    let server = args.cluster.server()?;
    let place = format!("/api/v1/namespaces/{}/secrets/{}", args.namespace, args.secret);
    let object = server.get(&place).await?;
    let (mut names, mut configured) = (BTreeSet::new(), Vec::new());
    for one in &args.webhooks {
        configured.push(read(one, &server.get(&one.path).await?, &mut names)?);
    }
    let names: Vec<String> = names.into_iter().collect();
    let secret = InjectorSecret::read(&object);
    let bundles = configured.iter().flat_map(|one| &one.bundles);
    let known: Vec<IssuedCertificate> =
        bundles.clone().flatten().chain(&secret.bundle).cloned().collect();
    let bundles: Vec<Vec<_>> = bundles.map(|all| all.iter().map(authority).collect()).collect();
    let plan = plan(now, &secret.held(&names), &bundles);
    let changed = plan.sign
        || plan.signing != SigningStep::Kept
        || plan.next == NextStep::Announced
        || secret.next.is_some() != (plan.next == NextStep::Kept);
    let before: Vec<_> = secret.bundle.iter().map(|one| one.id).collect();
    let installed = secret.signing.is_some();
    let secret = follow(&plan, secret, &known, &names, now)?;
    // The bundles first: what the Secret gets then verifies already. A crash between the two leaves an authority
    // without a key, which the next run takes away.
    for one in &configured {
        let lost = installed && one.bundles.iter().any(Vec::is_empty);
        let written = write_bundles(&server, one, &secret.bundle).await?;
        if lost && written {
            let given = &one.given;
            note(format!(
                "`{given}` had no authorities, so that the API server refused every pod that asks for a gate"
            ));
        }
    }
    if changed || before != secret.bundle.iter().map(|one| one.id).collect::<Vec<_>>() {
        server.put(&place, &secret.write(&object)?).await?;
    }
    report(&plan, &secret, &names);
    Ok(())
}

/// Reads a configuration, and adds the names at which its webhooks are called.
fn read(
    one: &WebhookConfiguration,
    object: &Value,
    names: &mut BTreeSet<String>,
) -> Result<WebhookBundles, CertsError> {
    let given = one.given.clone();
    let webhooks = object.get("webhooks").and_then(Value::as_array).filter(|all| !all.is_empty());
    let webhooks = webhooks.ok_or_else(|| CertsError::NoWebhooks(given.clone()))?;
    let mut bundles = Vec::new();
    for webhook in webhooks {
        let config = webhook.get("clientConfig");
        let service = config.and_then(|config| config.get("service"));
        let part = |name: &str| service?.get(name)?.as_str();
        let (Some(name), Some(namespace)) = (part("name"), part("namespace")) else {
            return Err(CertsError::NoService(given));
        };
        names.insert(format!("{name}.{namespace}.svc"));
        let bundle = config.and_then(|config| config.get("caBundle")).and_then(Value::as_str);
        let bundle = bundle.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        bundles.push(IssuedCertificate::chain(&bundle).unwrap_or_default());
    }
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    Ok(WebhookBundles { path: one.path.clone(), given, version, bundles })
}

/// What the Secret holds after this plan.
fn follow(
    plan: &RenewalPlan,
    mut secret: InjectorSecret,
    known: &[IssuedCertificate],
    names: &[String],
    now: Timestamp,
) -> Result<InjectorSecret, CertsError> {
    let made = || -> Result<CertifiedKey, IssueError> {
        let key = CertificateKey::generate()?;
        Ok(CertifiedKey { certificate: key.authority(now, now.plus(AUTHORITY_LIFE))?, key })
    };
    match plan.signing {
        SigningStep::Kept => {}
        SigningStep::Promoted => secret.signing = secret.next.take(),
        SigningStep::Made => secret.signing = Some(made()?),
    }
    if plan.signing != SigningStep::Kept {
        secret.since = Some(now);
    }
    match plan.next {
        NextStep::Absent => secret.next = None,
        NextStep::Kept => {}
        NextStep::Announced => secret.next = Some(made()?),
    }
    if let Some(signing) = secret.signing.as_ref().filter(|_| plan.sign) {
        let key = CertificateKey::generate()?;
        let ends = now.plus(LEAF_LIFE).min(signing.certificate.ends);
        let certificate = signing.key.certify(&signing.certificate, &key, names, (now, ends))?;
        secret.leaf = Some(CertifiedKey { certificate, key });
    }
    let own = [&secret.signing, &secret.next].into_iter().flatten();
    let mut bundle: Vec<IssuedCertificate> = own.map(|one| one.certificate.clone()).collect();
    let others = plan.others.iter().filter_map(|id| known.iter().find(|one| one.id == *id));
    bundle.extend(others.cloned());
    secret.bundle = bundle;
    Ok(secret)
}

/// Writes the bundle into each webhook that has another one; whether any had.
async fn write_bundles(
    server: &ApiServer,
    configured: &WebhookBundles,
    bundle: &[IssuedCertificate],
) -> Result<bool, CertsError> {
    let ids = |all: &[IssuedCertificate]| all.iter().map(|one| one.id).collect::<BTreeSet<_>>();
    let encoded = STANDARD.encode(pem(bundle));
    // Another writer may have changed it since it was read.
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": configured.version}),
    ];
    for (index, there) in configured.bundles.iter().enumerate() {
        if ids(there) != ids(bundle) {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            operations.push(json!({"op": "add", "path": path, "value": encoded}));
        }
    }
    if operations.len() == 1 {
        return Ok(false);
    }
    server.patch(&configured.path, &Value::Array(operations)).await?;
    say(format!("{}: wrote `caBundle`, certificates: {}", configured.given, bundle.len()));
    Ok(true)
}

fn report(plan: &RenewalPlan, secret: &InjectorSecret, names: &[String]) {
    match plan.signing {
        SigningStep::Kept => {}
        SigningStep::Promoted => say("the announced authority signs from now on"),
        SigningStep::Made => say("made an authority"),
    }
    if let (NextStep::Announced, Some(next)) = (plan.next, &secret.next) {
        let at = next.certificate.begins.plus(LEAF_LIFE);
        say(format!("announced the next authority, which signs from {at} on"));
    }
    let Some(leaf) = &secret.leaf else { return };
    let (ends, names) = (leaf.certificate.ends, names.join(", "));
    let renewed = leaf.certificate.begins.plus(Duration::from_millis(
        u64::try_from(ends.millis().saturating_sub(leaf.certificate.begins.millis()) / 3 * 2)
            .unwrap_or(0),
    ));
    let verb = if plan.sign { "signed a certificate" } else { "the certificate stays" };
    say(format!("{verb}: {names}, until {ends}, renewed from {renewed} on"));
}
