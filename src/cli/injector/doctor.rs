//! `wicketgate config doctor injector`: what the API server of a cluster knows of the injector, and what it does to one pod.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::check::list::{CheckList, CheckSection};
use super::super::{Exit, Failure};
use super::api_server::{ApiServer, ApiServerError};
use super::cluster::{ClusterArgs, WebhookConfiguration, object_name, webhook};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::issue::IssuedCertificate;
use crate::domain::time::Timestamp;

/// How long before its end a certificate is a warning: as the alert of the chart.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);
/// What renews certificates.
const RENEW: &str =
    "run `wicketgate control injector certs`, or look at the certificate of cert-manager";

/// Check the injector of a cluster: its webhooks and their authorities, its certificate, and one pod that is not created.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate config doctor injector --webhook mutating/wicketgate-system-injector-wicketgate-injector \\\n    \
        --webhook validating/wicketgate-system-injector-wicketgate-injector --secret wicketgate-system/injector-wicketgate-injector-tls \\\n    \
        --namespace agents --profile default --configmap summarizer-gate \\\n    \
        --api https://CLUSTER:6443 --ca-file ca.crt --token-file token\n\n\
        Run it as a person who may read webhook configurations and the Secret, and who may create pods in the namespace. The\n\
        pod is a dry run: the API server asks the injector, and stores nothing.\n\n\
        Exit codes: 0 nothing failed, 1 something failed, 2 something could not be determined.")]
pub(in crate::cli) struct InjectorDoctor {
    /// A webhook configuration: `mutating/NAME` or `validating/NAME`
    #[arg(long = "webhook", value_name = "KIND/NAME", required = true, value_parser = webhook)]
    webhooks: Vec<WebhookConfiguration>,
    /// The Secret with the certificate of the injector, as `namespace/name`; without it, the certificate is not checked
    #[arg(long, value_name = "NAME", value_parser = place)]
    secret: Option<String>,
    /// Namespace for the pod of the dry run: one whose pods get a gate
    #[arg(long, value_name = "NAMESPACE", value_parser = object_name)]
    namespace: String,
    /// Profile that the pod asks for
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = object_name)]
    profile: String,
    /// `ConfigMap` that the pod names
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    configmap: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The path of a Secret, from `NAMESPACE/NAME`.
fn place(text: &str) -> Result<String, String> {
    let (namespace, name) = text.split_once('/').ok_or("must be `NAMESPACE/NAME`")?;
    Ok(format!("/api/v1/namespaces/{}/secrets/{}", object_name(namespace)?, object_name(name)?))
}

/// Runs it.
pub(in crate::cli) async fn run(args: &InjectorDoctor) -> Result<Exit, Failure> {
    let server = args.cluster.server().map_err(Failure::unverifiable)?;
    let now = SystemClock::new().now();
    let mut list = CheckList::default();
    let (section, bundles) = webhooks(&server, &args.webhooks, now).await;
    list.add(section, args.json);
    list.add(certificate(&server, args.secret.as_deref(), &bundles, now).await, args.json);
    list.add(pod(&server, args).await, args.json);
    Ok(list.end(&[], args.json))
}

/// A line about a request that the API server did not answer.
fn unanswered(section: &mut CheckSection, why: &ApiServerError) {
    section.unknown(why.to_string(), "name an API server and a token that may do this");
}

/// The authorities of each webhook, with its name.
type Bundles = Vec<(String, Vec<IssuedCertificate>)>;

async fn webhooks(
    server: &ApiServer,
    configured: &[WebhookConfiguration],
    now: Timestamp,
) -> (CheckSection, Bundles) {
    let (mut section, mut bundles) = (CheckSection::new("webhooks"), Bundles::new());
    for one in configured {
        let object = match server.get(&one.path).await {
            Ok(object) => object,
            Err(why) => {
                unanswered(&mut section, &why);
                continue;
            }
        };
        let webhooks = object.get("webhooks").and_then(Value::as_array).cloned();
        let webhooks = webhooks.unwrap_or_default();
        if webhooks.is_empty() {
            section.failed(format!("`{}` has no webhooks", one.given), install());
        }
        for webhook in &webhooks {
            let text = |pointer: &str| webhook.pointer(pointer).and_then(Value::as_str);
            let name = format!("{} {}", one.given, text("/name").unwrap_or("without a name"));
            match text("/failurePolicy") {
                Some("Fail") => section.passed(format!("{name}: no answer means no pod")),
                _ => section.failed(
                    format!("{name}: `failurePolicy` is not `Fail`, so that a pod is created without its gate while no injector answers"),
                    install(),
                ),
            }
            let bundle = text("/clientConfig/caBundle").and_then(|text| STANDARD.decode(text).ok());
            let bundle = IssuedCertificate::chain(&bundle.unwrap_or_default()).unwrap_or_default();
            if bundle.iter().all(|one| one.ends <= now) {
                let why = format!(
                    "{name}: `caBundle` has no authority that is valid, so that the API server refuses every pod that asks for a gate"
                );
                section.failed(why, RENEW.to_owned());
            }
            for authority in &bundle {
                section.passed(format!(
                    "{name}: authority {} until {}",
                    short(authority),
                    authority.ends
                ));
            }
            bundles.push((name, bundle));
        }
    }
    (section, bundles)
}

