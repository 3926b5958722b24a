//! The notebook: what is written is read back, refused files stay as they are, crashes are closed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tidemark::measure::plan::{Caps, Kind, Plan};
use tidemark::measure::run::{Environment, Origin, State};
use tidemark::measure::summary::HttpInterval;
use tidemark::measure::summary::http::ClosedSecond;
use tidemark::store::{Filter, Finish, Inserted, NewRun, Patch, Peer, Removal, Store, StoreError};

/// A folder that is removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tidemark-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn plan(value: &serde_json::Value) -> Plan {
    Plan::from_json(value, &Caps::default()).unwrap()
}

fn rate_plan() -> Plan {
    plan(&json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 5, "duration_s": 30}))
}

fn new_run(plan: Plan) -> NewRun {
    NewRun {
        plan,
        command: "httperf --server 127.0.0.1".into(),
        origin: Origin::Local,
        actor: "operator".into(),
        node: "here".into(),
        note: String::new(),
        tags: Vec::new(),
        objective: String::new(),
        form_token: None,
        member: None,
        created_at: time(1_000),
    }
}

fn time(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).unwrap()
}

fn id(inserted: Inserted) -> i64 {
    match inserted {
        Inserted::New(id) | Inserted::Before(id) => id,
    }
}

fn second(run: i64, start: u32) -> ClosedSecond {
    ClosedSecond {
        interval: HttpInterval {
            run,
            start_s: f64::from(start),
            end_s: f64::from(start + 1),
            requests: 5,
            replies: 5,
            reply_rate_per_s: 5.0,
            latency_avg_ms: Some(2.5),
            ..HttpInterval::default()
        },
        histogram: vec![1, 2, 3],
        rows: vec![u8::try_from(start % 250).unwrap(); 10],
        rows_count: 5,
    }
}

async fn ids(store: &Store, filter: Filter, before: Option<i64>, limit: usize) -> Vec<i64> {
    let runs = store.runs(filter, before, limit).await.unwrap();
    runs.iter().map(|run| run.id).collect()
}

#[tokio::test]
async fn a_run_is_read_back_as_it_was_written_also_after_reopening() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut new = new_run(rate_plan());
    new.note = "first light".into();
    new.tags = vec!["b".into(), "a".into(), "a".into()];
    let id = id(store.insert_run(new).await.unwrap());
    let environment = Environment {
        kernel: Some("6.1".into()),
        version: "0.1.0".into(),
        ..Environment::default()
    };
    store
        .start_run(id, time(1_001), environment.clone())
        .await
        .unwrap();
    store
        .append(id, vec![second(id, 0).into(), second(id, 1).into()])
        .await
        .unwrap();
    let mut finish = Finish::bare(State::Finished, time(1_031), None);
    finish.seconds = vec![second(id, 2).into()];
    finish.title = Some("It keeps up".into());
    store.finish_run(id, finish).await.unwrap();
    store.close().await;
    drop(store);

    let store = Store::open(folder.path()).unwrap();
    let run = store.run(id).await.unwrap().unwrap();
    assert_eq!(run.state, State::Finished);
    assert_eq!(run.plan, rate_plan());
    assert_eq!(run.tags, ["a", "b"]);
    assert_eq!(run.note, "first light");
    assert_eq!(run.environment, environment);
    assert_eq!(run.started_at, Some(time(1_001)));
    assert_eq!(run.finished_at, Some(time(1_031)));
    assert_eq!(run.title.as_deref(), Some("It keeps up"));
    let intervals = store.intervals(id, 0, 100).await.unwrap();
    assert_eq!(intervals.len(), 3);
    assert_eq!(intervals[2], second(id, 2).interval);
    let chunk = store.rows(id, 0).await.unwrap();
    assert_eq!((chunk.rows.len(), chunk.next), (3, None));
    assert_eq!(store.rows_count(id).await.unwrap(), 15);
    store.close().await;
}

