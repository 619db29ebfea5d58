//! The S3 endpoint over TCP, with a real cache on a file. The origin is a folder or a misbehaving
//! server.

#[cfg(test)]
mod bad_clients;
#[cfg(test)]
mod bad_origins;
#[cfg(test)]
mod bypass;
#[cfg(test)]
mod client;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod denied;
#[cfg(test)]
mod freshness;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod named_versions;
#[cfg(test)]
mod origin_authorization;
#[cfg(test)]
mod origin_requests;
#[cfg(test)]
mod past_keys;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod real_origin;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod several;
#[cfg(test)]
mod versions;
#[cfg(test)]
#[path = "../../../origin/tests/versitygw/server.rs"]
mod versitygw;
#[cfg(test)]
mod virtual_hosted;
#[cfg(test)]
mod world;
#[cfg(test)]
mod writes;
