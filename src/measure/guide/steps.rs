//! The experiments of each guide, and what to look for.

use super::{Guide, Start, Step};
use crate::measure::experiment::ExperimentKind::{Capacity, Paired, Series, Sweep};
use crate::measure::plan::Kind;
use Start::{Experiment as Exp, Run as One};

const fn step(word: &'static str, start: Start, does: &'static str, why: &'static str) -> Step {
    Step {
        word,
        does,
        why,
        start,
    }
}

impl Guide {
    /// Its experiments, in their order.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub const fn steps(self) -> &'static [Step] {
        match self {
            Self::ConnectionTest => {
                const {
                    &[
                        step(
                            "ping",
                            One(Kind::Ping),
                            "Send 5 packets",
                            "Whether anything comes back, and how late the first one is.",
                        ),
                        step(
                            "many",
                            One(Kind::Ping),
                            "Send 100 packets, 5 a second",
                            "How much the round trip wavers: a median of five says little.",
                        ),
                    ]
                }
            }
            Self::CoreCount => {
                const {
                    &[
                        step(
                            "one",
                            One(Kind::Throughput),
                            "One stream",
                            "What a single connection reaches. Do it once for each machine.",
                        ),
                        step(
                            "streams",
                            Exp(Sweep),
                            "1, 4 and 8 streams",
                            "Whether one connection was the limit, or the machine.",
                        ),
                        step(
                            "hundred",
                            Exp(Series),
                            "The same 100 times",
                            "Whether a single figure can be believed.",
                        ),
                    ]
                }
            }
            Self::InternalExternal => {
                const {
                    &[
                        step(
                            "internal",
                            One(Kind::Throughput),
                            "By the internal address",
                            "The way inside the network.",
                        ),
                        step(
                            "external",
                            One(Kind::Throughput),
                            "By the external address",
                            "The same machine, the long way round.",
                        ),
                        step(
                            "pair",
                            Exp(Paired),
                            "Both in turn, five times",
                            "What drifts meanwhile meets both; the ratio gets an interval.",
                        ),
                    ]
                }
            }
            Self::Tier1 => {
                const {
                    &[
                        step(
                            "mtu",
                            One(Kind::Path),
                            "Find the MTU of the path",
                            "Large frames must fit all the way, not at one end alone.",
                        ),
                        step(
                            "sixteen",
                            One(Kind::Throughput),
                            "16 streams for 30 s",
                            "One stream cannot fill such a link.",
                        ),
                    ]
                }
            }
            Self::Capacity => {
                const {
                    &[
                        step(
                            "fetch",
                            One(Kind::Fetch),
                            "Ask once",
                            "The unloaded time, part by part.",
                        ),
                        step(
                            "users",
                            One(Kind::Users),
                            "4 users, 20 requests each",
                            "A closed loop finds the ceiling, and hides the waiting.",
                        ),
                        step(
                            "search",
                            Exp(Capacity),
                            "Search the capacity",
                            "Between which two rates the server stops keeping up.",
                        ),
                        step(
                            "sweep",
                            Exp(Sweep),
                            "Offer rates below and above it",
                            "What waiting does on both sides of the ceiling.",
                        ),
                    ]
                }
            }
            Self::RegionalOverload => {
                const {
                    &[
                        step(
                            "search",
                            Exp(Capacity),
                            "Search the capacity of one backend",
                            "The rates below follow from it.",
                        ),
                        step(
                            "sweep",
                            Exp(Sweep),
                            "Offer rates to the region's front",
                            "Where three servers together bend.",
                        ),
                    ]
                }
            }
            Self::GlobalOverflow => {
                const {
                    &[
                        step(
                            "below",
                            One(Kind::Rate),
                            "As much as one region is allowed",
                            "Nothing should spill.",
                        ),
                        step(
                            "series",
                            Exp(Series),
                            "Twice as much, five times",
                            "Repeat until the balancer has settled.",
                        ),
                        step(
                            "sweep",
                            Exp(Sweep),
                            "Offer the region's rates to both",
                            "Beside the regional sweep: it bends only beyond both regions.",
                        ),
                    ]
                }
            }
            Self::RegionFailure => {
                const {
                    &[
                        step(
                            "steady",
                            One(Kind::Rate),
                            "A steady load",
                            "What it is like while everything is up.",
                        ),
                        step(
                            "kill",
                            One(Kind::Rate),
                            "Kill a region under load",
                            "Errors, and the time until there are none.",
                        ),
                        step(
                            "drain",
                            One(Kind::Rate),
                            "Drain one backend under load",
                            "A backend that is told to end loses nothing.",
                        ),
                    ]
                }
            }
        }
    }

    /// What to look for.
    pub const fn look_for(self) -> &'static [&'static str] {
        match self {
            Self::ConnectionTest => &[
                "The first packet is often several times slower: addresses are looked up and flows set up. It stays in the chart.",
                "Lost packets to a machine that is up mean a firewall: check the ports on the Peers page.",
                "The time to live tells whether the way goes through routers.",
            ],
            Self::CoreCount => &[
                "The documented cap of the sender is 2 Gbit/s for each vCPU, 16 Gbit/s at most. It is documented, not a limit that is always kept.",
                "If more streams bring more, one connection was the limit: its window, its core or the path.",
                "If they bring nothing, the machine or its cap is: the report names which, with the evidence.",
            ],
            Self::InternalExternal => &[
                "The external address leaves the network and comes back: another MTU, another cap, more machines on the way.",
                "Use the internal address between machines of one network; the Peers page warns where a test does not.",
                "A ratio whose interval includes 1 is no difference.",
            ],
            Self::Tier1 => &[
                "The MTU must be 8896 to the byte on the whole path, not on this interface alone.",
                "The sum counts; the streams share it unevenly, and the slowest may get a sixth of the fastest.",
                "Below the documented cap, look at what limited the run: usually the sender's CPU.",
            ],
            Self::Capacity => &[
                "In a closed loop users wait for each other, so the latency stays small however slow the server is.",
                "Above the ceiling the queue grows as long as the load lasts: the latency is a matter of time, not of the server.",
                "Errors appear when the queue is full or clients give up, not at the ceiling.",
            ],
            Self::RegionalOverload => &[
                "Three servers hold at most three times what one holds; the balancer's own unevenness takes a part of it.",
                "Watch the maximum beside the median: it rises first.",
            ],
            Self::GlobalOverflow => &[
                "Up to the first region's cap everything is answered there.",
                "Above it the second region's share is seen in the replies' own header.",
                "A balancer that learns slowly queues in the first region at first; the medians fall until it has settled.",
            ],
            Self::RegionFailure => &[
                "Errors end when the balancer has marked the backends down, not when they died.",
                "Draining is the difference between no error and some.",
            ],
        }
    }
}
