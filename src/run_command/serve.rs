//! `iperf -s` and `iperf3 -s`: the receiver in the foreground, each test printed as it is served.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::interrupt::stop_on_interrupt;
use super::notebook::Notebook;
use super::request::ReceiverRequest;
use super::screen::Screen;
use super::{MISSED, RAN, Refused, Shell, print, status};
use crate::app::data::plain;
use crate::config::RunOptions;
use crate::config::flags::OutputFormat;
use crate::measure::command_line::{OutputOptions, ServerLine};
use crate::measure::flow::{FlowBatch, FlowEnd};
use crate::measure::fold::{End, Fold, Measured};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, ThroughputPlan};
use crate::measure::run::{Origin, Run, State};
use crate::net::{clock, listening};
use crate::receiver::{self, Receiver, ReceiverConfig, ReceiverEvent};
use crate::report;
use crate::store::Finish;
use crate::supervisor::{Cause, Concluding, StopHandle, conclude, served_command};

/// What happens with tests, and `None` at Ctrl-C.
type Told = Option<ReceiverEvent>;

/// Serves until Ctrl-C, or until as many tests or as much time have passed as the line says; returns the exit status.
pub(super) fn run(
    runtime: &Runtime,
    options: &RunOptions,
    request: &ReceiverRequest,
) -> Result<u8, Refused> {
    let shell = Shell { runtime, options };
    for remark in &request.remarks {
        print::complain(remark);
    }
    let notebook = options.save.then(|| Notebook::open(&shell)).transpose()?;
    let (sender, told) = mpsc::channel();
    let stop = Arc::new(StopHandle::default());
    let interrupted = sender.clone();
    // Once the loop has ended nobody listens any more.
    stop.on_stop(move || drop(interrupted.send(None)));
    stop_on_interrupt(&stop)?;
    let receiver = start(options, &request.line, sender)?;
    let mut hall = Hall::new(&shell, request, receiver.local_addr().port(), notebook);
    let until = request
        .line
        .listen_s
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|time| clock::now().checked_add(time));
    hall.listen();
    loop {
        let next = match until {
            Some(until) => told.recv_timeout(until.saturating_duration_since(clock::now())),
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Some(event)) => hall.enter(event)?,
            Ok(None) | Err(_) => break,
        }
        if hall.is_done() {
            break;
        }
    }
    // Tests in progress end with what they have, and tell it before the receiver is gone.
    drop(receiver);
    for event in told.try_iter().flatten() {
        hall.enter(event)?;
    }
    Ok(hall.close())
}

fn start(
    options: &RunOptions,
    line: &ServerLine,
    sender: mpsc::Sender<Told>,
) -> Result<Receiver, Refused> {
    let caps = &options.limits.caps;
    let accept_from = options.accept_from.clone();
    // iperf 2 takes no more connections than -P says.
    let most = match (line.dialect, line.tests) {
        (Dialect::Iperf2, Some(tests)) => u32::try_from(tests).unwrap_or(u32::MAX),
        _ => u32::MAX,
    };
    let config = ReceiverConfig {
        dialect: line.dialect,
        listen: address(line),
        accept_from: Arc::new(move |from| {
            accept_from.is_empty() || accept_from.iter().any(|block| block.contains(from))
        }),
        max_streams: caps.max_streams.min(most),
        max_duration: Duration::try_from_secs_f64(caps.max_duration_s).unwrap_or(Duration::MAX),
        interval: line
            .interval_s
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(receiver::INTERVAL),
        name: options.name.clone(),
    };
    let events = move |event| {
        // Once the loop has ended nobody listens any more.
        let _ = sender.send(Some(event));
    };
    let events: Arc<dyn Fn(ReceiverEvent) + Send + Sync> = Arc::new(events);
    let started = Receiver::start(config.clone(), Arc::clone(&events)).or_else(|error| {
        if line.bind.is_none() && config.listen.is_ipv6() && listening::is_without_v6(&error) {
            let listen = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), line.port);
            return Receiver::start(
                ReceiverConfig {
                    listen,
                    ..config.clone()
                },
                events,
            );
        }
        Err(error)
    });
    started.map_err(|error| {
        Refused::nothing(format!(
            "Port {} cannot be listened on, over TCP and UDP at {} ({}): choose another port with -p, or an address of this machine with -B.",
            line.port,
            config.listen.ip(),
            plain(&error)
        ))
    })
}

/// Where the line listens: everywhere, when it names no address.
fn address(line: &ServerLine) -> SocketAddr {
    let everywhere = if line.ipv6 {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    SocketAddr::new(line.bind.unwrap_or(everywhere), line.port)
}

/// The tests being served, and what is to be said of them.
struct Hall<'s> {
    shell: &'s Shell<'s>,
    line: &'s ServerLine,
    output: OutputOptions,
    port: u16,
    notebook: Option<Notebook<'s>>,
    tests: BTreeMap<u64, Served>,
    /// Tests that are over.
    ended: u64,
    /// Streams of them.
    streams_ended: u64,
    /// Numbers that streams have taken.
    numbers_taken: u32,
    missed: bool,
}

/// A test under way.
struct Served {
    run: Run,
    fold: Fold,
    screen: Screen,
    streams: u32,
}

