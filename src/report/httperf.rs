//! The report in the form of httperf 0.9.0 (`src/stat/basic.c`): the same labels, order and decimals, with right figures.

use std::fmt::Write;

use crate::measure::plan::{Plan, Rate, RatePlan, Schedule};
use crate::measure::run::Run;
use crate::measure::summary::RateSummary;

/// The whole report. Where a figure does not exist httperf prints 0.0, and so does this form; what httperf does not print
/// stands in lines at the end, whose labels do not match what scripts look for in the lines above.
pub fn httperf_text(run: &Run, summary: &RateSummary) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_report(&mut text, run, summary);
    text
}

fn write_report(out: &mut String, run: &Run, summary: &RateSummary) -> std::fmt::Result {
    match &run.plan {
        Plan::Rate(plan) => writeln!(out, "{}", echo(plan))?,
        _ => writeln!(out, "{}", run.command)?,
    }
    let burst = summary.connect_burst_length;
    writeln!(out, "Maximum connect burst length: {burst}\n")?;
    writeln!(
        out,
        "Total: connections {} requests {} replies {} test-duration {:.3} s\n",
        summary.connections, summary.requests, summary.replies, summary.duration_s
    )?;
    write_connections(out, summary)?;
    write_requests_and_replies(out, summary)?;
    write_costs(out, summary)?;
    write_errors(out, summary)?;
    write_more(out, run, summary)
}

fn write_connections(out: &mut String, summary: &RateSummary) -> std::fmt::Result {
    writeln!(
        out,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
        shown(summary.connection_rate_per_s),
        gap_ms(summary.connection_rate_per_s),
        summary.concurrent_max
    )?;
    let times = &summary.connection_time_ms;
    writeln!(
        out,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        shown(times.min),
        shown(times.avg),
        shown(times.max),
        shown(times.median),
        shown(times.stddev)
    )?;
    // httperf's connect time ends with the TLS handshake.
    let connect = shown(summary.connect_time_ms.avg) + shown(summary.tls_time_ms.avg);
    writeln!(out, "Connection time [ms]: connect {connect:.1}")?;
    let length = shown(summary.connection_length_replies);
    writeln!(out, "Connection length [replies/conn]: {length:.3}\n")
}

fn write_requests_and_replies(out: &mut String, summary: &RateSummary) -> std::fmt::Result {
    writeln!(
        out,
        "Request rate: {:.1} req/s ({:.1} ms/req)",
        shown(summary.request_rate_per_s),
        gap_ms(summary.request_rate_per_s)
    )?;
    let size = shown(summary.request_size_bytes);
    writeln!(out, "Request size [B]: {size:.1}\n")?;
    let rate = &summary.reply_rate_per_s;
    writeln!(
        out,
        "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
        shown(rate.min),
        shown(rate.avg),
        shown(rate.max),
        shown(rate.stddev),
        rate.samples
    )?;
    writeln!(
        out,
        "Reply time [ms]: response {:.1} transfer {:.1}",
        shown(summary.reply_response_ms.avg),
        shown(summary.reply_transfer_ms.avg)
    )?;
    let size = &summary.reply_size_bytes;
    writeln!(
        out,
        "Reply size [B]: header {:.1} content {:.1} footer {:.1} (total {:.1})",
        shown(size.header),
        shown(size.content),
        shown(size.footer),
        shown(size.total)
    )?;
    let status = &summary.status;
    writeln!(
        out,
        "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n",
        status.c1xx, status.c2xx, status.c3xx, status.c4xx, status.c5xx
    )
}

fn write_costs(out: &mut String, summary: &RateSummary) -> std::fmt::Result {
    let share = |seconds: f64| {
        if summary.duration_s > 0.0 {
            seconds / summary.duration_s * 100.0
        } else {
            0.0
        }
    };
    let cpu = &summary.cpu;
    writeln!(
        out,
        "CPU time [s]: user {:.2} system {:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        cpu.user_s,
        cpu.system_s,
        share(cpu.user_s),
        share(cpu.system_s),
        share(cpu.user_s + cpu.system_s)
    )?;
    // httperf's KB are 1024 bytes, its bits per second are decimal.
    let bytes = shown(summary.net_io_bytes_per_s);
    writeln!(
        out,
        "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n",
        bytes / 1024.0,
        bytes * 8e-6
    )
}

