//! Traces through the public interface: what others measured with the same policies.

mod exact;
