//! Who has shown a token, and who has tried too often: tokens, single-use codes, sessions. No clock and no chance of
//! its own: both are arguments.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use subtle::ConstantTimeEq;

/// What somebody may do; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read pages, figures and downloads.
    View,
    /// Start and stop tests, note and tag them.
    Launch,
    /// Register peers, run receivers, delete, read the audit log.
    Admin,
}

impl Scope {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Launch => "launch",
            Self::Admin => "admin",
        }
    }
}

/// Why nobody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The token, code or session is not known here (any more).
    Wrong,
    /// Too many wrong ones within a minute; the next is looked at after this time.
    TooMany(Duration),
}

/// How long a session lives.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// How long the link that the start prints may be used, once.
const CODE: Duration = Duration::from_mins(10);
/// Sessions at once; beyond it the oldest ends.
const SESSIONS: usize = 1000;
/// The time over which wrong tokens are counted.
const WINDOW: Duration = Duration::from_mins(1);
/// Wrong tokens of one address within it.
const WRONG_OF_ONE: usize = 10;
/// Wrong tokens of all addresses within it.
const WRONG_OF_ALL: usize = 100;

#[derive(Clone, Debug)]
struct Session {
    scope: Scope,
    until: Duration,
}

/// Tokens, codes and sessions, all in memory; times count from the program's start.
#[derive(Debug, Default)]
pub(super) struct Book {
    tokens: Vec<(Scope, String)>,
    codes: HashMap<String, Duration>,
    sessions: HashMap<String, Session>,
    /// The wrong tokens of the last minute, oldest first.
    wrong: VecDeque<(Duration, IpAddr)>,
}

impl Book {
    pub(super) fn new(tokens: Vec<(Scope, String)>) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }

    /// The scope of this token, shown by somebody at this address.
    ///
    /// An address with too many wrong ones must wait whatever it shows; where all together have too many, a right
    /// token is still taken, so that nobody can lock the operators out.
    pub(super) fn token(
        &mut self,
        shown: &str,
        from: IpAddr,
        now: Duration,
    ) -> Result<Scope, Denied> {
        let from = network(from);
        while self
            .wrong
            .front()
            .is_some_and(|(when, _)| *when + WINDOW <= now)
        {
            self.wrong.pop_front();
        }
        let own: Vec<Duration> = self
            .wrong
            .iter()
            .filter(|(_, address)| *address == from)
            .map(|(when, _)| *when)
            .collect();
        if own.len() >= WRONG_OF_ONE {
            return Err(Denied::TooMany((own[0] + WINDOW).saturating_sub(now)));
        }
        let mut found = None;
        for (scope, token) in &self.tokens {
            if bool::from(token.as_bytes().ct_eq(shown.as_bytes())) {
                found = found.max(Some(*scope));
            }
        }
        if let Some(scope) = found {
            return Ok(scope);
        }
        if self.wrong.len() >= WRONG_OF_ALL {
            let next = self.wrong[0].0 + WINDOW;
            return Err(Denied::TooMany(next.saturating_sub(now)));
        }
        self.wrong.push_back((now, from));
        Err(Denied::Wrong)
    }

    /// Makes this fresh secret a code that opens an admin's session once.
    pub(super) fn add_code(&mut self, fresh: String, now: Duration) {
        self.codes.insert(fresh, now + CODE);
    }

    /// Takes the code out: it is worth a session of an admin, once and in time.
    pub(super) fn code(&mut self, shown: &str, now: Duration) -> Option<Scope> {
        let until = self.codes.remove(shown)?;
        (now < until).then_some(Scope::Admin)
    }

    /// Opens a session under this fresh secret.
    pub(super) fn open(&mut self, fresh: String, scope: Scope, now: Duration) {
        self.sessions.retain(|_, session| now < session.until);
        if self.sessions.len() >= SESSIONS
            && let Some(oldest) = self
                .sessions
                .iter()
                .min_by_key(|(_, session)| session.until)
                .map(|(id, _)| id.clone())
        {
            self.sessions.remove(&oldest);
        }
        let until = now + SESSION;
        self.sessions.insert(fresh, Session { scope, until });
    }

    /// What the session with this id may do.
    pub(super) fn session(&self, id: &str, now: Duration) -> Option<Scope> {
        let session = self.sessions.get(id)?;
        (now < session.until).then_some(session.scope)
    }

    /// Ends the session.
    pub(super) fn close(&mut self, id: &str) {
        self.sessions.remove(id);
    }
}