/// What restores the webhooks.
fn install() -> Option<String> {
    Some("install the injector again, as deploy/README.md says".to_owned())
}

fn short(certificate: &IssuedCertificate) -> String {
    certificate.id.hex().chars().take(16).collect()
}

async fn certificate(
    server: &ApiServer,
    secret: Option<&str>,
    bundles: &Bundles,
    now: Timestamp,
) -> CheckSection {
    let mut section = CheckSection::new("certificate");
    let Some(path) = secret else {
        section.skipped("no Secret was named with `--secret`");
        return section;
    };
    let object = match server.get(path).await {
        Ok(object) => object,
        Err(why) => {
            unanswered(&mut section, &why);
            return section;
        }
    };
    let pem = object.pointer("/data/tls.crt").and_then(Value::as_str);
    let pem = pem.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    let chain = IssuedCertificate::chain(&pem).unwrap_or_default();
    let Some((leaf, above)) = chain.split_first() else {
        section.failed("the Secret has no certificate (`tls.crt`)", RENEW.to_owned());
        return section;
    };
    let said = format!("{} for {} until {}", short(leaf), leaf.names.join(", "), leaf.ends);
    if leaf.ends <= now {
        section.failed(format!("it has ended: {said}"), RENEW.to_owned());
    } else if leaf.ends <= now.plus(SOON) {
        section.warned(format!("it ends within seven days: {said}"));
    } else {
        section.passed(said);
    }
    for one in above {
        section.passed(format!("above it {} until {}", short(one), one.ends));
    }
    for (webhook, bundle) in bundles {
        let signed = |by: &IssuedCertificate| bundle.iter().any(|one| by.is_signed_by(one));
        match chain.iter().any(signed) {
            true => section.passed(format!("{webhook}: its `caBundle` has the signer")),
            false => section.failed(
                format!("{webhook}: no authority of its `caBundle` signed the certificate"),
                RENEW.to_owned(),
            ),
        }
    }
    section
}

/// What the cluster makes of one pod that asks for a gate.
async fn pod(server: &ApiServer, args: &InjectorDoctor) -> CheckSection {
    let mut section = CheckSection::new("pod");
    let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", args.namespace);
    let (profile, uid) = (&args.profile, 10_001);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "wicketgate-doctor", "labels": {"wicketgate.dev/gate": profile}},
        "spec": {"containers": [{"name": "agent", "image": "wicketgate.dev/doctor:none",
            "securityContext": {"runAsUser": uid}}]}});
    if let (Some(config), Some(metadata)) = (&args.configmap, pod.get_mut("metadata")) {
        let annotations = json!({"wicketgate.dev/config": config});
        metadata.as_object_mut().map(|of| of.insert("annotations".to_owned(), annotations));
    }
    let created = match server.post(&path, &pod).await {
        Ok(created) => created,
        Err(ApiServerError::Status { message, status, .. }) if status != 401 => {
            let hint =
                "follow the message, or name a profile and a ConfigMap that exist".to_owned();
            section.failed(format!("it would be refused: {message}"), hint);
            return section;
        }
        Err(why) => {
            unanswered(&mut section, &why);
            return section;
        }
    };
    let first = created.pointer("/spec/initContainers/0");
    let text = |name: &str| first.and_then(|one| one.get(name)).and_then(Value::as_str);
    match (text("name"), text("restartPolicy"), text("image")) {
        (Some("gate"), Some("Always"), Some(image)) => {
            section.passed(format!("it would get its gate first: {image}"));
        }
        _ => section.failed(
            format!("it would be created without a gate in `{}`", args.namespace),
            format!(
                "label the namespace: `kubectl label namespace {} wicketgate.dev/inject=enabled`",
                args.namespace
            ),
        ),
    }
    section
}
