//! How much may be written to flash: a share of what is asked for.
//!
//! What is written again to keep it is paid for, too: a policy that moves much admits little.

use zonal_base::Bytes;

use crate::share::Share;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    share: Share,
    asked_for: Bytes,
    written: Bytes,
}

impl Budget {
    pub(crate) const fn new(share: Share) -> Self {
        Self { share, asked_for: Bytes(0), written: Bytes(0) }
    }

    /// So much was asked for.
    pub fn earn(&mut self, len: Bytes) {
        self.asked_for += len;
    }

    /// So much was written in all.
    pub const fn note_written(&mut self, written: Bytes) {
        self.written = written;
    }

    /// Whether so much may be written now.
    #[must_use]
    pub fn affords(&self, len: Bytes) -> bool {
        self.written + len <= self.share.of_bytes(self.asked_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_earned_in_part() {
        let mut budget = Budget::new(Share::percent(25));
        assert!(!budget.affords(Bytes(1)));
        budget.earn(Bytes(8));
        assert!(budget.affords(Bytes(2)) && !budget.affords(Bytes(3)));
        budget.note_written(Bytes(2));
        assert!(!budget.affords(Bytes(1)));
    }
}
