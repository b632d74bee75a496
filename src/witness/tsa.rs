//! Asking a time stamping authority over HTTP (RFC 3161 §3.4).
