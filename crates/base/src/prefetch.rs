//! Software prefetch: starts loading a cache line that will be read soon, while other work goes on.

/// Prefetches the cache lines of the first and the last of `values`, and does not wait for them. It has no effect on
/// processors other than x86-64.
#[inline]
pub fn prefetch_cacheline<T>(values: &[T]) {
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
