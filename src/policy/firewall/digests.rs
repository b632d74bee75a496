//! Checksums of numbers of persons and of addresses of money.

use crate::domain::digest::Digest;

/// The sum of digits times weights.
fn weighed(digits: &[u8], weights: impl IntoIterator<Item = u32>) -> u32 {
    digits.iter().zip(weights).map(|(digit, weight)| u32::from(*digit) * weight).sum()
}

fn differ(digits: &[u8]) -> bool {
    digits.iter().any(|digit| Some(digit) != digits.first())
}

fn at(digits: &[u8], place: usize) -> u32 {
    digits.get(place).map_or(0, |digit| u32::from(*digit))
}

/// Number of the health service of England: eleven minus the remainder of ten weighed digits.
pub(super) fn is_nhs(digits: &[u8]) -> bool {
    let check = (11 - weighed(digits, (2..=10).rev()) % 11) % 11;
    check != 10 && check == at(digits, 9) && differ(digits)
}

/// Number of the Netherlands: the test of eleven, the last digit subtracted.
pub(super) fn is_bsn(digits: &[u8]) -> bool {
    let sum = weighed(digits, (2..=9).rev());
    let last = at(digits, 8);
    sum >= last && (sum - last).is_multiple_of(11) && differ(digits)
}

/// Number of a person in Brazil.
pub(super) fn is_cpf(digits: &[u8]) -> bool {
    let check = |count: u32| {
        let rest = weighed(digits, (2..=count + 1).rev()) * 10 % 11;
        if rest == 10 { 0 } else { rest }
    };
    let first = digits.get(..9).is_some() && check(9) == at(digits, 9);
    first && check(10) == at(digits, 10) && differ(digits)
}

/// Number of a company in Brazil.
pub(super) fn is_cnpj(digits: &[u8]) -> bool {
    let check = |weights: &[u32]| {
        let rest = weighed(digits, weights.iter().copied()) % 11;
        if rest < 2 { 0 } else { 11 - rest }
    };
    check(&[5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]) == at(digits, 12)
        && check(&[6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]) == at(digits, 13)
        && differ(digits)
}

/// Number of the social security of France: 97 minus the remainder.
pub(super) fn is_nir(digits: &[u8]) -> bool {
    let number = digits.iter().take(13).fold(0_u64, |n, digit| n * 10 + u64::from(*digit));
    let key = u64::from(at(digits, 13) * 10 + at(digits, 14));
    let month = at(digits, 3) * 10 + at(digits, 4);
    matches!(at(digits, 0), 1..=4 | 7 | 8)
        && (matches!(month, 1..=12 | 20..=42) || month >= 50)
        && 97 - number % 97 == key
}

/// Number of a person in Poland, which begins with a date.
pub(super) fn is_pesel(digits: &[u8]) -> bool {
    let sum = weighed(digits, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3]);
    let month = (at(digits, 2) * 10 + at(digits, 3)) % 20;
    let day = at(digits, 4) * 10 + at(digits, 5);
    (10 - sum % 10) % 10 == at(digits, 10) && (1..=12).contains(&month) && (1..=31).contains(&day)
}

/// How digits follow each other in a dihedral group of ten: the checksum of Verhoeff.
fn verhoeff(a: u8, b: u8) -> u8 {
    match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => (a + b - 5) % 5 + 5,
        (false, true) => (a + 5 - b) % 5 + 5,
        (false, false) => (a + 5 - b) % 5,
    }
}

/// Number of a person in India.
pub(super) fn is_aadhaar(digits: &[u8]) -> bool {
    const SHIFT: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let shifted = |digit: u8, times: usize| {
        (0..times % 8).fold(digit, |d, _| SHIFT.get(usize::from(d)).copied().unwrap_or(d))
    };
    let check = digits.iter().rev().enumerate();
    let sum = check.fold(0_u8, |sum, (place, digit)| verhoeff(sum, shifted(*digit, place)));
    sum == 0 && at(digits, 0) >= 2 && differ(digits)
}

/// Tax code of a person in Italy.
pub(super) fn is_fiscal_code(code: &[u8]) -> bool {
    const ODD: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    let value = |byte: u8| match byte.to_ascii_uppercase() {
        digit @ b'0'..=b'9' => usize::from(digit - b'0'),
        letter => usize::from(letter.saturating_sub(b'A')),
    };
    let Some((last, front)) = code.split_last() else { return false };
    let sum: u32 = front
        .iter()
        .enumerate()
        .map(|(place, byte)| {
            let value = value(*byte);
            // The first place is an odd one.
            if place % 2 == 0 {
                ODD.get(value).copied().unwrap_or_default()
            } else {
                u32::try_from(value).unwrap_or_default()
            }
        })
        .sum();
    let month = b"ABCDEHLMPRST".contains(&code.get(8).map_or(0, u8::to_ascii_uppercase));
    month && usize::try_from(sum % 26).is_ok_and(|sum| sum == value(*last))
}

/// Whether letters of base58 carry their own checksum, and are an address of Bitcoin.
pub(super) fn is_base58_checked(letters: &[u8]) -> bool {
    const LETTERS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut bytes = [0_u8; 25];
    for letter in letters {
        let Some(digit) = LETTERS.iter().position(|known| known == letter) else { return false };
        let mut carry = u32::try_from(digit).unwrap_or_default();
        for byte in bytes.iter_mut().rev() {
            carry += u32::from(*byte) * 58;
            let [_, _, _, low] = carry.to_be_bytes();
            *byte = low;
            carry >>= 8;
        }
        if carry != 0 {
            return false;
        }
    }
    let (body, sum) = bytes.split_at(21);
    let once = Digest::of(&[body]);
    let twice = Digest::of(&[once.as_bytes()]);
    matches!(body.first(), Some(0 | 5)) && twice.as_bytes().starts_with(sum)
}

