//! Images and files in requests: inline ones are counted, and the provider fetches no other unless
//! the operator lists its host.

use super::members::{
    AskReader, AskResult, ObjectMembers, RequestPath, given, kind_of, list, number, object, text,
    text_of, value_of,
};
use super::{AskError, AskRules};
use crate::domain::json::Json;
use crate::web_url::WebUrl;

impl AskRules {
    /// Whether the provider may fetch this.
    fn fetches(&self, url: &str) -> bool {
        let Ok(url) = WebUrl::parse(url) else { return false };
        let host = url.origin.host.to_string();
        let fits = |allowed: &String| {
            let allowed = allowed.to_ascii_lowercase();
            match allowed.strip_prefix('*') {
                Some(domain) => domain.starts_with('.') && host.ends_with(domain),
                None => host == allowed,
            }
        };
        url.origin.tls && self.remote_hosts.iter().any(fits)
    }
}

impl AskReader<'_> {
    /// Counts an image that is a `data:` URL or a remote one.
    pub fn image(&mut self, url: &str, at: &RequestPath<'_>) -> AskResult<()> {
        self.ask.images = self.ask.images.saturating_add(1);
        self.inline_or_remote(url, at)
    }

    /// Counts a file that is a `data:` URL or a remote one.
    pub fn file(&mut self, url: &str, at: &RequestPath<'_>) -> AskResult<()> {
        self.ask.files = self.ask.files.saturating_add(1);
        self.inline_or_remote(url, at)
    }

    fn inline_or_remote(&mut self, url: &str, at: &RequestPath<'_>) -> AskResult<()> {
        if url.starts_with("data:") {
            self.is_inline(url);
            return Ok(());
        }
        if self.rules.fetches(url) {
            return Ok(());
        }
        Err(AskError::RemoteContent(at.to_string()))
    }

    /// Counts bytes that are no text to a model.
    pub fn is_inline(&mut self, data: &str) {
        self.inline = self.inline.saturating_add(number(data.len()));
    }

    /// Counts a file in base64, alone or as a `data:` URL: whatever else it may be is remote.
    pub fn file_data(&mut self, data: &str, at: &RequestPath<'_>) -> AskResult<()> {
        let base64 =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
        if !data.bytes().all(base64) {
            return self.file(data, at);
        }
        self.ask.files = self.ask.files.saturating_add(1);
        self.is_inline(data);
        Ok(())
    }

    /// Refuses a member that names a file which the provider keeps.
    pub fn no_stored_file(&self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        match given(members, "file_id") {
            Some(_) => Err(AskError::RemoteContent(at.member("file_id").to_string())),
            None => Ok(()),
        }
    }

    /// Counts sound: `{"data", "format"}`.
    pub fn audio(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        let at = at.member("input_audio");
        let audio = value_of(members, "input_audio");
        let audio = self.closed(audio, &at, &["data", "format"])?;
        let data = text_of(audio, "data", &at)?;
        self.file_data(data, &at.member("data"))
    }

    /// The text of every part of a text or a list of texts.
    pub fn texts<'v>(
        &self,
        content: &'v Json,
        at: &RequestPath<'_>,
        (kinds, known): (&[&str], &[&str]),
    ) -> AskResult<Vec<&'v str>> {
        if let Some(text) = content.as_str() {
            return Ok(vec![text]);
        }
        let parts = list(content, at)?.iter().enumerate();
        let one = |(index, part): (usize, &'v Json)| {
            let at = at.item(index);
            let members = object(part, &at)?;
            let kind = kind_of(members, &at)?;
            if !kinds.contains(&kind) {
                return Err(at.content(kind));
            }
            self.only(members, &at, known)?;
            text(value_of(members, "text"), &at.member("text"))
        };
        parts.map(one).collect()
    }
}