#[tokio::test]
async fn rows_come_in_chunks_that_join_without_a_gap() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let id = id(store.insert_run(new_run(rate_plan())).await.unwrap());
    let seconds = (0..5).map(|start| ClosedSecond {
        rows: vec![u8::try_from(start).unwrap(); 600_000],
        ..second(id, start)
    });
    store
        .append(id, seconds.map(Into::into).collect())
        .await
        .unwrap();
    let (mut from, mut firsts, mut chunks) = (Some(0), Vec::new(), 0);
    while let Some(at) = from {
        let chunk = store.rows(id, at).await.unwrap();
        firsts.extend(chunk.rows.iter().map(|rows| rows[0]));
        from = chunk.next;
        chunks += 1;
    }
    assert_eq!(firsts, [0, 1, 2, 3, 4]);
    assert_eq!(chunks, 3);
    store.close().await;
}

#[tokio::test]
async fn the_same_form_sent_twice_makes_one_run() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let new = NewRun {
        form_token: Some("once".into()),
        ..new_run(rate_plan())
    };
    let first = store.insert_run(new.clone()).await.unwrap();
    let second = store.insert_run(new).await.unwrap();
    assert_eq!(
        (first, second),
        (Inserted::New(id(first)), Inserted::Before(id(first)))
    );
    assert_eq!(
        store.run_of_token("once".into()).await.unwrap(),
        Some(id(first))
    );
    store.close().await;
}

#[tokio::test]
async fn a_deleted_run_takes_its_samples_along_and_its_number_is_not_used_again() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let id = id(store.insert_run(new_run(rate_plan())).await.unwrap());
    store.append(id, vec![second(id, 0).into()]).await.unwrap();
    assert!(
        !store.delete_run(id).await.unwrap(),
        "a waiting run cannot be deleted"
    );
    store
        .finish_run(id, Finish::bare(State::Cancelled, time(2), None))
        .await
        .unwrap();
    assert!(store.delete_run(id).await.unwrap());
    assert!(store.run(id).await.unwrap().is_none());
    assert!(store.intervals(id, 0, 9).await.unwrap().is_empty());
    assert!(store.rows(id, 0).await.unwrap().rows.is_empty());
    let text = Filter {
        text: Some("httperf".into()),
        ..Filter::default()
    };
    assert!(ids(&store, text, None, 9).await.is_empty());
    let next = store.insert_run(new_run(rate_plan())).await.unwrap();
    assert_eq!(next, Inserted::New(id + 1));
    store.close().await;
}

/// Twenty runs, a second apart: even ones of users, every fifth tagged, the later half finished.
async fn twenty_runs(store: &Store) {
    let users = plan(&json!({"kind": "users", "url": "http://127.0.0.2:81/x", "reps": 1}));
    for number in 1..=20 {
        let even = number % 2 == 0;
        let mut new = new_run(if even { users.clone() } else { rate_plan() });
        new.created_at = time(number);
        new.note = format!("night %_{number:03}");
        if number % 5 == 0 {
            new.tags = vec!["five".into()];
        }
        let id = id(store.insert_run(new).await.unwrap());
        if number > 10 {
            let finish = Finish::bare(State::Finished, time(90), None);
            store.finish_run(id, finish).await.unwrap();
        }
    }
}

fn only(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

#[tokio::test]
async fn the_history_filters_and_finds_any_part_of_a_text() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    twenty_runs(&store).await;
    let tagged = |filter: &mut Filter| filter.tag = Some("five".into());
    let text = |text: &str| only(|f| f.text = Some(text.into()));
    let target = |target: &str| {
        only(|f| {
            f.target = Some(target.into());
            f.until = Some(time(7));
        })
    };
    let cases: [(Filter, &[i64]); 11] = [
        (only(tagged), &[20, 15, 10, 5]),
        (
            Filter {
                kind: Some(Kind::Users),
                ..only(tagged)
            },
            &[20, 10],
        ),
        (
            Filter {
                state: Some(State::Queued),
                ..only(tagged)
            },
            &[10, 5],
        ),
        (
            Filter {
                text: Some("NIGHT %_00".into()),
                ..only(tagged)
            },
            &[5],
        ),
        (text("_02"), &[20]),
        (
            Filter {
                from: Some(time(19)),
                ..text("%")
            },
            &[20, 19],
        ),
        (text("\" OR \""), &[]),
        (
            Filter {
                from: Some(time(3)),
                until: Some(time(6)),
                ..Filter::default()
            },
            &[5, 4, 3],
        ),
        (target("http://127.0.0.2:81/x"), &[6, 4, 2]),
        (target("127.0.0.2:81"), &[6, 4, 2]),
        (target("127.0.0.2"), &[6, 4, 2]),
    ];
    for (filter, expected) in cases {
        assert_eq!(
            ids(&store, filter.clone(), None, 100).await,
            expected,
            "{filter:?}"
        );
        assert_eq!(store.count(filter).await.unwrap(), expected.len() as u64);
    }
    store.close().await;
}

