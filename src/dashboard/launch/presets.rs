//! Fillings of the launch form that take one click.

use crate::dashboard::fields::Values;
use crate::measure::plan::Kind;

/// One filling: what it is called, and the fields that it sets; an empty value empties the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Its word in forms and addresses.
    pub word: &'static str,
    /// What the button says.
    pub label: &'static str,
    /// What the old tool would call it.
    pub note: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

const fn preset(
    word: &'static str,
    label: &'static str,
    note: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Preset {
    Preset {
        word,
        label,
        note,
        fields,
    }
}

const THROUGHPUT: [Preset; 8] = [
    preset("p1", "1 stream", "-P 1", &[("streams", "1")]),
    preset("p4", "4 streams", "-P 4", &[("streams", "4")]),
    preset("p8", "8 streams", "-P 8", &[("streams", "8")]),
    preset("p16", "16 streams", "-P 16", &[("streams", "16")]),
    preset(
        "tier1",
        "16 streams, 30 s",
        "Tier_1 lab",
        &[
            ("protocol", "tcp"),
            ("direction", "send"),
            ("streams", "16"),
            ("duration_s", "30"),
            ("bytes", ""),
            ("bandwidth_bits_per_second", ""),
            ("offload", ""),
        ],
    ),
    preset("reverse", "Receive", "-R", &[("direction", "receive")]),
    preset(
        "both",
        "Both directions",
        "--full-duplex, --bidir",
        &[("direction", "both")],
    ),
    preset(
        "udp100",
        "UDP, 100 Mbit/s",
        "-u -b 100m",
        &[
            ("protocol", "udp"),
            ("bandwidth_bits_per_second", "100M"),
            ("length_bytes", ""),
            ("mss_bytes", ""),
            ("congestion", ""),
            ("receive", "copy"),
            ("offload", ""),
        ],
    ),
];

const PING: [Preset; 3] = [
    preset(
        "c5",
        "5 packets",
        "-c 5",
        &[("count", "5"), ("interval_s", "1")],
    ),
    preset(
        "c100",
        "100 packets, 5 a second",
        "-c 100 -i 0.2",
        &[("count", "100"), ("interval_s", "0.2")],
    ),
    preset(
        "tcp",
        "By TCP, port 5001",
        "where ICMP is kept back",
        &[("method", "tcp"), ("port", "5001"), ("size_bytes", "")],
    ),
];

const PATH: [Preset; 3] = [
    preset(
        "mtu8896",
        "8896 expected",
        "jumbo frames, Tier_1 lab",
        &[("expect_mtu", "8896")],
    ),
    preset(
        "mtu1500",
        "1500 expected",
        "Ethernet",
        &[("expect_mtu", "1500")],
    ),
    preset(
        "mtu1460",
        "1460 expected",
        "cloud network as it comes",
        &[("expect_mtu", "1460")],
    ),
];

/// The fillings for this kind of run.
pub const fn of(kind: Kind) -> &'static [Preset] {
    match kind {
        Kind::Throughput => &THROUGHPUT,
        Kind::Ping => &PING,
        Kind::Path => &PATH,
        Kind::Rate | Kind::Users | Kind::Fetch => &[],
    }
}

/// Fills the form; a word that is not known changes nothing.
pub fn apply(kind: Kind, word: &str, values: &mut Values) {
    let Some(preset) = of(kind).iter().find(|preset| preset.word == word) else {
        return;
    };
    for (name, value) in preset.fields {
        values.insert((*name).to_owned(), (*value).to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::launch::page::plan;
    use crate::measure::plan::Caps;

    #[test]
    fn every_preset_makes_a_plan_that_can_be_run_after_every_other_one() {
        for kind in Kind::ALL {
            let all = of(kind);
            for first in all {
                for second in all {
                    let mut values = Values::new();
                    values.insert("host".to_owned(), "127.0.0.1".to_owned());
                    apply(kind, first.word, &mut values);
                    apply(kind, second.word, &mut values);
                    let plan = plan(kind, &values, &Caps::default());
                    assert!(plan.is_ok(), "{first:?}, {second:?}: {plan:?}");
                }
            }
        }
        let mut values = Values::new();
        apply(Kind::Throughput, "nothing", &mut values);
        assert!(values.is_empty());
    }
}
