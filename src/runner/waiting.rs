//! Things that wait for an instant, all for the same length of time: first in, first due, removed without a search.

use std::time::Duration;

/// Numbered things in the order in which they are due.
///
/// All wait equally long, so the order of adding is the order of falling due; a chain through the numbers makes
/// removal cheap and needs no memory per addition.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    links: Vec<Link>,
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    due: Duration,
    before: Option<u32>,
    after: Option<u32>,
    waits: bool,
}

impl Waiting {
    /// Adds `number`; `due` must not be before that of any other.
    pub(super) fn add(&mut self, number: u32, due: Duration) {
        self.remove(number);
        if self.links.len() <= number as usize {
            self.links.resize(number as usize + 1, Link::default());
        }
        self.links[number as usize] = Link {
            due,
            before: self.last,
            after: None,
            waits: true,
        };
        match self.last {
            Some(last) => self.links[last as usize].after = Some(number),
            None => self.first = Some(number),
        }
        self.last = Some(number);
    }

    /// Takes `number` out, if it waits.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(link) = self
            .links
            .get_mut(number as usize)
            .filter(|link| link.waits)
        else {
            return;
        };
        let (before, after) = (link.before, link.after);
        link.waits = false;
        match before {
            Some(before) => self.links[before as usize].after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => self.links[after as usize].before = before,
            None => self.last = before,
        }
    }

    /// The instant at which the first is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.first.map(|first| self.links[first as usize].due)
    }

    /// Takes out the first if it is due at `now`.
    pub(super) fn pop(&mut self, now: Duration) -> Option<u32> {
        let first = self.first?;
        if self.links[first as usize].due > now {
            return None;
        }
        self.remove(first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_never_falls_due_and_the_order_stays() {
        let at = Duration::from_millis;
        let mut waiting = Waiting::default();
        for number in 0..6 {
            waiting.add(number, at(u64::from(number)));
        }
        waiting.remove(0);
        waiting.remove(3);
        waiting.remove(3);
        waiting.remove(5);
        waiting.add(3, at(9));
        assert_eq!(waiting.due(), Some(at(1)));
        let mut order = Vec::new();
        while let Some(number) = waiting.pop(at(9)) {
            order.push(number);
        }
        assert_eq!(order, [1, 2, 4, 3]);
        assert_eq!(waiting.due(), None);
        waiting.add(7, at(20));
        assert_eq!(waiting.pop(at(19)), None);
        assert_eq!(waiting.pop(at(20)), Some(7));
    }
}
