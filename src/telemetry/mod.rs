//! temporary
/// t
pub mod trace {
    /// t
    pub fn call_span(_t: &str, _i: &str, _a: &str, _p: Option<&str>) -> tracing::Span {
        tracing::Span::none()
    }
    /// t
    pub fn stage(_s: &'static str) -> tracing::Span {
        tracing::Span::none()
    }
    /// t
    pub fn valid_traceparent(t: &str) -> bool {
        t.len() == 55
    }
}
