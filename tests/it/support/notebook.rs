//! A supervisor whose instrument does what a test tells it, with the API in front.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidemark::guard::target::TargetRule;
use tidemark::measure::fold::{End, Measured};
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::run::{Environment, Run};
use tidemark::measure::sample::{Batch, Ended, RequestSample};
use tidemark::measure::selftest::SelfTest;
use tidemark::state::{AppState, NodeFacts};
use tidemark::store::Store;
use tidemark::supervisor::{Found, Instrument, Pinned, Settings, StopHandle, Supervisor};
use tower::ServiceExt;

use super::pages::no_minute;
use super::process::TempFolder;

/// What the instrument is to do next.
pub enum Step {
    /// Measure one second: five replies.
    Second,
    /// Measure one second in which every connection was refused.
    Refused,
    /// End.
    Finish,
    /// Fail to start.
    Fail(&'static str),
    /// Panic.
    Panic,
}

/// What the instrument did, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    Begin(String),
    End(String),
}

struct Scripted {
    steps: Mutex<Receiver<Step>>,
    log: Arc<Mutex<Vec<Did>>>,
}

impl Instrument for Scripted {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Found, String>> {
        async move {
            let ip: IpAddr = match host {
                "localhost" => [127, 0, 0, 1].into(),
                "outside.example" => [192, 0, 2, 1].into(),
                "metadata.example" => [169, 254, 169, 254].into(),
                _ => host
                    .parse()
                    .map_err(|_| format!("The name {host} could not be resolved."))?,
            };
            Ok((vec![SocketAddr::new(ip, port)], None))
        }
        .boxed()
    }

    fn environment(&self, _: Option<IpAddr>) -> Environment {
        Environment {
            version: "test".into(),
            ..Environment::default()
        }
    }

    fn run(
        &self,
        plan: &Plan,
        targets: Vec<Pinned>,
        stop: &StopHandle,
        sink: &mut dyn FnMut(Measured),
    ) -> Result<End, String> {
        assert!(!targets.is_empty());
        let name = plan.target();
        self.log.lock().unwrap().push(Did::Begin(name.clone()));
        let mut at = 0;
        let result = loop {
            let step = self
                .steps
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_millis(5));
            match step {
                _ if stop.is_asked() => break Ok(true),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Step::Second) => sink(second(&mut at, Outcome::Ok).into()),
                Ok(Step::Refused) => sink(second(&mut at, Outcome::ConnectRefused).into()),
                Ok(Step::Finish) => break Ok(false),
                Ok(Step::Fail(sentence)) => break Err(sentence.to_owned()),
                Ok(Step::Panic) | Err(RecvTimeoutError::Disconnected) => {
                    self.log.lock().unwrap().push(Did::End(name));
                    panic!("the script said so");
                }
            }
        };
        self.log.lock().unwrap().push(Did::End(name));
        result.map(|stopped| {
            End::Http(Ended {
                duration: Duration::from_secs(at),
                send_window: Duration::from_secs(at),
                planned: plan.planned_requests(),
                unsent: plan.planned_requests().unwrap_or(0).saturating_sub(at * 5),
                threads: 1,
                stopped,
                ..Ended::default()
            })
        })
    }

    fn self_test(
        &self,
        quick: bool,
        stop: &StopHandle,
        _tell: &mut dyn FnMut(tidemark::selftest::Step),
    ) -> Result<SelfTest, String> {
        self.did(Did::Begin("self-test".into()));
        let result = loop {
            let step = self
                .steps
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_millis(5));
            match step {
                _ if stop.is_asked() => break Err("It was stopped by the test.".to_owned()),
                Ok(Step::Finish) => break Ok(()),
                Ok(Step::Panic) => panic!("the script said so"),
                _ => {}
            }
        };
        self.did(Did::End("self-test".into()));
        result.map(|()| SelfTest {
            quick,
            ..SelfTest::default()
        })
    }
}

impl Scripted {
    fn did(&self, did: Did) {
        self.log.lock().unwrap().push(did);
    }
}

