//! A test that this end starts, from its targets to its report.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::interrupt::stop_on_interrupt;
use super::notebook::Notebook;
use super::request::Request;
use super::screen::Screen;
use super::{NOTHING, Refused, Shell, print, status, targets};
use crate::app::naming;
use crate::config::RunOptions;
use crate::measure::command_line;
use crate::measure::fold::Fold;
use crate::measure::plan::Plan;
use crate::measure::run::{Origin, Run, State};
use crate::measure::summary::Summary;
use crate::measure::verdict;
use crate::net::clock;
use crate::store::Finish;
use crate::supervisor::{Cause, Concluding, Instrument, Network, Pinned, StopHandle, conclude};

/// Runs it and prints what comes of it; returns the exit status.
pub(super) fn run(
    runtime: &Runtime,
    options: &RunOptions,
    request: &Request,
) -> Result<u8, Refused> {
    let shell = Shell { runtime, options };
    let network = Network {
        identity: naming(&options.limits.identity),
        region: naming(&options.limits.region),
        egress_cap_bits_per_second: None,
    };
    let plan = &request.plan;
    let targets = runtime.block_on(targets::pin(&network, plan))?;
    network
        .permits(plan)
        .map_err(|error| Refused::nothing(error.message))?;
    let warnings = network.preflight(plan, &targets);
    for warning in request.remarks.iter().chain(&warnings) {
        print::complain(warning);
    }
    let address = targets.first().map(|pinned| pinned.address.ip());
    let mut run = shell.unmeasured(
        plan,
        command_line::write(plan),
        (Origin::Local, "shell".to_owned()),
        address,
    );
    let notebook = options.save.then(|| Notebook::open(&shell)).transpose()?;
    if let Some(notebook) = &notebook {
        notebook.insert(&mut run)?;
    }
    run.started_at = Some(clock::wall());
    let mut screen = Screen::of_client(&run, request, options.format, address);
    let mut finish = measure(
        &shell,
        &network,
        targets,
        notebook.as_ref(),
        &run,
        &mut screen,
    )?;
    let known = notebook.as_ref().and_then(Notebook::last_self_test);
    finish.checks.extend(
        known
            .zip(finish.summary.as_ref())
            .and_then(|(known, summary)| {
                verdict::self_test_check(plan, summary, &known.figures, &run.environment)
            }),
    );
    finish.write(&mut run);
    if let Some(notebook) = notebook {
        notebook.finish(run.id, finish);
        notebook.close();
    }
    screen.end(&run);
    if run.state == State::Failed
        && let Some(error) = &run.error
    {
        print::complain(&match plan {
            Plan::Throughput(_) => format!("{}: {error}", plan.target()),
            _ => error.clone(),
        });
    }
    if let Some(failing) = request.output.failing_status
        && let Some(Summary::Fetch(summary)) = &run.summary
        && let Some(code) = summary.status.filter(|code| *code >= failing)
    {
        print::complain(&format!(
            "The reply was {code}, and -f asks for less than {failing}."
        ));
        return Ok(NOTHING);
    }
    Ok(status(&run))
}

/// Sends, prints and stores what comes, and judges it.
fn measure(
    shell: &Shell<'_>,
    network: &Network,
    targets: Vec<Pinned>,
    notebook: Option<&Notebook<'_>>,
    run: &Run,
    screen: &mut Screen,
) -> Result<Finish, Refused> {
    let stop = Arc::new(StopHandle::default());
    stop_on_interrupt(&stop)?;
    if let Some(notebook) = notebook {
        notebook.start(run);
    }
    screen.open();
    let plan = &run.plan;
    let mut fold = Fold::new(plan);
    let result = network.run(plan, targets, &stop, &mut |batch| {
        let closed = fold.push(&batch);
        screen.take(&batch, &closed);
        if let Some(notebook) = notebook {
            notebook.append(run.id, closed);
        }
    });
    let finished_at = clock::wall();
    let failed = |sentence| Finish::bare(State::Failed, finished_at, Some(sentence));
    let end = match result {
        Ok(end) => end,
        Err(sentence) => return Ok(failed(sentence)),
    };
    let closed = fold.finish(&end);
    screen.rows(&closed);
    let Some(summary) = fold.summary(&end) else {
        return Ok(failed("Nothing was measured.".to_owned()));
    };
    let of = Concluding {
        plan,
        environment: &run.environment,
        objective: shell.objective(),
        cause: stop.is_asked().then_some(Cause::Cancel),
    };
    Ok(conclude(
        &of,
        &end,
        (closed, summary, fold.series(&end)),
        finished_at,
    ))
}
