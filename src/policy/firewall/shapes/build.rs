//! Secrets' stores, infrastructure and what builds and deploys.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, BASE64, BASE64_PADDED, BECH32, HEX, LOWER, UPPER, URL, Vendor, shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "vault",
        about: "token of HashiCorp Vault: of a service, a batch, a recovery",
        shapes: &[
            shape!(["hvs."], URL, 24..=300),
            shape!(["hvb."], URL, 90..=400),
            shape!(["hvr."], URL, 24..=300),
        ],
    },
    Vendor {
        kind: "terraform",
        about: "token of HCP Terraform",
        shapes: &[shape!((ALNUM, 14, 14), [".atlasv1."], &[Run(URL, 60, 80)])],
    },
    Vendor {
        kind: "doppler",
        about: "token of Doppler: personal, of a service, a client, an account, an audit",
        shapes: &[
            shape!(["dp.pt."], ALNUM, 40..=44),
            shape!(["dp.st."], ALNUM, 40..=44),
            shape!(["dp.st."], &[Run(SLUG, 2, 35), Is("."), Run(ALNUM, 40, 44)]),
            shape!(["dp.ct."], ALNUM, 40..=44),
            shape!(["dp.sa."], ALNUM, 40..=44),
            shape!(["dp.scim.", "dp.audit."], ALNUM, 40..=44),
        ],
    },
    Vendor { kind: "pulumi", about: "token of Pulumi", shapes: &[shape!(["pul-"], HEX, 40..=40)] },
    Vendor {
        kind: "age",
        about: "secret key of age",
        shapes: &[
            shape!(["AGE-SECRET-KEY-1"], BECH32, 58..=58),
            shape!(["AGE-SECRET-KEY-PQ-1"], BECH32, 58..=120),
            shape!(["AGE-PLUGIN-"], &[Run(UPPER, 3, 20), Is("-1"), Run(BECH32, 20, 400)]),
        ],
    },
    Vendor {
        kind: "onepassword",
        about: "token of a service account of 1Password, or a secret key",
        shapes: &[
            shape!(["ops_eyJ"], BASE64_PADDED, 200..=2000),
            shape!(
                ["A3-"],
                &[
                    Run(UPPER, 6, 6),
                    Is("-"),
                    Run(UPPER, 6, 11),
                    Is("-"),
                    Run(UPPER, 5, 5),
                    Is("-"),
                    Run(UPPER, 5, 5),
                    Is("-"),
                    Run(UPPER, 5, 5),
                ]
            ),
        ],
    },
    Vendor {
        kind: "infisical",
        about: "token of Infisical",
        shapes: &[shape!(
            ["st."],
            &[Run(HEX, 24, 24), Is("."), Run(HEX, 32, 32), Is("."), Run(HEX, 32, 32)]
        )],
    },
    Vendor {
        kind: "circleci",
        about: "token of CircleCI",
        shapes: &[shape!(["CCIPAT_", "CCIPRJ_"], &[Run(ALNUM, 22, 22), Is("_"), Run(HEX, 40, 40)])],
    },
    Vendor {
        kind: "buildkite",
        about: "token of Buildkite",
        shapes: &[
            shape!(["bkua_"], HEX, 40..=40),
            shape!(["bkaj_", "bkct_", "bkpt_"], ALNUM, 40..=64),
        ],
    },
    Vendor {
        kind: "harness",
        about: "token of Harness",
        shapes: &[shape!(
            ["pat.", "sat."],
            &[Run(URL, 22, 22), Is("."), Run(HEX, 24, 24), Is("."), Run(ALNUM, 20, 20)]
        )],
    },
    Vendor {
        kind: "octopus",
        about: "key of Octopus Deploy",
        shapes: &[shape!(["API-"], UPPER, 25..=32)],
    },
    Vendor {
        kind: "prefect",
        about: "key of Prefect",
        shapes: &[shape!(["pnu_", "pnb_"], ALNUM, 36..=36)],
    },
    Vendor {
        kind: "dbt",
        about: "token of dbt Cloud",
        shapes: &[shape!(["dbtc_", "dbtu_"], URL, 36..=64)],
    },
    Vendor {
        kind: "wireguard",
        about: "private key of WireGuard",
        shapes: &[shape!(["PrivateKey = "], &[Run(BASE64, 43, 43), Is("=")])],
    },
    Vendor {
        kind: "minisign",
        about: "secret key of minisign or of signify",
        shapes: &[shape!(["RWRTY0Iy"], BASE64_PADDED, 150..=280)],
    },
];

const SLUG: super::super::shape::Alphabet = LOWER.and("_-");
