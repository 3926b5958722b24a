//! The pages of throughput, ping and path runs: forms, live pages, reports, lists, files.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::pages::is_clean;
use crate::support::flow_script::{FOREVER, LOSSY, REFUSES};
use crate::support::pages::{Answer, Pages};

fn throughput(more: &Value) -> Value {
    let mut plan = json!({"kind": "throughput", "host": "127.0.0.1", "duration_s": 3});
    let object = plan.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    plan
}

async fn report(pages: &Pages, plan: Value) -> Answer {
    let run = pages.ended(plan, "").await;
    let path = format!("/runs/{}", run.id);
    let answer = pages.get(&path).await;
    assert_eq!(answer.status, StatusCode::OK);
    is_clean(&answer, &path);
    plain(answer)
}

/// No-break spaces as plain ones, so that tests read as the page does.
fn plain(mut answer: Answer) -> Answer {
    answer.text = answer.text.replace(['\u{a0}', '\u{202f}'], " ");
    for never in ["NaN", "inf ", "Infinity"] {
        assert!(!answer.text.contains(never), "{never}");
    }
    answer
}

#[tokio::test]
async fn a_throughput_report_says_who_counted_every_stream_both_ends_and_the_limits() {
    let pages = Pages::new();
    let report = report(&pages, throughput(&json!({"streams": 16}))).await;
    report.says(&[
        "throughput, iperf 2, TCP, send",
        "counted by the receiver",
        "16 streams",
        "of 16; fairness 0.77, fastest 16.0 × the slowest",
        "<bdi>[SUM]</bdi>",
        "127.0.0.1:41016",
        "1.09 Gbit/s",
        "What both ends counted",
        "equal to the byte",
        "What limited it:",
        "charts/throughput.svg",
        "charts/streams.svg",
        "intervals.csv",
        "iperf would have told you the same",
        "<dt>congestion</dt><dd><bdi>cubic</bdi></dd>",
        "<dt>MSS</dt><dd><bdi>1 448</bdi></dd>",
    ]);
    // A row for each stream, and its sum.
    assert_eq!(report.text.matches("127.0.0.1:410").count(), 16);
    report.says(&["The other end is 127.0.0.1:5001."]);
    for absent in ["requests.csv", "histogram.hgrm", "n = 0"] {
        assert!(
            !report.text.contains(absent),
            "{absent} is not of this kind"
        );
    }
}

#[tokio::test]
async fn two_directions_have_two_columns_and_in_turn_no_sum() {
    let pages = Pages::new();
    let both = report(&pages, throughput(&json!({"direction": "both"}))).await;
    both.says(&[
        "Sending to 127.0.0.1",
        "Receiving from 127.0.0.1",
        "the sum of both directions",
        "What both ends counted: sending",
        "What both ends counted: receiving",
    ]);
    assert_eq!(both.text.matches("<bdi>[SUM]</bdi>").count(), 2);
    let turn = report(&pages, throughput(&json!({"direction": "in_turn"}))).await;
    turn.says(&["so there is no sum", "Sending to", "Receiving from"]);
    let history = plain(pages.get("/runs").await);
    history.says(&["both directions", "send, receive"]);
}

#[tokio::test]
async fn a_udp_report_says_loss_order_and_jitter_and_what_cuts_corners() {
    let pages = Pages::new();
    let lossy = report(
        &pages,
        throughput(&json!({"host": LOSSY, "protocol": "udp", "bandwidth_bits_per_second": 8e6})),
    )
    .await;
    lossy.says(&[
        "throughput, iperf 2, UDP, send",
        "21 of 2 103 datagrams; 3 dropped by its socket",
        "Out of order",
        "Jitter",
        "asked for",
        "of what was asked",
        "<th class=\"n\">lost</th>",
        "<th class=\"n\">jitter</th>",
        "21 of 2 103</td>",
    ]);
    let discard = report(&pages, throughput(&json!({"receive": "discard"}))).await;
    assert!(
        discard.text.matches("receive: discard").count() >= 4,
        "said beside every figure"
    );
    let offload = report(
        &pages,
        throughput(&json!({"protocol": "udp", "offload": true})),
    )
    .await;
    offload.says(&["not measured with offload"]);
}

