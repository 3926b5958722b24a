//! The narrow edge between the queue and what measures, so that the queue can be tested without a network.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::measure::fold::{End, Measured};
use crate::measure::plan::{Endpoint, FieldError, Plan};
use crate::measure::run::Environment;
use crate::measure::selftest::SelfTest;
use crate::selftest::Step;
use futures_util::future::BoxFuture;

/// Where one endpoint of a plan really is.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// The one address that every connection goes to.
    pub address: SocketAddr,
    /// All addresses of its host.
    pub all: Vec<SocketAddr>,
    /// How long the look-up took; `None` for an address.
    pub lookup: Option<Duration>,
    /// Documented egress cap of the peer at this address in bit/s, with its source.
    pub egress_cap: Option<(f64, String)>,
}

/// The addresses of a host in order of preference, and how long finding them took; `None` for an address.
pub type Found = (Vec<SocketAddr>, Option<Duration>);

/// Looks names up, describes the machine, and sends.
pub trait Instrument: Send + Sync {
    /// All addresses of a host, or a sentence that says why there is none.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Found, String>>;

    /// Whether this process may do what the plan asks for at all, or the field and the setting to change.
    ///
    /// # Errors
    /// The system does not permit it.
    fn permits(&self, _plan: &Plan) -> Result<(), FieldError> {
        Ok(())
    }

    /// The machine and its settings now, on the way to this address.
    fn environment(&self, towards: Option<IpAddr>) -> Environment;

    /// Runs the plan to its end and hands batches to `sink` about four times a second; blocks.
    /// One pinned address for each of the plan's endpoints, in their order.
    ///
    /// # Errors
    /// A sentence that says why nothing could be sent at all.
    fn run(
        &self,
        plan: &Plan,
        targets: Vec<Pinned>,
        stop: &StopHandle,
        sink: &mut dyn FnMut(Measured),
    ) -> Result<End, String>;

    /// Holds itself against truths of its own making, and tells how far it is; blocks.
    ///
    /// # Errors
    /// A sentence that says why there is no result: it was stopped, or this instrument has nothing to be tested.
    fn self_test(
        &self,
        _quick: bool,
        _stop: &StopHandle,
        _tell: &mut dyn FnMut(Step),
    ) -> Result<SelfTest, String> {
        Err("This instrument has no generator that could be tested.".to_owned())
    }
}

/// The addresses of an endpoint, of the kind that the plan insists on.
///
/// # Errors
/// A sentence that says why there is none.
pub async fn look_up(
    instrument: &dyn Instrument,
    plan: &Plan,
    endpoint: &Endpoint,
) -> Result<Found, String> {
    let host = &endpoint.host;
    let (mut addresses, took) = instrument.resolve(host, endpoint.port.unwrap_or(0)).await?;
    if let Some(version) = plan.ip_version() {
        addresses.retain(|address| address.is_ipv6() == (version == 6));
        if addresses.is_empty() {
            return Err(format!(
                "{host} has no IPv{version} address: set ip_version to {} or leave it out.",
                10 - version
            ));
        }
    }
    Ok((addresses, took))
}

/// What is called when a run is asked to stop.
type Wake = Box<dyn Fn() + Send>;

/// Asks a run to stop, from any thread, also before it has begun.
#[derive(Default)]
pub struct StopHandle {
    asked: AtomicBool,
    wake: Mutex<Option<Wake>>,
    end_sending: Mutex<Option<Wake>>,
}

impl StopHandle {
    /// Asks for the stop; wakes what was registered.
    pub fn stop(&self) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.store(true, Ordering::SeqCst);
        if let Some(wake) = wake.as_ref() {
            wake();
        }
    }

    /// Asks a run that sends to begin nothing further and to wait for what is under way.
    pub fn end_sending(&self) {
        let wake = self.end_sending.lock();
        if let Some(wake) = wake.unwrap_or_else(PoisonError::into_inner).as_ref() {
            wake();
        }
    }

    /// Registers what to call when the sending is to end.
    pub fn on_end_sending(&self, wake: impl Fn() + Send + 'static) {
        let slot = self.end_sending.lock();
        *slot.unwrap_or_else(PoisonError::into_inner) = Some(Box::new(wake));
    }

    /// Whether it was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Registers what to call when the stop is asked for; calls it at once when it was.
    pub fn on_stop(&self, wake: impl Fn() + Send + 'static) {
        let mut slot = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_asked() {
            wake();
        }
        *slot = Some(Box::new(wake));
    }
}
