//! `--save`: the run goes into the data folder as a dashboard's runs do.

use tokio::runtime::Runtime;

use crate::app::data::DataFolder;
use crate::config::RunOptions;
use crate::measure::fold::{Closed, Series};
use crate::measure::run::{Origin, Run};
use crate::measure::selftest::KeptSelfTest;
use crate::run_command::{Refused, print};
use crate::store::{Finish, Inserted, NewRun, Store, StoreError};

/// The open notebook with this run in it. What cannot be written is said; the run goes on and is printed all the same.
pub(super) struct Notebook {
    store: Store,
    id: i64,
    /// Keeps other processes out of the folder.
    _folder: DataFolder,
}

impl Notebook {
    /// Opens the folder and puts the run in, which gets its number.
    pub(super) fn open(
        runtime: &Runtime,
        options: &RunOptions,
        run: &mut Run,
    ) -> Result<Self, Refused> {
        let folder = DataFolder::open(&options.data).map_err(|failure| Refused {
            sentences: vec![failure.sentence],
            status: failure.status,
        })?;
        let failed = |error: StoreError| Refused::nothing(error.to_string());
        let store = Store::open(&options.data).map_err(failed)?;
        let new = NewRun {
            plan: run.plan.clone(),
            command: run.command.clone(),
            origin: Origin::Local,
            actor: run.actor.clone(),
            node: run.node.clone(),
            note: String::new(),
            tags: Vec::new(),
            objective: options.objective.clone().unwrap_or_default(),
            form_token: None,
            member: None,
            created_at: run.created_at,
        };
        let inserted = runtime.block_on(store.insert_run(new)).map_err(failed)?;
        let (Inserted::New(id) | Inserted::Before(id)) = inserted;
        run.id = id;
        Ok(Self {
            store,
            id,
            _folder: folder,
        })
    }

    pub(super) fn started(&mut self, runtime: &Runtime, run: &Run) {
        if let Some(at) = run.started_at {
            say(runtime.block_on(self.store.start_run(self.id, at, run.environment.clone())));
        }
    }

    pub(super) fn seconds(&mut self, runtime: &Runtime, seconds: Vec<Closed>) {
        if !seconds.is_empty() {
            say(runtime.block_on(self.store.append(self.id, seconds)));
        }
    }

    /// The last self-test of this node.
    pub(super) fn last_self_test(&self, runtime: &Runtime) -> Option<KeptSelfTest> {
        let last = runtime.block_on(self.store.last_self_test());
        last.map_err(|error| print::complain(&error.to_string()))
            .ok()
            .flatten()
    }

    pub(super) fn finished(
        self,
        runtime: &Runtime,
        run: &Run,
        series: Option<Series>,
        seconds: Vec<Closed>,
    ) {
        let finish = Finish {
            state: run.state,
            finished_at: run.finished_at.unwrap_or(run.created_at),
            seconds,
            summary: run.summary.clone(),
            series,
            checks: run.checks.clone(),
            limits: run.limits.clone(),
            title: run.title.clone(),
            verdict: run.verdict.clone(),
            objectives: run.objectives.clone(),
            error: run.error.clone(),
        };
        say(runtime.block_on(self.store.finish_run(self.id, finish)));
        runtime.block_on(self.store.close());
    }
}

fn say(result: Result<(), StoreError>) {
    if let Err(error) = result {
        print::complain(&error.to_string());
    }
}
