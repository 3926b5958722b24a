//! CPU time that this thread or process used so far.

use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time used since the thread or process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user code.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

/// CPU time of the calling thread; zero where the system cannot tell.
pub fn thread_cpu() -> CpuTimes {
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of all threads of this process together; zero where the system cannot tell.
pub fn process_cpu() -> CpuTimes {
    usage(libc::RUSAGE_SELF)
}

/// The CPU clock of one thread, which other threads may read while it lives.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread; `None` where the system has none.
    pub fn current() -> Option<Self> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the thread is the calling one, so it exists, and `clock` is writable.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (result == 0).then_some(Self(clock))
    }

    /// CPU time that the thread has used, to the nanosecond; `None` once it has ended.
    pub fn time(self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is writable memory of the type that the call fills in.
        if unsafe { libc::clock_gettime(self.0, &raw mut time) } != 0 {
            return None;
        }
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
    }
}

fn usage(who: libc::c_int) -> CpuTimes {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` points to writable memory of the type that the call fills in.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return CpuTimes::default();
    }
    // SAFETY: the memory was zeroed, which is a valid `rusage`, and then filled in by the kernel.
    let usage = unsafe { usage.assume_init() };
    CpuTimes {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_up_in_the_times_of_its_thread_and_process() {
        let mut value = 1_u64;
        loop {
            for step in 0..100_000_u64 {
                value = std::hint::black_box(value.wrapping_mul(31).wrapping_add(step));
            }
            let thread = thread_cpu();
            if thread.user + thread.system > Duration::from_millis(2) {
                let process = process_cpu();
                assert!(process.user + process.system > Duration::from_millis(1));
                break;
            }
        }
    }
}
