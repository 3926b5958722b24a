//! How busy this machine is, from one look to the next: `/proc/stat` and the control group's CPU quota.

use std::fs;

use crate::measure::flow::CpuTick;

/// Remembers the last look.
#[derive(Debug)]
pub struct CpuMeter {
    cores: Vec<Core>,
    periods: Option<Periods>,
}

/// Jiffies of one CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Core {
    all: u64,
    idle: u64,
    softirq: u64,
    steal: u64,
}

/// Periods of the control group's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Periods {
    all: u64,
    throttled: u64,
}

impl CpuMeter {
    /// Looks for the first time.
    pub fn new() -> Self {
        Self {
            cores: look(),
            periods: periods(),
        }
    }

    /// What happened since the last look; `None` where the system does not tell.
    pub fn tick(&mut self) -> Option<CpuTick> {
        let (cores, periods) = (look(), periods());
        let tick = difference(&self.cores, &cores).map(|mut tick| {
            tick.throttled = self.periods.zip(periods).and_then(|(before, after)| {
                let all = after.all.checked_sub(before.all)?;
                let throttled = after.throttled.checked_sub(before.throttled)?;
                Some(if all == 0 {
                    0.0
                } else {
                    throttled as f64 / all as f64
                })
            });
            tick
        });
        self.cores = cores;
        self.periods = periods;
        tick
    }
}

impl Default for CpuMeter {
    fn default() -> Self {
        Self::new()
    }
}

fn look() -> Vec<Core> {
    parse_stat(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The lines `cpu0`, `cpu1`, …: user nice system idle iowait irq softirq steal (proc(5)); guest time is in user.
fn parse_stat(text: &str) -> Vec<Core> {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            name.strip_prefix("cpu")?.parse::<u32>().ok()?;
            let jiffies: Vec<u64> = rest
                .split_whitespace()
                .take(8)
                .map(str::parse)
                .collect::<Result<_, _>>()
                .ok()?;
            let at = |place: usize| jiffies.get(place).copied().unwrap_or(0);
            Some(Core {
                all: jiffies.iter().sum(),
                idle: at(3) + at(4),
                softirq: at(6),
                steal: at(7),
            })
        })
        .collect()
}

fn difference(before: &[Core], after: &[Core]) -> Option<CpuTick> {
    if before.len() != after.len() {
        return None;
    }
    let mut tick = CpuTick::default();
    let (mut all, mut busy, mut steal) = (0, 0, 0);
    for (before, after) in before.iter().zip(after) {
        let core = after.all.saturating_sub(before.all);
        if core == 0 {
            continue;
        }
        let core_busy = core.saturating_sub(after.idle.saturating_sub(before.idle));
        let softirq = after.softirq.saturating_sub(before.softirq);
        all += core;
        busy += core_busy;
        steal += after.steal.saturating_sub(before.steal);
        tick.busiest = tick.busiest.max(core_busy as f64 / core as f64);
        tick.softirq_busiest = tick.softirq_busiest.max(softirq as f64 / core as f64);
    }
    if all == 0 {
        return None;
    }
    tick.busy = busy as f64 / all as f64;
    tick.steal = steal as f64 / all as f64;
    Some(tick)
}

/// The quota's counts of this process's control group, version 2 or 1; `None` without a quota.
fn periods() -> Option<Periods> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let root = if controllers.is_empty() {
            "/sys/fs/cgroup"
        } else if controllers.split(',').any(|name| name == "cpu") {
            "/sys/fs/cgroup/cpu"
        } else {
            return None;
        };
        // Inside a container the group's own path may not be visible; its root is then this group.
        [format!("{root}{path}/cpu.stat"), format!("{root}/cpu.stat")]
            .iter()
            .find_map(|file| parse_periods(&fs::read_to_string(file).ok()?))
    })
}

fn parse_periods(text: &str) -> Option<Periods> {
    let number = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse::<u64>().ok())?
        })
    };
    let all = number("nr_periods").filter(|periods| *periods > 0)?;
    Some(Periods {
        all,
        throttled: number("nr_throttled")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str =
        "cpu  9 9 9 9 9 9 9 9\ncpu0 160 0 10 110 10 0 10 0 0 0\ncpu1 10 0 0 80 0 0 0 10 0 0\n";

    #[test]
    fn shares_are_of_all_cpus_and_of_the_busiest() {
        let tick = difference(&parse_stat(BEFORE), &parse_stat(AFTER)).unwrap();
        // 80 of 100 jiffies on the first CPU, 20 of 100 on the second.
        assert!((tick.busy - 0.5).abs() < 1e-9, "{tick:?}");
        assert!((tick.busiest - 0.8).abs() < 1e-9);
        assert!((tick.steal - 0.05).abs() < 1e-9);
        assert!((tick.softirq_busiest - 0.1).abs() < 1e-9);
        assert_eq!(difference(&parse_stat(BEFORE), &[]), None);
        assert_eq!(difference(&[], &[]), None);
    }

    #[test]
    fn a_group_without_quota_has_no_throttling() {
        let text = "usage_usec 5\nnr_periods 40\nnr_throttled 4\nthrottled_usec 9\n";
        let counts = Periods {
            all: 40,
            throttled: 4,
        };
        assert_eq!(parse_periods(text), Some(counts));
        assert_eq!(parse_periods("nr_periods 0\nnr_throttled 0\n"), None);
        assert_eq!(parse_periods("usage_usec 5\n"), None);
    }
}
