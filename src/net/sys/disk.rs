//! Space on a disk.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that an ordinary user may still write to the file system of this file or folder.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends in NUL and outlives the call; `found` is writable memory of the right type.
    if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled `found` in.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_free_space_and_a_missing_one_is_an_error() {
        assert!(free_bytes(Path::new("/")).is_ok());
        assert!(free_bytes(Path::new("/no/such/folder")).is_err());
    }
}
