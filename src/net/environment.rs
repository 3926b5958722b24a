//! What a run's figures depend on besides its plan: kernel, CPUs, memory, limits, the interface in use.

use std::fs;
use std::net::IpAddr;

use super::interfaces::interface_towards;
use super::sys;
use crate::measure::run::Environment;

/// This machine and its settings now; `towards` is the target, whose interface gives the MTU.
///
/// What the system does not tell is `None`.
pub fn environment(towards: Option<IpAddr>) -> Environment {
    Environment {
        kernel: line("/proc/sys/kernel/osrelease"),
        congestion: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        mtu: towards
            .and_then(interface_towards)
            .and_then(|interface| interface.mtu),
        qdisc: line("/proc/sys/net/core/default_qdisc"),
        cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        cpus: cpus(),
        memory_bytes: memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        load_before: load(),
        open_files: sys::open_files().ok(),
        local_ports: local_ports(
            &line("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default(),
        ),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The congestion controls that the kernel offers; empty where it does not say.
pub fn congestion_controls() -> Vec<String> {
    line("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map(|names| names.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// CPUs that this process may use: its affinity mask and its control group's quota count.
pub fn cpus() -> Option<u32> {
    let count = std::thread::available_parallelism().ok()?;
    u32::try_from(count.get()).ok()
}

/// The one-minute load average.
pub fn load() -> Option<f64> {
    line("/proc/loadavg")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // "model name" on x86; other families name only the board, or numbers that say little.
    ["model name", "Model", "uarch", "cpu model"]
        .into_iter()
        .find_map(|key| {
            cpuinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let value = value.trim();
                (name.trim() == key && !value.is_empty()).then(|| value.to_owned())
            })
        })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let kib: u64 = line
            .strip_prefix("MemTotal:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    })
}

fn local_ports(range: &str) -> Option<(u16, u16)> {
    let mut ends = range.split_whitespace().map(str::parse);
    match (ends.next(), ends.next()) {
        (Some(Ok(low)), Some(Ok(high))) if low <= high => Some((low, high)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_read_as_they_are_written() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmodel name\t: other\n"),
            Some("Fast CPU @ 3 GHz".to_owned())
        );
        assert_eq!(cpu_model("processor : 0\n"), None);
        assert_eq!(
            memory_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
            Some(16 << 20)
        );
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(local_ports("32768\t60999"), Some((32768, 60999)));
        assert_eq!(local_ports("60999 32768"), None);
        assert_eq!(local_ports(""), None);
    }

    #[test]
    fn this_machine_tells_what_a_report_needs() {
        let environment = environment(Some([127, 0, 0, 1].into()));
        assert!(environment.kernel.is_some());
        assert!(environment.mtu.is_some());
        assert!(environment.cpus.is_some_and(|count| count >= 1));
        assert!(
            environment
                .memory_bytes
                .is_some_and(|bytes| bytes > 1 << 20)
        );
        assert!(!environment.version.is_empty());
    }
}
