//! The pages over a notebook of their own and an instrument that plays a script instead of sending.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use futures_util::future::BoxFuture;
use tidemark::dashboard;
use tidemark::guard::target::TargetRule;
use tidemark::measure::fold::{End, Measured};
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::run::{Environment, Run};
use tidemark::measure::sample::{Batch, ConnectionSample, Ended, RequestSample, ServerTiming};
use tidemark::measure::selftest::SelfTest;
use tidemark::minute::Minute;
use tidemark::net::clock;
use tidemark::state::{AppState, NodeFacts};
use tidemark::store::Store;
use tidemark::supervisor::{
    Instrument, Launch, Pinned, ReceiverSettings, Settings, StopHandle, Supervisor,
};
use tower::ServiceExt;

use super::flow_script;
use super::process::TempFolder;

/// Pages, notebook and queue of one test.
pub struct Pages {
    /// What the pages share.
    pub state: AppState,
    router: Router,
    _folder: TempFolder,
}

/// An answer, read to its end.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: axum::http::HeaderMap,
    /// Its body.
    pub text: String,
}

impl Answer {
    /// A header as text; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Fails unless every one of these words stands in the body.
    pub fn says(&self, words: &[&str]) {
        for word in words {
            assert!(
                self.text.contains(word),
                "{word:?} is missing ({}) in\n{}",
                self.status,
                self.text
            );
        }
    }
}

impl Pages {
    /// An empty notebook.
    pub fn new() -> Self {
        Self::with(ReceiverSettings::default())
    }

    /// The same with both receivers on ports of their own choice, not started.
    pub fn with_receivers() -> Self {
        let own = || vec!["127.0.0.1:0".parse().unwrap()];
        Self::with(ReceiverSettings {
            iperf2: own(),
            iperf3: own(),
            max_streams: 64,
            max_duration: Duration::from_mins(1),
            ..ReceiverSettings::default()
        })
    }

    fn with(receivers: ReceiverSettings) -> Self {
        let folder = TempFolder::new();
        let store = Store::open(folder.path()).unwrap();
        let supervisor = Supervisor::start(
            store.clone(),
            Settings {
                caps: Caps::default(),
                node: "eu-a".into(),
                rule: TargetRule::new(Vec::new(), Vec::new()),
                receivers,
                instrument: Box::new(Scripted),
            },
        )
        .unwrap();
        let state = AppState {
            minute: no_minute(&supervisor, &store),
            store,
            supervisor,
            workload: None,
            access: tidemark::guard::Access::open(),
            node: Arc::new(NodeFacts {
                name: "eu-a".into(),
                vcpus: Some(4),
                dashboard: vec!["127.0.0.1:8080".parse().unwrap()],
                workload: vec!["127.0.0.1:8000".parse().unwrap()],
                identity_header: "X-Served-By".into(),
                region_header: "X-Region".into(),
                ..NodeFacts::default()
            }),
            started: clock::now(),
        };
        Self {
            router: dashboard::router(state.clone()),
            state,
            _folder: folder,
        }
    }

