//! What can go wrong with the notebook, in sentences that say what to do.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why the notebook could not be opened, read or written.
#[derive(Debug)]
pub enum StoreError {
    /// A newer version of the program wrote the file.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: usize,
    },
    /// The file is something else.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is a damaged notebook.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the check said.
        detail: String,
    },
    /// The file or its folder cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The writer thread could not be started.
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk is full or failing.
    Disk {
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        detail: String,
    },
    /// Another program holds the file.
    Locked {
        /// What was being done.
        doing: &'static str,
    },
    /// A stored value cannot be read back.
    Unreadable {
        /// Which value.
        what: String,
    },
    /// The notebook was closed already.
    Closed,
    /// Anything else that SQLite reports.
    Sql {
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// The same error with what was being done when it came.
    pub(super) fn doing(self, now: &'static str) -> Self {
        match self {
            Self::Sql { doing: "", source } => Self::Sql { doing: now, source },
            Self::Disk { doing: "", detail } => Self::Disk { doing: now, detail },
            Self::Locked { doing: "" } => Self::Locked { doing: now },
            other => other,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            // A file size limit comes as an I/O error and means the same as a full disk.
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => Self::Disk {
                doing: "",
                detail: source.to_string(),
            },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { doing: "" },
            _ => Self::Sql { doing: "", source },
        }
    }
}

/// Whether another connection holds the lock that was asked for.
pub(super) fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Newer { path, found, known } => write!(
                f,
                "{} was written by a newer version of tidemark (schema {found}; this one knows {known}). \
                 Use that version, or another folder with --data.",
                path.display()
            ),
            Self::Foreign { path } => write!(
                f,
                "{} is not a tidemark database. It was left as it is; move it away or choose another folder with --data.",
                path.display()
            ),
            Self::Corrupt { path, detail } => write!(
                f,
                "{} is damaged ({detail}). It was left as it is; move it away together with its -wal and -shm files, \
                 restore a copy, or choose another folder with --data.",
                path.display()
            ),
            Self::File { path, source } => write!(
                f,
                "Cannot use {}: {source}. Choose another folder with --data.",
                path.display()
            ),
            Self::Thread { source } => write!(f, "Cannot start the writer thread: {source}."),
            Self::Disk { doing, detail } => {
                write!(f, "Cannot {doing}: the disk is full or failing ({detail}).")
            }
            Self::Locked { doing } => {
                write!(f, "Cannot {doing}: another program holds the database.")
            }
            Self::Unreadable { what } => write!(f, "A stored value cannot be read back: {what}."),
            Self::Closed => f.write_str("The database is closed."),
            Self::Sql { doing, source } => write!(f, "Cannot {doing}: {source}."),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::Thread { source } => Some(source),
            Self::Sql { source, .. } => Some(source),
            _ => None,
        }
    }
}