/// Whether an address in bech32 or bech32m carries its own checksum.
pub(super) fn bech32_checks(letters: &[u8]) -> bool {
    const LETTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const SUMS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let Some((_, data)) = letters.split_at_checked(3) else { return false };
    let values = data
        .iter()
        .map(|byte| LETTERS.iter().position(|known| *known == byte.to_ascii_lowercase()));
    let Some(values) = values.collect::<Option<Vec<usize>>>() else { return false };
    // The part before the separator: `bc`.
    let front = [3_usize, 3, 0, 2, 3];
    let sum = front.into_iter().chain(values).fold(1_u32, |sum, value| {
        let top = sum >> 25;
        let mixed = ((sum & 0x01ff_ffff) << 5) ^ u32::try_from(value).unwrap_or_default();
        let bits = SUMS.iter().enumerate().filter(|(bit, _)| (top >> bit) & 1 == 1);
        bits.fold(mixed, |mixed, (_, sum)| mixed ^ sum)
    });
    matches!(sum, 1 | 0x2bc8_30a3)
}

/// Whether the case of forty hexadecimal digits is their checksum (EIP-55).
pub(super) fn is_eip55(digits: &[u8]) -> bool {
    let hash = keccak256(&digits.to_ascii_lowercase());
    digits.iter().enumerate().all(|(place, digit)| {
        let byte = hash.get(place / 2).copied().unwrap_or_default();
        let nibble = if place % 2 == 0 { byte >> 4 } else { byte & 15 };
        !digit.is_ascii_alphabetic() || digit.is_ascii_uppercase() == (nibble >= 8)
    })
}

/// Keccak-256 as Ethereum uses it, of what fits into one block.
fn keccak256(message: &[u8]) -> [u8; 32] {
    const RATE: usize = 136;
    let mut block = [0_u8; RATE];
    block.iter_mut().zip(message).for_each(|(to, from)| *to = *from);
    if let Some(byte) = block.get_mut(message.len().min(RATE - 1)) {
        *byte ^= 1;
    }
    if let Some(last) = block.last_mut() {
        *last ^= 0x80;
    }
    let mut state = [0_u64; 25];
    let (words, _) = block.as_chunks::<8>();
    state.iter_mut().zip(words).for_each(|(to, from)| *to = u64::from_le_bytes(*from));
    permute(&mut state);
    let mut out = [0_u8; 32];
    let bytes = state.iter().flat_map(|word| word.to_le_bytes());
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    out
}

/// The permutation of Keccak, 24 rounds.
fn permute(state: &mut [u64; 25]) {
    const TURNS: [u32; 24] =
        [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44];
    const LANES: [usize; 24] =
        [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1];
    let lane = |state: &[u64; 25], at: usize| state.get(at % 25).copied().unwrap_or_default();
    let mut register = 1_u8;
    for _ in 0..24 {
        let column = |x: usize| (0..5).fold(0, |sum, y| sum ^ lane(state, x % 5 + 5 * y));
        let columns: [u64; 5] = std::array::from_fn(column);
        let of = |x: usize| columns.get(x % 5).copied().unwrap_or_default();
        for (at, word) in state.iter_mut().enumerate() {
            *word ^= of(at % 5 + 4) ^ of(at % 5 + 1).rotate_left(1);
        }
        let mut moved = lane(state, 1);
        for (to, turn) in LANES.iter().zip(TURNS) {
            let next = lane(state, *to);
            if let Some(word) = state.get_mut(*to) {
                *word = moved.rotate_left(turn);
            }
            moved = next;
        }
        let before = *state;
        for (at, word) in state.iter_mut().enumerate() {
            let row = at - at % 5;
            *word ^= !lane(&before, row + (at + 1) % 5) & lane(&before, row + (at + 2) % 5);
        }
        for step in 0..7_u32 {
            let carries = register & 0x80 != 0;
            if register & 1 == 1
                && let Some(first) = state.first_mut()
            {
                *first ^= 1_u64 << ((1_u64 << step) - 1);
            }
            register = (register << 1) ^ if carries { 0x71 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0').collect()
    }

    #[test]
    fn published_examples_pass_and_their_neighbours_do_not() {
        type Checksum = fn(&[u8]) -> bool;
        let checks: [(Checksum, &str, &str); 6] = [
            (is_nhs, "943 476 5919", "943 476 5918"),
            (is_bsn, "111222333", "111222334"),
            (is_cpf, "529.982.247-25", "529.982.247-26"),
            (is_cnpj, "11.222.333/0001-81", "11.222.333/0001-82"),
            (is_pesel, "44051401359", "44051401358"),
            (is_aadhaar, "2345 6789 0124", "2345 6789 0123"),
        ];
        for (check, good, bad) in checks {
            assert!(check(&digits(good)), "{good}");
            assert!(!check(&digits(bad)), "{bad}");
        }
        assert!(is_nir(&digits("255081416802538")) && !is_nir(&digits("255081416802539")));
        assert!(is_fiscal_code(b"RSSMRA85T10A562S") && !is_fiscal_code(b"RSSMRA85T10A562T"));
    }

    #[test]
    fn addresses_of_money_carry_their_checksum() {
        assert!(is_base58_checked(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"));
        assert!(!is_base58_checked(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"));
        assert!(bech32_checks(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"));
        assert!(!bech32_checks(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"));
        assert!(is_eip55(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"));
        assert!(!is_eip55(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"));
    }
}
