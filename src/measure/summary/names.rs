//! A bounded set of names (backends, regions): at most 64, the rest under one.

use std::sync::Arc;

/// The name under which replies of all names beyond the bound are counted.
pub const OTHER: &str = "(other)";

/// The most names that are told apart.
pub const MAX_NAMES: usize = 64;

/// A place in tables that are kept by name; 0 is [`OTHER`].
pub type Slot = usize;

/// What happened to a name that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It has this place.
    At(Slot),
    /// It takes this place; what is there belongs to [`OTHER`] from now on.
    Instead(Slot),
}

/// Names to slots. Of more than 64 names the first 64 in order of the alphabet are kept, so that the
/// result does not depend on who answered first.
#[derive(Clone, Debug, Default)]
pub struct Names {
    sorted: Vec<(Arc<str>, Slot)>,
}

impl Names {
    /// The place of a name, which may push out another.
    pub fn admit(&mut self, name: &Arc<str>) -> Admitted {
        if &**name == OTHER {
            return Admitted::At(0);
        }
        let found = self
            .sorted
            .binary_search_by(|(known, _)| known.as_ref().cmp(name));
        let place = match found {
            Ok(place) => return Admitted::At(self.sorted[place].1),
            Err(place) => place,
        };
        if self.sorted.len() < MAX_NAMES {
            let slot = self.sorted.len() + 1;
            self.sorted.insert(place, (Arc::clone(name), slot));
            return Admitted::At(slot);
        }
        if place == MAX_NAMES {
            return Admitted::At(0);
        }
        let Some((_, slot)) = self.sorted.pop() else {
            return Admitted::At(0);
        };
        self.sorted.insert(place, (Arc::clone(name), slot));
        Admitted::Instead(slot)
    }

    /// The place of a name that is known; [`OTHER`]'s for any other.
    pub fn slot(&self, name: &str) -> Slot {
        self.sorted
            .binary_search_by(|(known, _)| known.as_ref().cmp(name))
            .map_or(0, |place| self.sorted[place].1)
    }

    /// All names with their slots, [`OTHER`] last.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Slot)> {
        self.sorted
            .iter()
            .map(|(name, slot)| (&**name, *slot))
            .chain(std::iter::once((OTHER, 0)))
    }

    /// The names as they are shared.
    pub fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sorted.iter().map(|(name, _)| name)
    }
}

/// Values by slot, grown on demand.
#[derive(Clone, Debug)]
pub struct BySlot<T> {
    values: Vec<T>,
}

impl<T> Default for BySlot<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T: Default + Merge> BySlot<T> {
    /// The value at this slot.
    pub fn at(&mut self, slot: Slot) -> &mut T {
        if slot >= self.values.len() {
            self.values.resize_with(slot + 1, T::default);
        }
        &mut self.values[slot]
    }

    /// The value at this slot, where there is one.
    pub fn find(&self, slot: Slot) -> Option<&T> {
        self.values.get(slot)
    }

    /// Moves what stands at this slot to [`OTHER`].
    pub fn give_up(&mut self, slot: Slot) {
        if let Some(value) = self.values.get_mut(slot) {
            let value = std::mem::take(value);
            self.at(0).merge(&value);
        }
    }

    /// Adds the other's values; `slots` says where each of its slots goes.
    pub fn merge(&mut self, other: &Self, slots: &[Slot]) {
        for (slot, value) in other.values.iter().enumerate() {
            self.at(slots.get(slot).copied().unwrap_or(0)).merge(value);
        }
    }
}

/// What can be added up.
pub trait Merge {
    /// Adds the other to this.
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn count(names: &[String]) -> BTreeMap<String, u64> {
        let mut table = Names::default();
        let mut counts = BySlot::<u64>::default();
        for name in names {
            let slot = match table.admit(&Arc::from(name.as_str())) {
                Admitted::At(slot) => slot,
                Admitted::Instead(slot) => {
                    counts.give_up(slot);
                    slot
                }
            };
            *counts.at(slot) += 1;
        }
        table
            .iter()
            .filter_map(|(name, slot)| Some((name.to_owned(), *counts.find(slot)?)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    #[test]
    fn of_many_names_the_same_64_are_kept_in_any_order() {
        let mut names: Vec<String> = (0..1000).map(|i| format!("b{:03}", i * 7 % 100)).collect();
        let forward = count(&names);
        names.reverse();
        assert_eq!(count(&names), forward);
        assert_eq!(forward.len(), 65);
        assert_eq!(forward["b000"], 10);
        assert_eq!(forward[OTHER], 360);
        assert_eq!(forward.values().sum::<u64>(), 1000);
    }
}
