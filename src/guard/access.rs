//! Login: what a request shows of itself, and what it may do therefore.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header};

use super::book::{Book, Denied, SESSION, Scope};
use super::cidr::Cidr;
use super::{GuardConfig, refuse};
use crate::net::clock;
use crate::serve::Peer;

/// Who may do what, and who is logged in. Shared by the guard and the login page.
#[derive(Debug)]
pub struct Access {
    /// `None`: whoever reaches the dashboard is the operator.
    book: Option<Mutex<Book>>,
    started: Instant,
    /// The cookie's name: browsers share cookies between the ports of a host.
    cookie: String,
    /// Whether the cookie travels over https only.
    secure: bool,
    /// Proxies whose `X-Forwarded-For` is believed.
    proxies: Vec<Cidr>,
}

/// Who asks, as an extension of every request that got past the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// What they may do; `None` on the few pages that need no login.
    pub scope: Option<Scope>,
    /// Where the request comes from.
    pub address: IpAddr,
    /// Whether a login is asked for here at all.
    pub login: bool,
}

impl Visitor {
    /// The visitor that the guard found; without a guard around it, the operator at this machine.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self {
            scope: Some(Scope::Admin),
            address: extensions
                .get()
                .map_or(Ipv4Addr::LOCALHOST.into(), |Peer(address)| address.ip()),
            login: false,
        })
    }

    /// Who this is, without where: `local`, `admin`, `nobody`.
    pub fn who(&self) -> String {
        match self.scope {
            _ if !self.login => "local".to_owned(),
            Some(scope) => scope.word().to_owned(),
            None => "nobody".to_owned(),
        }
    }

    /// Who this is, as runs keep it: `local`, or `admin at 10.0.0.7`.
    pub fn name(&self) -> String {
        if self.login {
            format!("{} at {}", self.who(), self.address)
        } else {
            self.who()
        }
    }
}

/// What a request is about, such as the target of a run, as an extension of the answer: the audit log keeps it.
#[derive(Clone, Debug)]
pub struct Concerns(pub String);

impl Concerns {
    /// The same answer, known to be about this.
    pub fn mark(about: String, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        response.extensions_mut().insert(Self(about));
        response
    }
}

/// A session that was just opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What it may do.
    pub scope: Scope,
    /// The value of `Set-Cookie`.
    pub cookie: HeaderValue,
}

impl Access {
    /// No login: for a dashboard that only this machine reaches.
    pub fn open() -> Arc<Self> {
        Arc::new(Self::new(None, 0, false, Vec::new()))
    }

    /// Login with these tokens, for a dashboard on this port.
    pub fn login(
        tokens: Vec<(Scope, String)>,
        port: u16,
        secure: bool,
        proxies: Vec<Cidr>,
    ) -> Arc<Self> {
        Arc::new(Self::new(Some(Book::new(tokens)), port, secure, proxies))
    }

    fn new(book: Option<Book>, port: u16, secure: bool, proxies: Vec<Cidr>) -> Self {
        Self {
            book: book.map(Mutex::new),
            started: clock::now(),
            cookie: format!("tidemark-{port}"),
            secure,
            proxies,
        }
    }

    /// Whether login is asked for.
    pub fn is_needed(&self) -> bool {
        self.book.is_some()
    }

    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    fn book(&self) -> Option<MutexGuard<'_, Book>> {
        let book = self.book.as_ref()?;
        Some(book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A fresh code for a link that logs in once.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn code(&self) -> std::io::Result<String> {
        let fresh = secret()?;
        if let Some(mut book) = self.book() {
            book.add_code(fresh.clone(), self.now());
        }
        Ok(fresh)
    }

    /// Opens a session for a token from the login form.
    ///
    /// # Errors
    /// Why not.
    pub fn by_token(&self, token: &str, from: IpAddr) -> Result<Opened, Denied> {
        let mut book = self.book().ok_or(Denied::Wrong)?;
        let scope = book.token(token.trim(), from, self.now())?;
        self.session(&mut book, scope)
    }

    /// Opens a session for a code from a link; codes are no longer good afterwards.
    ///
    /// # Errors
    /// Why not.
    pub fn by_code(&self, code: &str) -> Result<Opened, Denied> {
        let mut book = self.book().ok_or(Denied::Wrong)?;
        let scope = book.code(code, self.now()).ok_or(Denied::Wrong)?;
        self.session(&mut book, scope)
    }

    fn session(&self, book: &mut Book, scope: Scope) -> Result<Opened, Denied> {
        let id = secret().map_err(|_| Denied::Wrong)?;
        let cookie = self.set_cookie(&id, SESSION).ok_or(Denied::Wrong)?;
        book.open(id, scope, self.now());
        Ok(Opened { scope, cookie })
    }

    fn set_cookie(&self, value: &str, lives: Duration) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        HeaderValue::from_str(&format!(
            "{}={value}; Path=/; Max-Age={}; SameSite=Strict; HttpOnly{secure}",
            self.cookie,
            lives.as_secs()
        ))
        .ok()
    }

