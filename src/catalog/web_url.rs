//! A URL from an agent: read once, and refused where two readers could see two addresses.
//!
//! Our own reading of the authority and that of the URL standard's parser must agree; the request
//! uses the parser's path and query. A refused URL never reaches a resolver.

use unicode_normalization::UnicodeNormalization as _;

use super::host::{self, Host, Origin, split_port};

/// Bytes of the longest URL.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// How often a segment is decoded, to see what a careless server would see.
const DECODINGS: usize = 3;

/// An absolute `http` or `https` URL, without its fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebUrl {
    /// Scheme, host and port; international names in their `xn--` form, no trailing dot.
    pub origin: Origin,
    /// The path as it will be sent, percent-encoded, without dot segments.
    pub path: String,
    /// The query as it will be sent, without its `?`.
    pub query: Option<String>,
    /// The query as decoded pairs, in order.
    pub pairs: Vec<(String, String)>,
}

/// Why a text is no URL that a tool may fetch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The text is not a URL, or not every reader reads it the same way.
    #[error("the url {0}")]
    Shape(&'static str),
    /// Neither `http` nor `https`.
    #[error("the scheme `{0}` is neither `https` nor `http`")]
    Scheme(String),
    /// It carries a user name.
    #[error("a url must not contain a user name or password")]
    UserInfo,
    /// The host is invalid, or readers differ about it.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The port is invalid.
    #[error("`{0}` is not a port (1 to 65535)")]
    Port(String),
    /// The path climbs once it is decoded.
    #[error("the decoded path leaves its root with `..`")]
    Traversal,
}

impl Fault {
    /// The stable detail of a refusal for this reason.
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::Shape(_) => "fetch.url",
            Self::Scheme(_) => "fetch.scheme",
            Self::UserInfo => "fetch.user_info",
            Self::Host(_) => "fetch.host",
            Self::Port(_) => "fetch.port",
            Self::Traversal => "fetch.path_traversal",
        }
    }
}

impl WebUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > URL_BYTES_MAX {
            return Err(Fault::Shape("has more than 8192 bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(Fault::Shape("has a space, a control character or a backslash in it"));
        }
        let (scheme, rest) = text.split_once(':').ok_or(Fault::Shape("is not absolute"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            other => return Err(Fault::Scheme(other.chars().take(32).collect())),
        };
        let rest = rest.strip_prefix("//").ok_or(Fault::Shape("has no `//` before its host"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest.get(..end).unwrap_or_default();
        let origin = origin(tls, authority)?;
        let parsed = url::Url::parse(text).map_err(|_| Fault::Shape("cannot be read"))?;
        agrees(&origin, &parsed)?;
        let path = parsed.path().to_owned();
        let query = parsed.query().map(str::to_owned);
        if decoded(&path, false).is_none() {
            return Err(Fault::Shape("has a `%` in its path that begins no character"));
        }
        if climbs(&path) {
            return Err(Fault::Traversal);
        }
        let pairs = pairs(query.as_deref().unwrap_or_default())
            .ok_or(Fault::Shape("has a query that does not decode to text"))?;
        Ok(Self { origin, path, query, pairs })
    }

    /// The URL that a `Location` leads to from here, written in full.
    pub fn join(&self, location: &str) -> Option<String> {
        let base = url::Url::parse(&self.to_string()).ok()?;
        let mut next = base.join(location).ok()?;
        next.set_fragment(None);
        Some(next.to_string())
    }

    /// Path and query as a request line has them.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

impl std::fmt::Display for WebUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.origin.scheme(), self.origin.authority(), self.target())
    }
}

/// Where a lenient reader would go with this text, whatever else is wrong with it.
pub fn lenient_host(text: &str) -> Option<Host> {
    match url::Url::parse(text.trim()).ok()?.host()? {
        url::Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            (!name.is_empty()).then_some(Host::Name(name))
        }
        url::Host::Ipv4(v4) => Some(Host::Ip(v4.into())),
        url::Host::Ipv6(v6) => Some(Host::Ip(v6.into())),
    }
}

