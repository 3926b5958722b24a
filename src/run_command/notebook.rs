//! `--save`: runs go into the data folder as a dashboard's do.

use crate::app::data::DataFolder;
use crate::measure::fold::Closed;
use crate::measure::run::Run;
use crate::measure::selftest::KeptSelfTest;
use crate::run_command::{Refused, Shell, print};
use crate::store::{Finish, Inserted, NewRun, Store, StoreError};

/// The open notebook. What cannot be written is said; the run goes on and is printed all the same.
pub(super) struct Notebook<'s> {
    shell: &'s Shell<'s>,
    store: Store,
    /// Keeps other processes out of the folder.
    _folder: DataFolder,
}

impl<'s> Notebook<'s> {
    /// Opens the folder.
    pub(super) fn open(shell: &'s Shell<'s>) -> Result<Self, Refused> {
        let folder = DataFolder::open(&shell.options.data).map_err(|failure| Refused {
            sentences: vec![failure.sentence],
            status: failure.status,
        })?;
        let store = Store::open(&shell.options.data)
            .map_err(|error| Refused::nothing(error.to_string()))?;
        Ok(Self {
            shell,
            store,
            _folder: folder,
        })
    }

    /// Puts a run in, which gets its number.
    pub(super) fn insert(&self, run: &mut Run) -> Result<(), Refused> {
        let new = NewRun {
            plan: run.plan.clone(),
            command: run.command.clone(),
            origin: run.origin,
            actor: run.actor.clone(),
            node: run.node.clone(),
            note: String::new(),
            tags: Vec::new(),
            objective: self.shell.objective().to_owned(),
            form_token: None,
            member: None,
            created_at: run.created_at,
        };
        let inserted = self
            .shell
            .runtime
            .block_on(self.store.insert_run(new))
            .map_err(|error| Refused::nothing(error.to_string()))?;
        let (Inserted::New(id) | Inserted::Before(id)) = inserted;
        run.id = id;
        Ok(())
    }

    pub(super) fn start(&self, run: &Run) {
        if let Some(at) = run.started_at {
            let begun = self.store.start_run(run.id, at, run.environment.clone());
            say(self.shell.runtime.block_on(begun));
        }
    }

    pub(super) fn append(&self, run: i64, closed: Vec<Closed>) {
        if !closed.is_empty() {
            say(self.shell.runtime.block_on(self.store.append(run, closed)));
        }
    }

    /// The last self-test of this node.
    pub(super) fn last_self_test(&self) -> Option<KeptSelfTest> {
        let last = self.shell.runtime.block_on(self.store.last_self_test());
        last.map_err(|error| print::complain(&error.to_string()))
            .ok()
            .flatten()
    }

    pub(super) fn finish(&self, run: i64, finish: Finish) {
        say(self
            .shell
            .runtime
            .block_on(self.store.finish_run(run, finish)));
    }

    /// Waits until everything is on the disk.
    pub(super) fn close(self) {
        self.shell.runtime.block_on(self.store.close());
    }
}

fn say(result: Result<(), StoreError>) {
    if let Err(error) = result {
        print::complain(&error.to_string());
    }
}
