//! Payments, banks and shops.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{ALNUM, BASE64_PADDED, DIGIT, HEX, LOWER, URL, UUID, Vendor, shape};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "stripe",
        about: "secret or restricted key of Stripe and of services that write theirs alike",
        shapes: &[
            shape!(["sk_live_"], ALNUM, 20..=247),
            shape!(["rk_live_"], ALNUM, 20..=247),
            shape!(Test["sk_test_", "rk_test_"], &[Run(ALNUM, 20, 247)]),
        ],
    },
    Vendor {
        kind: "webhook_secret",
        about: "secret that signs webhooks",
        shapes: &[shape!(["whsec_"], BASE64_PADDED, 32..=88)],
    },
    Vendor {
        kind: "square",
        about: "token or secret of Square",
        shapes: &[
            shape!(["EAAAE", "EAAAF", "EAAAl"], URL, 59..=59),
            shape!(["sq0atp-"], URL, 22..=22),
            shape!(["sq0csp-"], URL, 43..=43),
        ],
    },
    Vendor {
        kind: "braintree",
        about: "access token of Braintree",
        shapes: &[
            shape!(["access_token$production$"], &[Run(LOWER, 16, 16), Is("$"), Run(HEX, 32, 32)]),
            shape!(Test["access_token$sandbox$"], &[Run(LOWER, 16, 16), Is("$"), Run(HEX, 32, 32)]),
        ],
    },
    Vendor {
        kind: "plaid",
        about: "access token of Plaid",
        shapes: &[
            shape!(["access-production-", "access-development-"], UUID),
            shape!(Test["access-sandbox-"], UUID),
        ],
    },
    Vendor {
        kind: "razorpay",
        about: "key of Razorpay",
        shapes: &[
            shape!(["rzp_live_"], ALNUM, 14..=24),
            shape!(Test["rzp_test_"], &[Run(ALNUM, 14, 24)]),
        ],
    },
    Vendor {
        kind: "flutterwave",
        about: "secret key of Flutterwave",
        shapes: &[
            shape!(["FLWSECK-"], &[Run(LOWER, 32, 45), Is("-X")]),
            shape!(Test["FLWSECK_TEST-"], &[Run(LOWER, 20, 45)]),
        ],
    },
    Vendor {
        kind: "mollie",
        about: "key or token of Mollie",
        shapes: &[shape!(["live_"], ALNUM, 30..=36), shape!(["access_"], ALNUM, 40..=48)],
    },
    Vendor {
        kind: "gocardless",
        about: "token of GoCardless",
        shapes: &[shape!(["live_"], URL, 40..=40)],
    },
    Vendor {
        kind: "shopify",
        about: "token or secret of Shopify",
        shapes: &[
            shape!(["shpat_"], HEX, 32..=32),
            shape!(["shpca_"], HEX, 32..=32),
            shape!(["shppa_"], HEX, 32..=32),
            shape!(["shpss_"], HEX, 32..=32),
            shape!(["shptka_"], HEX, 32..=32),
            shape!(["shpua_", "shpatf_"], HEX, 32..=32),
        ],
    },
    Vendor {
        kind: "easypost",
        about: "key of EasyPost",
        shapes: &[shape!(["EZAK"], ALNUM, 54..=54), shape!(Test["EZTK"], &[Run(ALNUM, 54, 54)])],
    },
    Vendor {
        kind: "shippo",
        about: "token of Shippo",
        shapes: &[
            shape!(["shippo_live_"], HEX, 40..=40),
            shape!(Test["shippo_test_"], &[Run(HEX, 40, 40)]),
        ],
    },
    Vendor {
        kind: "duffel",
        about: "token of Duffel",
        shapes: &[
            shape!(["duffel_live_"], URL, 43..=43),
            shape!(Test["duffel_test_"], &[Run(URL, 43, 43)]),
        ],
    },
    Vendor {
        kind: "amazon_shop",
        about: "token of Amazon Marketplace or of Login with Amazon",
        shapes: &[shape!(["amzn.mws."], UUID), shape!(["amzn1.oa2-cs.v1."], HEX, 64..=64)],
    },
    Vendor {
        kind: "klarna",
        about: "key of Klarna",
        shapes: &[shape!(["klarna_live_api_"], URL, 40..=400)],
    },
    Vendor {
        kind: "paddle",
        about: "key of Paddle",
        shapes: &[
            shape!(
                ["pdl_live_apikey_"],
                &[Run(LOWER, 26, 26), Is("_"), Run(ALNUM, 22, 22), Is("_"), Run(ALNUM, 3, 3)]
            ),
            shape!(["pdl_ntfset_"], &[Run(LOWER, 26, 26), Is("_"), Run(ALNUM, 32, 32)]),
        ],
    },
    Vendor {
        kind: "xendit",
        about: "key of Xendit",
        shapes: &[shape!(["xnd_production_"], ALNUM, 40..=80)],
    },
    Vendor {
        kind: "midtrans",
        about: "server key of Midtrans",
        shapes: &[shape!(["Mid-server-"], URL, 24..=32)],
    },
    Vendor {
        kind: "mercadopago",
        about: "access token of Mercado Pago",
        shapes: &[shape!(
            ["APP_USR-"],
            &[
                Run(DIGIT, 13, 17),
                Is("-"),
                Run(DIGIT, 6, 6),
                Is("-"),
                Run(HEX, 32, 32),
                Is("-"),
                Run(DIGIT, 6, 12),
            ]
        )],
    },
    Vendor {
        kind: "checkout",
        about: "secret key of Checkout.com",
        shapes: &[shape!(["sk_"], UUID)],
    },
    Vendor {
        kind: "polar",
        about: "access token of Polar",
        shapes: &[shape!(["polar_oat_", "polar_pat_"], ALNUM, 40..=64)],
    },
    Vendor {
        kind: "wallet_key",
        about: "extended private key of a wallet",
        shapes: &[shape!(["xprv9"], ALNUM, 105..=108)],
    },
    Vendor {
        kind: "alchemy",
        about: "token of Alchemy",
        shapes: &[shape!(["alcht_"], ALNUM, 30..=30)],
    },
];
