//! The gate that a bench measures, and the far side of it: processes of their own that end with this one.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::program;

/// A running gate that listens for agents on TCP.
#[derive(Debug)]
pub struct MeasuredGate {
    child: Child,
    /// Where agents with the token connect.
    pub agents: SocketAddr,
}

impl MeasuredGate {
    /// Runs the gate of `wicketgate.yaml` in this directory and waits until it serves.
    pub fn serve(dir: &Path) -> Self {
        let mut child = Command::new(program::gate())
            .args(["serve", "--config", "wicketgate.yaml"])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut agents = None;
        let mut said = String::new();
        loop {
            let Some(Ok(line)) = lines.next() else { panic!("the gate ended: {said}") };
            if line.contains("agent API listening") {
                agents = agents.or_else(|| address(&line));
            }
            said.push_str(&line);
            said.push('\n');
            if line.contains("ready=true") {
                break;
            }
        }
        // Without a reader the gate would wait once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, agents: agents.expect("an address") }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// KiB of memory that it has.
    pub fn memory(&self) -> f64 {
        super::memory_of(self.pid(), "VmRSS") * 1024.0
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "the gate ends in order");
    }
}

impl Drop for MeasuredGate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(line: &str) -> Option<SocketAddr> {
    let digits = &line[line.find("127.0.0.1:")?..];
    let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// This bench's program in another part: a server that prints its address, until its standard input ends.
#[derive(Debug)]
pub struct FarSide {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl FarSide {
    /// Starts the program with these arguments.
    pub fn start(args: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
