//! The data folder: private to its owner, and used by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::Failure;

/// The data folder, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if it is not there, checks that only its owner may write into it, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| {
                Failure::other(format!(
                    "the data folder {shown} cannot be made ({}): choose another with --data.",
                    plain(&error)
                ))
            })?;
        let mode = fs::metadata(path)
            .map_err(|error| {
                Failure::other(format!(
                    "the data folder {shown} cannot be read ({}): choose another with --data.",
                    plain(&error)
                ))
            })?
            .mode();
        if mode & 0o022 != 0 {
            return Err(Failure::configuration(format!(
                "others may write into the data folder {shown} (mode {:o}): chmod go-w it, or choose another with --data.",
                mode & 0o777
            )));
        }
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(|error| {
                Failure::other(format!(
                    "the data folder {shown} cannot be written ({}): choose another with --data.",
                    plain(&error)
                ))
            })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => String::new(),
                    pid => format!(" (pid {pid})"),
                };
                return Err(Failure::other(format!(
                    "Another tidemark{holder} is using {shown}."
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(Failure::other(format!(
                    "the data folder {shown} cannot be locked ({}): choose another with --data.",
                    plain(&error)
                )));
            }
        }
        // Only a help for whoever meets the lock, so a full disk is no reason to stop here.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { _lock: lock })
    }
}

/// What went wrong, in words and without a number.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotFound => "no such folder".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::AddrInUse => "the address is in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => error.to_string(),
    }
}
