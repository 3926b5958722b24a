//! All connections of one server: caps, and who goes when a cap is reached.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::ServeLimits;
use super::activity::Activity;

/// All connections of one server.
#[derive(Debug)]
pub(super) struct Registry {
    limits: ServeLimits,
    open: Mutex<Open>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Entry>,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    activity: Arc<Activity>,
    /// Already told to go: it counts no more.
    evicted: bool,
}

/// A connection's place among the others; dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Seat {
    registry: Arc<Registry>,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Registry {
    pub(super) fn new(limits: ServeLimits) -> Self {
        Self {
            limits,
            open: Mutex::new(Open::default()),
            changed: Notify::new(),
        }
    }

    /// A place for a new connection, if need be that of the connection that has idled longest;
    /// `None` when all the others are busy.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut open = self.lock();
        let same = open.by_address.get(&address).copied().unwrap_or(0);
        if let Some(most) = self.limits.per_address
            && same >= most
            && same - open.event_streams(address) >= most
        {
            open.evict_idle(Some(address))?;
        }
        let seated: usize = open.by_address.values().sum();
        if seated >= self.limits.total {
            open.evict_idle(None)?;
        }
        let id = open.next;
        open.next += 1;
        let activity = Arc::new(Activity::new());
        open.connections.insert(
            id,
            Entry {
                address,
                activity: Arc::clone(&activity),
                evicted: false,
            },
        );
        *open.by_address.entry(address).or_default() += 1;
        drop(open);
        Some(Seat {
            registry: Arc::clone(self),
            id,
            activity,
        })
    }

    /// Ends the connections of which this is true.
    pub(super) fn close_where(&self, chosen: impl Fn(&Activity) -> bool) {
        for entry in self.lock().connections.values() {
            if chosen(&entry.activity) {
                entry.activity.close.notify_one();
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().connections.is_empty()
    }

    /// Whether no request is being answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.lock()
            .connections
            .values()
            .all(|entry| !entry.activity.is_busy())
    }

    /// Waits until this is true; looked at whenever a reply or a connection ends.
    pub(super) async fn until(&self, reached: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if reached(self) {
                return;
            }
            changed.await;
        }
    }

    /// A reply or a connection has ended.
    pub(super) fn note_change(&self) {
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Event streams of an address. They have a cap of their own, and do not count to that of connections: whoever
    /// watches a run in many windows must still get at the page that stops it.
    fn event_streams(&self, address: IpAddr) -> usize {
        self.connections
            .values()
            .filter(|entry| !entry.evicted && entry.address == address)
            .filter(|entry| entry.activity.is_busy() && entry.activity.is_event_stream())
            .count()
    }

    fn evict_idle(&mut self, of: Option<IpAddr>) -> Option<()> {
        let oldest = self
            .connections
            .values_mut()
            .filter(|entry| !entry.evicted && of.is_none_or(|address| entry.address == address))
            .filter_map(|entry| Some((entry.activity.idle_since()?, entry)))
            .min_by_key(|(since, _)| *since)?
            .1;
        oldest.evicted = true;
        oldest.activity.close.notify_one();
        let address = oldest.address;
        self.leave(address);
        Some(())
    }

    fn leave(&mut self, address: IpAddr) {
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Seat {
    pub(super) fn note_change(&self) {
        self.registry.note_change();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.registry.lock();
        if let Some(entry) = open.connections.remove(&self.id)
            && !entry.evicted
        {
            open.leave(entry.address);
        }
        drop(open);
        self.registry.note_change();
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::Doing;
    use super::*;

    fn registry(per_address: Option<usize>, total: usize) -> Arc<Registry> {
        Arc::new(Registry::new(ServeLimits {
            per_address,
            total,
            ..ServeLimits::dashboard()
        }))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[tokio::test]
    async fn a_full_server_ends_the_connection_that_has_idled_longest() {
        let registry = registry(None, 2);
        let first = registry.admit(address(1)).unwrap();
        let second = registry.admit(address(2)).unwrap();
        first.activity.begin(Doing::Busy);
        let third = registry.admit(address(3)).unwrap();
        second.activity.close.notified().await;
        third.activity.begin(Doing::Busy);
        assert!(registry.admit(address(4)).is_none(), "both are busy");
        drop(first);
        assert!(registry.admit(address(4)).is_some());
    }

    #[tokio::test]
    async fn an_address_over_its_cap_only_displaces_itself() {
        let registry = registry(Some(1), 10);
        let other = registry.admit(address(1)).unwrap();
        let own = registry.admit(address(2)).unwrap();
        let again = registry.admit(address(2)).unwrap();
        own.activity.close.notified().await;
        drop(own);
        again.activity.begin(Doing::Busy);
        assert!(registry.admit(address(2)).is_none());
        drop((other, again));
        assert!(registry.is_empty());
        assert!(registry.lock().by_address.is_empty());
    }

    #[tokio::test]
    async fn watching_runs_does_not_lock_an_address_out() {
        let registry = registry(Some(2), 10);
        let watching: Vec<Seat> = (0..2)
            .map(|_| registry.admit(address(1)).unwrap())
            .collect();
        for seat in &watching {
            seat.activity.begin(Doing::Busy);
        }
        assert!(registry.admit(address(1)).is_none(), "both answer");
        for seat in &watching {
            seat.activity.mark_event_stream();
        }
        let pages: Vec<Seat> = (0..2)
            .map(|_| registry.admit(address(1)).unwrap())
            .collect();
        for seat in &pages {
            seat.activity.begin(Doing::Busy);
        }
        assert!(registry.admit(address(1)).is_none(), "the pages answer");
    }
}
