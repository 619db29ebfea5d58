//! Readiness probe: whether a load balancer should send requests to this node, and why not.

use std::collections::BTreeMap;

use serde::Serialize;

use zonal_api::live::Trouble;

/// Life cycle of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Opening devices and recovering their logs.
    Starting,
    /// Serving requests.
    Serving,
    /// Graceful shutdown: running requests may finish.
    Draining,
}

/// State of one shard of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardState {
    /// Index of the device.
    pub(super) device: usize,
    /// The shard does not answer; true for an isolated one, too.
    pub(super) is_lost: bool,
    /// The shard's device is isolated and may be readmitted.
    pub(super) is_isolated: bool,
}

/// JSON response of `/readyz`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Readiness {
    pub(super) ready: bool,
    /// Reason, for people.
    why: &'static str,
    /// An operator switched the cache off. Readiness ignores it: the origin answers the requests.
    cache_off: bool,
    /// Devices of which at least one shard is lost: what was on them is fetched from the origin.
    lost_devices: Vec<String>,
    /// Isolated devices: what is on them is fetched from the origin until they are readmitted.
    isolated_devices: Vec<String>,
    /// Origin errors, for people. Readiness ignores them: another node would use the same origin,
    /// and this one has the cached data.
    pub(super) origin_trouble: Option<String>,
    /// Origins that answer nothing: requests for them fail at once, until a probe is answered.
    pub(super) silent_origins: Vec<String>,
    /// Where the credentials of the origins come from, of those whose providers renew them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) origin_credentials: Vec<CredentialReport>,
}

/// Where the credentials of one origin come from. It has no secret.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CredentialReport {
    pub(super) origin: String,
    /// The provider that has the credentials; `None` while none has.
    pub(super) provider: Option<String>,
    pub(super) account: Option<String>,
    pub(super) role: Option<String>,
    /// Seconds until the credentials expire.
    pub(super) expires_in_s: Option<u64>,
    /// Why the other providers have none.
    pub(super) others: BTreeMap<String, String>,
}

/// Decides readiness. `shares` is `None` if a shard did not answer in time.
pub(super) fn judge(phase: Phase, shares: Option<&[ShardState]>, devices: &[String]) -> Readiness {
    let names_of = |is_such: fn(&&ShardState) -> bool| {
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
        (Phase::Starting, _) => (false, "starting: opening the devices"),
        (Phase::Draining, _) => (false, "stopping"),
        (Phase::Serving, None) => (false, "a shard does not answer"),
        (Phase::Serving, Some(_)) if all_lost && !isolated_devices.is_empty() => {
            (false, "all devices are lost or isolated")
        }
        (Phase::Serving, Some(_)) if all_lost => (false, "all devices are lost"),
        (Phase::Serving, Some(_)) if !lost_devices.is_empty() => (true, "a device is lost"),
        (Phase::Serving, Some(_)) if !isolated_devices.is_empty() => (true, "a device is isolated"),
        (Phase::Serving, Some(_)) => (true, "serving"),
    };
    Readiness {
        ready,
        why,
        cache_off: false,
        lost_devices,
        isolated_devices,
        origin_trouble: None,
        silent_origins: Vec::new(),
        origin_credentials: Vec::new(),
    }
}

impl Readiness {
    /// Records that the cache is switched off, so that every read goes to the origin.
    pub(super) const fn switched_off(&mut self) {
        self.cache_off = true;
        if self.ready {
            self.why = "serving from the origin: the cache is switched off";
        }
    }

