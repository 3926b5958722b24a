//! The render threads: how many work at once, who is next, and what happens to those whose client has left.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::net::clock;
use crate::net::sys;
use crate::workload::Discipline;

/// Work that is done in turns: one row of a picture, say.
pub(super) trait Task: Send + 'static {
    /// Does the next part.
    fn turn(&mut self) -> Turn;
}

/// Whether a task needs more turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    More,
    Done,
}

/// How many and in which order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Tasks that are worked on at the same instant.
    pub(super) threads: usize,
    /// Tasks begun and not ended at most.
    pub(super) in_service: usize,
    pub(super) discipline: Discipline,
    /// Tasks that wait for service at most; `None` = the accept gate is the bound.
    pub(super) queue: Option<usize>,
}

/// A task that is done.
pub(super) struct Finished<T> {
    pub(super) task: T,
    /// From its arrival to its end, less the time in which a thread worked on it.
    pub(super) waited: Duration,
}

/// A task's thread panicked; the thread goes on with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Nothing more is taken in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Figures since the start, and the state at this instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) busy: usize,
    pub(super) in_service: usize,
    pub(super) waiting: usize,
    pub(super) served: u64,
    pub(super) refused: u64,
    pub(super) dropped: u64,
    pub(super) cut_short: u64,
    pub(super) panicked: u64,
}

/// Threads with a queue. Dropping it ends the threads after the turn that they are in.
pub(super) struct Pool<T: Task> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    limits: Limits,
    state: Mutex<State<T>>,
    /// Signalled when `ready` grows or the pool closes.
    ready: Condvar,
}

struct State<T> {
    /// In service, waiting for a thread.
    ready: VecDeque<Job<T>>,
    /// Waiting for service.
    waiting: VecDeque<Job<T>>,
    counts: Counts,
    next_id: u64,
    closed: bool,
}

struct Job<T> {
    id: u64,
    task: T,
    arrived: Instant,
    worked: Duration,
    begun: bool,
    reply: oneshot::Sender<Result<Finished<T>, Panicked>>,
}

/// The claim to one task's result; dropping it takes the task out, or stops it at its next turn.
pub(super) struct Ticket<T: Task> {
    id: u64,
    shared: Arc<Shared<T>>,
    result: oneshot::Receiver<Result<Finished<T>, Panicked>>,
}

impl<T: Task> Pool<T> {
    pub(super) fn new(limits: Limits) -> Self {
        let shared = Arc::new(Shared {
            limits,
            state: Mutex::new(State {
                ready: VecDeque::new(),
                waiting: VecDeque::new(),
                counts: Counts::default(),
                next_id: 0,
                closed: false,
            }),
            ready: Condvar::new(),
        });
        for number in 0..limits.threads {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("render-{number}"))
                .spawn(move || shared.work())
                .expect("the system starts the few threads that it was said to have CPUs for");
        }
        Self { shared }
    }

    /// Takes a task in, or says that there is no place.
    pub(super) fn submit(&self, task: T) -> Result<Ticket<T>, Full> {
        let shared = &self.shared;
        let (reply, result) = oneshot::channel();
        let mut state = shared.lock();
        let direct = state.counts.in_service < shared.limits.in_service;
        let room = shared
            .limits
            .queue
            .is_none_or(|places| state.waiting.len() < places);
        if !direct && !room {
            state.counts.refused += 1;
            return Err(Full);
        }
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.push_back(Job {
            id,
            task,
            arrived: clock::now(),
            worked: Duration::ZERO,
            begun: false,
            reply,
        });
        shared.admit(&mut state);
        drop(state);
        Ok(Ticket {
            id,
            shared: Arc::clone(shared),
            result,
        })
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.shared.lock();
        Counts {
            waiting: state.waiting.len(),
            ..state.counts
        }
    }
}

