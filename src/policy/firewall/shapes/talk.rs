//! Messages, mail, telephony and social networks.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, Alphabet, BASE64, BASE64_PADDED, DIGIT, DOTTED, HEX, LOWER, UPPER, URL, Vendor, WORD,
    shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "slack",
        about: "token of Slack: of a bot, a user, an application, to refresh, of a browser",
        shapes: &[
            shape!(["xoxb-"], SLACK),
            shape!(["xoxp-", "xoxo-"], URL, 40..=255),
            shape!(["xoxa-", "xoxr-", "xoxs-", "xoxc-"], URL, 20..=255),
            shape!(["xoxe-", "xoxe.xoxp-", "xoxe.xoxb-"], URL, 100..=255),
            shape!(["xoxd-"], ESCAPED, 100..=400),
            shape!(
                ["xapp-"],
                &[
                    Run(DIGIT, 1, 1),
                    Is("-"),
                    Run(UPPER, 9, 14),
                    Is("-"),
                    Run(DIGIT, 10, 14),
                    Is("-"),
                    Run(LOWER, 40, 80)
                ]
            ),
        ],
    },
    Vendor {
        kind: "slack_webhook",
        about: "address of a webhook of Slack",
        shapes: &[
            shape!(
                Address["hooks.slack.com/services/"],
                &[Run(UPPER, 8, 14), Is("/"), Run(UPPER, 8, 14), Is("/"), Run(ALNUM, 20, 30)]
            ),
            shape!(Address["hooks.slack.com/workflows/", "hooks.slack.com/triggers/"], &[Run(UPPER, 8, 14), Is("/"), Run(PATH, 30, 120)]),
        ],
    },
    Vendor {
        kind: "discord_webhook",
        about: "address of a webhook of Discord",
        shapes: &[shape!(
            Address["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
            &[Run(DIGIT, 17, 20), Is("/"), Run(URL, 60, 80)]
        )],
    },
    Vendor {
        kind: "teams_webhook",
        about: "address of a webhook of Microsoft Teams",
        shapes: &[shape!(
            Address["webhook.office.com/webhookb2/", "outlook.office.com/webhook/"],
            &[Run(MAIL_PATH, 80, 300)]
        )],
    },
    Vendor {
        kind: "zapier_webhook",
        about: "address of a webhook of Zapier",
        shapes: &[shape!(
            Address["hooks.zapier.com/hooks/catch/"],
            &[Run(DIGIT, 5, 10), Is("/"), Run(LOWER, 5, 10)]
        )],
    },
    Vendor {
        kind: "telegram",
        about: "token of a bot of Telegram",
        shapes: &[shape!((DIGIT, 8, 10), [":AA"], &[Run(URL, 33, 33)])],
    },
    Vendor {
        kind: "twilio",
        about: "key of Twilio",
        shapes: &[shape!(
            [
                "SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb",
                "SKc", "SKd", "SKe", "SKf"
            ],
            HEX,
            31..=31
        )],
    },
    Vendor {
        kind: "sendgrid",
        about: "key of SendGrid",
        shapes: &[shape!(["SG."], &[Run(URL, 16, 32), Is("."), Run(URL, 32, 64)])],
    },
    Vendor { kind: "mailgun", about: "key of Mailgun", shapes: &[shape!(["key-"], HEX, 32..=32)] },
    Vendor {
        kind: "mailchimp",
        about: "key of Mailchimp",
        shapes: &[shape!((HEX, 32, 32), ["-us"], &[Run(DIGIT, 1, 2)])],
    },
    Vendor {
        kind: "brevo",
        about: "key of Brevo",
        shapes: &[shape!(
            ["xkeysib-", "xsmtpsib-"],
            &[Run(HEX, 64, 64), Is("-"), Run(ALNUM, 16, 16)]
        )],
    },
    Vendor {
        kind: "resend",
        about: "key of Resend",
        shapes: &[shape!(["re_"], &[Run(ALNUM, 8, 8), Is("_"), Run(ALNUM, 24, 24)])],
    },
    Vendor {
        kind: "mailersend",
        about: "token of MailerSend",
        shapes: &[shape!(["mlsn."], HEX, 64..=64)],
    },
    Vendor {
        kind: "intercom",
        about: "token of Intercom",
        shapes: &[shape!(["dG9rO"], BASE64_PADDED, 50..=80)],
    },
    Vendor {
        kind: "facebook",
        about: "access token of Facebook or Instagram",
        shapes: &[
            shape!(["EAACEdEose0cBA"], ALNUM, 20..=300),
            shape!(["EAAM", "EAAC", "EAAG", "EAAB", "EAAJ"], ALNUM, 100..=400),
            shape!(["IGQV", "IGAA"], URL, 80..=300),
        ],
    },
    Vendor {
        kind: "twitter",
        about: "bearer token of X",
        shapes: &[shape!(["AAAAAAAAAAAAAAAAAAAAA"], ESCAPED, 80..=120)],
    },
    Vendor {
        kind: "pinterest",
        about: "token of Pinterest",
        shapes: &[shape!(["pina_"], WORD, 32..=80)],
    },
    Vendor {
        kind: "tiktok",
        about: "token of TikTok",
        shapes: &[shape!(["clt.", "act."], &[Run(ALNUM, 50, 80), Is("!"), Run(DOTTED, 4, 16)])],
    },
    Vendor {
        kind: "linkedin",
        about: "client secret of LinkedIn",
        shapes: &[shape!(["WPL_AP1."], &[Run(ALNUM, 16, 16), Is("."), Run(BASE64_PADDED, 8, 12)])],
    },
    Vendor {
        kind: "dropbox",
        about: "token of Dropbox",
        shapes: &[shape!(["sl."], URL, 130..=1500), shape!(["sl.u."], URL, 130..=1500)],
    },
    Vendor {
        kind: "matrix",
        about: "access token of Matrix",
        shapes: &[shape!(
            ["syt_"],
            &[Run(BASE64, 4, 80), Is("_"), Run(ALNUM, 20, 20), Is("_"), Run(ALNUM, 6, 6)]
        )],
    },
    Vendor {
        kind: "onesignal",
        about: "key of OneSignal",
        shapes: &[shape!(["os_v2_app_", "os_v2_org_"], LOWER, 90..=110)],
    },
    Vendor {
        kind: "klaviyo",
        about: "private key of Klaviyo",
        shapes: &[shape!(["pk_"], HEX, 34..=34)],
    },
    Vendor {
        kind: "stytch",
        about: "secret of Stytch",
        shapes: &[
            shape!(["secret-live-"], URL_END, 30..=60),
            shape!(Test["secret-test-"], &[Run(URL_END, 30, 60)]),
        ],
    },
];

/// Digits, digits and a secret.
const SLACK: &[super::super::shape::Part] =
    &[Run(DIGIT, 9, 14), Is("-"), Run(DIGIT, 9, 14), Is("-"), Run(ALNUM, 20, 40)];
/// A token that was escaped for a URL.
const ESCAPED: Alphabet = ALNUM.and("%+/=-_");
const PATH: Alphabet = URL.and("/");
const MAIL_PATH: Alphabet = URL.and("/@");
const URL_END: Alphabet = URL.and("=");