    /// The pages themselves, to serve them.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Answers a GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, "").await
    }

    /// Answers a form.
    pub async fn post(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        self.send(Method::POST, path, Some(body), "").await
    }

    /// Answers anything.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        form: Option<String>,
        cookie: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if form.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if !cookie.is_empty() {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request
            .body(form.map_or_else(Body::empty, Body::from))
            .unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 30).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Starts a run and waits until it has ended.
    pub async fn ended(&self, plan: serde_json::Value, objectives: &str) -> Run {
        let run = self.started(plan, objectives).await;
        self.until(run.id, |run| run.state.is_final()).await
    }

    /// Starts a run.
    pub async fn started(&self, plan: serde_json::Value, objectives: &str) -> Run {
        let launch = Launch {
            plan: Plan::from_json(&plan, &Caps::default()).unwrap(),
            command: None,
            note: String::new(),
            tags: Vec::new(),
            objectives: objectives.to_owned(),
            actor: "local".into(),
            origin: tidemark::measure::run::Origin::Local,
            form_token: None,
            member: None,
        };
        self.state.supervisor.launch(launch).await.unwrap()
    }

    /// Waits until the run is as wanted.
    pub async fn until(&self, id: i64, wanted: impl Fn(&Run) -> bool) -> Run {
        for _ in 0..3000 {
            let run = self.state.supervisor.run(id).await.unwrap().unwrap();
            if wanted(&run) {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("run {id} is not as wanted after 30 s");
    }
}

/// First minutes whose server of pictures cannot be started.
pub fn no_minute(supervisor: &Supervisor, store: &Store) -> Minute {
    let none = Arc::new(|_| Err(std::io::Error::other("none in this test")));
    Minute::new(supervisor.clone(), store.clone(), none)
}

/// What the target does follows from the URL's path.
struct Scripted;

impl Instrument for Scripted {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<(Vec<SocketAddr>, Option<Duration>), String>> {
        Box::pin(async move {
            let ip: IpAddr = host
                .parse()
                .map_err(|_| format!("{host} could not be resolved."))?;
            Ok((vec![SocketAddr::new(ip, port)], None))
        })
    }

    fn environment(&self, _towards: Option<IpAddr>) -> Environment {
        Environment {
            kernel: Some("Linux 6.1".into()),
            congestion: Some("cubic".into()),
            mtu: Some(8896),
            cpus: Some(4),
            load_before: Some(0.08),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Environment::default()
        }
    }

    fn run(
        &self,
        plan: &Plan,
        _targets: Vec<Pinned>,
        stop: &StopHandle,
        sink: &mut dyn FnMut(Measured),
    ) -> Result<End, String> {
        match plan {
            Plan::Throughput(plan) => return Ok(flow_script::throughput(plan, stop, sink)),
            Plan::Ping(plan) => return Ok(flow_script::ping(plan, stop, sink)),
            Plan::Path(plan) => return Ok(flow_script::path(plan)),
            Plan::Imported(_) => return Err("Nothing to run.".into()),
            Plan::Rate(_) | Plan::Users(_) | Plan::Fetch(_) => {}
        }
        let path = plan.urls()[0].path().to_owned();
        if path == "/broken" {
            return Err("The certificate authority could not be read.".into());
        }
        let number = plan.planned_requests().unwrap_or(100);
        let per_s = match plan {
            Plan::Rate(plan) => plan.peak_rate().max(1.0),
            _ => 20.0,
        };
        let timeout = plan.timeout_s();
        let mut samples: Vec<RequestSample> = (0..number)
            .map(|seq| sample(&path, seq, seq as f64 / per_s, timeout))
            .collect();
        samples.sort_by_key(|sample| sample.ended);
        let duration = samples.last().map_or(Duration::ZERO, |last| last.ended);
        let mut ended = Ended {
            duration,
            send_window: Duration::from_secs_f64(number as f64 / per_s),
            planned: Some(number),
            burst_max: 1,
            concurrent_max: 48,
            in_flight_seconds: samples
                .iter()
                .map(|sample| sample.latency().as_secs_f64())
                .sum(),
            cpu_user: Duration::from_millis(40),
            cpu_system: Duration::from_millis(20),
            cpu_busiest: Duration::from_millis(60),
            threads: 1,
            ..Ended::default()
        };
        let sent = u64::try_from(samples.len()).unwrap();
        let slow = path == "/forever";
        if slow {
            let half = samples.len() / 2;
            samples.truncate(half);
        }
        let until = samples.last().map_or(Duration::ZERO, |last| last.ended);
        let connections = samples
            .iter()
            .filter_map(|sample| {
                Some(ConnectionSample {
                    started: sample.started?,
                    ended: sample.ended,
                    connect: sample.connect,
                    tls: None,
                    replies: u32::from(sample.status.is_some()),
                })
            })
            .collect();
        sink(Measured::Http(Batch {
            until,
            requests: samples,
            connections,
            sent,
            in_flight: 3,
            open_connections: 3,
            ..Batch::default()
        }));
        while slow && !stop.is_asked() {
            std::thread::sleep(Duration::from_millis(5));
        }
        if slow {
            ended.stopped = true;
            ended.duration = until;
            ended.unsent = number - number / 2;
        }
        Ok(End::Http(ended))
    }
    fn self_test(
        &self,
        _quick: bool,
        stop: &StopHandle,
        tell: &mut dyn FnMut(tidemark::selftest::Step),
    ) -> Result<SelfTest, String> {
        tell(tidemark::selftest::Step {
            doing: "servers of known delay",
            done: 0.4,
            left_s: 15.0,
        });
        while !stop.is_asked() {
            std::thread::sleep(Duration::from_millis(2));
        }
        Err("The self-test was stopped by the test.".to_owned())
    }
}

/// One request of the script.
fn sample(path: &str, seq: u64, at_s: f64, timeout_s: f64) -> RequestSample {
    let wobble = (seq * 7919 % 97) as f64 / 97.0;
    let backend = seq % 3;
    // The third backend's queue grows by 0.14 s a second until its clients give up.
    let queue_ms = if path == "/overload" && backend == 2 {
        at_s * 140.0
    } else {
        wobble * 0.5
    };
    let compute_ms = 380.0 + wobble * 30.0;
    let total_ms = queue_ms + compute_ms + 21.0;
    let lost = total_ms > timeout_s * 1000.0;
    let refused = path == "/refused";
    let took = |ms: f64| Duration::from_secs_f64(ms / 1000.0);
    let scheduled = Duration::from_secs_f64(at_s);
    let started = scheduled + took(0.05 + wobble * 0.2);
    let connect = took(0.3);
    let (outcome, ended) = if refused {
        (Outcome::ConnectRefused, started + took(0.2))
    } else if lost {
        (Outcome::TtfbTimeout, started + took(timeout_s * 1000.0))
    } else {
        (Outcome::Ok, started + took(total_ms))
    };
    let replied = outcome == Outcome::Ok;
    RequestSample {
        seq,
        url: 0,
        scheduled,
        started: Some(started),
        connect: (!refused).then_some(connect),
        tls: None,
        wrote: (!refused).then_some(connect + took(0.05)),
        first_byte: replied.then_some(took(total_ms - 0.4)),
        ended,
        status: replied.then_some(200),
        header_bytes: if replied { 210 } else { 0 },
        content_bytes: if replied { 24_000 } else { 0 },
        footer_bytes: 0,
        sent_bytes: 62,
        outcome,
        retried_stale: false,
        served_by: replied.then(|| Arc::from(["web-a1", "web-a2", "web-a3"][backend as usize])),
        region: None,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a script needs no more digits"
        )]
        server_timing: replied.then_some(ServerTiming {
            queue_ms: Some(queue_ms as f32),
            compute_ms: Some(compute_ms as f32),
            encode_ms: Some(20.0),
        }),
        detail: refused.then(|| Arc::from("connection refused")),
    }
}