impl<T: Task> Drop for Pool<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.clear();
        state.ready.clear();
        drop(state);
        self.shared.ready.notify_all();
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Tasks run outside the lock, so a panic cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what waits into service while there is room.
    fn admit(&self, state: &mut State<T>) {
        while state.counts.in_service < self.limits.in_service {
            let Some(job) = state.waiting.pop_front() else {
                return;
            };
            state.counts.in_service += 1;
            state.ready.push_back(job);
            self.ready.notify_one();
        }
    }

    /// Takes out a task whose client has left; one that a thread has in hand is stopped by that thread.
    fn forget(&self, id: u64) {
        let mut state = self.lock();
        if let Some(at) = state.waiting.iter().position(|job| job.id == id) {
            state.waiting.remove(at);
            state.counts.dropped += 1;
        } else if let Some(at) = state.ready.iter().position(|job| job.id == id) {
            let begun = state.ready.remove(at).is_some_and(|job| job.begun);
            state.counts.in_service -= 1;
            state.counts.dropped += u64::from(!begun);
            state.counts.cut_short += u64::from(begun);
            self.admit(&mut state);
        }
    }
}

impl<T: Task> Shared<T> {
    /// One thread's life.
    fn work(&self) {
        sys::lower_thread_priority();
        while let Some(mut job) = self.next() {
            let began = clock::now();
            let turn = std::panic::catch_unwind(AssertUnwindSafe(|| self.turns(&mut job)));
            let now = clock::now();
            job.worked += now.saturating_duration_since(began);
            self.put_back(job, turn.map_err(|_| Panicked), now);
        }
    }

    fn next(&self) -> Option<Job<T>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(mut job) = state.ready.pop_front() {
                job.begun = true;
                state.counts.busy += 1;
                return Some(job);
            }
            state = self
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One turn where turns are shared, else all of them, unless the client leaves.
    fn turns(&self, job: &mut Job<T>) -> Turn {
        loop {
            let turn = job.task.turn();
            let shared = self.limits.discipline == Discipline::Shared;
            if turn == Turn::Done || shared || job.reply.is_closed() {
                return turn;
            }
        }
    }

    fn put_back(&self, job: Job<T>, turn: Result<Turn, Panicked>, now: Instant) {
        let mut state = self.lock();
        state.counts.busy -= 1;
        if turn == Ok(Turn::More) && !job.reply.is_closed() && !state.closed {
            state.ready.push_back(job);
            return;
        }
        state.counts.in_service -= 1;
        match turn {
            Ok(Turn::Done) => state.counts.served += 1,
            Ok(Turn::More) => state.counts.cut_short += 1,
            Err(Panicked) => state.counts.panicked += 1,
        }
        self.admit(&mut state);
        drop(state);
        let whole = now.saturating_duration_since(job.arrived);
        let result = match turn {
            Ok(Turn::Done) => Ok(Finished {
                waited: whole.saturating_sub(job.worked),
                task: job.task,
            }),
            Ok(Turn::More) => return,
            Err(Panicked) => Err(Panicked),
        };
        // Who has left does not want it.
        let _ = job.reply.send(result);
    }
}

impl<T: Task> Ticket<T> {
    /// Waits for the task's end.
    pub(super) async fn finished(mut self) -> Result<Finished<T>, Panicked> {
        // Without a sender the pool was closed: nothing will come.
        (&mut self.result).await.unwrap_or(Err(Panicked))
    }
}

