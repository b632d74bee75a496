//! temporary
use crate::clock::Entropy;
use crate::domain::digest::Digest;
/// t
#[derive(Debug)]
pub struct RunTokens {
    key: [u8; 32],
}
impl RunTokens {
    /// n
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }
    /// i
    pub fn issue(&self, entropy: &dyn Entropy) -> (String, Digest) {
        let t = hex::encode(crate::clock::random32(entropy));
        let d = Digest::of(&[&self.key, t.as_bytes()]);
        (t, d)
    }
    /// h
    pub fn hash(&self, token: &str) -> Option<Digest> {
        Some(Digest::of(&[&self.key, token.as_bytes()]))
    }
}
