//! Results for short texts, kept: the same chains, currencies, wallets and amounts come again and again, and a hash of
//! each is a large part of a quote.

const SHELVES_BITS: u32 = 6;
const SHELVES: usize = 1 << SHELVES_BITS;
/// Texts on a shelf. The one that came first leaves first.
const PLACES: usize = 4;

#[derive(Clone, Copy)]
struct Known<V, const MAX_LEN: usize> {
    text: [u8; MAX_LEN],
    length: usize,
    value: V,
}

/// Values of the latest texts, none longer than `MAX_LEN`.
pub(crate) struct Memo<V, const MAX_LEN: usize>(Vec<[Option<Known<V, MAX_LEN>>; PLACES]>);

impl<V: Copy, const MAX_LEN: usize> Memo<V, MAX_LEN> {
    pub(crate) fn new() -> Self {
        Self(vec![[None; PLACES]; SHELVES])
    }

    /// The value of a text. A longer one than is kept is computed each time.
    pub(crate) fn value_of(&mut self, text: &[u8], compute: impl FnOnce() -> V) -> V {
        if text.len() > MAX_LEN {
            return compute();
        }
        let shelf = &mut self.0[shelf_of(text)];
        if let Some(it) = shelf.iter().flatten().find(|it| it.text.get(..it.length) == Some(text)) {
            return it.value;
        }
        let (mut kept, value) = ([0; MAX_LEN], compute());
        kept[..text.len()].copy_from_slice(text);
        shelf.rotate_right(1);
        shelf[0] = Some(Known { text: kept, length: text.len(), value });
        value
    }
}

/// Eight bytes at a time.
fn shelf_of(text: &[u8]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = text.as_chunks::<8>();
    let mix = |mixed: u64, word: u64| (mixed ^ word).wrapping_mul(ODD).rotate_left(29);
    let mixed = words.iter().fold(text.len() as u64, |mixed, word| mix(mixed, u64::from_le_bytes(*word)));
    let mixed = rest.iter().fold(mixed, |mixed, byte| mix(mixed, u64::from(*byte)));
    // The highest bits of a product depend on all others.
    (mixed.wrapping_mul(ODD) >> (u64::BITS - SHELVES_BITS)) as usize
}
