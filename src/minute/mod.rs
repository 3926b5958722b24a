//! The first minute: a handful of ordinary runs, one after another, that show what this machine is good for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::measure::first_minute::{
    FirstMinute, MinuteFound, Pace, Part, PartState, ServerLog, TAG,
};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::Dialect;
use crate::measure::run::{Origin, Run, State};
use crate::net::clock;
use crate::store::{Store, StoreError};
use crate::supervisor::{Launch, LaunchError, Supervisor};

/// A server of pictures for the time of a first minute; dropping it stops it.
pub trait Pictures: Send {
    /// Where it serves.
    fn address(&self) -> SocketAddr;
    /// What it has counted since its start.
    fn log(&self) -> ServerLog;
}

/// Starts a server of pictures with so many render threads.
pub type OpenPictures = Arc<dyn Fn(usize) -> std::io::Result<Box<dyn Pictures>> + Send + Sync>;

/// The first minute that runs, and the last one; clones share it.
#[derive(Clone)]
pub struct Minute {
    shared: Arc<Shared>,
}

/// Why none was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MinuteRefused {
    /// One runs already.
    Busy,
    /// The server of the pictures could not be started; a sentence.
    Pictures(String),
    /// The notebook cannot be used; a sentence.
    Storage(String),
}

impl std::fmt::Display for MinuteRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str("The machine is being measured already: one at a time."),
            Self::Pictures(sentence) | Self::Storage(sentence) => f.write_str(sentence),
        }
    }
}

/// Nothing runs that could be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingRuns;

/// A first minute with the runs that it has made.
#[derive(Clone, Debug)]
pub struct MinuteView {
    /// Where it stands.
    pub minute: FirstMinute,
    /// The runs, each with its part; one that was deleted is missing.
    pub runs: Vec<(Part, Run)>,
    /// What they found so far.
    pub found: MinuteFound,
    /// Share done, 0 to 1.
    pub done: f64,
    /// Seconds still to go, about; `None` when it is over.
    pub left_s: Option<f64>,
}

struct Shared {
    supervisor: Supervisor,
    store: Store,
    open: OpenPictures,
    course: Mutex<Course>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Course {
    /// Its number in the notebook, and the first minute that runs or was the last one.
    last: Option<(i64, FirstMinute)>,
    /// Somebody asked it to stop.
    stop: bool,
}

/// How often a run under way is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Sends on the grid per s.
const GRID_PER_S: f64 = 500.0;
/// Longer than any queue that a step may build up.
const TIMEOUT_S: f64 = 60.0;
/// Threads from which on the whole standard picture is asked for, so that the steps stay at some hundred requests.
const MANY_THREADS: usize = 6;
/// A fourth of the standard picture's points.
const QUARTER: &str = "/?width=500&height=400";
const STANDARD: &str = "/?work=standard";

impl Minute {
    /// Nothing runs yet.
    pub fn new(supervisor: Supervisor, store: Store, open: OpenPictures) -> Self {
        Self {
            shared: Arc::new(Shared {
                supervisor,
                store,
                open,
                course: Mutex::default(),
                changed: watch::Sender::new(0),
            }),
        }
    }

    /// Begins one; it goes on by itself. Call it inside the runtime that serves pages.
    ///
    /// # Errors
    /// When one runs already, or its server could not be started.
    pub async fn start(&self, pace: Pace, actor: String) -> Result<(), MinuteRefused> {
        let shared = &self.shared;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cpus.saturating_sub(1).max(1);
        let minute = FirstMinute {
            state: State::Running,
            started_at: now(),
            finished_at: None,
            pace,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            picture: if threads < MANY_THREADS {
                QUARTER
            } else {
                STANDARD
            }
            .to_owned(),
            parts: Part::ALL
                .map(|part| PartState {
                    part,
                    run: None,
                    over: false,
                    skipped: None,
                })
                .to_vec(),
            ceiling_per_s: None,
            server: None,
            error: None,
        };
        {
            let mut course = shared.course();
            if course.is_open() {
                return Err(MinuteRefused::Busy);
            }
            *course = Course {
                last: Some((0, minute.clone())),
                stop: false,
            };
        }
        let begun = self.begin(&minute, threads).await;
        let pictures = match begun {
            Ok(pictures) => pictures,
            Err(refused) => {
                // The one before it, if any, is read from the notebook again.
                *shared.course() = Course::default();
                return Err(refused);
            }
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            shared.run(pictures, actor).await;
        });
        Ok(())
    }

    async fn begin(
        &self,
        minute: &FirstMinute,
        threads: usize,
    ) -> Result<Box<dyn Pictures>, MinuteRefused> {
        let shared = &self.shared;
        let pictures = (shared.open)(threads).map_err(|error| {
            MinuteRefused::Pictures(format!(
                "The server of the pictures could not be started on 127.0.0.1 ({error})."
            ))
        })?;
        let id = shared
            .store
            .insert_first_minute(minute.clone())
            .await
            .map_err(|error| MinuteRefused::Storage(error.to_string()))?;
        shared.change(|minute| minute.0 = id);
        Ok(pictures)
    }

