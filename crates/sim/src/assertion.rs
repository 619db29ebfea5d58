//! An engine with a bug may fall over one of its own assertions: that is found, too.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::violation::{ViolationKind, Wrong};

thread_local! {
    /// `None`: this thread plays no history, and its panics are nobody's but its own.
    static FALLEN: RefCell<Option<Vec<Wrong>>> = const { RefCell::new(None) };
}

/// What `play` returns, or the first assertion over which it fell.
pub(crate) fn caught<T>(play: impl FnOnce() -> T) -> Result<T, Wrong> {
    listen();
    FALLEN.set(Some(Vec::new()));
    let outcome = catch_unwind(AssertUnwindSafe(play));
    let fallen = FALLEN.take().unwrap_or_default();
    outcome.map_err(|_| {
        let first = fallen.into_iter().next();
        first.unwrap_or_else(|| ViolationKind::Assertion("?".into()).wrong("it fell over".into()))
    })
}

/// Panics of histories are noted, not printed: shrinking runs into the same one again and again.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            let is_noted = FALLEN.with_borrow_mut(|fallen| match fallen {
                Some(fallen) => {
                    fallen.push(wrong(panic));
                    true
                }
                None => false,
            });
            if !is_noted {
                others(panic);
            }
        }));
    });
}

fn wrong(panic: &PanicHookInfo<'_>) -> Wrong {
    let place = panic.location().map_or_else(String::new, ToString::to_string);
    let what = panic.payload_as_str().unwrap_or("an assertion of the engine");
    ViolationKind::Assertion(place).wrong(what.to_owned())
}