fn origin(tls: bool, authority: &str) -> Result<Origin, Fault> {
    if authority.is_empty() {
        return Err(Fault::Shape("has no host"));
    }
    if authority.contains('@') {
        return Err(Fault::UserInfo);
    }
    if authority.contains('%') {
        return Err(host::Error::Percent.into());
    }
    let (host, port) = split_port(authority);
    let host = read_host(host)?;
    let port = match port {
        None if tls => 443,
        None => 80,
        Some(text) => match text.parse::<u16>() {
            Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => port,
            Ok(_) | Err(_) => return Err(Fault::Port(text.chars().take(16).collect())),
        },
    };
    Ok(Origin { tls, host, port })
}

/// Reads a host as people write it: one trailing dot is dropped, international letters become
/// `xn--`. Look-alike letters stay different letters; letters that normalisation *turns into*
/// others (full width forms, circled digits, ideographic dots) are refused.
///
/// # Errors
/// See [`host::Error`].
pub fn read_host(text: &str) -> Result<Host, host::Error> {
    let bare = text.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(text);
    if bare.is_ascii() {
        return Host::parse(bare);
    }
    let lower = bare.to_lowercase();
    let plain = |c: char| c.is_ascii() || c.is_alphanumeric();
    if !lower.chars().all(plain) || !lower.nfkc().eq(lower.chars()) {
        return Err(host::Error::Lookalike(bare.to_owned()));
    }
    match url::Host::parse(&lower) {
        Ok(url::Host::Domain(name)) => Host::parse(&name),
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | Err(_) => {
            Err(host::Error::Domain(bare.to_owned()))
        }
    }
}

/// Both readers see the same place.
fn agrees(origin: &Origin, parsed: &url::Url) -> Result<(), Fault> {
    let host = match parsed.host() {
        Some(url::Host::Domain(name)) => {
            Some(Host::Name(name.strip_suffix('.').unwrap_or(name).to_owned()))
        }
        Some(url::Host::Ipv4(v4)) => Some(Host::Ip(v4.into())),
        Some(url::Host::Ipv6(v6)) => Some(Host::Ip(v6.into())),
        None => None,
    };
    let same = host.as_ref() == Some(&origin.host)
        && parsed.scheme() == origin.scheme()
        && parsed.port_or_known_default() == Some(origin.port)
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if same { Ok(()) } else { Err(Fault::Shape("is read differently by different readers")) }
}

/// Whether some segment is, or holds, a step upwards once it is decoded.
fn climbs(path: &str) -> bool {
    path.split('/').any(|segment| {
        let mut text = segment.to_owned();
        for _ in 0..DECODINGS {
            let Some(bytes) = decoded(&text, false) else { break };
            let next = String::from_utf8_lossy(&bytes).into_owned();
            let done = next == text;
            text = next;
            if done {
                break;
            }
        }
        let step = |part: &str| {
            let name = part.split(';').next().unwrap_or_default();
            name == ".." || name == "."
        };
        text.split(['/', '\\']).any(step)
    })
}

/// The pairs of a query; `None` if they do not decode to text.
fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let text = |part: &str| String::from_utf8(decoded(part, true)?).ok();
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((text(name)?, text(value)?))
        })
        .collect()
}

