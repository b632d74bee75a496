//! A time stamping authority as stock `openssl` makes and runs one.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use wicketgate_crypto::tsp;
use wicketgate_record::domain::digest::Digest;

/// The nonce of a question that nobody asked at random.
pub const NONCE: [u8; 16] = [0x80; 16];

/// Runs `openssl`, which has to succeed.
pub fn openssl(dir: &Path, args: &[&str]) {
    let out = Command::new("openssl").current_dir(dir).args(args).output().unwrap();
    assert!(out.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// How an authority is made.
#[derive(Clone, Copy)]
pub struct Made {
    pub key: &'static str,
    pub digest: &'static str,
    pub ess: &'static str,
    pub usage: &'static str,
    /// First and last moment of its certificate.
    pub valid: (&'static str, &'static str),
}

pub const USUAL: Made = Made {
    key: "P-256",
    digest: "sha256",
    ess: "sha256",
    usage: "extendedKeyUsage = critical,timeStamping\n",
    valid: ("20200101000000Z", "20491231000000Z"),
};

/// A certificate authority and a time stamping authority below it, in files.
pub struct Authority {
    pub dir: TempDir,
}

impl Authority {
    pub fn new(made: Made) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("index.txt", "");
        write("serial", "1000\n");
        write("ext.cnf", &format!("basicConstraints = CA:FALSE\n{}", made.usage));
        write(
            "ca.cnf",
            "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\n\
             certificate = ca.pem\nprivate_key = ca.key\ndefault_md = sha256\npolicy = p\n\
             unique_subject = no\n[p]\ncommonName = supplied\n",
        );
        write("tsserial", "01\n");
        let (digest, ess) = (made.digest, made.ess);
        write(
            "ts.cnf",
            &format!(
                "[tsa]\ndefault_tsa = t\n[t]\nserial = tsserial\nsigner_cert = tsa.pem\ncerts = ca.pem\n\
                 signer_key = tsa.key\nsigner_digest = {digest}\ndefault_policy = 1.2.3.4.1\n\
                 digests = sha256, sha512\naccuracy = secs:1, millisecs:500\nordering = no\n\
                 tsa_name = yes\ness_cert_id_chain = no\ness_cert_id_alg = {ess}\n"
            ),
        );
        let dir = Self { dir };
        let ca = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=test ca",
            "-days",
            "30",
        ];
        openssl(dir.path(), &ca);
        let curve = format!("ec_paramgen_curve:{}", made.key);
        let new: &[&str] = match made.key {
            "rsa" => &["-newkey", "rsa:2048"],
            "rsa1024" => &["-newkey", "rsa:1024"],
            _ => &["-newkey", "ec", "-pkeyopt", &curve],
        };
        let rest = ["-nodes", "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=test tsa"];
        openssl(dir.path(), &[&["req", "-new"], new, &rest].concat());
        let (from, to) = made.valid;
        let sign = [
            "ca",
            "-batch",
            "-config",
            "ca.cnf",
            "-startdate",
            from,
            "-enddate",
            to,
            "-in",
            "tsa.csr",
            "-out",
            "tsa.pem",
            "-notext",
            "-extfile",
            "ext.cnf",
        ];
        openssl(dir.path(), &sign);
        dir
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Certificates to trust.
    pub fn trusted(&self) -> Vec<Vec<u8>> {
        tsp::authorities(&std::fs::read(self.path().join("ca.pem")).unwrap()).unwrap()
    }

    /// What it answers to a request.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        std::fs::write(self.path().join("q.tsq"), request).unwrap();
        let reply = ["ts", "-reply", "-config", "ts.cnf", "-queryfile", "q.tsq", "-out", "r.tsr"];
        openssl(self.path(), &reply);
        std::fs::read(self.path().join("r.tsr")).unwrap()
    }

    /// A stamp over these bytes.
    pub fn stamp(&self, data: &[u8]) -> Vec<u8> {
        self.answer(&tsp::request(&Digest::of(&[data]), &NONCE).unwrap())
    }
}
