//! The places of requests to models: they last for minutes, and must not keep tool calls out.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::code::Code;
use crate::serve::problem::Problem;

/// Places that streams cannot take.
const WHOLE_ONLY: usize = 16;

/// KiB of the bodies that are in memory at the same time, over all callers.
const BODIES_KIB: usize = 512 << 10;

/// The places over all connections.
#[derive(Debug)]
pub(super) struct ModelPlaces {
    all: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl ModelPlaces {
    pub(super) fn new(most: usize) -> Self {
        let streams = most.saturating_sub(WHOLE_ONLY).max(1);
        let of = |places: usize| Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { all: of(most), streams: of(streams), bodies: of(BODIES_KIB) }
    }

    /// A place for one request.
    pub(super) fn request(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.all).try_acquire_owned().map_err(|_| full("requests"))
    }

    /// A place for an answer that streams, besides that of its request.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| full("streams"))
    }

    /// Memory for a body of so many bytes, until the request was sent on.
    pub(super) fn body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = Arc::clone(&self.bodies).try_acquire_many_owned(kib(bytes));
        taken.map_err(|_| full("bodies"))
    }
}

/// Gives back what a body does not need: it was not known how long it is.
pub(super) fn shrink(memory: &mut OwnedSemaphorePermit, bytes: usize) {
    let needed = usize::try_from(kib(bytes)).unwrap_or(usize::MAX);
    drop(memory.split(memory.num_permits().saturating_sub(needed)));
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

fn full(what: &str) -> Problem {
    Problem::of(Code::Overloaded, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_sixteen_places_to_whole_answers() {
        let places = ModelPlaces::new(40);
        let requests: Vec<_> = (0..24).map(|_| places.request().unwrap()).collect();
        let streams: Vec<_> = (0..24).map(|_| places.stream().unwrap()).collect();
        assert_eq!(places.stream().unwrap_err().code, Code::Overloaded);
        let whole: Vec<_> = (0..16).map(|_| places.request().unwrap()).collect();
        assert_eq!(places.request().unwrap_err().code, Code::Overloaded);
        drop((requests, streams, whole));
        assert!(places.stream().is_ok() && places.request().is_ok());
    }

    #[test]
    fn bodies_have_so_much_memory_in_all_and_give_back_what_they_do_not_need() {
        let places = ModelPlaces::new(40);
        let most = 32 << 20;
        let mut all: Vec<_> = (0..16).map(|_| places.body(most).unwrap()).collect();
        assert!(places.body(1).is_err());
        shrink(all.first_mut().unwrap(), 1000);
        assert!(places.body(most).is_err());
        assert!(places.body(most - 1024).is_ok());
    }
}
