//! Cutting a long function into windows.

use super::LongPolicy;
use std::ops::Range;

/// The token ranges of the windows: at least one, in order, none longer than `size`.
///
/// Windows overlap by a quarter. The last one ends with the last token and is as long as the others, so it may
/// overlap its neighbour by more.
pub(super) fn ranges(tokens: usize, size: usize, long: LongPolicy) -> impl Iterator<Item = Range<usize>> {
    let size = size.max(1);
    let last_start = match long {
        LongPolicy::Window => tokens.saturating_sub(size),
        LongPolicy::Truncate => 0,
    };
    let stride = (size - size.div_ceil(4)).max(1);
    let windows = last_start.div_ceil(stride) + 1;
    (0..windows).map(move |index| {
        let start = (index * stride).min(last_start);
        start..tokens.min(start + size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows(tokens: usize, size: usize) -> Vec<Range<usize>> {
        ranges(tokens, size, LongPolicy::Window).collect()
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn cuts_by_hand() {
        assert_eq!(windows(0, 8), [0..0]);
        assert_eq!(windows(8, 8), [0..8]);
        assert_eq!(windows(9, 8), [0..8, 1..9]);
        assert_eq!(windows(14, 8), [0..8, 6..14]);
        assert_eq!(windows(15, 8), [0..8, 6..14, 7..15]);
        assert_eq!(windows(3, 1), [0..1, 1..2, 2..3]);
        assert_eq!(windows(4, 2), [0..2, 1..3, 2..4]);
        assert_eq!(ranges(15, 8, LongPolicy::Truncate).collect::<Vec<_>>(), [0..8]);
        assert_eq!(ranges(3, 8, LongPolicy::Truncate).collect::<Vec<_>>(), [0..3]);
    }

    proptest! {
        #[test]
        fn every_token_is_in_a_window(tokens in 0usize..3000, size in 1usize..700) {
            let windows = windows(tokens, size);
            prop_assert_eq!(windows[0].start, 0);
            prop_assert_eq!(windows[windows.len() - 1].end, tokens);
            prop_assert!(windows.iter().all(|window| window.len() == size.min(tokens)));
            for pair in windows.windows(2) {
                prop_assert!(pair[0].start < pair[1].start);
                prop_assert!(pair[1].start <= pair[0].end);
                prop_assert!(size < 4 || pair[0].end - pair[1].start >= size / 4);
            }
        }
    }
}
