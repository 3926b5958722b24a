//! iperf 2 over UDP: one socket for all, whose flows are told apart by their source address.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::desk::{Desk, Group, Seat};
use super::line::Line;
use super::sequence::Sequence;
use super::udp_return::Return;
use super::{opening, spawn};
use crate::measure::flow::Way;
use crate::net::clock;
use crate::net::sys::{Arrived, CpuTimes, ReceiveBatch, thread_cpu};
use crate::wire::iperf2::datagram::{DatagramHead, Generation, Id, recognise};
use crate::wire::iperf2::header::{ClientHeader, Mode, flag, upper};
use crate::wire::iperf2::report::UdpReport;
use crate::wire::own::Own;

/// Flows that are remembered at once, those that have just ended too.
const TABLE: usize = 1_024;
/// A flow that is silent for so long has vanished.
const SILENCE: Duration = Duration::from_secs(10);
/// A flow whose sender announced that it sends no end is over when it was silent for so long after its time.
const NO_END: Duration = Duration::from_secs(3);
/// How often flows are looked over.
const SWEEP: Duration = Duration::from_millis(250);
/// Ids above it begin no flow: a test of which the first thousand datagrams are missing is none.
const FIRST_IDS: u64 = 1_000;
/// One in so many datagrams of a flow must have come before its end is answered.
const CREDIBLE: u64 = 1_000;

/// The flows of one socket.
struct Flows {
    desk: Arc<Desk>,
    socket: Arc<UdpSocket>,
    local: Option<SocketAddr>,
    table: HashMap<SocketAddr, Flow>,
    swept: Instant,
    /// Drops of the socket that are accounted for.
    drops: u32,
    /// Datagrams since the last sweep, and CPU time up to it.
    datagrams: u64,
    cpu: CpuTimes,
    /// Whether flows come joined.
    joins: bool,
}

struct Flow {
    generation: Generation,
    /// What one of our own clients asked.
    own: Option<Own>,
    seen: Instant,
    datagrams: u64,
    role: Role,
}

enum Role {
    /// The client sends.
    Receiving(Box<Receiving>),
    /// We send on request; what else the client sends are repetitions of the request.
    Giving { stamp: i64 },
    /// Ended; repetitions of its end get the same answer.
    Over {
        report: Option<UdpReport>,
        stamp: i64,
        highest: u64,
    },
}

struct Receiving {
    seat: Arc<Seat>,
    line: Arc<Line>,
    /// What is sent back afterwards (`-r`).
    then: Option<Return>,
    no_end: bool,
    planned_end: Option<Instant>,
    stamp: i64,
}

