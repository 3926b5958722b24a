//! Where tests may be sent: loopback, registered peers, and what `--allow` opens; some addresses never.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::cidr::Cidr;
use crate::net::sys;

/// Where tests may be sent.
#[derive(Clone, Debug, Default)]
pub struct TargetRule {
    allow: Vec<Cidr>,
    own_dashboards: Vec<SocketAddr>,
}

/// Why a target is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence for the person who asked.
    pub sentence: String,
    /// Whether registering the target as a peer would open it.
    pub registrable: bool,
}

impl TargetRule {
    /// A rule with what `--allow` opens and the addresses of the dashboard, which is never a target.
    pub const fn new(allow: Vec<Cidr>, own_dashboards: Vec<SocketAddr>) -> Self {
        Self {
            allow,
            own_dashboards,
        }
    }

    /// Checks how a host is written, before anything is resolved.
    ///
    /// Resolvers accept `0x7f.1`, `2852039166` and the like as addresses; a name that looks like a number is therefore
    /// no name.
    ///
    /// # Errors
    /// Neither an address nor a host name (RFC 1123).
    pub fn check_host(&self, host: &str) -> Result<(), Refusal> {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(inside) = bare {
            return match without_zone(inside).parse::<Ipv6Addr>() {
                Ok(_) => Ok(()),
                Err(_) => Err(never(format!("'{}' is not an IPv6 address.", shown(host)))),
            };
        }
        if host.parse::<Ipv4Addr>().is_ok() || without_zone(host).parse::<Ipv6Addr>().is_ok() {
            return Ok(());
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let label_is_fine = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.is_empty() || name.len() > 253 || !name.split('.').all(label_is_fine) {
            return Err(never(format!(
                "'{}' is neither a host name nor an IP address.",
                shown(host)
            )));
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        let hexadecimal = last
            .strip_prefix("0x")
            .or_else(|| last.strip_prefix("0X"))
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(never(format!(
                "'{}' looks like a number: write an IP address in full, such as 192.0.2.7.",
                shown(host)
            )));
        }
        Ok(())
    }

    /// Checks an address that was resolved; `peers` are all addresses of all registered peers.
    ///
    /// # Errors
    /// An address to which no test goes, or none without being registered.
    pub fn check(&self, address: SocketAddr, peers: &[IpAddr]) -> Result<(), Refusal> {
        let ip = address.ip().to_canonical();
        let is_peer = peers.iter().any(|peer| peer.to_canonical() == ip);
        let zone = matches!(address, SocketAddr::V6(address) if address.scope_id() != 0);
        let peer_on_this_link =
            is_peer && zone && matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if !peer_on_this_link {
            Self::check_always(ip)?;
        }
        if self.is_own_dashboard(ip, address.port()) {
            return Err(never(format!(
                "{} is this dashboard itself, which is never a target.",
                SocketAddr::new(ip, address.port())
            )));
        }
        if ip.is_loopback() || is_peer || self.allow.iter().any(|block| block.contains(ip)) {
            return Ok(());
        }
        Err(Refusal {
            sentence: format!(
                "{ip} is neither a loopback address nor a registered peer: register it as a peer, or start with --allow {ip}."
            ),
            registrable: true,
        })
    }

    /// The part of the rule that no flag and no registration lifts.
    ///
    /// # Errors
    /// The address is reserved, or hides a reserved one.
    pub fn check_always(address: IpAddr) -> Result<(), Refusal> {
        let address = address.to_canonical();
        let refused = |what: &str| {
            Err(never(format!(
                "{address} is {what}: no test is ever sent there."
            )))
        };
        match address {
            IpAddr::V4(ip) => reserved_v4(ip).map_or(Ok(()), refused),
            IpAddr::V6(ip) => {
                if let Some(what) = reserved_v6(ip) {
                    return refused(what);
                }
                for hidden in hidden_v4(ip) {
                    if let Some(what) = reserved_v4(hidden) {
                        return refused(&format!("a form of {hidden}, {what}"));
                    }
                    if hidden.is_loopback() {
                        return refused(&format!("a form of {hidden}, a loopback address"));
                    }
                }
                Ok(())
            }
        }
    }

    /// A dashboard on the wildcard address is at every address of this machine.
    fn is_own_dashboard(&self, ip: IpAddr, port: u16) -> bool {
        self.own_dashboards.iter().any(|own| {
            let own_ip = own.ip().to_canonical();
            own.port() == port && (own_ip == ip || own_ip.is_unspecified() && is_here(ip))
        })
    }
}

fn never(sentence: String) -> Refusal {
    Refusal {
        sentence,
        registrable: false,
    }
}

/// Whether this machine has this address now.
fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback()
        || sys::interface_addresses().is_ok_and(|found| {
            found
                .iter()
                .any(|(_, address)| address.is_some_and(|own| own.to_canonical() == ip))
        })
}

