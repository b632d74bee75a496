//! What goes wrong: one seeded generator, a disk that fails, a clock that steps, tools that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wicketgate::clock::{Clock, Entropy};
use wicketgate::domain::id::{ChainId, RunId};
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::store::{
    Batch, EntryRange, EntryRow, HeadRow, LeaseKey, LeaseRequest, Leased, LedgerStore, PayloadRef,
    PayloadRow, StoreError,
};
use wicketgate_support::memory::MemoryStore;

/// SplitMix64: small, seeded, good enough to choose faults with.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x5752_4943_4b45_5447)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True `per_mille` times in 1000.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub const fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// Bytes that are the same for the same seed.
pub struct Seeded(pub Mutex<Dice>);

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            let word = dice.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Wall time follows tokio's paused time and can be stepped; monotonic time only follows.
pub struct ManualClock {
    start: Instant,
    step: AtomicI64,
}

impl ManualClock {
    pub fn new() -> Self {
        Self { start: Instant::now(), step: AtomicI64::new(0) }
    }

    pub fn step(&self, millis: i64) {
        self.step.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.start.elapsed().as_millis()).unwrap();
        // 2026-11-21T20:00:00Z
        Timestamp::from_millis(1_795_291_200_000 + elapsed + self.step.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// How often the disk does what, in thousandths of all writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// Not written, and said so.
    pub refuse: u64,
    /// Written, and the answer lost.
    pub lose_answer: u64,
    /// Not written, and the answer lost.
    pub lose_write: u64,
    /// Written late, up to beyond every wait.
    pub delay: u64,
    /// No space.
    pub full: u64,
    /// There is no space to keep back for outcomes, and enough for what is written.
    pub short: bool,
    /// Somebody else takes the slot first.
    pub steal: u64,
    /// The process dies before the write.
    pub crash_before: u64,
    /// The process dies after the write, before it learns of it.
    pub crash_after: u64,
    /// The storage fails for good in this process.
    pub broken: u64,
    /// The outage: nothing is written until then.
    pub down_until: Option<Instant>,
    /// Nobody can read what is asked of a call, from each write on for so long.
    pub blind_for: Option<Duration>,
    /// Nobody can until then.
    pub blind_until: Option<Instant>,
}

enum Fate {
    Proceed,
    Refuse(StoreError),
    LoseAnswer,
    LoseWrite,
    Delay(Duration),
    Steal,
    CrashBefore,
    CrashAfter,
}

/// The sky over all disks of one world.
pub struct Sky {
    pub weather: Mutex<Weather>,
    pub dice: Mutex<Dice>,
    /// Faults that were injected, for the report.
    pub faults: std::sync::atomic::AtomicU64,
    pub broke: AtomicBool,
    pub flaws: Mutex<Vec<String>>,
}

impl Sky {
    fn fate(&self) -> Fate {
        let weather = *self.weather.lock();
        let mut dice = self.dice.lock();
        let fate = Self::choose(&weather, &mut dice);
        if !matches!(fate, Fate::Proceed) {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(fate, Fate::Refuse(StoreError::Broken(_))) {
            self.broke.store(true, Ordering::Relaxed);
        }
        fate
    }

    fn choose(weather: &Weather, dice: &mut Dice) -> Fate {
        let down = weather.down_until.is_some_and(|until| Instant::now() < until);
        let mut roll = dice.below(1000);
        let mut hits = |share: u64| {
            let hit = roll < share;
            roll = roll.saturating_sub(share);
            hit && share > 0
        };
        if hits(weather.crash_before) {
            Fate::CrashBefore
        } else if hits(weather.crash_after) {
            Fate::CrashAfter
        } else if hits(weather.steal) {
            Fate::Steal
        } else if hits(weather.broken) {
            Fate::Refuse(StoreError::Broken("simulated: fsync failed".into()))
        } else if down {
            Fate::Refuse(StoreError::Unavailable("simulated: down".into()))
        } else if hits(weather.refuse) {
            Fate::Refuse(StoreError::Unavailable("simulated: refused".into()))
        } else if hits(weather.full) {
            Fate::Refuse(StoreError::Full("simulated: no space".into()))
        } else if hits(weather.lose_answer) {
            Fate::LoseAnswer
        } else if hits(weather.lose_write) {
            Fate::LoseWrite
        } else if hits(weather.delay) {
            Fate::Delay(if dice.chance(600) { dice.millis(500, 2600) } else { dice.millis(1, 200) })
        } else {
            Fate::Proceed
        }
    }
}

/// One life's way to the one store: when the life is over, nothing passes any more.
pub struct Disk {
    pub memory: MemoryStore,
    pub sky: Arc<Sky>,
    pub dead: CancellationToken,
    pub granted: Mutex<Option<LeaseKey>>,
}

impl Disk {
    /// A dead process neither sees nor does anything again.
    async fn alive(&self) {
        if self.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// A read takes its time too: others may write meanwhile.
    async fn turn(&self) {
        let time = Duration::from_millis(self.sky.dice.lock().below(3));
        tokio::time::sleep(time).await;
        self.alive().await;
    }

    async fn die<T>(&self) -> T {
        self.dead.cancel();
        std::future::pending().await
    }

    async fn write<T>(
        &self,
        steal: Option<&LeaseKey>,
        apply: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // A turn of the scheduler, so that others queue behind a write as they do in life.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.alive().await;
        let done = match self.sky.fate() {
            Fate::Proceed => apply.await,
            Fate::Refuse(error) => Err(error),
            Fate::LoseAnswer => {
                apply.await.and(Err(StoreError::Unknown("simulated: answer lost".into())))
            }
            Fate::LoseWrite => Err(StoreError::Unknown("simulated: nothing came back".into())),
            Fate::Delay(time) => {
                tokio::time::sleep(time).await;
                self.alive().await;
                apply.await
            }
            Fate::Steal => {
                if let Some(key) = steal {
                    self.rob(key).await;
                }
                apply.await
            }
            Fate::CrashBefore => self.die().await,
            Fate::CrashAfter => {
                drop(apply.await);
                self.die().await
            }
        };
        self.alive().await;
        let mut weather = self.sky.weather.lock();
        if let Some(time) = weather.blind_for {
            weather.blind_until = Some(Instant::now() + time);
        }
        done
    }

    fn seen(&self) -> Result<(), StoreError> {
        let until = self.sky.weather.lock().blind_until;
        let blind = until.is_some_and(|until| Instant::now() < until);
        if blind { Err(StoreError::Unavailable("simulated: blind".into())) } else { Ok(()) }
    }

    /// Another writer that knows the lease's secret takes the slot, and is never heard of again.
    async fn rob(&self, key: &LeaseKey) {
        let mut secret = [0_u8; 32];
        secret[..8].copy_from_slice(&self.sky.dice.lock().next().to_le_bytes());
        let request = LeaseRequest {
            tenant: "default".into(),
            pool: "local".into(),
            writer: "a robber".into(),
            previous: Some(key.clone()),
            secret,
            chain: ChainId::from_bytes([0xee; 16]),
            term: Duration::from_secs(2),
        };
        if self.memory.head(key).await.is_ok() {
            drop(self.memory.lease(&request).await);
        }
    }
}

#[async_trait]
impl LedgerStore for Disk {
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        let before = self.granted.lock().clone();
        let leasing = async {
            let leased = self.memory.lease(request).await;
            *self.granted.lock() = leased.as_ref().ok().map(|l| l.key.clone());
            leased
        };
        let leased = self.write(None, leasing).await;
        // A slot that was granted, and whose answer was lost, is found again while it is ours.
        if let (Some(before), Ok(leased)) = (before, &leased)
            && before.chain != leased.key.chain
            && self.memory.head(&before).await.is_ok()
        {
            self.sky.flaws.lock().push("(9) a slot was taken twice and one left open".into());
        }
        leased
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Arc<Batch>,
    ) -> Result<(), StoreError> {
        self.write(Some(key), self.memory.append(key, expected, batch)).await
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        self.write(Some(key), self.memory.put_payload(key, payload)).await
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        self.write(None, self.memory.release(key)).await
    }

    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError> {
        self.alive().await;
        self.memory.head(key).await
    }

    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        match range {
            EntryRange::From(..) | EntryRange::Run(_) | EntryRange::Lone(..) => self.alive().await,
            EntryRange::Call(..) => {
                self.turn().await;
                self.seen()?;
            }
        }
        LedgerStore::select(&self.memory, key, range).await
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        self.alive().await;
        self.memory.open_runs(key).await
    }

    async fn payload(
        &self,
        key: &LeaseKey,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError> {
        self.alive().await;
        LedgerStore::payload(&self.memory, key, at).await
    }

    async fn relieve(&self) -> bool {
        true
    }

    async fn replenish(&self) -> Result<bool, StoreError> {
        let weather = *self.sky.weather.lock();
        Ok(!weather.short && (weather.full == 0 || self.sky.dice.lock().chance(500)))
    }
}
