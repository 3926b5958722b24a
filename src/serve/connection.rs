//! One connection, from accept to close.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt;

use super::activity::{Activity, Doing};
use super::heads::{Heads, Judged};
use super::registry::{Registry, Seat};
use super::{Local, Peer, Phase, ServeLimits};
use crate::net::clock;

/// What all connections of one server share.
pub(super) struct Shared {
    pub(super) router: axum::Router,
    pub(super) limits: ServeLimits,
    pub(super) registry: Arc<Registry>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// Longest head; hyper answers 431 (or 414) beyond it.
const LONGEST_HEAD: usize = 16 * 1024;

/// Serves one connection until either side or a timer ends it.
pub(super) async fn drive(
    stream: TcpStream,
    peer: Peer,
    local: Local,
    shared: Arc<Shared>,
    seat: Seat,
) {
    let activity = Arc::clone(&seat.activity);
    let seat = Arc::new(seat);
    let io = Watched {
        stream,
        activity: Arc::clone(&activity),
        heads: shared.limits.strict.then(Heads::default),
        poison: None,
        last_request: Arc::default(),
        shut: false,
        thrown_away: 0,
    };
    let last_request = Arc::clone(&io.last_request);
    let service = service_fn(|request: Request<Incoming>| {
        answer(request, peer, local, &shared, &seat, &last_request)
    });
    let connection = http1::Builder::new()
        // The timers are ours: hyper's cannot tell a silent client from a kept connection.
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let mut closed = pin!(activity.close.notified());
    let mut timer = pin!(tokio::time::sleep_until(
        far(&activity, &shared.limits).into()
    ));
    let mut armed = true;
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() || closed.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        // The timer is moved only when it has to ring earlier, and looked at anew when it rang.
        loop {
            let Some(deadline) = activity.deadline(&shared.limits) else {
                return Poll::Pending;
            };
            if !armed || deadline < timer.deadline().into_std() {
                timer.as_mut().reset(deadline.into());
                armed = true;
            }
            ready!(timer.as_mut().poll(context));
            armed = false;
            if activity
                .deadline(&shared.limits)
                .is_some_and(|deadline| deadline <= clock::now())
            {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

fn far(activity: &Activity, limits: &ServeLimits) -> Instant {
    activity.deadline(limits).unwrap_or_else(clock::now)
}

/// Hands one request to the router and follows its reply to the end.
async fn answer(
    mut request: Request<Incoming>,
    peer: Peer,
    local: Local,
    shared: &Shared,
    seat: &Arc<Seat>,
    last_request: &AtomicBool,
) -> Result<Response<Answer>, Infallible> {
    let activity = &seat.activity;
    activity.begin(Doing::Busy);
    let answering = Answering(Arc::clone(seat));
    let has_body = !request.body().is_end_stream();
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(local);
    let Ok(mut response) = shared.router.clone().oneshot(request.map(Body::new)).await;
    activity.mark_unread(has_body && response.status().as_u16() >= 400);
    let headers = response.headers_mut();
    if headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    {
        activity.mark_event_stream();
    }
    if last_request.load(Relaxed) || matches!(*shared.phase.borrow(), Phase::Draining { .. }) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Answer {
        body,
        _answering: answering,
    }))
}

/// The time from a request's head to the end of its reply.
struct Answering(Arc<Seat>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.activity.begin(Doing::Idle);
        self.0.note_change();
    }
}

/// A reply's body; when the codec has taken the last of it, the connection is idle again.
struct Answer {
    body: Body,
    _answering: Answering,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The socket, with every read and write noted and every head checked.
struct Watched {
    stream: TcpStream,
    activity: Arc<Activity>,
    heads: Option<Heads>,
    /// How much of [`POISON`] has been read, once a request is refused.
    poison: Option<usize>,
    last_request: Arc<AtomicBool>,
    shut: bool,
    thrown_away: usize,
}

/// What the codec reads instead of a request that is refused: no HTTP, so it answers 400 in turn and closes.
const POISON: &[u8] = b"\0\r\n\r\n";

/// How much a client may send after its last reply before it is cut off. Many clients read the reply only when all of
/// a body is sent: cut off before, they would see a broken connection instead of "too large".
const THROW_AWAY: usize = 16 * 1024 * 1024;

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(read) = self.poison {
            let rest = &POISON[read..];
            let taken = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..taken]);
            self.poison = Some(read + taken);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() == before {
            return Poll::Ready(Ok(()));
        }
        self.activity.received();
        let Some(heads) = &mut self.heads else {
            return Poll::Ready(Ok(()));
        };
        match heads.feed(&buffer.filled()[before..]) {
            Judged::Pass => {}
            Judged::LastRequest => self.last_request.store(true, Relaxed),
            Judged::Refuse(pass) => {
                buffer.set_filled(before + pass);
                let taken = POISON.len().min(buffer.remaining());
                buffer.put_slice(&POISON[..taken]);
                self.poison = Some(taken);
                self.activity.mark_unread(true);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Watched {
    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.activity.writing(written.is_pending());
        written
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.shut = true;
            if !self.activity.must_linger() {
                return Poll::Ready(Ok(()));
            }
            self.activity.begin(Doing::Lingering);
        }
        let mut scratch = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            let count = buffer.filled().len();
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if count > 0 && self.thrown_away < THROW_AWAY => {
                    self.thrown_away += count;
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
