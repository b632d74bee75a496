//! Whether a connection URL makes the driver verify the server.

use std::net::IpAddr;

use super::address::{Address, Mode};

/// Why this connection URL leaves the server unverified: the database may be on another machine,
/// and `sslmode` is not `verify-full`. The text shows nothing of the URL. `None` for a URL that
/// cannot be parsed; connecting reports that.
#[must_use]
pub fn unprotected(url: &str) -> Option<String> {
    // WHY: the driver reads it the same way.
    let address = Address::parse(url).ok()?;
    let mode = address.mode;
    if mode == Mode::VerifyFull || address.all_hosts(is_near) {
        return None;
    }
    Some(format!(
        "`sslmode` is `{}` and the database is on another machine, so the server is not verified: set `sslmode=verify-full` and `sslrootcert`, or `accept_unverified_server: true`",
        mode.as_str()
    ))
}

/// Whether this host is this machine: a loopback name or address.
fn is_near(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_on_another_machine_is_reached_only_if_its_server_is_verified() {
        for allowed in [
            "postgres://u@127.0.0.1:5432/d",
            "postgres://u@localhost/d?sslmode=disable",
            "postgres://u@[::1]/d",
            "postgres:///d?host=/run/postgresql",
            "postgres://u@%2Frun%2Fpostgresql/d",
            "postgres://u@db.example/d?sslmode=verify-full&sslrootcert=/ca.pem",
            "postgres://u@10.0.0.7/d?sslmode=verify-full",
        ] {
            assert_eq!(unprotected(allowed), None, "{allowed}");
        }
        for address in [
            "postgres://u:secret@db.example/d",
            "postgres://u:secret@10.0.0.7/d?sslmode=require",
            "postgres://u:secret@db.example/d?sslmode=verify-ca",
            "postgres://u:secret@[2001:db8::1]/d?ssl-mode=prefer",
            "postgres://u:secret@localhost/d?host=db.example",
            "postgres://u:secret@db.example/d?sslmode=verify-full&sslmode=disable",
        ] {
            let refusal = unprotected(address).unwrap();
            assert!(refusal.contains("verify-full") && !refusal.contains("secret"), "{refusal}");
        }
    }
}