    /// What is wrong, for people, with the alert that says what to do.
    pub(super) fn trouble(&self) -> Vec<Trouble> {
        let mut all = Vec::new();
        let mut tell = |text: String, alert| all.push(Trouble { text, alert });
        if !self.ready {
            tell(format!("not ready: {}", self.why), "ZonalDeviceLost");
        }
        for device in &self.lost_devices {
            tell(format!("device {device} is lost: the origin serves its data"), "ZonalDeviceLost");
        }
        for device in &self.isolated_devices {
            let text = format!("device {device} is isolated: the origin serves its data");
            tell(text, "ZonalDeviceIsolated");
        }
        for origin in &self.silent_origins {
            tell(format!("origin {origin} answers nothing"), "ZonalOriginTrouble");
        }
        if let Some(trouble) = &self.origin_trouble {
            tell(format!("origin unhealthy: {trouble}"), "ZonalOriginTrouble");
        }
        if self.cache_off {
            let text = "the cache is switched off: the origin serves all reads";
            tell(text.to_owned(), "ZonalSwitchedOff");
        }
        all
    }

    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("text and a flag are JSON");
        json + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn share(device: usize, is_lost: bool) -> ShardState {
        ShardState { device, is_lost, is_isolated: false }
    }

    #[track_caller]
    fn check(phase: Phase, shares: Option<&[ShardState]>, expected: &str) {
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
            r#"{"ready":false,"why":"starting: opening the devices","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
        check(
            Phase::Serving,
            Some(&whole),
            r#"{"ready":true,"why":"serving","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
        check(
            Phase::Serving,
            Some(&half),
            r#"{"ready":true,"why":"a device is lost","cache_off":false,"lost_devices":["file:b"],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
        check(
            Phase::Serving,
            Some(&none),
            r#"{"ready":false,"why":"all devices are lost","cache_off":false,"lost_devices":["file:a","file:b"],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
        let all_isolated = [ShardState { is_isolated: true, ..share(0, true) }];
        check(
            Phase::Serving,
            Some(&all_isolated),
            r#"{"ready":false,"why":"all devices are lost or isolated","cache_off":false,"lost_devices":[],"isolated_devices":["file:a"],"origin_trouble":null,"silent_origins":[]}"#,
        );
        let isolated = [share(0, false), ShardState { is_isolated: true, ..share(1, true) }];
        check(
            Phase::Serving,
            Some(&isolated),
            r#"{"ready":true,"why":"a device is isolated","cache_off":false,"lost_devices":[],"isolated_devices":["file:b"],"origin_trouble":null,"silent_origins":[]}"#,
        );
        check(
            Phase::Serving,
            None,
            r#"{"ready":false,"why":"a shard does not answer","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
        check(
            Phase::Draining,
            Some(&whole),
            r#"{"ready":false,"why":"stopping","cache_off":false,"lost_devices":[],"isolated_devices":[],"origin_trouble":null,"silent_origins":[]}"#,
        );
    }

    #[test]
    fn each_trouble_is_told_with_its_alert() {
        let devices = ["file:a".to_owned(), "file:b".to_owned()];
        let judged = |shares| judge(Phase::Serving, shares, &devices);
        let whole = [share(0, false), share(1, false)];
        assert_eq!(judged(Some(&whole)).trouble(), []);
        let isolated = [share(0, false), ShardState { is_isolated: true, ..share(1, true) }];
        let mut readiness = judged(Some(&isolated));
        readiness.silent_origins.push("main".to_owned());
        readiness.switched_off();
        let told: Vec<_> = readiness.trouble().iter().map(|trouble| trouble.alert).collect();
        assert_eq!(told, ["ZonalDeviceIsolated", "ZonalOriginTrouble", "ZonalSwitchedOff"]);
        let stuck = judged(None).trouble();
        assert_eq!(stuck[0].text, "not ready: a shard does not answer");
        // Each alert has its row among the rules.
        let rules = include_str!("../../../../packaging/alerts.yml");
        for trouble in readiness.trouble().iter().chain(&stuck) {
            assert!(rules.contains(&format!("alert: {}\n", trouble.alert)), "{trouble:?}");
        }
    }

    #[test]
    fn switched_off_it_is_as_ready_as_before_and_says_so() {
        let mut readiness = judge(Phase::Serving, Some(&[share(0, false)]), &[]);
        readiness.switched_off();
        assert!(readiness.ready && readiness.to_json().contains(r#""cache_off":true"#));
        assert!(readiness.why.contains("switched off"));
        let mut readiness = judge(Phase::Draining, Some(&[]), &[]);
        readiness.switched_off();
        assert_eq!((readiness.ready, readiness.why), (false, "stopping"));
    }
}
