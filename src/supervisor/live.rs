//! One run that waits or runs: its figures so far, shared with everyone who watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::LiveView;
use super::instrument::StopHandle;
use crate::measure::experiment::{Watch, Watching};
use crate::measure::fold::{Closed, End, Fold, Interval, Measured, Series};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::Dialect;
use crate::measure::run::{Environment, Progress, Run, State};
use crate::measure::summary::Summary;
use crate::measure::verdict;
use crate::store::Finish;

/// Why a run is to stop before its plan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A person asked.
    Cancel,
    /// The program ends.
    Shutdown,
    /// Its seconds cannot be stored.
    Disk,
}

/// A run that waits or runs.
pub(super) struct Live {
    pub(super) id: i64,
    pub(super) stop: StopHandle,
    pub(super) objective: String,
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

struct Inner {
    run: Run,
    cause: Option<Cause>,
    fold: Option<Fold>,
    until: Duration,
    ended: u64,
    intervals: Vec<Interval>,
    /// Figures and series as of an instant, so that ten watchers cost as much as one.
    figures: Option<(Duration, Arc<(Summary, Series)>)>,
    /// The series of the end, once there is one.
    final_series: Option<Series>,
    /// What ends the sending early.
    watch: Option<Watching>,
}

impl Live {
    pub(super) fn new(run: Run, objective: String) -> Self {
        Self {
            id: run.id,
            stop: StopHandle::default(),
            objective,
            inner: Mutex::new(Inner {
                run,
                cause: None,
                fold: None,
                until: Duration::ZERO,
                ended: 0,
                intervals: Vec::new(),
                figures: None,
                final_series: None,
                watch: None,
            }),
            changed: watch::Sender::new(0),
        }
    }

    pub(super) fn plan(&self) -> Plan {
        self.inner().run.plan.clone()
    }

    /// The environment as it was noted at the start.
    pub(super) fn environment(&self) -> Environment {
        self.inner().run.environment.clone()
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        self.inner().cause
    }

    /// The first cause stays: a person's cancel is not turned into a shutdown's interruption.
    pub(super) fn ask_to_stop(&self, cause: Cause) {
        self.inner().cause.get_or_insert(cause);
        self.stop.stop();
    }

    /// Notes why it will have ended, without asking it to.
    pub(super) fn blame(&self, cause: Cause) {
        self.inner().cause.get_or_insert(cause);
    }

    /// Whether it is a test in this dialect.
    pub(super) fn is_of(&self, dialect: Dialect) -> bool {
        matches!(&self.inner().run.plan, Plan::Throughput(plan) if plan.dialect == dialect)
    }

    /// Takes over what a person changed in the notebook.
    pub(super) fn annotate(&self, stored: Run) -> Run {
        let mut inner = self.inner();
        inner.run.note = stored.note;
        inner.run.tags = stored.tags;
        inner.run.baseline = stored.baseline;
        drop(inner);
        self.run()
    }

    /// Ends the sending early, once this has come.
    pub(super) fn watch(&self, watch: Watch) {
        self.inner().watch = Some(Watching::new(watch));
    }

    pub(super) fn set_place(&self, place: u32) {
        self.inner().run.queue_place = Some(place);
        self.tell();
    }

    pub(super) fn begin(&self, started_at: jiff::Timestamp, environment: Environment) {
        let mut inner = self.inner();
        inner.run.state = State::Running;
        inner.run.queue_place = None;
        inner.run.started_at = Some(started_at);
        inner.run.environment = environment;
        inner.fold = Some(Fold::new(&inner.run.plan));
        drop(inner);
        self.tell();
    }

    /// Takes a batch in; returns what is complete now.
    pub(super) fn push(&self, batch: &Measured) -> Vec<Closed> {
        let mut inner = self.inner();
        inner.until = inner.until.max(batch.until());
        inner.ended += batch.ended();
        let mut closed = inner
            .fold
            .as_mut()
            .map_or_else(Vec::new, |fold| fold.push(batch));
        self.keep(&mut inner, &mut closed);
        if let Measured::Http(batch) = batch
            && inner.watch.as_mut().is_some_and(|watch| watch.push(batch))
        {
            inner.watch = None;
            self.stop.end_sending();
        }
        inner.run.progress = progress(&inner.run.plan, inner.until, inner.ended);
        drop(inner);
        self.tell();
        closed
    }

