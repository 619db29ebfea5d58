//! Readiness: whether a load balancer should send requests here, and why not.

use serde::Serialize;

/// Where a Zonal is between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Devices are opened and read.
    Starting,
    /// Requests are served.
    Serving,
    /// It was told to stop: what is under way may end.
    Draining,
}

/// A shard's share of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Which device.
    pub(super) device: usize,
    /// It no longer answers.
    pub(super) is_lost: bool,
    /// ... and may come back.
    pub(super) is_isolated: bool,
}

/// The answer of `/readyz`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Readiness {
    pub(super) ready: bool,
    /// For people.
    why: &'static str,
    /// Somebody switched the cache off. It does not count: requests are answered, by the origin.
    cache_off: bool,
    /// Devices, or shares of them, that no longer answer: what they held is fetched from the origin.
    lost_devices: Vec<String>,
    /// Devices that are better done without until they answer well again: the same, for that time.
    isolated_devices: Vec<String>,
    /// For people. It does not count: another node would ask the same origin, and what is cached is here.
    pub(super) origin_trouble: Option<String>,
}

/// `shares` is `None` when a shard does not answer.
pub(super) fn judge(phase: Phase, shares: Option<&[Share]>, devices: &[String]) -> Readiness {
    let names_of = |is_such: fn(&&Share) -> bool| {
        let such = shares.unwrap_or_default().iter().filter(is_such);
        let mut names: Vec<String> =
            such.map(|share| devices.get(share.device).cloned().unwrap_or_default()).collect();
        names.dedup();
        names
    };
    let lost_devices = names_of(|share| share.is_lost && !share.is_isolated);
    let isolated_devices = names_of(|share| share.is_isolated);
    let all_lost = shares.is_some_and(|shares| shares.iter().all(|share| share.is_lost));
    let (ready, why) = match (phase, shares) {
        (Phase::Starting, _) => (false, "the devices are being opened"),
        (Phase::Draining, _) => (false, "it was told to stop"),
        (Phase::Serving, None) => (false, "a shard does not answer"),
        (Phase::Serving, Some(_)) if all_lost => (false, "every device is lost"),
        (Phase::Serving, Some(_)) if !lost_devices.is_empty() => (true, "a device is lost"),
        (Phase::Serving, Some(_)) if !isolated_devices.is_empty() => (true, "a device is isolated"),
        (Phase::Serving, Some(_)) => (true, "serving"),
    };
    let origin_trouble = None;
    Readiness { ready, why, cache_off: false, lost_devices, isolated_devices, origin_trouble }
}

impl Readiness {
    /// Every read goes to the origin.
    pub(super) const fn switched_off(&mut self) {
        self.cache_off = true;
        if self.ready {
            self.why = "serving from the origin: the cache is switched off";
        }
    }

    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("text and a flag are JSON");
        json + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn share(device: usize, is_lost: bool) -> Share {
        Share { device, is_lost, is_isolated: false }
    }

    #[track_caller]
    fn check(phase: Phase, shares: Option<&[Share]>, expected: &str) {
        let devices = ["file:a".to_owned(), "file:b".to_owned()];
        assert_eq!(judge(phase, shares, &devices).to_json().trim_end(), expected);
    }

    #[test]
    fn it_is_ready_while_it_serves_and_one_device_is_left() {
        let whole = [share(0, false), share(1, false)];
        let half = [share(0, false), share(1, true)];
        let none = [share(0, true), share(1, true)];
        check(
            Phase::Starting,
            Some(&[]),
            r#"{"ready":false,"why":"the devices are being opened","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null}"#,
        );
        check(
            Phase::Serving,
            Some(&whole),
            r#"{"ready":true,"why":"serving","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null}"#,
        );
        check(
            Phase::Serving,
            Some(&half),
            r#"{"ready":true,"why":"a device is lost","cache_off":false,"lost_devices":["file:b"],"isolated_devices":[],"origin_trouble":null}"#,
        );
        check(
            Phase::Serving,
            Some(&none),
            r#"{"ready":false,"why":"every device is lost","cache_off":false,"lost_devices":["file:a","file:b"],"isolated_devices":[],"origin_trouble":null}"#,
        );
        let isolated = [share(0, false), Share { is_isolated: true, ..share(1, true) }];
        check(
            Phase::Serving,
            Some(&isolated),
            r#"{"ready":true,"why":"a device is isolated","cache_off":false,"lost_devices":[],"isolated_devices":["file:b"],"origin_trouble":null}"#,
        );
        check(
            Phase::Serving,
            None,
            r#"{"ready":false,"why":"a shard does not answer","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null}"#,
        );
        check(
            Phase::Draining,
            Some(&whole),
            r#"{"ready":false,"why":"it was told to stop","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null}"#,
        );
    }
    #[test]
    fn switched_off_it_is_as_ready_as_before_and_says_so() {
        let mut readiness = judge(Phase::Serving, Some(&[share(0, false)]), &[]);
        readiness.switched_off();
        assert!(readiness.ready && readiness.to_json().contains(r#""cache_off":true"#));
        assert!(readiness.why.contains("switched off"));
        let mut readiness = judge(Phase::Draining, Some(&[]), &[]);
        readiness.switched_off();
        assert_eq!((readiness.ready, readiness.why), (false, "it was told to stop"));
    }
}
