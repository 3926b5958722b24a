//! The queue: one run at a time, in order; stopped, panicking and overfilled.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tidemark::measure::fold::Interval;
use tidemark::measure::run::State;
use tidemark::measure::summary::Summary;
use tidemark::supervisor::{EventKind, QUEUE_PLACES};

use crate::support::notebook::{Did, Notebook, Step};

fn to(port: usize) -> Value {
    json!({"kind": "rate", "url": format!("http://127.0.0.1:{port}/"), "rate": 5, "duration_s": 30})
}

#[tokio::test]
async fn twenty_wait_in_order_the_next_is_refused_and_no_two_overlap() {
    let notebook = Notebook::open();
    let first = notebook.launch(to(100)).await;
    notebook
        .until(first, |run| run.state == State::Running)
        .await;
    let mut ids = vec![first];
    for place in 1..=QUEUE_PLACES {
        let id = notebook.launch(to(100 + place)).await;
        let run = notebook.state.supervisor.run(id).await.unwrap().unwrap();
        assert_eq!(run.queue_place, u32::try_from(place).ok());
        ids.push(id);
    }
    let body = json!({ "plan": to(99) });
    let refused = notebook.call("POST", "/api/runs", Some(body)).await;
    refused.is_problem(503, "queue is full");
    assert_eq!(refused.header("retry-after"), "5");
    for _ in &ids {
        notebook.tell(Step::Second);
        notebook.tell(Step::Finish);
    }
    let mut last_end = None;
    for id in &ids {
        let run = notebook.ended(*id).await;
        assert_eq!(run.state, State::Finished);
        assert!(run.started_at >= last_end, "runs overlap");
        last_end = run.finished_at;
    }
    let expected: Vec<Did> = (0..=QUEUE_PLACES)
        .map(|place| format!("http://127.0.0.1:{}/", 100 + place))
        .flat_map(|name| [Did::Begin(name.clone()), Did::End(name)])
        .collect();
    assert_eq!(notebook.log(), expected);
    notebook.close().await;
}

#[tokio::test]
async fn twenty_launched_at_once_all_run_one_by_one() {
    let notebook = Notebook::open();
    for _ in 0..20 {
        notebook.tell(Step::Finish);
    }
    let launches = (0..20).map(|port| notebook.launch(to(200 + port)));
    let ids = futures_util::future::join_all(launches).await;
    for id in ids {
        notebook.ended(id).await;
    }
    let log = notebook.log();
    assert_eq!(log.len(), 40);
    for pair in log.chunks(2) {
        let [Did::Begin(begun), Did::End(ended)] = pair else {
            panic!("two runs overlap: {pair:?}");
        };
        assert_eq!(begun, ended);
    }
    notebook.close().await;
}

