//! What a command may use up, and that nothing of it is left.

use serde_json::json;

use crate::estate::{Estate, alive, answer, program, script, tool};
use crate::waiting::until;

/// A name for processes of one test.
fn marker(name: &str) -> String {
    format!("wgc-{name}-{}", std::process::id())
}

/// Waits until no process has it.
async fn gone(marker: &str) {
    until(&format!("`{marker}` to be gone"), || async { alive(marker).is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_processor_time_and_output_are_bounded() {
    let mib = |n: u64| n << 20;
    let hog = "try:\n    x = bytearray(1 << 30)\n    print('had it')\nexcept MemoryError:\n    print('no')";
    let spin = "while True: pass";
    let flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)";
    let noise = "import sys\nsys.stderr.write('e' * 100000)\nprint('done')";
    let threads = "import threading, time\nn = 0\ntry:\n    for n in range(10000):\n        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nexcept (RuntimeError, MemoryError):\n    pass\nprint(n, flush=True)\nimport os\nos._exit(0)";
    let mut tools = Vec::new();
    for level in ["S1", "S2"] {
        let limits = json!({"memory_bytes": mib(256), "cpu_seconds": 1});
        let command = || json!({"sandbox": level, "limits": limits});
        for (name, text) in
            [("hog", hog), ("spin", spin), ("flood", flood), ("noise", noise), ("threads", threads)]
        {
            let more = json!({"result_bytes_max": 200_000, "read_only": true});
            tools.push(script(&format!("{name}.{level}"), text, command(), more));
        }
    }
    let estate = Estate::new(&tools);
    let gate = estate.serve();
    let agent = gate.open().await;
    for level in ["S1", "S2"] {
        let hog = answer(agent.call(&format!("hog.{level}"), "", "{}").await);
        assert_eq!(hog["stdout"], "no\n", "{hog}");
        let spin = agent.call(&format!("spin.{level}"), "", "{}").await.unwrap_err();
        assert_eq!(spin.code, "tool.failed", "{spin:?}");
        assert!(spin.message.contains("ended by signal"), "{spin:?}");
        let flood = agent.call(&format!("flood.{level}"), "", "{}").await.unwrap_err();
        assert!(flood.message.contains("wrote more than"), "{flood:?}");
        let noise = answer(agent.call(&format!("noise.{level}"), "", "{}").await);
        assert_eq!((&noise["stdout"], &noise["stderr_cut"]), (&json!("done\n"), &json!(true)));
        assert_eq!(noise["stderr"].as_str().unwrap().len(), 64 << 10);
        let threads = answer(agent.call(&format!("threads.{level}"), "", "{}").await);
        let started: u32 = threads["stdout"].as_str().unwrap().trim().parse().unwrap();
        // Some, and not without end.
        assert!((1..1000).contains(&started), "{level}: {started}");
    }
    for failed in estate.entries("call.failed") {
        assert!(failed["observed"]["sandbox"].as_str().is_some(), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_deadline_and_takes_everything_with_it() {
    let mark = marker("deadline");
    // Children, a grandchild in the background, and one that no receiver waits for.
    let family = format!(
        "import os, time\nif os.fork() == 0:\n    os.fork()\n    time.sleep(600)\nMARK = '{mark}'\ntime.sleep(600)"
    );
    let alone = format!("import time\nMARK = '{mark}'\ntime.sleep(600)");
    let more = json!({"timeout_ms": 1500});
    let children = json!({"sandbox": "S2", "children": [program("true")]});
    let estate = Estate::new(&[
        script("family", &family, children, more.clone()),
        script("alone", &alone, json!({"sandbox": "S1"}), more),
    ]);
    let gate = estate.serve();
    let agent = gate.open().await;
    for tool in ["family", "alone"] {
        let ended = agent.call(tool, "", "{}").await.unwrap_err();
        assert_eq!(ended.code, "call.unknown", "{ended:?}");
        gone(&mark).await;
    }
    for unknown in estate.entries("call.unknown") {
        assert!(unknown["observed"]["sandbox"].as_str().is_some(), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_behind_ends_with_it() {
    let mark = marker("daemon");
    let daemon = format!(
        "import os, time\nMARK = '{mark}'\nif os.fork() == 0:\n    try:\n        os.setsid()\n    except OSError:\n        pass\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)\nprint('away')"
    );
    let children = json!({"sandbox": "S2", "children": [program("true")]});
    let estate = Estate::new(&[script("daemon", &daemon, children, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let left = answer(agent.call("daemon", "", "{}").await);
    assert_eq!(left["stdout"], "away\n", "{left}");
    gone(&mark).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_stays_in_its_box() {
    let bomb = "import os\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            import time\n            time.sleep(600)\n        n += 1\nexcept OSError:\n    pass\nprint(n)";
    let limits = json!({"pids": 8});
    let children = json!({"sandbox": "S2", "children": [program("true")], "limits": limits});
    let estate = Estate::new(&[script("bomb", bomb, children, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let got = answer(agent.call("bomb", "", "{}").await);
    let made: u32 = got["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((1..8).contains(&made), "{got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outlives_a_gate_that_is_killed() {
    let mark = marker("killed");
    let sleep = format!("import time\nMARK = '{mark}'\ntime.sleep(600)");
    let of = |level: &str| {
        script(&format!("sleep.{level}"), &sleep, json!({"sandbox": level}), json!({}))
    };
    let estate = Estate::new(&[of("S1"), of("S2")]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let calls: Vec<_> = ["S1", "S2"]
        .map(|level| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.call(&format!("sleep.{level}"), "", "{}").await })
        })
        .into();
    until("both to run", || async { alive(&mark).len() >= 2 }).await;
    rustix::process::kill_process(gate.pid(), rustix::process::Signal::KILL).unwrap();
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    gone(&mark).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_exit_codes_that_are_named_are_an_answer() {
    let command =
        json!({"program": program("ls"), "argv": ["--", {"arg": "a"}], "exit_codes": [0]});
    let estate = Estate::new(&[tool("ls", command, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let failed = agent.call("ls", "", r#"{"a":"/nowhere"}"#).await.unwrap_err();
    assert_eq!(failed.code, "tool.failed");
    assert!(failed.message.contains("exit code 2"), "{failed:?}");
    assert_eq!(answer(agent.call("ls", "", r#"{"a":"/usr/bin"}"#).await)["exit_code"], 0);
}