    /// Stops the one that runs; it keeps what it has.
    ///
    /// # Errors
    /// When none runs.
    pub async fn cancel(&self) -> Result<(), NothingRuns> {
        let run = {
            let mut course = self.shared.course();
            if !course.is_open() {
                return Err(NothingRuns);
            }
            course.stop = true;
            let (_, minute) = course.last.as_ref().ok_or(NothingRuns)?;
            minute.now().and_then(|part| part.run)
        };
        if let Some(run) = run {
            // It may have ended in this moment.
            let _ = self.shared.supervisor.cancel(run).await;
        }
        Ok(())
    }

    /// The one that runs, or the last one, with its runs; `None` when there was none.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn view(&self) -> Result<Option<MinuteView>, StoreError> {
        let shared = &self.shared;
        let known = shared.course().last.clone();
        let minute = match known {
            Some((_, minute)) => Some(minute),
            None => shared.store.last_first_minute().await?.map(|mut minute| {
                if !minute.state.is_final() {
                    minute.state = State::Interrupted;
                    minute.error = Some("The program ended before it was over.".to_owned());
                }
                minute
            }),
        };
        let Some(minute) = minute else {
            return Ok(None);
        };
        let mut found = MinuteFound {
            ceiling_per_s: minute.ceiling_per_s,
            ..MinuteFound::default()
        };
        let mut runs = Vec::new();
        for part in &minute.parts {
            if let Some(id) = part.run
                && let Some(run) = shared.supervisor.run(id).await?
            {
                found.take(part.part, &run);
                runs.push((part.part, run));
            }
        }
        let (done, left_s) = progress(&minute, &runs);
        Ok(Some(MinuteView {
            minute,
            runs,
            found,
            done,
            left_s,
        }))
    }

    /// Whether one runs.
    pub fn is_running(&self) -> bool {
        self.shared.course().is_open()
    }

    /// Where the one that runs, or the last one since the program started, stands.
    pub fn stands(&self) -> Option<FirstMinute> {
        let course = self.shared.course();
        course.last.as_ref().map(|(_, minute)| minute.clone())
    }

    /// How far the run of the part under way is, 0 to 1.
    pub async fn run_done(&self) -> Option<f64> {
        let run = self.stands()?.now()?.run?;
        let run = self.shared.supervisor.run(run).await.ok()??;
        Some(run.progress.done)
    }

    /// Tells of every change.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }
}

impl Course {
    fn is_open(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(_, minute)| !minute.state.is_final())
    }
}

