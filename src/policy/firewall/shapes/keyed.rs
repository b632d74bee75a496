//! Keys that look like any digest or number: a name of their vendor beside them tells.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, BASE64, BASE64_PADDED, DIGIT, DOTTED, HEX, Keyed, LOWER, Part, URL, UUID,
};

const HEX32: &[Part] = &[Run(HEX, 32, 32)];
const HEX40: &[Part] = &[Run(HEX, 40, 40)];
const HEX64: &[Part] = &[Run(HEX, 64, 64)];

/// Their names and values.
pub(super) const KEYED: &[Keyed] = &[
    Keyed {
        kind: "aws_secret",
        about: "secret access key of Amazon Web Services",
        names: &[
            "secret_access_key",
            "secretaccesskey",
            "aws_secret",
            "aws-secret",
            "secret access key",
        ],
        bodies: &[&[Run(BASE64, 40, 40)]],
    },
    Keyed {
        kind: "aws_session",
        about: "session token of Amazon Web Services",
        names: &["aws_session_token", "awssessiontoken", "x-amz-security-token"],
        bodies: &[&[Run(BASE64_PADDED, 100, 2048)]],
    },
    Keyed {
        kind: "datadog",
        about: "key of Datadog",
        names: &["datadog", "dd_api_key", "dd-api-key", "dd_app_key", "dd-application-key"],
        bodies: &[HEX32, HEX40],
    },
    Keyed {
        kind: "cloudflare_key",
        about: "key or token of Cloudflare",
        names: &["cloudflare", "cf_api", "cf-api"],
        bodies: &[&[Run(URL, 40, 40)], &[Run(HEX, 37, 37)]],
    },
    Keyed { kind: "heroku_key", about: "key of Heroku", names: &["heroku"], bodies: &[UUID] },
    Keyed {
        kind: "twilio_auth",
        about: "auth token of Twilio",
        names: &["twilio"],
        bodies: &[HEX32],
    },
    Keyed { kind: "algolia", about: "key of Algolia", names: &["algolia"], bodies: &[HEX32] },
    Keyed {
        kind: "fastly",
        about: "token of Fastly",
        names: &["fastly"],
        bodies: &[&[Run(URL, 32, 32)]],
    },
    Keyed {
        kind: "mailgun_key",
        about: "key of Mailgun",
        names: &["mailgun"],
        bodies: &[&[Run(HEX, 32, 32), Is("-"), Run(HEX, 8, 8), Is("-"), Run(HEX, 8, 8)], HEX32],
    },
    Keyed {
        kind: "okta",
        about: "token of Okta",
        names: &["okta", "ssws"],
        bodies: &[&[Is("00"), Run(URL, 40, 40)]],
    },
    Keyed {
        kind: "facebook_secret",
        about: "secret of an application of Facebook",
        names: &["facebook", "fb_app", "fb_secret"],
        bodies: &[HEX32],
    },
    Keyed { kind: "snyk", about: "token of Snyk", names: &["snyk"], bodies: &[UUID] },
    Keyed {
        kind: "wandb_key",
        about: "key of Weights & Biases",
        names: &["wandb"],
        bodies: &[HEX40],
    },
    Keyed {
        kind: "mistral",
        about: "key of Mistral",
        names: &["mistral"],
        bodies: &[&[Run(ALNUM, 32, 32)]],
    },
    Keyed {
        kind: "cohere",
        about: "key of Cohere",
        names: &["cohere", "co_api_key"],
        bodies: &[&[Run(ALNUM, 40, 40)]],
    },
    Keyed { kind: "deepgram", about: "key of Deepgram", names: &["deepgram"], bodies: &[HEX40] },
    Keyed { kind: "linode", about: "token of Linode", names: &["linode"], bodies: &[HEX64] },
    Keyed {
        kind: "hetzner",
        about: "token of Hetzner Cloud",
        names: &["hcloud", "hetzner"],
        bodies: &[&[Run(ALNUM, 64, 64)]],
    },
    Keyed {
        kind: "ngrok",
        about: "token of ngrok",
        names: &["ngrok"],
        bodies: &[&[Run(ALNUM, 25, 30), Is("_"), Run(ALNUM, 20, 24)]],
    },
    Keyed {
        kind: "zendesk",
        about: "token of Zendesk",
        names: &["zendesk"],
        bodies: &[&[Run(ALNUM, 40, 40)]],
    },
    Keyed {
        kind: "influxdb",
        about: "token of InfluxDB",
        names: &["influx"],
        bodies: &[&[Run(URL, 86, 86), Is("==")]],
    },
    Keyed { kind: "splunk", about: "token of Splunk", names: &["splunk"], bodies: &[UUID] },
    Keyed {
        kind: "opsgenie",
        about: "key of Opsgenie",
        names: &["opsgenie", "geniekey"],
        bodies: &[UUID],
    },
    Keyed { kind: "postmark", about: "token of Postmark", names: &["postmark"], bodies: &[UUID] },
    Keyed {
        kind: "rapidapi",
        about: "key of RapidAPI",
        names: &["rapidapi"],
        bodies: &[&[Run(ALNUM, 50, 50)]],
    },
    Keyed {
        kind: "asana_token",
        about: "token of Asana",
        names: &["asana"],
        bodies: &[&[Is("1/"), Run(DIGIT, 12, 20), Is(":"), Run(HEX, 32, 32)]],
    },
    Keyed {
        kind: "npm_legacy",
        about: "older token of an npm registry",
        names: &["_authtoken"],
        bodies: &[UUID, &[Run(DOTTED, 20, 300)]],
    },
    Keyed {
        kind: "vault_legacy",
        about: "older token of HashiCorp Vault",
        names: &["vault_token", "vault-token"],
        bodies: &[&[Is("s."), Run(ALNUM, 24, 24)]],
    },
    Keyed {
        kind: "jenkins",
        about: "token of Jenkins",
        names: &["jenkins"],
        bodies: &[&[Is("11"), Run(HEX, 32, 32)]],
    },
    Keyed {
        kind: "gitea",
        about: "token of Gitea or Forgejo",
        names: &["gitea", "forgejo", "codeberg"],
        bodies: &[HEX40],
    },
    Keyed {
        kind: "consul",
        about: "token of HashiCorp Consul or Nomad",
        names: &["consul", "nomad"],
        bodies: &[UUID],
    },
    Keyed {
        kind: "discord_secret",
        about: "client secret of Discord",
        names: &["discord"],
        bodies: &[&[Run(URL, 32, 32)]],
    },
    Keyed {
        kind: "azure_devops",
        about: "older token of Azure DevOps",
        names: &["azure_devops", "azuredevops", "azdo", "vsts"],
        bodies: &[&[Run(LOWER, 52, 52)]],
    },
    Keyed {
        kind: "etherscan",
        about: "key of a service around a chain",
        names: &["infura", "etherscan"],
        bodies: &[HEX32, &[Run(ALNUM, 34, 34)]],
    },
];
