//! Pseudo-random values that are determined by a seed.

use sha2::{Digest as _, Sha256};

use super::super::arguments::{charge_bytes, functions, grow, int, text};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Seeded random values.
pub static LIBRARY: Library = Library {
    name: "random",
    functions: functions! {
        "random.seededInt": "Returns an integer from the first argument up to, but not including, the second, determined by the seed." {
            "random.seededInt(int, int, string) -> int" => seeded_int,
        }
        "random.seededString": "Returns a string of the given length of digits and lower-case letters, determined by the seed. It repeats after eight characters." {
            "random.seededString(int, string) -> string" => seeded_string,
        }
    },
};

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn seed_hash(call: &mut Call<'_>, seed: &str) -> Result<[u8; 32], Fault> {
    charge_bytes(call, seed.len())?;
    Ok(Sha256::digest(seed.as_bytes()).into())
}

fn seeded_int(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (min, max) = (int(arguments, 0)?, int(arguments, 1)?);
    if min >= max {
        return Err(Fault::invalid("random.seededInt: min must be less than max"));
    }
    let hash = seed_hash(call, text(arguments, 2)?)?;
    let (first, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let size = max.wrapping_sub(min).cast_unsigned();
    let offset = u64::from_be_bytes(*first).checked_rem(size).unwrap_or(0);
    Ok(Value::Int(min.wrapping_add(offset.cast_signed())))
}

fn seeded_string(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let length = usize::try_from(int(arguments, 0)?).ok().filter(|length| *length > 0);
    let length = length.ok_or_else(|| Fault::invalid("random.seededString: the length must be positive"))?;
    grow(call, "random.seededString", length)?;
    let hash = seed_hash(call, text(arguments, 1)?)?;
    // Each character uses four of the 32 bytes of the hash; like kro, repeat them.
    let (chunks, _) = hash.as_chunks::<4>();
    let letters = chunks.iter().map(|chunk| {
        let number = u32::from_be_bytes(*chunk) % 36;
        usize::try_from(number)
            .ok()
            .and_then(|number| ALPHABET.get(number))
            .map_or('0', |letter| char::from(*letter))
    });
    let letters: Vec<char> = letters.collect();
    Ok(Value::string(letters.iter().cycle().take(length).collect::<String>()))
}
