//! A throughput plan as the nearest line of iperf 2 or iperf 3.

use std::net::{IpAddr, SocketAddr};

use super::iperf_values::{write_bytes, write_rate};
use super::{number, push_option};
use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, Receive, UDP_RATE};

/// The nearest line of the plan's dialect, and what it cannot say.
pub(super) fn write(plan: &ThroughputPlan) -> (String, Vec<String>) {
    let mut writer = Writer {
        plan,
        words: Vec::new(),
        differs: Vec::new(),
    };
    match plan.dialect {
        Dialect::Iperf2 => writer.iperf2(),
        Dialect::Iperf3 => writer.iperf3(),
    }
    writer.beyond_both();
    (writer.words.join(" "), writer.differs)
}

struct Writer<'p> {
    plan: &'p ThroughputPlan,
    words: Vec<String>,
    differs: Vec<String>,
}

impl Writer<'_> {
    fn flag(&mut self, flag: &str) {
        self.words.push(flag.to_owned());
    }

    fn option(&mut self, option: &str, value: &str) {
        push_option(&mut self.words, option, value);
    }

    fn differs(&mut self, sentence: impl Into<String>) {
        self.differs.push(sentence.into());
    }

    fn iperf2(&mut self) {
        let plan = self.plan;
        self.start("iperf", 5001);
        if let Some(seconds) = plan.duration_s {
            self.option("-t", &number(seconds));
        }
        self.option("-i", &number(plan.interval_s));
        if plan.omit_s > 0.0 {
            self.differs(format!(
                "iperf 2 has no omitted start; this plan leaves out {} s.",
                number(plan.omit_s)
            ));
        }
        match plan.direction {
            Direction::Send => {}
            Direction::Receive => self.flag("-R"),
            Direction::Both => self.flag("--full-duplex"),
            Direction::InTurn => self.flag("-r"),
        }
        if let Some(name) = &plan.congestion {
            self.option("-Z", name);
        }
        self.rest();
    }

    fn iperf3(&mut self) {
        let plan = self.plan;
        self.start("iperf3", 5201);
        if let Some(seconds) = plan.duration_s {
            self.option("-t", &number(seconds));
            if seconds.fract() != 0.0 {
                self.differs("iperf 3 counts whole seconds.");
            }
        }
        if plan.interval_s.to_bits() != 1_f64.to_bits() {
            self.option("-i", &number(plan.interval_s));
        }
        if plan.omit_s > 0.0 {
            self.option("-O", &number(plan.omit_s));
            if plan.omit_s.fract() != 0.0 {
                self.differs("iperf 3 omits whole seconds.");
            }
        }
        match plan.direction {
            Direction::Send => {}
            Direction::Receive => self.flag("-R"),
            Direction::Both => self.flag("--bidir"),
            Direction::InTurn => self.differs("iperf 3 has no test in turn."),
        }
        if let Some(name) = &plan.congestion {
            self.option("-C", name);
        }
        self.rest();
    }

    fn start(&mut self, tool: &str, default_port: u16) {
        let plan = self.plan;
        self.flag(tool);
        self.option("-c", &plan.host);
        if plan.port != default_port {
            self.option("-p", &plan.port.to_string());
        }
        if plan.protocol == Protocol::Udp {
            self.flag("-u");
        }
        if plan.streams != 1 {
            self.option("-P", &plan.streams.to_string());
        }
        if let Some(bytes) = plan.bytes {
            self.option("-n", &write_bytes(bytes));
        }
    }

    /// Options that both tools call the same.
    fn rest(&mut self) {
        let plan = self.plan;
        let udp = plan.protocol == Protocol::Udp;
        if udp || plan.length_bytes != 131_072 {
            self.option("-l", &write_bytes(u64::from(plan.length_bytes)));
        }
        if let Some(bytes) = plan.window_bytes {
            self.option("-w", &write_bytes(bytes));
        }
        if let Some(rate) = plan.bandwidth_bits_per_second {
            if !udp || rate.to_bits() != UDP_RATE.to_bits() {
                self.option("-b", &write_rate(rate));
            }
            if rate.fract() != 0.0 {
                self.differs("The tool counts whole bits per second.");
            }
        }
        if let Some(bytes) = plan.mss_bytes {
            self.option("-M", &bytes.to_string());
        }
        if let Some(byte) = plan.tos {
            self.option("-S", &format!("0x{byte:02x}"));
        }
        match plan.ip_version {
            Some(4) => self.flag("-4"),
            Some(_) => self.flag("-6"),
            None => {}
        }
        match (plan.bind, plan.cport) {
            (bind, Some(port)) if plan.dialect == Dialect::Iperf2 => {
                let any = if plan.ip_version == Some(6) {
                    IpAddr::from([0_u16; 8])
                } else {
                    IpAddr::from([0; 4])
                };
                let place = SocketAddr::new(bind.unwrap_or(any), port);
                self.option("-B", &place.to_string());
            }
            (bind, port) => {
                if let Some(address) = bind {
                    self.option("-B", &address.to_string());
                }
                if let Some(port) = port {
                    self.option("--cport", &port.to_string());
                }
            }
        }
    }

    fn beyond_both(&mut self) {
        let tool = match self.plan.dialect {
            Dialect::Iperf2 => "iperf 2",
            Dialect::Iperf3 => "iperf 3",
        };
        if self.plan.receive == Receive::Discard {
            self.differs(format!(
                "{tool} copies what it receives; this plan discards it in the kernel."
            ));
        }
        if self.plan.offload {
            self.differs(format!(
                "{tool} sends datagrams one by one; this plan lets the kernel cut them (segmentation offload), without a rate."
            ));
        }
    }
}
