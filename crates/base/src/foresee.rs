//! Memory that will be looked at soon: it is far, and on its way while something else is done.

/// Asks for the memory in which the first and the last of `values` lie, and does not wait for it. Nothing else
/// happens; where we know of no such instruction, nothing at all.
#[inline]
pub fn foresee<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    if let [first, .., last] = values {
        safe_arch::prefetch_t0(first);
        safe_arch::prefetch_t0(last);
    } else if let [only] = values {
        safe_arch::prefetch_t0(only);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}