#[tokio::test]
async fn a_cancelled_run_keeps_what_it_has_and_a_waiting_one_never_begins() {
    let notebook = Notebook::open();
    let running = notebook.launch(to(100)).await;
    let waiting = notebook.launch(to(101)).await;
    notebook.tell(Step::Second);
    notebook.tell(Step::Second);
    notebook
        .until(running, |run| {
            run.summary.as_ref().is_some_and(has_replies(10))
        })
        .await;
    for id in [waiting, running] {
        let reply = notebook
            .call("POST", &format!("/api/runs/{id}/cancel"), None)
            .await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    let run = notebook.ended(running).await;
    assert_eq!(run.state, State::Cancelled);
    assert_eq!(
        run.error.as_deref(),
        Some("Cancelled after 2 of 30 s; figures cover 2 s.")
    );
    assert!(has_replies(10)(run.summary.as_ref().unwrap()));
    assert_eq!(
        notebook
            .state
            .store
            .intervals(running, 0, 9)
            .await
            .unwrap()
            .len(),
        2
    );
    let run = notebook.ended(waiting).await;
    assert_eq!(
        (run.state, run.started_at, run.queue_place),
        (State::Cancelled, None, None)
    );
    let again = notebook
        .call("POST", &format!("/api/runs/{running}/cancel"), None)
        .await;
    again.is_problem(409, "ended already");
    assert_eq!(notebook.log().len(), 2);
    notebook.close().await;
}

fn has_replies(count: u64) -> impl Fn(&Summary) -> bool {
    move |summary| matches!(summary, Summary::Rate(rate) if rate.replies == count)
}

#[tokio::test]
async fn a_panic_fails_its_run_and_the_next_one_runs() {
    let notebook = Notebook::open();
    notebook.tell(Step::Panic);
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    let broken = notebook.launch(to(100)).await;
    let next = notebook.launch(to(101)).await;
    let run = notebook.ended(broken).await;
    assert_eq!(run.state, State::Failed);
    assert!(run.error.unwrap().contains("internal error"));
    assert_eq!(notebook.ended(next).await.state, State::Finished);
    notebook.close().await;
}

#[tokio::test]
async fn a_run_that_cannot_start_or_reaches_nothing_failed_and_says_why() {
    let notebook = Notebook::open();
    notebook.tell(Step::Fail("The CA file cannot be read."));
    let id = notebook.launch(to(100)).await;
    let run = notebook.ended(id).await;
    assert_eq!(run.state, State::Failed);
    assert_eq!(run.error.as_deref(), Some("The CA file cannot be read."));
    notebook.tell(Step::Refused);
    notebook.tell(Step::Finish);
    let id = notebook.launch(to(100)).await;
    let run = notebook.ended(id).await;
    assert_eq!(run.state, State::Failed);
    let error = run.error.unwrap();
    assert!(
        error.contains("All 5 requests ended as connect_refused"),
        "{error}"
    );
    notebook.tell(Step::Refused);
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    let id = notebook.launch(to(100)).await;
    let run = notebook.ended(id).await;
    assert_eq!(
        (run.state, run.error),
        (State::Finished, None),
        "some requests got through"
    );
    notebook.close().await;
}

#[tokio::test]
async fn a_shutdown_interrupts_what_runs_and_what_waits() {
    let notebook = Notebook::open();
    let running = notebook.launch(to(100)).await;
    let waiting = notebook.launch(to(101)).await;
    notebook.tell(Step::Second);
    notebook.until(running, |run| run.progress.done > 0.0).await;
    let folder = notebook.close().await;
    let notebook = Notebook::in_folder(folder);
    let run = notebook.ended(running).await;
    assert_eq!(run.state, State::Interrupted);
    assert!(
        run.error
            .unwrap()
            .starts_with("Stopped by a shutdown after 1 of 30 s")
    );
    assert!(run.summary.is_some());
    let run = notebook.ended(waiting).await;
    assert_eq!((run.state, run.summary), (State::Interrupted, None));
    notebook.close().await;
}

#[tokio::test]
async fn a_live_run_shows_figures_series_and_progress() {
    let notebook = Notebook::open();
    let id = notebook.launch(to(100)).await;
    for _ in 0..3 {
        notebook.tell(Step::Second);
    }
    let run = notebook
        .until(id, |run| run.summary.as_ref().is_some_and(has_replies(15)))
        .await;
    assert!((run.progress.done - 0.1).abs() < 0.01, "{:?}", run.progress);
    assert!((run.progress.eta_s.unwrap() - 27.0).abs() < 0.1);
    assert!(run.title.is_some());
    let view = notebook.state.supervisor.live(id).unwrap();
    assert_eq!(view.intervals.len(), 3);
    assert!(matches!(&view.intervals[0], Interval::Http(second) if second.run == id));
    assert!(
        view.series
            .http()
            .is_some_and(|series| !series.bins.is_empty())
    );
    notebook.tell(Step::Finish);
    notebook.ended(id).await;
    loop {
        if notebook.state.supervisor.live(id).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    notebook.close().await;
}

#[tokio::test]
async fn a_watcher_gets_the_whole_run_whenever_it_comes_and_resumes_where_it_was() {
    let notebook = Notebook::open();
    let supervisor = notebook.state.supervisor.clone();
    let id = notebook.launch(to(100)).await;
    let early = supervisor.events(id, None).await.unwrap().unwrap();
    let stalled = supervisor.events(id, None).await.unwrap().unwrap();
    for _ in 0..3 {
        notebook.tell(Step::Second);
    }
    notebook
        .until(id, |run| run.summary.as_ref().is_some_and(has_replies(15)))
        .await;
    let late = supervisor.events(id, None).await.unwrap().unwrap();
    let resumed = supervisor.events(id, Some(2)).await.unwrap().unwrap();
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    notebook.ended(id).await;
    let after = supervisor.events(id, Some(3)).await.unwrap().unwrap();
    let seconds =
        async |events: futures_util::stream::BoxStream<'static, tidemark::supervisor::Event>| {
            let events: Vec<_> = events.collect().await;
            let (last, rest) = events.split_last().unwrap();
            assert_eq!((last.kind, last.id), (EventKind::State, 5));
            assert!(last.json.contains("\"finished\""));
            assert!(rest.iter().all(|event| event.kind != EventKind::State));
            let intervals = rest
                .iter()
                .filter(|event| event.kind == EventKind::Interval);
            intervals.map(|event| event.id).collect::<Vec<_>>()
        };
    assert_eq!(seconds(early.boxed()).await, [1, 2, 3, 4]);
    assert_eq!(seconds(late.boxed()).await, [1, 2, 3, 4]);
    assert_eq!(seconds(stalled.boxed()).await, [1, 2, 3, 4]);
    assert_eq!(seconds(resumed.boxed()).await, [3, 4]);
    assert_eq!(seconds(after.boxed()).await, [4]);
    notebook.close().await;
}

#[tokio::test]
async fn a_launch_whose_asker_hangs_up_leaves_nothing_in_the_queue() {
    let notebook = Notebook::open();
    let body = json!({ "plan": to(100) });
    let asked = notebook.call("POST", "/api/runs", Some(body));
    assert!(asked.now_or_never().is_none(), "it asks, and is gone");
    let run = loop {
        let reply = notebook.call("GET", "/api/runs", None).await;
        let run = reply.json()["runs"][0].clone();
        if !run.is_null() && run["state"] != "queued" {
            break run;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(run["state"], "cancelled");
    assert_eq!(notebook.log().len(), 0, "nothing was sent");
    let path = format!("/api/runs/{}", run["id"]);
    let gone = notebook.call("DELETE", &path, None).await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    notebook.close().await;
}
