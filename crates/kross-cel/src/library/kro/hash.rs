//! Hashes of strings, as bytes.

use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::super::arguments::{charge_bytes, functions, text};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Hash functions.
pub static LIBRARY: Library = Library {
    name: "hash",
    functions: functions! {
        "hash.fnv64a": "Returns the 64-bit FNV-1a hash: 8 bytes." {
            "hash.fnv64a(string) -> bytes" => |call, a| digest(call, a, |text| fnv64a(text).to_be_bytes().to_vec()),
        }
        "hash.md5": "Returns the MD5 hash: 16 bytes. It is not secure." {
            "hash.md5(string) -> bytes" => |call, a| digest(call, a, |text| Md5::digest(text).to_vec()),
        }
        "hash.sha256": "Returns the SHA-256 hash: 32 bytes." {
            "hash.sha256(string) -> bytes" => |call, a| digest(call, a, |text| Sha256::digest(text).to_vec()),
        }
    },
};

fn digest(call: &mut Call<'_>, arguments: &[Value], hash: fn(&[u8]) -> Vec<u8>) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    Ok(Value::Bytes(hash(text.as_bytes()).into()))
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