    /// Closes what is open; returns what was with the figures of the whole run.
    pub(super) fn fold_up(&self, end: &End) -> Option<(Vec<Closed>, Summary, Series)> {
        let mut inner = self.inner();
        let mut fold = inner.fold.take()?;
        let mut closed = fold.finish(end);
        self.keep(&mut inner, &mut closed);
        Some((closed, fold.summary(end)?, fold.series(end)))
    }

    /// The run is over, and its end waits for the notebook: meanwhile its figures can be seen.
    pub(super) fn wait_to_be_stored(&self, finish: Finish) {
        let mut inner = self.inner();
        inner.run.progress.eta_s = None;
        finish.write_figures(&mut inner.run);
        inner.run.error = Some(
            "The results wait for the database, which is locked or out of space; until then they are kept in memory."
                .into(),
        );
        inner.take_over(finish);
        drop(inner);
        self.tell();
    }

    /// The run is over and stored.
    pub(super) fn end(&self, finish: Finish) {
        let mut inner = self.inner();
        finish.write(&mut inner.run);
        inner.take_over(finish);
        drop(inner);
        self.tell();
    }

    /// The run with its figures so far.
    pub(super) fn run(&self) -> Run {
        let mut inner = self.inner();
        let figures = inner.figures();
        let mut run = inner.run.clone();
        if let Some(figures) = figures {
            run.title = Some(verdict::live_title(&run.plan, &figures.0, &run.progress));
            run.summary = Some(figures.0.clone());
        }
        run
    }

    /// The run without figures: cheap.
    pub(super) fn bare_run(&self) -> Run {
        self.inner().run.clone()
    }

    pub(super) fn view(&self) -> LiveView {
        let run = self.run();
        let mut inner = self.inner();
        let series = match (inner.figures(), &inner.final_series) {
            (Some(figures), _) => figures.1.clone(),
            (None, Some(series)) => series.clone(),
            (None, None) => Series::empty(&run.plan),
        };
        LiveView {
            run,
            series,
            intervals: inner.intervals.clone(),
        }
    }

    /// Seconds from the `skip`-th on, at most `limit`.
    pub(super) fn intervals(&self, skip: usize, limit: usize) -> Vec<Interval> {
        let inner = self.inner();
        inner
            .intervals
            .iter()
            .skip(skip)
            .take(limit)
            .cloned()
            .collect()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn keep(&self, inner: &mut Inner, closed: &mut [Closed]) {
        let is_ping = matches!(inner.run.plan, Plan::Ping(_));
        for one in closed {
            one.number(self.id);
            let row = match one {
                Closed::Second(second) => Interval::Http(second.interval.clone()),
                Closed::Flow(interval) => Interval::Flow(interval.clone()),
                Closed::Echo(echo) if is_ping => Interval::Echo(echo.clone()),
                // The probe beside a run is drawn; its rows are not the run's intervals.
                Closed::Echo(_) => continue,
            };
            inner.intervals.push(row);
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The series of the whole run, in place of what was folded so far.
    fn take_over(&mut self, finish: Finish) {
        self.fold = None;
        self.final_series = finish.series;
    }

    /// Figures so far, computed at most once a batch; `None` when the run is not sending.
    fn figures(&mut self) -> Option<Arc<(Summary, Series)>> {
        let fold = self.fold.as_ref()?;
        if let Some((until, figures)) = &self.figures
            && *until == self.until
        {
            return Some(Arc::clone(figures));
        }
        let end = fold.so_far(&self.run.plan)?;
        let figures = Arc::new((fold.summary(&end)?, fold.series(&end)));
        self.figures = Some((self.until, Arc::clone(&figures)));
        Some(figures)
    }
}

/// How far a run is: by time where its length is known, else by requests.
fn progress(plan: &Plan, until: Duration, ended: u64) -> Progress {
    let elapsed = until.as_secs_f64();
    let (done, eta_s) = if let Some(whole) = plan.expected_duration_s().filter(|s| *s > 0.0) {
        let left = whole - elapsed;
        // Past its sending time a run waits for the last replies: nobody can say how long.
        (elapsed / whole, (left > 0.0).then_some(left))
    } else if let Some(planned) = plan.planned_requests().filter(|n| *n > 0) {
        let done = ended as f64 / planned as f64;
        let eta = (done > 0.0).then(|| elapsed * (1.0 - done).max(0.0) / done);
        (done, eta)
    } else {
        (0.0, None)
    };
    Progress {
        done: done.clamp(0.0, 0.99),
        eta_s,
    }
}
