//! How much may be written to flash: a share of what is asked for.
//!
//! What is written again to keep it is paid for, too: a policy that moves much admits little.

use zonal_base::Bytes;

use crate::share::Share;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    share: Share,
}

impl Budget {
    pub(crate) const fn new(share: Share) -> Self {
        Self { share }
    }

    /// Whether `len` may be written now: so much was asked for until now, and so much written.
    #[must_use]
    pub fn affords(&self, len: Bytes, asked_for: Bytes, written: Bytes) -> bool {
        written + len <= self.share.of_bytes(asked_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_earned_in_part() {
        let budget = Budget::new(Share::percent(25));
        let affords =
            |len, asked_for, written| budget.affords(Bytes(len), Bytes(asked_for), Bytes(written));
        assert!(!affords(1, 0, 0));
        assert!(affords(2, 8, 0) && !affords(3, 8, 0));
        assert!(!affords(1, 8, 2));
    }
}