/// The text behind a percent-encoded one, as far as it is text.
pub fn unescaped(text: &str) -> String {
    decoded(text, false)
        .map_or_else(|| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes behind a percent-encoded text; `None` for an invalid `%`.
fn decoded(text: &str, plus: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high << 4 | low).ok()?
            }
            b'+' if plus => b' ',
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn detail(url: &str) -> &'static str {
        WebUrl::parse(url).map_or_else(|fault| fault.detail(), |_| "")
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for (url, expected) in [
            ("http://127.1/", "fetch.host"),
            ("http://2130706433/", "fetch.host"),
            ("http://0x7f.1/", "fetch.host"),
            ("http://0177.0.0.1/", "fetch.host"),
            ("http://①②⑦.⓪.⓪.①/", "fetch.host"),
            ("http://127。0。0。1/", "fetch.host"),
            ("http://ｅxample.com/", "fetch.host"),
            ("http://ex\u{ad}ample.com/", "fetch.host"),
            ("http://ex\u{200b}ample.com/", "fetch.host"),
            ("http://%31%32%37.0.0.1/", "fetch.host"),
            ("http://[fe80::1%25lo]/", "fetch.host"),
            ("http://[fe80::1%lo]/", "fetch.host"),
            ("http://allowed.test../", "fetch.host"),
            ("http:///127.0.0.1/", "fetch.url"),
            ("http:127.0.0.1", "fetch.url"),
            ("http:\\\\127.0.0.1\\", "fetch.url"),
            ("http://allowed.test\\@127.0.0.1/", "fetch.url"),
            (" http://allowed.test/", "fetch.url"),
            ("http://allowed.test/\r\nx", "fetch.url"),
            ("http://allo\twed.test/", "fetch.url"),
            ("//allowed.test/", "fetch.url"),
            ("allowed.test", "fetch.url"),
            ("", "fetch.url"),
            ("http://allowed.test/%zz", "fetch.url"),
            ("http://allowed.test/?a=%ff", "fetch.url"),
            ("http://user:pass@allowed.test/", "fetch.user_info"),
            ("http://allowed.test%2f@evil.test/", "fetch.user_info"),
            ("http://allowed.test:0/", "fetch.port"),
            ("http://allowed.test:/", "fetch.port"),
            ("http://allowed.test:65536/", "fetch.port"),
            ("http://allowed.test:80:80/", "fetch.port"),
            ("gopher://a.test/", "fetch.scheme"),
            ("file:///etc/passwd", "fetch.scheme"),
            ("unix:///var/run/docker.sock", "fetch.scheme"),
            ("data:text/plain,x", "fetch.scheme"),
            ("http://a.test/x/..%2f..%2fadmin", "fetch.path_traversal"),
            ("http://a.test/x/%252e%252e%252fadmin", "fetch.path_traversal"),
            ("http://a.test/x/..;/admin", "fetch.path_traversal"),
            ("http://a.test/x/..%5cadmin", "fetch.path_traversal"),
        ] {
            assert_eq!(detail(url), expected, "{url}");
        }
    }

    #[test]
    fn a_url_is_sent_as_it_is_judged() {
        let url = WebUrl::parse("HTTPS://API.Test.:8443/a/../b%2Fc/ü?q=a+b&x=%26#frag").unwrap();
        assert_eq!(url.origin.authority(), "api.test:8443");
        assert_eq!(url.target(), "/b%2Fc/%C3%BC?q=a+b&x=%26");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(url.pairs, [pair("q", "a b"), pair("x", "&")]);
        assert_eq!(url.to_string(), "https://api.test:8443/b%2Fc/%C3%BC?q=a+b&x=%26");
        assert_eq!(WebUrl::parse("http://a.test").unwrap().target(), "/");
        let international = WebUrl::parse("https://Bücher.example/").unwrap();
        assert_eq!(international.origin.authority(), "xn--bcher-kva.example");
    }

    #[test]
    fn a_letter_that_looks_like_another_is_another() {
        // CYRILLIC SMALL LETTER A.
        let url = WebUrl::parse("https://\u{430}llowed.test/").unwrap();
        assert_ne!(url.origin.authority(), "allowed.test");
        assert!(url.origin.authority().starts_with("xn--"));
    }

    #[test]
    fn a_relative_location_resolves_against_its_base_url() {
        let url = WebUrl::parse("https://a.test/x/y?q").unwrap();
        assert_eq!(url.join("../z#f").unwrap(), "https://a.test/z");
        assert_eq!(url.join("//b.test").unwrap(), "https://b.test/");
        assert_eq!(lenient_host("http:\\\\127.1\\").unwrap(), Host::Ip([127, 0, 0, 1].into()));
    }

    proptest! {
        #[test]
        fn what_is_accepted_reads_the_same_when_it_is_written_out(
            text in "https?://[a-zA-Z0-9.\\-\\[\\]:@%ü①]{1,16}(/[a-z.%0-9/;]{0,12})?(\\?[a-z=&%+0-9]{0,8})?"
        ) {
            if let Ok(url) = WebUrl::parse(&text) {
                let again = WebUrl::parse(&url.to_string());
                prop_assert_eq!(again.as_ref(), Ok(&url), "{}", text);
                let lenient = lenient_host(&text);
                prop_assert_eq!(lenient.as_ref(), Some(&url.origin.host), "{}", text);
            }
        }
    }
}
