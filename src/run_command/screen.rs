//! A run on standard output as it goes: what its tool prints while it runs, then its end.

use std::net::IpAddr;

use super::print::{self, put};
use super::request::Request;
use crate::config::flags::OutputFormat;
use crate::measure::command_line::{IperfOutput, OutputOptions, Tool};
use crate::measure::fold::{Closed, Measured};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, ThroughputPlan};
use crate::measure::run::{Run, State};
use crate::measure::summary::Summary;
use crate::measure::summary::flow::{FlowInterval, StreamFigures, ThroughputSummary};
use crate::report::{self, Iperf3Writer, IperfCsv, IperfWriter, PingWriter, Print, Side};

/// One run on its way to standard output.
pub(super) struct Screen {
    form: Form,
    output: OutputOptions,
    format: Option<OutputFormat>,
}

/// What is printed while it runs.
enum Form {
    /// Nothing.
    AtEnd,
    /// Nothing; iperf 3's JSON has the intervals at its end.
    Json(Vec<FlowInterval>),
    /// iperf 2's lines.
    Iperf(Box<IperfWriter>),
    /// iperf 3's lines.
    Iperf3(Box<Iperf3Writer>),
    /// iperf 2's `-y C`.
    Csv {
        writer: Box<IperfCsv>,
        streams: Vec<StreamFigures>,
        intervals: bool,
    },
    /// A line for each answer.
    Ping(Box<PingWriter>),
}

impl Screen {
    /// Of a test that this end starts; the run has its start.
    pub(super) fn of_client(
        run: &Run,
        request: &Request,
        format: Option<OutputFormat>,
        address: Option<IpAddr>,
    ) -> Self {
        let mut output = request.output.clone();
        if request.tool == Tool::Iperf {
            // Without -i iperf 2 prints totals alone.
            output.iperf.interval_lines.get_or_insert(false);
        }
        let form = match (&run.plan, format) {
            (_, Some(OutputFormat::Json | OutputFormat::Csv)) => Form::AtEnd,
            (Plan::Throughput(plan), _) => {
                let output = in_form(&output, format);
                of_flow(run, plan, Side::Client, &output, 0)
            }
            (Plan::Ping(plan), _) => {
                let print = if output.quiet {
                    Print::SummaryAlone
                } else {
                    Print::Each
                };
                Form::Ping(Box::new(PingWriter::new(plan, address, print)))
            }
            _ => Form::AtEnd,
        };
        Self {
            form,
            output,
            format,
        }
    }

    /// Of a test that a receiver serves, whose streams are numbered on from those before.
    pub(super) fn of_server(
        run: &Run,
        plan: &ThroughputPlan,
        output: &OutputOptions,
        format: Option<OutputFormat>,
        numbers_taken: u32,
    ) -> Self {
        let form = match format {
            Some(OutputFormat::Json | OutputFormat::Csv) => Form::AtEnd,
            _ => of_flow(
                run,
                plan,
                Side::Server,
                &in_form(output, format),
                numbers_taken,
            ),
        };
        Self {
            form,
            output: output.clone(),
            format,
        }
    }

    /// What is printed before anything is sent.
    pub(super) fn open(&self) {
        match &self.form {
            Form::Iperf(writer) => put(&writer.opening(None)),
            Form::Iperf3(writer) => put(&writer.opening()),
            Form::Ping(writer) => put(&writer.opening()),
            Form::AtEnd | Form::Json(_) | Form::Csv { .. } => {}
        }
    }

    /// A batch, and what is complete since it came.
    pub(super) fn take(&mut self, batch: &Measured, closed: &[Closed]) {
        if let Measured::Flow(batch) = batch {
            let opened: Vec<StreamFigures> = batch.opened.iter().map(StreamFigures::from).collect();
            match &mut self.form {
                Form::Iperf(writer) => put(&writer.connected(&opened)),
                Form::Iperf3(writer) => put(&writer.connected(&opened)),
                Form::Csv { streams, .. } => streams.extend(opened),
                Form::AtEnd | Form::Json(_) | Form::Ping(_) => {}
            }
        }
        self.rows(closed);
    }

