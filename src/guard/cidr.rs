//! A block of addresses, written `10.0.0.0/8` or `fd00::/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of IP addresses; a bare address is the block of that one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The block of one address.
    pub fn host(address: IpAddr) -> Self {
        let network = address.to_canonical();
        let prefix = if network.is_ipv4() { 32 } else { 128 };
        Self { network, prefix }
    }

    /// Whether the address, or the IPv4 address that it maps, lies in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("'{text}' is not an address block such as 10.0.0.0/8 or 192.0.2.7");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let longest = if network.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => prefix
                .parse::<u8>()
                .ok()
                .filter(|prefix| *prefix <= longest)
                .ok_or_else(wrong)?,
            Some(_) => return Err(wrong()),
            None => longest,
        };
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_addresses_and_no_others() {
        let check = |block: &str, address: &str, expected: bool| {
            let block: Cidr = block.parse().unwrap();
            assert_eq!(
                block.contains(address.parse().unwrap()),
                expected,
                "{block} {address}"
            );
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("0.0.0.0/0", "203.0.113.9", true);
        check("0.0.0.0/0", "::1", false);
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7/31", "192.0.2.6", true);
        check("192.0.2.7", "192.0.2.8", false);
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
        check("fd00::/8", "fd12::1", true);
        check("fd00::/8", "fe80::1", false);
        check("::/0", "2001:db8::1", true);
    }

    #[test]
    fn what_is_no_block_is_refused_with_an_example() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "ten",
            "10.0.0.0/8/8",
        ] {
            let message = text.parse::<Cidr>().unwrap_err();
            assert!(message.contains("10.0.0.0/8"), "{text}: {message}");
        }
    }
}