impl<'s> Hall<'s> {
    fn new(
        shell: &'s Shell<'s>,
        request: &'s ReceiverRequest,
        port: u16,
        notebook: Option<Notebook<'s>>,
    ) -> Self {
        let mut output = request.output.clone();
        output.iperf.interval_lines = Some(request.line.interval_s.is_some());
        Self {
            shell,
            line: &request.line,
            output,
            port,
            notebook,
            tests: BTreeMap::new(),
            ended: 0,
            streams_ended: 0,
            numbers_taken: 0,
            missed: false,
        }
    }

    /// Whether lines are printed for people, and not data alone.
    fn is_text(&self) -> bool {
        match self.shell.options.format {
            Some(OutputFormat::Text) => true,
            Some(OutputFormat::Json | OutputFormat::Csv) => false,
            None => !self.output.json && !self.output.iperf.csv,
        }
    }

    /// Says that it listens.
    fn listen(&self) {
        if !self.is_text() {
            return;
        }
        let protocol = if self.line.udp {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        print::put(&match self.line.dialect {
            Dialect::Iperf2 => report::iperf_listening(protocol, self.port),
            Dialect::Iperf3 => report::iperf3_listening(self.port, self.ended + 1),
        });
    }

    /// Whether as many were served as the line says: tests of iperf 3, connections of iperf 2.
    fn is_done(&self) -> bool {
        let served = match self.line.dialect {
            Dialect::Iperf2 => self.streams_ended,
            Dialect::Iperf3 => self.ended,
        };
        self.line.tests.is_some_and(|tests| served >= tests)
    }

    fn enter(&mut self, event: ReceiverEvent) -> Result<(), Refused> {
        match event {
            ReceiverEvent::TestBegun { id, from, plan } => self.begin(id, from, plan)?,
            ReceiverEvent::Batch { id, batch } => self.take(id, batch),
            ReceiverEvent::TestEnded { id, end } => self.end(id, end),
            ReceiverEvent::Refused { from, why } => print::complain(&format!("{from}: {why}")),
        }
        Ok(())
    }

    fn begin(
        &mut self,
        id: u64,
        from: SocketAddr,
        mut plan: ThroughputPlan,
    ) -> Result<(), Refused> {
        if let Some(interval_s) = self.line.interval_s {
            plan.interval_s = interval_s;
        }
        let ip = from.ip().to_canonical();
        let (streams, dialect) = (plan.streams, plan.dialect);
        let numbers = match plan.direction {
            Direction::InTurn => streams.saturating_mul(2),
            _ => streams,
        };
        let command = served_command(&plan, self.port);
        let whole = Plan::Throughput(plan.clone());
        let who = (Origin::Received, ip.to_string());
        let mut run = self.shell.unmeasured(&whole, command, who, Some(ip));
        if let Some(notebook) = &self.notebook {
            notebook.insert(&mut run)?;
        }
        run.started_at = Some(clock::wall());
        if let Some(notebook) = &self.notebook {
            notebook.start(&run);
        }
        let screen = Screen::of_server(
            &run,
            &plan,
            &self.output,
            self.shell.options.format,
            self.numbers_taken,
        );
        self.numbers_taken = self.numbers_taken.saturating_add(numbers);
        if dialect == Dialect::Iperf3 && self.is_text() {
            let port = from.port();
            print::put(&format!("Accepted connection from {ip}, port {port}\n"));
        }
        let fold = Fold::new(&whole);
        self.tests.insert(
            id,
            Served {
                run,
                fold,
                screen,
                streams,
            },
        );
        Ok(())
    }

    fn take(&mut self, id: u64, batch: FlowBatch) {
        let Some(served) = self.tests.get_mut(&id) else {
            return;
        };
        let batch = Measured::Flow(batch);
        let closed = served.fold.push(&batch);
        served.screen.take(&batch, &closed);
        if let Some(notebook) = &self.notebook {
            notebook.append(served.run.id, closed);
        }
    }

    fn end(&mut self, id: u64, end: FlowEnd) {
        let Some(served) = self.tests.remove(&id) else {
            return;
        };
        let Served {
            mut run,
            mut fold,
            mut screen,
            streams,
        } = served;
        let stopped = end.stopped;
        let end = End::Flow(end);
        let closed = fold.finish(&end);
        screen.rows(&closed);
        let finished_at = clock::wall();
        let finish = match fold.summary(&end) {
            Some(summary) => {
                let of = Concluding {
                    plan: &run.plan,
                    environment: &run.environment,
                    objective: self.shell.objective(),
                    cause: stopped.then_some(Cause::Cancel),
                };
                conclude(&of, &end, (closed, summary, fold.series(&end)), finished_at)
            }
            None => Finish::bare(
                State::Failed,
                finished_at,
                Some("Nothing was measured.".to_owned()),
            ),
        };
        finish.write(&mut run);
        if let Some(notebook) = &self.notebook {
            notebook.finish(run.id, finish);
        }
        screen.end(&run);
        if run.state == State::Failed
            && let Some(error) = &run.error
        {
            print::complain(&format!("{}: {error}", run.actor));
        }
        self.missed |= status(&run) == MISSED;
        self.ended += 1;
        self.streams_ended += u64::from(streams);
        if self.line.dialect == Dialect::Iperf3 && !stopped && !self.is_done() {
            self.listen();
        }
    }

    /// Closes the notebook; gives the exit status.
    fn close(self) -> u8 {
        if let Some(notebook) = self.notebook {
            notebook.close();
        }
        if self.missed { MISSED } else { RAN }
    }
}
