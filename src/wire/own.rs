//! What one of our clients asks of one of our receivers, in places that iperf neither fills nor reads.

/// What is asked, and in the answer what is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The receiver lets the kernel throw away what comes instead of copying it (TCP).
    pub discard: bool,
    /// Datagrams are sent by segmentation offload, and may be received joined.
    pub offload: bool,
    /// Whether the port answers is all that is asked (UDP): it is no test, and none is kept of it.
    pub probe: bool,
}

/// The upper byte of a half-word that is ours.
const MARK: u16 = 0x7400;
const DISCARD: u16 = 0x0001;
const OFFLOAD: u16 = 0x0002;
const PROBE: u16 = 0x0004;

impl Own {
    /// As a half-word (iperf 2: a reserved one of the client's header, and of the server's answers).
    pub const fn word(self) -> u16 {
        let discard = if self.discard { DISCARD } else { 0 };
        let offload = if self.offload { OFFLOAD } else { 0 };
        let probe = if self.probe { PROBE } else { 0 };
        MARK | discard | offload | probe
    }

    /// Reads the half-word; `None` where it is not ours.
    pub const fn read(word: u16) -> Option<Self> {
        if word & !(DISCARD | OFFLOAD | PROBE) != MARK {
            return None;
        }
        Some(Self {
            discard: word & DISCARD != 0,
            offload: word & OFFLOAD != 0,
            probe: word & PROBE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_reads_back_and_nothing_else_does() {
        let marks: Vec<u16> = (0..=u16::MAX)
            .filter(|word| Own::read(*word).is_some())
            .collect();
        assert_eq!(marks, (0x7400..=0x7407).collect::<Vec<u16>>());
        for mark in marks {
            assert_eq!(Own::read(mark).map(Own::word), Some(mark));
        }
    }
}