fn write_errors(out: &mut String, summary: &RateSummary) -> std::fmt::Result {
    let errors = &summary.errors;
    writeln!(
        out,
        "Errors: total {} client-timo {} socket-timo {} connrefused {} connreset {}",
        errors.total, errors.client_timo, errors.socket_timo, errors.connrefused, errors.connreset
    )?;
    writeln!(
        out,
        "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}",
        errors.fd_unavail, errors.addrunavail, errors.ftab_full, errors.other
    )
}

/// What httperf cannot say.
fn write_more(out: &mut String, run: &Run, summary: &RateSummary) -> std::fmt::Result {
    writeln!(
        out,
        "\nOffered load: {:.1}/s over {:.3} s, planned {}, unsent {}; answered {:.1}/s",
        shown(summary.offered_per_s),
        summary.send_window_s,
        summary.planned,
        summary.unsent,
        shown(summary.achieved_per_s)
    )?;
    let latency = &summary.latency_ms;
    if latency.count > 0 {
        writeln!(
            out,
            "Latency from planned start [ms]: p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} (n {}, censored {})",
            shown(latency.p50),
            shown(latency.p90),
            shown(latency.p99),
            shown(latency.p99_9),
            shown(latency.max),
            latency.count,
            summary.censored
        )?;
    }
    let lateness = &summary.lateness_ms;
    if lateness.count > 0 {
        writeln!(
            out,
            "Lateness of sends [ms]: p50 {:.2} p99 {:.2} max {:.2}",
            shown(lateness.p50),
            shown(lateness.p99),
            shown(lateness.max)
        )?;
    }
    write_tail(out, run, &summary.outcomes)
}

/// Outcomes that occurred and the verdict: the same for every form.
pub(super) fn write_tail(
    out: &mut String,
    run: &Run,
    outcomes: &std::collections::BTreeMap<String, u64>,
) -> std::fmt::Result {
    let occurred: Vec<String> = outcomes
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(key, count)| format!("{key} {count}"))
        .collect();
    if !occurred.is_empty() {
        writeln!(out, "Outcomes: {}", occurred.join(", "))?;
    }
    if let Some(verdict) = &run.verdict {
        writeln!(out, "Verdict: {verdict}")?;
    }
    Ok(())
}

/// The options in force, as httperf's first line gives them, in its order; only those that hold here too.
fn echo(plan: &RatePlan) -> String {
    let mut words = vec!["httperf".to_owned()];
    words.push(format!("--timeout={}", plan.timeout_s));
    words.push("--client=0/1".to_owned());
    if let Some(first) = plan.urls.first() {
        let url = &first.url;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        words.push(format!("--server={}", url.host_str().unwrap_or_default()));
        words.push(format!(
            "--port={}",
            url.port_or_known_default().unwrap_or_default()
        ));
        words.push(format!("--uri={path}"));
    }
    if plan.http != "1.1" {
        words.push(format!("--http-version={}", plan.http));
    }
    match &plan.rate {
        Rate::Constant(rate) if *rate == 0.0 => {}
        Rate::Constant(rate) if plan.schedule == Schedule::Exponential => {
            words.push(format!("--period=e{}", 1.0 / rate));
        }
        Rate::Constant(rate) => words.push(format!("--rate={rate}")),
        Rate::Steps(steps) => {
            let pairs: Vec<String> = steps
                .iter()
                .map(|(rate, seconds)| format!("{},{seconds}", 1.0 / rate))
                .collect();
            words.push(format!("--period=v{}", pairs.join(",")));
        }
    }
    if plan.urls.first().is_some_and(|u| u.url.scheme() == "https") {
        words.push("--ssl".to_owned());
    }
    if !plan.headers.is_empty() {
        let lines: Vec<String> = plan
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\\n"))
            .collect();
        words.push(format!("--add-header='{}'", lines.concat()));
    }
    if plan.method != "GET" {
        words.push(format!("--method={}", plan.method));
    }
    if let Some(num_conns) = plan.num_conns {
        words.push(format!("--num-conns={num_conns}"));
    }
    words.push(format!("--num-calls={}", plan.num_calls));
    words.join(" ")
}

fn shown(figure: Option<f64>) -> f64 {
    figure.unwrap_or(0.0)
}

fn gap_ms(rate: Option<f64>) -> f64 {
    match rate {
        Some(rate) if rate > 0.0 => 1000.0 / rate,
        _ => 0.0,
    }
}
