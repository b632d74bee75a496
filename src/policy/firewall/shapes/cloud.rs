//! Clouds, hosting, databases and networks.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, BASE32, BASE64, BASE64_PADDED, DIGIT, DOTTED, HEX, LOWER, UPPER, URL, Vendor, WORD,
    shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "aws_key_id",
        about: "access key id of Amazon Web Services, of a user or for a session",
        shapes: &[
            shape!(["AKIA"], BASE32, 16..=16),
            shape!(["ASIA"], BASE32, 16..=16),
            shape!(["ABIA"], BASE32, 16..=16),
            shape!(["ACCA"], BASE32, 16..=16),
        ],
    },
    Vendor {
        kind: "aws_bedrock",
        about: "key of Amazon Bedrock",
        shapes: &[
            shape!(["ABSKQmVkcm9ja0FQSUtleS"], BASE64_PADDED, 80..=200),
            shape!(["bedrock-api-key-"], BASE64_PADDED, 100..=4096),
        ],
    },
    Vendor {
        kind: "google_key",
        about: "key of Google Cloud and Google Maps",
        shapes: &[shape!(["AIza"], URL, 35..=35)],
    },
    Vendor {
        kind: "google_oauth",
        about: "OAuth client secret, access token or refresh token of Google",
        shapes: &[
            shape!(["GOCSPX-"], URL, 28..=28),
            shape!(["ya29."], DOTTED, 30..=2048),
            shape!(["1//0"], URL, 40..=200),
        ],
    },
    Vendor {
        kind: "google_hmac",
        about: "HMAC key id of Google Cloud Storage",
        shapes: &[shape!(["GOOG1E"], UPPER, 55..=55), shape!(["GOOG"], UPPER, 20..=20)],
    },
    Vendor {
        kind: "azure",
        about: "secret of Microsoft Azure: of an application, an account, a service",
        shapes: &[
            // The client secret of an application.
            shape!(
                (DOTTED, 4, 4),
                ["0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"],
                &[Run(TILDE, 31, 34)]
            ),
            // Keys whose place and letters say which service they are of.
            shape!((BASE64, 76, 76), ["+ASt", "+ABa", "ACDb"], &[Run(BASE64, 6, 6), Is("==")]),
            shape!(
                (BASE64, 33, 33),
                ["+AEh", "+ASb", "+ARm", "AIoT"],
                &[Run(BASE64, 6, 6), Is("=")]
            ),
            shape!((BASE64, 42, 44), ["AzSe", "AzCa", "AzFu"], &[Run(BASE64_PADDED, 4, 12)]),
            shape!((ALNUM, 52, 52), ["JQQJ99"], &[Run(ALNUM, 26, 26)]),
            shape!((ALNUM, 76, 76), ["AZDO"], &[Run(ALNUM, 4, 4)]),
        ],
    },
    Vendor {
        kind: "azure_connection",
        about: "connection string or shared access key of Microsoft Azure",
        shapes: &[
            shape!(["AccountKey="], &[Run(BASE64, 86, 86), Is("==")]),
            shape!(["SharedAccessKey="], &[Run(BASE64, 43, 43), Is("=")]),
            shape!(["SharedAccessSignature sr="], SIGNED, 60..=1024),
        ],
    },
    Vendor {
        kind: "alibaba",
        about: "access key id of Alibaba Cloud",
        shapes: &[shape!(["LTAI"], ALNUM, 16..=26)],
    },
    Vendor {
        kind: "tencent",
        about: "secret id of Tencent Cloud",
        shapes: &[shape!(["AKID"], ALNUM, 32..=32)],
    },
    Vendor {
        kind: "digitalocean",
        about: "token of DigitalOcean: personal, OAuth, to refresh, of Spaces",
        shapes: &[
            shape!(["dop_v1_"], HEX, 64..=64),
            shape!(["doo_v1_"], HEX, 64..=64),
            shape!(["dor_v1_"], HEX, 64..=64),
            shape!(["DO00"], UPPER, 16..=16),
        ],
    },
    Vendor {
        kind: "scaleway",
        about: "access key of Scaleway",
        shapes: &[shape!(["SCW"], UPPER, 17..=17)],
    },
    Vendor {
        kind: "yandex",
        about: "key or token of Yandex Cloud",
        shapes: &[
            shape!(["AQVN"], URL, 35..=38),
            shape!(["YCAJE"], URL, 20..=20),
            shape!(["y0_"], URL, 50..=100),
            shape!(["t1."], &[Run(URL, 90, 300), Is("."), Run(URL, 80, 120)]),
        ],
    },
    Vendor { kind: "exoscale", about: "key of Exoscale", shapes: &[shape!(["EXO"], HEX, 24..=24)] },
    Vendor {
        kind: "cloudflare_origin",
        about: "origin certificate key of Cloudflare",
        shapes: &[shape!(["v1.0-"], &[Run(HEX, 24, 24), Is("-"), Run(HEX, 146, 146)])],
    },
    Vendor {
        kind: "cloudflare",
        about: "token of Cloudflare: of a user or an account",
        shapes: &[shape!(["cfut_", "cfat_", "cfk_"], WORD, 40..=64)],
    },
    Vendor { kind: "heroku", about: "key of Heroku", shapes: &[shape!(["HRKU-"], URL, 36..=80)] },
    Vendor {
        kind: "fly_io",
        about: "token of Fly.io",
        shapes: &[
            shape!(["fm1r_", "fm1a_", "fm2_"], BASE64_PADDED, 80..=4096),
            shape!(["fo1_"], URL, 43..=43),
        ],
    },
    Vendor {
        kind: "vercel",
        about: "token of Vercel",
        shapes: &[shape!(["vcp_", "vci_", "vca_", "vcr_", "vck_"], ALNUM, 56..=64)],
    },
    Vendor {
        kind: "vercel_blob",
        about: "token of the blob store of Vercel",
        shapes: &[shape!(["vercel_blob_rw_"], &[Run(ALNUM, 16, 16), Is("_"), Run(ALNUM, 30, 40)])],
    },
    Vendor {
        kind: "netlify",
        about: "token of Netlify",
        shapes: &[shape!(["nfp_", "nfo_", "nfc_", "nfb_"], ALNUM, 36..=40)],
    },
    Vendor { kind: "render", about: "key of Render", shapes: &[shape!(["rnd_"], ALNUM, 28..=40)] },
    Vendor {
        kind: "supabase",
        about: "token or secret key of Supabase",
        shapes: &[
            shape!(["sbp_"], HEX, 40..=40),
            shape!(["sbp_oauth_"], HEX, 40..=40),
            shape!(["sb_secret_"], URL, 31..=64),
        ],
    },
    Vendor {
        kind: "planetscale",
        about: "password or token of PlanetScale",
        shapes: &[
            shape!(["pscale_pw_"], DOTTED, 32..=64),
            shape!(["pscale_tkn_"], DOTTED, 32..=64),
            shape!(["pscale_oauth_"], DOTTED, 32..=64),
        ],
    },
    Vendor {
        kind: "neon",
        about: "key or password of Neon",
        shapes: &[shape!(["napi_"], LOWER, 40..=64), shape!(["npg_"], ALNUM, 12..=32)],
    },
    Vendor {
        kind: "mongodb_atlas",
        about: "service account secret of MongoDB Atlas",
        shapes: &[shape!(["mdb_sa_sk_"], URL, 40..=64)],
    },
    Vendor {
        kind: "databricks",
        about: "token of Databricks",
        shapes: &[
            shape!(["dapi"], HEX, 32..=32),
            shape!(["dapi"], &[Run(HEX, 32, 32), Is("-"), Run(DIGIT, 1, 2)]),
            shape!(["dose"], HEX, 32..=32),
        ],
    },
    Vendor {
        kind: "aiven",
        about: "password of a service at Aiven",
        shapes: &[shape!(["AVNS_"], URL, 19..=24)],
    },
    Vendor {
        kind: "tailscale",
        about: "key of Tailscale: for machines, for its interface, for clients",
        shapes: &[
            shape!(["tskey-auth-"], URL, 20..=80),
            shape!(["tskey-api-"], URL, 20..=80),
            shape!(["tskey-client-"], URL, 20..=80),
            shape!(["tskey-scim-", "tskey-webhook-"], URL, 20..=80),
        ],
    },
    Vendor {
        kind: "openshift",
        about: "token of OpenShift",
        shapes: &[shape!(["sha256~"], URL, 43..=43)],
    },
    Vendor {
        kind: "rancher",
        about: "token of Rancher",
        shapes: &[shape!(["token-"], &[Run(LOWER, 5, 5), Is(":"), Run(LOWER, 54, 54)])],
    },
    Vendor {
        kind: "upcloud",
        about: "token of UpCloud",
        shapes: &[shape!(["ucat_"], BASE32_ANY, 26..=26)],
    },
    Vendor {
        kind: "backblaze",
        about: "application key of Backblaze B2",
        shapes: &[shape!(["K001", "K002", "K003", "K004", "K005"], BASE64, 27..=27)],
    },
    Vendor {
        kind: "convex",
        about: "deploy key of Convex",
        shapes: &[shape!(
            ["prod:", "dev:"],
            &[Run(SLUG, 8, 40), Is("|"), Run(BASE64_PADDED, 60, 400)]
        )],
    },
];

/// What a client secret has.
const TILDE: super::super::shape::Alphabet = DOTTED.and("~");
/// What a signed address has.
const SIGNED: super::super::shape::Alphabet = DOTTED.and("%&=+/");
const SLUG: super::super::shape::Alphabet = LOWER.and("-");
const BASE32_ANY: super::super::shape::Alphabet = UPPER;