#[tokio::test]
async fn the_history_pages_newest_first_and_follows_changes() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    twenty_runs(&store).await;
    let all = Filter::default();
    assert_eq!(ids(&store, all.clone(), None, 3).await, [20, 19, 18]);
    assert_eq!(ids(&store, all.clone(), Some(18), 3).await, [17, 16, 15]);
    assert_eq!(ids(&store, all.clone(), Some(1), 3).await, [0; 0]);
    assert_eq!(store.count(all).await.unwrap(), 20);
    let patch = Patch {
        note: Some("dawn".into()),
        tags: Some(vec!["x".into()]),
        baseline: Some(true),
    };
    assert!(store.patch_run(5, patch.clone()).await.unwrap());
    assert!(!store.patch_run(99, patch).await.unwrap());
    for filter in [
        only(|f| f.text = Some("dawn".into())),
        only(|f| f.tag = Some("x".into())),
        only(|f| f.baseline = Some(true)),
    ] {
        assert_eq!(
            ids(&store, filter.clone(), None, 9).await,
            [5],
            "{filter:?}"
        );
    }
    store.close().await;
}

#[tokio::test]
async fn every_filter_of_the_history_is_answered_from_an_index() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let all = Filter::default();
    let cases = [
        (all.clone(), "runs USING"),
        (
            Filter {
                kind: Some(Kind::Rate),
                ..all.clone()
            },
            "runs_kind",
        ),
        (
            Filter {
                state: Some(State::Finished),
                ..all.clone()
            },
            "runs_state",
        ),
        (
            Filter {
                kind: Some(Kind::Rate),
                state: Some(State::Failed),
                ..all.clone()
            },
            "runs_kind_state",
        ),
        (
            Filter {
                target: Some("127.0.0.1".into()),
                ..all.clone()
            },
            "runs_host",
        ),
        (
            Filter {
                target: Some("127.0.0.1:80".into()),
                ..all.clone()
            },
            "runs_authority",
        ),
        (
            Filter {
                target: Some("http://a/".into()),
                ..all.clone()
            },
            "runs_target",
        ),
        (
            Filter {
                from: Some(time(1)),
                ..all.clone()
            },
            "COVERING INDEX runs_walk",
        ),
        (
            Filter {
                tag: Some("x".into()),
                kind: Some(Kind::Rate),
                ..all.clone()
            },
            "tags USING",
        ),
        (
            Filter {
                text: Some("abc".into()),
                ..all
            },
            "VIRTUAL TABLE INDEX",
        ),
    ];
    for (filter, index) in cases {
        let steps = store
            .explain_runs(filter.clone(), Some(1_000))
            .await
            .unwrap();
        let whole = steps.join("; ");
        assert!(whole.contains(index), "{filter:?}: {whole}");
        assert!(
            !whole.contains("USE TEMP B-TREE FOR ORDER BY"),
            "{filter:?}: {whole}"
        );
        let scans = steps
            .iter()
            .any(|step| step.starts_with("SCAN runs") && !step.contains("USING"));
        assert!(!scans, "{filter:?}: {whole}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_crash_leaves_interrupted_runs_with_what_they_had() {
    let folder = Folder::new();
    let (running, queued) = {
        let store = Store::open(folder.path()).unwrap();
        let running = id(store.insert_run(new_run(rate_plan())).await.unwrap());
        let queued = id(store.insert_run(new_run(rate_plan())).await.unwrap());
        store
            .start_run(running, time(1_001), Environment::default())
            .await
            .unwrap();
        let seconds = (0..12).map(|start| second(running, start).into()).collect();
        store.append(running, seconds).await.unwrap();
        (running, queued)
        // Dropped without `close`: as a killed process leaves it.
    };
    let store = Store::open(folder.path()).unwrap();
    let run = store.run(running).await.unwrap().unwrap();
    assert_eq!(run.state, State::Interrupted);
    assert_eq!(run.finished_at, Some(time(1_013)));
    let error = run.error.unwrap();
    assert_eq!(
        error,
        "Stopped by a crash after 12 of 30 s; figures cover 12 s"
    );
    assert!(run.summary.is_some());
    assert!(run.verdict.is_some());
    assert!(store.series(running).await.unwrap().is_some());
    assert_eq!(store.intervals(running, 0, 100).await.unwrap().len(), 12);
    let run = store.run(queued).await.unwrap().unwrap();
    assert_eq!((run.state, run.summary), (State::Interrupted, None));
    assert!(run.error.unwrap().contains("before it began"));
    store.close().await;
}

#[tokio::test]
async fn a_file_that_is_not_a_whole_notebook_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    let file = folder.path().join("tidemark.db");
    let store = Store::open(folder.path()).unwrap();
    store.close().await;
    drop(store);
    // As after a kill: the file is read from end to end before it is used.
    let killed = rusqlite::Connection::open(&file).unwrap();
    killed
        .execute_batch("DELETE FROM settings WHERE key = 'closed';")
        .unwrap();
    drop(killed);
    let whole = fs::read(&file).unwrap();
    let other = Folder::new();
    let foreign = rusqlite::Connection::open(other.path().join("x.db")).unwrap();
    foreign
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
        .unwrap();
    let mut newer = whole.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    let mut flipped = whole.clone();
    flipped[4096..8192].fill(0xA5);
    let cases: [(&str, Vec<u8>); 6] = [
        ("empty", Vec::new()),
        ("text", b"hello, this is not a database at all".to_vec()),
        ("foreign", fs::read(other.path().join("x.db")).unwrap()),
        ("newer", newer),
        ("flipped", flipped),
        ("half", whole[..whole.len() / 2].to_vec()),
    ];
    for (name, bytes) in cases {
        fs::remove_file(folder.path().join("tidemark.db-wal")).ok();
        fs::remove_file(folder.path().join("tidemark.db-shm")).ok();
        fs::write(&file, &bytes).unwrap();
        let error = Store::open(folder.path()).unwrap_err();
        let fits = match name {
            "newer" => matches!(error, StoreError::Newer { found: 99, .. }),
            "flipped" | "half" => matches!(error, StoreError::Corrupt { .. }),
            _ => matches!(error, StoreError::Foreign { .. }),
        };
        assert!(fits, "{name}: {error:?}");
        assert!(error.to_string().contains("tidemark.db"), "{name}: {error}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name}");
    }
}

