//! What this library is held to: the schemas' vectors, examples, fields and transcripts, laws of
//! first fit and EASY, and a server over real sockets.

use serde::de::DeserializeOwned;

mod codec;
mod easy;
mod schemas;
mod session;
mod transcripts;
mod view;

fn schemas_folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

fn from_schemas<T: DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read(schemas_folder().join(name)).expect(name);
    serde_json::from_slice(&text).expect(name)
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<char> = digits.chars().filter(|one| !one.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// Numbers without seeds or crates: xorshift, Marsaglia 2003.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