impl<T: Task> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.result.close();
        self.shared.forget(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A task of some turns that notes each of them, and may be held or panic.
    struct Scripted {
        name: &'static str,
        turns: u32,
        log: Arc<Mutex<Vec<&'static str>>>,
        hold: Option<mpsc::Receiver<()>>,
        panics: bool,
    }

    impl Task for Scripted {
        fn turn(&mut self) -> Turn {
            self.log.lock().unwrap().push(self.name);
            if let Some(hold) = &self.hold {
                let _ = hold.recv();
            }
            assert!(!self.panics, "a scripted panic");
            self.turns -= 1;
            if self.turns == 0 {
                Turn::Done
            } else {
                Turn::More
            }
        }
    }

    struct Bench {
        pool: Pool<Scripted>,
        log: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Bench {
        fn new(threads: usize, in_service: usize, discipline: Discipline, queue: usize) -> Self {
            let limits = Limits {
                threads,
                in_service,
                discipline,
                queue: Some(queue),
            };
            Self {
                pool: Pool::new(limits),
                log: Arc::default(),
            }
        }

        fn task(&self, name: &'static str, turns: u32) -> Scripted {
            Scripted {
                name,
                turns,
                log: Arc::clone(&self.log),
                hold: None,
                panics: false,
            }
        }

        /// Keeps one thread busy from now on until the sender sends or goes.
        fn hold(&self) -> (Ticket<Scripted>, mpsc::Sender<()>) {
            let (release, hold) = mpsc::channel();
            let mut task = self.task("hold", 1);
            task.hold = Some(hold);
            let before = self.pool.counts().busy;
            let ticket = self.pool.submit(task).ok().unwrap();
            self.wait(|counts| counts.busy > before);
            (ticket, release)
        }

        fn wait(&self, condition: impl Fn(Counts) -> bool) {
            while !condition(self.pool.counts()) {
                std::thread::yield_now();
            }
        }

        fn log(&self) -> Vec<&'static str> {
            self.log.lock().unwrap().clone()
        }
    }

    fn result(ticket: Ticket<Scripted>) -> Result<Finished<Scripted>, Panicked> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(ticket.finished())
    }

    #[test]
    fn fifo_ends_one_task_before_the_next_begins() {
        let bench = Bench::new(1, 1, Discipline::Fifo, 9);
        let (held, release) = bench.hold();
        let a = bench.pool.submit(bench.task("a", 3)).ok().unwrap();
        let b = bench.pool.submit(bench.task("b", 2)).ok().unwrap();
        release.send(()).unwrap();
        for ticket in [held, a, b] {
            assert!(result(ticket).is_ok());
        }
        assert_eq!(bench.log(), ["hold", "a", "a", "a", "b", "b"]);
    }

    #[test]
    fn shared_tasks_take_turns_up_to_the_number_in_service() {
        let bench = Bench::new(1, 3, Discipline::Shared, 9);
        let (held, release) = bench.hold();
        let a = bench.pool.submit(bench.task("a", 3)).ok().unwrap();
        let b = bench.pool.submit(bench.task("b", 2)).ok().unwrap();
        // Waits for service until one of the three in service has ended.
        let c = bench.pool.submit(bench.task("c", 1)).ok().unwrap();
        assert_eq!(bench.pool.counts().in_service, 3);
        assert_eq!(bench.pool.counts().waiting, 1);
        release.send(()).unwrap();
        for ticket in [held, a, b, c] {
            assert!(result(ticket).is_ok());
        }
        assert_eq!(bench.log(), ["hold", "a", "b", "c", "a", "b", "a"]);
    }

    #[test]
    fn a_full_queue_refuses_and_a_client_that_leaves_makes_room() {
        let bench = Bench::new(1, 1, Discipline::Fifo, 1);
        let (held, release) = bench.hold();
        let waits = bench.pool.submit(bench.task("left", 1)).ok().unwrap();
        assert!(bench.pool.submit(bench.task("refused", 1)).is_err());
        drop(waits);
        let stays = bench.pool.submit(bench.task("stays", 1)).ok().unwrap();
        release.send(()).unwrap();
        assert!(result(held).is_ok());
        assert!(result(stays).is_ok());
        assert_eq!(bench.log(), ["hold", "stays"]);
        let counts = bench.pool.counts();
        assert_eq!((counts.refused, counts.dropped, counts.served), (1, 1, 2));
    }

    #[test]
    fn a_task_whose_client_leaves_stops_at_its_next_turn() {
        let bench = Bench::new(1, 1, Discipline::Fifo, 9);
        let (release, hold) = mpsc::channel();
        let mut task = bench.task("endless", u32::MAX);
        task.hold = Some(hold);
        let ticket = bench.pool.submit(task).ok().unwrap();
        release.send(()).unwrap();
        bench.wait(|counts| counts.busy == 1);
        drop(ticket);
        drop(release);
        bench.wait(|counts| counts.cut_short == 1);
        assert_eq!(bench.pool.counts().in_service, 0);
    }

    #[test]
    fn a_panic_is_reported_and_the_thread_goes_on() {
        let bench = Bench::new(1, 1, Discipline::Fifo, 9);
        let mut task = bench.task("bad", 1);
        task.panics = true;
        let bad = bench.pool.submit(task).ok().unwrap();
        assert!(result(bad).is_err());
        let good = bench.pool.submit(bench.task("good", 1)).ok().unwrap();
        assert!(result(good).is_ok());
        assert_eq!(bench.pool.counts().panicked, 1);
    }
}