/// What one person has at least: an IPv4 address, or the 64-bit network of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0123456789abcdef";

    fn book() -> Book {
        Book::new(vec![
            (Scope::Admin, RIGHT.to_owned()),
            (Scope::View, "only-to-look-at".to_owned()),
        ])
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ten_thousand_guesses_are_worth_ten() {
        let mut book = book();
        let mut wrong = 0;
        for number in 0..10_000 {
            match book.token(&format!("guess-{number}"), at("10.0.0.9"), s(1)) {
                Ok(scope) => panic!("{scope:?}"),
                Err(Denied::Wrong) => wrong += 1,
                Err(Denied::TooMany(wait)) => assert_eq!(wait, WINDOW),
            }
        }
        assert_eq!(wrong, WRONG_OF_ONE);
        // Even the right one waits at that address, and nowhere else.
        assert!(book.token(RIGHT, at("10.0.0.9"), s(60)).is_err());
        assert_eq!(book.token(RIGHT, at("10.0.0.8"), s(60)), Ok(Scope::Admin));
        assert_eq!(book.token(RIGHT, at("10.0.0.9"), s(61)), Ok(Scope::Admin));
    }

    #[test]
    fn many_addresses_share_a_hundred_and_lock_nobody_out() {
        let mut book = book();
        let mut wrong = 0;
        for number in 0..1000_u32 {
            let address = IpAddr::V4(number.into());
            wrong += usize::from(book.token("guess", address, s(0)) == Err(Denied::Wrong));
        }
        assert_eq!(wrong, WRONG_OF_ALL);
        assert_eq!(book.token(RIGHT, at("10.0.0.8"), s(0)), Ok(Scope::Admin));
        // An IPv6 host has many addresses and one network.
        let mut book = self::book();
        for number in 0..WRONG_OF_ONE {
            let address = at(&format!("2001:db8::{number}"));
            assert_eq!(book.token("guess", address, s(0)), Err(Denied::Wrong));
        }
        assert!(book.token(RIGHT, at("2001:db8::ffff"), s(0)).is_err());
        assert!(book.token(RIGHT, at("2001:db8:0:1::1"), s(0)).is_ok());
    }

    #[test]
    fn tokens_have_their_scopes_and_parts_of_them_none() {
        let mut book = book();
        let here = at("127.0.0.1");
        assert_eq!(book.token("only-to-look-at", here, s(0)), Ok(Scope::View));
        for almost in [
            "",
            "0123456789abcde",
            "0123456789abcdef ",
            "0123456789ABCDEF",
        ] {
            assert_eq!(book.token(almost, here, s(0)), Err(Denied::Wrong));
        }
        assert!(Scope::View < Scope::Launch && Scope::Launch < Scope::Admin);
    }

    #[test]
    fn a_code_opens_once_and_for_ten_minutes() {
        let mut book = book();
        book.add_code("code".to_owned(), s(0));
        book.add_code("later".to_owned(), s(0));
        assert_eq!(book.code("code", s(599)), Some(Scope::Admin));
        assert_eq!(book.code("code", s(599)), None);
        assert_eq!(book.code("later", s(600)), None);
        assert_eq!(book.code("unknown", s(0)), None);
    }

    #[test]
    fn sessions_end_after_twelve_hours_at_logout_and_when_there_are_too_many() {
        let mut book = book();
        book.open("a".to_owned(), Scope::Launch, s(0));
        assert_eq!(book.session("a", s(12 * 3600 - 1)), Some(Scope::Launch));
        assert_eq!(book.session("a", s(12 * 3600)), None);
        assert_eq!(book.session("never-made", s(0)), None);
        book.close("a");
        assert_eq!(book.session("a", s(1)), None);
        for number in 0..=SESSIONS {
            book.open(number.to_string(), Scope::View, s(number as u64));
        }
        assert_eq!(book.sessions.len(), SESSIONS);
        assert_eq!(book.session("0", s(1001)), None);
        assert_eq!(book.session("1", s(1001)), Some(Scope::View));
    }
}
