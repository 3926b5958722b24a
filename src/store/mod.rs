//! The notebook: one `SQLite` file, one thread that writes, a few connections that can only read.

mod audit;
mod decode;
mod error;
mod experiments;
mod first_minutes;
mod flows;
mod history;
mod imports;
mod open;
mod peers;
mod recover;
mod runs;
mod samples;
mod selftests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use audit::Deed;
pub use error::StoreError;
pub use experiments::{ExperimentEnd, ExperimentFilter, NewExperiment};
pub use history::Filter;
pub use imports::Importer;
pub use peers::{Peer, Ports, Removal};
pub use runs::{Finish, Inserted, Member, NewRun, Patch};
pub use samples::SampleChunk;

/// The file inside the data folder.
pub const FILE_NAME: &str = "tidemark.db";

/// Writes that may wait for the writer thread; more make the caller wait.
const WRITE_QUEUE: usize = 256;
/// Connections that read at the same time.
const READERS: usize = 4;
/// How often a write that finds the file locked begins again, after 5 s each.
const LOCK_RETRIES: usize = 3;

/// The version of the `SQLite` inside this program.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// The open notebook; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    writer: mpsc::Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

enum Job {
    Write(Box<dyn FnOnce(&mut Connection) + Send>),
    Close,
}

impl Store {
    /// Opens the notebook in this folder, makes a new one where there is none, and closes the
    /// books on runs that a crash left open. Blocks; call it before anything is served.
    ///
    /// # Errors
    /// When the file is not a notebook, is damaged, comes from a newer version, or cannot be opened.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE_NAME);
        let mut connection = open::writer(&path)?;
        recover::close_open_runs(&mut connection)?;
        let idle = (0..READERS)
            .map(|_| open::reader(&path))
            .collect::<Result<Vec<_>, _>>()?;
        let (writer, jobs) = mpsc::channel(WRITE_QUEUE);
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || write_jobs(connection, jobs))
            .map_err(|source| StoreError::Thread { source })?;
        Ok(Self {
            shared: Arc::new(Shared {
                path,
                writer,
                thread: Mutex::new(Some(thread)),
                idle: Mutex::new(idle),
                permits: Semaphore::new(READERS),
            }),
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Writes everything that waits, marks the file as closed in order, and ends the writer thread.
    pub async fn close(&self) {
        if self.shared.writer.send(Job::Close).await.is_err() {
            return;
        }
        let thread = lock(&self.shared.thread).take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// Reads the whole file for damage; slow on a large one.
    ///
    /// # Errors
    /// When there is damage, or the file cannot be read.
    pub async fn quick_check(&self) -> Result<(), StoreError> {
        let path = self.shared.path.clone();
        self.read("check the file", move |connection| {
            open::quick_check(connection, &path)
        })
        .await
    }

    /// Runs one transaction on the writer thread; it is on disk when this returns.
    async fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Write(Box::new(move |connection: &mut Connection| {
            let _ = reply.send(transact(connection, doing, work));
        }));
        self.shared
            .writer
            .send(job)
            .await
            .map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs queries on a connection that cannot write; rows are copied out before this returns.
    async fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let Ok(_permit) = self.shared.permits.acquire().await else {
            return Err(StoreError::Closed);
        };
        let task = tokio::task::spawn_blocking(move || {
            let connection = match lock(&shared.idle).pop() {
                Some(connection) => connection,
                None => open::reader(&shared.path)?,
            };
            let result = work(&connection).map_err(|error| error.doing(doing));
            lock(&shared.idle).push(connection);
            result
        });
        task.await.unwrap_or(Err(StoreError::Closed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_jobs(mut connection: Connection, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Write(work) => {
                // A panic in one write loses that write (its caller sees `Closed`), not the writer.
                if catch_unwind(AssertUnwindSafe(|| work(&mut connection))).is_err() {
                    tracing::error!("a write to the notebook panicked and was rolled back");
                }
            }
            Job::Close => break,
        }
    }
    if let Err(error) = open::mark_closed(&connection) {
        tracing::warn!(%error, "the notebook could not be closed in order");
    }
}

/// One `BEGIN IMMEDIATE` … `COMMIT`; waits for another program's lock three times longer than once.
fn transact<T>(
    connection: &mut Connection,
    doing: &'static str,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut tries = 0;
    // The loop only begins; unchecked, because the borrow of a failed attempt would outlive it.
    let transaction = loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Ok(transaction) => break transaction,
            Err(error) if error::is_locked(&error) && tries < LOCK_RETRIES => tries += 1,
            Err(error) => return Err(StoreError::from(error).doing(doing)),
        }
    };
    let value = work(&transaction).map_err(|error| error.doing(doing))?;
    transaction
        .commit()
        .map_err(|error| StoreError::from(error).doing(doing))?;
    Ok(value)
}
