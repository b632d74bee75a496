//! A certificate authority as stock `openssl` makes one, for listeners and their clients.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use wicketgate_record::domain::digest::Digest;

/// For years to come.
const VALID: (&str, &str) = ("20200101000000Z", "20491231000000Z");
/// Long gone.
const PAST: (&str, &str) = ("20200101000000Z", "20210101000000Z");

const CONFIG: &str = "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\n\
    certificate = ca.pem\nprivate_key = ca.key\ndefault_md = sha256\npolicy = p\nunique_subject = no\n\
    [p]\ncommonName = supplied\n";
const NEW: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// An authority and what it certified, in files: `ca.pem`, `<name>.pem` and `<name>.key`.
pub struct Ca {
    dir: TempDir,
}

impl Ca {
    pub fn new() -> Self {
        let ca = Self { dir: tempfile::tempdir().unwrap() };
        for (name, text) in [("index.txt", ""), ("serial", "1000\n"), ("ca.cnf", CONFIG)] {
            std::fs::write(ca.path(name), text).unwrap();
        }
        let req = ["req", "-x509"];
        let out = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test ca", "-days", "30"];
        ca.openssl(&[&req[..], &NEW, &out].concat());
        ca
    }

    /// Certifies a server on this machine that is also called `hub.example`.
    pub fn server(&self, name: &str) {
        let usage = "extendedKeyUsage = serverAuth\n\
            subjectAltName = IP:127.0.0.1,DNS:localhost,DNS:hub.example\n";
        self.certify(name, usage, VALID);
    }

    /// Certifies a server that is called so and nothing else: `DNS:db.example`, `IP:127.0.0.1`.
    pub fn called(&self, name: &str, who: &str) {
        let usage = format!("extendedKeyUsage = serverAuth\nsubjectAltName = {who}\n");
        self.certify(name, &usage, VALID);
    }

    /// Certifies a server on this machine until this time: `20491231000000Z`.
    pub fn server_until(&self, name: &str, end: &str) {
        let usage = "extendedKeyUsage = serverAuth\nsubjectAltName = IP:127.0.0.1\n";
        self.certify(name, usage, (VALID.0, end));
    }

    /// Certifies a client; the thumbprint of its certificate.
    pub fn client(&self, name: &str) -> String {
        self.certify(name, "extendedKeyUsage = clientAuth\n", VALID)
    }

    /// Certifies a workload under a SPIFFE id, and any other name: `DNS:a.example`; the thumbprint.
    pub fn svid(&self, name: &str, names: &str) -> String {
        let usage = format!("extendedKeyUsage = clientAuth\nsubjectAltName = {names}\n");
        self.certify(name, &usage, VALID)
    }

    /// Certifies a server as [`Self::server`] does, whose certificate has ended.
    pub fn ended_server(&self, name: &str) {
        let usage = "extendedKeyUsage = serverAuth\nsubjectAltName = IP:127.0.0.1\n";
        self.certify(name, usage, PAST);
    }

    /// The same, of a certificate that has ended.
    pub fn ended(&self, name: &str) -> String {
        self.certify(name, "extendedKeyUsage = clientAuth\n", PAST)
    }

    fn certify(&self, name: &str, usage: &str, (from, to): (&str, &str)) -> String {
        let text = format!("basicConstraints = CA:FALSE\n{usage}");
        std::fs::write(self.path("ext.cnf"), text).unwrap();
        let (key, csr, pem) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        let subject = format!("/CN={name}");
        let out = ["-keyout", &key, "-out", &csr, "-subj", &subject];
        self.openssl(&[&["req", "-new"][..], &NEW, &out].concat());
        self.openssl(&[
            "ca",
            "-batch",
            "-config",
            "ca.cnf",
            "-startdate",
            from,
            "-enddate",
            to,
            "-in",
            &csr,
            "-out",
            &pem,
            "-notext",
            "-extfile",
            "ext.cnf",
        ]);
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path(&key), mode).unwrap();
        let der = self.openssl(&["x509", "-in", &pem, "-outform", "DER"]);
        Digest::of(&[&der]).prefixed()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs `openssl`, which has to succeed; what it prints.
    fn openssl(&self, args: &[&str]) -> Vec<u8> {
        let out = Command::new("openssl").current_dir(self.dir.path()).args(args).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "openssl {args:?}: {err}");
        out.stdout
    }
}
