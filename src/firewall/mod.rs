//! (firewall)
