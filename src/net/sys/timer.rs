//! A timer that wakes a poll at an absolute instant of the steady clock, to the microsecond (timerfd).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A timer of the steady clock as a pollable descriptor; readable once its instant has come.
///
/// Registered edge-triggered it never needs to be read: setting it again starts a new edge.
#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
    /// Reading of the steady clock at the epoch that instants count from.
    epoch: Duration,
}

impl Timer {
    /// Makes a timer whose instants count from the moment that `lead` says is so far ahead.
    pub fn new(lead: impl Fn() -> Duration) -> io::Result<Self> {
        // SAFETY: the call takes plain numbers.
        let raw = unsafe {
            libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                libc::TFD_NONBLOCK | libc::TFD_CLOEXEC,
            )
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self {
            descriptor,
            epoch: epoch(lead)?,
        })
    }

    /// Sets the instant, since the epoch, at which the timer becomes readable.
    pub fn set(&self, at: Duration) -> io::Result<()> {
        // Zero would disarm the timer; no epoch is that early.
        let at = self.epoch + at;
        let setting = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: libc::c_long::from(at.subsec_nanos().cast_signed()),
            },
        };
        // SAFETY: the descriptor is a timerfd of ours and `setting` outlives the call.
        let result = unsafe {
            libc::timerfd_settime(
                self.descriptor.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Reading of the steady clock at the moment that is `lead` ahead. Between two readings the thread may be held
/// up; the closest pair of several is taken, and its later one, so that the timer is never early.
fn epoch(lead: impl Fn() -> Duration) -> io::Result<Duration> {
    let mut best = None;
    for _ in 0..8 {
        let before = steady()?;
        let ahead = lead();
        let after = steady()?;
        let gap = after.saturating_sub(before);
        if best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, after + ahead));
        }
    }
    Ok(best.map_or(Duration::ZERO, |(_, epoch)| epoch))
}

fn steady() -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable memory of the type that the call fills in.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}