/// A host as it can stand in a sentence.
fn shown(host: &str) -> String {
    host.chars()
        .filter(|character| !character.is_control())
        .take(80)
        .collect()
}

fn without_zone(text: &str) -> &str {
    text.split_once('%').map_or(text, |(address, _)| address)
}

fn reserved_v4(ip: Ipv4Addr) -> Option<&'static str> {
    match ip.octets() {
        [0, ..] => Some("an address of \"this network\""),
        [169, 254, ..] => Some("a link-local address, where clouds keep their metadata"),
        [224..=239, ..] => Some("a multicast address"),
        [255, 255, 255, 255] => Some("the broadcast address"),
        [240..=255, ..] => Some("a reserved address"),
        _ => None,
    }
}

fn reserved_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if ip.is_unspecified() {
        Some("the unspecified address")
    } else if ip.is_multicast() {
        Some("a multicast address")
    } else if ip.is_unicast_link_local() {
        Some("a link-local address")
    } else if ip.segments() == [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] {
        Some("a cloud's metadata address")
    } else {
        None
    }
}

/// The IPv4 addresses that an IPv6 address may be translated or tunnelled to.
#[expect(
    clippy::match_same_arms,
    reason = "one arm a form, each with its own source"
)]
fn hidden_v4(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = ip.to_bits();
    let at = |shift: u32| {
        let [.., a, b, c, d] = (bits >> shift).to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let octets = ip.octets();
    match ip.segments() {
        // IPv4-compatible (RFC 4291), but for `::` and `::1`.
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => vec![at(0)],
        // IPv4-translated (RFC 2765).
        [0, 0, 0, 0, 0xffff, 0, ..] => vec![at(0)],
        // NAT64, the well-known prefix (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![at(0)],
        // NAT64, local prefixes of 48, 56, 64 and 96 bits (RFC 8215, RFC 6052 section 2.2).
        [0x64, 0xff9b, 1, ..] => vec![
            at(0),
            Ipv4Addr::new(octets[6], octets[7], octets[9], octets[10]),
            Ipv4Addr::new(octets[7], octets[9], octets[10], octets[11]),
            Ipv4Addr::new(octets[9], octets[10], octets[11], octets[12]),
        ],
        // 6to4 (RFC 3056).
        [0x2002, ..] => vec![at(80)],
        // Teredo: its server, and its client with every bit turned (RFC 4380).
        [0x2001, 0, ..] => vec![at(64), Ipv4Addr::from_bits(!at(0).to_bits())],
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![at(0)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(allow: &str) -> TargetRule {
        TargetRule::new(
            allow
                .split(',')
                .filter(|block| !block.is_empty())
                .map(|block| block.parse().unwrap())
                .collect(),
            vec!["127.0.0.1:8080".parse().unwrap()],
        )
    }

    #[test]
    fn reserved_addresses_are_refused_in_every_spelling_whatever_is_allowed() {
        let open = rule("0.0.0.0/0,::/0");
        let spellings = [
            "169.254.169.254",
            "169.254.0.1",
            "169.254.255.255",
            "0.0.0.0",
            "0.1.2.3",
            "0.255.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "::0.0.0.2",
            "::169.254.169.254",
            "::a9fe:a9fe",
            "::224.0.0.1",
            "::255.255.255.255",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:a9fe:a9fe",
            "0:0:0:0:0:ffff:a9fe:a9fe",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.251",
            "::ffff:255.255.255.255",
            "::ffff:240.0.0.1",
            "::ffff:0:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::0.0.0.0",
            "64:ff9b::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::224.0.0.1",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "2002:a9fe:a9fe::",
            "2002:a9fe:a9fe::1",
            "2002:7f00:1::",
            "2002:7f00:0001::1",
            "2002:e000:1::",
            "2002:0:0::1",
            "2002:ffff:ffff::",
            "2001:0:a9fe:a9fe::",
            "2001:0:7f00:1::",
            "2001::5601:5601",
            "2001:0:cb00:7109:0:0:80ff:fffe",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "febf::1",
            "fe80::5efe:169.254.169.254",
            "fd00:ec2::254",
            "fd00:0ec2:0000:0000:0000:0000:0000:0254",
            "ff02::1",
            "ff05::1:3",
            "ff0e::1",
            "2001:db8::5efe:169.254.169.254",
            "2001:db8::200:5efe:127.0.0.1",
            "2001:db8::5efe:a9fe:a9fe",
        ];
        assert_eq!(spellings.len(), 60);
        for spelling in spellings {
            let ip: IpAddr = spelling.parse().unwrap();
            let refusal = open.check(SocketAddr::new(ip, 80), &[ip]).unwrap_err();
            assert!(!refusal.registrable, "{spelling}");
            assert!(
                refusal.sentence.contains("no test is ever sent"),
                "{refusal:?}"
            );
        }
    }

    #[test]
    fn loopback_peers_and_allowed_blocks_are_open_and_the_rest_can_be_registered() {
        let peer: IpAddr = "203.0.113.9".parse().unwrap();
        let check = |allow: &str, address: &str, expected: bool| {
            let result = rule(allow).check(address.parse().unwrap(), &[peer]);
            assert_eq!(result.is_ok(), expected, "{allow} {address}: {result:?}");
            if let Err(refusal) = result {
                assert!(refusal.registrable && refusal.sentence.contains("--allow"));
            }
        };
        check("", "127.0.0.1:8000", true);
        check("", "127.45.6.7:80", true);
        check("", "[::1]:8080", true);
        check("", "[::ffff:127.0.0.1]:8000", true);
        check("", "203.0.113.9:443", true);
        check("", "[::ffff:203.0.113.9]:443", true);
        check("", "203.0.113.10:443", false);
        check("", "10.0.0.1:80", false);
        check("10.0.0.0/8", "10.0.0.1:80", true);
        check("10.0.0.0/8", "[::ffff:10.0.0.1]:80", true);
        check("10.0.0.0/8", "192.168.0.1:80", false);
        check("", "[2001:db8::1]:80", false);
        check("2001:db8::/32", "[2001:db8::1]:80", true);
        check("", "[64:ff9b::8.8.8.8]:80", false);
    }

    #[test]
    fn the_own_dashboard_is_never_a_target() {
        let check = |own: &str, address: &str| {
            let rule = TargetRule::new(Vec::new(), vec![own.parse().unwrap()]);
            let refusal = rule.check(address.parse().unwrap(), &[]).unwrap_err();
            assert!(refusal.sentence.contains("dashboard"), "{refusal:?}");
            assert!(!refusal.registrable);
        };
        check("127.0.0.1:8080", "127.0.0.1:8080");
        check("127.0.0.1:8080", "[::ffff:127.0.0.1]:8080");
        check("[::]:8080", "127.0.0.1:8080");
        check("[::]:8080", "[::1]:8080");
        check("0.0.0.0:8080", "127.9.9.9:8080");
        // At every address of this machine, whatever `--allow` says.
        let rule = TargetRule::new(
            vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
            vec!["0.0.0.0:8080".parse().unwrap()],
        );
        for (_, address) in sys::interface_addresses().unwrap() {
            let Some(ip) = address else { continue };
            assert!(rule.check(SocketAddr::new(ip, 8080), &[]).is_err(), "{ip}");
        }
        assert!(rule.check("192.0.2.1:8080".parse().unwrap(), &[]).is_ok());
    }

    #[test]
    fn a_peer_on_the_link_is_open_with_its_zone_only() {
        let ip: Ipv6Addr = "fe80::1".parse().unwrap();
        let address = |zone| SocketAddr::V6(std::net::SocketAddrV6::new(ip, 80, 0, zone));
        let rule = rule("");
        assert!(rule.check(address(2), &[ip.into()]).is_ok());
        assert!(rule.check(address(0), &[ip.into()]).is_err());
        assert!(rule.check(address(2), &[]).is_err());
    }

    #[test]
    fn hosts_are_names_or_addresses_and_never_numbers() {
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = format!("{}example", "a.".repeat(124));
        let check = |host: &str, expected: bool| {
            assert_eq!(rule("").check_host(host).is_ok(), expected, "{host:?}");
        };
        for host in [
            "localhost",
            "web-1.internal.",
            "my_service",
            "xn--bcher-kva.example",
            "3com.example",
            "127.0.0.1",
            "[::1]",
            "::1",
            "fe80::1%eth0",
            "[fe80::1%2]",
            "1.2.3.4.example",
        ] {
            check(host, true);
        }
        for host in [
            "",
            ".",
            "..",
            "a..b",
            "0",
            "0x7f.1",
            "0x7f000001",
            "0XA9FEA9FE",
            "127.1",
            "127.0.1",
            "2852039166",
            "2130706433",
            "0177.0.0.1",
            "0127.0.0.1",
            "169.254.43518",
            "1.2.3.4.5",
            "a.0x1f",
            "a.1",
            "-a.example",
            "a-.example",
            "a b",
            "a@b",
            "a/b",
            "a\\b",
            "a#b",
            "a?b",
            "a\r\nb",
            "a%2eb",
            "bücher.example",
            "１２７.0.0.1",
            "127。0。0。1",
            "[::1",
            "::1]",
            "[localhost]",
            "[127.0.0.1]",
            "[::g]",
            &long_label,
            &long_name,
        ] {
            check(host, false);
        }
    }
}
