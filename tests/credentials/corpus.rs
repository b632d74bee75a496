//! A corpus of invented secrets, numbers of persons and look-alikes, made from a seed, through the gate: keys of
//! vendors as they are and in each encoding that a recipient undoes, findings beside and within each other, and texts
//! that are none.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::world::World;

/// Numbers by a seed (SplitMix64).
pub struct Seeded(pub u64);

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
const DIGITS: &str = "123456789";

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn text(&mut self, letters: &str, length: usize) -> String {
        let letters = letters.as_bytes();
        let count = u64::try_from(letters.len()).unwrap();
        let mut one = || letters[usize::try_from(self.next() % count).unwrap()];
        (0..length).map(|_| char::from(one())).collect()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn pem(&mut self, label: &str, length: usize) -> String {
        let body = STANDARD.encode(self.bytes(length));
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", lines.join("\n"))
    }

    fn jwt(&mut self, head: &str) -> String {
        let claims = json!({"sub": self.text(ALNUM, 12), "exp": 1_900_000_000}).to_string();
        let parts = [head.as_bytes().to_vec(), claims.into_bytes(), self.bytes(128)];
        parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    /// A key of each of these vendors.
    pub fn keys(&mut self) -> Vec<(&'static str, String)> {
        let mut key =
            |prefix: &str, letters: &str, length| prefix.to_owned() + &self.text(letters, length);
        let mut all = vec![
            ("aws_key_id", key("AKIA", BASE32, 16)),
            ("github", key("ghp_", ALNUM, 36)),
            ("github", key("github_pat_", ALNUM, 82)),
            ("gitlab", key("glpat-", ALNUM, 20)),
            ("stripe", key("sk_live_", ALNUM, 24)),
            ("anthropic", key("sk-ant-api03-", ALNUM, 93) + "AA"),
            ("google_key", key("AIza", ALNUM, 35)),
            ("npm", key("npm_", ALNUM, 36)),
            ("pypi", key("pypi-AgEIcHlwaS5vcmc", ALNUM, 60)),
            ("twilio", key("SK", HEX, 32)),
            ("huggingface", key("hf_", ALNUM, 34)),
            ("vault", key("hvs.", ALNUM, 95)),
            ("age", key("AGE-SECRET-KEY-1", BECH32, 58)),
            ("url_password", key("postgres://svc:", ALNUM, 20) + "@db.test:5432/app"),
            ("url_password", key("https://svc:", ALNUM, 20) + "@api.test/"),
            ("authorization", key("Authorization: Bearer ", ALNUM, 40)),
        ];
        let (first, second) = (self.text(ALNUM, 20), self.text(ALNUM, 20));
        all.push(("model_key", format!("sk-{first}T3BlbkFJ{second}")));
        let (first, second) = (self.text(DIGITS, 12), self.text(DIGITS, 12));
        all.push(("slack", format!("xoxb-{first}-{second}-{}", self.text(ALNUM, 24))));
        let (first, second) = (self.text(ALNUM, 22), self.text(ALNUM, 43));
        all.push(("sendgrid", format!("SG.{first}.{second}")));
        let account = self.text(ALNUM, 10).to_lowercase();
        let connection =
            format!("DefaultEndpointsProtocol=https;AccountName={account};AccountKey=");
        let secret = self.text(ALNUM, 86);
        all.push((
            "azure_connection",
            format!("{connection}{secret}==;EndpointSuffix=core.windows.net"),
        ));
        all.push(("jwt", self.jwt(r#"{"alg":"RS256","typ":"JWT"}"#)));
        all.push(("jwt", self.jwt(r#"{"alg":"RS256","kid":"x"}"#)));
        all.push(("private_key", self.pem("RSA PRIVATE KEY", 800)));
        all.push(("private_key", self.pem("OPENSSH PRIVATE KEY", 300)));
        all.push(("private_key", self.pem("PGP PRIVATE KEY BLOCK", 600)));
        all
    }
}

/// A text in each encoding that a recipient undoes.
fn encoded(text: &str) -> Vec<(&'static str, String)> {
    let each = |form: &dyn Fn(u8) -> String| text.bytes().map(form).collect::<String>();
    let base32 = |bytes: &[u8]| {
        let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        let letter = |five: &[u8]| {
            let five = format!("{:0<5}", std::str::from_utf8(five).unwrap());
            char::from(BASE32.as_bytes()[usize::from_str_radix(&five, 2).unwrap()])
        };
        let mut text = bits.as_bytes().chunks(5).map(letter).collect::<String>();
        text.extend(std::iter::repeat_n('=', (8 - text.len() % 8) % 8));
        text
    };
    let alike = |c: char| match c {
        'a' => 'а',
        'e' => 'е',
        'o' => 'о',
        'p' => 'р',
        'c' => 'с',
        'x' => 'х',
        'A' => 'А',
        'K' => 'К',
        'T' => 'Т',
        other => other,
    };
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    gzip.extend(miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6));
    gzip.extend([0; 8]);
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let up = |by: u32| move |byte: u8| char::from_u32(by + u32::from(byte)).unwrap().to_string();
    vec![
        ("base64", STANDARD.encode(text)),
        ("base64 for URLs", URL_SAFE_NO_PAD.encode(text)),
        ("base64 with a byte before", STANDARD.encode(format!("a{text}"))),
        ("base32", base32(text.as_bytes())),
        ("hex", hex::encode(text)),
        ("hex in pairs", each(&|byte| format!("{byte:02x}:")).trim_end_matches(':').to_owned()),
        ("percent three times", each(&|byte| format!("%2525{byte:02x}"))),
        ("escapes of JSON", each(&|byte| format!("\\u{byte:04x}"))),
        ("entities", each(&|byte| format!("&#{byte};"))),
        ("zero width", text.chars().flat_map(|c| [c, '\u{200b}']).collect()),
        ("full width", each(&up(0xfee0))),
        ("look-alikes", text.chars().map(alike).collect()),
        ("tags", each(&up(0xe_0000))),
        ("gzip", STANDARD.encode(&gzip)),
        ("utf-16", STANDARD.encode(&wide)),
    ]
}

/// What the gate says of arguments that it is to refuse.
async fn refused(world: &World, args: &Value, what: &str) {
    let said = world.call("http", args).await;
    let refused = said.expect_err(&format!("{what}: {args}"));
    assert_eq!(refused.detail, "dlp.secret", "{what}: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_a_generated_corpus_is_refused_as_it_is_and_in_every_encoding() {
    let mut seeded = Seeded(2026);
    let world = World::knowing(Vec::new()).await;
    for (kind, key) in seeded.keys() {
        refused(&world, &json!({"text": format!("value {key} end")}), kind).await;
    }
    let before = world.reached();
    for (kind, key) in [&seeded.keys()[1], &seeded.keys()[4], &seeded.keys()[16]] {
        for (how, text) in encoded(key) {
            refused(&world, &json!({"text": text}), &format!("{kind} in {how}")).await;
        }
        let (front, back) = key.split_at(key.len() / 2);
        for (how, args) in [
            ("two members", json!({"text": front, "textual": back})),
            ("a list", json!({"text": [front, back]})),
            ("a name and its value", json!({"text": {(front): back}})),
        ] {
            refused(&world, &args, &format!("{kind} in {how}")).await;
        }
    }
    // Beside each other, within each other, at both ends, among characters of several bytes.
    let keys = seeded.keys();
    let (one, other) = (&keys[1].1, &keys[0].1);
    for text in [
        one.clone(),
        format!("{one} {other}"),
        format!("{one}\n{one}"),
        format!("é{one}日"),
        format!("https://svc:{one}@api.test/{other}"),
        format!("Authorization: Bearer {one}"),
    ] {
        refused(&world, &json!({"text": text}), "beside each other").await;
    }
    assert_eq!(world.reached(), before, "nothing was told of it");
    world.agent.seal().await.unwrap();
    world.gate.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_persons_are_masked_whole_and_what_only_looks_like_one_passes_as_it_is() {
    let mut seeded = Seeded(7);
    let firewall = json!({"arguments": {"personal": "redact"}, "results": {"personal": "warn"}});
    let world = World::configured(Vec::new(), "", firewall).await;
    let said = async |text: &str| {
        let said = world.call("http", &json!({"text": text})).await;
        said.unwrap_or_else(|why| panic!("{text}: {why:?}"))
    };
    for (kind, number) in [
        ("card", "4111 1111 1111 1111"),
        ("card", "5500-0000-0000-0004"),
        ("card", "378282246310005"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("us_ssn", "219-09-9999"),
        ("email", "ann@example.com"),
        ("phone", "+44 20 7946 0958"),
        ("cpf", "529.982.247-25"),
        ("btc_address", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"),
    ] {
        let told = said(&format!("é {number} 日")).await;
        assert!(told.contains(&format!("é [REDACTED:{kind}] 日")), "{number}: {told}");
    }
    let hash = seeded.text(HEX, 64);
    for text in [
        "card 4111 1111 1111 1112",
        "order 536-90-4399-1",
        &format!("sha256 {hash}"),
        &format!("git sha {}", &hash[..40]),
        "sk-xxxxxxxxxxxxxxxxxxxx",
        "password = os.environ[\"DB_PASSWORD\"]",
        "integrity sha512-W7s+uC5bikET2twEFg==",
        "arn:aws:iam::123456789012:role/x",
        "key: value",
        "eyJhbGciOiJIUzI1NiJ9.e30.",
        "year +10000-01-01T00:00:00Z and 2028240960365167042 units",
        // A key of a vendor's own page: it passes, and is not kept.
        &["AKIAIOSFODNN7", "EXAMPLE"].concat(),
    ] {
        let told = said(text).await;
        assert!(!told.contains("[REDACTED:"), "{text}: {told}");
    }
    // What SECURITY.md says that nothing finds.
    let (_, key) = seeded.keys().swap_remove(1);
    let turned = key.chars().map(|c| match c {
        'a'..='m' | 'A'..='M' => char::from(u8::try_from(c).unwrap() + 13),
        'n'..='z' | 'N'..='Z' => char::from(u8::try_from(c).unwrap() - 13),
        other => other,
    });
    for text in [turned.collect::<String>(), key.chars().rev().collect()] {
        said(&text).await;
    }
    world.agent.seal().await.unwrap();
    world.gate.finish();
}
