//! Percentages: fixed-point shares of counts and bytes, for the settings of policies.

use zonal_base::{Bytes, index};

/// A share in hundred thousandths: a percentage with up to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share(u32);

const WHOLE: u32 = 100_000;
const DECIMALS: usize = 3;

impl Share {
    pub(crate) const NOTHING: Self = Self(0);
    pub(crate) const ALL: Self = Self(WHOLE);

    pub(crate) const fn percent(percent: u32) -> Self {
        Self(percent * (WHOLE / 100))
    }

    /// Parses a percentage, as in `12.5%`. `None` when the share is more than `most`, or the text is no share.
    pub(crate) fn parse(text: &str, most: Self) -> Option<Self> {
        Self::number(text.strip_suffix('%')?, WHOLE / 100, most)
    }

    /// Parses a multiple, as in `0.5`, where 1 is the whole.
    pub(crate) fn parse_times(text: &str, most: Self) -> Option<Self> {
        Self::number(text, WHOLE, most)
    }

    /// Parses a number with up to three decimals, where 1 is `one`.
    fn number(number: &str, one: u32, most: Self) -> Option<Self> {
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let digits = decimals.len();
        if !is_digits(whole) || !is_digits(decimals) || digits == 0 || DECIMALS < digits {
            return None;
        }
        let thousandths =
            decimals.parse::<u32>().ok()? * 10u32.pow(u32::try_from(DECIMALS - digits).ok()?);
        let decimals = thousandths * (one / 1000);
        let share = whole.parse::<u32>().ok()?.checked_mul(one)?.checked_add(decimals)?;
        Some(Self(share)).filter(|share| *share <= most)
    }

    /// This share of a count, rounded down.
    pub(crate) fn of(self, count: usize) -> usize {
        index(self.of_bytes(Bytes(count as u64)).0)
    }

    /// This share of some bytes, rounded down.
    pub(crate) fn of_bytes(self, bytes: Bytes) -> Bytes {
        let share = u128::from(bytes.0) * u128::from(self.0) / u128::from(WHOLE);
        Bytes(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        let parse = |text| Share::parse(text, Share::percent(200));
        assert_eq!(parse("12.5%"), Some(Share(12_500)));
        assert_eq!(parse("0.125%"), Some(Share(125)));
        assert_eq!(parse("200%"), Some(Share::percent(200)));
        for text in ["", "%", "5", ".%", "5.%", "1.2345%", "-1%", "+1%", "1.+2%", "200.001%"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(Share::percent(30).of(7), 2);
        assert_eq!(Share::percent(130).of_bytes(Bytes::kib(10)), Bytes::kib(13));
    }
}
