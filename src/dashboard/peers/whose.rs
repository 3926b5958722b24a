//! Whose address a target is, and which of a peer's two it is.

use std::net::IpAddr;

use crate::measure::plan::Plan;
use crate::store::Peer;

/// One address of a registered peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known<'a> {
    /// The peer.
    pub peer: &'a Peer,
    /// Whether it is the address from outside although the peer has one inside the network.
    pub round_about: bool,
    /// `internal` or `external`.
    pub which: &'static str,
}

/// The peer that has this address.
pub fn known<'a>(peers: &'a [Peer], host: &str) -> Option<Known<'a>> {
    let canonical = |text: &str| {
        let address = text.trim_matches(['[', ']']).parse::<IpAddr>().ok()?;
        Some(address.to_canonical())
    };
    let wanted = canonical(host)?;
    let is = |address: &Option<String>| address.as_deref().and_then(canonical) == Some(wanted);
    peers.iter().find_map(|peer| {
        if is(&peer.internal_address) {
            return Some(Known {
                peer,
                round_about: false,
                which: "internal",
            });
        }
        is(&peer.external_address).then_some(Known {
            peer,
            round_about: peer.internal_address.is_some(),
            which: "external",
        })
    })
}

/// Whose address the plan goes to, in words, with a hint where that is the long way round.
pub fn whose(peers: &[Peer], plan: &Plan) -> Option<String> {
    let host = plan.endpoints().into_iter().next()?.host;
    let known = known(peers, &host)?;
    let name = &known.peer.name;
    Some(match &known.peer.internal_address {
        Some(internal) if known.round_about => {
            format!("{name}, external address; its internal one is {internal}")
        }
        _ => format!("{name}, {} address", known.which),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_external_address_is_told_from_its_internal_one() {
        let peer = Peer {
            name: "us-b".to_owned(),
            internal_address: Some("10.128.0.10".to_owned()),
            external_address: Some("203.0.113.7".to_owned()),
            ..Peer::default()
        };
        let peers = [peer];
        let of = |host: &str| known(&peers, host).map(|known| (known.which, known.round_about));
        assert_eq!(of("10.128.0.10"), Some(("internal", false)));
        assert_eq!(of("::ffff:203.0.113.7"), Some(("external", true)));
        assert_eq!(of("127.0.0.1"), None);
        assert_eq!(of("us-b"), None);
    }
}
