//! The network interfaces of this machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use serde::Serialize;

use super::sys;

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Largest packet that it sends whole; `None` where the system does not tell.
    pub mtu: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// All interfaces, by name; empty where the system does not tell.
pub fn interfaces() -> Vec<Interface> {
    let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for (name, address) in sys::interface_addresses().unwrap_or_default() {
        found.entry(name).or_default().extend(address);
    }
    found
        .into_iter()
        .map(|(name, addresses)| Interface {
            mtu: std::fs::read_to_string(format!("/sys/class/net/{name}/mtu"))
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            name,
            addresses,
        })
        .collect()
}

/// The interface that packets to this address leave by; no packet is sent to find out.
pub fn interface_towards(address: IpAddr) -> Option<Interface> {
    // The port does not matter.
    interface_to(SocketAddr::new(address, 9))
}

/// The same where the address may have a zone, as link-local ones must.
pub fn interface_to(address: SocketAddr) -> Option<Interface> {
    let local = source_towards(address)?;
    interfaces().into_iter().find(|interface| {
        interface.addresses.contains(&local)
            // All of 127.0.0.0/8 is the loopback interface's, though it lists one address.
            || local.is_loopback() && interface.addresses.iter().any(IpAddr::is_loopback)
    })
}

/// The address of this machine from which packets to this one leave; no packet is sent to find out.
pub fn source_towards(address: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if address.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        [0_u16; 8].into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Connecting a datagram socket only chooses the route.
    let mut address = address;
    if address.port() == 0 {
        address.set_port(9);
    }
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address_and_mtu() {
        let loopback = interface_towards([127, 0, 0, 9].into()).unwrap();
        assert!(loopback.addresses.contains(&IpAddr::from([127, 0, 0, 1])));
        assert!(loopback.mtu.unwrap() >= 1280);
        assert!(interfaces().contains(&loopback));
    }
}
