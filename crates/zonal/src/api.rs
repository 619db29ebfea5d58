//! JSON documents of the API under `/api/v1/`: written by `admin`, read by `zonal cache` and by
//! anybody's programs. `docs/api.md` documents them.

pub(crate) mod latency;
pub(crate) mod zones;