    /// Ends the session of these headers; the value of `Set-Cookie` that makes the browser forget it.
    pub fn leave(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut book = self.book()?;
        for id in self.ids(headers) {
            book.close(id);
        }
        self.set_cookie("", Duration::ZERO)
    }

    fn ids<'h>(&self, headers: &'h HeaderMap) -> impl Iterator<Item = &'h str> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie)
            .map(|(_, id)| id)
    }

    /// What the request may do; `Ok(None)` when it shows nothing that is known here.
    fn scope(&self, headers: &HeaderMap, from: IpAddr) -> Result<Option<Scope>, Denied> {
        let Some(mut book) = self.book() else {
            return Ok(Some(Scope::Admin));
        };
        let now = self.now();
        if let Some(shown) = headers.get(header::AUTHORIZATION) {
            let shown = shown.to_str().unwrap_or_default();
            let token = match shown.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
                _ => "",
            };
            return book.token(token, from, now).map(Some);
        }
        Ok(self.ids(headers).find_map(|id| book.session(id, now)))
    }

    /// Where the request comes from: the last address that no trusted proxy added.
    fn address(&self, headers: &HeaderMap, connection: IpAddr) -> IpAddr {
        let trusted = |address: IpAddr| self.proxies.iter().any(|net| net.contains(address));
        let mut from = connection.to_canonical();
        let hops: Vec<&str> = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .collect();
        for hop in hops.into_iter().rev() {
            if !trusted(from) {
                break;
            }
            let Ok(before) = hop.trim().parse::<IpAddr>() else {
                break;
            };
            from = before.to_canonical();
        }
        from
    }
}

/// 256 random bits in hexadecimal digits.
///
/// # Errors
/// When the system has no random numbers.
pub fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// What everybody may see and do: the login itself, and what its page is made of.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/login" | "/logout" | "/theme") || path.starts_with("/static/")
}

/// What a request needs.
fn needed(method: &Method, path: &str) -> Scope {
    if matches!(*method, Method::GET | Method::HEAD) {
        return match path {
            "/audit" | "/audit.csv" => Scope::Admin,
            _ => Scope::View,
        };
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let parts = match parts.as_slice() {
        ["api", rest @ ..] => rest,
        all => all,
    };
    match parts {
        ["peers", _, "check"] => Scope::Launch,
        ["peers" | "receivers", ..] | ["guides", "lab"] | [.., "delete"] => Scope::Admin,
        _ if *method == Method::DELETE => Scope::Admin,
        _ => Scope::Launch,
    }
}

pub(super) async fn check(
    State(config): State<Arc<GuardConfig>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &config.access;
    let connection = request
        .extensions()
        .get::<Peer>()
        .map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(address)| address.ip());
    let address = access.address(request.headers(), connection);
    let shown = access.scope(request.headers(), address);
    let visitor = Visitor {
        scope: shown.unwrap_or_default(),
        address,
        login: access.is_needed(),
    };
    let mut response = if let Some(refusal) = refusal(&request, shown) {
        refusal
    } else {
        request.extensions_mut().insert(visitor);
        next.run(request).await
    };
    // For the audit log, which stands around the guard.
    response.extensions_mut().insert(visitor);
    response
}

