//! A block of postings (which texts have a word, how often, and how long they are) as bytes.
//!
//! Entries are in row order; each is three variable-length numbers: the distance to the row before,
//! the frequency of the word in the text, and the length of the text in words.

/// One text that has the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    /// Row of the memory.
    pub(crate) row: i64,
    /// How often the word is in its text.
    pub(crate) frequency: u32,
    /// Words in its text.
    pub(crate) length: u32,
}

/// Postings in ascending row order to bytes; `base` is at most the first row.
pub(crate) fn encode(base: i64, postings: &[Posting]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(postings.len() * 4);
    let mut before = base;
    for posting in postings {
        push_varint(&mut bytes, (posting.row - before) as u64);
        push_varint(&mut bytes, u64::from(posting.frequency));
        push_varint(&mut bytes, u64::from(posting.length));
        before = posting.row;
    }
    bytes
}

/// Bytes that `posting` takes after a posting of row `before`.
pub(crate) fn size(before: i64, posting: Posting) -> usize {
    let varint = |value: u64| (64 - (value | 1).leading_zeros() as usize).div_ceil(7);
    varint((posting.row - before) as u64) + varint(posting.frequency.into()) + varint(posting.length.into())
}

/// Calls `visit` for each posting of a block; `false` if the bytes do not end where a posting ends.
#[inline]
pub(crate) fn decode(base: i64, mut bytes: &[u8], visit: &mut impl FnMut(Posting)) -> bool {
    let mut row = base;
    while !bytes.is_empty() {
        let numbers = match bytes {
            // Most numbers have one byte.
            [step, frequency, length, rest @ ..] if (step | frequency | length) < 0x80 => {
                let numbers = [step, frequency, length].map(|byte| Some(u64::from(*byte)));
                bytes = rest;
                numbers
            }
            _ => std::array::from_fn(|_| take_varint(&mut bytes)),
        };
        let [Some(step), Some(frequency), Some(length)] = numbers else { return false };
        row = row.wrapping_add(step as i64);
        visit(Posting { row, frequency: frequency as u32, length: length as u32 });
    }
    true
}

/// Appends `value` seven bits at a time, lowest first; the top bit says that more follow.
pub(crate) fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes one number off the front; `None` if the bytes end within it or it has more than 64 bits.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_come_back() {
        let postings: Vec<Posting> =
            (0..500).map(|i| Posting { row: 7 + i * i, frequency: 1 + i as u32 % 3, length: i as u32 * 999 }).collect();
        let bytes = encode(7, &postings);
        let mut back = Vec::new();
        assert!(decode(7, &bytes, &mut |posting| back.push(posting)));
        assert_eq!(back, postings);
        let sizes: usize = postings.windows(2).map(|pair| size(pair[0].row, pair[1])).sum();
        assert_eq!(sizes + size(7, postings[0]), bytes.len());
        assert!(!decode(7, &bytes[..bytes.len() - 1], &mut |_| ()));
    }

    #[test]
    fn varints_of_every_size() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            assert_eq!(take_varint(&mut bytes.as_slice()), Some(value));
        }
        assert_eq!(take_varint(&mut [0xFF; 11].as_slice()), None);
    }
}
