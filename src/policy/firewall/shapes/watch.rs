//! Logs, metrics, errors, analytics and flags.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, BASE64_PADDED, DOTTED, HEX, HEX_ANY, LOWER, UPPER, URL, UUID, Vendor, shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "sentry",
        about: "token of Sentry: of an organisation or a user",
        shapes: &[
            shape!(["sntrys_"], URL_DOTTED, 80..=400),
            shape!(["sntryu_", "sntrya_", "sntryi_"], HEX, 64..=64),
        ],
    },
    Vendor {
        kind: "grafana",
        about: "token or key of Grafana",
        shapes: &[
            shape!(["glsa_"], &[Run(ALNUM, 32, 32), Is("_"), Run(HEX_ANY, 8, 8)]),
            shape!(["glc_"], BASE64_PADDED, 32..=400),
            shape!(["eyJrIjoi"], BASE64_PADDED, 60..=400),
        ],
    },
    Vendor {
        kind: "new_relic",
        about: "key of New Relic",
        shapes: &[
            shape!(["NRAK-"], UPPER, 27..=27),
            shape!(["NRJS-"], HEX, 19..=19),
            shape!(["NRII-", "NRIQ-"], URL, 32..=32),
            shape!(["NRRA-"], HEX, 42..=42),
            shape!((HEX, 36, 36), ["NRAL"], &[]),
        ],
    },
    Vendor {
        kind: "dynatrace",
        about: "token of Dynatrace",
        shapes: &[
            shape!(["dt0c01."], DYNATRACE),
            shape!(["dt0s01.", "dt0s02."], DYNATRACE_CLIENT),
            shape!(["dt0s16.", "dt0e01.", "dt0a01."], DYNATRACE_CLIENT),
        ],
    },
    Vendor {
        kind: "honeycomb",
        about: "key of Honeycomb",
        shapes: &[
            shape!(["hcaik_"], LOWER, 58..=58),
            shape!(["hcxik_"], LOWER, 58..=58),
            shape!(["hcamk_", "hcxmk_"], LOWER, 58..=58),
        ],
    },
    Vendor {
        kind: "posthog",
        about: "personal key of PostHog",
        shapes: &[shape!(["phx_"], ALNUM, 40..=64)],
    },
    Vendor {
        kind: "segment",
        about: "token of the public interface of Segment",
        shapes: &[shape!(["sgp_"], ALNUM, 64..=64)],
    },
    Vendor {
        kind: "launchdarkly",
        about: "key of LaunchDarkly",
        shapes: &[shape!(["sdk-"], UUID), shape!(["api-"], UUID)],
    },
    Vendor {
        kind: "statsig",
        about: "secret of Statsig",
        shapes: &[shape!(["secret-"], ALNUM, 40..=64)],
    },
    Vendor {
        kind: "axiom",
        about: "token of Axiom",
        shapes: &[shape!(["xaat-"], UUID), shape!(["xapt-"], UUID)],
    },
    Vendor { kind: "checkly", about: "key of Checkly", shapes: &[shape!(["cu_"], HEX, 32..=32)] },
    Vendor {
        kind: "elastic",
        about: "key of Elastic Cloud",
        shapes: &[shape!(["essu_"], BASE64_PADDED, 40..=200)],
    },
    Vendor {
        kind: "pagerduty",
        about: "key of PagerDuty",
        shapes: &[shape!(["pdus+", "pdeu+"], &[Is("_"), Run(URL, 18, 40)])],
    },
    Vendor {
        kind: "tinybird",
        about: "token of Tinybird",
        shapes: &[shape!(["p.eyJ"], DOTTED, 80..=400)],
    },
    Vendor {
        kind: "flagsmith",
        about: "server key of Flagsmith",
        shapes: &[shape!(["ser."], ALNUM, 22..=22)],
    },
];

const URL_DOTTED: super::super::shape::Alphabet = DOTTED.and("=+/");
const DYNATRACE: &[super::super::shape::Part] = &[Run(UPPER, 24, 24), Is("."), Run(UPPER, 64, 64)];
const DYNATRACE_CLIENT: &[super::super::shape::Part] =
    &[Run(UPPER, 8, 24), Is("."), Run(UPPER, 64, 64)];