#[tokio::test]
async fn peers_are_found_whatever_the_case_of_their_name() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let peer = Peer {
        name: "West".into(),
        internal_address: Some("10.0.0.1".into()),
        ..Peer::default()
    };
    assert!(
        store
            .insert_peer(peer.clone(), time(1), None)
            .await
            .unwrap()
    );
    assert!(
        !store
            .insert_peer(
                Peer {
                    name: "WEST".into(),
                    ..Peer::default()
                },
                time(1),
                None
            )
            .await
            .unwrap()
    );
    assert_eq!(store.peer("west".into()).await.unwrap(), Some(peer.clone()));
    let east = Peer {
        name: "east".into(),
        ..Peer::default()
    };
    assert!(
        store
            .insert_peer(east.clone(), time(1), None)
            .await
            .unwrap()
    );
    let taken = store
        .replace_peer("west".into(), east.clone(), None)
        .await
        .unwrap();
    assert_eq!(taken, Removal::NameTaken);
    let moved = Peer {
        name: "north".into(),
        ..peer
    };
    assert_eq!(
        store
            .replace_peer("west".into(), moved.clone(), None)
            .await
            .unwrap(),
        Removal::Done
    );
    assert_eq!(store.peers().await.unwrap(), [east, moved]);
    assert_eq!(
        store.delete_peer("NORTH".into()).await.unwrap(),
        Removal::Done
    );
    assert_eq!(
        store.delete_peer("north".into()).await.unwrap(),
        Removal::Missing
    );
    store.close().await;
}

#[test]
fn the_bundled_sqlite_has_the_fixed_write_ahead_log() {
    assert!(rusqlite::version_number() >= 3_051_003);
}