/// The answer to a request that may not pass; `None` when it may.
fn refusal(request: &Request, shown: Result<Option<Scope>, Denied>) -> Option<Response> {
    let (headers, path) = (request.headers(), request.uri().path());
    if is_open(path) {
        return None;
    }
    let needed = needed(request.method(), path);
    match shown {
        Ok(Some(scope)) if scope >= needed => None,
        Ok(Some(scope)) => Some(refuse(
            StatusCode::FORBIDDEN,
            &format!(
                "This login may {}, and this needs more: log in with the token for {}.",
                scope.word(),
                needed.word()
            ),
            headers,
            path,
        )),
        Ok(None) => Some(stranger(request)),
        Err(denied) => Some(denial(denied, headers, path)),
    }
}

/// The answer to a wrong token.
fn denial(denied: Denied, headers: &HeaderMap, path: &str) -> Response {
    match denied {
        Denied::Wrong => challenge(refuse(
            StatusCode::UNAUTHORIZED,
            "This token is not known here: the right one is in the data folder's file `token`, or what --token or --token-file says.",
            headers,
            path,
        )),
        Denied::TooMany(wait) => {
            let mut response = refuse(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many wrong tokens within a minute: wait and try again.",
                headers,
                path,
            );
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
    }
}

/// The answer to somebody who has shown nothing: scripts are told how, people get the login page.
fn stranger(request: &Request) -> Response {
    let path = request.uri().path();
    if path.starts_with("/api/") || path == "/metrics" {
        return challenge(refuse(
            StatusCode::UNAUTHORIZED,
            "Login is needed: send the header `Authorization: Bearer TOKEN`.",
            request.headers(),
            path,
        ));
    }
    // A form cannot be sent again after the login, a page can be shown.
    let next = match *request.method() {
        Method::GET => request.uri().path_and_query().map(ToString::to_string),
        _ => None,
    };
    let to = match next.as_deref() {
        None | Some("/") => "/login".to_owned(),
        Some(next) => {
            let query = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("next", next)
                .finish();
            format!("/login?{query}")
        }
    };
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

fn challenge(mut response: Response) -> Response {
    response.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer realm=\"tidemark\""),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_starting_and_ruling_are_three_rights() {
        for (method, path, scope) in [
            (Method::GET, "/runs/1", Scope::View),
            (Method::GET, "/api/peers", Scope::View),
            (Method::GET, "/audit.csv", Scope::Admin),
            (Method::POST, "/runs/new", Scope::Launch),
            (Method::POST, "/api/runs/1/cancel", Scope::Launch),
            (Method::PATCH, "/api/runs/1", Scope::Launch),
            (Method::POST, "/api/peers/b/check", Scope::Launch),
            (Method::POST, "/peers/b/check", Scope::Launch),
            (Method::DELETE, "/api/runs/1", Scope::Admin),
            (Method::POST, "/runs/1/delete", Scope::Admin),
            (Method::POST, "/api/peers", Scope::Admin),
            (Method::PATCH, "/api/peers/b", Scope::Admin),
            (Method::POST, "/peers/check", Scope::Admin),
            (Method::POST, "/receivers/allow", Scope::Admin),
            (Method::POST, "/guides/lab", Scope::Admin),
            (Method::POST, "/monitor", Scope::Launch),
            (Method::POST, "/api/receivers/iperf2/stop", Scope::Admin),
        ] {
            assert_eq!(needed(&method, path), scope, "{method} {path}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_where_a_request_comes_from() {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let access = Access::login(Vec::new(), 8080, false, proxies);
        let from = |connection: &str, said: &[&str]| {
            let mut headers = HeaderMap::new();
            for said in said {
                headers.append("x-forwarded-for", said.parse().unwrap());
            }
            let connection = connection.parse().unwrap();
            access.address(&headers, connection).to_string()
        };
        assert_eq!(from("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        // What the client wrote itself stands before what the proxy added.
        assert_eq!(from("10.0.0.1", &["1.2.3.4, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(
            from("10.0.0.1", &["198.51.100.1", "10.0.0.2"]),
            "198.51.100.1"
        );
        assert_eq!(from("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
    }
}
