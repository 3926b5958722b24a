//! Opening the file: made once under another name, known by its application id, never written over.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};

use super::StoreError;

/// "Tide" in ASCII, in the file's header: tells a notebook from any other `SQLite` file.
const APPLICATION_ID: i64 = 0x5469_6465;

/// Every step that was ever released, in order; the schema's version is how many have been taken.
const MIGRATIONS: [&str; 7] = [
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_flows.sql"),
    include_str!("../../migrations/0003_experiments.sql"),
    include_str!("../../migrations/0004_selftest.sql"),
    include_str!("../../migrations/0005_imports.sql"),
    include_str!("../../migrations/0006_first_minute.sql"),
    include_str!("../../migrations/0007_audit.sql"),
];

/// Older `SQLite` may lose commits when two connections reset the write-ahead log at once.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Opens (or makes) the file for the writer, checks that it is ours and whole, and brings it up to date.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    assert!(
        rusqlite::version_number() >= OLDEST_SQLITE,
        "the bundled SQLite is newer than this"
    );
    match std::fs::metadata(path) {
        Ok(_) => check_header(path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(path)?,
        Err(source) => return Err(file_error(path, source)),
    }
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(|error| explain(error, path))?;
    // Before anything is written: a foreign or newer file stays as it is.
    identify(&connection, path)?;
    version(&connection, path)?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 1000;")
        .map_err(|error| explain(error, path))?;
    settings(&connection).map_err(|error| explain(error, path))?;
    migrate(&mut connection, path)?;
    if !was_closed(&connection).map_err(|error| explain(error, path))? {
        quick_check(&connection, path)?;
    }
    connection
        .execute("DELETE FROM settings WHERE key = 'closed'", [])
        .map_err(|error| explain(error, path))?;
    Ok(connection)
}

/// Opens a connection that cannot write.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    settings(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// Notes that the file was left in order, and folds the write-ahead log into it.
pub(super) fn mark_closed(connection: &Connection) -> Result<(), StoreError> {
    connection.execute(
        "INSERT OR REPLACE INTO settings (key, value) VALUES ('closed', '1')",
        [],
    )?;
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(())
}

/// Looks for damage in every page.
pub(super) fn quick_check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| explain(error, path))?;
    if found == "ok" {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        path: path.to_owned(),
        detail: found.replace('\n', " "),
    })
}

/// An empty file opens without complaint in `SQLite`; here a file that is not a database is a fault.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let mut head = [0; 16];
    let mut file = File::open(path).map_err(|source| file_error(path, source))?;
    match file.read_exact(&mut head) {
        Ok(()) if &head == b"SQLite format 3\0" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(file_error(path, error))
        }
        _ => Err(StoreError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Makes a whole, empty notebook under another name and moves it into place, so that a file with
/// the right name is never half made.
fn create(path: &Path) -> Result<(), StoreError> {
    let fresh = with_suffix(path, ".new");
    let _ = std::fs::remove_file(&fresh);
    let _ = std::fs::remove_file(with_suffix(&fresh, "-journal"));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(|source| file_error(&fresh, source))?;
    let mut connection = Connection::open(&fresh).map_err(|error| explain(error, &fresh))?;
    connection
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID};"))
        .map_err(|error| explain(error, &fresh))?;
    migrate(&mut connection, &fresh)?;
    mark_closed(&connection)?;
    drop(connection);
    std::fs::rename(&fresh, path).map_err(|source| file_error(path, source))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| file_error(folder, source))
}

fn identify(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let id: i64 = connection
        .query_row("PRAGMA application_id", [], |row| row.get(0))
        .map_err(|error| explain(error, path))?;
    if id == APPLICATION_ID {
        Ok(())
    } else {
        Err(StoreError::Foreign {
            path: path.to_owned(),
        })
    }
}

fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; \
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;",
    )
}

/// How many steps the file has taken.
fn version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let found: i64 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| explain(error, path))?;
    usize::try_from(found)
        .ok()
        .filter(|steps| *steps <= MIGRATIONS.len())
        .ok_or_else(|| StoreError::Newer {
            path: path.to_owned(),
            found,
            known: MIGRATIONS.len(),
        })
}

/// Takes the steps that the file has not taken, each in a transaction of its own.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let found = version(connection, path)?;
    if found > 0 && found < MIGRATIONS.len() {
        let copy = path.with_file_name(format!("backup-v{found}.db"));
        let _ = std::fs::remove_file(&copy);
        connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
    }
    for (step, sql) in (1..).zip(MIGRATIONS).skip_while(|(step, _)| *step <= found) {
        let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {step};"))?;
        transaction.commit()?;
    }
    Ok(())
}

fn was_closed(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row(
            "SELECT 1 FROM settings WHERE key = 'closed'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map(|found| found.is_some())
}

/// Says which file a fault belongs to, and tells damage from everything else.
fn explain(error: rusqlite::Error, path: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Corrupt {
            path: path.to_owned(),
            detail: error.to_string(),
        },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            file_error(path, std::io::Error::other(error))
        }
        _ => StoreError::from(error).doing("open the database"),
    }
}

fn file_error(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::File {
        path: path.to_owned(),
        source,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