    /// Rows that are complete.
    pub(super) fn rows(&mut self, closed: &[Closed]) {
        let flows = closed.iter().filter_map(|one| match one {
            Closed::Flow(row) => Some(row.clone()),
            _ => None,
        });
        match &mut self.form {
            Form::AtEnd => {}
            Form::Json(rows) => rows.extend(flows),
            Form::Iperf(writer) => put(&writer.intervals(&flows.collect::<Vec<_>>())),
            Form::Iperf3(writer) => put(&writer.intervals(&flows.collect::<Vec<_>>())),
            Form::Csv {
                writer,
                streams,
                intervals,
            } => {
                for row in flows.filter(|_| *intervals) {
                    put(&writer.interval(&row, streams));
                }
            }
            Form::Ping(writer) => {
                let echoes: Vec<_> = closed
                    .iter()
                    .filter_map(|one| match one {
                        Closed::Echo(row) => Some(row.clone()),
                        _ => None,
                    })
                    .collect();
                put(&writer.answers(&echoes));
            }
        }
    }

    /// The end of the run; of a throughput run in which nothing moved there is nothing to print but its error.
    ///
    /// Scripts cut the last lines of these tools, so what only we say goes to standard error.
    pub(super) fn end(self, run: &Run) {
        let flow = match &run.summary {
            Some(Summary::Throughput(summary)) => Some(&**summary),
            _ => None,
        };
        let shown = flow.filter(|_| run.state != State::Failed);
        let in_lines = matches!(self.form, Form::Iperf(_) | Form::Iperf3(_));
        match (self.form, &run.summary) {
            (Form::AtEnd, _) => print::report(run, &self.output, self.format),
            (Form::Json(rows), _) => {
                let nothing = ThroughputSummary::default();
                if let Plan::Throughput(plan) = &run.plan {
                    let summary = flow.unwrap_or(&nothing);
                    put(&report::iperf3_json(run, plan, summary, &rows));
                }
            }
            (Form::Iperf(mut writer), _) => {
                if let Some(summary) = shown {
                    put(&writer.totals(summary));
                }
            }
            (Form::Iperf3(mut writer), _) => {
                if let Some(summary) = shown {
                    put(&(writer.totals(summary) + writer.farewell(run)));
                }
            }
            (Form::Csv { writer, .. }, _) => {
                if let Some(summary) = shown {
                    put(&writer.end(summary));
                }
            }
            (Form::Ping(writer), Some(Summary::Ping(summary))) => {
                put(&writer.statistics(summary));
                print::add(&writer.findings(run, summary));
            }
            (Form::Ping(_), _) => {}
        }
        match (shown, &run.plan) {
            (Some(summary), Plan::Throughput(plan)) if in_lines => {
                print::add(&report::flow_findings(run, plan, summary));
            }
            (Some(summary), _) => {
                // Lines name them; rows and JSON as the tools have them cannot.
                for stream in &summary.streams {
                    if let Some(why) = &stream.failed {
                        print::complain(&format!("stream {} failed: {why}", stream.id));
                    }
                }
            }
            (None, _) => {}
        }
    }
}

/// What the line says about printing, where `--format text` does not ask for the lines all the same.
fn in_form(output: &OutputOptions, format: Option<OutputFormat>) -> OutputOptions {
    let as_said = format.is_none();
    OutputOptions {
        json: output.json && as_said,
        iperf: IperfOutput {
            csv: output.iperf.csv && as_said,
            ..output.iperf
        },
        ..output.clone()
    }
}

fn of_flow(
    run: &Run,
    plan: &ThroughputPlan,
    side: Side,
    output: &OutputOptions,
    numbers_taken: u32,
) -> Form {
    let began = run.started_at.unwrap_or(run.created_at);
    match plan.dialect {
        _ if output.json => Form::Json(Vec::new()),
        _ if output.iperf.csv => Form::Csv {
            writer: Box::new(IperfCsv::new(plan, began)),
            streams: Vec::new(),
            intervals: output.iperf.interval_lines != Some(false),
        },
        Dialect::Iperf2 => {
            let writer = IperfWriter::new(plan, side, output.iperf);
            Form::Iperf(Box::new(writer.numbered_after(numbers_taken)))
        }
        Dialect::Iperf3 => Form::Iperf3(Box::new(Iperf3Writer::new(plan, side, output.iperf))),
    }
}
