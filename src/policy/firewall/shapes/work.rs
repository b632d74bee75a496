//! Documents, tasks, design, customers and forms.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, DIGIT, DOTTED, HEX, HEX_ANY, LOWER, UPPER, URL, URL_PADDED, UUID, Vendor, shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "atlassian",
        about: "token of Atlassian: of a user or an organisation",
        shapes: &[
            shape!(["ATATT3xFfGF0"], URL_PADDED, 160..=240),
            shape!(["ATSTT3xFfG", "ATOATT3xFfG"], URL_PADDED, 120..=240),
        ],
    },
    Vendor {
        kind: "linear",
        about: "key or token of Linear",
        shapes: &[
            shape!(["lin_api_"], ALNUM, 40..=40),
            shape!(["lin_oauth_"], HEX, 64..=64),
            shape!(["lin_wh_"], ALNUM, 40..=40),
        ],
    },
    Vendor {
        kind: "notion",
        about: "token of Notion",
        shapes: &[shape!(["ntn_"], ALNUM, 43..=60), shape!(["secret_"], ALNUM, 43..=43)],
    },
    Vendor {
        kind: "airtable",
        about: "token of Airtable",
        shapes: &[shape!(["pat"], &[Run(ALNUM, 14, 14), Is("."), Run(HEX, 64, 64)])],
    },
    Vendor {
        kind: "asana",
        about: "token of Asana",
        shapes: &[shape!(
            ["2/1"],
            &[Run(DIGIT, 9, 20), Is("/"), Run(DIGIT, 10, 20), Is(":"), Run(HEX, 32, 32)]
        )],
    },
    Vendor {
        kind: "clickup",
        about: "token of ClickUp",
        shapes: &[shape!(["pk_"], &[Run(DIGIT, 5, 10), Is("_"), Run(UPPER, 32, 32)])],
    },
    Vendor {
        kind: "trello",
        about: "token of Trello",
        shapes: &[shape!(["ATTA"], HEX_ANY, 64..=76)],
    },
    Vendor {
        kind: "figma",
        about: "token of Figma",
        shapes: &[shape!(["figd_", "figu_", "figo_"], URL, 38..=48)],
    },
    Vendor {
        kind: "typeform",
        about: "token of Typeform",
        shapes: &[shape!(["tfp_"], DOTTED, 40..=64)],
    },
    Vendor {
        kind: "hubspot",
        about: "token of HubSpot",
        shapes: &[shape!(["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], UUID)],
    },
    Vendor {
        kind: "salesforce",
        about: "session id or access token of Salesforce",
        shapes: &[
            shape!(["00D"], &[Run(ALNUM, 12, 15), Is("!"), Run(DOTTED, 80, 400)]),
            shape!(["5Aep861"], DOTTED, 70..=120),
        ],
    },
    Vendor {
        kind: "contentful",
        about: "token of Contentful",
        shapes: &[shape!(["CFPAT-"], URL, 43..=43)],
    },
    Vendor {
        kind: "mapbox",
        about: "secret token of Mapbox",
        shapes: &[shape!(["sk.eyJ"], DOTTED, 70..=200)],
    },
    Vendor {
        kind: "zoho",
        about: "token of Zoho",
        shapes: &[shape!(["1000."], &[Run(HEX, 32, 32), Is("."), Run(HEX, 32, 32)])],
    },
    Vendor {
        kind: "cal_com",
        about: "key of Cal.com",
        shapes: &[shape!(["cal_live_"], HEX, 32..=32)],
    },
    Vendor {
        kind: "adobe",
        about: "client secret of Adobe",
        shapes: &[shape!(["p8e-"], URL, 32..=40)],
    },
    Vendor {
        kind: "frame_io",
        about: "token of Frame.io",
        shapes: &[shape!(["fio-u-"], URL_PADDED, 64..=64)],
    },
    Vendor { kind: "canva", about: "secret of Canva", shapes: &[shape!(["cnvca"], URL, 40..=80)] },
    Vendor {
        kind: "liveblocks",
        about: "secret key of Liveblocks",
        shapes: &[shape!(["sk_prod_", "sk_dev_"], URL, 60..=80)],
    },
    Vendor { kind: "wix", about: "key of Wix", shapes: &[shape!(["IST.eyJ"], DOTTED, 200..=2000)] },
    Vendor {
        kind: "retool",
        about: "token of Retool",
        shapes: &[shape!(["retool_01"], LOWER, 24..=26)],
    },
    Vendor {
        kind: "courier",
        about: "key of Courier",
        shapes: &[shape!(["pk_prod_"], UPPER, 28..=28)],
    },
    Vendor {
        kind: "unkey",
        about: "root key of Unkey",
        shapes: &[shape!(["unkey_"], ALNUM, 22..=40)],
    },
];
