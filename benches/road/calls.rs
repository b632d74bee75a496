//! Governed calls through the real `serve`, beside the bare echo.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;
use wicketgate_support::bench::folder::{Folder, Running, Sidecar, Store};
use wicketgate_support::bench::load::{self, Seen, short};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::bench::{cpu, floor, tool};
use wicketgate_support::pg::TestDb;

use crate::echo::EchoServer;
use crate::{Plan, delay, http};

/// Connections at most; callers share them evenly.
pub const CONNECTIONS: usize = 8;

type Client = GateClient<Channel>;

/// One caller: its connection, its run, its tool and arguments.
#[derive(Clone)]
struct Caller {
    client: Client,
    token: Option<tonic::metadata::AsciiMetadataValue>,
    tool: &'static str,
    arguments: Vec<u8>,
    name: usize,
    /// Calls that gave no result, all callers together.
    failed: Arc<AtomicU64>,
}

/// Tool, argument bytes, result bytes.
pub type Size = (&'static str, usize, usize);
pub const SMALL: Size = ("small", 256, 256);
const LARGE: Size = ("large", 2048, 8192);

async fn unix(path: &Path) -> Client {
    let path: PathBuf = path.to_owned();
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(tower::service_fn(move |_| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .unwrap();
    GateClient::new(channel)
}

async fn tcp(url: &str) -> Client {
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap().tcp_nodelay(true);
    GateClient::new(endpoint.connect().await.unwrap())
}

fn callers(clients: &[Client], many: usize, (tool, bytes, _): Size) -> Vec<Caller> {
    let arguments = tool::body(bytes).to_vec();
    let failed = Arc::<AtomicU64>::default();
    let one = |name: usize| Caller {
        client: clients[name % clients.len()].clone(),
        token: None,
        tool,
        arguments: arguments.clone(),
        name,
        failed: Arc::clone(&failed),
    };
    (0..many).map(one).collect()
}

/// Each caller with a run of its own.
async fn with_runs(mut callers: Vec<Caller>) -> Vec<Caller> {
    for caller in &mut callers {
        let opening = pb::OpenRunRequest { model: "gpt-5-mini".into(), ..Default::default() };
        let opened = caller.client.open_run(opening).await.unwrap().into_inner();
        caller.token = Some(format!("Bearer {}", opened.run_token).parse().unwrap());
    }
    callers
}

/// Opens so many runs, and leaves them open.
pub async fn open_runs(socket: &Path, many: usize) {
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let few = callers(&[unix(socket).await], many / CONNECTIONS, SMALL);
        opening.spawn(with_runs(few));
    }
    opening.join_all().await;
}

async fn ask(mut caller: Caller, n: u64) -> Caller {
    let mut request = Request::new(pb::ExecuteToolRequest {
        tool: caller.tool.to_owned(),
        arguments: caller.arguments.clone(),
        call_id: format!("c{}-{n}", caller.name),
        wait_ms: 0,
        ..pb::ExecuteToolRequest::default()
    });
    if let Some(token) = &caller.token {
        request.metadata_mut().insert("authorization", token.clone());
    }
    if let Err(status) = caller.client.execute_tool(request).await
        && caller.failed.fetch_add(1, Ordering::Relaxed) == 0
    {
        eprintln!("a call failed: {}: {}", status.code(), status.message());
    }
    caller
}

async fn drive(plan: &Plan, callers: Vec<Caller>) -> Seen {
    load::drive(callers, plan.warm, plan.each, ask).await
}

async fn seal(mut callers: Vec<Caller>) {
    for caller in &mut callers {
        let mut request = Request::new(pb::SealRunRequest {});
        request.metadata_mut().insert("authorization", caller.token.clone().unwrap());
        caller.client.seal_run(request).await.unwrap();
    }
}

/// So many callers with a run each, sealed afterwards.
pub async fn governed(plan: &Plan, socket: &Path, many: usize, size: Size) -> Seen {
    let mut clients = Vec::new();
    for _ in 0..many.min(CONNECTIONS) {
        clients.push(unix(socket).await);
    }
    let callers = with_runs(callers(&clients, many, size)).await;
    let mut seen = drive(plan, callers.clone()).await;
    seen.failed = callers.first().map_or(0, |caller| caller.failed.load(Ordering::Relaxed));
    seal(callers).await;
    seen
}

struct Floors {
    rows: Vec<(usize, Size, Seen)>,
    commit: Seen,
}

impl Floors {
    fn of(&self, many: usize, size: Size) -> &Seen {
        &self.rows.iter().find(|(m, s, _)| *m == many && *s == size).unwrap().2
    }
}

/// Arguments and results, and how many callers.
type Load = (Size, usize);
const ALL: [Load; 5] = [(SMALL, 1), (SMALL, 16), (SMALL, 128), (LARGE, 16), (LARGE, 128)];
const FEW: [Load; 3] = [(SMALL, 1), (SMALL, 16), (SMALL, 128)];

async fn floors(
    plan: &Plan,
    folder: &Folder,
    admin_url: &str,
    loads: &[Load],
    table: &mut Table,
) -> Floors {
    let echo = EchoServer::start(folder.dir()).await;
    let mut rows = Vec::new();
    for &(size, many) in loads {
        let (mut over_unix, mut over_tcp) = (Vec::new(), Vec::new());
        for _ in 0..many.min(CONNECTIONS) {
            over_unix.push(unix(&echo.socket).await);
            over_tcp.push(tcp(&echo.url).await);
        }
        let seen = drive(plan, callers(&over_unix, many, size)).await;
        if size == SMALL && loads.len() == ALL.len() {
            let tcp = drive(plan, callers(&over_tcp, many, size)).await;
            table.say(&format!(
                "bare tonic echo over TCP, {many} callers, {} B + {} B: {}",
                size.1,
                size.2,
                tcp.words("calls")
            ));
        }
        table.say(&format!(
            "bare tonic echo over a Unix socket, {many} callers, {} B + {} B: {}",
            size.1,
            size.2,
            seen.words("calls")
        ));
        rows.push((many, size, seen));
    }
    let commit = floor::commit(admin_url, plan.each / 2).await;
    table.say(&format!(
        "one durable INSERT of {} B, Postgres: {}",
        floor::ENTRY_BYTES,
        commit.words("commits")
    ));
    Floors { rows, commit }
}

/// Prints the rows about whole calls, memory and start.
pub async fn measure(plan: &Plan, folder: &Folder, database: &TestDb, table: &mut Table) {
    let tool = tool::start().await;
    let stores = [Store::Sqlite, Store::Postgres(database.writer_url.clone())];
    if plan.asked.wants("start") {
        for store in &stores {
            let sidecar =
                folder.configure(&format!("start-{}", store.name()), store, "fifteen", tool);
            starts(&sidecar, store, table);
        }
    }
    if !plan.asked.wants("calls") {
        return;
    }
    let floors = floors(plan, folder, &database.admin_url, &ALL, table).await;
    for store in &stores {
        over(plan, folder, (store, tool), (&floors, &ALL), table).await;
    }
    let far = delay::start(crate::server().port());
    let near = format!(":{}/", crate::server().port());
    let store = Store::Postgres(database.writer_url.replace(&near, &format!(":{}/", far.port())));
    let sidecar = folder.configure("calls-far", &store, "fifteen", tool);
    let running = sidecar.start();
    for many in [1, 128] {
        let seen = governed(plan, &sidecar.socket, many, SMALL).await;
        let bare = floors.of(many, SMALL);
        table.add(Row {
            what: format!(
                "the same, {many} callers, 1 ms added to each round trip to Postgres, 256 B + 256 B"
            ),
            ours: seen.words("calls"),
            floor: format!("echo: {}", bare.words("calls")),
            ratio: Some(seen.per_second / bare.per_second),
            target: None,
        });
    }
    running.stop();
}

/// The ratios that a change of the road moves, in less than a minute.
pub async fn smoke(plan: &Plan, folder: &Folder, database: &TestDb, table: &mut Table) {
    let tool = tool::start().await;
    let floors = floors(plan, folder, &database.admin_url, &FEW, table).await;
    for store in [Store::Sqlite, Store::Postgres(database.writer_url.clone())] {
        over(plan, folder, (&store, tool), (&floors, &FEW[1..]), table).await;
    }
}

/// The rows of one store.
async fn over(
    plan: &Plan,
    folder: &Folder,
    (store, tool): (&Store, SocketAddr),
    (floors, loads): (&Floors, &[Load]),
    table: &mut Table,
) {
    let sidecar = folder.configure(&format!("calls-{}", store.name()), store, "fifteen", tool);
    let running = sidecar.start();
    let rest = running.memory("VmRSS");
    let target = Some(Target::Figure(rest, 30.0, "MiB"));
    table.add(memory(&format!("memory at rest, {}", store.name()), rest, target));
    calls(plan, (&sidecar, &running), (floors, loads), table).await;
    running.stop();
    single(plan, folder, (store, tool), floors, table).await;
}

fn starts(sidecar: &Sidecar, store: &Store, table: &mut Table) {
    let mut took = Vec::new();
    for _ in 0..5 {
        let running = sidecar.start();
        took.push(running.ready_after);
        running.stop();
    }
    let first = took.remove(0);
    took.sort_unstable();
    let median = took[took.len() / 2];
    let most = if matches!(store, Store::Sqlite) { 60.0 } else { 90.0 };
    table.add(Row {
        what: format!("start to ready, {}, 15-rule policy", store.name()),
        ours: format!("{} (first start, with new keys: {})", short(median), short(first)),
        floor: String::new(),
        ratio: None,
        target: Some(Target::Figure(median.as_secs_f64() * 1e3, most, "ms")),
    });
}

fn memory(what: &str, mib: f64, target: Option<Target>) -> Row {
    Row {
        what: what.to_owned(),
        ours: format!("{mib:.1} MiB RSS"),
        floor: String::new(),
        ratio: None,
        target,
    }
}

/// What a gate and its database used so far.
fn used(store: &Store, running: &Running) -> (Duration, Duration) {
    let database = match store {
        Store::Sqlite => Duration::ZERO,
        Store::Postgres(_) => crate::server().cpu(),
    };
    (cpu::of(running.pid()), database)
}

async fn calls(
    plan: &Plan,
    (sidecar, running): (&Sidecar, &Running),
    (floors, loads): (&Floors, &[Load]),
    table: &mut Table,
) {
    let store = &sidecar.store;
    for &(size, many) in loads {
        let before = used(store, running);
        let seen = governed(plan, &sidecar.socket, many, size).await;
        let after = used(store, running);
        let took = plan.each + plan.warm;
        let share = |before: Duration, after: Duration| {
            let cores = after.saturating_sub(before).as_secs_f64() / took.as_secs_f64();
            format!("{cores:.2} cores, {:.0} µs CPU a call", cores * 1e6 / seen.per_second)
        };
        let database = match store {
            Store::Sqlite => String::new(),
            Store::Postgres(_) => format!("; database {}", share(before.1, after.1)),
        };
        let bare = floors.of(many, size);
        table.add(Row {
            what: format!(
                "governed calls, {}, {many} callers, {} B + {} B, 15-rule policy, T2",
                store.name(),
                size.1,
                size.2
            ),
            ours: format!("{}; gate {}{database}", seen.words("calls"), share(before.0, after.0)),
            floor: format!("echo: {}", bare.words("calls")),
            ratio: Some(seen.per_second / bare.per_second),
            target: (many == 128 && size == SMALL).then_some(Target::AtLeast(0.10)),
        });
        if many != 16 && size == SMALL {
            over_http(plan, sidecar, (many, &seen), table).await;
        }
        if many == 128 && size == SMALL {
            let most = running.memory("VmHWM");
            let target = Some(Target::Figure(most, 60.0, "MiB"));
            let what = format!("memory at most, 128 callers, {}", store.name());
            table.add(memory(&what, most, target));
        }
    }
}

/// The same over HTTP/JSON, beside gRPC: in turns, because one machine's speed changes in between.
async fn over_http(
    plan: &Plan,
    sidecar: &Sidecar,
    (many, before): (usize, &Seen),
    table: &mut Table,
) {
    let json = http::governed(plan, &sidecar.socket, many, SMALL).await;
    let after = governed(plan, &sidecar.socket, many, SMALL).await;
    let grpc = (before.per_second + after.per_second) / 2.0;
    table.add(Row {
        what: format!(
            "the same over HTTP/JSON, {}, {many} callers, beside gRPC before and after",
            sidecar.store.name()
        ),
        ours: json.words("calls"),
        floor: format!("gRPC: {} calls/s", load::number(grpc)),
        ratio: Some(json.per_second / grpc),
        target: Some(Target::AtLeast(0.9)),
    });
}

/// One caller and a small policy, against the echo and two commits of the same run.
async fn single(
    plan: &Plan,
    folder: &Folder,
    (store, tool): (&Store, SocketAddr),
    floors: &Floors,
    table: &mut Table,
) {
    let sidecar = folder.configure(&format!("single-{}", store.name()), store, "small", tool);
    let running = sidecar.start();
    let seen = governed(plan, &sidecar.socket, 1, SMALL).await;
    running.stop();
    let echo = floors.of(1, SMALL);
    let least = echo.p50 + floors.commit.p50 * 2;
    table.add(Row {
        what: format!(
            "governed call, {}, 1 caller, 256 B + 256 B, 1-rule policy, T2: p50",
            store.name()
        ),
        ours: seen.words("calls"),
        floor: format!("echo + 2 commits: p50 {}", short(least)),
        ratio: Some(seen.p50.as_secs_f64() / least.as_secs_f64()),
        target: Some(Target::AtMost(2.0)),
    });
}
