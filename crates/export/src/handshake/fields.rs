//! Option data parser: reads fields from front to back; a missing field is `None`.

/// The bytes that are not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Parses a 32-bit length and as many bytes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(zonal_base::index(length.into()))
    }

    /// True if all bytes have been parsed.
    const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Data of `INFO` and `GO`: an export name, and the requested information items.
pub(super) fn inquiry(data: &[u8]) -> Option<(&[u8], impl Iterator<Item = u16> + Clone)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u16()?;
    let items = fields.bytes(2 * usize::from(count))?;
    if !fields.is_at_end() {
        return None;
    }
    let mut items = Fields(items);
    Some((name, core::iter::from_fn(move || items.u16())))
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: an export name, and context queries.
pub(super) fn queries(data: &[u8]) -> Option<(&[u8], impl Iterator<Item = &[u8]> + Clone)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    let first = fields;
    for _ in 0..count {
        fields.string()?;
    }
    if !fields.is_at_end() {
        return None;
    }
    let mut rest = first;
    Some((name, core::iter::from_fn(move || rest.string())))
}