impl Shared {
    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut (i64, FirstMinute))) {
        if let Some(last) = &mut self.course().last {
            change(last);
        }
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    fn part(&self, part: Part, change: impl FnOnce(&mut PartState)) {
        self.change(|(_, minute)| {
            if let Some(state) = minute.parts.iter_mut().find(|state| state.part == part) {
                change(state);
            }
        });
    }

    /// Writes where it stands; what cannot be written is in the log, and the page has it all the same.
    async fn keep(&self) {
        let Some((id, minute)) = self.course().last.clone() else {
            return;
        };
        if let Err(error) = self.store.change_first_minute(id, minute).await {
            tracing::warn!(%error, "the first minute could not be stored");
        }
    }

    /// All parts in order, to the end.
    async fn run(&self, pictures: Box<dyn Pictures>, actor: String) {
        let mut ceiling = None;
        let mut before = ServerLog::default();
        for part in Part::ALL {
            if self.course().stop {
                break;
            }
            if part == Part::Above {
                before = pictures.log();
            }
            match self.make(part, pictures.address(), ceiling, &actor).await {
                Ok(run) => {
                    if part == Part::Ceiling {
                        let mut found = MinuteFound::default();
                        found.take(part, &run);
                        ceiling = found.ceiling_per_s;
                        self.change(|(_, minute)| minute.ceiling_per_s = ceiling);
                    }
                    if matches!(run.state, State::Cancelled | State::Interrupted) {
                        self.course().stop = true;
                    }
                    self.part(part, |state| {
                        state.over = true;
                        state.skipped = run.error.clone().filter(|_| run.state == State::Failed);
                    });
                }
                Err(sentence) => self.part(part, |state| {
                    state.over = true;
                    state.skipped = Some(sentence);
                }),
            }
            if part == Part::Above {
                let after = pictures.log();
                self.change(|(_, minute)| {
                    minute.server = Some(ServerLog {
                        served: after.served - before.served,
                        refused: after.refused - before.refused,
                        dropped: after.dropped - before.dropped,
                    });
                });
            }
            self.keep().await;
        }
        let stopped = self.course().stop;
        self.change(|(_, minute)| {
            minute.finished_at = Some(now());
            let found = minute.parts.iter().any(|part| part.run.is_some());
            (minute.state, minute.error) = match (stopped, found) {
                (true, _) => (
                    State::Cancelled,
                    Some("Stopped before its end; what it had found is kept.".to_owned()),
                ),
                (false, true) => (State::Finished, None),
                (false, false) => (
                    State::Failed,
                    minute.parts.iter().find_map(|part| part.skipped.clone()),
                ),
            };
        });
        self.keep().await;
    }

    /// Launches the run of a part and waits for its end; a sentence where there is none.
    async fn make(
        &self,
        part: Part,
        pictures: SocketAddr,
        ceiling: Option<f64>,
        actor: &str,
    ) -> Result<Run, String> {
        let plan = self.plan(part, pictures, ceiling)?;
        let launch = Launch {
            plan,
            command: None,
            note: format!("First minute: {}.", part.words()),
            tags: vec![TAG.to_owned()],
            objectives: String::new(),
            actor: actor.to_owned(),
            origin: Origin::Local,
            form_token: None,
            member: None,
        };
        let launched = self.supervisor.launch(launch).await;
        let id = launched.map_err(|error: LaunchError| error.to_string())?.id;
        self.part(part, |state| state.run = Some(id));
        self.keep().await;
        // A stop that came before the run had its number.
        if self.course().stop {
            let _ = self.supervisor.cancel(id).await;
        }
        loop {
            let run = self.supervisor.run(id).await;
            match run.map_err(|error| error.to_string())? {
                Some(run) if run.state.is_final() => return Ok(run),
                Some(_) => {}
                None => return Err(format!("Run {id} was deleted.")),
            }
            tokio::time::sleep(LOOK).await;
            self.tell();
        }
    }

    fn plan(&self, part: Part, pictures: SocketAddr, ceiling: Option<f64>) -> Result<Plan, String> {
        let (pace, picture, threads) = {
            let course = self.course();
            let Some((_, minute)) = &course.last else {
                return Err("Nothing runs.".to_owned());
            };
            (minute.pace, minute.picture.clone(), minute.threads)
        };
        let url = format!("http://{pictures}{picture}");
        let record = match (part, part.share()) {
            (Part::Clock, _) => json!({
                "kind": "rate",
                "url": format!("http://{pictures}/health-check"),
                "rate": GRID_PER_S,
                "num_conns": whole(GRID_PER_S * pace.clock_s),
                "reuse": true,
                "timeout_s": TIMEOUT_S,
            }),
            (Part::Loopback, _) => self.stream(pace.loopback_s)?,
            (_, None) => json!({
                "kind": "users",
                "url": url,
                // Two a thread: the next request is there when a picture is done.
                "concurrent": threads * 2,
                "duration_s": pace.ceiling_s,
                "timeout_s": TIMEOUT_S,
            }),
            (_, Some(share)) => {
                let ceiling = ceiling.ok_or(
                    "No picture was served in the closed loop, so there is no rate to ask for.",
                )?;
                let rate = ceiling * share;
                json!({
                    "kind": "rate",
                    "url": url,
                    "rate": rate,
                    "num_conns": whole(rate * pace.step_s),
                    "timeout_s": TIMEOUT_S,
                })
            }
        };
        Plan::from_json(&record, self.supervisor.caps()).map_err(|errors| {
            let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
            messages.join(" ")
        })
    }

    /// One stream to the built-in receiver.
    fn stream(&self, seconds: f64) -> Result<Value, String> {
        let receivers = self.supervisor.receivers();
        let own = receivers
            .iter()
            .find(|view| view.dialect == Dialect::Iperf2 && view.running)
            .and_then(|view| view.addresses.first())
            .ok_or("The built-in iperf 2 receiver does not listen (see --receiver).")?;
        let host = match own.ip() {
            ip if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        Ok(json!({
            "kind": "throughput",
            "host": host.to_string(),
            "port": own.port(),
            "duration_s": seconds,
        }))
    }
}

/// Share done and time to go, from the parts that are over and the run under way.
fn progress(minute: &FirstMinute, runs: &[(Part, Run)]) -> (f64, Option<f64>) {
    let whole = minute.pace.whole_s();
    if minute.state.is_final() || whole <= 0.0 {
        return (1.0, None);
    }
    let over = minute.parts.iter().filter(|part| part.over);
    let mut at: f64 = over.map(|part| minute.pace.of(part.part)).sum();
    if let Some(now) = minute.now()
        && let Some((_, run)) = runs.iter().find(|(part, _)| *part == now.part)
    {
        at += minute.pace.of(now.part) * run.progress.done;
    }
    ((at / whole).clamp(0.0, 0.99), Some((whole - at).max(0.0)))
}

/// The time of day as it is stored: whole milliseconds.
fn now() -> jiff::Timestamp {
    let wall = clock::wall();
    jiff::Timestamp::from_millisecond(wall.as_millisecond()).unwrap_or(wall)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count"
)]
fn whole(count: f64) -> u64 {
    (count.round() as u64).max(1)
}
