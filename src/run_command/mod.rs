//! `tidemark run …`: one test without a dashboard, printed as the tool prints it whose line was given.

mod notebook;
mod print;
mod request;
mod selftest;
mod urls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::notebook::Notebook;
use self::request::Request;
pub use self::selftest::self_test;
use crate::config::RunOptions;
use crate::config::parse::NameSource;
use crate::guard::target::TargetRule;
use crate::measure::command_line;
use crate::measure::fold::{End, Fold, Measured};
use crate::measure::objective::Objectives;
use crate::measure::plan::Plan;
use crate::measure::run::{Origin, Progress, Run, State};
use crate::measure::summary::Summary;
use crate::measure::verdict;
use crate::net::{clock, environment, resolve};
use crate::runner::{self, Job, Naming, Stop, Target};

/// Ran, and met every stated objective.
const RAN: u8 = 0;
/// Could not run, or nothing got through.
const NOTHING: u8 = 1;
/// The line or a flag cannot be used.
const USAGE: u8 = 2;
/// A stated objective was missed.
const MISSED: u8 = 3;

/// Why there is no report.
#[derive(Debug)]
struct Refused {
    sentences: Vec<String>,
    status: u8,
}

impl Refused {
    fn usage(sentence: impl Into<String>) -> Self {
        Self {
            sentences: vec![sentence.into()],
            status: USAGE,
        }
    }

    fn nothing(sentence: impl Into<String>) -> Self {
        Self {
            sentences: vec![sentence.into()],
            status: NOTHING,
        }
    }
}

/// Runs the line of the options and prints the report; returns the exit status.
pub fn run(options: &RunOptions) -> u8 {
    attempt(options).unwrap_or_else(|refused| {
        for sentence in &refused.sentences {
            print::complain(sentence);
        }
        refused.status
    })
}

fn attempt(options: &RunOptions) -> Result<u8, Refused> {
    let request = Request::read(&options.words, &options.limits.caps)?;
    if !request.plan.kind().is_http() {
        return Err(Refused::usage(
            "This kind of test runs from the dashboard and the API, not yet from the shell.",
        ));
    }
    let rules = options.objective.as_deref().unwrap_or_default();
    let objectives = Objectives::parse(rules).map_err(Refused::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refused::nothing(format!("No thread could be started: {error}.")))?;
    let job = Job {
        targets: runtime.block_on(targets(&request.plan))?,
        plan: request.plan.clone(),
        identity: naming(&options.limits.identity),
        region: naming(&options.limits.region),
        threads: None,
    };
    for warning in request.remarks.iter().chain(&runner::preflight(&job)) {
        print::complain(warning);
    }
    let mut run = unmeasured(options, &job);
    let notebook = options
        .save
        .then(|| Notebook::open(&runtime, options, &mut run))
        .transpose()?;
    measure(&runtime, &job, &objectives, notebook, &mut run)?;
    print::report(&run, &request, options.format);
    Ok(status(&run))
}

/// Resolves each host once, and refuses what no test is ever sent to.
async fn targets(plan: &Plan) -> Result<Vec<Target>, Refused> {
    let rule = TargetRule::default();
    let mut targets: Vec<Target> = Vec::new();
    for url in plan.urls() {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(80);
        rule.check_host(host)
            .map_err(|refusal| Refused::usage(refusal.sentence))?;
        let known = targets
            .iter()
            .find(|known| known.url.host_str() == url.host_str() && known.address.port() == port);
        let (addresses, lookup) = if let Some(known) = known {
            (known.all.clone(), known.lookup)
        } else {
            let resolved = resolve::resolve(host, port)
                .await
                .map_err(|error| Refused::nothing(error.to_string()))?;
            let is_name = !matches!(url.host(), Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)));
            (resolved.addresses, is_name.then_some(resolved.took))
        };
        for address in &addresses {
            TargetRule::check_always(address.ip())
                .map_err(|refusal| Refused::nothing(refusal.sentence))?;
        }
        let Some(first) = addresses.first() else {
            return Err(Refused::nothing(format!("{host} has no address.")));
        };
        targets.push(Target {
            url: url.clone(),
            address: *first,
            lookup,
            all: addresses,
        });
    }
    Ok(targets)
}

fn naming(source: &NameSource) -> Naming {
    match source {
        NameSource::Header(name) => Naming::Header(name.clone()),
        NameSource::Cookie(name) => Naming::Cookie(name.clone()),
        NameSource::Address => Naming::Address,
    }
}

