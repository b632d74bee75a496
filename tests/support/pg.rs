//! PostgreSQL for tests: one cluster per run, and private ones for tests that stop or change a server.

use std::io::ErrorKind;
use std::ops::Deref;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use wicketgate_gate::ledger::postgres::{Login, migrate};

use crate::bench::cpu;
use crate::ports::Port;
use crate::waiting;

/// PostgreSQL refuses to run as root; `nobody` will do.
const NOBODY: u32 = 65_534;
/// Where `tests/run` names the port of the cluster that it started for all programs.
const OF_THE_RUN: &str = "WICKETGATE_TEST_POSTGRES";
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A running cluster, with fsync on.
#[derive(Debug)]
pub struct Pg {
    port: u16,
}

/// A cluster of one test, gone when the test process is gone, however it ends. A test has its own only if it stops,
/// freezes or configures the server (TLS, `pg_hba.conf`), reads the server's log, or counts all roles of a server.
#[derive(Debug)]
pub struct PrivatePg {
    pg: Pg,
    dir: PathBuf,
    _port: Port,
    /// Reads until this process is gone, then stops the server and removes its directory.
    watchdog: Child,
}

impl Deref for PrivatePg {
    type Target = Pg;

    fn deref(&self) -> &Pg {
        &self.pg
    }
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
    /// The cluster that the tests of a run share; a program that runs alone starts one for its own tests.
    pub fn cluster() -> &'static Pg {
        static RUN: OnceLock<Pg> = OnceLock::new();
        static ALONE: OnceLock<PrivatePg> = OnceLock::new();
        match std::env::var(OF_THE_RUN) {
            Ok(port) => RUN.get_or_init(|| Pg { port: port.parse().expect(OF_THE_RUN) }),
            Err(_) => ALONE.get_or_init(Pg::own_cluster),
        }
    }

    /// A cluster of one's own, to stop and freeze.
    pub fn own_cluster() -> PrivatePg {
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
        let port = Port::claim();
        let private = PrivatePg { pg: Pg { port: port.number() }, dir, _port: port, watchdog };
        private.start();
        private
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

    /// As [`Self::database`], with a writer who may read, too. Roles belong to the server, which other tests share: it is
    /// another role than theirs.
    pub async fn database_of_a_reading_writer(&self) -> TestDb {
        let mut db = self.database().await;
        let (name, tenant) = ("wg_reading_writer".to_owned(), "default".to_owned());
        let logins = [
            Login::Writer { name: name.clone(), password: None, tenant: tenant.clone() },
            Login::Reader { name, password: None, tenant: Some(tenant) },
        ];
        migrate(&db.admin_url, &logins).await.expect("migrate");
        db.writer_url = db.writer_url.replace("wg_writer@", "wg_reading_writer@");
        db
    }

    /// A new database without roles and schema.
    pub async fn empty_database(&self) -> TestDb {
        // Other programs of the run make theirs on the same server.
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let name = format!("wg{}_{number}", std::process::id());
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
        self.port
    }

    fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}?sslmode=disable", self.port())
    }
}

impl PrivatePg {
    /// The server's own log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
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
        // The postmaster first: one that still ran could begin a process after the others are listed.
        let postmaster = self.postmaster();
        waiting::freeze(postmaster);
        signal(children(postmaster), Signal::STOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        let postmaster = self.postmaster();
        signal(children(postmaster), Signal::CONT);
        signal(vec![postmaster], Signal::CONT);
    }

    fn pg_ctl(&self) -> Command {
        let mut command = tool("pg_ctl");
        command.arg("-D").arg(self.dir.join("data"));
        command
    }

    /// Processor time of the server and of all its connections so far.
    pub fn cpu(&self) -> Duration {
        let number = |pid: Pid| pid.as_raw_nonzero().get().unsigned_abs();
        let postmaster = self.postmaster();
        let connections = children(postmaster).into_iter().map(|one| cpu::of(number(one)));
        cpu::with_ended(number(postmaster)) + connections.sum::<Duration>()
    }

    fn postmaster(&self) -> Pid {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        pid(file.lines().next().unwrap())
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    list.split_whitespace().map(pid).collect()
}

/// A backend may have ended between the listing and the signal.
fn signal(all: Vec<Pid>, what: Signal) {
    for pid in all {
        let _ = kill_process(pid, what);
    }
}

impl Drop for PrivatePg {
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