/// Serves until the receiver stops.
pub(super) fn serve(desk: &Arc<Desk>, socket: UdpSocket) {
    let mut flows = Flows {
        desk: Arc::clone(desk),
        local: socket.local_addr().ok(),
        socket: Arc::new(socket),
        table: HashMap::new(),
        swept: clock::now(),
        drops: 0,
        datagrams: 0,
        cpu: thread_cpu(),
        joins: false,
    };
    let mut batch = batch();
    let mut joined: Option<ReceiveBatch> = None;
    let socket = Arc::clone(&flows.socket);
    while !desk.is_stopping() {
        let mut now = None;
        let got = joined
            .as_mut()
            .unwrap_or(&mut batch)
            .receive(&*socket, |datagram| {
                // One reading for all that came together.
                let now = *now.get_or_insert_with(clock::now);
                if let Some(from) = datagram.from {
                    flows.take(&datagram, from, now);
                }
            });
        match got {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            // Nothing that one client can cause; the socket goes on.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        let now = clock::now();
        if now.saturating_duration_since(flows.swept) >= SWEEP {
            flows.sweep(now);
        }
        if flows.joins != joined.is_some() {
            joined = if flows.joins {
                self::joined(&socket)
            } else {
                ReceiveBatch::part(&*socket);
                None
            };
            flows.joins = joined.is_some();
        }
    }
    for flow in flows.table.values() {
        if let Role::Receiving(receiving) = &flow.role {
            receiving.line.end();
        }
    }
}

/// Room for datagrams that come one by one, of which all that matters is kept.
pub(super) fn batch() -> ReceiveBatch {
    ReceiveBatch::new(64, 9_216)
}

/// Room for datagrams that the kernel joins; `None` where it does not.
pub(super) fn joined(socket: &UdpSocket) -> Option<ReceiveBatch> {
    let mut batch = ReceiveBatch::new(16, 65_535);
    batch.join(socket).ok().map(|()| batch)
}

/// When a datagram came, in microseconds of the wall clock.
pub(super) fn arrived_micros(datagram: &Arrived<'_>) -> i64 {
    let stamp = datagram
        .at
        .and_then(|at| i64::try_from(at.as_micros()).ok());
    stamp.unwrap_or_else(|| clock::wall().as_microsecond())
}

impl Flows {
    fn take(&mut self, datagram: &Arrived<'_>, from: SocketAddr, now: Instant) {
        let dropped = datagram.dropped.map_or(0, |dropped| {
            let more = dropped.wrapping_sub(self.drops);
            self.drops = dropped;
            more
        });
        let Some(head) = DatagramHead::parse(datagram.bytes) else {
            if self.desk.accepts(from.ip()) {
                self.desk
                    .refuse(from.ip(), "A datagram too short to be iperf's.");
            }
            return;
        };
        let Some(flow) = self.table.get_mut(&from) else {
            self.begin(datagram, from, &head, now);
            return;
        };
        flow.seen = now;
        flow.datagrams += 1;
        self.datagrams += 1;
        let (generation, own) = (flow.generation, flow.own);
        let report = match &mut flow.role {
            Role::Receiving(receiving) => {
                match receiving.count(generation, datagram, &head, dropped, now) {
                    Some(report) => report,
                    None => return,
                }
            }
            Role::Giving { stamp } => {
                if head.sent_micros() > *stamp + 1_000_000 && self.desk.accepts(from.ip()) {
                    self.begin(datagram, from, &head, now);
                }
                return;
            }
            Role::Over {
                report,
                stamp,
                highest,
            } => match head.id(generation, Some(*highest)) {
                Id::End(_) => {
                    if let Some(report) = report {
                        let answer = answer(report, generation, own, datagram.bytes);
                        // If it is lost the client asks again.
                        let _ = self.socket.send_to(&answer, from);
                    }
                    return;
                }
                Id::Data(id) => {
                    if id <= *highest && head.sent_micros() > *stamp {
                        self.begin(datagram, from, &head, now);
                    }
                    return;
                }
            },
        };
        // The first end of a flow.
        let highest = report.datagrams;
        let over = Role::Over {
            report: Some(report),
            stamp: head.sent_micros(),
            highest,
        };
        if let Role::Receiving(receiving) = std::mem::replace(&mut flow.role, over) {
            if receiving.no_end {
                // Such a client takes an answer for data.
                flow.role = Role::Over {
                    report: None,
                    stamp: head.sent_micros(),
                    highest,
                };
            } else {
                let answer = answer(&report, generation, own, datagram.bytes);
                // As above.
                let _ = self.socket.send_to(&answer, from);
            }
            receiving.finish();
        }
    }

    /// The first datagram of a flow.
    fn begin(
        &mut self,
        datagram: &Arrived<'_>,
        from: SocketAddr,
        head: &DatagramHead,
        now: Instant,
    ) {
        let ip = from.ip();
        if !self.desk.accepts(ip) {
            return;
        }
        let (generation, header) = recognise(datagram.bytes);
        let own = header.as_ref().and_then(|header| header.own);
        if own.is_some_and(|own| own.probe) {
            self.answer_probe(datagram, from, (generation, own), head, now);
            return;
        }
        match head.id(generation, None) {
            Id::Data(id) if id <= FIRST_IDS => {}
            Id::Data(_) => {
                self.desk.refuse(ip, "Datagrams that begin no test.");
                return;
            }
            // The end of a flow that is not known: nothing to count, nobody to answer.
            Id::End(_) => return,
        }
        if header
            .as_ref()
            .is_some_and(|header| header.flags & flag::KEY_CHECK != 0)
        {
            self.desk.refuse(
                ip,
                "The client sent a permit key, and this receiver has none.",
            );
            return;
        }
        let port = self.local.map_or(0, |local| local.port());
        let group = opening::group(
            header.as_ref(),
            from,
            port,
            Some(datagram.length),
            self.desk.config.max_duration,
        );
        let Ok(seat) = self.desk.seat(from, &group, 1) else {
            return;
        };
        self.make_room();
        self.joins |= own.is_some_and(|own| own.offload);
        let mut flow = Flow {
            generation,
            own,
            seen: now,
            datagrams: 1,
            role: self.role(generation, header.as_ref(), &group, seat, from, head),
        };
        if let Role::Receiving(receiving) = &mut flow.role {
            receiving.count(generation, datagram, head, 0, now);
        }
        self.datagrams += 1;
        self.table.insert(from, flow);
    }

    /// One of our own clients asks whether this port answers: its end gets the report of what came, and no test is kept.
    fn answer_probe(
        &mut self,
        datagram: &Arrived<'_>,
        from: SocketAddr,
        (generation, own): (Generation, Option<Own>),
        head: &DatagramHead,
        now: Instant,
    ) {
        self.make_room();
        let report = UdpReport {
            bytes: datagram.length as u64,
            datagrams: 1,
            ..UdpReport::default()
        };
        if let Id::End(_) = head.id(generation, None) {
            let answer = answer(&report, generation, own, datagram.bytes);
            // If it is lost the client asks again.
            let _ = self.socket.send_to(&answer, from);
        }
        let role = Role::Over {
            report: Some(report),
            stamp: head.sent_micros(),
            highest: 1,
        };
        self.table.insert(
            from,
            Flow {
                generation,
                own,
                seen: now,
                datagrams: 0,
                role,
            },
        );
    }

    fn role(
        &self,
        generation: Generation,
        header: Option<&ClientHeader>,
        group: &Group,
        seat: Seat,
        from: SocketAddr,
        head: &DatagramHead,
    ) -> Role {
        let seat = Arc::new(seat);
        let planned = group.plan.duration_s.map(Duration::from_secs_f64);
        let mode = header.map_or(Mode::Plain, ClientHeader::mode);
        let back = header.map(|header| Return::new(header, &group.plan, from));
        if mode == Mode::Reverse
            && let Some(back) = back
        {
            let (socket, seat) = (Arc::clone(&self.socket), Arc::clone(&seat));
            let local = self.local;
            spawned(&seat.desk.clone(), from, move || {
                back.on(&socket, local, &seat, planned);
            });
            return Role::Giving {
                stamp: head.sent_micros(),
            };
        }
        let line = seat.line(
            (seat.stream, Way::Receive),
            (self.local, from),
            planned,
            None,
            Some(
                Sequence::new(u64::from(generation == Generation::New)).joined(group.plan.offload),
            ),
        );
        let mut then = None;
        match (mode, back) {
            (Mode::FullDuplex, Some(back)) => {
                let (socket, seat) = (Arc::clone(&self.socket), Arc::clone(&seat));
                let local = self.local;
                spawned(&seat.desk.clone(), from, move || {
                    back.on(&socket, local, &seat, planned);
                });
            }
            (Mode::Dual, Some(back)) => {
                let seat = Arc::clone(&seat);
                spawned(&seat.desk.clone(), from, move || {
                    back.to_port(&seat, planned);
                });
            }
            (Mode::Tradeoff, back) => then = back,
            _ => {}
        }
        Role::Receiving(Box::new(Receiving {
            seat,
            line,
            then,
            no_end: header.is_some_and(|header| header.upper & upper::NO_UDP_FIN != 0),
            planned_end: planned.and_then(|planned| clock::now().checked_add(planned)),
            stamp: 0,
        }))
    }

    /// Forgets the flow that is longest out of use when the table is full: an ended one, else one that hardly sends.
    fn make_room(&mut self) {
        if self.table.len() < TABLE {
            return;
        }
        let rank = |flow: &Flow| (!matches!(flow.role, Role::Over { .. }), flow.datagrams > 3);
        let last = self
            .table
            .iter()
            .min_by_key(|(_, flow)| (rank(flow), flow.seen))
            .map(|(from, _)| *from);
        if let Some(flow) = last.and_then(|from| self.table.remove(&from))
            && let Role::Receiving(receiving) = flow.role
        {
            receiving
                .line
                .stop(Some("Pushed out: more flows came than are remembered."));
            receiving.finish();
        }
    }

    /// Ends flows that fell silent or were cut, and shares out the thread's CPU time.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let cpu = thread_cpu();
        let user = cpu.user.saturating_sub(self.cpu.user);
        let system = cpu.system.saturating_sub(self.cpu.system);
        let all = std::mem::take(&mut self.datagrams).max(1);
        self.cpu = cpu;
        // Joining spoils the jitter of everybody else.
        self.joins = self.table.values().any(|flow| {
            matches!(flow.role, Role::Receiving(_)) && flow.own.is_some_and(|own| own.offload)
        });
        self.table.retain(|_, flow| {
            let silence = now.saturating_duration_since(flow.seen);
            let datagrams = std::mem::take(&mut flow.datagrams);
            let Role::Receiving(receiving) = &flow.role else {
                return silence < SILENCE;
            };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a share of a quarter of a second"
            )]
            let share = |time: Duration| time.mul_f32((datagrams as f64 / all as f64) as f32);
            {
                let mut tally = receiving.line.tally();
                tally.cpu.user += share(user);
                tally.cpu.system += share(system);
            }
            let due = receiving.planned_end.is_none_or(|end| now >= end);
            if receiving.no_end && due && silence >= NO_END {
                // As it announced.
            } else if silence >= SILENCE {
                receiving.line.stop(Some(
                    "The client vanished: no datagram came for 10 s, and no end.",
                ));
            } else if !receiving.line.is_over() {
                // Whoever sends much is well known.
                flow.datagrams = datagrams.min(4);
                return true;
            }
            let report = receiving.report();
            let over = Role::Over {
                highest: report.datagrams,
                report: (!receiving.no_end).then_some(report),
                stamp: receiving.stamp,
            };
            if let Role::Receiving(receiving) = std::mem::replace(&mut flow.role, over) {
                receiving.finish();
            }
            true
        });
    }
}

