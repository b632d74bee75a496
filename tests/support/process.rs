//! A process of a test: what it says is read as it comes, and it does not outlive the test.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::waiting::PATIENCE;

/// Lines of one stream: kept all, and handed out one by one.
struct Lines {
    all: Arc<Mutex<String>>,
    next: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let all = Arc::new(Mutex::new(String::new()));
        let (send, next) = channel();
        let kept = Arc::clone(&all);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let mut all = kept.lock();
                all.push_str(&line);
                all.push('\n');
                drop(all);
                // Nobody may be waiting for more.
                let _ = send.send(line);
            }
        });
        Self { all, next, reader: Some(reader) }
    }
}

/// A running process. Killed when dropped; one that reads its standard input ends with the test too.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    out: Lines,
    err: Lines,
}

impl Process {
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{shown}: {e}"));
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let input = child.stdin.take();
        Self { child, input, out: Lines::of(out), err: Lines::of(err) }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The same, to send signals to.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Everything it wrote to standard error until now.
    pub fn said(&self) -> String {
        self.err.all.lock().clone()
    }

    /// Everything it wrote to standard output until now.
    pub fn wrote(&self) -> String {
        self.out.all.lock().clone()
    }

    /// The first line of standard error from here on for which `found` has something.
    #[track_caller]
    pub fn hear<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        self.wait(&self.err, what, found)
    }

    /// The first line of standard output from here on for which `found` has something.
    #[track_caller]
    pub fn read<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        self.wait(&self.out, what, found)
    }

    #[track_caller]
    fn wait<T>(&self, lines: &Lines, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            match lines.next.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    if let Some(found) = found(&line) {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("waited for {what}: {}", self.said()),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended before {what}: {}{}", self.wrote(), self.said())
                }
            }
        }
    }

    /// Asks it to end, and waits until it did.
    pub fn stop(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait_for_end()
    }

    /// Waits until it ends, its standard input at its end.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        drop(self.input.take());
        // Both streams end with the process; waiting for that needs no clock, but a limit.
        let began = Instant::now();
        while let Ok(_) | Err(RecvTimeoutError::Timeout) =
            self.err.next.recv_timeout(PATIENCE.saturating_sub(began.elapsed()))
        {
            assert!(began.elapsed() < PATIENCE, "does not end: {}", self.said());
        }
        let status = self.child.wait().unwrap();
        for reader in [self.out.reader.take(), self.err.reader.take()].into_iter().flatten() {
            reader.join().unwrap();
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.child.id(), self.said());
        }
    }
}

/// Runs a command to its end: whether it succeeded, standard output, standard error.
#[track_caller]
pub fn run(mut command: Command) -> (bool, String, String) {
    let shown = format!("{command:?}");
    let done = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{shown}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.success(), text(&done.stdout), text(&done.stderr))
}