/// Five requests in the second that begins at `at`, and the batch that closes it.
fn second(at: &mut u64, outcome: Outcome) -> Batch {
    let start = Duration::from_secs(*at);
    let requests = (0..5).map(|index| {
        let begun = start + Duration::from_millis(index * 100);
        let reply = outcome == Outcome::Ok;
        RequestSample {
            seq: *at * 5 + index,
            url: 0,
            scheduled: begun,
            started: Some(begun),
            connect: reply.then_some(Duration::from_millis(1)),
            tls: None,
            wrote: reply.then_some(Duration::from_millis(1)),
            first_byte: reply.then_some(Duration::from_millis(3)),
            ended: begun + Duration::from_millis(5),
            status: reply.then_some(200),
            header_bytes: 100,
            content_bytes: 10,
            footer_bytes: 0,
            sent_bytes: 50,
            outcome,
            retried_stale: false,
            served_by: None,
            region: None,
            server_timing: None,
            detail: None,
        }
    });
    let requests = requests.collect();
    *at += 1;
    Batch {
        until: Duration::from_secs(*at),
        requests,
        sent: 5,
        ..Batch::default()
    }
}

/// The program without its listeners.
pub struct Notebook {
    pub state: AppState,
    pub router: axum::Router,
    steps: Sender<Step>,
    log: Arc<Mutex<Vec<Did>>>,
    folder: TempFolder,
}

impl Notebook {
    pub fn open() -> Self {
        Self::in_folder(TempFolder::new())
    }

    pub fn in_folder(folder: TempFolder) -> Self {
        let store = Store::open(folder.path()).unwrap();
        let (steps, receiver) = channel();
        let log = Arc::new(Mutex::new(Vec::new()));
        let supervisor = Supervisor::start(
            store.clone(),
            Settings {
                caps: Caps::default(),
                node: "bench".into(),
                rule: TargetRule::new(Vec::new(), vec!["127.0.0.1:8080".parse().unwrap()]),
                receivers: tidemark::supervisor::ReceiverSettings::default(),
                instrument: Box::new(Scripted {
                    steps: Mutex::new(receiver),
                    log: Arc::clone(&log),
                }),
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
                name: "bench".into(),
                ..NodeFacts::default()
            }),
            started: Instant::now(),
        };
        Self {
            router: tidemark::api::router(state.clone()),
            state,
            steps,
            log,
            folder,
        }
    }

    pub fn tell(&self, step: Step) {
        self.steps.send(step).unwrap();
    }

    pub fn log(&self) -> Vec<Did> {
        self.log.lock().unwrap().clone()
    }

    /// One call; the body is sent as JSON.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let body = body.map(|value| value.to_string());
        self.send(method, path, "application/json", body.unwrap_or_default())
            .await
    }

    pub async fn send(&self, method: &str, path: &str, kind: &str, body: impl Into<Body>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body.into())
            .unwrap();
        Reply::read(self.router.clone().oneshot(request).await.unwrap()).await
    }

    /// A stream of events from where a watcher was.
    pub async fn resume(&self, path: &str, after: i64) -> Reply {
        let request = Request::builder()
            .uri(path)
            .header("last-event-id", after.to_string())
            .body(Body::empty())
            .unwrap();
        Reply::read(self.router.clone().oneshot(request).await.unwrap()).await
    }

    pub async fn launch(&self, plan: Value) -> i64 {
        let reply = self
            .call("POST", "/api/runs", Some(json!({ "plan": plan })))
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_i64().unwrap()
    }

    /// Waits until the run is as asked for.
    pub async fn until(&self, id: i64, met: impl Fn(&Run) -> bool) -> Run {
        loop {
            let run = self.state.supervisor.run(id).await.unwrap().unwrap();
            if met(&run) {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn ended(&self, id: i64) -> Run {
        self.until(id, |run| run.state.is_final()).await
    }

    /// Stops in order; the folder can be opened again.
    pub async fn close(self) -> TempFolder {
        self.state.supervisor.shutdown().await;
        self.state.store.close().await;
        self.folder
    }
}

/// A reply, read whole.
pub struct Reply {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub text: String,
}

impl Reply {
    pub async fn read(response: Response<Body>) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Self {
            status,
            headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts a problem of this status whose sentence, or one of whose fields, holds this text.
    pub fn is_problem(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.ends_with('.'), "{detail}");
        assert!(body["title"].is_string() && body["type"].is_string());
        assert!(self.text.contains(text), "{text} is not in {}", self.text);
    }
}