/// The report as the client reads it.
fn answer(report: &UdpReport, generation: Generation, own: Option<Own>, end: &[u8]) -> Vec<u8> {
    let mut bytes = report.encode(generation, end);
    if let Some(own) = own {
        UdpReport::mark(&mut bytes, own);
    }
    bytes
}

impl Receiving {
    /// Counts one datagram; the report if it was the end of the flow.
    fn count(
        &mut self,
        generation: Generation,
        datagram: &Arrived<'_>,
        head: &DatagramHead,
        dropped: u32,
        now: Instant,
    ) -> Option<UdpReport> {
        if self.line.is_over() {
            return None;
        }
        let mut tally = self.line.tally();
        let sequence = tally.sequence.as_mut()?;
        sequence.dropped += u64::from(dropped);
        let highest = sequence.highest();
        let (id, end) = match head.id(generation, highest) {
            Id::Data(id) => (id, false),
            Id::End(id) => {
                let credible = sequence.received.saturating_mul(CREDIBLE) >= id;
                if !credible || highest.is_some_and(|highest| id <= highest) {
                    return None;
                }
                (id, true)
            }
        };
        if sequence.arrive(id) {
            // The stamp has 32 bits of seconds; only differences count.
            sequence.transit(arrived_micros(datagram).wrapping_sub(head.sent_micros()));
            tally.bytes += datagram.length as u64;
            tally.touch(now);
        }
        drop(tally);
        self.stamp = head.sent_micros();
        end.then(|| self.report())
    }

    fn report(&self) -> UdpReport {
        let tally = self.line.tally();
        let mut report = UdpReport {
            bytes: tally.bytes,
            duration: tally.span(),
            ..UdpReport::default()
        };
        if let Some(sequence) = &tally.sequence {
            report.lost = sequence.lost();
            report.out_of_order = sequence.out_of_order;
            report.datagrams = sequence.highest().unwrap_or(0);
            report.jitter = sequence.jitter().unwrap_or_default();
        }
        report
    }

    fn finish(self) {
        self.line.end();
        let Self {
            seat, then, line, ..
        } = self;
        if let Some(back) = then
            && !line.is_over()
        {
            let planned = back.planned();
            spawned(&seat.desk.clone(), back.client(), move || {
                back.to_port(&seat, planned);
            });
        }
    }
}

fn spawned(desk: &Desk, from: SocketAddr, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = spawn("udp-send", work) {
        desk.refuse(from.ip(), &format!("No thread could be started: {error}."));
    }
}