#[tokio::test]
async fn a_refused_test_says_why_and_shows_no_figure() {
    let pages = Pages::new();
    let refused = report(&pages, throughput(&json!({"host": REFUSES, "streams": 2}))).await;
    refused.says(&[
        "failed",
        "refused the connection: no receiver listens there.",
        "class=\"empty bad_\"",
        "Start a receiver there with iperf -s -p 5001",
        "Run again",
    ]);
    for zero in [
        "0 bit/s",
        "[SUM]",
        "What limited it",
        "<svg viewBox=\"0 0 900",
    ] {
        assert!(!refused.text.contains(zero), "{zero} was not measured");
    }
}

#[tokio::test]
async fn a_running_throughput_run_shows_its_streams_and_can_be_stopped() {
    let pages = Pages::new();
    let run = pages
        .started(
            throughput(&json!({"host": FOREVER, "streams": 4, "duration_s": 60})),
            "",
        )
        .await;
    pages
        .until(run.id, |run| {
            // All that the script plays before it waits: 3 of 60 s.
            run.summary.is_some() && run.progress.done > 0.049
        })
        .await;
    let path = format!("/runs/{}", run.id);
    let live = plain(pages.get(&path).await);
    is_clean(&live, &path);
    live.says(&[
        "so far",
        "Streams so far",
        "<bdi>[SUM]</bdi>",
        "Stop and keep what there is",
        "3 s done",
        "60 s",
    ]);
    pages.post(&format!("{path}/cancel"), &[]).await;
    pages.until(run.id, |run| run.state.is_final()).await;
    pages
        .get(&path)
        .await
        .says(&["cancelled", "Stopped by a person"]);
}

#[tokio::test]
async fn a_ping_report_lists_the_first_hundred_packets() {
    let pages = Pages::new();
    let five = report(&pages, json!({"kind": "ping", "host": "127.0.0.1"})).await;
    five.says(&[
        "Packet by packet",
        "packet 1, the first",
        "× the median: address look-up and path set-up are in it",
        "5 sent, 5 received",
        "Mdev",
        "of the last answer; no duplicate",
        "charts/ping.svg",
        "histogram.hgrm",
    ]);
    let many = report(
        &pages,
        json!({"kind": "ping", "host": LOSSY, "count": 250, "interval_s": 0.01}),
    )
    .await;
    many.says(&[
        "The first 100 of 250; all are in",
        "no answer",
        "answered 1 more time",
        "250 sent, 225 received",
    ]);
    let rows = many.text.split("id=\"packets\"").nth(1).unwrap();
    let rows = &rows[..rows.find("</table>").unwrap()];
    assert_eq!(rows.matches("<tr>").count(), 101);
    let silent = report(&pages, json!({"kind": "ping", "host": REFUSES, "count": 2})).await;
    silent.says(&["failed", "None of 2 probes was answered"]);
    let histogram = pages.get("/runs/2/histogram.hgrm").await;
    assert_eq!(histogram.status, StatusCode::OK);
    histogram.says(&["#[Mean", "Total count    =          225"]);
}

