//! What happens when, for one store.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The memory of the gate is read.
    Sample,
    Reload,
    Export,
    /// `kill -9`, and a start.
    Kill,
    /// SIGTERM, and a start.
    Terminate,
    /// A window ends; none of a calm one has a kill in it.
    Window {
        calm: bool,
    },
}

/// Windows of one store's time at least.
const WINDOWS: u32 = 20;
/// Memory is read so often in a window.
const SAMPLES: u32 = 8;

/// Events by time from the start.
pub struct Agenda;

impl Agenda {
    /// The first half is calm, the gate dies in the second.
    pub fn of(each: Duration) -> Vec<(Duration, Event)> {
        let window = (each / WINDOWS).min(Duration::from_secs(30));
        let calm = each / 2;
        let reload = (each / 10).min(Duration::from_secs(30));
        let export = (each / 5).min(Duration::from_secs(60));
        // At least four in the second half, however short it is.
        let kill = (calm / 4).min(Duration::from_secs(60));
        let mut all = Vec::new();
        let mut every = |from: Duration, step: Duration, until: Duration, event: Event| {
            let mut at = from;
            while at < until {
                all.push((at, event));
                at += step;
            }
        };
        every(window / SAMPLES / 2, window / SAMPLES, each, Event::Sample);
        every(window, window, calm + window / 2, Event::Window { calm: true });
        every(calm + window, window, each + window / 2, Event::Window { calm: false });
        every(reload / 2, reload, each, Event::Reload);
        every(export * 3 / 4, export, each, Event::Export);
        every(calm + kill / 3, kill, each, Event::Kill);
        all.push((calm + kill * 5 / 6, Event::Terminate));
        all.sort_unstable();
        all
    }
}
