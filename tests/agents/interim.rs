//! Until `tools lock` is there: the same through the library.

use std::path::Path;

use wicketgate::catalog::lock::{self, Lock, LockedServer, Shown};
use wicketgate::config::Config;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::tool::mcp::Upstreams;

pub fn lock(dir: &Path) {
    let env = |name: &str| std::env::var(name).ok();
    let config = Config::load(&dir.join("wicketgate.yaml"), &env).unwrap();
    let servers = config.servers(&env).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let text = runtime.block_on(async {
        let upstreams = Upstreams::new(&servers);
        let mut locked = Vec::new();
        for upstream in upstreams.iter() {
            let probed = upstream.probe().await.unwrap();
            assert!(probed.left_out.is_empty(), "{:?}", probed.left_out);
            let shown = Shown {
                protocol: probed.protocol,
                server_info: probed.server_info,
                methods: probed.methods,
                tools: probed.tools,
            };
            let (one, left) = LockedServer::of(upstream.server(), &shown);
            assert!(left.is_empty(), "{left:?}");
            locked.push(one);
        }
        upstreams.close().await;
        Lock::of(locked).text()
    });
    let key = SecretKey::load(&dir.join("lock")).unwrap();
    let path = dir.join("tools.lock");
    let envelope = lock::sign(text.as_bytes(), "tools.lock", &[&key]).unwrap();
    std::fs::write(lock::envelope_path(&path), envelope).unwrap();
    std::fs::write(path, text).unwrap();
}