#[tokio::test]
async fn a_path_report_says_mtu_interfaces_sizes_and_a_black_hole() {
    let pages = Pages::new();
    let smaller = report(
        &pages,
        json!({"kind": "path", "host": "127.0.0.1", "expect_mtu": 8896}),
    )
    .await;
    smaller.says(&[
        "Path MTU",
        "not as expected",
        "Sizes that were tried",
        "too big, and somebody says so",
        "Interfaces of this machine",
        "towards this peer",
        "10.128.0.11",
        "TCP payload: MTU − 40",
        "1 420",
    ]);
    let hole = report(&pages, json!({"kind": "path", "host": LOSSY})).await;
    hole.says(&["larger packets vanish without a word", "Black hole"]);
    // How it was probed, what was reported on the way, and the files that there are.
    hole.says(&[
        "<dt>probed by</dt><dd><bdi>ICMP echoes</bdi></dd>",
        "don’t-fragment set: ICMP echoes.",
        "What was reported",
        "<li>10.0.0.1 reports: host unreachable.</li>",
        "<a href=\"/runs/2/intervals.csv\">intervals.csv</a><span>3 rows</span>",
        "/runs/2/intervals.csv?excel=1\">sizes</a>",
        "as tracepath prints",
    ]);
    for absent in ["requests.csv", "histogram.hgrm", "iperf.csv"] {
        assert!(!hole.text.contains(absent), "{absent}");
    }
    let csv = pages.get("/runs/2/intervals.csv").await;
    assert_eq!(csv.header("x-total-rows"), "3");
    assert!(
        csv.text.starts_with("run,size_bytes,result,"),
        "{}",
        csv.text
    );
    assert_eq!(csv.text.lines().count(), 4);
    let json: Value =
        serde_json::from_str(&pages.get("/runs/2/intervals.json").await.text).unwrap();
    assert_eq!(json["total_rows"], 3);
    assert_eq!(json["rows"][0]["size_bytes"], 1460);
    for run in [1, 2] {
        let missing = pages.get(&format!("/runs/{run}/requests.csv")).await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn presets_fill_the_form_in_one_click_and_keep_what_was_typed() {
    let pages = Pages::new();
    let form = plain(pages.get("/runs/new?kind=throughput").await);
    form.says(&["-P 16", "Tier_1 lab", "UDP, 100 Mbit/s", "Both directions"]);
    let filled = pages
        .post(
            "/runs/new",
            &[
                ("kind", "throughput"),
                ("host", "127.0.0.9"),
                ("port", "5002"),
                ("streams", "1"),
                ("duration_s", "10"),
                ("do", "preset-tier1"),
            ],
        )
        .await;
    assert_eq!(filled.status, StatusCode::OK);
    plain(filled).says(&[
        "value=\"127.0.0.9\"",
        "value=\"5002\"",
        "value=\"16\"",
        "value=\"30\"",
        "16 streams to 127.0.0.9 for 30 s",
    ]);
    assert_eq!(pages.state.supervisor.open_runs().len(), 0);
    let path = pages.get("/runs/new?kind=path&preset=mtu8896").await;
    path.says(&["value=\"8896\""]);
}

#[tokio::test]
async fn sizes_and_rates_with_letters_are_said_back() {
    let pages = Pages::new();
    let checked = pages
        .post(
            "/runs/new",
            &[
                ("kind", "throughput"),
                ("host", "127.0.0.1"),
                ("protocol", "udp"),
                ("streams", "4"),
                ("bandwidth_bits_per_second", "100M"),
                ("window_bytes", "4M"),
                ("length_bytes", "1470 bytes"),
                ("duration_s", "2m"),
                ("do", "check"),
            ],
        )
        .await;
    assert_eq!(checked.status, StatusCode::OK, "{}", checked.text);
    plain(checked).says(&[
        "100 Mbit/s each, 400 Mbit/s together.",
        "4 194 304 bytes, 4.2 MB (4.0 MiB).",
        "2 min.",
        "Nothing has been sent",
        "This host is this machine",
    ]);
    let wrong = pages
        .post(
            "/runs/new",
            &[
                ("kind", "throughput"),
                ("host", "127.0.0.1"),
                ("window_bytes", "big"),
                ("bandwidth_bits_per_second", "fast"),
                ("do", "start"),
            ],
        )
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    wrong.says(&[
        "2 things need another value",
        "<a href=\"#window_bytes\">",
        "<a href=\"#bandwidth_bits_per_second\">",
    ]);
}

#[tokio::test]
async fn a_peers_addresses_are_choices_and_the_external_one_is_warned_of() {
    let pages = Pages::new();
    let added = pages
        .post(
            "/peers",
            &[
                ("name", "us-b"),
                ("internal_address", "10.128.0.10"),
                ("external_address", "203.0.113.7"),
                ("confirm_public", "on"),
                ("throughput_port", "5002"),
                ("memory", "16"),
                ("price_per_hour", "0.19"),
                ("egress_tier", "TIER_1"),
                ("internal_cap", "75"),
                ("metrics_url", "http://10.128.0.10:9100/metrics"),
            ],
        )
        .await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.text);
    let peers = plain(pages.get("/peers").await);
    is_clean(&peers, "/peers");
    peers.says(&[
        "16 GiB, 0.19 an hour",
        "75.0 Gbit/s internal",
        "tier <bdi>TIER_1</bdi>",
        "5002 iperf",
        "/runs/new?kind=throughput&#38;host=10.128.0.10&#38;port=5002",
    ]);
    pages.get("/peers?edit=us-b").await.says(&[
        "value=\"16\"",
        "value=\"TIER_1\"",
        "value=\"http://10.128.0.10:9100/metrics\"",
    ]);
    let form = pages
        .get("/runs/new?kind=throughput&host=203.0.113.7&port=5001")
        .await;
    pages
        .get("/runs/new?kind=throughput&host=10.128.0.10")
        .await
        .says(&["value=\"5002\""]);
    form.says(&[
        "<option value=\"10.128.0.10\">us-b, internal address</option>",
        "list=\"hosts\"",
        "This is the external address of us-b",
        "us-b is registered with iperf port 5002.",
    ]);
    let quick = pages
        .post(
            "/runs/new",
            &[
                ("quick", "yes"),
                ("host", "10.128.0.10"),
                ("kind", "throughput"),
            ],
        )
        .await;
    assert_eq!(quick.status, StatusCode::SEE_OTHER, "{}", quick.text);
    let run = pages.until(1, |run| run.state.is_final()).await;
    assert_eq!(run.plan.target(), "10.128.0.10:5002");
    pages.get("/runs/1").await.says(&["us-b, internal address"]);
}

#[tokio::test]
async fn the_history_shows_each_kinds_figure_and_filters_by_it() {
    let pages = Pages::new();
    pages.ended(throughput(&json!({"streams": 2})), "").await;
    pages
        .ended(json!({"kind": "ping", "host": LOSSY, "count": 10}), "")
        .await;
    pages
        .ended(json!({"kind": "path", "host": "127.0.0.1"}), "")
        .await;
    let all = plain(pages.get("/runs").await);
    is_clean(&all, "/runs");
    all.says(&["24.0 Mbit/s", "median, 10 % lost", "1 460 bytes"]);
    for kind in ["throughput", "ping", "path"] {
        pages
            .get(&format!("/runs?kind={kind}"))
            .await
            .says(&["1 of 3", &format!("<option value=\"{kind}\" selected>")]);
    }
    let csv = pages.get("/runs.csv").await;
    let mut reader = csv::Reader::from_reader(csv.text.as_bytes());
    let column = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "bits_per_second")
        .unwrap();
    let rates: Vec<String> = reader
        .records()
        .map(|record| record.unwrap()[column].to_owned())
        .collect();
    assert_eq!(rates, ["", "", "24000000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_are_started_and_stopped_and_what_they_served_is_a_run() {
    let pages = Pages::with_receivers();
    let home = plain(pages.get("/").await);
    is_clean(&home, "/");
    home.says(&[
        "What other machines can test against",
        "stopped",
        "Start the iperf 2 receiver",
        "Start the iperf 3 receiver",
    ]);
    let pasted = plain(pages.get("/runs/new?command=iperf+-s+-u").await);
    is_clean(&pasted, "iperf -s");
    pasted.says(&[
        "The built-in iperf 2 receiver does this, and is stopped",
        "action=\"/receivers/iperf2/start\"",
    ]);
    for word in ["iperf2", "iperf3"] {
        let started = pages.post(&format!("/receivers/{word}/start"), &[]).await;
        assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
        assert_eq!(started.header("location"), "/#receivers");
    }
    let home = plain(pages.get("/").await);
    home.says(&[
        "✓ listens",
        "Stop the iperf 2 receiver",
        "iperf3 -c 127.0.0.1",
    ]);
    let port = pages.state.supervisor.receivers()[0].addresses[0].port();
    home.says(&[&format!("iperf -c 127.0.0.1 -p {port} -P 4 -t 5")]);
    let pasted = plain(pages.get("/runs/new?command=iperf+-s").await);
    pasted.says(&[
        "The built-in iperf 2 receiver listens already",
        &format!("The line asks for port 5001; this one has {port}, which --receiver sets."),
    ]);
    // An empty form begins with what can be tested at once.
    let form = pages.get("/runs/new?kind=throughput").await;
    form.says(&[&format!("value=\"{port}\"")]);

    let status = tokio::task::spawn_blocking(move || {
        std::process::Command::new("iperf")
            .args(["-c", "127.0.0.1", "-t", "1", "-P", "2", "-p"])
            .arg(port.to_string())
            .stdout(std::process::Stdio::null())
            .status()
            .expect("iperf is installed by scripts/test.sh")
    })
    .await
    .unwrap();
    assert!(status.success());
    let run = pages.until(1, |run| run.state.is_final()).await;
    let path = format!("/runs/{}", run.id);
    let served = plain(pages.get(&path).await);
    is_clean(&served, &path);
    served.says(&[
        "received: served to another machine",
        "As it was served",
        &format!("iperf -s -p {port}"),
        "<bdi>[SUM]</bdi>",
        "counted here by the receiver",
    ]);
    assert!(
        !served.text.contains("Run again"),
        "it was the client's run"
    );
    pages.get("/runs").await.says(&["received"]);
    plain(pages.get("/").await).says(&["1 test served since its start"]);

    let stopped = pages.post("/receivers/iperf2/stop", &[]).await;
    assert_eq!(stopped.status, StatusCode::SEE_OTHER);
    pages.get("/").await.says(&["Start the iperf 2 receiver"]);
    for path in ["/receivers/iperf9/start", "/receivers/iperf2/break"] {
        let unknown = pages.post(path, &[]).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_switched_off_names_its_flag_and_a_source_is_allowed_as_a_peer() {
    let pages = Pages::new();
    pages
        .get("/")
        .await
        .says(&["switched off", "--receiver 0.0.0.0:5001"]);
    let off = pages.post("/receivers/iperf2/start", &[]).await;
    assert_eq!(off.status, StatusCode::CONFLICT);
    off.says(&["--receiver 127.0.0.1:5001", "href=\"/#receivers\""]);
    let allowed = pages
        .post("/receivers/allow", &[("address", "10.0.0.9")])
        .await;
    assert_eq!(allowed.header("location"), "/#receivers");
    pages.get("/peers").await.says(&["<bdi>10.0.0.9</bdi>"]);
    let public = pages
        .post("/receivers/allow", &[("address", "203.0.113.9")])
        .await;
    let form = public.header("location").to_owned();
    assert_eq!(form, "/peers?add=203.0.113.9#form");
    pages
        .get("/peers?add=203.0.113.9")
        .await
        .says(&["name=\"external_address\" value=\"203.0.113.9\""]);
}

#[tokio::test]
async fn intervals_are_streamed_whole_whatever_their_number() {
    let pages = Pages::new();
    // 64 streams and their sum for 40 s: more than two chunks.
    let run = pages
        .ended(throughput(&json!({"streams": 64, "duration_s": 40})), "")
        .await;
    let path = format!("/runs/{}", run.id);
    let rows = 65 * 40;
    plain(pages.get(&path).await).says(&["intervals.csv</a><span>2 600 rows</span>"]);
    let csv = pages.get(&format!("{path}/intervals.csv")).await;
    assert_eq!(csv.header("x-total-rows"), rows.to_string());
    let mut reader = csv::Reader::from_reader(csv.text.as_bytes());
    let found: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(found.len(), rows);
    // In order, each once: 40 rows of every stream, ascending in time.
    for stream in (1..=64).map(|id| id.to_string()).chain(["SUM".to_owned()]) {
        let starts: Vec<f64> = found
            .iter()
            .filter(|row| row[1] == stream)
            .map(|row| row[3].parse().unwrap())
            .collect();
        assert_eq!(starts.len(), 40, "{stream}");
        assert!(starts.is_sorted(), "{stream}");
    }
    let text = pages.get(&format!("{path}/intervals.json")).await.text;
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["total_rows"], rows);
    assert_eq!(json["rows"].as_array().unwrap().len(), rows);
    let excel = pages.get(&format!("{path}/intervals.csv?excel=1")).await;
    assert!(excel.text.starts_with('\u{feff}'));
    assert_eq!(excel.text.matches('\u{feff}').count(), 1);
    // A run without rows does not offer the file.
    let refused = report(&pages, throughput(&json!({"host": REFUSES}))).await;
    assert!(!refused.text.contains("intervals.csv"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peers_ports_are_checked_from_its_row_and_the_page_says_what_to_do() {
    let pages = Pages::with_receivers();
    pages.post("/receivers/iperf2/start", &[]).await;
    let open = pages.state.supervisor.receivers()[0].addresses[0]
        .port()
        .to_string();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listens = silent.local_addr().unwrap().port().to_string();
    let closed = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().port().to_string()
    };
    let added = pages
        .post(
            "/peers",
            &[
                ("name", "this one/<here>"),
                ("internal_address", "127.0.0.1"),
                ("throughput_port", &open),
                ("workload_port", &listens),
                ("dashboard_port", &closed),
            ],
        )
        .await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.text);
    let before = plain(pages.get("/peers").await);
    let action = "/peers/this%20one%2F%3Chere%3E/check";
    before.says(&[&format!("action=\"{action}\""), "Check ports"]);
    assert!(!before.text.contains("What the last checks"));

    let checked = pages.post(action, &[]).await;
    assert_eq!(checked.status, StatusCode::SEE_OTHER, "{}", checked.text);
    let place = checked.header("location");
    assert_eq!(place, "/peers#check-this%20one%2F%3Chere%3E");
    let after = plain(pages.get("/peers").await);
    is_clean(&after, "/peers");
    after.says(&[
        "What the last checks of ports found",
        "id=\"check-this%20one%2F%3Chere%3E\"",
        "✕ 1 of 4 not open",
        &format!("<th>TCP {open}</th><td data-label=\"listener\">throughput</td>"),
        &format!("<th>UDP {open}</th><td data-label=\"listener\">throughput</td>"),
        "✓ open",
        "✕ refused",
        &format!("nothing listens on TCP port {closed}"),
        "Start the server there on an address that others can reach",
        "checked 20",
    ]);
    assert_eq!(after.text.matches(">✓ open<").count(), 3);
    // Our own receiver answered, and kept no test of it.
    let served = pages.state.supervisor.receivers()[0].status;
    assert_eq!((served.begun, served.refused), (0, 0));
    plain(pages.get("/runs").await).says(&["0 runs"]);

    // The check is of ports that the peer no longer has.
    let changed = pages
        .post(
            "/peers/this%20one%2F%3Chere%3E",
            &[
                ("name", "this one/<here>"),
                ("internal_address", "127.0.0.1"),
                ("throughput_port", &closed),
                ("workload_port", &listens),
                ("dashboard_port", &open),
            ],
        )
        .await;
    assert_eq!(changed.status, StatusCode::SEE_OTHER, "{}", changed.text);
    let stale = pages.get("/peers").await;
    assert!(!stale.text.contains("What the last checks"));
    let unknown = pages.post("/peers/nobody/check", &[]).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    unknown.says(&["There is no peer"]);
}

#[tokio::test]
async fn a_port_without_an_answer_comes_with_its_firewall_rules_to_copy() {
    let pages = Pages::new();
    // A socket that takes datagrams and says nothing looks like a firewall.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let dashboard = pages.state.node.dashboard[0].port().to_string();
    pages
        .post(
            "/peers",
            &[
                ("name", "walled"),
                ("internal_address", "127.0.0.1"),
                ("throughput_port", &port),
                ("workload_port", &port),
                ("dashboard_port", &dashboard),
            ],
        )
        .await;
    pages.post("/peers/walled/check", &[]).await;
    let page = plain(pages.get("/peers").await);
    page.says(&[
        "✕ no answer",
        "No refusal was seen from UDP port",
        "For the network’s firewall",
        "<pre id=\"check-walled-rule-1\">gcloud compute firewall-rules create",
        "For the peer’s own firewall",
        &format!("udp dport {port} accept</pre>"),
        "data-copy=\"check-walled-rule-2\"",
    ]);
}
