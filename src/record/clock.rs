//! The only `now()` and the only source of randomness: ports, so that simulation and replay own time.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time. May step backwards; nothing orders by it.
    fn now(&self) -> Timestamp;
    /// Time since this clock was made, that of a sleeping machine included. Never steps backwards.
    fn monotonic(&self) -> Duration;
    /// The ledger has an entry at this time. A clock that follows the ledger never shows an earlier
    /// time from now on.
    fn reached(&self, _at: Timestamp) {}
}

/// Makes unpredictable bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// 32 random bytes.
pub fn random32(entropy: &dyn Entropy) -> [u8; 32] {
    let mut bytes = [0_u8; 32];
    entropy.fill(&mut bytes);
    bytes
}

/// 16 random bytes.
pub fn random16(entropy: &dyn Entropy) -> [u8; 16] {
    let mut bytes = [0_u8; 16];
    entropy.fill(&mut bytes);
    bytes
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Duration,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { start: since_boot() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
    }

    fn monotonic(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }
}

/// CLOCK_BOOTTIME: it also runs while the machine sleeps.
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// The operating system's random bytes.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // WHY: without randomness there is no salt, no token and no key, so the process cannot go
        // on safely.
        #[expect(clippy::expect_used, reason = "without randomness the process must stop")]
        getrandom::fill(bytes).expect("the operating system gives no randomness");
    }
}
