//! The addresses at which a tool may be reached: the public Internet, and ranges that a binding
//! opens explicitly.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges that are not the public Internet, by the IANA special-purpose registries, and one
/// cloud metadata service that sits in a public range (Azure's 168.63.129.16).
const SPECIAL_V4: &[([u8; 4], u8)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([192, 175, 48, 0], 24),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// What inside 2000::/3 is not the public Internet: protocol assignments and Teredo, documentation,
/// 6to4, AS112. Everything outside 2000::/3 is refused without a list.
const SPECIAL_V6: &[([u16; 3], u8)] = &[
    ([0x2001, 0, 0], 23),
    ([0x2001, 0x0db8, 0], 32),
    ([0x2002, 0, 0], 16),
    ([0x2620, 0x004f, 0x8000], 48),
    ([0x3fff, 0, 0], 20),
];

/// Whether this is an address of the public Internet.
///
/// Every form that embeds an IPv4 address in an IPv6 one is refused outright: unpacking them right,
/// all of them and for ever, is not something to depend on.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !SPECIAL_V4.iter().any(|(net, bits)| Cidr::v4(*net, *bits).contains(v4.into()))
        }
        IpAddr::V6(v6) => {
            let [first, _, _, _, fifth, sixth, ..] = v6.segments();
            let isatap = sixth == 0x5efe && matches!(fifth, 0 | 0x0200);
            first & 0xe000 == 0x2000
                && !isatap
                && !SPECIAL_V6.iter().any(|(net, bits)| Cidr::v6(*net, *bits).contains(v6.into()))
        }
    }
}

/// Why a text is not an address range.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Not `address/bits`.
    #[error("`{0}` is not an address range such as `10.1.0.0/16`")]
    Form(String),
    /// An address inside the range instead of its first one.
    #[error("`{0}` has bits set beyond its prefix")]
    Bits(String),
}

/// An address range such as `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

impl Cidr {
    const fn v4(network: [u8; 4], bits: u8) -> Self {
        let [a, b, c, d] = network;
        Self { network: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6(network: [u16; 3], bits: u8) -> Self {
        let [a, b, c] = network;
        Self { network: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), bits }
    }

    /// Reads `address/bits`; an address alone is itself. Bits below the prefix must be zero.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let malformed = || Error::Form(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let network: IpAddr = address.parse().map_err(|_| malformed())?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |b| b.parse::<u8>().map_err(|_| malformed()))?;
        if bits > width {
            return Err(malformed());
        }
        let range = Self { network, bits };
        if range.masked(network) != range.masked_whole(network) {
            return Err(Error::Bits(text.to_owned()));
        }
        Ok(range)
    }

    /// Whether the address is in the range. An IPv4-mapped IPv6 address is in no IPv4 range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4()
            && self.masked(address) == self.masked(self.network)
    }

    fn masked(&self, address: IpAddr) -> u128 {
        let (value, width) = whole(address);
        let drop = u32::from(width.saturating_sub(self.bits));
        value.checked_shr(drop).unwrap_or(0).checked_shl(drop).unwrap_or(0)
    }

    fn masked_whole(&self, address: IpAddr) -> u128 {
        whole(address).0
    }
}

fn whole(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn every_special_range_is_refused_at_both_ends() {
        let special = [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "192.175.48.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:a9fe:a9fe",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "2620:4f:8000::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:7f00:1",
            "2606:4700::200:5efe:7f00:1",
            "4000::1",
            "1fff::1",
        ];
        for address in special {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn addresses_beside_the_special_ranges_are_public() {
        let open = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "2620:4f:7fff::1",
            "3ffe::1",
            "3fff:1000::1",
        ];
        for address in open {
            assert!(public(address), "{address}");
        }
    }

    /// The same table, written independently.
    fn independent(v4: Ipv4Addr) -> bool {
        let [a, b, c, d] = v4.octets();
        let special = match a {
            0 | 10 | 127 | 224..=255 => true,
            100 => (64..128).contains(&b),
            168 => (b, c, d) == (63, 129, 16),
            169 => b == 254,
            172 => b >> 4 == 1,
            192 => {
                b == 168
                    || matches!((b, c), (0, 0 | 2) | (31, 196) | (52, 193) | (88, 99) | (175, 48))
            }
            198 => b == 18 || b == 19 || (b, c) == (51, 100),
            203 => (b, c) == (0, 113),
            _ => false,
        };
        !special
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn any_v4_address_is_judged_as_the_independent_table_says(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            prop_assert_eq!(is_public(v4.into()), independent(v4));
        }

        #[test]
        fn v4_addresses_near_the_edges_are_judged_alike(net in 0..SPECIAL_V4.len(), off in -3i64..3, end in any::<bool>()) {
            let (base, bits) = SPECIAL_V4[net];
            let start = i64::from(u32::from(Ipv4Addr::from(base)));
            let size = 1_i64 << (32 - bits);
            let at = start + if end { size } else { 0 } + off;
            if let Ok(bits) = u32::try_from(at) {
                let v4 = Ipv4Addr::from(bits);
                prop_assert_eq!(is_public(v4.into()), independent(v4), "{}", v4);
            }
        }

        #[test]
        fn no_v6_form_of_a_v4_address_is_public(v4 in any::<[u8; 4]>(), site in any::<u16>()) {
            let [a, b, c, d] = v4.map(u16::from);
            let (hi, lo) = (a << 8 | b, c << 8 | d);
            let forms = [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, hi, lo),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, hi, lo),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, hi, lo),
                Ipv6Addr::new(0x64, 0xff9b, 1, site, 0, 0, hi, lo),
                Ipv6Addr::new(0x2002, hi, lo, site, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, hi, lo, site, 0, !hi, !lo),
                Ipv6Addr::new(0x2a00, 1, 2, site, 0, 0x5efe, hi, lo),
                Ipv6Addr::new(0x2a00, 1, 2, site, 0x200, 0x5efe, hi, lo),
            ];
            for form in forms {
                prop_assert!(!is_public(form.into()), "{}", form);
            }
        }

        #[test]
        fn nothing_outside_2000_slash_3_is_public(bits in any::<u128>()) {
            let v6 = Ipv6Addr::from(bits);
            if bits >> 125 != 1 {
                prop_assert!(!is_public(v6.into()));
            }
        }
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert!(Cidr::parse("127.0.0.1/32").unwrap().contains("127.0.0.1".parse().unwrap()));
        assert!(!Cidr::parse("127.0.0.1").unwrap().contains("127.0.0.2".parse().unwrap()));
        assert!(Cidr::parse("fd00::/8").unwrap().contains("fd12::1".parse().unwrap()));
        assert!(!Cidr::parse("0.0.0.0/0").unwrap().contains("::ffff:1.2.3.4".parse().unwrap()));
        assert!(Cidr::parse("::/0").unwrap().contains("::1".parse().unwrap()));
        for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0/8", "x", "::1/129", "10.0.0.0/", ""] {
            assert!(Cidr::parse(text).is_err(), "{text}");
        }
    }
}
