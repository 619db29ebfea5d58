//! Catches panics: a failed assertion of the engine is a violation of the history.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::violation::{ViolationKind, Wrong};

thread_local! {
    /// `None`: this thread runs no history, so its panics are not caught.
    static FALLEN: RefCell<Option<Vec<Wrong>>> = const { RefCell::new(None) };
}

/// Result of `play`, or the first assertion that failed in it.
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

/// Installs the panic hook. Panics of histories are recorded, not printed, because shrinking hits
/// the same one many times.
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
