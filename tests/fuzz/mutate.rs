//! Mutations of kept inputs: the same in every run, because the seed is the name and the round.

/// Words that readers look for.
const WORDS: [&[u8]; 24] = [
    b"\n\n",
    b"\xe2\x80\x94 ",
    b"0",
    b"00",
    b"-1",
    b"1.0",
    b"1e400",
    b"9007199254740993",
    b"null",
    b"{}",
    b"[[[[[[[[",
    b"\"\"",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"=",
    b"+",
    b"../",
    b" ",
    b"\t",
    b"\r\n",
    b",",
    b":",
];

/// Numbers that look random and are not (SplitMix64).
pub struct Seeded(u64);

impl Seeded {
    pub fn new(name: &str, round: u64) -> Self {
        let hashed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hashed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

/// One of these inputs after a few changes.
pub fn mutated(seeded: &mut Seeded, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[seeded.below(inputs.len())].clone();
    for _ in 0..1 + seeded.below(4) {
        let at = seeded.below(bytes.len() + 1);
        let end = (at + 1 + seeded.below(16)).min(bytes.len());
        match seeded.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << seeded.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(seeded.below(256)).unwrap(),
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            4 => {
                let other = &inputs[seeded.below(inputs.len())];
                let from = seeded.below(other.len() + 1);
                let to = (from + seeded.below(64)).min(other.len());
                let part = other[from..to].to_vec();
                drop(bytes.splice(at..at, part));
            }
            5 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, WORDS[seeded.below(WORDS.len())].iter().copied())),
        }
    }
    bytes
}
