//! What the system allows this process: open files, priority, size of files.

use std::io;

/// Raises the soft limit of open files to the hard one and returns the limit that then holds.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = read_limit()?;
    if limit.rlim_cur < limit.rlim_max {
        let wished = libc::rlimit {
            rlim_cur: limit.rlim_max,
            rlim_max: limit.rlim_max,
        };
        // SAFETY: `wished` is a valid limit that outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wished) } != 0 {
            return Err(io::Error::last_os_error());
        }
        limit = read_limit()?;
    }
    Ok(limit.rlim_cur)
}

/// The soft limit of open files, as it stands.
pub fn open_files() -> io::Result<u64> {
    read_limit().map(|limit| limit.rlim_cur)
}

fn read_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable memory of the type that the call fills in.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit)
}

/// Lets every other thread of the machine go first: the calling thread gets nice 10.
///
/// Where it is not allowed the thread stays as it is; nothing depends on it but smoothness.
pub fn lower_thread_priority() {
    // SAFETY: the calls take and return plain numbers; the id is the calling thread's own.
    unsafe {
        if let Ok(thread) = libc::id_t::try_from(libc::gettid()) {
            libc::setpriority(libc::PRIO_PROCESS, thread, 10);
        }
    }
}

/// Makes writing past the allowed file size fail with an error instead of killing the process.
pub fn ignore_sigxfsz() {
    // SAFETY: setting a signal to be ignored installs no handler and touches no memory of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Lets only the owner read and write the files that this process makes from now on.
pub fn private_files() {
    // SAFETY: the call takes and returns plain numbers and cannot fail.
    unsafe {
        libc::umask(0o077);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_the_open_files_never_lowers_them() {
        let before = open_files().unwrap();
        let raised = raise_open_files().unwrap();
        assert!(raised >= before);
        assert_eq!(open_files().unwrap(), raised);
    }
}