/// The run before its first request.
fn unmeasured(options: &RunOptions, job: &Job) -> Run {
    let towards = job.targets.first().map(|target| target.address.ip());
    Run {
        id: 0,
        kind: job.plan.kind(),
        state: State::Running,
        origin: Origin::Local,
        command: command_line::write(&job.plan),
        plan: job.plan.clone(),
        node: options.name.clone(),
        from: None,
        experiment: None,
        point: None,
        repeat: None,
        created_at: clock::wall(),
        started_at: None,
        finished_at: None,
        progress: Progress::default(),
        queue_place: None,
        summary: None,
        checks: Vec::new(),
        limits: Vec::new(),
        title: None,
        verdict: None,
        objectives: Vec::new(),
        environment: environment::environment(towards),
        error: None,
        note: String::new(),
        tags: Vec::new(),
        baseline: false,
        actor: "shell".to_owned(),
    }
}

/// Sends, and puts what came of it into the run.
fn measure(
    runtime: &Runtime,
    job: &Job,
    objectives: &Objectives,
    mut notebook: Option<Notebook>,
    run: &mut Run,
) -> Result<(), Refused> {
    let stop = Stop::new();
    let interrupted = stop_on_interrupt(&stop)?;
    let mut fold = Fold::new(&job.plan);
    run.started_at = Some(clock::wall());
    if let Some(notebook) = &mut notebook {
        notebook.started(runtime, run);
    }
    let sent = runner::run(job, &stop, &mut |batch| {
        let seconds = fold.push(&Measured::Http(batch));
        if let Some(notebook) = &mut notebook {
            notebook.seconds(runtime, seconds);
        }
    });
    run.finished_at = Some(clock::wall());
    let mut ended = match sent {
        Ok(ended) => ended,
        Err(error) => {
            run.state = State::Failed;
            run.error = Some(error.to_string());
            if let Some(notebook) = notebook {
                notebook.finished(runtime, run, None, Vec::new());
            }
            return Err(Refused::nothing(error.to_string()));
        }
    };
    if ended.lookup.is_none() {
        ended.lookup = job.targets.first().and_then(|target| target.lookup);
    }
    let end = End::Http(ended);
    let seconds = fold.finish(&end);
    let Some(mut summary) = fold.summary(&end) else {
        return Err(Refused::nothing("Nothing was measured."));
    };
    let series = fold.series(&end);
    let judged = verdict::settle(&job.plan, &mut summary, &series, &end, &run.environment);
    run.state = if interrupted.load(Ordering::Relaxed) {
        State::Cancelled
    } else {
        State::Finished
    };
    run.progress.done = 1.0;
    run.checks = judged.checks;
    run.limits = judged.limits;
    run.title = Some(judged.title);
    run.verdict = Some(judged.verdict);
    run.objectives = objectives.judge(&summary);
    let known = notebook
        .as_ref()
        .and_then(|notebook| notebook.last_self_test(runtime));
    run.checks.extend(known.and_then(|known| {
        verdict::self_test_check(&run.plan, &summary, &known.figures, &run.environment)
    }));
    run.summary = Some(summary);
    if let Some(notebook) = notebook {
        notebook.finished(runtime, run, Some(series), seconds);
    }
    Ok(())
}

/// Ends the run at the first SIGINT or SIGTERM, so that what was measured is printed, and the program at the second.
fn stop_on_interrupt(stop: &Stop) -> Result<Arc<AtomicBool>, Refused> {
    let failed = |error: std::io::Error| {
        Refused::nothing(format!("Ctrl-C could not be prepared for: {error}."))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt()).map_err(failed)?,
            signal(SignalKind::terminate()).map_err(failed)?,
        )
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let (stop, flag) = (stop.clone(), Arc::clone(&interrupted));
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if flag.swap(true, Ordering::Relaxed) {
                        std::process::exit(i32::from(NOTHING));
                    }
                    stop.stop();
                }
            });
        })
        .map_err(failed)?;
    Ok(interrupted)
}

fn status(run: &Run) -> u8 {
    let got_through = match &run.summary {
        Some(Summary::Rate(summary)) => summary.replies > 0,
        Some(Summary::Users(summary)) => {
            let status = &summary.status;
            summary.transactions + status.c4xx + status.c5xx + status.c1xx > 0
        }
        Some(Summary::Fetch(summary)) => summary.total_ms.is_some(),
        Some(Summary::Throughput(summary)) => {
            summary.streams.iter().any(|stream| stream.failed.is_none())
        }
        Some(Summary::Ping(summary)) => summary.received > 0,
        Some(Summary::Path(summary)) => summary.path_mtu.is_some(),
        None => false,
    };
    let missed = run.objectives.iter().any(|rule| rule.ok == Some(false));
    match (got_through, missed) {
        (false, _) => NOTHING,
        (true, true) => MISSED,
        (true, false) => RAN,
    }
}
