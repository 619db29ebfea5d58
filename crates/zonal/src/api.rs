//! JSON documents of the API under `/api/v1/`: written by `admin`, read by `zonal cache`, by the
//! page at `/ui` and by anybody's programs. `docs/api.md` documents them.

pub(crate) mod block;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod latency;
pub(crate) mod live;
pub(crate) mod origins;
pub(crate) mod prefixes;
pub(crate) mod zones;
