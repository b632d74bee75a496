//! A private PostgreSQL cluster, gone when the test process is gone, however it ends.

use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use wicketgate::ledger::postgres::{Login, migrate};

use super::ports::Port;

/// PostgreSQL refuses to run as root; `nobody` will do.
const NOBODY: u32 = 65_534;
static SHARED: OnceLock<Pg> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// One running cluster, with fsync on.
pub struct Pg {
    dir: PathBuf,
    port: Port,
    /// Reads until this process is gone, then stops the server and removes its directory.
    watchdog: Child,
}

/// A migrated database of its own.
#[derive(Clone, Debug)]
pub struct TestDb {
    /// Superuser.
    pub admin_url: String,
    /// `wg_writer`, tenant `default`.
    pub writer_url: String,
    /// `wg_writer_other`, tenant `other`.
    pub other_writer_url: String,
    /// `wg_operator`, tenant `default`: may give orders to gates.
    pub operator_url: String,
    /// `wg_reader`, every tenant.
    pub reader_url: String,
    /// `wg_reader_other`, tenant `other`.
    pub other_reader_url: String,
}

impl Pg {
    /// The cluster all tests of this binary share.
    pub fn cluster() -> &'static Pg {
        SHARED.get_or_init(Pg::own_cluster)
    }

    /// A cluster of one's own, to stop and freeze.
    pub fn own_cluster() -> Pg {
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let dir = std::env::temp_dir().join(format!("wg-pg-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).expect("a fresh directory for the cluster");
        if root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("chown of the cluster's directory");
        }
        let data = dir.join("data");
        let watchdog = watchdog(&dir, &data);
        let mut init = tool("initdb");
        init.args(["-N", "--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
        finish(init.arg(&data));
        let pg = Pg { dir, port: Port::claim(), watchdog };
        pg.start();
        pg
    }

    /// A new database with roles and schema.
    pub async fn database(&self) -> TestDb {
        let db = self.empty_database().await;
        let login = |name: &str, tenant: &str| Login::Writer {
            name: name.into(),
            password: None,
            tenant: tenant.into(),
        };
        let reader = |name: &str, tenant: Option<&str>| Login::Reader {
            name: name.into(),
            password: None,
            tenant: tenant.map(str::to_owned),
        };
        let logins = [
            login("wg_writer", "default"),
            login("wg_writer_other", "other"),
            Login::Operator {
                name: "wg_operator".into(),
                password: None,
                tenant: "default".into(),
            },
            reader("wg_reader", None),
            reader("wg_reader_other", Some("other")),
        ];
        migrate(&db.admin_url, &logins).await.expect("migrate");
        db
    }

    /// A new database without roles and schema.
    pub async fn empty_database(&self) -> TestDb {
        let name = format!("wg{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        let mut admin = PgConnection::connect(&self.url("postgres", "postgres")).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut admin).await.expect("create database");
        TestDb {
            admin_url: self.url("postgres", &name),
            writer_url: self.url("wg_writer", &name),
            other_writer_url: self.url("wg_writer_other", &name),
            operator_url: self.url("wg_operator", &name),
            reader_url: self.url("wg_reader", &name),
            other_reader_url: self.url("wg_reader_other", &name),
        }
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's own log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}?sslmode=disable", self.port())
    }

    /// Starts it; waits until it answers.
    pub fn start(&self) {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c fsync=on -c max_connections=200 \
             -c shared_buffers=32MB",
            self.port(),
            self.dir.display()
        );
        let mut start = self.pg_ctl();
        start.args(["-w", "-t", "60", "-l"]).arg(self.dir.join("log")).arg("-o").arg(options);
        finish(start.arg("start"));
    }

    /// Has it speak TLS with this certificate and key, which become the server's.
    pub async fn speak_tls(&self, cert: &Path, key: &Path) {
        if root() {
            chown(key, Some(NOBODY), Some(NOBODY)).expect("chown of the server's key");
        }
        let mut admin = PgConnection::connect(&self.url("postgres", "postgres")).await.unwrap();
        let (cert, key) = (cert.display().to_string(), key.display().to_string());
        for (name, value) in
            [("ssl_cert_file", cert.as_str()), ("ssl_key_file", &key), ("ssl", "on")]
        {
            let set = AssertSqlSafe(format!("ALTER SYSTEM SET {name} = '{value}'"));
            sqlx::raw_sql(set).execute(&mut admin).await.expect("alter system");
        }
        drop(admin);
        finish(self.pg_ctl().args(["-m", "fast", "-w", "stop"]));
        self.start();
    }

    /// Stops it as a crash would.
    pub fn stop_immediate(&self) {
        finish(self.pg_ctl().args(["-m", "immediate", "-w", "stop"]));
    }

    /// Stops every process of the server where it stands; connections stay open, nothing answers.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn pg_ctl(&self) -> Command {
        let mut command = tool("pg_ctl");
        command.arg("-D").arg(self.dir.join("data"));
        command
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        let postmaster: i32 = file.lines().next().unwrap().parse().unwrap();
        let children =
            std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"))
                .unwrap();
        let children = children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap());
        for pid in std::iter::once(postmaster).chain(children) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            // A backend may have ended between the listing and the signal.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Pg {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// Waits for the end of its input, which is the end of this process.
fn watchdog(dir: &Path, data: &Path) -> Child {
    let script = r#"
        read _
        if [ -f "$1/postmaster.pid" ]; then
            pm=$(head -n 1 "$1/postmaster.pid")
            kill -CONT "$pm" $(cat "/proc/$pm/task/$pm/children")
            "$2" -D "$1" -m immediate -w stop
        fi
        rm -rf "$0""#;
    unprivileged(Command::new("sh"))
        .arg("-c")
        .arg(script)
        .arg(dir)
        .arg(data)
        .arg(bin("pg_ctl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sh")
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

fn bin(name: &str) -> PathBuf {
    let dir = std::env::var_os("PG_BIN").unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into());
    PathBuf::from(dir).join(name)
}

fn tool(name: &str) -> Command {
    unprivileged(Command::new(bin(name)))
}

fn unprivileged(mut command: Command) -> Command {
    if root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn finish(command: &mut Command) {
    // The server inherits what its starter holds: a pipe would keep us waiting for its end.
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|e| {
        let hint = if e.kind() == ErrorKind::NotFound { " (set PG_BIN)" } else { "" };
        panic!("{command:?}: {e}{hint}")
    });
    assert!(status.success(), "{command:?}: {status}");
}
